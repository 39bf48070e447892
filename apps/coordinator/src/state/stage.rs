//! A private directory in which a database is prepared: SQLite can open it there as a coordinator's, and no other user can replace a part of it meanwhile.
//!
//! Usually it is beside the file that it is for, so that one rename puts the file in place. In a directory of another user, though, that user can rename everything and put links in
//! its place, which root would follow to any file of the system. There root prepares the database in the system's directory of temporary files, where only its owner renames a
//! directory, and copies it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::random;
use crate::process::effective_uid;
use crate::store::FILE;

/// Bits of a directory's mode that let other users rename its files.
const WRITABLE: u32 = 0o022;

/// Sticky bit of a directory's mode: only the owner of a file, or of the directory, can rename that file.
const STICKY: u32 = 0o1000;

/// The private directory. It is removed when this value is dropped.
pub(super) struct Stage {
    path: PathBuf,
    /// True if the directory is in the directory of the target file.
    is_beside: bool,
}

impl Stage {
    /// Creates a new private directory in which a file for `target` is prepared.
    pub(super) fn new(target: &Path) -> io::Result<Self> {
        let is_beside = is_safe(target)?;
        let folder = if is_beside { target.to_path_buf() } else { std::env::temp_dir() };
        if !is_safe(&folder)? {
            let folder = folder.display();
            return Err(io::Error::other(format!(
                "other users can rename any file in {folder}; set TMPDIR to a directory of root"
            )));
        }
        let path = folder.join(new_name());
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path, is_beside })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the database in the private directory.
    pub(super) fn database(&self) -> PathBuf {
        self.path.join(FILE)
    }

    /// Brings the database, synced, to a new name in the directory `target`, for which the stage was made. Returns its path there and the file.
    pub(super) fn bring_to(&self, target: &Path) -> io::Result<(PathBuf, File)> {
        let made = target.join(new_name());
        let mut from = File::open(self.database())?;
        if self.is_beside {
            from.sync_all()?;
            fs::rename(self.database(), &made)?;
            return Ok((made, from));
        }
        // `create_new` fails if the name exists, so no link is followed.
        let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&made)?;
        match io::copy(&mut from, &mut to).and_then(|_| to.sync_all()) {
            Ok(()) => Ok((made, to)),
            Err(error) => {
                let _ = fs::remove_file(&made);
                Err(error)
            }
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // `remove_dir_all` follows no link, even if another user puts one there at this moment.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Returns true if no other user can misuse this process by a link in a directory. The check is only for root: any other process has no rights that such a user could gain.
fn is_safe(directory: &Path) -> io::Result<bool> {
    let is_root = effective_uid()? == 0;
    let about = fs::metadata(directory)?;
    let is_shared = about.mode() & WRITABLE != 0 && about.mode() & STICKY == 0;
    Ok(!is_root || about.uid() == 0 && !is_shared)
}

/// Returns a random name, which no other user can guess and create first.
fn new_name() -> String {
    format!(".taut-new-{:016x}", u64::from_le_bytes(random()))
}

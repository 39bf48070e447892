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
use crate::store::FILE;

/// Bits of a directory's mode with which others can rename what is in it.
const WRITABLE: u32 = 0o022;

/// Bit of a directory's mode that lets only owners rename.
const STICKY: u32 = 0o1000;

/// The directory, which is removed when this is dropped.
pub(super) struct Stage {
    path: PathBuf,
    /// True if it is beside the file that it is for.
    is_beside: bool,
}

impl Stage {
    /// Creates the directory, new and private, for a file in `target`.
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

    /// Returns the path of the database in it.
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
        // New, so that no link is followed.
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
        // Follows no link, also if one is put there at this moment.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Returns true if no other user can make this process follow a link in a directory: only root has to fear that, because others get no more rights by it.
fn is_safe(directory: &Path) -> io::Result<bool> {
    let is_root = fs::metadata("/proc/self")?.uid() == 0;
    let about = fs::metadata(directory)?;
    let is_shared = about.mode() & WRITABLE != 0 && about.mode() & STICKY == 0;
    Ok(!is_root || about.uid() == 0 && !is_shared)
}

/// Returns a name that nobody can have prepared.
fn new_name() -> String {
    format!(".taut-new-{:016x}", u64::from_le_bytes(random()))
}

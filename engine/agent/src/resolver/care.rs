//! Files of the host, read and written with care: the helper runs as root, and a local user may own a directory that a resolver names. Such a user must neither
//! have it overwrite a file, nor wait, nor read for ever.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use taut_event::{open_regular, open_regular_no_link};

/// Longest text that is read, 64 KiB: hundreds of times what a file of settings has. Device files have no end.
const MOST: u64 = 64 * 1024;
/// Permissions of group and others to write.
const WRITABLE: u32 = 0o022;
/// The sticky bit of a directory.
const STICKY: u32 = 0o1000;
/// Permissions of a file that programs of all users read.
const READABLE: u32 = 0o644;

/// Returns the path without links, if nobody but root can change what it names: it and each directory above it belong to root, and neither group nor others may
/// write to them. Directories above it may be writable for all if they have the sticky bit, as `/tmp` (on OpenWrt the settings of dnsmasq are below it): others cannot
/// rename or remove there what belongs to root (unlink(2)), and what they made there before root is theirs. In a directory itself they could make a file before root does.
pub(super) fn of_root(path: &Path) -> Option<PathBuf> {
    let real = path.is_absolute().then(|| fs::canonicalize(path).ok()).flatten()?;
    let mode_of_roots = |part: &Path| {
        let found = fs::symlink_metadata(part).ok().filter(|found| found.uid() == 0)?;
        Some(found.mode())
    };
    let is_closed = |part: &Path| mode_of_roots(part).is_some_and(|mode| mode & WRITABLE == 0);
    let is_kept = |part: &Path| mode_of_roots(part).is_some_and(|mode| mode & WRITABLE == 0 || mode & STICKY != 0);
    (is_closed(&real) && real.ancestors().skip(1).all(is_kept)).then_some(real)
}

/// Reads a regular file that nobody but root can change.
pub(super) fn read_of_root(path: &Path) -> Option<String> {
    text(&open_regular_no_link(&of_root(path)?).ok()?).ok()
}

/// Reads a regular file that is no link.
pub(super) fn read_no_link(path: &Path) -> Option<String> {
    text(&open_regular_no_link(path).ok()?).ok()
}

/// Reads a regular file. Links are followed, as `/etc/resolv.conf` may be one.
pub(super) fn read(path: &Path) -> io::Result<String> {
    text(&open_regular(path)?)
}

fn text(file: &File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    // A comment in another encoding must not hide the rest.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes a file that no one had before, and waits until it is on the disk: after a loss of power, a renamed file is otherwise empty. What is there under this
/// name is removed, as is a link, which leads elsewhere.
pub(super) fn create(path: &Path, text: &[u8]) -> io::Result<()> {
    let _ = fs::remove_file(path);
    // The kernel follows no link where it has to make the file.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(READABLE).open(path)?;
    file.write_all(text)?;
    file.sync_all()
}

/// Has the file at `path` have this text. Programs see the old file or the new one, and a link at this place is replaced, not followed.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    // dnsmasq reads no files that begin with a dot.
    let new = path.with_file_name(std::ffi::OsStr::from_bytes(&[b".", name.as_bytes(), b".new"].concat()));
    create(&new, text.as_bytes())?;
    fs::rename(&new, path).inspect_err(|_| drop(fs::remove_file(&new)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_path_that_others_can_change_is_refused_and_no_link_is_written_through() {
        let folder = std::env::temp_dir().join(format!("taut-care-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let mode = |mode: u32| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o777);
        assert_eq!(of_root(&folder), None, "others can make files in it");
        fs::create_dir(folder.join("in")).unwrap();
        assert_eq!(of_root(&folder.join("in")), None, "others can make another one of this name");
        mode(0o1777);
        assert_eq!((of_root(&folder), of_root(&std::env::temp_dir())), (None, None), "others can make files in them");
        let is_root = fs::symlink_metadata(&folder).unwrap().uid() == 0;
        assert_eq!(of_root(&folder.join("in")).is_some(), is_root, "others cannot remove what belongs to root");
        mode(0o755);
        assert_eq!(of_root(Path::new("etc")), None);
        assert!(of_root(Path::new("/etc")).is_some() && of_root(Path::new("/etc/passwd")).is_some());
        let (victim, link) = (folder.join("victim"), folder.join("link"));
        fs::write(&victim, "secret").unwrap();
        symlink(&victim, folder.join(".link.new")).unwrap();
        symlink(&victim, &link).unwrap();
        assert_eq!(read_no_link(&link), None);
        replace(&link, "new").unwrap();
        assert_eq!(
            (fs::read_to_string(&victim).unwrap().as_str(), read_no_link(&link).as_deref()),
            ("secret", Some("new"))
        );
        assert!(read(Path::new("/dev/zero")).is_err(), "a device has no end");
        fs::set_permissions(&victim, fs::Permissions::from_mode(0o666)).unwrap();
        fs::write(&victim, vec![b'x'; 100_000]).unwrap();
        assert_eq!(read(&victim).unwrap().len(), 65_536);
        fs::remove_dir_all(&folder).unwrap();
    }
}

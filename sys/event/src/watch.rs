//! News of files that other programs write, as a descriptor (man 7 inotify).

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Length of an event without its name: watch, mask, cookie and the length of the name, 4 bytes each.
const HEADER: usize = 16;

/// Watches the entries of directories: files that are written, replaced or removed.
pub struct DirectoryWatch {
    pending: File,
}

impl DirectoryWatch {
    /// Creates a watch of no directory.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is a new descriptor.
        let pending = unsafe { crate::owned(libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK)) }?;
        Ok(Self { pending: File::from(pending) })
    }

    /// Watches the entries of this directory, too. A directory that is watched already counts once.
    pub fn add(&self, directory: &Path) -> io::Result<()> {
        let path = CString::new(directory.as_os_str().as_bytes())?;
        let mask = libc::IN_CLOSE_WRITE | libc::IN_MOVED_TO | libc::IN_MOVED_FROM | libc::IN_CREATE | libc::IN_DELETE;
        // SAFETY: `path` ends with a zero byte and lives across the call.
        let watch = unsafe { libc::inotify_add_watch(self.pending.as_raw_fd(), path.as_ptr(), mask) };
        if watch < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Returns the names of entries that changed since the last call. Never blocks.
    pub fn changed(&self) -> Vec<OsString> {
        let (mut buffer, mut names) = ([0; 4096], Vec::new());
        // The kernel writes whole events only, and the longest one fits into the buffer.
        while let Ok(length @ 1..) = (&self.pending).read(&mut buffer) {
            names.extend(names_in(buffer.get(..length).unwrap_or_default()));
        }
        names
    }
}

impl AsFd for DirectoryWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pending.as_fd()
    }
}

/// Returns the names in events, each filled up with zero bytes.
fn names_in(mut events: &[u8]) -> Vec<OsString> {
    let mut names = Vec::new();
    while let Some(length) = events.get(HEADER - 4..HEADER).and_then(|field| field.first_chunk()) {
        let end = HEADER + u32::from_ne_bytes(*length) as usize;
        let name = events.get(HEADER..end).unwrap_or_default();
        names.extend(
            name.split(|byte| *byte == 0)
                .next()
                .filter(|name| !name.is_empty())
                .map(|name| OsStr::from_bytes(name).to_owned()),
        );
        events = events.get(end..).unwrap_or_default();
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_that_are_written_replaced_and_removed_are_named() {
        let directory = std::env::temp_dir().join(format!("taut-event-watch-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let watch = DirectoryWatch::new().unwrap();
        watch.add(&directory).unwrap();
        assert!(watch.changed().is_empty());
        let (one, other) = (directory.join("one"), directory.join("a longer name than the other"));
        fs::write(&one, "text").unwrap();
        assert!(watch.changed().iter().all(|name| name == "one"));
        fs::rename(&one, &other).unwrap();
        let names = watch.changed();
        assert!(names.contains(&"one".into()) && names.contains(&other.file_name().unwrap().to_owned()), "{names:?}");
        fs::remove_file(&other).unwrap();
        assert_eq!(watch.changed(), [other.file_name().unwrap()]);
        fs::remove_dir(&directory).unwrap();
        assert!(watch.add(&directory).is_err());
        assert!(names_in(&[0; 7]).is_empty(), "cut off");
    }
}

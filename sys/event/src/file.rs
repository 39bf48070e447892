//! Files that a user names, such as those of keys, tokens and settings.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file for reading. Links are followed.
///
/// # Errors
/// For anything else than a regular file, too: opening a named pipe would wait for a writer, and a device may have no end.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open(path, 0)
}

/// Opens a regular file for reading, as [`open_regular`] does, and refuses a symbolic link as the last part of the path: whoever made the link chose what it
/// leads to.
///
/// # Errors
/// For a link and for anything else than a regular file, too.
pub fn open_regular_no_link(path: &Path) -> io::Result<File> {
    open(path, libc::O_NOFOLLOW)
}

fn open(path: &Path, more: libc::c_int) -> io::Result<File> {
    // With O_NONBLOCK the open of a pipe does not wait, so that its type can be read. On a regular file the flag has no effect.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | more).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file (a directory, pipe or device cannot be read here)")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_pipe_is_refused_without_waiting_for_a_writer_and_a_link_to_a_file_is_read() {
        let folder = std::env::temp_dir().join(format!("taut-regular-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let at = |name: &str| folder.join(name);
        assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        let refusals = [at("pipe"), folder.clone(), "/dev/null".into()].map(|path| open_regular(&path).unwrap_err());
        let mut text = String::new();
        open_regular(&at("link")).unwrap().read_to_string(&mut text).unwrap();
        let link = open_regular_no_link(&at("link")).unwrap_err().raw_os_error();
        let file = open_regular_no_link(&at("file")).map(drop);
        let missing = open_regular(&at("missing")).unwrap_err().kind();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(refusals.iter().all(|error| error.to_string().contains("not a regular file")), "{refusals:?}");
        assert_eq!((link, file.is_ok()), (Some(libc::ELOOP), true));
        assert_eq!((text.as_str(), missing), ("text", io::ErrorKind::NotFound));
    }
}

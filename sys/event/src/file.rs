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

/// Opens a regular file for reading and for writing at its end, and makes one of mode 0600 if there is none. Refuses a symbolic link as [`open_regular_no_link`] does.
///
/// # Errors
/// For a link and for anything else than a regular file, too.
pub fn append_regular_no_link(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    open_with(&mut options, path, libc::O_NOFOLLOW)
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
    open_with(OpenOptions::new().read(true), path, more)
}

fn open_with(options: &mut OpenOptions, path: &Path, more: libc::c_int) -> io::Result<File> {
    // With O_NONBLOCK the open of a pipe does not wait, so that its type can be read. On a regular file the flag has no effect.
    let file = options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | more).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file (a directory, pipe or device cannot be read here)")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::fs::MetadataExt;

    use super::*;

    /// Makes a directory of a test, with a named pipe `pipe` in it.
    fn with_pipe(test: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("taut-{test}-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(folder.join("pipe")).status().unwrap().success());
        folder
    }

    #[test]
    fn a_file_to_append_to_is_made_and_neither_a_link_nor_a_pipe_is_one() {
        let folder = with_pipe("append");
        let at = |name: &str| folder.join(name);
        std::os::unix::fs::symlink("other", at("link")).unwrap();
        let write =
            |text: &str| append_regular_no_link(&at("file")).and_then(|mut file| file.write_all(text.as_bytes()));
        let written = write("a").and_then(|()| write("b")).and_then(|()| std::fs::read_to_string(at("file")));
        let mode = std::fs::metadata(at("file")).map(|file| file.mode() & 0o777);
        // It waits for no reader.
        let pipe = append_regular_no_link(&at("pipe")).is_err();
        let link = append_regular_no_link(&at("link")).unwrap_err().raw_os_error();
        let led = at("other").exists();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((written.unwrap().as_str(), mode.unwrap() & 0o077), ("ab", 0));
        assert_eq!((pipe, link, led), (true, Some(libc::ELOOP), false));
    }

    #[test]
    fn a_pipe_is_refused_without_waiting_for_a_writer_and_a_link_to_a_file_is_read() {
        let folder = with_pipe("regular");
        let at = |name: &str| folder.join(name);
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

//! Files with a token, which `sign-in` writes and `--token file:PATH` reads.

use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use taut_base::{encode_base64url, is_printable};
use taut_relay_server::open_regular;

use super::CommandError;
use crate::process::effective_uid;
use crate::state::Secret;

/// Start of a token that is in a file.
pub(super) const FILE: &str = "file:";

/// Largest file with a token, 4 KiB. A token has 51 bytes.
const LARGEST: u64 = 4_096;

/// The user that may do everything.
const ROOT: u32 = 0;

/// Mode bits with which the group or all users may write a file.
const OTHERS_WRITE: u32 = 0o022;

/// Mode bit with which only the owner of a file may remove it from a directory.
const STICKY: u32 = 0o1000;

/// Returns a token: the text itself, or the first line of the file that it names.
pub(super) fn read(text: String) -> Result<String, CommandError> {
    let Some(path) = text.strip_prefix(FILE) else { return Ok(text) };
    let failed = |error: io::Error| {
        CommandError::Run(format!(
            "the token cannot be read from {path}: {error}; `taut-coordinator sign-in --token-file {}` makes one",
            quoted(path)
        ))
    };
    let file = open_regular(Path::new(path)).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if let Some(why) = distrust(metadata.uid(), metadata.mode(), effective_uid().map_err(failed)?) {
        let path = quoted(path);
        return Err(CommandError::Run(format!(
            "the token in {path} is not used, because {why}, so the token may be another user's; \
             if it is yours, run `chown $(id -u) {path} && chmod go-w {path}`"
        )));
    }
    let mut content = String::new();
    file.take(LARGEST).read_to_string(&mut content).map_err(failed)?;
    Ok(String::from(content.lines().next().unwrap_or_default().trim()))
}

/// Returns why a file with this owner and mode may have a token that another user wrote. A command with such a token would act for that user. As in ssh, root's files are trusted.
fn distrust(owner: u32, mode: u32, user: u32) -> Option<&'static str> {
    if owner != user && owner != ROOT {
        return Some("the file belongs to another user");
    }
    (mode & OTHERS_WRITE != 0).then_some("other users may write the file")
}

/// Returns a text as one word of a shell command.
pub(super) fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:,@%".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return String::from(text);
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A file that will have a token.
pub(super) struct TokenFile(String);

impl TokenFile {
    /// Returns an error if the file cannot be written, before a person signs in for nothing.
    pub(super) fn new(path: &str) -> Result<Self, CommandError> {
        let failed = |error: io::Error| CommandError::Run(format!("the token cannot be written to {path}: {error}"));
        // Absolute, because the command is told where it is, and the next one may run elsewhere.
        let absolute = std::path::absolute(path).map_err(failed)?;
        if path.ends_with('/') || absolute.file_name().is_none() || absolute.is_dir() {
            return Err(CommandError::Usage(format!("`{path}` is not the name of a file")));
        }
        let text = absolute.into_os_string().into_string().ok().filter(|text| text.chars().all(is_printable));
        let file = Self(text.ok_or_else(|| {
            CommandError::Usage(format!("the path of `{path}` cannot be shown in a terminal; name another file"))
        })?);
        file.check().and_then(|()| file.create()).and_then(|(new, _)| fs::remove_file(new)).map_err(failed)?;
        Ok(file)
    }

    pub(super) fn path(&self) -> &str {
        &self.0
    }

    /// Writes the token in one step, readable by the owner of the file only.
    pub(super) fn write(&self, token: &str) -> io::Result<()> {
        let (new, mut file) = self.create()?;
        let written = file
            .write_all(format!("{token}\n").as_bytes())
            .and_then(|()| file.sync_all())
            // The file may have been replaced while the person signed in.
            .and_then(|()| self.check())
            .and_then(|()| fs::rename(&new, &self.0));
        written.inspect_err(|_| _ = fs::remove_file(&new))
    }

    /// Returns an error if there is something that a token must not replace: root may replace the devices of a host.
    fn check(&self) -> io::Result<()> {
        let is_absent = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let itself = match fs::symlink_metadata(&self.0) {
            Err(error) if is_absent(&error) => return Ok(()),
            itself => itself?,
        };
        let target = match fs::metadata(&self.0) {
            Err(error) if is_absent(&error) => None,
            target => Some(target?.file_type()),
        };
        let directory = fs::canonicalize(self.directory())?;
        if !is_replaceable(&directory, itself.file_type(), target) {
            return Err(io::Error::other("it is not a regular file, and a token would replace it; name another file"));
        }
        if is_kept_by_others(&fs::metadata(&directory)?, &itself, effective_uid()?) {
            return Err(io::Error::other(
                "it belongs to another user, and only its owner may replace it in this directory; name another file",
            ));
        }
        Ok(())
    }

    fn directory(&self) -> &Path {
        Path::new(&self.0).parent().unwrap_or(Path::new("/"))
    }

    /// Creates a file beside this one. Its name is random: a name that can be guessed may be a file of the user, or that of another sign-in.
    fn create(&self) -> io::Result<(PathBuf, File)> {
        let new = self.directory().join(format!(".taut-token-{}", encode_base64url(Secret::new().expose())));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        Ok((new, file))
    }
}

/// Returns true if a token may replace a file of a directory. `target` is what a symlink leads to, otherwise the file. A symlink is replaced, not followed, so it must not be one
/// that programs rely on: below /dev all are the system's, even those that lead to regular files, such as /dev/stdout.
fn is_replaceable(directory: &Path, itself: FileType, target: Option<FileType>) -> bool {
    target.is_none_or(|target| target.is_file()) && (itself.is_file() || !directory.starts_with("/dev"))
}

/// Returns true if a file cannot be replaced because its directory is sticky, such as /tmp.
fn is_kept_by_others(directory: &Metadata, file: &Metadata, user: u32) -> bool {
    directory.mode() & STICKY != 0 && ![file.uid(), directory.uid(), ROOT].contains(&user)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    use super::*;
    use crate::tests::Directory;

    fn directory() -> Directory {
        let directory = Directory::new();
        fs::create_dir(&directory.0).unwrap();
        directory
    }

    fn file(path: &Path) -> Result<TokenFile, CommandError> {
        TokenFile::new(path.to_str().unwrap())
    }

    fn fifo(path: &Path) {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    fn names(directory: &Directory) -> Vec<String> {
        let names = fs::read_dir(&directory.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn fault_e23_a_token_file_is_private_whatever_was_there_before() {
        let directory = directory();
        let path = directory.0.join("token");
        for name in ["token", "token.new"] {
            fs::write(directory.0.join(name), "old").unwrap();
            fs::set_permissions(directory.0.join(name), fs::Permissions::from_mode(0o644)).unwrap();
        }
        let file = file(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old", "until there is a token");
        file.write("tautapi-x").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(&directory), ["token", "token.new"], "a file of the user's stays");
        assert_eq!(fs::read_to_string(directory.0.join("token.new")).unwrap(), "old");
        assert_eq!(read(format!("file:{}", path.display())).unwrap(), "tautapi-x");
        assert_eq!(read(String::from("tautapi-y")).unwrap(), "tautapi-y");
        for wrong in ["/", "/proc/none/token", directory.0.to_str().unwrap(), "token/", "a\u{1b}[2Jb", "a\nb"] {
            assert!(TokenFile::new(wrong).is_err(), "{wrong:?}");
        }
        for wrong in ["file:/nothing", "file:/dev/zero"] {
            assert!(read(String::from(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_regular_files_and_symlinks_to_them_are_replaced() {
        let directory = directory();
        let at = |name: &str| directory.0.join(name);
        fifo(&at("fifo"));
        symlink(at("fifo"), at("to-fifo")).unwrap();
        symlink("/dev/null", at("to-device")).unwrap();
        symlink(&directory.0, at("to-directory")).unwrap();
        symlink(at("loop"), at("loop")).unwrap();
        let before = names(&directory);
        for name in ["fifo", "to-fifo", "to-device", "to-directory", "loop"] {
            assert!(file(&at(name)).is_err(), "{name}");
        }
        assert_eq!(names(&directory), before);
        let refusal = file(&at("to-device")).err().unwrap().to_string();
        assert!(refusal.contains("not a regular file") && refusal.contains("name another file"), "{refusal}");
        fs::write(at("other"), "other").unwrap();
        symlink(at("other"), at("to-file")).unwrap();
        symlink(at("nothing"), at("to-nothing")).unwrap();
        for name in ["to-file", "to-nothing"] {
            file(&at(name)).unwrap().write("tautapi-x").unwrap();
            assert!(fs::symlink_metadata(at(name)).unwrap().is_file(), "{name} itself is replaced");
        }
        assert_eq!(fs::read_to_string(at("other")).unwrap(), "other");
        assert!(!at("nothing").exists());
    }

    #[test]
    fn symlinks_of_the_system_are_not_replaced() {
        let directory = directory();
        let (path, link) = (directory.0.join("file"), directory.0.join("link"));
        fs::write(&path, "").unwrap();
        symlink(&path, &link).unwrap();
        let regular = fs::metadata(&path).unwrap().file_type();
        let link = fs::symlink_metadata(&link).unwrap().file_type();
        assert!(!is_replaceable(Path::new("/dev"), link, Some(regular)), "such as /dev/stdout");
        assert!(!is_replaceable(Path::new("/dev"), link, None));
        assert!(is_replaceable(Path::new("/dev/shm"), regular, Some(regular)));
        assert!(is_replaceable(Path::new("/home/dev"), link, Some(regular)));
    }

    #[test]
    fn a_failure_leaves_no_token_and_what_is_there_meanwhile() {
        let directory = directory();
        let path = directory.0.join("token");
        let file = file(&path).unwrap();
        assert!(names(&directory).is_empty());
        fifo(&path);
        assert!(file.write("tautapi-x").unwrap_err().to_string().contains("not a regular file"));
        assert_eq!(names(&directory), ["token"]);
        assert!(!fs::symlink_metadata(&path).unwrap().is_file());
    }

    #[test]
    fn a_file_that_a_sticky_directory_keeps_is_noticed() {
        let directory = directory();
        fs::write(directory.0.join("token"), "").unwrap();
        let metadata = || (fs::metadata(&directory.0).unwrap(), fs::metadata(directory.0.join("token")).unwrap());
        let (plain, token) = metadata();
        assert!(!is_kept_by_others(&plain, &token, token.uid() + 1));
        fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o1777)).unwrap();
        let (sticky, token) = metadata();
        assert!(is_kept_by_others(&sticky, &token, token.uid() + 1));
        assert!(!is_kept_by_others(&sticky, &token, token.uid()));
        assert!(!is_kept_by_others(&sticky, &token, 0));
    }

    #[test]
    fn a_token_that_another_user_may_have_written_is_not_used() {
        assert_eq!(distrust(1000, 0o100_600, 1000), None);
        assert_eq!(distrust(0, 0o100_644, 1000), None, "mounted by root");
        for (owner, mode) in [(1001, 0o100_600), (1000, 0o100_620), (1000, 0o100_602), (0, 0o100_666)] {
            assert!(distrust(owner, mode, 1000).is_some(), "{owner} {mode:o}");
        }
        assert!(distrust(1000, 0o100_600, 0).is_some());
        let directory = directory();
        let path = directory.0.join("token");
        fs::write(&path, "tautapi-x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let refusal = read(format!("file:{}", path.display())).unwrap_err().to_string();
        assert!(refusal.contains("other users may write") && refusal.contains("chmod go-w"), "{refusal}");
    }

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        for (path, word) in [
            ("file:/home/ann/.taut-token", "file:/home/ann/.taut-token"),
            ("file:/a b", "'file:/a b'"),
            ("file:/$(id)", "'file:/$(id)'"),
            ("file:/it's", r"'file:/it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(path), word);
            let printed = Command::new("sh").args(["-c", &format!("printf %s {word}")]).output().unwrap();
            assert_eq!(printed.stdout, path.as_bytes());
        }
    }
}

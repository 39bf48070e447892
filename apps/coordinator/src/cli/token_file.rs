//! Files with a token, which `sign-in` writes and `--token file:PATH` reads.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use taut_relay_server::open_regular;

use super::CommandError;

/// Start of a token that is in a file.
pub(super) const FILE: &str = "file:";

/// Largest file with a token, 4 KiB. A token has 51 bytes.
const LARGEST: u64 = 4_096;

/// Returns a token: the text itself, or the first line of the file that it names.
pub(super) fn read(text: String) -> Result<String, CommandError> {
    let Some(path) = text.strip_prefix(FILE) else { return Ok(text) };
    let mut content = String::new();
    open_regular(Path::new(path)).and_then(|file| file.take(LARGEST).read_to_string(&mut content)).map_err(|error| {
        CommandError::Run(format!(
            "the token cannot be read from {path}: {error}; `taut-coordinator sign-in --token-file {path}` makes one"
        ))
    })?;
    Ok(String::from(content.lines().next().unwrap_or_default().trim()))
}

/// A file that will have a token.
pub(super) struct TokenFile(PathBuf);

impl TokenFile {
    /// Returns an error if the file cannot be written, before a person signs in for nothing.
    pub(super) fn new(path: &str) -> Result<Self, CommandError> {
        let failed = |error: io::Error| CommandError::Run(format!("the token cannot be written to {path}: {error}"));
        // Absolute, because the command is told where it is, and the next one may run elsewhere.
        let file = Self(std::path::absolute(path).map_err(failed)?);
        if file.0.file_name().is_none() || file.0.is_dir() {
            return Err(CommandError::Usage(format!("`{path}` is not the name of a file")));
        }
        file.create().and_then(|_| fs::remove_file(file.new_path())).map_err(failed)?;
        Ok(file)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes the token in one step, readable by the owner of the file only.
    pub(super) fn write(&self, token: &str) -> io::Result<()> {
        let mut file = self.create()?;
        file.write_all(format!("{token}\n").as_bytes())?;
        file.sync_all()?;
        fs::rename(self.new_path(), &self.0)
    }

    fn new_path(&self) -> PathBuf {
        let mut name = self.0.clone().into_os_string();
        name.push(".new");
        PathBuf::from(name)
    }

    fn create(&self) -> io::Result<File> {
        // An interrupted command may have left it behind, with another mode.
        match fs::remove_file(self.new_path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.new_path())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::tests::Directory;

    #[test]
    fn fault_e23_a_token_file_is_private_whatever_was_there_before() {
        let directory = Directory::new();
        fs::create_dir(&directory.0).unwrap();
        let path = directory.0.join("token");
        for name in ["token", "token.new"] {
            fs::write(directory.0.join(name), "old").unwrap();
            fs::set_permissions(directory.0.join(name), fs::Permissions::from_mode(0o644)).unwrap();
        }
        let file = TokenFile::new(path.to_str().unwrap()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old", "until there is a token");
        file.write("tautapi-x").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!directory.0.join("token.new").exists());
        assert_eq!(read(format!("file:{}", path.display())).unwrap(), "tautapi-x");
        assert_eq!(read(String::from("tautapi-y")).unwrap(), "tautapi-y");
        for wrong in ["/", "/proc/none/token", directory.0.to_str().unwrap()] {
            assert!(TokenFile::new(wrong).is_err(), "{wrong}");
        }
        for wrong in ["file:/nothing", "file:/dev/zero"] {
            assert!(read(String::from(wrong)).is_err(), "{wrong}");
        }
    }
}

//! The file that holds the tokens of the first start (fault E23).
//!
//! It is written before the first start is committed, so that no moment of a crash loses them: before the commit the next start is a first
//! one again and writes other tokens, after it they are in the file. A terminal that has shown them takes the file's place; otherwise it
//! stays until its reader deletes it. The coordinator does not: it cannot know whether both tokens were read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

/// Its name in the state directory.
const NAME: &str = "first-tokens";

/// Where it lies, whether it is there or not.
pub(super) fn path(directory: &Path) -> PathBuf {
    directory.join(NAME)
}

/// The text in the file and on a terminal.
pub(super) fn lines(operator_token: &str, join_token: &str) -> Zeroizing<String> {
    Zeroizing::new(format!("operator-token: {operator_token}\njoin-token: {join_token}\n"))
}

/// Writes `lines` in one step, readable by the owner only.
pub(super) fn write(directory: &Path, lines: &str) -> io::Result<()> {
    let (path, new) = (path(directory), directory.join(format!("{NAME}.new")));
    // A start that was cut off may have left this file, with another mode.
    if new.exists() {
        fs::remove_file(&new)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(lines.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, &path)?;
    File::open(directory)?.sync_all()
}

/// Deletes it.
pub(super) fn remove(directory: &Path) -> io::Result<()> {
    fs::remove_file(path(directory))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::tests::Directory;

    #[test]
    fn fault_e23_the_file_is_private_whatever_was_there_before() {
        let directory = Directory::new();
        fs::create_dir(&directory.0).unwrap();
        for name in ["first-tokens", "first-tokens.new"] {
            fs::write(directory.0.join(name), "old").unwrap();
            fs::set_permissions(directory.0.join(name), fs::Permissions::from_mode(0o644)).unwrap();
        }
        write(&directory.0, &lines("a", "b")).unwrap();
        let path = path(&directory.0);
        assert_eq!(fs::read_to_string(&path).unwrap(), "operator-token: a\njoin-token: b\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 1);
        remove(&directory.0).unwrap();
        assert!(!path.exists());
    }
}

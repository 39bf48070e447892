//! The file with the tokens of the first start (fault E23).
//!
//! The file is written before the first start is committed, so that no crash loses the tokens: before the commit, the next start is a first start again and
//! writes other tokens; after it, the tokens are in the file. The file is deleted once a terminal has shown the tokens. Otherwise its reader deletes it,
//! because the coordinator cannot know whether both tokens were read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

/// Name of the file in the state directory.
const NAME: &str = "first-tokens";

/// Returns the path of the file, which need not exist.
pub(super) fn path(directory: &Path) -> PathBuf {
    directory.join(NAME)
}

/// Returns the text for the file and the terminal.
pub(super) fn lines(operator_token: &str, join_token: &str, set_up: &str) -> Zeroizing<String> {
    Zeroizing::new(format!("operator-token: {operator_token}\njoin-token: {join_token}\nset-up: {set_up}\n"))
}

/// Writes `lines` in one step, readable by the owner only.
pub(super) fn write(directory: &Path, lines: &str) -> io::Result<()> {
    let (path, new) = (path(directory), directory.join(format!("{NAME}.new")));
    // An interrupted start may have left this file behind, with another mode.
    if new.exists() {
        fs::remove_file(&new)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(lines.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, &path)?;
    File::open(directory)?.sync_all()
}

/// Deletes the file.
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
        write(&directory.0, &lines("a", "b", "c")).unwrap();
        let path = path(&directory.0);
        assert_eq!(fs::read_to_string(&path).unwrap(), "operator-token: a\njoin-token: b\nset-up: c\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 1);
        remove(&directory.0).unwrap();
        assert!(!path.exists());
    }
}

//! The file with the relay's private key.

use std::error::Error;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ring::rand::SystemRandom;
use taut_base::{Entropy, PrivateKey};
use taut_event::open_regular;
use zeroize::Zeroizing;

use crate::system::OsEntropy;

/// Bytes of the file: a key in base64 and a newline.
const LENGTH: usize = 45;

/// Reads the key in `path`, or creates one if there is no file. A file without a valid key is an error and is not replaced: clients know the relay by its key,
/// and the map has it (fault K2).
///
/// # Errors
/// [`KeyError`] names the file and the cause.
pub fn key_from_file(path: &Path) -> Result<PrivateKey, KeyError> {
    let wrong = |source| KeyError { path: path.to_owned(), source };
    match read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(path).map_err(wrong),
        outcome => outcome.map_err(wrong),
    }
}

fn read(path: &Path) -> io::Result<PrivateKey> {
    let file = open_regular(path)?;
    if file.metadata()?.mode() & 0o077 != 0 {
        return Err(io::Error::other(format!("other users can read it; run `chmod 600 {}`", path.display())));
    }
    let mut text = Zeroizing::new(String::with_capacity(LENGTH + 1));
    file.take(LENGTH as u64 + 1).read_to_string(&mut text)?;
    let key = text.strip_suffix('\n').filter(|_| text.len() == LENGTH);
    key.and_then(|key| PrivateKey::from_base64(key).ok())
        .ok_or_else(|| io::Error::other("it holds no valid key; restore it from a backup"))
}

/// Creates the key file. It is written under another name first, so that a crash leaves a complete file or none.
fn make(path: &Path) -> io::Result<PrivateKey> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut bytes = Zeroizing::new([0; 32]);
    OsEntropy(SystemRandom::new()).fill(&mut *bytes);
    let key = PrivateKey::from_bytes(*bytes);
    let new = path.with_extension("new");
    // The file may be left over from a crash, or the owner of the directory may have put a link there to make this process overwrite another file.
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(key.expose_base64().as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    File::open(folder)?.sync_all()?;
    Ok(key)
}

/// The error of a key file that cannot be used.
#[derive(Debug)]
pub struct KeyError {
    path: PathBuf,
    source: io::Error,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot use the relay's key in {}: {}", self.path.display(), self.source)
    }
}

impl Error for KeyError {}

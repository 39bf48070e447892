//! The module that replaces `config_file` in a program built without the feature `config`: it reads no file, and refuses one that was given, or is in the usual place.

use std::path::{Path, PathBuf};

use taut_agent::settings::Setting;

use crate::fault::Fault;
use crate::{chosen, output};

/// The name that means "no configuration file".
const NONE: &str = "/dev/null";

/// No file.
#[derive(Debug, Default)]
pub(crate) struct ConfigFile;

impl ConfigFile {
    /// Checks that there is no file to read: none that `flag` (of `--config`) or the environment names, and none in the usual place.
    pub(crate) fn read(flag: Option<&Path>) -> Result<Self, Fault> {
        let variable = || std::env::var_os("TAUT_CONFIG").map(PathBuf::from);
        let named = flag.map(Path::to_path_buf).or_else(variable).filter(|path| !path.as_os_str().is_empty());
        let usual = || Some(chosen::config()).filter(|path| path.symlink_metadata().is_ok());
        match named.or_else(usual) {
            Some(path) if path != Path::new(NONE) => Err(Fault::failed(
                format!(
                    "this taut was built without configuration files, as for small routers, and would ignore {}",
                    path.display()
                ),
                "move its settings into /etc/config/taut and remove the file, or install the full package",
            )),
            _ => Ok(Self),
        }
    }

    /// Says on stderr that there is a file, for verbs other than the daemon, which read the state directory: the file may name another one.
    pub(crate) fn complain() {
        if let Err(fault) = Self::read(None) {
            output::complain(&format!("taut: {}", fault.message()));
        }
    }

    /// Returns the file.
    pub(crate) fn checked(self) -> Result<Self, Fault> {
        Ok(self)
    }

    /// Returns no settings.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&'static Setting, &str)> {
        std::iter::empty()
    }

    /// Returns no place.
    pub(crate) fn place(&self, _: &str) -> Option<PathBuf> {
        None
    }
}

/// Returns no place.
pub(crate) fn place(_: &str) -> Option<PathBuf> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_named_is_refused_and_not_ignored() {
        let fault = ConfigFile::read(Some(Path::new("/etc/other.toml"))).unwrap_err();
        assert!(fault.message().ends_with("would ignore /etc/other.toml"), "{fault:?}");
        assert!(ConfigFile::read(Some(Path::new(NONE))).is_ok());
    }
}

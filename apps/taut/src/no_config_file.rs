//! The module that replaces `config_file` in a program built without the feature `config`: it reads no file, and refuses one that was given, or is in the usual place.

use std::path::{Path, PathBuf};

use taut_agent::settings::Setting;

use crate::chosen;
use crate::fault::Fault;

/// The name that means "no configuration file".
const NONE: &str = "/dev/null";
/// The service manager of OpenWrt.
const PROCD: &str = "/sbin/procd";
/// The state directory on OpenWrt, where `/var` is memory.
const STATE_ON_FLASH: &str = "/etc/taut/state";

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

/// Returns the place that a file would have: the state directory of the usual network on OpenWrt, where the full package has it from its file.
pub(crate) fn place(name: &str) -> Option<PathBuf> {
    place_with(name, chosen::network().is_some(), Path::new(PROCD).exists())
}

fn place_with(name: &str, is_further_network: bool, has_procd: bool) -> Option<PathBuf> {
    let is_on_flash = name == "state" && !is_further_network && has_procd;
    is_on_flash.then(|| PathBuf::from(STATE_ON_FLASH))
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

    #[test]
    fn only_openwrt_has_the_state_of_the_usual_network_on_flash() {
        assert_eq!(place_with("state", false, true), Some(PathBuf::from("/etc/taut/state")));
        assert_eq!(place_with("state", false, false), None, "/var is no memory elsewhere");
        assert_eq!(place_with("state", true, true), None);
        assert_eq!(place_with("socket", false, true), None);
    }
}

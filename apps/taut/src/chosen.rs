//! Which network of this host a command is about: a further one has a daemon with files and a device of its own, and `--network NAME` chooses it.
//!
//! Separate daemons, because a network is somebody's: its coordinator may be hostile, its peers may flood, and none of that may reach the host's other networks
//! (decision 13 in docs/decisions).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::fault::Fault;

/// Longest name, 10 bytes: its device `taut-NAME` then fits into the 15 bytes of an interface's name.
const MAX_NAME: usize = 10;
/// Names that would have the directories of other programs (/var/lib/taut-coordinator, /var/lib/taut-relay), or the file of the usual network (/etc/taut/taut.toml).
const RESERVED: [&str; 3] = ["coordinator", "relay", "taut"];

/// The service manager of OpenWrt.
const PROCD: &str = "/sbin/procd";

/// The network that `--network` chose.
static CHOSEN: OnceLock<String> = OnceLock::new();

/// Takes `--network NAME` out of the arguments, and has [`network`] return it.
pub(crate) fn take(arguments: impl Iterator<Item = OsString>) -> Result<std::vec::IntoIter<OsString>, Fault> {
    let (rest, name) = split(arguments)?;
    if let Some(name) = name {
        // Set once: a process has one command line.
        let _ = CHOSEN.set(name);
    }
    Ok(rest.into_iter())
}

/// Returns the arguments without `--network NAME`, and the name.
fn split(mut arguments: impl Iterator<Item = OsString>) -> Result<(Vec<OsString>, Option<String>), Fault> {
    let (mut rest, mut found) = (Vec::new(), None);
    while let Some(word) = arguments.next() {
        let text = word.to_str().unwrap_or_default();
        let name = match text.strip_prefix("--network") {
            Some("") => {
                let missing = || Fault::usage("--network: a name is missing; `taut networks` lists those of this host");
                arguments.next().and_then(|name| name.into_string().ok()).ok_or_else(missing)?
            }
            Some(joined) if joined.starts_with('=') => String::from(&joined[1..]),
            _ => {
                rest.push(word);
                continue;
            }
        };
        if found.replace(check(name)?).is_some() {
            return Err(Fault::usage("--network is given twice"));
        }
    }
    Ok((rest, found))
}

/// Returns true if this is the name of a further network.
pub(crate) fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let valid = !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(allowed) && !name.starts_with('-');
    valid && !RESERVED.contains(&name)
}

fn check(name: String) -> Result<String, Fault> {
    match is_name(&name) {
        true => Ok(name),
        false => Err(Fault::usage(format!(
            "--network {name}: write 1 to {MAX_NAME} lower-case letters, digits or `-`; not `coordinator`, `relay` or `taut`"
        ))),
    }
}

/// Returns the network that the command line chose; `None` for the one in the usual places.
pub(crate) fn network() -> Option<&'static str> {
    CHOSEN.get().map(String::as_str)
}

/// Returns the directory that has the state directories of all networks, and the name of the usual one. That of another network has `-` and its name behind it.
pub(crate) fn states() -> (&'static str, &'static str) {
    states_on(Path::new(PROCD).exists())
}

fn states_on(openwrt: bool) -> (&'static str, &'static str) {
    // There, /var is memory.
    if openwrt { ("/etc/taut", "state") } else { ("/var/lib", "taut") }
}

/// Returns the state directory of a network, `None` for the usual one.
pub(crate) fn state(name: Option<&str>) -> PathBuf {
    state_in(states(), name)
}

fn state_in((directory, usual): (&str, &str), name: Option<&str>) -> PathBuf {
    let name = name.map_or_else(|| String::from(usual), |name| format!("{usual}-{name}"));
    Path::new(directory).join(name)
}

/// Returns the path of the socket of a network's daemon.
pub(crate) fn socket(name: &str) -> PathBuf {
    PathBuf::from(format!("/run/taut-{name}/taut.sock"))
}

/// Returns the usual place of the configuration file of the chosen network.
pub(crate) fn config() -> PathBuf {
    PathBuf::from(format!("/etc/taut/{}.toml", network().unwrap_or("taut")))
}

/// Returns the name of a network's TUN device.
pub(crate) fn interface(name: &str) -> String {
    format!("taut-{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<(Vec<String>, Option<String>), Fault> {
        let (rest, name) = split(line.split_whitespace().map(OsString::from))?;
        Ok((rest.into_iter().map(|word| word.into_string().unwrap()).collect(), name))
    }

    #[test]
    fn states_are_where_a_restart_of_the_host_leaves_them() {
        for (openwrt, name, expected) in [
            (false, None, "/var/lib/taut"),
            (false, Some("work"), "/var/lib/taut-work"),
            (true, None, "/etc/taut/state"),
            (true, Some("work"), "/etc/taut/state-work"),
        ] {
            assert_eq!(state_in(states_on(openwrt), name), PathBuf::from(expected));
        }
    }

    #[test]
    fn the_network_is_taken_out_of_any_place() {
        let words = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<_>>();
        let work = || Some(String::from("work"));
        assert_eq!(of("--network work up --json").unwrap(), (words("up --json"), work()));
        assert_eq!(of("up --network=work --json").unwrap(), (words("up --json"), work()));
        assert_eq!(of("status --networks").unwrap(), (words("status --networks"), None));
        for line in [
            "--network",
            "--network Work",
            "--network relay",
            "--network=",
            "--network a/b",
            "--network eleven-long",
            "--network a --network b",
        ] {
            assert!(matches!(of(line), Err(Fault::Usage { .. })), "{line}");
        }
        assert!(interface("ten-letter").len() <= 15);
    }
}

//! Several networks on one host: a daemon each, with files and a device of its own, which `--network NAME` chooses.
//!
//! Separate daemons, because a network is somebody's: its coordinator may be hostile, its peers may flood, and none of that may reach the host's other networks
//! (decision 13 in docs/decisions).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::Serialize;
use taut_agent::api::{NodeState, SCHEMA, Status};

use crate::client::Client;
use crate::fault::Fault;
use crate::flags::{Word, Words, unexpected};
use crate::{output, status, table};

pub(crate) const ARGUMENTS: &str = "[--json]";

pub(crate) const DETAILS: &str = "\
Lists the networks of this host whose daemons run; for root also those whose daemons do not. Each network has a daemon of its own. All verbs
take --network NAME, a name of your choice on this host: state in /var/lib/taut-NAME, the socket in /run/taut-NAME, settings in
/etc/taut/NAME.toml, and the device taut-NAME. Without it they mean the network in /var/lib/taut. docs/networks.md has examples.

--json   print an object, with a schema version";

/// Longest name, 10 bytes: its device `taut-NAME` then fits into the 15 bytes of an interface's name.
const MAX_NAME: usize = 10;
/// Names that would have the directories of other programs: /var/lib/taut-coordinator, /var/lib/taut-relay.
const RESERVED: [&str; 2] = ["coordinator", "relay"];

/// The network that `--network` chose.
static CHOSEN: OnceLock<String> = OnceLock::new();

/// Takes `--network NAME` out of the arguments, and has [`chosen`] return it.
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

fn check(name: String) -> Result<String, Fault> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let valid = !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(allowed) && !name.starts_with('-');
    match valid && !RESERVED.contains(&name.as_str()) {
        true => Ok(name),
        false => Err(Fault::usage(format!(
            "--network {name}: write 1 to {MAX_NAME} lower-case letters, digits or `-`; not `coordinator` or `relay`"
        ))),
    }
}

/// Returns the network that the command line chose; `None` for the one in the usual places.
pub(crate) fn chosen() -> Option<&'static str> {
    CHOSEN.get().map(String::as_str)
}

/// Returns the state directory of a network.
pub(crate) fn state(name: &str) -> PathBuf {
    PathBuf::from(format!("/var/lib/taut-{name}"))
}

/// Returns the path of the socket of a network's daemon.
pub(crate) fn socket(name: &str) -> PathBuf {
    PathBuf::from(format!("/run/taut-{name}/taut.sock"))
}

/// Returns the configuration file of a network.
pub(crate) fn config(name: &str) -> PathBuf {
    PathBuf::from(format!("/etc/taut/{name}.toml"))
}

/// Returns the name of a network's TUN device.
pub(crate) fn interface(name: &str) -> String {
    format!("taut-{name}")
}

/// A network of this host.
#[derive(Serialize)]
struct Listed {
    /// Its name on this host; `null` for the one in the usual places.
    name: Option<String>,
    /// `null` if no daemon answers.
    state: Option<NodeState>,
    network: Option<String>,
    interface: Option<String>,
    addresses: Vec<IpAddr>,
    peers: usize,
}

#[derive(Serialize)]
struct Networks {
    schema: u32,
    networks: Vec<Listed>,
}

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let mut json = false;
    while let Some(word) = words.next()? {
        match &word {
            Word::Flag(flag) if flag == "--json" => json = true,
            other => return Err(unexpected(other)),
        }
    }
    let usual = listed(None, Path::new("/run/taut/taut.sock"));
    let has_state = |directory: &Path| directory.join("identity.json").exists();
    let is_there = usual.state.is_some() || has_state(Path::new("/var/lib/taut"));
    let further = names().into_iter().map(|name| listed(Some(name.clone()), &socket(&name)));
    let networks: Vec<Listed> = is_there.then_some(usual).into_iter().chain(further).collect();
    if json {
        return output::print_json(&Networks { schema: SCHEMA, networks });
    }
    if networks.is_empty() {
        return output::print("this host is in no network; `taut up --join TOKEN` joins one");
    }
    output::print(&text(&networks))
}

/// Returns the names of the further networks of this host, by their sockets and state directories.
pub(crate) fn names() -> BTreeSet<String> {
    let of = |directory: &str, file: &str| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let found = entries.filter(|entry| entry.path().join(file).exists());
        found
            .filter_map(|entry| Some(String::from(entry.file_name().to_str()?.strip_prefix("taut-")?)))
            .collect::<Vec<_>>()
    };
    let all = of("/run", "taut.sock").into_iter().chain(of("/var/lib", "identity.json"));
    all.filter(|name| check(name.clone()).is_ok()).collect()
}

fn listed(name: Option<String>, socket: &Path) -> Listed {
    let status: Option<Box<Status>> = Client::connect(socket).ok().and_then(|mut client| client.status().ok());
    let me = status.as_ref().and_then(|status| status.me.as_ref());
    Listed {
        name,
        state: status.as_ref().map(|status| status.state),
        network: status.as_ref().and_then(|status| status.network.clone()),
        interface: me.and_then(|me| me.tun.as_ref()).map(|tun| tun.name.clone()),
        addresses: me.map_or_else(Vec::new, |me| me.addresses.clone()),
        peers: status.as_ref().map_or(0, |status| status.peers.len()),
    }
}

fn text(networks: &[Listed]) -> String {
    let row = |one: &Listed| {
        let name = one.name.clone().unwrap_or_else(|| String::from("(usual)"));
        let state = match one.state {
            None => "no daemon",
            Some(NodeState::NeedsJoin) => "not a member",
            Some(NodeState::Connecting) => "connecting",
            Some(NodeState::Running) => "up",
            Some(NodeState::Stopped) => "down",
        };
        let network = one.network.clone().unwrap_or_else(|| String::from("-"));
        let interface = one.interface.clone().unwrap_or_else(|| String::from("-"));
        vec![
            name,
            String::from(state),
            network,
            interface,
            status::join(&one.addresses),
            table::counted(one.peers, "peer"),
        ]
    };
    table::columns(&networks.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<(Vec<String>, Option<String>), Fault> {
        let (rest, name) = split(line.split_whitespace().map(OsString::from))?;
        Ok((rest.into_iter().map(|word| word.into_string().unwrap()).collect(), name))
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

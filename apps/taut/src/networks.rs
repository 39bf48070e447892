//! `taut networks`: lists the networks of this host, each of which has a daemon of its own.

use std::net::IpAddr;
use std::path::Path;

use serde::Serialize;
use taut_agent::api::{NodeState, SCHEMA, Status};
use taut_base::SortedSet;

use crate::chosen::{is_name, network, socket, states};
use crate::client::Client;
use crate::fault::Fault;
use crate::flag_texts::file;
use crate::flags::{Word, Words, default_socket, default_state, unexpected};
use crate::{output, status, table};

pub(crate) const ARGUMENTS: &str = "[--json]";

pub(crate) const DETAILS: &str = concat!(
    "\
Lists the networks of this host whose daemons run; for root also those whose daemons do not. Each network has a daemon of its own. All verbs
take --network NAME, a name of your choice on this host: state in /var/lib/taut-NAME, the socket in /run/taut-NAME,",
    file!(" settings in\n/etc/taut/NAME.toml, ", "\n"),
    "\
and the device taut-NAME. Without it they mean the network in /var/lib/taut
(on OpenWrt in /etc/taut/state). docs/networks.md has examples.

--json   print an object, with a schema version"
);

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
    if network().is_some() {
        return Err(Fault::usage("it lists all networks of this host: leave `--network` out"));
    }
    let usual = listed(None, &default_socket());
    let is_there = usual.state.is_some() || default_state().join("identity.json").exists();
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
pub(crate) fn names() -> SortedSet<String> {
    let of = |directory: &str, usual: &str, file: &str| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let found = entries.filter(|entry| entry.path().join(file).exists());
        found
            .filter_map(|entry| {
                let name = entry.file_name();
                Some(String::from(name.to_str()?.strip_prefix(usual)?.strip_prefix('-')?))
            })
            .collect::<Vec<_>>()
    };
    let (directory, usual) = states();
    let all = of("/run", "taut", "taut.sock").into_iter().chain(of(directory, usual, "identity.json"));
    all.filter(|name| is_name(name)).collect()
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

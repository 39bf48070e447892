//! `taut netcheck`: what the network that this host is in does to UDP.
//!
//! ```text
//! parse ─▶ servers: named by --relay, or by the daemon, or by the last map on disk
//!       ─▶ survey (survey.rs): STUN from sockets of our own, all questions at once, three seconds at most
//!       ─▶ verdict (verdict.rs): what the answers say of the NAT, pure
//!       ─▶ report (report.rs): for people or as JSON
//! ```
//! It needs no daemon, no rights and no network of ours, only a STUN server: a relay of ours tells most, any other tells less. The sockets are not the
//! daemon's: a NAT treats all sockets of a host alike, and the daemon's own traffic is not disturbed.

mod report;
mod survey;
mod verdict;

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use crate::client::Client;
use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, default_state, unexpected};
use crate::output;
use report::Report;

pub(crate) const ARGUMENTS: &str = "[--relay HOST[:PORT]]… [--json] [--state DIR] [--socket PATH]";

pub(crate) const DETAILS: &str = "\
Asks the network's relays where this host is seen from, by STUN. Takes three seconds at most; changes nothing.

--relay HOST[:PORT]  ask this relay, or any STUN server (port 3478 unless said); several are better: two show how the NAT maps.
                     Without it the relays that the daemon knows, or those of the last map on disk
--json               one object, with a schema version
--state DIR          where the last map is (default /var/lib/taut)";

/// STUN's port (RFC 8489 section 18.6), and that of relays.
const PORT: u16 = 3478;
/// So many relays are asked: more would not tell more.
const MAX_SERVERS: usize = 8;

/// Somebody who answers by STUN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) endpoints: Vec<SocketAddr>,
}

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let (mut named, mut json, mut socket, mut state) = (Vec::new(), false, default_socket(), default_state());
    while let Some(word) = words.next()? {
        match &word {
            Word::Flag(flag) if flag == "--relay" => named.push(words.value()?),
            Word::Flag(flag) if flag == "--json" => json = true,
            Word::Flag(flag) if flag == "--socket" => socket = PathBuf::from(words.value()?),
            Word::Flag(flag) if flag == "--state" => state = PathBuf::from(words.value()?),
            other => return Err(unexpected(other)),
        }
    }
    let status = Client::connect(&socket).ok().and_then(|mut client| client.status().ok());
    let mut servers = named.iter().map(|name| resolve(name)).collect::<Result<Vec<_>, _>>()?;
    if servers.is_empty() {
        servers = status.iter().flat_map(|status| &status.relays).map(Server::from).collect();
    }
    if servers.is_empty() {
        servers = on_disk(&state);
    }
    if servers.is_empty() {
        return Err(Fault::failed(
            "no relay is known: neither a daemon nor a map on disk names one",
            "name one with --relay HOST",
        ));
    }
    servers.truncate(MAX_SERVERS);
    let survey = survey::run(&servers).map_err(|error| {
        Fault::failed(format!("no UDP socket could be opened: {error}"), "see `ulimit -n` and the rules of a sandbox")
    })?;
    let by_websocket = status.iter().flat_map(|status| &status.relays).filter_map(by_websocket).collect();
    let report = Report::new(&servers, &survey, status.and_then(|status| status.port_mapping), by_websocket);
    match json {
        true => output::print_json(&report),
        false => output::print(&report.render()),
    }
    Ok(())
}

/// A relay that the daemon reaches by WebSocket: its name and URL.
fn by_websocket(relay: &taut_keeper::api::RelayStatus) -> Option<[String; 2]> {
    let websocket = relay.websocket.as_ref().filter(|websocket| websocket.open)?;
    Some([relay.name.clone(), websocket.url.clone()])
}

impl From<&taut_keeper::api::RelayStatus> for Server {
    fn from(relay: &taut_keeper::api::RelayStatus) -> Self {
        Self { name: relay.name.clone(), endpoints: relay.endpoints.clone() }
    }
}

/// The relays of the last map that was saved, if it is there and we may read it.
fn on_disk(state: &Path) -> Vec<Server> {
    let relays = taut_control::saved_relays(state);
    relays.into_iter().map(|relay| Server { name: relay.name, endpoints: relay.endpoints }).collect()
}

/// A host's addresses, or an address, with or without a port.
fn resolve(text: &str) -> Result<Server, Fault> {
    let bare = text.parse::<IpAddr>().ok().or_else(|| text.trim_matches(['[', ']']).parse().ok());
    let endpoints: Vec<SocketAddr> = if let Some(address) = bare {
        vec![SocketAddr::new(address, PORT)]
    } else {
        let found = if text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
            text.to_socket_addrs()
        } else {
            (text, PORT).to_socket_addrs()
        };
        let failed = |error| {
            Fault::failed(format!("--relay {text}: {error}"), "write a host's name or address, and a port behind `:`")
        };
        found.map_err(failed)?.collect()
    };
    Ok(Server { name: String::from(text), endpoints })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_is_named_with_and_without_a_port() {
        for (text, endpoint) in [
            ("192.0.2.1", "192.0.2.1:3478"),
            ("192.0.2.1:9", "192.0.2.1:9"),
            ("2001:db8::1", "[2001:db8::1]:3478"),
            ("[2001:db8::1]", "[2001:db8::1]:3478"),
            ("[2001:db8::1]:9", "[2001:db8::1]:9"),
        ] {
            assert_eq!(resolve(text).unwrap().endpoints, [endpoint.parse().unwrap()], "{text}");
        }
        assert!(resolve("not a host").is_err());
    }
}

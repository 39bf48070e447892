//! `taut netcheck`: tests how the network of this host treats UDP.
//!
//! ```text
//! parse ─▶ servers: from the command line (target.rs), the daemon, or the last map on disk
//!       ─▶ reach (reach.rs): a TCP connection to each coordinator that a URL names
//!       ─▶ survey (survey.rs): STUN requests from new sockets, all at once, three seconds at most
//!       ─▶ verdict (verdict.rs): what the answers show about the NAT, without IO
//!       ─▶ report (report.rs): for people or as JSON
//! ```
//! It needs a STUN server, but no daemon, no privileges and no membership. A relay of Taut shows more about the NAT than another STUN server. The test uses sockets
//! of its own, so that it does not disturb the daemon's traffic: a NAT treats all sockets of a host alike.

mod reach;
mod report;
mod survey;
mod target;
mod verdict;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::client::{Client, NoDaemon};
use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, default_state, unexpected};
use crate::output;
use reach::Attempts;
use report::{DaemonState, Report};
use target::Target;

pub(crate) const ARGUMENTS: &str = "[URL|HOST[:PORT]|stun:HOST[:PORT]]… [--json] [--state DIR] [--socket PATH]";

pub(crate) const DETAILS: &str = "\
Asks relays by STUN which address of this host they see. Takes three seconds at most and changes nothing. Without arguments it asks the relays that the
daemon knows, or those of the last map on disk. If neither exists, name a server:

URL                  a coordinator, such as http://203.0.113.7:8288: asks its relay (UDP 3478 and 3479), and connects to the URL's port by TCP
HOST[:PORT]          a relay, or any STUN server (default port 3478); two or more servers show how the NAT maps
stun:HOST[:PORT]     the same
--relay HOST[:PORT]  the same
--json               print one object, with a schema version
--state DIR          directory of the last map (default /var/lib/taut, or on OpenWrt /etc/taut/state)

Exit status: 0 if a relay answered by UDP, a coordinator accepted TCP, or the daemon has a relay's WebSocket open; 1 otherwise.";

/// Limit on the servers that are asked, 8: further servers would not show more about the NAT.
const MAX_SERVERS: usize = 8;

/// A STUN server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StunServer {
    pub(super) name: String,
    pub(super) endpoints: Vec<SocketAddr>,
}

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let (mut named, mut json, mut socket, mut state) = (Vec::new(), false, default_socket(), default_state());
    while let Some(word) = words.next()? {
        match &word {
            Word::Flag(flag) if flag == "--relay" => named.push(words.value()?),
            Word::Value(name) => named.push(name.clone()),
            Word::Flag(flag) if flag == "--json" => json = true,
            Word::Flag(flag) if flag == "--socket" => socket = PathBuf::from(words.value()?),
            Word::Flag(flag) if flag == "--state" => state = PathBuf::from(words.value()?),
            other => return Err(unexpected(other)),
        }
    }
    let report = check(&named, &socket, &state)?;
    match json {
        true => output::print_json(&report),
        false => output::print(&report.render()),
    }?;
    // The printed report contains the reason of a failure.
    if report.reached() { Ok(()) } else { Err(Fault::Reported) }
}

/// Tests the network with the servers in `named`. If `named` is empty, it uses the daemon's relays, or else those of the last map on disk.
fn check(named: &[String], socket: &Path, state: &Path) -> Result<Report, Fault> {
    let client = Client::connect(socket);
    let absent = matches!(client, Err(NoDaemon::Absent));
    let status = client.ok().and_then(|mut client| client.status().ok());
    let targets = named.iter().take(MAX_SERVERS).map(|name| Target::read(name)).collect::<Result<Vec<_>, _>>()?;
    let coordinators = targets.iter().filter_map(|target| target.coordinator.clone()).collect();
    let mut servers: Vec<StunServer> = targets.into_iter().map(|target| target.server).collect();
    if servers.is_empty() {
        servers = status.iter().flat_map(|status| &status.relays).map(StunServer::from).collect();
    }
    if servers.is_empty() {
        servers = on_disk(state);
    }
    if servers.is_empty() {
        return Err(Fault::failed(
            "no relay is known: neither a daemon nor a map on disk names one",
            "name the coordinator or a STUN server, such as `taut netcheck http://203.0.113.7:8288`",
        ));
    }
    servers.truncate(MAX_SERVERS);
    let attempts = Attempts::start(coordinators);
    let survey = survey::run(&servers).map_err(|error| {
        Fault::failed(
            format!("no UDP socket could be opened: {error}"),
            "check `ulimit -n` and the restrictions of a sandbox",
        )
    })?;
    let by_websocket = status.iter().flat_map(|status| &status.relays).filter_map(by_websocket).collect();
    let daemon = match &status {
        Some(status) => DaemonState::Known(status.state),
        None if absent => DaemonState::Absent,
        None => DaemonState::Hidden,
    };
    Ok(Report::new(&servers, &survey, status.and_then(|status| status.port_mapping), by_websocket)
        .with_daemon(daemon)
        .with_coordinators(attempts.finish()))
}

/// Returns the report that `taut netcheck --json` prints.
pub(crate) fn report(socket: &Path, state: &Path) -> Result<impl serde::Serialize + use<>, Fault> {
    check(&[], socket, state)
}

/// Returns the relay's name and URL if the daemon has a WebSocket to it.
fn by_websocket(relay: &taut_agent::api::RelayStatus) -> Option<[String; 2]> {
    let websocket = relay.websocket.as_ref().filter(|websocket| websocket.open)?;
    Some([relay.name.clone(), websocket.url.clone()])
}

impl From<&taut_agent::api::RelayStatus> for StunServer {
    fn from(relay: &taut_agent::api::RelayStatus) -> Self {
        Self { name: relay.name.clone(), endpoints: relay.endpoints.clone() }
    }
}

/// Returns the relays of the last saved map, if it exists and this user may read it.
fn on_disk(state: &Path) -> Vec<StunServer> {
    let relays = taut_control::saved_relays(state);
    relays.into_iter().map(|relay| StunServer { name: relay.name, endpoints: relay.endpoints }).collect()
}

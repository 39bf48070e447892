//! The report of `taut netcheck`, for people and for programs.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;
use taut_agent::api::{Filtering, NatKind, NatStatus, NodeState, PortMapStatus, SCHEMA};
use taut_control::{WITHOUT_TLS, check_scheme};

use super::StunServer;
use super::reach::CoordinatorReport;
use super::survey::{Family, Survey};
use super::verdict;
use crate::{status, table};

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    schema: u32,
    /// True if any server answered by UDP.
    udp: bool,
    ipv4: FamilyReport,
    ipv6: FamilyReport,
    /// The port mapping of the running daemon; `null` without a daemon.
    port_mapping: Option<PortMapStatus>,
    relays: Vec<RelayReport>,
    /// The coordinators that the command line named.
    coordinators: Vec<CoordinatorReport>,
    /// Relays that the daemon reaches by WebSocket, because they do not answer by UDP.
    by_websocket: Vec<WebSocketReport>,
    /// The conclusions for direct paths, in sentences.
    said: Vec<String>,
    /// The daemon, for the sentence about port mappings that people read. Programs have [`Self::port_mapping`].
    #[serde(skip)]
    daemon: DaemonState,
}

/// The state of the daemon, as far as the socket shows it.
#[derive(Clone, Copy, Debug)]
pub(super) enum DaemonState {
    /// No process listens at the socket.
    Absent,
    /// This user may not open the socket, or the daemon behind it gave no answer.
    Hidden,
    /// The daemon answered, with this state.
    Known(NodeState),
}

/// The result of one address family.
#[derive(Debug, Serialize)]
struct FamilyReport {
    state: Reach,
    /// This host's address towards the relays.
    local: Option<IpAddr>,
    /// The NAT between this host and the relays; `null` if no relay could be asked.
    nat: Option<NatStatus>,
    /// True if the NAT keeps the socket's port; `null` if that is not known.
    keeps_port: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Reach {
    /// A relay answered.
    Works,
    /// No relay answered.
    Silent,
    /// The host has no address or no route of this family.
    NoRoute,
    /// No relay of this family is known.
    NotAsked,
}

#[derive(Debug, Serialize)]
struct RelayReport {
    name: String,
    endpoints: Vec<EndpointReport>,
}

/// A relay that the daemon reaches by WebSocket.
#[derive(Debug, Serialize)]
struct WebSocketReport {
    name: String,
    url: String,
}

#[derive(Debug, Serialize)]
struct EndpointReport {
    endpoint: SocketAddr,
    /// Round-trip time in milliseconds, rounded to a microsecond; `null` without an answer.
    latency_ms: Option<f64>,
}

impl Report {
    pub(super) fn new(
        servers: &[StunServer],
        survey: &Survey,
        port_mapping: Option<PortMapStatus>,
        by_websocket: Vec<[String; 2]>,
    ) -> Self {
        let latency = |endpoint: &SocketAddr| {
            let mut answers = survey.ipv4.answers.iter().chain(&survey.ipv6.answers);
            let seen = answers.find(|seen| seen.server == *endpoint);
            seen.map(|seen| (seen.time.as_secs_f64() * 1e6).round() / 1e3)
        };
        let endpoints = |server: &StunServer| {
            let one = |endpoint: &SocketAddr| EndpointReport { endpoint: *endpoint, latency_ms: latency(endpoint) };
            server.endpoints.iter().map(one).collect()
        };
        let relays =
            servers.iter().map(|server| RelayReport { name: server.name.clone(), endpoints: endpoints(server) });
        let (mut ipv4, mut ipv6) = (FamilyReport::new(&survey.ipv4), FamilyReport::new(&survey.ipv6));
        let udp = [&ipv4, &ipv6].iter().any(|sight| sight.state == Reach::Works);
        if udp || !by_websocket.is_empty() {
            ipv4.note_network_works();
            ipv6.note_network_works();
        }
        let mut said = said(udp, &ipv4, &ipv6, port_mapping.as_ref());
        if !by_websocket.is_empty() {
            said.push(String::from("The daemon reaches relays by WebSocket, so peers are reachable, but more slowly."));
        }
        let by_websocket = by_websocket.into_iter().map(|[name, url]| WebSocketReport { name, url }).collect();
        Self {
            by_websocket,
            schema: SCHEMA,
            udp,
            ipv4,
            ipv6,
            port_mapping,
            relays: relays.collect(),
            coordinators: Vec::new(),
            said,
            daemon: DaemonState::Absent,
        }
    }

    /// Adds the state of the daemon.
    pub(super) fn with_daemon(mut self, daemon: DaemonState) -> Self {
        self.daemon = daemon;
        self
    }

    /// Adds the coordinators to which TCP connections were tried.
    pub(super) fn with_coordinators(mut self, coordinators: Vec<CoordinatorReport>) -> Self {
        for one in &coordinators {
            if one.url.parse().is_ok_and(|url| check_scheme(&url).is_err()) {
                self.said.push(format!("{}: {}: {}.", one.url, WITHOUT_TLS[0], WITHOUT_TLS[1]));
            }
            if one.endpoints.iter().all(|place| place.latency_ms.is_none()) {
                self.said.push(format!(
                    "The coordinator at {} cannot be reached by TCP, so this host cannot join there. Check that it runs and that its port is open.",
                    one.url
                ));
            }
        }
        if coordinators.iter().any(|one| one.endpoints.iter().any(|place| place.latency_ms.is_some())) {
            self.ipv4.note_network_works();
            self.ipv6.note_network_works();
        }
        self.coordinators = coordinators;
        self
    }

    /// Returns true if anything was reached: by UDP, by TCP, or by the daemon's WebSocket.
    pub(super) fn reached(&self) -> bool {
        let by_tcp = self.coordinators.iter().flat_map(|one| &one.endpoints).any(|place| place.latency_ms.is_some());
        self.udp || by_tcp || !self.by_websocket.is_empty()
    }

    /// Returns the report as text for people.
    pub(super) fn render(&self) -> String {
        let mut rows: Vec<[String; 2]> = Vec::new();
        let mut row = |name: &str, text: String| rows.push([String::from(name), text]);
        row("UDP", String::from(if self.udp { "works" } else { "no answer" }));
        for (name, sight) in [("IPv4", &self.ipv4), ("IPv6", &self.ipv6)] {
            row(name, sight.describe());
            if let Some(nat) = sight.nat.as_ref().filter(|_| sight.state == Reach::Works) {
                row("  NAT", status::nat(nat));
                row("  mapping", format!("{} (RFC 4787)", nat.mapping));
                row("  filtering", nat.filtering.to_string());
                row(
                    "  hairpin",
                    String::from(nat.hairpin.map_or("not tried", |works| if works { "yes" } else { "no" })),
                );
            }
        }
        let mapped = self.port_mapping.as_ref().map(status::port_mapping);
        let unasked = match self.daemon {
            _ if cfg!(not(feature = "portmap")) => "not asked: this taut was built without port mappings",
            DaemonState::Absent => "not asked: only the daemon asks for one, and it does not run",
            DaemonState::Hidden => "unknown: the daemon does not answer this user (try it as root)",
            DaemonState::Known(NodeState::Running) => {
                "not asked: the setting `portmap` is off (`taut set --portmap` turns it on)"
            }
            DaemonState::Known(_) => "not asked: the daemon asks for one once the network is up (`taut up`)",
        };
        row("port mapping", mapped.unwrap_or_else(|| String::from(unasked)));
        for relay in &self.relays {
            for one in &relay.endpoints {
                let time = one
                    .latency_ms
                    .map_or_else(|| String::from("no answer"), |time| format!("{} ms", table::fixed(time, 1)));
                let name = if relay.name.contains(&one.endpoint.ip().to_string()) {
                    String::new()
                } else {
                    format!("{} ", relay.name)
                };
                row("relay", format!("{name}{}: {time}", one.endpoint));
            }
        }
        for coordinator in &self.coordinators {
            for place in &coordinator.endpoints {
                let reached = match (place.latency_ms, &place.problem) {
                    (Some(time), _) => format!("{} ms by TCP", table::fixed(time, 1)),
                    (None, problem) => format!("not reached by TCP: {}", problem.as_deref().unwrap_or("no answer")),
                };
                row("coordinator", format!("{}, {}: {reached}", coordinator.url, place.endpoint));
            }
        }
        for one in &self.by_websocket {
            row("WebSocket", format!("{} {}: open", one.name, one.url));
        }
        let mut text = table::columns(&rows.iter().map(|row| row.to_vec()).collect::<Vec<_>>());
        for line in &self.said {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n{line}");
        }
        text
    }
}

impl FamilyReport {
    fn new(family: &Family) -> Self {
        let state = match (family.asked, family.local, family.answers.is_empty()) {
            (false, ..) => Reach::NotAsked,
            (true, None, _) => Reach::NoRoute,
            (true, Some(_), true) => Reach::Silent,
            (true, Some(_), false) => Reach::Works,
        };
        let port = family.local.map(|local| local.port());
        let keeps_port =
            (state == Reach::Works).then(|| family.answers.iter().all(|seen| Some(seen.mapped.port()) == port));
        Self { state, local: family.local.map(|local| local.ip()), nat: verdict::nat(family), keeps_port }
    }

    /// Notes that a relay was reached in the other family or by WebSocket, or a coordinator by TCP. If no relay answers by UDP in this family, the network
    /// works and UDP is blocked.
    fn note_network_works(&mut self) {
        if self.state == Reach::Silent {
            self.nat = Some(NatStatus::blocked());
        }
    }

    fn describe(&self) -> String {
        let local = self.local.map_or_else(String::new, |local| format!(", this host is {local}"));
        match self.state {
            Reach::Works => format!("works{local}"),
            Reach::Silent => format!("no relay answers{local}"),
            Reach::NoRoute => String::from("no address, or no route to the relays"),
            Reach::NotAsked => String::from("not asked: no relay has such an address"),
        }
    }
}

/// Returns the conclusions for direct paths.
fn said(udp: bool, ipv4: &FamilyReport, ipv6: &FamilyReport, mapped: Option<&PortMapStatus>) -> Vec<String> {
    let routed = [ipv4, ipv6].iter().any(|sight| matches!(sight.state, Reach::Works | Reach::Silent));
    if !routed {
        return vec![
            String::from("This host has no address, or no route, to any relay."),
            String::from("Check its links, `ip address` and `ip route`."),
        ];
    }
    if !udp {
        return vec![
            String::from("No relay answered by UDP: this network drops UDP, or the relays are down."),
            String::from("Check that a relay runs, and allow outgoing UDP to its port 3478."),
            String::from("Until a relay answers, the NAT is unknown and fewer direct paths are found."),
        ];
    }
    let mut said = Vec::new();
    if let Some(nat) = &ipv4.nat {
        said.push(String::from(consequence(nat)));
    }
    if let Some(mapped) = mapped.filter(|mapped| !mapped.mapped.is_empty()) {
        let seen = || [ipv4, ipv6].into_iter().filter_map(|sight| sight.nat.as_ref()).flat_map(|nat| &nat.seen_as);
        let is_seen = mapped.mapped.iter().any(|mapped| seen().any(|seen| seen.ip() == mapped.ip()));
        said.push(String::from(match is_seen {
            true => "The gateway opened a port for this host; peers can reach this host through it.",
            false => "The gateway opened a port for this host, but relays see it at another address: a second NAT in front of the gateway hides that port.",
        }));
    }
    if ipv6.state == Reach::Works {
        said.push(String::from("Peers with IPv6 are reachable without a NAT."));
    }
    said
}

fn consequence(nat: &NatStatus) -> &'static str {
    match (nat.kind, nat.filtering) {
        (NatKind::None | NatKind::FullCone | NatKind::AddressRestrictedCone, _)
        | (NatKind::Cone, Filtering::NotByPort) => "Direct paths work with every peer that lets UDP out.",
        (NatKind::Firewall | NatKind::PortRestrictedCone, _) => {
            "Direct paths work with all peers except those behind a symmetric NAT; a port search often finds a path to those."
        }
        (NatKind::Symmetric, _) => {
            "Direct paths work with peers that have no NAT, or a NAT that does not filter by port; for other peers a port mapping or IPv6 helps."
        }
        (NatKind::Cone | NatKind::Unknown, _) => {
            "Too few answers to tell which direct paths work: ask a second server, or a relay of Taut, which has a second port."
        }
        (NatKind::Blocked, _) => "No relay answered by IPv4: expect direct paths only by IPv6.",
    }
}

#[cfg(test)]
mod tests;

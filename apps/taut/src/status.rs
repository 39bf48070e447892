//! `taut status`: shows this node, its peers and their paths, as text or as JSON.

mod exit;
mod offloads;
mod routes;
#[cfg(feature = "userspace")]
mod userspace;

pub(crate) use routes::hidden;

use std::fmt::Write;
use std::net::IpAddr;

use taut_agent::api::{
    CoordinatorStatus, DomainStatus, InternetNames, LanesStatus, LeaveState, MtuSource, NamesStatus, NatStatus,
    NodeState, PathKind, PeerStatus, PortMapStatus, RelayStatus, RelayVia, ResolverBackEnd, ResolverStatus,
    SandboxStatus, ServerTrouble, Status,
};

use crate::client::{Client, NoDaemon, seen_kill_switch};
use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, unexpected};
use crate::{failure, output, table};

pub(crate) const DETAILS: &str = "\
--json         print the status object of the local API, with a schema version; without a daemon, an object with the state `no-daemon`
--socket PATH  local socket of the daemon (default /run/taut/taut.sock)

Exit status: 0 if the node is up, 1 if it is connecting, down or not a member, or if no daemon answers.";

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let (mut socket, mut json) = (default_socket(), false);
    while let Some(word) = words.next()? {
        match word {
            Word::Flag(flag) if flag == "--json" => json = true,
            Word::Flag(flag) if flag == "--socket" => socket = words.value()?.into(),
            other => return Err(unexpected(&other)),
        }
    }
    let status = match Client::connect(&socket) {
        Ok(mut client) => client.status()?,
        Err(NoDaemon::Absent) => {
            let failure = NoDaemon::Absent.describe(&socket);
            failure::complain(&failure);
            if json {
                failure::print_json(&failure, Some("no-daemon"), seen_kill_switch())?;
            }
            return Err(Fault::Reported);
        }
        Err(denied) => return Err(denied.explain(&socket)),
    };
    match json {
        true => output::print_json(&*status),
        false => output::print(&render(&status)),
    }?;
    // The printed status contains the reason of a failure.
    if status.state == NodeState::Running && status.waiting.is_none() { Ok(()) } else { Err(Fault::Reported) }
}

/// Returns the status as text for people.
pub(crate) fn render(status: &Status) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}", headline(status));
    if let Some(waiting) = &status.waiting {
        let code = waiting.code.as_ref().map(|code| format!(" (code {code})")).unwrap_or_default();
        let _ = writeln!(text, "waiting{code}: {}", waiting.problem);
    }
    if let Some(problem) = &status.problem {
        let _ = writeln!(text, "problem: {problem}");
    }
    if let Some(problem) = status.leave.as_ref().and_then(|leave| leave.problem.as_ref()) {
        let _ = writeln!(text, "the last `taut leave`: {problem}");
    }
    for warning in &status.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    let _ = write!(text, "{}", surroundings(status));
    if !status.peers.is_empty() {
        let _ = write!(text, "\n{}", table::columns(&peer_rows(&status.peers)));
    }
    if !status.drops.is_empty() {
        let drops: Vec<String> = status.drops.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        let _ = writeln!(text, "\ndropped packets: {}", drops.join(", "));
    }
    text
}

fn headline(status: &Status) -> String {
    let state = match status.state {
        _ if status.waiting.is_some() => "takes no part in the network now",
        NodeState::NeedsJoin => "not a member of any network; join one with `taut up --join TOKEN`",
        NodeState::Connecting => "connecting",
        NodeState::Running => "up",
        NodeState::Stopped if is_leaving(status) => "leaving; the coordinator has not answered yet",
        NodeState::Stopped => "down; connect with `taut up`",
    };
    match (&status.me, &status.network) {
        (Some(me), Some(network)) => format!("{} in network {network}: {state}", me.name),
        _ => format!("taut: {state}"),
    }
}

fn is_leaving(status: &Status) -> bool {
    status.leave.as_ref().is_some_and(|leave| leave.state == LeaveState::Leaving)
}

/// Returns the lines above the peers: addresses, device, coordinator, NAT, port mapping, relays.
fn surroundings(status: &Status) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    if let Some(me) = &status.me {
        rows.push(vec![String::from("addresses"), join(&me.addresses)]);
        rows.extend(me.names.iter().map(|status| vec![String::from("names"), names(status)]));
        rows.extend(me.names.iter().filter_map(records).map(|text| vec![String::from("records"), text]));
        rows.extend(
            me.names.iter().flat_map(|names| &names.domains).map(|status| vec![String::from("domain"), domain(status)]),
        );
        let internet = me.names.as_ref().and_then(|names| names.internet.as_ref());
        rows.extend(internet.map(|status| vec![String::from("other names"), internet_names(status)]));
        if let Some(tun) = &me.tun {
            let ports = me.lanes.as_ref().map(|lanes| &lanes.ports[..]).unwrap_or_default();
            let port = match ports {
                [_, _, ..] => format!("UDP ports {}, one per lane", list(ports)),
                _ => format!("UDP port {}", me.port),
            };
            let families = if tun.ipv6 { "" } else { ", IPv4 only" };
            let by = match tun.mtu_by {
                Some(MtuSource::Setting) => " by --mtu",
                Some(MtuSource::Program) => " by another program",
                _ => "",
            };
            let device = format!("{}, MTU {}{by}{families}, {port}{}", tun.name, tun.mtu, taken(&me.ports_taken));
            rows.push(vec![String::from("device"), device]);
        }
        rows.extend(offloads::row(me.tun.as_ref(), me.udp.as_ref()));
        rows.extend(me.lanes.iter().map(|status| vec![String::from("lanes"), lanes(status)]));
    }
    if let Some(coordinator) = &status.coordinator {
        rows.push(vec![String::from("coordinator"), format!("{}, {}", coordinator.url, connection(coordinator))]);
    }
    rows.extend(status.nat.iter().map(|status| vec![String::from("NAT"), nat(status)]));
    rows.extend(status.port_mapping.iter().map(|status| vec![String::from("port mapping"), port_mapping(status)]));
    rows.extend(status.routes.iter().flat_map(routes::rows));
    rows.extend(status.exit.iter().flat_map(exit::rows));
    rows.extend(status.kill_switch.iter().map(exit::kill_switch));
    rows.extend(status.relays.iter().map(|status| vec![String::from("relay"), relay(status)]));
    #[cfg(feature = "userspace")]
    rows.extend(status.userspace.iter().flat_map(userspace::rows));
    rows.extend(status.me.iter().map(|_| vec![String::from("sandbox"), sandbox(status.sandbox.as_ref())]));
    table::columns(&rows)
}

/// Describes the daemon's sandbox: that it is on, or what of it is missing.
fn sandbox(status: Option<&SandboxStatus>) -> String {
    let Some(SandboxStatus { on, missing }) = status else {
        return String::from("off: the daemon keeps all rights of its user");
    };
    let missing: Vec<String> = missing.iter().map(|missing| format!("{} ({})", missing.part, missing.reason)).collect();
    match (on.is_empty(), missing.is_empty()) {
        (_, true) => String::from("on"),
        (false, false) => format!("on, without {}", missing.join(", ")),
        (true, false) => format!("none; the kernel refuses {}", missing.join(", ")),
    }
}

/// Describes the network's names, and where this node answers questions for them.
fn names(names: &NamesStatus) -> String {
    let NamesStatus { domain, servers, resolver, records, .. } = names;
    if servers.is_empty() {
        return format!("*.{domain}");
    }
    let records = match records {
        0 => String::new(),
        1 => String::from(" and 1 record of the operator"),
        count => format!(" and {count} records of the operator"),
    };
    let text = format!("*.{domain}{records}, answered at {}", join(servers));
    match resolver {
        Some(ResolverStatus { by: Some(by), problem: None }) => format!("{text}, asked by {}", asker(*by)),
        Some(ResolverStatus { problem: Some(problem), .. }) => {
            format!("{text}; not asked by this host's programs: {}; {}", problem.message, problem.hint)
        }
        _ => text,
    }
}

/// Lists the operator's records by name; `None` if there are none.
fn records(names: &NamesStatus) -> Option<String> {
    let NamesStatus { records, record_names, .. } = names;
    let more = records.saturating_sub(record_names.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!record_names.is_empty()).then(|| format!("{}{more}", record_names.join(" ")))
}

/// Describes a domain whose questions go to other servers, with the reason for which one does not answer.
fn domain(status: &DomainStatus) -> String {
    let mut text = format!("{} asked at {}", status.domain, join(&status.servers));
    if status.yields {
        text.push_str(": not by this host's programs, see the warning above");
    }
    for ServerTrouble { server, reason } in &status.troubles {
        let _ = write!(text, "; {server}: {reason}");
    }
    text
}

/// Describes who answers names of the internet while an exit node is chosen.
fn internet_names(status: &InternetNames) -> String {
    let InternetNames { through, servers, troubles } = status;
    let Some(through) = through else {
        return String::from("not asked for, while no exit node can be used");
    };
    let mut text = format!("asked through the exit node {through}, at {}", join(servers));
    for ServerTrouble { server, reason } in troubles {
        let _ = write!(text, "; {server}: {reason}; `taut set --exit-dns 9.9.9.9` asks that server through it");
    }
    text
}

/// Returns who asks, as people name it.
fn asker(back_end: ResolverBackEnd) -> &'static str {
    match back_end {
        ResolverBackEnd::File => "programs, by /etc/resolv.conf",
        ResolverBackEnd::NetworkmanagerDnsmasq => "NetworkManager's dnsmasq",
        other => other.name(),
    }
}

/// Describes the lanes: how many run, and why not more.
fn lanes(lanes: &LanesStatus) -> String {
    let running = lanes.ports.len();
    if !lanes.auto {
        return format!("{running}, fixed by the setting `lanes`");
    }
    let more = match (&lanes.problem, lanes.most) {
        (Some(problem), _) => format!("more could not be started: {problem}"),
        (None, 0 | 1) => String::from("taut may use one core only"),
        (None, most) if running < usize::from(most) => format!("up to {most} when the flows of a peer need them"),
        (None, _) => String::from("one per core"),
    };
    format!("{running}, auto: {more}")
}

/// Describes the connection to the coordinator: since when it is away, why, and when the node tries again.
fn connection(coordinator: &CoordinatorStatus) -> String {
    if coordinator.connected {
        return String::from("connected");
    }
    let mut text = String::from("not connected");
    if let Some(seconds) = coordinator.disconnected_s {
        let _ = write!(text, " for {}", table::time(seconds));
    }
    if let Some(error) = &coordinator.last_error {
        let _ = write!(text, ": {}", plain(error, &coordinator.url));
    }
    if let Some(seconds) = coordinator.retry_in_s {
        let _ = write!(text, "; next attempt in {}", table::time(seconds));
    }
    text
}

/// Returns the reason of a failed connection without the URL, which the line names already, and without the number of the system's error.
fn plain(error: &str, url: &str) -> String {
    let reason = error.strip_prefix(url).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(error);
    match reason.split_once(" (os error ").and_then(|(text, rest)| Some((text, rest.split_once(')')?.1))) {
        Some((text, rest)) => [text, rest].concat(),
        None => String::from(reason),
    }
}

/// Describes the NAT in front of this node.
pub(crate) fn nat(nat: &NatStatus) -> String {
    let seen: Vec<String> = nat.seen_as.iter().map(ToString::to_string).collect();
    match (&nat.problem, seen.is_empty()) {
        (Some(problem), _) => format!("{}: {problem}", nat.kind),
        (None, true) => nat.kind.to_string(),
        (None, false) => format!("{}, seen as {}", nat.kind, seen.join(" ")),
    }
}

/// Describes the port mapping on the gateway.
pub(crate) fn port_mapping(status: &PortMapStatus) -> String {
    let mapped: Vec<String> = status.mapped.iter().map(ToString::to_string).collect();
    match (&status.protocol, mapped.is_empty(), &status.problem) {
        (Some(protocol), false, _) => format!("{} by {protocol}", mapped.join(" ")),
        (_, _, Some(problem)) => format!("none: {problem}"),
        (Some(protocol), true, None) => format!("asked for by {protocol}"),
        (None, _, None) => String::from("none yet"),
    }
}

fn relay(relay: &RelayStatus) -> String {
    let mut text = format!("{}, {}", relay.name, relay.state.name());
    if relay.via == Some(RelayVia::Websocket) {
        text.push_str(" by WebSocket (UDP to it is not answered)");
    }
    if let Some(milliseconds) = relay.latency_ms {
        let _ = write!(text, ", {} ms", table::fixed(milliseconds, 1));
    }
    if relay.home {
        text.push_str(", home");
    }
    if let Some(problem) = &relay.problem {
        let _ = write!(text, ": {problem}");
    }
    if let Some(problem) = relay.websocket.as_ref().and_then(|websocket| websocket.problem.as_ref()) {
        let _ = write!(text, "; WebSocket: {problem}");
    }
    text
}

fn peer_rows(peers: &[PeerStatus]) -> Vec<Vec<String>> {
    let head = ["NAME", "ADDRESSES", "PATH", "SUITE", "ONLINE", "RECEIVED", "SENT"];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(peers.iter().map(|peer| {
        let online = match peer.online {
            Some(true) => "yes",
            Some(false) => "no",
            None => "unknown",
        };
        vec![
            peer.name.clone(),
            join(&peer.addresses),
            path(peer),
            peer.session.as_ref().map_or_else(String::new, |session| session.suite.clone()),
            String::from(online),
            bytes(peer.rx_bytes, peer.traffic.relayed.received),
            bytes(peer.tx_bytes, peer.traffic.relayed.sent),
        ]
    }));
    rows
}

/// Formats a number of bytes, with the number of relayed bytes in parentheses.
fn bytes(all: u64, relayed: u64) -> String {
    match relayed {
        0 => table::bytes(all),
        _ => format!("{} ({} relayed)", table::bytes(all), table::bytes(relayed)),
    }
}

/// Formats a peer's path: kind, round-trip time, loss, age, number of lanes.
fn path(peer: &PeerStatus) -> String {
    // A peer that nobody talked to has no path, and needs none.
    let mut text = match (peer.path.kind, &peer.session) {
        (PathKind::None, None) => String::from("no session"),
        _ => peer.path.to_string(),
    };
    if peer.path.silent {
        text.push_str(", no answer");
    } else if let Some(milliseconds) = peer.round_trip_ms.filter(|_| peer.path.kind != PathKind::None) {
        let _ = write!(text, ", {} ms", table::fixed(milliseconds, 1));
    }
    if let Some(mtu) = peer.path.mtu {
        let _ = write!(text, ", MTU {mtu}");
    }
    if let Some(loss) = peer.path.loss.filter(|loss| *loss > 0.0) {
        let _ = write!(text, ", {} % lost", table::fixed(loss * 100.0, 1));
    }
    if let Some(since) = peer.path.since_s {
        let _ = write!(text, ", for {}", table::time(since));
    }
    if let Some(session) = &peer.session {
        if session.lanes > 1 {
            let _ = write!(text, ", {} of {} lanes", session.lanes_in_use, session.lanes);
        }
        match session.lanes_limit.as_deref() {
            Some("ports-closed") => text.push_str(", no more lanes: a firewall or NAT lets only the first port in"),
            Some("relayed") if session.lanes > 1 => text.push_str(", one lane on this relay"),
            Some("no-gain") => text.push_str(", one lane: more carried no more"),
            _ => {}
        }
    }
    if peer.changes.ignored > 0 {
        let _ = write!(text, ", {} changes of its lanes put off: more than one in 5 s", peer.changes.ignored);
    }
    text
}

/// Returns a note on ports that other programs use; empty if there are none.
pub(crate) fn taken(ports: &[u16]) -> String {
    match ports {
        [] => String::new(),
        _ => format!(" (another program has {})", list(ports)),
    }
}

fn list(ports: &[u16]) -> String {
    ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// Returns the addresses, separated by spaces.
pub(crate) fn join(addresses: &[IpAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
pub(crate) use tests::sample;

#[cfg(test)]
mod tests;

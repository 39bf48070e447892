//! `taut status`: everything a user can see, on one screen or as JSON.

use std::fmt::Write;
use std::net::IpAddr;

use taut_keeper::api::{PathKind, PeerStatus, State, Status};

use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, unexpected};
use crate::{client, output, table};

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let (mut socket, mut json) = (default_socket(), false);
    while let Some(word) = words.next()? {
        match word {
            Word::Flag(flag) if flag == "--json" => json = true,
            Word::Flag(flag) if flag == "--socket" => socket = words.value()?.into(),
            other => return Err(unexpected(&other)),
        }
    }
    let status = client::status(&socket)?;
    match json {
        true => output::print_json(&*status),
        false => output::print(&render(&status)),
    }
    Ok(())
}

/// The status for people.
pub(crate) fn render(status: &Status) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}", headline(status));
    if let Some(problem) = &status.problem {
        let _ = writeln!(text, "problem: {problem}");
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
        State::NeedsJoin => "not a member of any network; join one with `taut up --join TOKEN`",
        State::Connecting => "connecting",
        State::Running => "up",
        State::Stopped => "down; connect with `taut up`",
    };
    match (&status.me, &status.network) {
        (Some(me), Some(network)) => format!("{} in network {network}: {state}", me.name),
        _ => format!("taut: {state}"),
    }
}

/// Coordinator, addresses, device: one line each.
fn surroundings(status: &Status) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    if let Some(me) = &status.me {
        rows.push(vec![String::from("addresses"), join(&me.addresses)]);
        if let Some(tun) = &me.tun {
            let ports = me.lanes.as_ref().map(|lanes| &lanes.ports[..]).unwrap_or_default();
            let port = match ports {
                [_, _, ..] => format!("UDP ports {}, one per lane", list(ports)),
                _ => format!("UDP port {}", me.port),
            };
            let device = format!("{}, MTU {}, {port}", tun.name, tun.mtu);
            rows.push(vec![String::from("device"), device]);
        }
    }
    if let Some(coordinator) = &status.coordinator {
        let state = match (&coordinator.last_error, coordinator.connected) {
            (_, true) => String::from("connected"),
            (Some(error), false) => format!("not connected: {error}"),
            (None, false) => String::from("not connected"),
        };
        rows.push(vec![String::from("coordinator"), format!("{}, {state}", coordinator.url)]);
    }
    table::columns(&rows)
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
            table::bytes(peer.rx_bytes),
            table::bytes(peer.tx_bytes),
        ]
    }));
    rows
}

/// By which way packets go, how long they take there and back, and on how many lanes.
fn path(peer: &PeerStatus) -> String {
    let mut text = peer.path.to_string();
    if let Some(milliseconds) = peer.round_trip_ms.filter(|_| peer.path.kind == PathKind::Direct) {
        let _ = write!(text, ", {milliseconds:.1} ms");
    }
    if let Some(session) = peer.session.as_ref().filter(|session| session.lanes > 1) {
        let _ = write!(text, ", {} of {} lanes", session.lanes_in_use, session.lanes);
    }
    text
}

fn list(ports: &[u16]) -> String {
    ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// Addresses in a row.
pub(crate) fn join(addresses: &[IpAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
pub(crate) use tests::sample;

#[cfg(test)]
mod tests;

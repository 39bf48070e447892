//! The metrics of a node in Prometheus' text exposition format, version 0.0.4.
//!
//! All metrics are made from [`Status`], which every local user may read: they contain no keys and no tokens. `taut metrics` prints them through the local API, and
//! `http` serves them at the address of `taut daemon --metrics`.
//!
//! Names begin with `taut_` and contain units. A state (the kind of a path, the state of a relay) is one series per possible value, with 1 for the present value and 0 for
//! the others: an alert needs no list of values. Unknown values are left out: an error is not a zero (law 6).

pub(crate) mod http;

use std::fmt::{Display, Write};

use taut_json::Decimal;

use crate::api::{NodeState, PathKind, PeerStatus, RelayState, RelayVia, Status};

/// The content type of the text of [`render`].
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns all metrics as text.
pub fn render(status: &Status) -> String {
    let mut page = Page::default();
    myself(&mut page, status);
    paths(&mut page, &status.peers);
    traffic(&mut page, &status.peers);
    relays(&mut page, status);
    page.text
}

/// The text of the metrics, written family by family.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    /// Starts a family of series.
    fn family(&mut self, name: &'static str, kind: &str, help: &str) -> Family<'_> {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family { text: &mut self.text, name }
    }

    fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "gauge", help)
    }

    fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "counter", help)
    }
}

/// The family whose series are written.
struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Family<'_> {
    fn series(&mut self, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        self.text.push_str(self.name);
        for (number, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.text, "{}{label}=\"{}\"", if number == 0 { '{' } else { ',' }, escape(text));
        }
        let _ = writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
        self
    }
}

/// Escapes the value of a label.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn myself(page: &mut Page, status: &Status) {
    let (network, node) = (status.network.as_deref().unwrap_or(""), status.me.as_ref().map_or("", |me| &me.name));
    page.gauge("taut_info", "Which program this is, and which node of which network.")
        .series(&[("version", &status.version), ("network", network), ("node", node)], 1);
    page.gauge("taut_up", "Whether the overlay is up.").series(&[], u8::from(status.state == NodeState::Running));
    if let Some(coordinator) = &status.coordinator {
        page.gauge("taut_coordinator_connected", "Whether the control channel is open; traffic does not depend on it.")
            .series(&[], u8::from(coordinator.connected));
        page.gauge("taut_map_version", "Version of the network map in force.").series(&[], coordinator.map_version);
    }
    if let Some(tun) = status.me.as_ref().and_then(|me| me.tun.as_ref()) {
        page.gauge("taut_tun_mtu_bytes", "MTU of the overlay device.").series(&[], tun.mtu);
    }
    if let Some(lanes) = status.me.as_ref().and_then(|me| me.lanes.as_ref()) {
        page.gauge("taut_lanes", "Threads that move packets.").series(&[], lanes.ports.len());
    }
    let mut drops = page.counter("taut_dropped_packets_total", "Packets dropped, by reason (docs/drops.md).");
    for (reason, count) in &status.drops {
        drops.series(&[("reason", reason)], count);
    }
    let counts = &status.handshakes;
    let mut handshakes =
        page.counter("taut_handshakes_received_total", "What became of the handshakes that others began.");
    for (outcome, count) in [
        ("computed", counts.computed),
        ("answered", counts.answered),
        ("repeated", counts.repeated),
        ("over-limit", counts.over_limit),
        ("cookie", counts.cookies),
    ] {
        handshakes.series(&[("outcome", outcome)], count);
    }
    if let Some(nat) = &status.nat {
        page.gauge(
            "taut_nat_info",
            "The NAT between this node and the internet, by name and in the terms of RFC 4787.",
        )
        .series(
            &[
                ("kind", &nat.kind.to_string()),
                ("mapping", &nat.mapping.to_string()),
                ("filtering", &nat.filtering.to_string()),
            ],
            1,
        );
    }
    if let Some(mapped) = &status.port_mapping {
        page.gauge("taut_mapped_ports", "Outside ports that the gateway opened for this node.")
            .series(&[], mapped.mapped.len());
    }
}

fn paths(page: &mut Page, peers: &[PeerStatus]) {
    let mut kinds = page.gauge("taut_peer_path", "By which kind of way packets go to a peer: 1 for the one in use.");
    for peer in peers {
        for kind in PathKind::ALL {
            kinds.series(&[("peer", &peer.name), ("kind", kind.name())], u8::from(peer.path.kind == kind));
        }
    }
    let mut of_peers = |name, help, value: &dyn Fn(&PeerStatus) -> Option<f64>| {
        let mut family = page.gauge(name, help);
        for (peer, value) in peers.iter().filter_map(|peer| Some((peer, value(peer)?))) {
            family.series(&[("peer", &peer.name)], Decimal(value));
        }
    };
    of_peers("taut_peer_path_age_seconds", "Since when packets go this way.", &|peer| peer.path.since_s);
    of_peers("taut_peer_round_trip_seconds", "To the peer and back, by the latest answered probe.", &|peer| {
        peer.round_trip_ms.map(|milliseconds| milliseconds / 1e3)
    });
    of_peers("taut_peer_loss_ratio", "Share of the latest probes on the path that were not answered.", &|peer| {
        peer.path.loss
    });
    of_peers("taut_peer_online", "Whether the coordinator has heard from the peer lately.", &|peer| {
        peer.online.map(|online| f64::from(u8::from(online)))
    });
    of_peers("taut_peer_session_age_seconds", "Since the handshake of the session in use.", &|peer| {
        peer.session.as_ref().map(|session| session.age_s)
    });
    of_peers("taut_peer_mtu_bytes", "Longest IP packet that the path to the peer carries in one datagram.", &|peer| {
        peer.path.mtu.map(f64::from)
    });
    of_peers("taut_peer_lanes", "Lanes that carry packets to and from the peer.", &|peer| {
        peer.session.as_ref().map(|session| f64::from(session.lanes_in_use))
    });
}

fn traffic(page: &mut Page, peers: &[PeerStatus]) {
    let mut sessions = page.counter("taut_peer_handshakes_total", "Sessions made with a peer.");
    for peer in peers {
        sessions.series(&[("peer", &peer.name)], peer.session.as_ref().map_or(0, |session| session.established));
    }
    let mut received =
        page.counter("taut_peer_received_bytes_total", "Bytes of IP packets from a peer, by kind of way.");
    for peer in peers {
        let traffic = &peer.traffic;
        received.series(&[("peer", &peer.name), ("way", "direct")], traffic.direct.received);
        received.series(&[("peer", &peer.name), ("way", "relayed")], traffic.relayed.received);
    }
    let mut sent = page.counter("taut_peer_sent_bytes_total", "Bytes of IP packets to a peer, by kind of way.");
    for peer in peers {
        sent.series(&[("peer", &peer.name), ("way", "direct")], peer.traffic.direct.sent);
        sent.series(&[("peer", &peer.name), ("way", "relayed")], peer.traffic.relayed.sent);
    }
    let mut refused = page
        .counter("taut_peer_changes_refused_total", "Changes of a peer's path or lanes that were given up or ignored.");
    for peer in peers {
        refused.series(&[("peer", &peer.name), ("why", "given-up")], peer.changes.given_up);
        refused.series(&[("peer", &peer.name), ("why", "ignored")], peer.changes.ignored);
    }
    let mut marks = page.counter(
        "taut_peer_congestion_marks_total",
        "Packets from and to a peer that got a congestion mark here, because their flow kept a queue of this node long.",
    );
    for peer in peers {
        marks.series(&[("peer", &peer.name), ("direction", "received")], peer.congestion_marks.received);
        marks.series(&[("peer", &peer.name), ("direction", "sent")], peer.congestion_marks.sent);
    }
}

fn relays(page: &mut Page, status: &Status) {
    let mut states =
        page.gauge("taut_relay_state", "How this node stands with a relay: 1 for the state that it is in.");
    for relay in &status.relays {
        for state in RelayState::ALL {
            states.series(&[("relay", &relay.name), ("state", state.name())], u8::from(relay.state == state));
        }
    }
    let mut via =
        page.gauge("taut_relay_via", "By what a relay is reached: 1 for that; by WebSocket where UDP is not answered.");
    for relay in &status.relays {
        for way in RelayVia::ALL {
            via.series(&[("relay", &relay.name), ("via", way.name())], u8::from(relay.via == Some(way)));
        }
    }
    let mut home = page.gauge("taut_relay_home", "Whether other nodes are told to reach this node through the relay.");
    for relay in &status.relays {
        home.series(&[("relay", &relay.name)], u8::from(relay.home));
    }
    let mut latency = page.gauge("taut_relay_round_trip_seconds", "To the relay and back.");
    for (relay, milliseconds) in status.relays.iter().filter_map(|relay| Some((relay, relay.latency_ms?))) {
        latency.series(&[("relay", &relay.name)], Decimal(milliseconds / 1e3));
    }
}

#[cfg(test)]
pub(crate) mod tests;

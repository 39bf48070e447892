//! The counters of a relay, as JSON and for Prometheus. They contain no address and no key (fault F12).

use std::fmt::Write as _;

use serde_json::{Value, json};
use taut_relay::{ForwardCounts, Tally};

/// All counters of a relay, since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Counters of the server.
    pub tally: Tally,
    /// Counters of forwarded frames.
    pub counts: ForwardCounts,
    /// Runs of datagrams that the kernel refused.
    pub not_sent: u64,
    /// Datagrams that the kernel dropped because a socket's buffer was full.
    pub socket_full: u64,
    /// Frames dropped because a WebSocket client read too slowly.
    pub slow_reader: u64,
    /// WebSocket connections at present.
    pub websockets: u64,
    /// Connections evicted for others.
    pub crowded: u64,
    /// Connections that were closed because no client was bound on them in time.
    pub late: u64,
    /// Frames of unbound connections over the limit of their address.
    pub hurried: u64,
    /// STUN requests that were answered.
    pub stun: u64,
    /// STUN messages that were not answered.
    pub bad_stun: u64,
    /// Coordinators to which there is a channel at present.
    pub coordinators: u64,
    /// Revocations that coordinators told of.
    pub revocations: u64,
}

impl Stats {
    /// Returns each drop reason with its count. docs/relay.md explains the reasons.
    pub fn drops(&self) -> [(&'static str, u64); 23] {
        let (tally, counts) = (&self.tally, &self.counts);
        [
            ("unknown-id", counts.unknown_id),
            ("over-share", counts.over_share),
            ("not-wireguard", counts.not_wireguard),
            ("unbound", tally.unbound),
            ("not-sent", self.not_sent),
            ("socket-full", self.socket_full),
            ("slow-reader", self.slow_reader),
            ("stream-crowded", self.crowded),
            ("stream-late", self.late),
            ("stream-rate", self.hurried),
            ("not-a-frame", tally.not_a_frame),
            ("bad-mac", tally.bad_mac),
            ("cookie-asked", tally.cookie_asked),
            ("bind-rate", tally.bind_rate),
            ("not-authentic", tally.not_authentic),
            ("bad-ticket", tally.bad_ticket + tally.not_theirs),
            ("full", tally.full),
            ("member-binds", tally.member_binds),
            ("stale-bind", tally.stale),
            ("cut-off", tally.cut_off),
            ("control-rate", tally.control_rate),
            ("move-rate", tally.move_rate),
            ("bad-stun", self.bad_stun),
        ]
    }

    fn gauges(&self) -> [(&'static str, &'static str, u64); 5] {
        [
            ("clients", "Clients bound at present.", self.tally.clients),
            ("lanes", "Lanes of clients beyond the first, bound at present.", self.tally.lanes),
            ("channels", "Channels open at present, counted once for each direction.", self.tally.channels),
            ("websockets", "WebSocket connections at present, bound or not.", self.websockets),
            ("coordinators", "Coordinators to which there is a channel at present.", self.coordinators),
        ]
    }

    fn counters(&self) -> [(&'static str, &'static str, u64); 12] {
        let (tally, counts) = (&self.tally, &self.counts);
        [
            ("forwarded_datagrams_total", "Forwarded datagrams.", counts.datagrams),
            ("forwarded_bytes_total", "Forwarded bytes, frame headers included.", counts.bytes),
            ("bindings_total", "Bindings that began.", tally.bound),
            ("replaced_total", "Bindings that replaced another one of the same member.", tally.replaced),
            ("challenges_total", "Challenges sent to addresses that a client had not proven.", tally.challenged),
            ("moved_total", "Clients that moved by answering a challenge.", tally.moved),
            ("displaced_total", "Clients whose address another client has proven.", tally.displaced),
            (
                "evicted_total",
                "Clients evicted from a full table because their network was the largest.",
                tally.evicted,
            ),
            (
                "evicted_channels_total",
                "Channels evicted from a full table because their network was the largest.",
                tally.channels_evicted,
            ),
            ("ended_total", "Bindings that ended.", tally.ended),
            ("stun_total", "STUN requests that were answered.", self.stun),
            ("revocations_total", "Revocations that coordinators told of.", self.revocations),
        ]
    }

    /// Returns the description of a field of [`Stats::json`]; `None` if this release does not have the field.
    pub fn meaning(name: &str) -> Option<&'static str> {
        let known = Self::default();
        let mut families = known.gauges().into_iter().chain(known.counters());
        families.find(|(family, ..)| family.trim_end_matches("_total") == name).map(|(_, help, _)| help)
    }

    /// Returns the counters in the text format of Prometheus.
    pub fn prometheus(&self) -> String {
        let mut text = String::new();
        let families = self.gauges().map(|family| ("gauge", family)).into_iter();
        for (kind, (name, help, value)) in families.chain(self.counters().map(|family| ("counter", family))) {
            let _ = writeln!(
                text,
                "# HELP taut_relay_{name} {help}\n# TYPE taut_relay_{name} {kind}\ntaut_relay_{name} {value}"
            );
        }
        text.push_str(
            "# HELP taut_relay_drops_total Dropped datagrams, frames and connections, by reason.\n# TYPE taut_relay_drops_total counter\n",
        );
        for (reason, count) in self.drops() {
            let _ = writeln!(text, "taut_relay_drops_total{{reason=\"{reason}\"}} {count}");
        }
        text
    }

    /// Returns the counters for `taut-relay status --json`.
    pub fn json(&self) -> Value {
        let mut object = json!({ "schema": 1 });
        for (name, _, value) in self.gauges().into_iter().chain(self.counters()) {
            object[name.trim_end_matches("_total")] = json!(value);
        }
        object["drops"] = self.drops().into_iter().map(|(reason, count)| (reason.to_owned(), json!(count))).collect();
        object
    }
}

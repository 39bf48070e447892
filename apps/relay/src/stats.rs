//! What a relay has counted, in words and for Prometheus. No address and no key of anybody (fault F12).

use std::fmt::Write as _;

use serde_json::{Value, json};
use taut_relay::{ForwardCounts, Tally};

/// All counters of a relay, since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Of the rules.
    pub tally: Tally,
    /// Of what was forwarded.
    pub counts: ForwardCounts,
    /// Runs of datagrams that the kernel did not take.
    pub not_sent: u64,
    /// Datagrams that came faster than they were read.
    pub socket_full: u64,
    /// Frames for clients by WebSocket that did not read fast enough.
    pub slow_reader: u64,
    /// Connections by WebSocket now.
    pub websockets: u64,
    /// Connections that were closed because others needed the place.
    pub crowded: u64,
    /// Connections that were closed because no client was bound on them in time.
    pub late: u64,
    /// Frames of connections that are not bound, beyond what their address may send.
    pub hurried: u64,
    /// STUN requests that were answered.
    pub stun: u64,
    /// STUN messages that were not.
    pub bad_stun: u64,
}

impl Stats {
    /// Each reason for which something went no further, with its count. docs/relay.md explains them.
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

    fn gauges(&self) -> [(&'static str, &'static str, u64); 3] {
        [
            ("clients", "Clients that are bound now.", self.tally.clients),
            ("channels", "Channels between two of them now, each direction counted.", self.tally.channels),
            ("websockets", "Connections by WebSocket now, bound or not.", self.websockets),
        ]
    }

    fn counters(&self) -> [(&'static str, &'static str, u64); 11] {
        let (tally, counts) = (&self.tally, &self.counts);
        [
            ("forwarded_datagrams_total", "Datagrams handed on.", counts.datagrams),
            ("forwarded_bytes_total", "Bytes handed on, frame headers included.", counts.bytes),
            ("bindings_total", "Bindings that began.", tally.bound),
            ("replaced_total", "Bindings that took the place of another one of the same key.", tally.replaced),
            ("challenges_total", "Challenges to places where a client had not proven to be.", tally.challenged),
            ("moved_total", "Clients that moved by answering a challenge.", tally.moved),
            ("displaced_total", "Clients whose place another client has taken by proof.", tally.displaced),
            (
                "evicted_total",
                "Clients ended in a full table because their network held the most of it.",
                tally.evicted,
            ),
            (
                "evicted_channels_total",
                "Channels ended in a full table because their network held the most of it.",
                tally.channels_evicted,
            ),
            ("ended_total", "Bindings that ended.", tally.ended),
            ("stun_total", "STUN requests that were answered.", self.stun),
        ]
    }

    /// The text format of Prometheus.
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
            "# HELP taut_relay_drops_total What went no further, by reason.\n# TYPE taut_relay_drops_total counter\n",
        );
        for (reason, count) in self.drops() {
            let _ = writeln!(text, "taut_relay_drops_total{{reason=\"{reason}\"}} {count}");
        }
        text
    }

    /// The same for `taut-relay status --json`.
    pub fn json(&self) -> Value {
        let mut object = json!({ "schema": 1 });
        for (name, _, value) in self.gauges().into_iter().chain(self.counters()) {
            object[name.trim_end_matches("_total")] = json!(value);
        }
        object["drops"] = self.drops().into_iter().map(|(reason, count)| (reason.to_owned(), json!(count))).collect();
        object
    }
}

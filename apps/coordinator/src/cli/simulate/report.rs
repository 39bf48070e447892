//! The result of a simulation, for people and for programs.

use std::fmt::Write;
use std::time::Duration;

use serde_json::json;

use super::sites::SiteReport;

/// Version of the JSON object.
const SCHEMA: u32 = 1;

/// The result.
pub(super) struct Report {
    pub(super) nodes: usize,
    /// Members that each member sees, itself included.
    pub(super) visible: usize,
    /// Coordinators. What follows about memory and cores is the sum of theirs.
    pub(super) replicas: usize,
    pub(super) changes: u64,
    pub(super) seconds: Duration,
    /// Times from a change to its arrival at the last member, in rising order.
    pub(super) delays: Vec<Duration>,
    /// Changes that did not arrive everywhere.
    pub(super) lost: usize,
    /// Members whose map differs from the coordinator's at the end.
    pub(super) differing: usize,
    /// Deltas that did not fit a member's map.
    pub(super) misfits: u64,
    /// The coordinator's memory at the end of the changes, and the most that it had, in KiB.
    pub(super) rss: u64,
    pub(super) most: u64,
    /// Memory per channel, in bytes.
    pub(super) per_channel: u64,
    /// Cores that the coordinator used during the changes.
    pub(super) cores: f64,
    pub(super) connect: Duration,
    pub(super) reconnect: Duration,
    /// Bytes of messages that a member received during the changes.
    pub(super) received: u64,
    /// Number of members at each relay at the end.
    pub(super) relays: Vec<SiteReport>,
    /// Round-trip time to each member's first relay minus that to its nearest, in rising order.
    pub(super) detours: Vec<Duration>,
}

/// Returns the duration that this many of a thousand do not exceed, in milliseconds; `None` if there are none. They are in rising order.
fn quantile(durations: &[Duration], thousandths: usize) -> Option<f64> {
    let place = (durations.len() * thousandths).div_ceil(1000).max(1) - 1;
    durations.get(place).map(|duration| (duration.as_secs_f64() * 10_000.0).round() / 10.0)
}

impl Report {
    /// Returns true if nothing was lost and all maps are right.
    pub(super) fn is_right(&self) -> bool {
        self.lost == 0 && self.differing == 0 && self.misfits == 0
    }

    /// Returns the delay that this many of a thousand changes do not exceed, in milliseconds; `None` without a change.
    fn delay(&self, thousandths: usize) -> Option<f64> {
        quantile(&self.delays, thousandths)
    }

    /// Returns the object of `--json`.
    pub(super) fn json(&self) -> String {
        let seconds = |duration: Duration| (duration.as_secs_f64() * 1000.0).round() / 1000.0;
        let relay = |relay: &SiteReport| {
            let SiteReport { name, nearest, bound, places } = relay;
            json!({ "name": name, "nearest": nearest, "bound": bound, "places": places })
        };
        let detour = |thousandths| quantile(&self.detours, thousandths);
        let relays: Vec<_> = self.relays.iter().map(relay).collect();
        let object = json!({
            "schema": SCHEMA,
            "nodes": self.nodes,
            "visible": self.visible,
            "replicas": self.replicas,
            "changes": self.changes,
            "seconds": seconds(self.seconds),
            "delta_ms": { "p50": self.delay(500), "p99": self.delay(990), "max": self.delay(1000) },
            "lost_updates": self.lost,
            "differing_maps": self.differing,
            "misfit_deltas": self.misfits,
            "coordinator_rss_kib": self.rss,
            "coordinator_most_kib": self.most,
            "bytes_per_channel": self.per_channel,
            "coordinator_cores": (self.cores * 1000.0).round() / 1000.0,
            "connect_all_s": seconds(self.connect),
            "reconnect_all_s": seconds(self.reconnect),
            "bytes_per_node": self.received,
            "relays": relays,
            "relay_detour_ms": { "p50": detour(500), "p99": detour(990), "max": detour(1000) },
        });
        format!("{object:#}\n")
    }

    /// Returns the lines for people.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let delay =
            |thousandths| self.delay(thousandths).map_or_else(|| String::from("–"), |delay| format!("{delay} ms"));
        // Writing to a String cannot fail.
        let of = if self.replicas > 1 { format!(", {} coordinators", self.replicas) } else { String::new() };
        let _ = writeln!(text, "{} nodes, each sees {} others{of}", self.nodes, self.visible - 1);
        let _ = writeln!(
            text,
            "all connected        {:.1} s; again after a restart {:.1} s",
            self.connect.as_secs_f64(),
            self.reconnect.as_secs_f64()
        );
        let _ = writeln!(text, "changes              {} in {:.0} s", self.changes, self.seconds.as_secs_f64());
        let _ = writeln!(text, "until the last node  p50 {}, p99 {}, longest {}", delay(500), delay(990), delay(1000));
        let _ =
            writeln!(text, "coordinator          {} KiB (at most {}), {:.2} cores", self.rss, self.most, self.cores);
        let _ = writeln!(
            text,
            "for each node        {} bytes of memory, {} bytes received",
            self.per_channel, self.received
        );
        let _ = writeln!(
            text,
            "lost changes         {}; {} maps differ; {} deltas did not fit",
            self.lost, self.differing, self.misfits
        );
        self.relays_text(&mut text);
        text
    }

    fn relays_text(&self, text: &mut String) {
        if self.relays.is_empty() {
            return;
        }
        let _ = writeln!(text, "\n{:<12}{:>12}{:>12}{:>12}{:>8}", "RELAY", "NEAREST TO", "BOUND", "PLACES", "LOAD");
        for SiteReport { name, nearest, bound, places } in &self.relays {
            let load = (bound * 100).checked_div(*places).unwrap_or(0);
            let _ = writeln!(text, "{name:<12}{nearest:>12}{bound:>12}{places:>12}{load:>6} %");
        }
        let detour = |thousandths| quantile(&self.detours, thousandths).unwrap_or(0.0);
        let _ = writeln!(
            text,
            "farther than the nearest relay: p50 {} ms, p99 {} ms, longest {} ms",
            detour(500),
            detour(990),
            detour(1000)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(delays: &[u64]) -> Report {
        Report {
            nodes: 3,
            visible: 3,
            replicas: 1,
            changes: 2,
            seconds: Duration::from_secs(2),
            delays: delays.iter().map(|delay| Duration::from_millis(*delay)).collect(),
            lost: 0,
            differing: 0,
            misfits: 0,
            rss: 1,
            most: 2,
            per_channel: 3,
            cores: 0.25,
            connect: Duration::from_secs(1),
            reconnect: Duration::from_secs(2),
            received: 4,
            relays: Vec::new(),
            detours: Vec::new(),
        }
    }

    #[test]
    fn percentiles_are_delays_that_occurred() {
        let hundred: Vec<u64> = (1..=100).collect();
        let all = report(&hundred);
        assert_eq!([500, 990, 1000].map(|part| all.delay(part)), [Some(50.0), Some(99.0), Some(100.0)]);
        assert_eq!([500, 990, 1000].map(|part| report(&[7]).delay(part)), [Some(7.0); 3]);
        assert_eq!(report(&[]).delay(990), None);
        assert!(report(&[]).text().contains("p99 –"));
    }

    #[test]
    fn one_wrong_map_is_a_failure() {
        assert!(report(&[1]).is_right());
        for wrong in [
            Report { lost: 1, ..report(&[1]) },
            Report { differing: 1, ..report(&[1]) },
            Report { misfits: 1, ..report(&[1]) },
        ] {
            assert!(!wrong.is_right());
        }
    }
}

//! The report of `taut ping`, for people and for programs.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::Serialize;
use taut_agent::api::{PathKind, PathStatus, SCHEMA};

use crate::table::fixed;

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    schema: u32,
    pub(super) peer: String,
    pub(super) address: IpAddr,
    pub(super) sent: u16,
    pub(super) received: u16,
    replies: Vec<Reply>,
}

/// One reply.
#[derive(Debug, Serialize)]
pub(super) struct Reply {
    seq: u16,
    /// Round-trip time in milliseconds, rounded to a microsecond.
    ms: f64,
    path: PathKind,
    /// The peer's endpoint, on a direct path.
    endpoint: Option<SocketAddr>,
    /// The relay's name, on a relayed path.
    relay: Option<String>,
}

impl Report {
    pub(super) fn new(peer: &str, address: IpAddr) -> Self {
        Self { schema: SCHEMA, peer: String::from(peer), address, sent: 0, received: 0, replies: Vec::new() }
    }

    pub(super) fn add(&mut self, reply: Reply) {
        self.received += 1;
        self.replies.push(reply);
    }

    /// Returns true if a reply came on a direct path.
    pub(super) fn was_direct(&self) -> bool {
        self.replies.iter().any(|reply| reply.path == PathKind::Direct)
    }

    /// Returns true if the last reply came through a relay.
    pub(super) fn is_relayed(&self) -> bool {
        self.replies.last().is_some_and(|reply| reply.path == PathKind::Relayed)
    }

    /// Returns the last line of the output.
    pub(super) fn summary(&self) -> String {
        let times = || self.replies.iter().map(|reply| reply.ms);
        let (fastest, slowest) = (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max));
        match self.received {
            0 => format!("{} sent, none came back", self.sent),
            _ => format!(
                "{} sent, {} came back, {} to {} ms",
                self.sent,
                self.received,
                fixed(fastest, 2),
                fixed(slowest, 2)
            ),
        }
    }
}

impl Reply {
    pub(super) fn new(seq: u16, time: Duration, path: &PathStatus) -> Self {
        let ms = (time.as_secs_f64() * 1_000_000.0).round() / 1_000.0;
        Self { seq, ms, path: path.kind, endpoint: path.endpoint, relay: path.relay.clone() }
    }

    /// Returns the line for people.
    pub(super) fn describe(&self, peer: &str, address: IpAddr) -> String {
        let path = match (self.path, self.endpoint, &self.relay) {
            (PathKind::Direct, Some(endpoint), _) => format!("direct {endpoint}"),
            (PathKind::Direct, None, _) => String::from("direct"),
            (PathKind::Relayed, _, Some(relay)) => format!("relay {relay}"),
            (PathKind::Relayed, _, None) => String::from("relay"),
            (PathKind::None, ..) => String::from("a path that no longer exists"),
        };
        format!("pong from {peer} ({address}) via {path} in {} ms", fixed(self.ms, 2))
    }
}

/// Returns the line for a request without a reply.
pub(super) fn no_reply(peer: &str, address: IpAddr, timeout: Duration, path: &PathStatus) -> String {
    format!("no reply from {peer} ({address}) within {timeout:.1?}: {}", describe(path))
}

/// Returns the line for a request that could not be sent.
pub(super) fn not_sent(peer: &str, address: IpAddr, error: &io::Error, path: &PathStatus) -> String {
    format!("no reply from {peer} ({address}), {error}: {}", describe(path))
}

fn describe(path: &PathStatus) -> impl fmt::Display {
    match path.kind {
        PathKind::None => String::from("no path to it yet"),
        PathKind::Direct | PathKind::Relayed => format!("the path is {path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direct() -> PathStatus {
        PathStatus::direct(Some("10.0.0.2:8288".parse().unwrap()))
    }

    #[test]
    fn lines_for_people() {
        let address = "100.64.0.2".parse().unwrap();
        let mut report = Report::new("n2", address);
        report.sent = 2;
        assert_eq!(report.summary(), "2 sent, none came back");
        let reply = Reply::new(1, Duration::from_micros(420), &direct());
        assert_eq!(reply.describe("n2", address), "pong from n2 (100.64.0.2) via direct 10.0.0.2:8288 in 0.42 ms");
        report.add(reply);
        assert!(report.was_direct() && !report.is_relayed());
        assert_eq!(report.summary(), "2 sent, 1 came back, 0.42 to 0.42 ms");
        let line = no_reply("n2", address, Duration::from_secs(5), &PathStatus::default());
        assert_eq!(line, "no reply from n2 (100.64.0.2) within 5.0s: no path to it yet");
    }

    #[test]
    fn a_relay_is_named() {
        let (mut report, address) = (Report::new("n2", "100.64.0.2".parse().unwrap()), "100.64.0.2".parse().unwrap());
        let reply = Reply::new(1, Duration::from_millis(31), &PathStatus::relayed("r1"));
        assert_eq!(reply.describe("n2", address), "pong from n2 (100.64.0.2) via relay r1 in 31.00 ms");
        report.add(reply);
        assert!(!report.was_direct() && report.is_relayed());
        let line = no_reply("n2", address, Duration::from_secs(5), &PathStatus::relayed("r1"));
        assert_eq!(line, "no reply from n2 (100.64.0.2) within 5.0s: the path is relayed by r1");
    }

    #[test]
    fn an_object_for_programs() {
        let mut report = Report::new("n2", "100.64.0.2".parse().unwrap());
        report.sent = 1;
        report.add(Reply::new(1, Duration::from_micros(420), &direct()));
        assert_eq!(
            serde_json::to_string(&report).unwrap(),
            r#"{"schema":1,"peer":"n2","address":"100.64.0.2","sent":1,"received":1,"replies":[{"seq":1,"ms":0.42,"path":"direct","endpoint":"10.0.0.2:8288","relay":null}]}"#
        );
    }
}

//! Limits on the number of lines, so that no sender, member or local program can fill a disk or hide the events of another party (fault P5, law 15).
//!
//! ```text
//! lines of one event and reason per minute    6 per party, 60 of all parties; the first line of each further party, up to 180
//! lines to the disk per hour                  60 per peer, per relay and of all unauthenticated senders; 120 of the coordinator; 600 of this node
//! ```
//! Suppressed lines are counted. After the minute one line per event and reason reports their number.

use std::time::Duration;

use taut_base::Time;

/// Limit on the lines of one event, reason and party within a [`WINDOW`], 6: a path that changes more often flaps, and a count of its changes says more than
/// a line for each.
const PER_PARTY: u32 = 6;

/// Limit on the lines of one event and reason of all parties within a [`WINDOW`], 60: one per second.
const PER_EVENT: u32 = 60;

/// Limit on the lines of one event and reason of all parties within a [`WINDOW`] if the line is the first of its party, 180: a pulled cable changes the
/// paths to all peers at once, and each of these peers gets a line.
const WITH_NEW_PARTIES: u32 = 180;

/// Period of the limits on all lines, one minute.
const WINDOW: Duration = Duration::from_secs(60);

/// Period of the limits on lines to the disk, one hour.
const DISK_WINDOW: Duration = Duration::from_secs(3600);

/// Limit on the rows, 1,024: one row counts the lines of one event, reason and party. While the limit is reached, lines that need a further row are
/// suppressed until the minute is over.
const MAX_ROWS: usize = 1_024;

/// Limit on the parties whose lines to the disk are counted separately, 512. Further parties share the last entry.
const MAX_PARTIES: usize = 512;

/// The party that caused an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventSource {
    /// This node and its host.
    Node,
    /// The coordinator.
    Coordinator,
    /// All unauthenticated senders.
    Unauthenticated,
    /// A relay, by its number in the map.
    Relay(u32),
    /// A peer, by its number in the map, or in this run of the daemon.
    Peer(u64),
    /// An earlier run of the daemon, whose lines were read from the disk.
    Earlier,
    /// All parties that have no row of their own.
    Others,
}

impl EventSource {
    fn per_disk_window(self) -> u32 {
        match self {
            Self::Node => 600,
            Self::Coordinator => 120,
            _ => 60,
        }
    }
}

/// Lines of one event, reason and party.
#[derive(Debug)]
struct Row {
    event: &'static str,
    reason: &'static str,
    party: EventSource,
    written: u32,
    suppressed: u32,
    /// The peer's name; empty until a line is suppressed.
    peer: String,
}

/// Suppressed lines of one event and reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suppressed {
    pub(crate) event: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) count: u32,
    /// The peer with the most suppressed lines; empty if that party is not a peer.
    pub(crate) peer: String,
}

/// The rate limiter of log lines.
#[derive(Debug, Default)]
pub(crate) struct Limiter {
    began: Time,
    rows: Vec<Row>,
    disk_began: Time,
    parties: Vec<(EventSource, u32)>,
}

impl Limiter {
    /// Returns true if a line may be written; `peer` is the peer's name. Call [`Self::expire`] first.
    pub(crate) fn admit(&mut self, event: &'static str, reason: &'static str, party: EventSource, peer: &str) -> bool {
        let of_event = self.rows.iter().filter(|row| row.event == event && row.reason == reason);
        let of_all_parties: u32 = of_event.map(|row| row.written).sum();
        let is_full = self.rows.len() >= MAX_ROWS;
        let index = self.rows.iter().position(|row| (row.event, row.reason, row.party) == (event, reason, party));
        let row = match index.and_then(|index| self.rows.get_mut(index)) {
            Some(row) => row,
            None => {
                // All parties without a row share one further row per event and reason. There are at most some hundreds of these rows.
                let party = if is_full { EventSource::Others } else { party };
                let known =
                    self.rows.iter().position(|row| (row.event, row.reason, row.party) == (event, reason, party));
                let index = known.unwrap_or(self.rows.len());
                if known.is_none() {
                    self.rows.push(Row { event, reason, party, written: 0, suppressed: 0, peer: String::new() });
                }
                &mut self.rows[index]
            }
        };
        let limit = if row.written == 0 { WITH_NEW_PARTIES } else { PER_EVENT };
        let is_admitted = row.written < PER_PARTY && of_all_parties < limit && row.party != EventSource::Others;
        if is_admitted {
            row.written += 1;
        } else {
            row.suppressed = row.suppressed.saturating_add(1);
            if row.peer.is_empty() && row.party != EventSource::Others {
                row.peer.push_str(peer);
            }
        }
        is_admitted
    }

    /// Returns true if a line of this party may go to the disk, too.
    pub(crate) fn admit_to_disk(&mut self, party: EventSource, now: Time) -> bool {
        if now.since(self.disk_began) >= DISK_WINDOW {
            self.disk_began = now;
            self.parties.clear();
        }
        let is_full = self.parties.len() >= MAX_PARTIES;
        let index = self.parties.iter().position(|(known, _)| *known == party);
        let index = index.or_else(|| is_full.then_some(MAX_PARTIES - 1)).unwrap_or_else(|| {
            self.parties.push((party, 0));
            self.parties.len() - 1
        });
        let Some((_, written)) = self.parties.get_mut(index) else { return false };
        *written = written.saturating_add(1);
        *written <= party.per_disk_window()
    }

    /// Returns the time at which [`Self::expire`] reports suppressed lines, or `None` if no line was suppressed.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.rows.iter().any(|row| row.suppressed > 0).then_some(self.began + WINDOW)
    }

    /// Starts a new minute if the last one is over. Returns the suppressed lines of the last one.
    pub(crate) fn expire(&mut self, now: Time) -> Vec<Suppressed> {
        if now.since(self.began) < WINDOW {
            return Vec::new();
        }
        self.began = now;
        let mut all: Vec<(Suppressed, u32)> = Vec::new();
        for row in self.rows.drain(..).filter(|row| row.suppressed > 0) {
            let known = all.iter_mut().find(|(known, _)| (known.event, known.reason) == (row.event, row.reason));
            let Some((known, most)) = known else {
                let Row { event, reason, suppressed: count, peer, .. } = row;
                all.push((Suppressed { event, reason, count, peer }, count));
                continue;
            };
            known.count = known.count.saturating_add(row.suppressed);
            if row.suppressed > *most {
                (known.peer, *most) = (row.peer, row.suppressed);
            }
        }
        all.into_iter().map(|(suppressed, _)| suppressed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_duration(Duration::from_secs(1_000_000 + seconds))
    }

    fn started() -> Limiter {
        let mut limiter = Limiter::default();
        assert_eq!(limiter.expire(at(0)), []);
        limiter
    }

    #[test]
    fn fault_p5_a_party_gets_a_few_lines_and_the_others_are_counted() {
        let mut limiter = started();
        let mut admit = |party| limiter.admit("path-changed", "down", party, "nas");
        let written = (0..1_000).filter(|_| admit(EventSource::Peer(1))).count();
        assert_eq!(written, PER_PARTY as usize);
        // Law 15: lines of other parties, and other events and reasons of the same party, are written as before.
        assert!((2..20).all(|peer| admit(EventSource::Peer(peer))));
        assert!(limiter.admit("path-changed", "idle", EventSource::Peer(1), "nas"));
        assert!(limiter.admit("session-began", "", EventSource::Peer(1), "nas"));
        assert_eq!(limiter.poll_timeout(), Some(at(60)));
        assert_eq!(limiter.expire(at(59)), []);
        let expected = Suppressed { event: "path-changed", reason: "down", count: 994, peer: String::from("nas") };
        assert_eq!(limiter.expire(at(60)), [expected]);
        assert_eq!((limiter.poll_timeout(), limiter.expire(at(120))), (None, vec![]));
        assert!(limiter.admit("path-changed", "down", EventSource::Peer(1), "nas"), "the next minute");
    }

    #[test]
    fn fault_p5_many_parties_together_have_a_limit_that_admits_first_lines() {
        let mut limiter = started();
        // Twelve peers use up the limit of the minute.
        let loud: usize =
            (0..100).map(|_| (0..12).filter(|peer| limiter.admit("a", "", EventSource::Peer(*peer), "")).count()).sum();
        assert_eq!(loud, PER_EVENT as usize);
        let quiet = (100..100_000).filter(|peer| limiter.admit("a", "", EventSource::Peer(*peer), "")).count();
        assert_eq!(quiet, (WITH_NEW_PARTIES - PER_EVENT) as usize);
        assert!(limiter.rows.len() <= MAX_ROWS + 1, "bounded memory");
        let suppressed = limiter.expire(at(60));
        assert_eq!((suppressed.len(), suppressed[0].count), (1, 1_200 + 99_900 - WITH_NEW_PARTIES));
    }

    #[test]
    fn fault_p5_the_disk_has_a_share_for_each_party() {
        let mut limiter = started();
        let mut admitted = |party, now| (0..10_000).filter(|_| limiter.admit_to_disk(party, now)).count();
        assert_eq!(admitted(EventSource::Peer(1), at(0)), 60);
        assert_eq!(admitted(EventSource::Peer(2), at(10)), 60);
        assert_eq!(admitted(EventSource::Node, at(20)), 600);
        assert_eq!(admitted(EventSource::Peer(1), at(3_599)), 0);
        assert_eq!(admitted(EventSource::Peer(1), at(3_600)), 60);
        let all = (0..100_000).filter(|peer| limiter.admit_to_disk(EventSource::Peer(*peer), at(3_700))).count();
        assert!(all <= MAX_PARTIES + 60 && limiter.parties.len() <= MAX_PARTIES, "{all}");
    }
}

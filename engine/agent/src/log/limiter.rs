//! How many lines there may be: no sender, member or local program fills a disk, or hides the events of the others (fault P5, law 15).
//!
//! ```text
//! of one event and reason, in one minute    6 of one party; 60 in all, beyond that the first one of each party up to 180
//! to the disk, in one hour                  60 of one peer, relay or of all unauthenticated senders, 120 of the coordinator, 600 of this node
//! ```
//! What is left out is counted, and said in one line per event and reason when the minute is over.

use std::time::Duration;

use taut_base::Time;

/// Lines of one event and reason and one party within a [`WINDOW`]: a path that changes more often flaps, and the count tells more than the lines.
const PER_PARTY: u32 = 6;

/// Lines of one event and reason of all parties within a [`WINDOW`]: one per second.
const PER_EVENT: u32 = 60;

/// Lines of one event and reason, with those of parties that had none yet: a cable that is pulled changes the paths to all peers at once.
const WITH_NEW_PARTIES: u32 = 180;

/// Time within which lines are counted, one minute.
const WINDOW: Duration = Duration::from_secs(60);

/// Time within which lines to the disk are counted, one hour.
const DISK_WINDOW: Duration = Duration::from_secs(3600);

/// Rows of events, reasons and parties that are counted at a time; beyond them nothing new is written until the minute is over.
const MAX_ROWS: usize = 1_024;

/// Parties whose lines to the disk are counted at a time, 512; further ones share one place.
const MAX_PARTIES: usize = 512;

/// The party that causes an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Party {
    /// This node and its host.
    Node,
    /// The coordinator.
    Coordinator,
    /// Senders that proved nothing.
    Unauthenticated,
    /// A relay, by its number in the map.
    Relay(u32),
    /// A peer, by its number in the map, or in this run of the daemon.
    Peer(u64),
    /// An earlier run of the daemon, whose lines were read from the disk.
    Earlier,
    /// Parties beyond those that are counted one by one.
    Others,
}

impl Party {
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
    party: Party,
    written: u32,
    suppressed: u32,
    /// The peer's name, once a line was left out.
    peer: String,
}

/// Events that were left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suppressed {
    pub(crate) event: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) count: u32,
    /// The peer with the most of them; empty for other parties.
    pub(crate) peer: String,
}

/// Counts lines, and says which are too many.
#[derive(Debug, Default)]
pub(crate) struct Limiter {
    began: Time,
    rows: Vec<Row>,
    disk_began: Time,
    parties: Vec<(Party, u32)>,
}

impl Limiter {
    /// Returns true if a line may be written; `peer` is the peer's name. Call [`Self::expire`] first.
    pub(crate) fn admit(&mut self, event: &'static str, reason: &'static str, party: Party, peer: &str) -> bool {
        let of_event = self.rows.iter().filter(|row| row.event == event && row.reason == reason);
        let in_all: u32 = of_event.map(|row| row.written).sum();
        let is_full = self.rows.len() >= MAX_ROWS;
        let place = self.rows.iter().position(|row| (row.event, row.reason, row.party) == (event, reason, party));
        let row = match place.and_then(|place| self.rows.get_mut(place)) {
            Some(row) => row,
            None => {
                // One more row per event and reason for everybody who finds no room: there are some hundreds of these at most.
                let party = if is_full { Party::Others } else { party };
                let known =
                    self.rows.iter().position(|row| (row.event, row.reason, row.party) == (event, reason, party));
                let place = known.unwrap_or(self.rows.len());
                if known.is_none() {
                    self.rows.push(Row { event, reason, party, written: 0, suppressed: 0, peer: String::new() });
                }
                &mut self.rows[place]
            }
        };
        let room = if row.written == 0 { WITH_NEW_PARTIES } else { PER_EVENT };
        let is_admitted = row.written < PER_PARTY && in_all < room && row.party != Party::Others;
        if is_admitted {
            row.written += 1;
        } else {
            row.suppressed = row.suppressed.saturating_add(1);
            if row.peer.is_empty() && row.party != Party::Others {
                row.peer.push_str(peer);
            }
        }
        is_admitted
    }

    /// Returns true if a line of this party may go to the disk, too.
    pub(crate) fn admit_to_disk(&mut self, party: Party, now: Time) -> bool {
        if now.since(self.disk_began) >= DISK_WINDOW {
            self.disk_began = now;
            self.parties.clear();
        }
        let is_full = self.parties.len() >= MAX_PARTIES;
        let place = self.parties.iter().position(|(known, _)| *known == party);
        let place = place.or_else(|| is_full.then_some(MAX_PARTIES - 1)).unwrap_or_else(|| {
            self.parties.push((party, 0));
            self.parties.len() - 1
        });
        let Some((_, written)) = self.parties.get_mut(place) else { return false };
        *written = written.saturating_add(1);
        *written <= party.per_disk_window()
    }

    /// Returns when [`Self::expire`] has something to say.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.rows.iter().any(|row| row.suppressed > 0).then_some(self.began + WINDOW)
    }

    /// Begins a new minute if the last one is over; returns what was left out in it.
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
    fn fault_p5_one_party_gets_a_few_lines_and_the_rest_is_counted() {
        let mut limiter = started();
        let mut admit = |party| limiter.admit("path-changed", "down", party, "nas");
        let written = (0..1_000).filter(|_| admit(Party::Peer(1))).count();
        assert_eq!(written, PER_PARTY as usize);
        // Law 15: the others are heard as before, and of the same party what is of another kind.
        assert!((2..20).all(|peer| admit(Party::Peer(peer))));
        assert!(limiter.admit("path-changed", "idle", Party::Peer(1), "nas"));
        assert!(limiter.admit("session-began", "", Party::Peer(1), "nas"));
        assert_eq!(limiter.poll_timeout(), Some(at(60)));
        assert_eq!(limiter.expire(at(59)), []);
        let told = Suppressed { event: "path-changed", reason: "down", count: 994, peer: String::from("nas") };
        assert_eq!(limiter.expire(at(60)), [told]);
        assert_eq!((limiter.poll_timeout(), limiter.expire(at(120))), (None, vec![]));
        assert!(limiter.admit("path-changed", "down", Party::Peer(1), "nas"), "the next minute");
    }

    #[test]
    fn fault_p5_many_parties_together_have_a_bound_and_each_is_heard_once() {
        let mut limiter = started();
        // Twelve use up the minute.
        let loud: usize =
            (0..100).map(|_| (0..12).filter(|peer| limiter.admit("a", "", Party::Peer(*peer), "")).count()).sum();
        assert_eq!(loud, PER_EVENT as usize);
        let quiet = (100..100_000).filter(|peer| limiter.admit("a", "", Party::Peer(*peer), "")).count();
        assert_eq!(quiet, (WITH_NEW_PARTIES - PER_EVENT) as usize);
        assert!(limiter.rows.len() <= MAX_ROWS + 1, "bounded memory");
        let told = limiter.expire(at(60));
        assert_eq!((told.len(), told[0].count), (1, 1_200 + 99_900 - WITH_NEW_PARTIES));
    }

    #[test]
    fn fault_p5_the_disk_has_a_share_for_each_party() {
        let mut limiter = started();
        let mut admitted = |party, now| (0..10_000).filter(|_| limiter.admit_to_disk(party, now)).count();
        assert_eq!(admitted(Party::Peer(1), at(0)), 60);
        assert_eq!(admitted(Party::Peer(2), at(10)), 60);
        assert_eq!(admitted(Party::Node, at(20)), 600);
        assert_eq!(admitted(Party::Peer(1), at(3_599)), 0);
        assert_eq!(admitted(Party::Peer(1), at(3_600)), 60);
        let all = (0..100_000).filter(|peer| limiter.admit_to_disk(Party::Peer(*peer), at(3_700))).count();
        assert!(all <= MAX_PARTIES + 60 && limiter.parties.len() <= MAX_PARTIES, "{all}");
    }
}

//! Limits on the number of lines, so that no sender, member or local program can fill a disk or hide the events of another source (fault P5, law 15).
//!
//! ```text
//!                              lines of one event and reason per minute                    lines to the disk per hour
//! this node                    6                                                           600
//! coordinator, underlay        6                                                           120
//! unauthenticated senders      6                                                           60
//! membership                   20                                                          120
//! new peers together           20                                                          120
//! one relay, one peer          6; 60 of all, and the first line of each further one        60; 600 of all, and the first line of each further one
//!                              up to 180                                                   up to 900
//! ```
//! A line counts for the source that can cause it at will. Sources that an attacker can multiply (peers, relays) share the limits of the last row, and cannot take the
//! places of the other sources. Suppressed lines are counted and reported.

use std::time::Duration;

use taut_base::Time;

/// Limit on the lines of one event, reason and source within a [`WINDOW`], 6: a path that changes more often flaps, and a count of its changes says more than
/// a line for each.
const PER_SOURCE: u32 = 6;

/// Limit on the lines of one event and reason within a [`WINDOW`] for the membership and for new peers, 20: an operator adds several nodes within a minute.
const PER_JOINT_SOURCE: u32 = 20;

/// Limit on the lines of one event and reason of all peers and relays within a [`WINDOW`], 60: one per second.
const PER_EVENT: u32 = 60;

/// Limit on the lines of one event and reason of all peers and relays within a [`WINDOW`] if the line is the first of its source, 180: a pulled cable changes the
/// paths to all peers at once, and each of these peers gets a line.
const WITH_FIRST_LINES: u32 = 180;

/// Period of the limits on all lines, one minute.
const WINDOW: Duration = Duration::from_secs(60);

/// Period of the limits on lines to the disk, one hour.
const DISK_WINDOW: Duration = Duration::from_secs(3600);

/// Limit on the rows of peers and relays, 1,024: one row counts the lines of one event, reason and source. Further sources share one row per event and reason.
const MAX_ROWS: usize = 1_024;

/// Limit on the peers and relays whose lines to the disk are counted separately, 512. Further ones share one share.
const MAX_SHARES: usize = 512;

/// Limit on the lines of all peers and relays to the disk within a [`DISK_WINDOW`], 600: a quarter of the two files.
const DISK_OF_ALL: u32 = 600;

/// Limit on the lines of all peers and relays to the disk within a [`DISK_WINDOW`] if the line is the first of its source, 900.
const DISK_WITH_FIRST_LINES: u32 = 900;

/// Limit on the sources that a report of lost lines names, 4.
const MOST_NAMED: usize = 4;

/// The party that can cause an event at will.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EventSource {
    /// This node and its host.
    Node,
    /// The coordinator.
    Coordinator,
    /// The members together, as far as they change the network map: a member can join and leave under any number of identities.
    Membership,
    /// The relays and routers together, as far as they report this node's own place in the network: outer endpoints, NAT, port mappings, home relays.
    Underlay,
    /// All unauthenticated senders.
    Unauthenticated,
    /// A relay, by its number in the map.
    Relay(u32),
    /// A peer, by its number in the map.
    Peer(u64),
    /// All peers that are in the map for a short time only.
    NewPeers,
    /// All peers and relays that have no row or share of their own.
    Others,
    /// An earlier run of the daemon, whose lines were read from the disk.
    Earlier,
}

impl EventSource {
    /// Returns true for sources that an attacker can multiply.
    fn is_one_of_many(self) -> bool {
        matches!(self, Self::Relay(_) | Self::Peer(_) | Self::Others)
    }

    /// Returns the number of the group that shares a part of the memory: see [`super::ring`].
    pub(super) fn group(self) -> usize {
        match self {
            Self::Node => 0,
            Self::Coordinator => 1,
            Self::Membership => 2,
            Self::Underlay => 3,
            Self::Unauthenticated => 4,
            Self::Relay(_) => 5,
            Self::Peer(_) | Self::Others => 6,
            Self::NewPeers => 7,
            Self::Earlier => 8,
        }
    }

    fn name(self) -> &'static str {
        ["node", "coordinator", "membership", "underlay", "unauthenticated", "relay", "peer", "new peers", "earlier"]
            [self.group()]
    }

    fn per_window(self) -> u32 {
        if matches!(self, Self::Membership | Self::NewPeers) { PER_JOINT_SOURCE } else { PER_SOURCE }
    }

    fn per_disk_window(self) -> u32 {
        match self {
            Self::Node => 600,
            Self::Coordinator | Self::Membership | Self::Underlay | Self::NewPeers => 120,
            _ => 60,
        }
    }
}

/// Lines of one event, reason and source.
#[derive(Debug)]
struct Row {
    event: &'static str,
    reason: &'static str,
    source: EventSource,
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
    /// The source with the most suppressed lines.
    pub(crate) source: EventSource,
    /// The name of that source if it is a peer, or an empty text.
    pub(crate) peer: String,
}

/// Lines of one source to the disk.
#[derive(Debug)]
struct DiskShare {
    source: EventSource,
    written: u32,
    lost: u32,
    /// The peer's name; empty until a line is lost.
    peer: String,
}

/// The rate limiter of log lines.
#[derive(Debug, Default)]
pub(crate) struct Limiter {
    began: Time,
    rows: Vec<Row>,
    disk_began: Time,
    shares: Vec<DiskShare>,
}

impl Limiter {
    /// Returns true if a line may be written; `peer` is the peer's name. Call [`Self::expire`] first.
    pub(crate) fn admit(
        &mut self,
        event: &'static str,
        reason: &'static str,
        mut source: EventSource,
        peer: &str,
    ) -> bool {
        let find = |rows: &[Row], source| {
            rows.iter().position(|row| (row.event, row.reason, row.source) == (event, reason, source))
        };
        let of_many = |row: &&Row| row.source.is_one_of_many();
        let of_event = self.rows.iter().filter(|row| row.event == event && row.reason == reason);
        let of_all: u32 = of_event.filter(of_many).map(|row| row.written).sum();
        let mut known = find(&self.rows, source);
        if known.is_none() && source.is_one_of_many() && self.rows.iter().filter(of_many).count() >= MAX_ROWS {
            source = EventSource::Others;
            known = find(&self.rows, source);
        }
        let index = known.unwrap_or(self.rows.len());
        if known.is_none() {
            // Only rows of peers and relays are numerous: of the other sources there is at most one per event and reason of this program.
            self.rows.push(Row { event, reason, source, written: 0, suppressed: 0, peer: String::new() });
        }
        let row = &mut self.rows[index];
        let limit = if row.written == 0 { WITH_FIRST_LINES } else { PER_EVENT };
        // Lines of `Others` are as many as of one peer, whatever the other peers have written.
        let has_room = !matches!(source, EventSource::Relay(_) | EventSource::Peer(_)) || of_all < limit;
        let is_admitted = row.written < source.per_window() && has_room;
        if is_admitted {
            row.written += 1;
        } else {
            row.suppressed = row.suppressed.saturating_add(1);
            if row.peer.is_empty() && row.source != EventSource::Others {
                row.peer.push_str(peer);
            }
        }
        is_admitted
    }

    /// Returns true if a line of this source may go to the disk, too. Counts it as lost otherwise. Call [`Self::take_lost`] first.
    pub(crate) fn admit_to_disk(&mut self, source: EventSource, peer: &str) -> bool {
        let of_many = |share: &&DiskShare| share.source.is_one_of_many();
        let of_all: u32 = self.shares.iter().filter(of_many).map(|share| share.written).sum();
        let share = self.share(source);
        let limit = if share.written == 0 { DISK_WITH_FIRST_LINES } else { DISK_OF_ALL };
        let has_room = !matches!(source, EventSource::Relay(_) | EventSource::Peer(_)) || of_all < limit;
        let is_admitted = share.written < source.per_disk_window() && has_room;
        if is_admitted {
            share.written += 1;
        } else {
            share.lose(peer);
        }
        is_admitted
    }

    /// Counts a line of this source that found no room on its way to the disk.
    pub(crate) fn count_lost(&mut self, source: EventSource, peer: &str) {
        self.share(source).lose(peer);
    }

    fn share(&mut self, mut source: EventSource) -> &mut DiskShare {
        let find = |shares: &[DiskShare], source| shares.iter().position(|share| share.source == source);
        let is_full = self.shares.iter().filter(|share| share.source.is_one_of_many()).count() >= MAX_SHARES;
        let mut known = find(&self.shares, source);
        if known.is_none() && is_full && source.is_one_of_many() {
            source = EventSource::Others;
            known = find(&self.shares, source);
        }
        let index = known.unwrap_or(self.shares.len());
        if known.is_none() {
            self.shares.push(DiskShare { source, written: 0, lost: 0, peer: String::new() });
        }
        &mut self.shares[index]
    }

    /// Starts a new hour of the limits on lines to the disk if the last one is over, or if the daemon `ends`. Returns the number of lost lines of the last hour, and a
    /// text with the sources that lost the most.
    pub(crate) fn take_lost(&mut self, now: Time, ends: bool) -> Option<(u64, String)> {
        if !self.shares.is_empty() && now.since(self.disk_began) < DISK_WINDOW && !ends {
            return None;
        }
        self.disk_began = now;
        let mut lost: Vec<DiskShare> = self.shares.drain(..).filter(|share| share.lost > 0).collect();
        lost.sort_by_key(|share| std::cmp::Reverse(share.lost));
        let text = |share: &DiskShare| match &share.peer[..] {
            "" => format!("{} {}", share.source.name(), share.lost),
            peer => format!("{peer} {}", share.lost),
        };
        let count = lost.iter().map(|share| u64::from(share.lost)).sum();
        let most: Vec<String> = lost.iter().take(MOST_NAMED).map(text).collect();
        (count > 0).then(|| (count, most.join(", ")))
    }

    /// Returns the time at which [`Self::expire`] or [`Self::take_lost`] has something to report.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let suppressed = self.rows.iter().any(|row| row.suppressed > 0).then_some(self.began + WINDOW);
        let lost = self.shares.iter().any(|share| share.lost > 0).then_some(self.disk_began + DISK_WINDOW);
        suppressed.into_iter().chain(lost).min()
    }

    /// Starts a new minute if the last one is over, or if the daemon `ends`. Returns the suppressed lines of the last one.
    pub(crate) fn expire(&mut self, now: Time, ends: bool) -> Vec<Suppressed> {
        if now.since(self.began) < WINDOW && !ends {
            return Vec::new();
        }
        self.began = now;
        let mut all: Vec<(Suppressed, u32)> = Vec::new();
        for row in self.rows.drain(..).filter(|row| row.suppressed > 0) {
            let known = all.iter_mut().find(|(known, _)| (known.event, known.reason) == (row.event, row.reason));
            let Some((known, most)) = known else {
                let Row { event, reason, suppressed: count, source, peer, .. } = row;
                all.push((Suppressed { event, reason, count, source, peer }, count));
                continue;
            };
            known.count = known.count.saturating_add(row.suppressed);
            if row.suppressed > *most {
                (known.source, known.peer, *most) = (row.source, row.peer, row.suppressed);
            }
        }
        all.into_iter().map(|(suppressed, _)| suppressed).collect()
    }
}

impl DiskShare {
    fn lose(&mut self, peer: &str) {
        self.lost = self.lost.saturating_add(1);
        if self.peer.is_empty() && matches!(self.source, EventSource::Peer(_)) {
            self.peer.push_str(peer);
        }
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
        assert_eq!(limiter.expire(at(0), false), []);
        limiter
    }

    #[test]
    fn fault_p5_a_source_gets_a_few_lines_and_the_others_are_counted() {
        let mut limiter = started();
        let mut admit = |source| limiter.admit("path-changed", "down", source, "nas");
        let written = (0..1_000).filter(|_| admit(EventSource::Peer(1))).count();
        assert_eq!(written, PER_SOURCE as usize);
        // Law 15: lines of other sources, and other events and reasons of the same source, are written as before.
        assert!((2..20).all(|peer| admit(EventSource::Peer(peer))));
        assert!(limiter.admit("path-changed", "idle", EventSource::Peer(1), "nas"));
        assert!(limiter.admit("session-began", "", EventSource::Peer(1), "nas"));
        assert_eq!(limiter.poll_timeout(), Some(at(60)));
        assert_eq!(limiter.expire(at(59), false), []);
        let (event, reason, peer) = ("path-changed", "down", String::from("nas"));
        let expected = Suppressed { event, reason, count: 994, source: EventSource::Peer(1), peer };
        assert_eq!(limiter.expire(at(60), false), [expected]);
        assert_eq!((limiter.poll_timeout(), limiter.expire(at(120), false)), (None, vec![]));
        assert!(limiter.admit("path-changed", "down", EventSource::Peer(1), "nas"), "the next minute");
    }

    #[test]
    fn fault_p5_many_peers_together_have_a_limit_that_admits_first_lines() {
        let mut limiter = started();
        // Twelve peers use up the limit of the minute.
        let loud: usize =
            (0..100).map(|_| (0..12).filter(|peer| limiter.admit("a", "", EventSource::Peer(*peer), "")).count()).sum();
        assert_eq!(loud, PER_EVENT as usize);
        let quiet = (100..10_000).filter(|peer| limiter.admit("a", "", EventSource::Peer(*peer), "")).count();
        // The peers without a row together get as many lines as one peer.
        assert_eq!(quiet, (WITH_FIRST_LINES - PER_EVENT + PER_SOURCE) as usize);
        assert!(limiter.rows.len() <= MAX_ROWS + 1, "bounded memory");
        let suppressed = limiter.expire(at(60), false);
        assert_eq!((suppressed.len(), suppressed[0].count), (1, 1_200 + 9_900 - WITH_FIRST_LINES - PER_SOURCE));
    }

    #[test]
    fn fault_p5_peers_in_any_number_leave_the_places_of_the_other_sources() {
        let mut limiter = started();
        for id in 0..10_000 {
            limiter.admit("path-changed", "", EventSource::Peer(id), "x");
            limiter.admit("packet-limit-changed", "", EventSource::Peer(id), "x");
        }
        assert!(limiter.rows.len() <= MAX_ROWS + 2, "bounded memory");
        for (event, source) in [
            ("network-failed", EventSource::Node),
            ("network-down", EventSource::Node),
            ("duplicate-node", EventSource::Coordinator),
            ("peer-added", EventSource::Membership),
            ("nat-changed", EventSource::Underlay),
            ("input-flood", EventSource::Unauthenticated),
            ("handshake-failed", EventSource::Peer(200_000)),
        ] {
            assert!(limiter.admit(event, "", source, ""), "{event}");
        }
    }

    #[test]
    fn fault_p5_the_disk_has_a_share_for_each_source() {
        let mut limiter = started();
        limiter.take_lost(at(0), false);
        let admitted =
            |limiter: &mut Limiter, source| (0..10_000).filter(|_| limiter.admit_to_disk(source, "p")).count();
        assert_eq!(admitted(&mut limiter, EventSource::Peer(1)), 60);
        assert_eq!(admitted(&mut limiter, EventSource::Peer(2)), 60);
        let all = (1_000..20_000).filter(|peer| limiter.admit_to_disk(EventSource::Peer(*peer), "x")).count();
        assert!(all < 900 && limiter.shares.len() <= MAX_SHARES + 1, "{all}");
        // The places of these sources are reserved, whatever the number of peers.
        assert_eq!(admitted(&mut limiter, EventSource::Node), 600);
        assert_eq!(admitted(&mut limiter, EventSource::Coordinator), 120);
        assert_eq!(admitted(&mut limiter, EventSource::Membership), 120);
        assert_eq!(admitted(&mut limiter, EventSource::Underlay), 120);
        assert_eq!(admitted(&mut limiter, EventSource::Unauthenticated), 60);
        assert_eq!(limiter.poll_timeout(), Some(at(3_600)));
        assert_eq!(limiter.take_lost(at(3_599), false), None);
        let (lost, most) = limiter.take_lost(at(3_600), false).unwrap();
        assert!(lost > 70_000 && most.contains("peer 18") && most.contains("p 9940"), "{lost} {most}");
        assert_eq!((limiter.poll_timeout(), admitted(&mut limiter, EventSource::Peer(1))), (None, 60));
    }
}

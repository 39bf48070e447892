//! Limits on lines that other parties cause, so that no sender fills a disk or hides the lines of others (faults P5, E25). Time is an argument.

use std::net::IpAddr;
use std::time::Duration;

use taut_base::{KeyedHash, Meter, Rate, Time, network, site};

/// Lines of one event with one reason from one unauthenticated address: 15 at once, then 15 a minute.
const PER_ADDRESS: Rate = Rate::every(Duration::from_secs(4), 15);

/// Lines of one event from the unauthenticated addresses of one prefix: 30 at once, then 30 a minute.
const PER_SITE: Rate = Rate::every(Duration::from_secs(2), 30);

/// Lines of one event from all unauthenticated senders: 60 at once, then 60 a minute.
const PER_EVENT: Rate = Rate::every(Duration::from_secs(1), 60);

/// Lines of one event from one prefix beyond [`PER_EVENT`]: one a minute, so that a flood hides no other party.
const FIRST_OF_SITE: Rate = Rate::every(Duration::from_mins(1), 1);

/// Lines of one event beyond [`PER_EVENT`] from all prefixes: 60 at once, then 60 a minute, however many prefixes a flood comes from.
const FIRSTS: Rate = Rate::every(Duration::from_secs(1), 60);

/// Lines of one event about one member: 20 at once, then 10 a minute. A node that loses its control channel tries again every 30 s at most, which makes 2 lines
/// of an event a minute.
const PER_MEMBER: Rate = Rate::every(Duration::from_secs(6), 20);

/// Lines of one event about changes of membership in one network: 512 at once, then 120 a minute.
const PER_NETWORK: Rate = Rate::every(Duration::from_millis(500), 512);

/// Lines of one event about changes of membership from one address: 256 at once, which is as many as one address may join at once, then 60 a minute.
const PER_ORIGIN: Rate = Rate::every(Duration::from_secs(1), 256);

/// Time between the first suppressed line and the report of all suppressed lines, 60 s.
const REPORT_AFTER: Duration = Duration::from_mins(1);

/// Pairs of event and reason that one report names, 64. Lines of further pairs are counted together.
const MAX_PAIRS: usize = 64;

/// The party that caused a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// An unauthenticated sender at this address. Lines of unknown origin share one address.
    Unauthenticated(Option<IpAddr>),
    /// The number of a member.
    Member(u64),
    /// A node that joins or leaves a network, or changes its key.
    Membership {
        /// Name of the network.
        network: String,
        address: Option<IpAddr>,
    },
}

/// The kind of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineKind {
    pub(super) area: &'static str,
    pub(super) event: String,
    pub(super) reason: String,
}

/// Suppressed lines of one kind.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Suppressed {
    pub(super) kind: LineKind,
    pub(super) count: u64,
}

/// Counts the lines of each party, in tables of fixed size.
pub(super) struct LineLimits {
    hash: KeyedHash,
    addresses: Meter,
    sites: Meter,
    events: Meter,
    first_of_site: Meter,
    firsts: Meter,
    members: Meter,
    networks: Meter,
    origins: Meter,
    suppressed: Vec<Suppressed>,
    /// Time of the first line in `suppressed`.
    since: Option<Time>,
}

impl LineLimits {
    /// `key` is random and secret, so that no sender can choose whose lines share a place in the tables.
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self {
            hash: KeyedHash::new(key),
            addresses: Meter::new(PER_ADDRESS),
            sites: Meter::new(PER_SITE),
            events: Meter::new(PER_EVENT),
            first_of_site: Meter::new(FIRST_OF_SITE),
            firsts: Meter::new(FIRSTS),
            members: Meter::new(PER_MEMBER),
            networks: Meter::new(PER_NETWORK),
            origins: Meter::new(PER_ORIGIN),
            suppressed: Vec::new(),
            since: None,
        }
    }

    /// Counts a line. Returns true if it is within the limits; otherwise it is counted as suppressed.
    pub(super) fn take(&mut self, cause: &Cause, kind: &LineKind, now: Time) -> bool {
        let (hash, event) = (self.hash, &kind.event);
        let is_within = match cause {
            Cause::Unauthenticated(address) => self.take_unauthenticated(address.as_ref().copied(), kind, now),
            Cause::Member(number) => self.members.take(hash.of(&(number, event)), now),
            Cause::Membership { network: name, address } => {
                let origin = address.map(|address| hash.of(&(network(address), event)));
                origin.is_none_or(|origin| self.origins.take(origin, now))
                    && self.networks.take(hash.of(&(name, event)), now)
            }
        };
        if !is_within {
            self.suppress(kind, now);
        }
        is_within
    }

    fn take_unauthenticated(&mut self, address: Option<IpAddr>, kind: &LineKind, now: Time) -> bool {
        let (hash, event) = (self.hash, &kind.event);
        let site = hash.of(&(address.map(site), event));
        let is_within = self.addresses.take(hash.of(&(address.map(network), event, &kind.reason)), now)
            && self.sites.take(site, now);
        let all = hash.of(event);
        let has_room = |limits: &mut Self| {
            limits.events.take(all, now) || (limits.first_of_site.take(site, now) && limits.firsts.take(all, now))
        };
        is_within && has_room(self)
    }

    fn suppress(&mut self, kind: &LineKind, now: Time) {
        self.since.get_or_insert(now);
        if let Some(known) = self.suppressed.iter_mut().find(|suppressed| suppressed.kind == *kind) {
            known.count += 1;
        } else if self.suppressed.len() < MAX_PAIRS {
            self.suppressed.push(Suppressed { kind: kind.clone(), count: 1 });
        } else if let Some(last) = self.suppressed.last_mut() {
            last.kind.event = String::from("other");
            last.kind.reason.clear();
            last.count += 1;
        }
    }

    /// Returns the suppressed lines if it is time to report them.
    pub(super) fn due(&mut self, now: Time) -> Vec<Suppressed> {
        let is_due = self.since.is_some_and(|since| now.since(since) >= REPORT_AFTER);
        if is_due { self.rest() } else { Vec::new() }
    }

    /// Returns all suppressed lines that were not reported yet.
    pub(super) fn rest(&mut self) -> Vec<Suppressed> {
        self.since = None;
        std::mem::take(&mut self.suppressed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::from_duration(Duration::from_millis(milliseconds))
    }

    fn kind(event: &str, reason: &str) -> LineKind {
        LineKind { area: "control", event: String::from(event), reason: String::from(reason) }
    }

    fn stranger(address: &str) -> Cause {
        Cause::Unauthenticated(Some(address.parse().unwrap()))
    }

    fn count(suppressed: &[Suppressed]) -> u64 {
        suppressed.iter().map(|suppressed| suppressed.count).sum()
    }

    /// Counts the lines of ten minutes, ten a second. Returns how many were written, and how many were reported as suppressed.
    fn ten_minutes(limits: &mut LineLimits, mut line: impl FnMut(&mut LineLimits, u64, Time) -> bool) -> (u64, u64) {
        let (mut written, mut reported) = (0, 0);
        for tick in 0..6_000 {
            written += u64::from(line(limits, tick, at(100 * tick)));
            reported += count(&limits.due(at(100 * tick)));
        }
        (written, reported + count(&limits.rest()))
    }

    #[test]
    fn fault_e25_a_member_that_comes_and_goes_does_not_fill_the_log() {
        let mut limits = LineLimits::new([7; 16]);
        let member = |number, event| {
            move |limits: &mut LineLimits, _, now| limits.take(&Cause::Member(number), &kind(event, ""), now)
        };
        let (written, suppressed) = ten_minutes(&mut limits, member(7, "connected"));
        assert!(written <= 20 + 100, "{written} lines in ten minutes");
        assert_eq!(written + suppressed, 6_000, "every suppressed line is counted");
        assert!(member(8, "connected")(&mut limits, 0, at(600_000)), "another member has its own lines");
        assert!(member(7, "twin")(&mut limits, 0, at(600_000)), "another event has its own lines");
    }

    #[test]
    fn fault_p5_unauthenticated_senders_do_not_fill_the_log() {
        let mut limits = LineLimits::new([7; 16]);
        let refused = |limits: &mut LineLimits, address: &str, reason: &str, now| {
            limits.take(&stranger(address), &kind("channel-refused", reason), now)
        };
        let (written, suppressed) =
            ten_minutes(&mut limits, |limits, _, now| refused(limits, "192.0.2.1", "no hello", now));
        assert!(written <= 15 + 15 * 10, "{written} lines of one reason and address");
        assert_eq!(written + suppressed, 6_000);
        assert!(refused(&mut limits, "192.0.2.1", "another reason", at(600_000)), "another reason is still seen");
        assert!(refused(&mut limits, "192.0.2.2", "no hello", at(600_000)), "another address is still seen");
        let mut limits = LineLimits::new([7; 16]);
        let (written, _) =
            ten_minutes(&mut limits, |limits, tick, now| refused(limits, "192.0.2.1", &format!("{tick}"), now));
        assert!(written <= 30 + 30 * 10, "{written} lines of ever new reasons");
        let mut limits = LineLimits::new([7; 16]);
        let (written, suppressed) = ten_minutes(&mut limits, |limits, tick, now| {
            refused(limits, &format!("198.{}.{}.1", tick / 256, tick % 256), "no hello", now)
        });
        assert!(written <= 2 * (60 + 60 * 10), "{written} lines from ever new addresses");
        assert_eq!(written + suppressed, 6_000);
    }

    #[test]
    fn fault_p5_a_flood_from_many_addresses_hides_no_line_of_another_party() {
        let mut limits = LineLimits::new([7; 16]);
        let reasons = ["no hello", "text", "closed", "pings"];
        let mut seen = 0;
        for tick in 0..6_000_u64 {
            let address = format!("198.51.{}.{}", tick % 40, tick % 7);
            let kind = kind("channel-refused", reasons[(tick % 4) as usize]);
            limits.take(&stranger(&address), &kind, at(100 * tick));
            if tick % 600 == 599 {
                let now = at(100 * tick);
                seen += u64::from(limits.take(&stranger("192.0.2.1"), &self::kind("channel-refused", "closed"), now));
                seen += u64::from(limits.take(&stranger("192.0.2.1"), &self::kind("refused", "revoked"), now));
                seen += u64::from(limits.take(&Cause::Member(1), &self::kind("twin", ""), now));
            }
        }
        assert_eq!(seen, 30, "lines of others");
    }

    #[test]
    fn fault_e25_nodes_that_join_and_leave_do_not_fill_the_log() {
        let mut limits = LineLimits::new([7; 16]);
        let joined = |limits: &mut LineLimits, network: &str, address: &str, now| {
            let cause = Cause::Membership { network: String::from(network), address: address.parse().ok() };
            limits.take(&cause, &kind("joined", ""), now)
        };
        let (written, suppressed) =
            ten_minutes(&mut limits, |limits, _, now| joined(limits, "default", "192.0.2.1", now));
        assert!(written <= 256 + 600, "{written} lines of one address");
        assert_eq!(written + suppressed, 6_000);
        assert!(joined(&mut limits, "default", "192.0.2.2", at(600_000)), "another address has its own lines");
        let mut limits = LineLimits::new([7; 16]);
        let (written, _) = ten_minutes(&mut limits, |limits, tick, now| {
            joined(limits, "default", &format!("198.{}.{}.1", tick / 256, tick % 256), now)
        });
        assert!(written <= 512 + 1_200, "{written} lines of one network");
        assert!(joined(&mut limits, "other", "198.0.0.1", at(600_000)), "another network has its own lines");
    }

    #[test]
    fn suppressed_lines_are_reported_a_minute_later_with_their_event_and_reason() {
        let mut limits = LineLimits::new([7; 16]);
        for number in 0..100 {
            limits.take(&stranger("192.0.2.1"), &kind("refused", "revoked"), at(number));
            limits.take(&stranger("192.0.2.1"), &kind("operator-refused", ""), at(number));
        }
        assert_eq!(limits.due(at(60_000)), [], "the first line was suppressed 15 ms after the start");
        let wanted = |event, reason| Suppressed { kind: kind(event, reason), count: 85 };
        assert_eq!(limits.due(at(60_015)), [wanted("refused", "revoked"), wanted("operator-refused", "")]);
        assert_eq!(limits.due(at(600_000)), []);
    }

    #[test]
    fn fault_p5_the_report_of_suppressed_lines_is_bounded() {
        let mut limits = LineLimits::new([7; 16]);
        for number in 0..10_000 {
            limits.take(&stranger("192.0.2.1"), &kind("refused", &number.to_string()), at(0));
        }
        let suppressed = limits.rest();
        assert_eq!((suppressed.len(), count(&suppressed)), (MAX_PAIRS, 10_000 - 30));
        assert_eq!(suppressed.last().unwrap().kind, kind("other", ""));
    }
}

//! Limits on lines that other parties cause, so that no sender fills a disk (faults P5, E25). Time is an argument.

use std::time::Duration;

use taut_base::{Bucket, KeyedHash, Meter, Rate, Time};

/// Lines of one event with one reason that unauthenticated senders cause: 15 at once, then 15 a minute, so at most 30 in any minute.
const PER_REASON: Rate = Rate::every(Duration::from_secs(4), 15);

/// Lines that all unauthenticated senders cause: 60 at once, then 60 a minute. A sender that varies the reasons gets no more.
const ALL: Rate = Rate::every(Duration::from_secs(1), 60);

/// Lines about one member: 20 at once, then 10 a minute. A node that loses its control channel tries again every 30 s at most, which makes 4 lines a minute.
const PER_MEMBER: Rate = Rate::every(Duration::from_secs(6), 20);

/// Least time between two lines that tell the number of suppressed lines, 60 s.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// The party that caused a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Unauthenticated,
    /// The number of a member.
    Member(u64),
}

/// Counts the lines of each party, in tables of fixed size.
pub(super) struct LineLimits {
    hash: KeyedHash,
    reasons: Meter,
    members: Meter,
    all: Bucket,
    /// Lines that were suppressed since the last line that told their number.
    suppressed: u64,
    told_at: Option<Time>,
}

impl LineLimits {
    /// `key` is random and secret, so that no sender can choose whose lines share a place in the tables.
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self {
            hash: KeyedHash::new(key),
            reasons: Meter::new(PER_REASON),
            members: Meter::new(PER_MEMBER),
            all: Bucket::default(),
            suppressed: 0,
            told_at: None,
        }
    }

    /// Counts a line. Returns true if it is within the limits.
    pub(super) fn take(&mut self, cause: Cause, event: &str, reason: &str, now: Time) -> bool {
        let is_within = match cause {
            Cause::Member(number) => self.members.take(self.hash.of(&number), now),
            Cause::Unauthenticated => {
                self.reasons.take(self.hash.of(&(event, reason)), now) && self.all.take(&ALL, now)
            }
        };
        self.suppressed += u64::from(!is_within);
        is_within
    }

    /// Returns the number of suppressed lines if it is time to tell it.
    pub(super) fn tell(&mut self, now: Time) -> Option<u64> {
        let is_due = self.told_at.is_none_or(|told| now.since(told) >= TOLD_EVERY);
        if self.suppressed == 0 || !is_due {
            return None;
        }
        self.told_at = Some(now);
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::from_duration(Duration::from_millis(milliseconds))
    }

    /// Counts the lines of ten minutes, ten a second. Returns how many were written, and how many were told as suppressed or not told yet.
    fn ten_minutes(limits: &mut LineLimits, mut line: impl FnMut(&mut LineLimits, u64, Time) -> bool) -> (u64, u64) {
        let (mut written, mut told) = (0, 0);
        for tick in 0..6_000 {
            written += u64::from(line(limits, tick, at(100 * tick)));
            told += limits.tell(at(100 * tick)).unwrap_or(0);
        }
        (written, told + limits.suppressed)
    }

    #[test]
    fn fault_e25_a_member_that_comes_and_goes_does_not_fill_the_log() {
        let mut limits = LineLimits::new([7; 16]);
        let member =
            |number| move |limits: &mut LineLimits, _, now| limits.take(Cause::Member(number), "connected", "", now);
        let (written, suppressed) = ten_minutes(&mut limits, member(7));
        assert!(written <= 20 + 100, "{written} lines in ten minutes");
        assert_eq!(written + suppressed, 6_000, "every suppressed line is counted");
        assert!(member(8)(&mut limits, 0, at(600_000)), "another member has its own lines");
    }

    #[test]
    fn fault_p5_unauthenticated_senders_do_not_fill_the_log() {
        let mut limits = LineLimits::new([7; 16]);
        let refused = |limits: &mut LineLimits, reason: &str, now| {
            limits.take(Cause::Unauthenticated, "channel-refused", reason, now)
        };
        let (written, suppressed) = ten_minutes(&mut limits, |limits, _, now| refused(limits, "no hello", now));
        assert!(written <= 30 * 10, "{written} lines of one reason");
        assert_eq!(written + suppressed, 6_000);
        assert!(refused(&mut limits, "another reason", at(600_000)), "another reason is still seen");
        let mut limits = LineLimits::new([7; 16]);
        let (written, _) = ten_minutes(&mut limits, |limits, tick, now| refused(limits, &format!("{tick}"), now));
        assert!(written <= 60 + 60 * 10, "{written} lines of ever new reasons");
    }
}

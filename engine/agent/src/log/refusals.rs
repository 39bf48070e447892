//! Refused packets as events. The drop counters are read once a minute.
//!
//! A long flood must not fill the log. While packets of a reason keep arriving, the pause between its lines doubles: 1, 2, 4, … minutes, up to an hour.

use std::time::Duration;

use taut_base::{SortedMap, Time};

/// Time between two reads of the counters, one minute.
const READ_INTERVAL: Duration = Duration::from_secs(60);

/// Longest pause between two lines of a reason whose packets keep arriving, one hour. A reason without a line for twice this time counts as over, and its
/// next packet is reported within a minute.
const MAX_PAUSE: Duration = Duration::from_secs(3600);

/// Rate of packets of one reason from which they count as a flood, 100 per minute: the usual scans of the Internet send a few.
const MANY_PER_MINUTE: u64 = 100;

/// Drop reasons of normal operation, which never count as a flood: duplicates of packets that the peer sent by two paths on purpose, and the host's multicast.
const EXPECTED: [&str; 2] = ["in-duplicate", "out-no-route"];

/// The packets refused for one reason since its last line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefusedCount {
    pub(crate) reason: &'static str,
    pub(crate) count: u64,
    /// Time since the last line of this reason, or one minute for its first line.
    pub(crate) within: Duration,
    /// True if the rate counts as a flood.
    pub(crate) is_flood: bool,
}

#[derive(Clone, Copy, Debug)]
struct Reported {
    count: u64,
    at: Time,
    pause: Duration,
}

/// The last line of each reason: its counter, time and pause.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    due: Time,
    reported: SortedMap<&'static str, Reported>,
}

impl Refusals {
    /// Starts the schedule when a network came up. Its counters begin at 0.
    pub(crate) fn start(&mut self, now: Time) {
        self.reported.clear();
        self.due = now + READ_INTERVAL;
    }

    /// Returns the time at which [`Self::read`] is due.
    pub(crate) fn due(&self) -> Time {
        self.due
    }

    /// Reads the counters. Returns the reasons for which a line is due.
    pub(crate) fn read(&mut self, counts: &SortedMap<&'static str, u64>, now: Time) -> Vec<RefusedCount> {
        self.due = now + READ_INTERVAL;
        let mut all = Vec::new();
        for (reason, count) in counts {
            let began = Reported { count: 0, at: self.due, pause: Duration::ZERO };
            let reported = self.reported.entry(*reason).or_insert(began);
            let is_first = reported.pause.is_zero();
            let new = count.saturating_sub(reported.count);
            let since_line = now.since(reported.at);
            if new == 0 || !is_first && since_line < reported.pause {
                continue;
            }
            let within = if is_first { READ_INTERVAL } else { since_line };
            let minutes = (within.as_secs() / READ_INTERVAL.as_secs()).max(1);
            let is_flood = new >= MANY_PER_MINUTE * minutes && !EXPECTED.contains(reason);
            let is_over = is_first || since_line >= 2 * MAX_PAUSE;
            let pause = if is_over { READ_INTERVAL } else { (reported.pause * 2).min(MAX_PAUSE) };
            *reported = Reported { count: *count, at: now, pause };
            all.push(RefusedCount { reason, count: new, within, is_flood });
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(count: u64) -> SortedMap<&'static str, u64> {
        SortedMap::from([("in-bad-mac1", count), ("out-no-route", count)])
    }

    #[test]
    fn fault_p5_a_long_flood_is_reported_at_growing_intervals() {
        let (mut refusals, minute) = (Refusals::default(), Duration::from_secs(60));
        let at = |minutes: u32| Time::from_duration(minute * (minutes + 1_000));
        refusals.start(at(0));
        let mut lines = Vec::new();
        for minutes in 1..=24 * 60 {
            assert_eq!(refusals.due(), at(minutes));
            let refused = refusals.read(&counts(u64::from(minutes) * 60_000), at(minutes));
            lines
                .extend(refused.into_iter().filter(|refused| refused.is_flood).map(|refused| (minutes, refused.count)));
        }
        assert_eq!(&lines[..4], [(1, 60_000), (2, 60_000), (4, 120_000), (8, 240_000)]);
        assert!(lines.len() < 35, "lines of one day: {}", lines.len());
        let counted: u64 = lines.iter().map(|(_, count)| count).sum();
        assert!(counted > 23 * 60 * 60_000, "all but the last hour is counted");
    }

    #[test]
    fn a_few_packets_are_no_flood_and_hours_of_silence_end_a_flood() {
        let (mut refusals, minute) = (Refusals::default(), Duration::from_secs(60));
        let at = |minutes: u32| Time::from_duration(minute * minutes);
        refusals.start(at(0));
        assert_eq!(refusals.read(&SortedMap::new(), at(1)), []);
        let refused = refusals.read(&counts(99), at(2));
        assert!(refused.len() == 2 && refused.iter().all(|refused| !refused.is_flood && refused.count == 99));
        assert_eq!(refusals.read(&counts(99), at(3)), []);
        let refused = refusals.read(&counts(100_000), at(300));
        assert_eq!(
            refused.iter().map(|refused| refused.is_flood).collect::<Vec<_>>(),
            [true, false],
            "the host's multicast does not count as a flood"
        );
        assert_eq!(
            refusals.read(&counts(200_000), at(301)).len(),
            2,
            "after hours without packets the next line is due at once"
        );
    }
}

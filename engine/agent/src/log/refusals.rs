//! Refused packets as events: the counters of drops are looked at once a minute, and a reason that goes on is told ever more rarely.
//!
//! A flood that lasts must not fill the log, and an hour of it is told by fewer lines than its first ten minutes: after 1, 2, 4, … minutes, up to an hour.

use std::collections::BTreeMap;
use std::time::Duration;

use taut_base::Time;

/// Time between two looks at the counters, one minute.
const EVERY: Duration = Duration::from_secs(60);

/// Longest time between two lines of a reason that goes on, and the time without any after which it counts as over: one hour.
const LONGEST: Duration = Duration::from_secs(3600);

/// Packets of one reason since its last line that make it worth an operator's time, 100 per minute: the Internet's usual scans send a few.
const MANY_PER_MINUTE: u64 = 100;

/// Reasons that belong to normal work: copies that went two ways on purpose, and the host's multicasts.
const USUAL: [&str; 2] = ["in-duplicate", "out-no-route"];

/// Packets that were refused for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) reason: &'static str,
    pub(crate) count: u64,
    /// Time since the last line of this reason, or since it began.
    pub(crate) within: Duration,
    /// It is worth an operator's time.
    pub(crate) many: bool,
}

#[derive(Clone, Copy, Debug)]
struct Told {
    count: u64,
    at: Time,
    pause: Duration,
}

/// What was told of each reason.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    due: Time,
    told: BTreeMap<&'static str, Told>,
}

impl Refusals {
    /// Begins at these counts, of a network that came up now: nothing before counts.
    pub(crate) fn start(&mut self, now: Time) {
        self.told.clear();
        self.due = now + EVERY;
    }

    /// Returns when [`Self::look`] is due.
    pub(crate) fn due(&self) -> Time {
        self.due
    }

    /// Looks at the counters; returns the reasons that are to be told.
    pub(crate) fn look(&mut self, counts: &BTreeMap<&'static str, u64>, now: Time) -> Vec<Refused> {
        self.due = now + EVERY;
        let mut all = Vec::new();
        for (reason, count) in counts {
            let began = Told { count: 0, at: self.due, pause: Duration::ZERO };
            let told = self.told.entry(*reason).or_insert(began);
            let is_first = told.pause.is_zero();
            let more = count.saturating_sub(told.count);
            let silent = now.since(told.at);
            if more == 0 || !is_first && silent < told.pause {
                continue;
            }
            let within = if is_first { EVERY } else { silent };
            let minutes = (within.as_secs() / EVERY.as_secs()).max(1);
            let many = more >= MANY_PER_MINUTE * minutes && !USUAL.contains(reason);
            let is_over = is_first || silent >= 2 * LONGEST;
            let pause = if is_over { EVERY } else { (told.pause * 2).min(LONGEST) };
            *told = Told { count: *count, at: now, pause };
            all.push(Refused { reason, count: more, within, many });
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(count: u64) -> BTreeMap<&'static str, u64> {
        BTreeMap::from([("in-bad-mac1", count), ("out-no-route", count)])
    }

    #[test]
    fn fault_p5_a_flood_that_lasts_is_told_ever_more_rarely() {
        let (mut refusals, minute) = (Refusals::default(), Duration::from_secs(60));
        let at = |minutes: u32| Time::from_duration(minute * (minutes + 1_000));
        refusals.start(at(0));
        let mut lines = Vec::new();
        for minutes in 1..=24 * 60 {
            assert_eq!(refusals.due(), at(minutes));
            let told = refusals.look(&counts(u64::from(minutes) * 60_000), at(minutes));
            lines.extend(told.into_iter().filter(|told| told.many).map(|told| (minutes, told.count)));
        }
        assert_eq!(&lines[..4], [(1, 60_000), (2, 60_000), (4, 120_000), (8, 240_000)]);
        assert!(lines.len() < 35, "a day of it: {}", lines.len());
        let counted: u64 = lines.iter().map(|(_, count)| count).sum();
        assert!(counted > 23 * 60 * 60_000, "nothing is left uncounted but the last hour");
    }

    #[test]
    fn a_few_packets_are_no_flood_and_silence_ends_one() {
        let (mut refusals, minute) = (Refusals::default(), Duration::from_secs(60));
        let at = |minutes: u32| Time::from_duration(minute * minutes);
        refusals.start(at(0));
        assert_eq!(refusals.look(&BTreeMap::new(), at(1)), []);
        let told = refusals.look(&counts(99), at(2));
        assert!(told.len() == 2 && told.iter().all(|told| !told.many && told.count == 99));
        assert_eq!(refusals.look(&counts(99), at(3)), []);
        let told = refusals.look(&counts(100_000), at(300));
        assert_eq!(
            told.iter().map(|told| told.many).collect::<Vec<_>>(),
            [true, false],
            "the host's multicasts are no flood"
        );
        assert_eq!(
            refusals.look(&counts(200_000), at(301)).len(),
            2,
            "a new one after hours of silence is told in full"
        );
    }
}

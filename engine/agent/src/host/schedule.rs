//! The times at which the overlay's device is checked and missing parts are restored (fault J11). Pure: time is an argument.
//!
//! ```text
//!            a part is missing                      more than RESTORATIONS within WINDOW
//!  calm ───────────────────────▶ restored, calm ──────────────────────────────────────────▶ contested
//!    ▲                                                                                     once a WINDOW: restored
//!    └────────────────────── nothing is missing HOLD after that ◀──────────────────────────────┘
//! ```
//! If a user sets the device down or runs `ip address flush`, the configuration is restored within a second. If a program removes it again and again, taut restores it
//! once a minute: it neither gives up nor competes with that program.

use std::collections::VecDeque;
use std::time::Duration;

use taut_base::Time;

/// Time from news about the device to its check, 10 ms: a change causes several messages within a few milliseconds, and one check covers them all.
const SETTLE: Duration = Duration::from_millis(10);
/// Shortest time between two checks, 100 ms: a check reads the device, all addresses and the device's routes in less than a millisecond.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Number of restorations within [`WINDOW`] after which another program is assumed, five: a user who tries `ip link set down` and `up` causes one or two.
const RESTORATIONS: usize = 5;
/// Time in which [`RESTORATIONS`] are counted, and interval of restorations while the device is contested: one minute.
const WINDOW: Duration = Duration::from_secs(60);
/// Time for which the configuration has to stay complete after a restoration of a contested device, before the other program counts as gone, 10 s: it exposes a program
/// that repeats its changes every few seconds.
const HOLD: Duration = Duration::from_secs(10);
/// Interval of checks without news, one minute: the kernel does not report some changes, such as enabling IPv6 on a device without a carrier.
pub(super) const IDLE: Duration = Duration::from_secs(60);

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckOutcome {
    /// Nothing is missing, or a restoration is not due yet.
    Nothing,
    /// Missing parts are restored now.
    Restore,
}

/// The schedule of checks and restorations.
#[derive(Debug)]
pub(super) struct Schedule {
    /// Time of the last check.
    checked: Time,
    /// Time of the next check.
    due: Time,
    /// Restorations of the last [`WINDOW`], the oldest first.
    recent: VecDeque<Time>,
    contest: Option<Contest>,
}

/// Another program removes what taut restores.
#[derive(Clone, Copy, Debug)]
struct Contest {
    /// Time of the last restoration, or of the begin of the contest.
    since: Time,
    /// Whether a restoration was made whose outcome is not known yet.
    tried: bool,
}

impl Schedule {
    /// Creates the schedule of a device that was configured at `now`.
    pub(super) fn new(now: Time) -> Self {
        Self { checked: now, due: now + IDLE, recent: VecDeque::new(), contest: None }
    }

    /// Notes news about the device.
    pub(super) fn changed(&mut self, now: Time) {
        // While the device is contested, news does not cause checks: the other program would determine their rate.
        if self.contest.is_none() {
            self.due = self.due.min((now + SETTLE).max(self.checked + CHECK_INTERVAL));
        }
    }

    /// Returns the time of the next check.
    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// Notes that the device could not be read. It is checked again a second later.
    pub(super) fn postpone(&mut self, now: Time) {
        self.checked = now;
        self.due = now + Duration::from_secs(1);
    }

    /// Returns true while another program is assumed to remove what taut restores.
    pub(super) fn is_contested(&self) -> bool {
        self.contest.is_some()
    }

    /// Takes the result of a check. `complete` is true if nothing is missing; `idle` is the time until the next check without news.
    pub(super) fn handle_check(&mut self, complete: bool, idle: Duration, now: Time) -> CheckOutcome {
        self.checked = now;
        self.due = now + idle;
        match self.contest {
            None if complete => CheckOutcome::Nothing,
            None => self.restore_calmly(now),
            Some(contest) => self.contest(contest, complete, now),
        }
    }

    fn restore_calmly(&mut self, now: Time) -> CheckOutcome {
        while self.recent.front().is_some_and(|first| now.since(*first) >= WINDOW) {
            self.recent.pop_front();
        }
        if self.recent.len() >= RESTORATIONS {
            self.contest = Some(Contest { since: now, tried: false });
            self.due = now + WINDOW;
            return CheckOutcome::Nothing;
        }
        self.recent.push_back(now);
        CheckOutcome::Restore
    }

    fn contest(&mut self, contest: Contest, complete: bool, now: Time) -> CheckOutcome {
        let next = contest.since + WINDOW;
        if complete {
            // The configuration was complete after a restoration. Without a restoration another program completed it, and it has to stay complete for `HOLD` as well.
            let holds = contest.since + HOLD;
            if contest.tried && now >= holds {
                self.contest = None;
                self.recent = VecDeque::from([contest.since]);
            } else if contest.tried {
                self.due = holds;
            } else {
                self.contest = Some(Contest { since: now, tried: true });
                self.due = now + HOLD;
            }
            return CheckOutcome::Nothing;
        }
        if now < next {
            self.due = next;
            return CheckOutcome::Nothing;
        }
        self.contest = Some(Contest { since: now, tried: true });
        self.due = now + HOLD;
        CheckOutcome::Restore
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(1_000_000 + milliseconds)
    }

    /// Looks whenever that is due, from `from` to `to`, while `missing` says whether something is missing; a restoration is undone `again` later, if it is.
    /// Returns when it was restored, in milliseconds.
    fn run(schedule: &mut Schedule, from: u64, to: u64, again: Option<u64>) -> Vec<u64> {
        let (mut now, mut missing_since, mut restored) = (from, Some(from), Vec::new());
        schedule.changed(at(now));
        loop {
            let removal = match (missing_since, again, restored.last()) {
                (None, Some(again), Some(last)) => Some(last + again),
                _ => None,
            };
            let due = u64::try_from(schedule.due().since(at(0)).as_millis()).unwrap();
            now = removal.map_or(due, |removal| removal.min(due)).max(now + 1);
            if now >= to {
                return restored;
            }
            if removal == Some(now) {
                missing_since = Some(now);
                schedule.changed(at(now));
            }
            if at(now) >= schedule.due()
                && schedule.handle_check(missing_since.is_none(), IDLE, at(now)) == CheckOutcome::Restore
            {
                missing_since = None;
                restored.push(now);
            }
        }
    }

    #[test]
    fn fault_j11_what_is_missing_is_put_back_within_a_second_and_once() {
        let mut schedule = Schedule::new(at(0));
        assert_eq!(run(&mut schedule, 5_000, 200_000, None), [5_010]);
        assert!(!schedule.is_contested());
        // Right behind a look.
        schedule.handle_check(true, IDLE, at(200_000));
        assert_eq!(run(&mut schedule, 200_001, 300_000, None), [200_100]);
    }

    #[test]
    fn fault_j11_against_another_program_five_times_a_minute_and_then_once() {
        let mut schedule = Schedule::new(at(0));
        let restored = run(&mut schedule, 0, 600_000, Some(1));
        assert_eq!(restored[..5], [100, 200, 300, 400, 500]);
        assert!(schedule.is_contested());
        let slow = &restored[5..];
        assert!(slow.len() >= 9, "tries go on: {slow:?}");
        assert!(slow.windows(2).all(|pair| pair[1] - pair[0] >= 60_000), "{slow:?}");
        assert!(slow[0] >= 60_000);
    }

    #[test]
    fn fault_j11_never_more_than_five_restorations_within_a_minute() {
        for again in [1, 50, 500, 5_000, 9_999, 10_001, 11_000, 13_000, 30_000] {
            let mut schedule = Schedule::new(at(0));
            let restored = run(&mut schedule, 0, 900_000, Some(again));
            assert!(restored.len() > 10, "{again}: tries go on");
            let most = restored
                .iter()
                .map(|from| restored.iter().filter(|other| (*from..from + 60_000).contains(other)).count());
            assert!(most.max().unwrap() <= 5, "{again}: {restored:?}");
        }
    }

    #[test]
    fn fault_j11_when_the_other_program_stops_it_is_over_within_a_minute_and_ten_seconds() {
        let mut schedule = Schedule::new(at(0));
        run(&mut schedule, 0, 5_000, Some(1));
        assert!(schedule.is_contested());
        let restored = run(&mut schedule, 5_000, 80_000, None);
        assert_eq!(restored.len(), 1);
        assert!(!schedule.is_contested());
        // And a later accident is undone at once.
        assert_eq!(run(&mut schedule, 100_000, 150_000, None), [100_010]);
    }

    #[test]
    fn news_does_not_decide_how_often_a_contested_device_is_looked_at() {
        let mut schedule = Schedule::new(at(0));
        run(&mut schedule, 0, 5_000, Some(1));
        let due = schedule.due();
        for moment in 5_000..6_000 {
            schedule.changed(at(moment));
        }
        assert_eq!(schedule.due(), due);
    }
}

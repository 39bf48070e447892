//! When the overlay's device is looked at, and when what is missing is put back (fault J11). Pure: time is an argument.
//!
//! ```text
//!            something missing                      more than RESTORATIONS within WINDOW
//!  calm ───────────────────────▶ put back, calm ──────────────────────────────────────────▶ contested
//!    ▲                                                                                     once a RETRY: put back
//!    └────────────────────── nothing is missing HOLD after that ◀──────────────────────────────┘
//! ```
//! A user who sets the device down, or an `ip address flush`, is undone within a second. Against a program that does so again and again, taut neither gives
//! up nor makes a race of it.

use std::collections::VecDeque;
use std::time::Duration;

use taut_base::Time;

/// Time from news about the device until it is looked at: a change comes as several messages within a few milliseconds, and a look reads all.
const SETTLE: Duration = Duration::from_millis(10);
/// Shortest time between two looks: a look reads the device, all addresses and the device's routes, less than a millisecond of work.
const LOOKS_APART: Duration = Duration::from_millis(100);
/// Restorations within [`WINDOW`] before another program is taken to be at work: a user who tries `ip link set down` and `up` needs one or two.
const RESTORATIONS: usize = 5;
/// The time in which [`RESTORATIONS`] are counted, and the time between two tries while the device is contested: one minute.
const WINDOW: Duration = Duration::from_secs(60);
/// After a try while the device is contested, everything has to stay in place for this long before the other program counts as gone: a program that
/// repeats itself every few seconds is noticed.
const HOLD: Duration = Duration::from_secs(10);
/// Time between two looks without any news: some changes are not told, such as IPv6 that is switched on again on a device without a carrier.
pub(super) const IDLE: Duration = Duration::from_secs(60);

/// What a look leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Everything is in place, or it is not yet time.
    Nothing,
    /// What is missing is put back now.
    Restore,
}

/// When to look and when to restore.
#[derive(Debug)]
pub(super) struct Schedule {
    /// When the device was last looked at, and when that is due again.
    looked: Time,
    due: Time,
    /// Restorations of the last [`WINDOW`], the oldest first.
    recent: VecDeque<Time>,
    contest: Option<Contest>,
}

/// Another program takes apart what we put back.
#[derive(Clone, Copy, Debug)]
struct Contest {
    /// When the last try was, or when the contest began.
    since: Time,
    /// Whether a try was made whose outcome is waited for.
    tried: bool,
}

impl Schedule {
    /// For a device that was configured `now`.
    pub(super) fn new(now: Time) -> Self {
        Self { looked: now, due: now + IDLE, recent: VecDeque::new(), contest: None }
    }

    /// There is news about the device.
    pub(super) fn changed(&mut self, now: Time) {
        // While the device is contested the other program would decide how often we look.
        if self.contest.is_none() {
            self.due = self.due.min((now + SETTLE).max(self.looked + LOOKS_APART));
        }
    }

    /// When a look is due.
    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// The device could not be read: nothing is known of it, and it is looked at again a second later.
    pub(super) fn postpone(&mut self, now: Time) {
        self.looked = now;
        self.due = now + Duration::from_secs(1);
    }

    /// Returns true while another program is taken to remove what we put back.
    pub(super) fn is_contested(&self) -> bool {
        self.contest.is_some()
    }

    /// The device was looked at: whether all is in place. `idle` is when it is to be looked at again without news.
    pub(super) fn look(&mut self, complete: bool, idle: Duration, now: Time) -> Step {
        self.looked = now;
        self.due = now + idle;
        match self.contest {
            None if complete => Step::Nothing,
            None => self.restore_calmly(now),
            Some(contest) => self.contest(contest, complete, now),
        }
    }

    fn restore_calmly(&mut self, now: Time) -> Step {
        while self.recent.front().is_some_and(|first| now.since(*first) >= WINDOW) {
            self.recent.pop_front();
        }
        if self.recent.len() >= RESTORATIONS {
            self.contest = Some(Contest { since: now, tried: false });
            self.due = now + WINDOW;
            return Step::Nothing;
        }
        self.recent.push_back(now);
        Step::Restore
    }

    fn contest(&mut self, contest: Contest, complete: bool, now: Time) -> Step {
        let next = contest.since + WINDOW;
        if complete {
            // After a try that has held; without one, somebody else put it back, and it has to hold as well.
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
            return Step::Nothing;
        }
        if now < next {
            self.due = next;
            return Step::Nothing;
        }
        self.contest = Some(Contest { since: now, tried: true });
        self.due = now + HOLD;
        Step::Restore
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
            if at(now) >= schedule.due() && schedule.look(missing_since.is_none(), IDLE, at(now)) == Step::Restore {
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
        schedule.look(true, IDLE, at(200_000));
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

//! The stamps of our initiations (protocol.md 1.9): they only rise, over restarts and wrong clocks too, because a peer drops what is stamped no later than
//! the last initiation that it heard.
//!
//! A stamp is the wall clock's reading, or the *floor* where that is later: the latest reading used so far, and at the start the *ceiling* that the
//! last run left on the disk. The ceiling stays ahead of all stamps, so that it is written once an hour and not for each handshake. While the clock is
//! behind, stamps stand still but for the one step that each of a peer's must take, and the ceiling is put ahead by a minute only: a node that
//! restarts again and again walks into the future by a minute at a time, and comes back when its clock has caught up.

use std::time::Duration;

use taut_tunnel::handshake::Timestamp;

/// How far ahead of a good clock the ceiling is put.
const AHEAD: Duration = Duration::from_secs(3600);
/// How far ahead of a floor that the clock has not reached: 3,600 handshakes with one peer, days of rekeys.
const AHEAD_OF_FLOOR: Duration = Duration::from_secs(60);

/// A clock that is behind the floor by no more than this is good: handshakes in quick succession step ahead of it.
const BEHIND: Duration = Duration::from_secs(1);

/// Where the stamps of one node stand. All times are since the Unix epoch.
#[derive(Default)]
pub(crate) struct Stamps {
    floor: Duration,
    ceiling: Duration,
    news: Option<Duration>,
}

impl Stamps {
    /// What an earlier run left: no stamp of its own was later.
    pub(crate) fn resume(&mut self, ceiling: Duration) {
        self.floor = self.floor.max(ceiling);
        self.ceiling = self.ceiling.max(ceiling);
    }

    /// The stamp of an initiation that is made now, for a peer whose last one was `last`.
    pub(crate) fn next(&mut self, wall: Duration, last: Timestamp) -> Timestamp {
        let stamp = Timestamp::from_wall_clock(self.floor.max(wall)).after(last);
        self.raise(stamp.since_epoch(), wall);
        stamp
    }

    /// Returns what the clock shows that binds to relays are stamped by: never less than in an earlier run.
    pub(crate) fn reading(&self, wall: Duration) -> Duration {
        self.floor.max(wall)
    }

    /// Notes that a bind to a relay was stamped with this reading, so that later ones are stamped later, after a restart too.
    pub(crate) fn used(&mut self, reading: Duration, wall: Duration) {
        self.raise(reading.saturating_add(Duration::from_nanos(1)), wall);
    }

    /// Raises the floor, and the ceiling with it.
    fn raise(&mut self, floor: Duration, wall: Duration) {
        let good = wall.saturating_add(BEHIND) >= self.floor;
        self.floor = self.floor.max(floor);
        let ahead = if good { AHEAD } else { AHEAD_OF_FLOOR };
        if self.floor.saturating_add(ahead / 2) > self.ceiling {
            self.ceiling = self.floor.saturating_add(ahead);
            self.news = Some(self.ceiling);
        }
    }

    /// Returns a ceiling to be kept for the next run, if it was raised.
    pub(crate) fn poll_output(&mut self) -> Option<Duration> {
        self.news.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;
    const TODAY: u64 = 20_000 * DAY;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A run of the node: a handshake every two minutes by this clock. Yields its last stamp, and what is on the disk after it.
    fn run(saved: Option<Duration>, clock: impl Fn(u64) -> u64, seconds: u64) -> (Timestamp, Option<Duration>, usize) {
        let (mut stamps, mut disk, mut writes) = (Stamps::default(), saved, 0);
        if let Some(ceiling) = saved {
            stamps.resume(ceiling);
        }
        let mut last = Timestamp::default();
        for second in (0..seconds).step_by(120) {
            let stamp = stamps.next(at(clock(second)), last);
            assert!(stamp > last);
            last = stamp;
            if let Some(ceiling) = stamps.poll_output() {
                (disk, writes) = (Some(ceiling), writes + 1);
            }
            assert!(disk.is_some_and(|ceiling| Timestamp::from_wall_clock(ceiling) > stamp));
        }
        (last, disk, writes)
    }

    #[test]
    fn fault_m2_a_reboot_into_the_past_stamps_later_than_before() {
        let (mut before, mut disk, _) = run(None, |second| TODAY + second, DAY);
        for clock in [0, TODAY - DAY, TODAY, 0] {
            let (first, _, _) = run(disk, |second| clock + second, 1);
            assert!(first > before, "the first stamp with the clock at {clock}");
            (before, disk, _) = run(disk, |second| clock + second, DAY);
        }
    }

    #[test]
    fn fault_m1_a_clock_that_jumps_stops_no_handshake() {
        let ten_years = 3_652 * DAY;
        let jumps = |second: u64| match second / 1_000 {
            1 => TODAY + ten_years,
            2 => TODAY - ten_years,
            3 => 0,
            _ => TODAY + second,
        };
        let (_, _, writes) = run(None, jumps, 10_000);
        assert!(writes <= 3, "{writes} writes");
    }

    #[test]
    fn the_ceiling_is_written_twice_an_hour_at_most() {
        let (_, _, writes) = run(None, |second| TODAY + second, DAY);
        assert!((24..=49).contains(&writes), "{writes} writes in a day");
        let (_, _, writes) = run(Some(at(TODAY)), |second| second, 10 * DAY);
        assert!(writes <= 10, "{writes} writes in ten days of a wrong clock");
    }

    #[test]
    fn fault_f15_binds_are_stamped_later_than_those_of_an_earlier_run() {
        let (mut last, mut disk) = (Duration::ZERO, None);
        for clock in [TODAY, 0, TODAY - DAY, TODAY + 10] {
            let mut stamps = Stamps::default();
            stamps.resume(disk.unwrap_or_default());
            for second in 0..10 {
                let reading = stamps.reading(at(clock + second));
                assert!(reading > last, "with the clock at {clock}");
                stamps.used(reading, at(clock + second));
                last = reading;
                disk = stamps.poll_output().or(disk);
                assert!(disk > Some(last), "what is on the disk is ahead");
            }
        }
    }

    #[test]
    fn restarts_walk_into_the_future_by_a_minute_at_most() {
        let mut disk = Some(at(TODAY));
        for _ in 0..100 {
            (_, disk, _) = run(disk, |_| TODAY - 2, 120);
        }
        assert!(disk <= Some(at(TODAY + 100 * 60)), "{disk:?}");
    }
}

//! The timestamps of this node's initiations (protocol.md 1.9). They only rise, even across restarts and with a wrong clock, because a peer drops an
//! initiation whose timestamp is not later than the last one that it accepted.
//!
//! A timestamp is the wall clock's reading or the *floor*, whichever is later. The floor is the latest timestamp used so far; at the start it is the
//! *ceiling* that the last run left on the disk. The ceiling stays ahead of all timestamps, which is why it is written about once an hour instead of for
//! each handshake. While the clock is behind the floor, timestamps stay at the floor, except that each timestamp for one peer is a step later than the
//! last. The ceiling is then raised by only a minute: a node that restarts often drifts into the future by one minute per restart, and returns to its
//! clock when the clock has caught up.

use std::time::Duration;

use taut_tunnel::handshake::Timestamp;

/// Distance of the ceiling from a good clock, one hour: the ceiling is written at most twice an hour.
const AHEAD: Duration = Duration::from_secs(3600);
/// Distance of the ceiling from a floor that the clock has not reached, one minute: it lasts for 3,600 handshakes with one peer, days of rekeys.
const AHEAD_OF_FLOOR: Duration = Duration::from_secs(60);

/// Lag behind the floor up to which a clock counts as good, 1 s: handshakes in quick succession move the floor slightly ahead of the clock.
const BEHIND: Duration = Duration::from_secs(1);

/// The floor and the ceiling of one node's timestamps. All times are since the Unix epoch.
#[derive(Default)]
pub(crate) struct InitiationStamps {
    floor: Duration,
    ceiling: Duration,
    /// A ceiling that was raised and not returned yet.
    raised: Option<Duration>,
}

impl InitiationStamps {
    /// Takes the ceiling that an earlier run left: no timestamp of that run was later.
    pub(crate) fn resume(&mut self, ceiling: Duration) {
        self.floor = self.floor.max(ceiling);
        self.ceiling = self.ceiling.max(ceiling);
    }

    /// Returns the timestamp of a new initiation to a peer whose last timestamp was `last`.
    pub(crate) fn next(&mut self, wall: Duration, last: Timestamp) -> Timestamp {
        let stamp = Timestamp::from_wall_clock(self.floor.max(wall)).after(last);
        self.raise(stamp.since_epoch(), wall);
        stamp
    }

    /// Returns the time for the stamps of binds to relays. It is never earlier than in an earlier run.
    pub(crate) fn reading(&self, wall: Duration) -> Duration {
        self.floor.max(wall)
    }

    /// Notes that a bind to a relay was stamped with this time: later stamps will be later, also after a restart.
    pub(crate) fn note_used(&mut self, reading: Duration, wall: Duration) {
        self.raise(reading.saturating_add(Duration::from_nanos(1)), wall);
    }

    /// Raises the floor, and the ceiling when the floor comes near it.
    fn raise(&mut self, floor: Duration, wall: Duration) {
        let good = wall.saturating_add(BEHIND) >= self.floor;
        self.floor = self.floor.max(floor);
        let ahead = if good { AHEAD } else { AHEAD_OF_FLOOR };
        if self.floor.saturating_add(ahead / 2) > self.ceiling {
            self.ceiling = self.floor.saturating_add(ahead);
            self.raised = Some(self.ceiling);
        }
    }

    /// Returns a ceiling to be kept for the next run, if it was raised.
    pub(crate) fn poll_output(&mut self) -> Option<Duration> {
        self.raised.take()
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

    /// Runs a node that makes a handshake every two minutes by this clock. Returns its last timestamp, the ceiling on the disk, and the number of writes.
    fn run(saved: Option<Duration>, clock: impl Fn(u64) -> u64, seconds: u64) -> (Timestamp, Option<Duration>, usize) {
        let (mut stamps, mut disk, mut writes) = (InitiationStamps::default(), saved, 0);
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
    fn fault_m7_stamps_rise_in_2038_in_2106_and_later() {
        for end in [1 << 31, 1 << 32, 1 << 40] {
            let (last, disk, _) = run(None, |second| end - 600 + second, 1_320);
            assert_eq!(last.since_epoch(), at(end + 600), "the clock's own reading");
            let (next, ..) = run(disk, |second| end + 7_200 + second, 1);
            assert!(next > last);
        }
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
            let mut stamps = InitiationStamps::default();
            stamps.resume(disk.unwrap_or_default());
            for second in 0..10 {
                let reading = stamps.reading(at(clock + second));
                assert!(reading > last, "with the clock at {clock}");
                stamps.note_used(reading, at(clock + second));
                last = reading;
                disk = stamps.poll_output().or(disk);
                assert!(disk > Some(last), "the ceiling on the disk is ahead");
            }
        }
    }

    #[test]
    fn a_restart_drifts_into_the_future_by_a_minute_at_most() {
        let mut disk = Some(at(TODAY));
        for _ in 0..100 {
            (_, disk, _) = run(disk, |_| TODAY - 2, 120);
        }
        assert!(disk <= Some(at(TODAY + 100 * 60)), "{disk:?}");
    }
}

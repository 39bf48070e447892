//! The wall clock, in seconds since 1970: the form that is stored and shown.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Returns the seconds since 1970. A clock before 1970 counts as 1970.
pub(crate) fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Time for which the wall clock must agree with the monotonic clock before old rows are deleted by it, 1 h. A time server corrects a clock within minutes
/// of the start, and a clock that is wrong for less than an hour deletes nothing.
const STEADY_FOR: Duration = Duration::from_secs(3600);

/// Largest difference between the two clocks after that time, 300 s. A time server that slews the clock changes it by 2 s an hour.
const TOLERANCE: i64 = 300;

/// Detector of changes to the wall clock. Pure: both clocks are arguments.
pub(crate) struct SteadyClock {
    /// Both clocks when the wall clock was set last.
    since: Option<(Instant, i64)>,
    steady_for: Duration,
}

impl Default for SteadyClock {
    fn default() -> Self {
        Self::after(STEADY_FOR)
    }
}

impl SteadyClock {
    /// Returns a detector that trusts the wall clock once it was not set for this time.
    pub(crate) fn after(steady_for: Duration) -> Self {
        Self { since: None, steady_for }
    }

    /// Returns `wall` if the wall clock was not set during the detector's time, [`STEADY_FOR`] by default.
    pub(crate) fn read(&mut self, wall: i64, now: Instant) -> Option<i64> {
        let (since, then) = *self.since.get_or_insert((now, wall));
        let passed = now.saturating_duration_since(since);
        let expected = then.saturating_add(i64::try_from(passed.as_secs()).unwrap_or(i64::MAX));
        if wall.abs_diff(expected) > TOLERANCE.unsigned_abs() {
            self.since = Some((now, wall));
            return None;
        }
        (passed >= self.steady_for).then_some(wall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_m3_a_clock_that_is_years_ahead_after_a_boot_ends_no_membership_before_it_is_corrected() {
        let (mut clock, start, wall) = (SteadyClock::after(Duration::from_secs(600)), Instant::now(), 1_800_000_000);
        let mut read = |ahead: i64, second: u64| {
            let second_signed = i64::try_from(second).unwrap();
            clock.read(wall + ahead + second_signed, start + Duration::from_secs(second))
        };
        let years = 315_360_000;
        // The host boots ten years ahead, and a time server corrects it after nine minutes.
        assert_eq!([read(years, 0), read(years, 540), read(0, 541), read(0, 1_140)], [None; 4]);
        assert_eq!(read(0, 1_141), Some(wall + 1_141));
        // An administrator sets the clock back, and later forward again.
        assert_eq!([read(-years, 1_200), read(0, 1_201)], [None; 2]);
        assert_eq!(read(2, 1_801), Some(wall + 1_803), "small corrections are none");
    }

    #[test]
    fn fault_f17_nothing_is_old_by_a_clock_that_was_set_within_the_hour() {
        let (mut clock, start, wall) = (SteadyClock::default(), Instant::now(), 1_800_000_000);
        let mut read = |ahead: i64, second: i64| {
            clock
                .read(wall + ahead + second, start + Duration::from_secs(second.unsigned_abs()))
                .map(|time| time - wall)
        };
        let years = 315_360_000;
        assert_eq!(
            [read(0, 0), read(0, 3_599), read(1, 3_600), read(-2, 7_200)],
            [None, None, Some(3_601), Some(7_198)]
        );
        // Ten years ahead for half an hour.
        assert_eq!([read(years, 7_201), read(years, 9_000), read(0, 9_001)], [None; 3]);
        assert_eq!([read(0, 12_600), read(0, 12_601)], [None, Some(12_601)]);
    }
}

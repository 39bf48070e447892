//! Whether the host slept since the last look.
//!
//! Two clocks tell: one counts the time asleep, too, and the other does not (CLOCK_BOOTTIME, CLOCK_MONOTONIC). After a sleep addresses, routes and NATs may
//! be others, and no netlink news need say so: a laptop that wakes at the same access point has the same address behind a NAT that has forgotten it.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use taut_base::Time;

/// Below this it is the distance between two readings of two clocks on a busy host; NATs forget in half a minute at the soonest.
const SHORTEST: Duration = Duration::from_secs(2);

/// How far the clocks were apart when last compared.
#[derive(Debug, Default)]
pub(super) struct Sleep {
    asleep: Option<Duration>,
}

impl Sleep {
    /// `now`: with the time asleep. `awake`: without it, from any beginning. Returns for how long the host slept since the last look, if it did.
    pub(super) fn has_slept(&mut self, now: Time, awake: Duration) -> Option<Duration> {
        let asleep = now.since(Time::from_duration(awake));
        let before = *self.asleep.get_or_insert(asleep);
        let slept = asleep.checked_sub(before).filter(|slept| *slept >= SHORTEST);
        if slept.is_some() {
            self.asleep = Some(asleep);
        }
        slept
    }
}

/// Time since this was first asked, without the time asleep.
pub(super) fn awake() -> Duration {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_d13_a_sleep_is_noticed_once_and_a_busy_host_is_none() {
        let (mut sleep, second) = (Sleep::default(), Duration::from_secs(1));
        let at = |seconds: u32| Time::from_duration(second * seconds);
        assert_eq!(sleep.has_slept(at(1_000), second), None, "the first look compares with nothing");
        assert_eq!(sleep.has_slept(at(1_060), second * 61), None);
        assert_eq!(sleep.has_slept(at(1_062), second * 62), None, "read late");
        assert_eq!(sleep.has_slept(at(1_662), second * 62), Some(second * 601), "ten minutes");
        assert_eq!(sleep.has_slept(at(1_663), second * 63), None, "told once");
        assert_eq!(sleep.has_slept(at(1_664), second * 66), None, "never backwards");
    }
}

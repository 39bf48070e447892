//! Detection of a suspended host.
//!
//! Two clocks are compared: CLOCK_BOOTTIME counts the time asleep, CLOCK_MONOTONIC does not. After a sleep, addresses, routes and NAT mappings may have changed
//! without netlink news: a laptop that wakes at the same access point has the same address behind a NAT that has forgotten it.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use taut_base::Time;

/// Shortest difference that counts as a sleep, 2 s: smaller ones arise between two readings of the clocks on a busy host, and NATs keep mappings for at least half a
/// minute.
const SHORTEST: Duration = Duration::from_secs(2);

/// The difference of the clocks at the last comparison.
#[derive(Debug, Default)]
pub(super) struct Sleep {
    asleep: Option<Duration>,
}

impl Sleep {
    /// Returns for how long the host slept since the last call, if it did. `now` includes the time asleep; `awake` excludes it and has any origin.
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

/// Returns the time since the first call, without the time asleep.
pub(super) fn awake() -> Duration {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_d13_a_sleep_is_noticed_once_and_a_busy_host_does_not_count() {
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

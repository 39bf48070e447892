//! Shares of the agent thread's processor time for local users.

use std::time::Duration;

use taut_base::Time;

/// Pause after an incomplete request, 50 ms: an honest client sends a request in one piece, and a client that sends single bytes wakes the agent twenty times a
/// second instead of once per byte.
pub(crate) const PART_PAUSE: Duration = Duration::from_millis(50);
/// Cost of serving a client once beyond the measured time, 20 µs: a wake-up of the agent and the system calls around it.
const OVERHEAD: Duration = Duration::from_micros(20);
/// Maximum cost of one charge, 1 s: in a longer time the host was asleep or busy with something else.
const MOST_CHARGED: Duration = Duration::from_secs(1);

/// A share of processor time: one part in `parts`, and a burst. The used time is stored as the moment at which it is paid off, so a user who has been quiet
/// needs no bookkeeping (the generic cell rate algorithm, as in [`taut_base::Bucket`]).
#[derive(Clone, Copy)]
pub(crate) struct CpuShare {
    parts: u32,
    tolerance: Duration,
}

impl CpuShare {
    /// Creates a share of one part in `parts`, of which `burst` may be used at once.
    pub(crate) const fn new(parts: u32, burst: Duration) -> Self {
        Self { parts, tolerance: burst.saturating_mul(parts) }
    }

    /// Returns the time from which more may be used, if the used time is paid off at `paid`.
    pub(crate) fn due(&self, paid: Time) -> Time {
        Time::from_duration(paid.since(Time::ZERO).saturating_sub(self.tolerance))
    }

    /// Returns the moment at which another use of `cost` is paid off, too.
    pub(crate) fn charge(&self, paid: Time, cost: Duration, now: Time) -> Time {
        let cost = cost.min(MOST_CHARGED) + OVERHEAD;
        paid.max(now) + cost.saturating_mul(self.parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_burst_one_part_is_granted() {
        let share = CpuShare::new(5, Duration::from_millis(100));
        let (begin, cost) = (Time::from_duration(Duration::from_secs(9)), Duration::from_millis(10));
        let (mut now, mut paid, mut used) = (begin, Time::ZERO, Duration::ZERO);
        while now < begin + Duration::from_secs(10) {
            now = now.max(share.due(paid)) + cost;
            (paid, used) = (share.charge(paid, cost, now), used + cost);
        }
        assert!((Duration::from_millis(1_900)..=Duration::from_millis(2_120)).contains(&used), "{used:?}");
        assert!(
            share.charge(now, Duration::from_secs(1_000), now) <= now + Duration::from_secs(6),
            "a charge is limited, even if the host slept"
        );
    }
}

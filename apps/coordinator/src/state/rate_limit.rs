//! Rate limit of one source: an average rate and a burst. Pure: time is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// A token bucket, stored as the time up to which it is used up.
pub(crate) struct RateLimit {
    every: Duration,
    /// Time before `paid` from which the next event is allowed.
    ahead: Duration,
    paid: Instant,
}

impl RateLimit {
    /// Allows one event per `every` on average, and `burst` at once.
    pub(crate) fn new(every: Duration, burst: u32, now: Instant) -> Self {
        Self { every, ahead: every * burst.saturating_sub(1), paid: now }
    }

    /// Returns the time from which the next event is allowed.
    pub(crate) fn due(&self) -> Instant {
        self.paid.checked_sub(self.ahead).unwrap_or(self.paid)
    }

    /// Counts an event.
    pub(crate) fn count(&mut self, now: Instant) {
        self.paid = self.paid.max(now) + self.every;
    }

    /// Uses up the burst, so that the next event is delayed.
    pub(crate) fn pause(&mut self, now: Instant) {
        self.paid = now + self.ahead;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_e25_a_burst_and_then_one_at_a_time() {
        let start = Instant::now();
        let (second, mut rate_limit) = (Duration::from_secs(1), RateLimit::new(Duration::from_secs(1), 3, start));
        for _ in 0..3 {
            assert!(rate_limit.due() <= start);
            rate_limit.count(start);
        }
        assert_eq!(rate_limit.due(), start + second);
        rate_limit.count(start + second);
        assert_eq!(rate_limit.due(), start + 2 * second);
        let later = start + 60 * second;
        rate_limit.count(later);
        assert!(rate_limit.due() <= later, "what was not used is not lost");
        rate_limit.pause(later);
        rate_limit.count(later);
        assert_eq!(rate_limit.due(), later + second);
    }
}

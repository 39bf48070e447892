//! The rate of one thing: an average, and how many may come at once. Pure: time is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// A token bucket, kept as the moment up to which it is used up.
pub(crate) struct Pace {
    every: Duration,
    /// How long before `paid` the next one may come.
    ahead: Duration,
    paid: Instant,
}

impl Pace {
    /// One per `every` on average, and `burst` at once.
    pub(crate) fn new(every: Duration, burst: u32, now: Instant) -> Self {
        Self { every, ahead: every * burst.saturating_sub(1), paid: now }
    }

    /// When the next one may come.
    pub(crate) fn due(&self) -> Instant {
        self.paid.checked_sub(self.ahead).unwrap_or(self.paid)
    }

    /// It came.
    pub(crate) fn pay(&mut self, now: Instant) {
        self.paid = self.paid.max(now) + self.every;
    }

    /// The next one comes after a whole pause, not in the rest of a burst.
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
        let (second, mut pace) = (Duration::from_secs(1), Pace::new(Duration::from_secs(1), 3, start));
        for _ in 0..3 {
            assert!(pace.due() <= start);
            pace.pay(start);
        }
        assert_eq!(pace.due(), start + second);
        pace.pay(start + second);
        assert_eq!(pace.due(), start + 2 * second);
        let later = start + 60 * second;
        pace.pay(later);
        assert!(pace.due() <= later, "what was not used is not lost");
        pace.pause(later);
        pace.pay(later);
        assert_eq!(pace.due(), later + second);
    }
}

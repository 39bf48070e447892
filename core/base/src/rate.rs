//! Rate limits: token buckets, each stored as one point in time.

use std::time::Duration;

use crate::Time;

/// A rate and a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    interval: Duration,
    tolerance: Duration,
}

impl Rate {
    /// Returns a rate of `per_second` on average (at least 1), with `burst` at once (at least 1).
    pub const fn new(per_second: u32, burst: u32) -> Self {
        let per_second = if per_second == 0 { 1 } else { per_second };
        let interval = Duration::from_nanos(1_000_000_000 / per_second as u64);
        Self::every(interval, burst)
    }

    /// Returns a rate of one per `interval` on average, with `burst` at once (at least 1).
    pub const fn every(interval: Duration, burst: u32) -> Self {
        Self { interval, tolerance: interval.saturating_mul(burst.saturating_sub(1)) }
    }
}

/// A token bucket for a [`Rate`]. It stores the time at which it is full again (the generic cell rate algorithm of ITU-T I.371), so an idle bucket needs no
/// update, and the default bucket is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bucket {
    full: Time,
}

impl Bucket {
    /// Returns true if a token is available.
    pub fn has(&self, rate: &Rate, now: Time) -> bool {
        self.full <= now + rate.tolerance
    }

    /// Takes a token. Returns false if none is available.
    pub fn take(&mut self, rate: &Rate, now: Time) -> bool {
        let has = self.has(rate, now);
        if has {
            self.full = self.full.max(now) + rate.interval;
        }
        has
    }

    /// Returns true if the bucket is full, so that it equals a new one.
    pub fn is_full(&self, now: Time) -> bool {
        self.full <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_the_rate() {
        let rate = Rate::new(20, 5);
        let mut bucket = Bucket::default();
        let at = |milliseconds: u64| Time::ZERO + Duration::from_millis(10_000 + milliseconds);
        assert_eq!((0..10_u64).filter(|_| bucket.take(&rate, at(0))).count(), 5);
        assert_eq!((0..1_000).filter(|time| bucket.take(&rate, at(*time))).count(), 19);
        assert!(!bucket.is_full(at(1_000)));
        assert!(bucket.is_full(at(1_250)));
        assert_eq!((0..10_u64).filter(|_| bucket.take(&rate, at(5_000))).count(), 5);
    }

    #[test]
    fn fault_m4_a_clock_that_goes_back_gives_nothing_and_breaks_nothing() {
        let rate = Rate::new(20, 5);
        let mut bucket = Bucket::default();
        let late = Time::ZERO + Duration::from_secs(100);
        assert!(bucket.take(&rate, late));
        assert!(!bucket.take(&rate, Time::ZERO));
        assert!(bucket.take(&rate, late));
        assert!(bucket.take(&rate, Time(u64::MAX)));
    }
}

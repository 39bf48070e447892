//! The pause before the next attempt to connect.

use std::time::Duration;

use taut_base::Entropy;

/// Upper bound of the first pause, so that a coordinator that restarted is reached again within a second.
const FIRST: Duration = Duration::from_millis(500);
/// Upper bound of any pause, so that a coordinator that was away for a day is reached again within half a minute.
const LONGEST: Duration = Duration::from_secs(30);
/// Age from which the loss of a control channel resets the bound, 2 s: a shorter channel counts as a failed attempt. Coordinators that are restarted one after the other are seconds
/// apart, and each loss is then the first. A coordinator accepts one channel per 2 s of each node in the long run.
const STABLE_AGE: Duration = Duration::from_secs(2);

/// Exponential backoff with full jitter: each pause is uniform between 0 and a bound that doubles, so that a thousand nodes that lost the same coordinator do
/// not reconnect at once (fault N4).
#[derive(Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Returns the next pause, and doubles the bound of the one after it.
    pub fn next(&mut self, entropy: &mut impl Entropy) -> Duration {
        let bound = self.bound();
        self.failures = self.failures.saturating_add(1);
        let milliseconds = u32::try_from(bound.as_millis()).unwrap_or(u32::MAX);
        Duration::from_millis(u64::from(entropy.below(milliseconds.saturating_add(1))))
    }

    /// Notes that a control channel of this age was lost after the coordinator had accepted the node.
    pub fn note_channel(&mut self, age: Duration) {
        if age >= STABLE_AGE {
            self.reset();
        }
    }

    /// Resets the bound to its first value.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    fn bound(&self) -> Duration {
        FIRST.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX)).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_half_a_minute() {
        let mut highest = |bytes: &mut [u8]| bytes.fill(0xff);
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..9).map(|_| backoff.next(&mut highest).as_millis()).collect();
        assert_eq!(waits, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
        backoff.reset();
        assert_eq!(backoff.next(&mut highest), FIRST);
    }

    #[test]
    fn a_channel_that_is_lost_seconds_after_the_last_one_is_opened_again_as_soon_as_the_first() {
        let mut highest = |bytes: &mut [u8]| bytes.fill(0xff);
        let mut backoff = Backoff::default();
        // A rolling restart: each coordinator ends some seconds after the node came to it.
        for _ in 0..5 {
            backoff.note_channel(Duration::from_secs(3));
            assert_eq!(backoff.next(&mut highest), FIRST);
        }
        // A coordinator that ends at once after it accepted the node.
        for _ in 0..10 {
            backoff.note_channel(Duration::from_millis(500));
            backoff.next(&mut highest);
        }
        assert_eq!(backoff.next(&mut highest), LONGEST);
    }

    #[test]
    fn jitter_covers_the_whole_range_and_never_exceeds_the_bound() {
        let mut lowest = |bytes: &mut [u8]| bytes.fill(0);
        let mut backoff = Backoff::default();
        for _ in 0..100 {
            assert_eq!(backoff.next(&mut lowest), Duration::ZERO);
        }
        let mut jitter = crate::random::Jitter::new();
        for _ in 0..1_000 {
            assert!(backoff.next(&mut jitter) <= LONGEST);
        }
    }
}

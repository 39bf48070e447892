//! The pause before the next attempt to connect.

use std::time::Duration;

use taut_base::Entropy;

/// Least upper bound of a pause, so that a coordinator that restarted is reached again within a second.
const FIRST: Duration = Duration::from_millis(500);
/// Upper bound of any pause, so that a coordinator that was away for a day is reached again within half a minute.
const LONGEST: Duration = Duration::from_secs(30);
/// Age from which the loss of a control channel resets the bound, 2 s: a shorter channel counts as a failed attempt. Coordinators that are restarted one after the other are seconds
/// apart, and each loss is then the first. A coordinator accepts one channel per 2 s of each node in the long run.
const STABLE_AGE: Duration = Duration::from_secs(2);

/// Backoff with full jitter: each pause is uniform between 0 and a bound that grows with the time since the loss, so that a thousand nodes that lost the same coordinator
/// do not reconnect at once (fault N4).
///
/// The bound is the sum of the pauses since the reset, which is at most the time since the loss. A coordinator that was away for a second is therefore reached again within two. A bound
/// that doubled with each attempt would grow faster than the time for a node whose first pauses happened to be short.
#[derive(Debug, Default)]
pub struct Backoff {
    /// Sum of the pauses since the last reset.
    paused: Duration,
}

impl Backoff {
    /// Returns the next pause, after which the bound is larger.
    pub fn next(&mut self, entropy: &mut impl Entropy) -> Duration {
        let milliseconds = u32::try_from(self.bound().as_millis()).unwrap_or(u32::MAX);
        let pause = Duration::from_millis(u64::from(entropy.below(milliseconds.saturating_add(1))));
        self.paused = self.paused.saturating_add(pause);
        pause
    }

    /// Notes that a control channel of this age was lost after the coordinator had accepted the node.
    pub fn note_channel(&mut self, age: Duration) {
        if age >= STABLE_AGE {
            self.reset();
        }
    }

    /// Resets the bound to its first value.
    pub fn reset(&mut self) {
        self.paused = Duration::ZERO;
    }

    fn bound(&self) -> Duration {
        self.paused.clamp(FIRST, LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_half_a_minute() {
        let mut highest = |bytes: &mut [u8]| bytes.fill(0xff);
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..10).map(|_| backoff.next(&mut highest).as_millis()).collect();
        assert_eq!(waits, [500, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
        backoff.reset();
        assert_eq!(backoff.next(&mut highest), FIRST);
    }

    #[test]
    fn fault_n4_no_node_waits_longer_than_the_coordinator_was_away_and_all_are_spread() {
        let mut jitter = crate::random::Jitter::new();
        for away in [1, 4, 10].map(Duration::from_secs) {
            // Each attempt fails at once until the coordinator is back.
            let mut returns: Vec<Duration> = (0..10_000)
                .map(|_| {
                    let (mut backoff, mut time) = (Backoff::default(), Duration::ZERO);
                    while time < away {
                        time += backoff.next(&mut jitter);
                    }
                    time - away
                })
                .collect();
            returns.sort();
            assert!(returns[9_999] <= away, "{away:?}: {:?}", returns[9_999]);
            // No tenth of the time in which they return gets much more than its share.
            let most = (0..10_u32)
                .map(|part| {
                    let part = away * part / 10..away * (part + 1) / 10;
                    returns.iter().filter(|late| part.contains(late)).count()
                })
                .max();
            assert!(most.is_some_and(|most| most < 3_000), "{away:?}: {most:?} of 10,000 in a tenth of the time");
        }
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

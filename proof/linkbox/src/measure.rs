//! Counts of frames, and histograms of times.

use std::time::Duration;

/// Steps per doubling, 16: a value is known to a sixteenth of itself.
const STEPS: u32 = 16;
/// Doublings of a microsecond that are counted: up to a quarter of an hour.
const DOUBLINGS: u32 = 30;

/// A histogram of times, in constant memory.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    slots: Vec<u64>,
    count: u64,
    sum: Duration,
    most: Duration,
}

impl Times {
    /// Returns an empty histogram.
    pub(crate) fn new() -> Self {
        let slots = vec![0; (STEPS * (DOUBLINGS + 1)) as usize];
        Self { slots, count: 0, sum: Duration::ZERO, most: Duration::ZERO }
    }

    /// Adds a time.
    pub(crate) fn add(&mut self, time: Duration) {
        let slot = slot(u64::try_from(time.as_micros()).unwrap_or(u64::MAX)).min(self.slots.len() - 1);
        self.slots[slot] += 1;
        self.count += 1;
        self.sum += time;
        self.most = self.most.max(time);
    }

    /// Returns the number of times.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the mean; zero if empty.
    pub(crate) fn mean(&self) -> Duration {
        let nanoseconds = self.sum.as_nanos() / u128::from(self.count.max(1));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// Returns the longest time.
    pub(crate) fn most(&self) -> Duration {
        self.most
    }

    /// Returns a quantile, to a sixteenth of itself; zero if empty.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let wanted = (share * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (slot, count) in self.slots.iter().enumerate() {
            seen += count;
            // The last slot has no upper end.
            if seen >= wanted && slot + 1 < self.slots.len() {
                return Duration::from_micros(upper(slot)).min(self.most);
            }
        }
        self.most
    }
}

/// Returns the slot of a number of microseconds: one slot each up to [`STEPS`], then [`STEPS`] per doubling.
fn slot(microseconds: u64) -> usize {
    let steps = u64::from(STEPS);
    if microseconds < steps {
        return microseconds as usize;
    }
    let doublings = microseconds.ilog2() - steps.ilog2();
    (u64::from(doublings) * steps + (microseconds >> doublings)) as usize
}

/// Returns the greatest number of a slot.
fn upper(slot: usize) -> u64 {
    let (slot, steps) = (slot as u64, u64::from(STEPS));
    if slot < 2 * steps {
        return slot;
    }
    let doublings = slot / steps - 1;
    ((slot % steps + steps + 1) << doublings) - 1
}

/// Counts of the frames of one direction, by what happened to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Counts {
    /// Received frames.
    pub(crate) received: u64,
    /// Bytes of received frames, including Ethernet headers.
    pub(crate) received_bytes: u64,
    /// Sent frames, including duplicates.
    pub(crate) sent: u64,
    /// Bytes of sent frames.
    pub(crate) sent_bytes: u64,
    /// Frames lost by draw.
    pub(crate) lost: u64,
    /// Frames duplicated by draw.
    pub(crate) duplicated: u64,
    /// Frames without the additional delay, chosen by the draw of `reorder`.
    pub(crate) hurried: u64,
    /// Frames sent after a frame that arrived later.
    pub(crate) overtaken: u64,
    /// Frames that found no room in the queue of the rate.
    pub(crate) queue_full: u64,
    /// Frames that CoDel dropped from that queue.
    pub(crate) codel: u64,
    /// Frames dropped because too many were under way.
    pub(crate) too_many: u64,
    /// Frames longer than the MTU: an offload of a host is on.
    pub(crate) oversize: u64,
    /// Frames with a partial checksum: an offload of a host is on.
    pub(crate) unfinished: u64,
    /// Frames that the kernel dropped because the program was too slow.
    pub(crate) missed: u64,
    /// Frames that the other end refused.
    pub(crate) refused: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_counted_in_its_slot() {
        for number in (0..200_000).chain([1 << 29, u64::from(u32::MAX)]) {
            let slot = slot(number);
            assert!(number <= upper(slot), "{number} is above slot {slot}");
            assert!(slot == 0 || number > upper(slot - 1), "{number} belongs below slot {slot}");
        }
    }

    #[test]
    fn quantiles_are_known_to_a_sixteenth() {
        let mut times = Times::new();
        assert_eq!((times.quantile(0.5), times.mean()), (Duration::ZERO, Duration::ZERO));
        (1..=10_000).for_each(|microseconds| times.add(Duration::from_micros(microseconds)));
        for (share, wanted) in [(0.5, 5_000.0), (0.99, 9_900.0), (0.001, 10.0)] {
            let got = times.quantile(share).as_secs_f64() * 1e6;
            assert!(got >= wanted && got <= wanted * 17.0 / 16.0, "{share}: {got} instead of {wanted}");
        }
        assert_eq!((times.mean(), times.most()), (Duration::from_nanos(5_000_500), Duration::from_millis(10)));
        times.add(Duration::from_secs(1 << 40));
        assert_eq!(times.quantile(1.0), Duration::from_secs(1 << 40));
    }
}

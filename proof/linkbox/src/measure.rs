//! What really happened: counts, and times as a histogram.

use std::time::Duration;

/// Steps per doubling: a value is known to a sixteenth of itself.
const STEPS: u32 = 16;
/// Doublings of a microsecond: up to a quarter of an hour.
const DOUBLINGS: u32 = 30;

/// How often which time came, in memory that does not grow.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    slots: Vec<u64>,
    count: u64,
    sum: Duration,
    most: Duration,
}

impl Times {
    /// None so far.
    pub(crate) fn new() -> Self {
        let slots = vec![0; (STEPS * (DOUBLINGS + 1)) as usize];
        Self { slots, count: 0, sum: Duration::ZERO, most: Duration::ZERO }
    }

    /// One more.
    pub(crate) fn add(&mut self, time: Duration) {
        let slot = slot(u64::try_from(time.as_micros()).unwrap_or(u64::MAX)).min(self.slots.len() - 1);
        self.slots[slot] += 1;
        self.count += 1;
        self.sum += time;
        self.most = self.most.max(time);
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Their mean; zero of none.
    pub(crate) fn mean(&self) -> Duration {
        let nanoseconds = self.sum.as_nanos() / u128::from(self.count.max(1));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// The longest.
    pub(crate) fn most(&self) -> Duration {
        self.most
    }

    /// The time that this share of all did not exceed, to a sixteenth of itself; zero of none.
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

/// Where a number of microseconds is counted: one slot each up to [`STEPS`], then [`STEPS`] per doubling.
fn slot(microseconds: u64) -> usize {
    let steps = u64::from(STEPS);
    if microseconds < steps {
        return microseconds as usize;
    }
    let doublings = microseconds.ilog2() - steps.ilog2();
    (u64::from(doublings) * steps + (microseconds >> doublings)) as usize
}

/// The greatest number that is counted there.
fn upper(slot: usize) -> u64 {
    let (slot, steps) = (slot as u64, u64::from(STEPS));
    if slot < 2 * steps {
        return slot;
    }
    let doublings = slot / steps - 1;
    ((slot % steps + steps + 1) << doublings) - 1
}

/// What became of the frames of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Counts {
    /// Frames that came in.
    pub(crate) received: u64,
    /// Bytes of them, Ethernet headers included.
    pub(crate) received_bytes: u64,
    /// Frames that went out, duplicates included.
    pub(crate) sent: u64,
    /// Bytes of them.
    pub(crate) sent_bytes: u64,
    /// Lost by draw.
    pub(crate) lost: u64,
    /// Sent twice by draw.
    pub(crate) duplicated: u64,
    /// Not delayed, by the draw of `reorder`.
    pub(crate) hurried: u64,
    /// Sent after a frame that came later.
    pub(crate) overtaken: u64,
    /// No room in the queue of the rate.
    pub(crate) queue_full: u64,
    /// Dropped from that queue by CoDel.
    pub(crate) codel: u64,
    /// More under way than the program may hold.
    pub(crate) too_many: u64,
    /// Longer than a wire packet may be: somebody left an offload on.
    pub(crate) oversize: u64,
    /// Its checksum was left to a network card that is not there: somebody left an offload on.
    pub(crate) unfinished: u64,
    /// Lost before the program saw them, because it was too slow.
    pub(crate) missed: u64,
    /// The other end did not take them.
    pub(crate) refused: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_counted_where_it_belongs() {
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

//! A deterministic random generator for tests.

use std::time::Duration;

use taut_base::Entropy;

/// A seeded generator: xoshiro256** (Blackman and Vigna, 2018), its state filled by SplitMix64 as its authors advise. Good for tests and simulations; never
/// use it for real secrets.
#[derive(Clone, Debug)]
pub struct Seeded {
    state: [u64; 4],
}

impl Seeded {
    /// Returns the generator of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut counter = seed;
        Self { state: std::array::from_fn(|_| split_mix(&mut counter)) }
    }

    /// Returns the next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0. The bias is at most `bound / 2^64`.
    pub fn below_u64(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound.max(1)
    }

    /// Returns an index below `length`, or 0 if `length` is 0.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below_u64(length as u64)).unwrap_or(0)
    }

    /// Returns true with this probability. Always draws one number, so that another probability does not change the numbers that follow.
    pub fn happens(&mut self, probability: Probability) -> bool {
        self.below(Probability::WHOLE) < probability.0
    }

    /// Returns a duration below `bound`, in steps of a microsecond.
    pub fn up_to(&mut self, bound: Duration) -> Duration {
        Duration::from_micros(u64::from(self.below(u32::try_from(bound.as_micros()).unwrap_or(u32::MAX))))
    }
}

impl Entropy for Seeded {
    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let random = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
fn split_mix(counter: &mut u64) -> u64 {
    *counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *counter;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A probability, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Probability(u32);

impl Probability {
    const WHOLE: u32 = 1_000_000;

    /// Probability 0.
    pub const NEVER: Self = Self(0);
    /// Probability 1.
    pub const ALWAYS: Self = Self(Self::WHOLE);

    /// Returns a probability in percent; more than 100 counts as 100.
    #[must_use]
    pub const fn percent(percent: u32) -> Self {
        if percent >= 100 { Self::ALWAYS } else { Self(percent * (Self::WHOLE / 100)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xoshiro_gives_the_numbers_of_its_definition() {
        // By hand from the state 1, 2, 3, 4: 2 * 5 = 10, rotated by 7 is 1280, times 9 is 11520; the second draw starts from b = 0.
        let mut seeded = Seeded { state: [1, 2, 3, 4] };
        assert_eq!([seeded.next_u64(), seeded.next_u64(), seeded.next_u64()], [11_520, 0, 1_509_978_240]);
    }

    #[test]
    fn split_mix_gives_the_numbers_of_its_definition() {
        // The first output for seed 0, as in the test vectors of Java's SplittableRandom.
        assert_eq!(split_mix(&mut 0), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn events_happen_with_their_probability() {
        let mut seeded = Seeded::new(1);
        let hits = (0..100_000).filter(|_| seeded.happens(Probability::percent(5))).count();
        assert!((4_800..5_200).contains(&hits), "{hits}");
        assert!((0..1_000).all(|_| seeded.happens(Probability::percent(200)) && !seeded.happens(Probability::NEVER)));
    }
}

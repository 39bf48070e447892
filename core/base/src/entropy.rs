//! Randomness as an argument.

/// A source of random bytes: the operating system's in the daemon, a seeded generator in the simulator.
pub trait Entropy {
    /// Fills `bytes` with random bytes that are fit for keys.
    fn fill(&mut self, bytes: &mut [u8]);

    /// Returns a random 32-bit number.
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.fill(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0. Its bias of at most `bound / 2^32` does not matter for jitter, its only use.
    fn below(&mut self, bound: u32) -> u32 {
        let scaled = (u64::from(self.next_u32()) * u64::from(bound)) >> 32;
        u32::try_from(scaled).unwrap_or(0)
    }
}

impl<F: FnMut(&mut [u8])> Entropy for F {
    fn fill(&mut self, bytes: &mut [u8]) {
        self(bytes);
    }
}

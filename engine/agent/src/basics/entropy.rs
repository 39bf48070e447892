//! Randomness of the operating system.

use ring::rand::{SecureRandom, SystemRandom};
use taut_base::Entropy;

/// Randomness fit for keys.
pub(crate) struct OsEntropy(SystemRandom);

impl OsEntropy {
    pub(crate) fn new() -> Self {
        Self(SystemRandom::new())
    }
}

impl Entropy for OsEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        // Once Linux has booted this cannot fail. A node without randomness must not make keys.
        self.0.fill(bytes).expect("the operating system gives randomness");
    }
}

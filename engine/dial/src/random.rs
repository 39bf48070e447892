//! The operating system's randomness.

use std::io;

use ring::rand::{SecureRandom, SystemRandom};
use taut_base::{Entropy, PrivateKey};
use zeroize::Zeroizing;

/// Returns a new private key.
///
/// # Errors
/// If the operating system has no randomness. There is no weaker substitute.
pub fn private_key() -> io::Result<PrivateKey> {
    let mut bytes = Zeroizing::new([0; 32]);
    SystemRandom::new().fill(bytes.as_mut_slice()).map_err(|_| io::Error::other("the system gave no random bytes"))?;
    Ok(PrivateKey::from_bytes(*bytes))
}

/// Randomness for jitter. A failure of the system's source makes pauses predictable, which does not affect security.
pub struct Jitter(SystemRandom);

impl Jitter {
    /// Returns a handle to the system's source.
    pub fn new() -> Self {
        Self(SystemRandom::new())
    }
}

impl Default for Jitter {
    fn default() -> Self {
        Self::new()
    }
}

impl Entropy for Jitter {
    fn fill(&mut self, bytes: &mut [u8]) {
        let _ = self.0.fill(bytes);
    }
}

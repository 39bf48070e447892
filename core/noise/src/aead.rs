//! Ciphers that seal: ChaCha20-Poly1305 (RFC 8439) and AES-256-GCM (NIST SP 800-38D).
//!
//! [`Aead`] is what we ask of a library, in three functions and a constructor; [`Ring`] is the one that ships. `AwsLc` is built
//! by the feature `aws-lc`, and beside the tests: both pass the same conformance suite, and `make bench-aead` shows what each
//! costs. Which one [`AeadKey`] is made of is decided when the program is built, so that nothing is asked per packet.

#[cfg(any(test, feature = "aws-lc"))]
mod aws_lc;
mod ring;
#[cfg(test)]
mod tests;

#[cfg(any(test, feature = "aws-lc"))]
pub use aws_lc::AwsLc;
pub use ring::Ring;

/// Bytes that sealing adds, with both ciphers: the tag.
pub const TAG: usize = 16;

/// Bytes of a nonce, with both ciphers.
pub const NONCE: usize = 12;

/// Which AEAD a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// RFC 8439.
    ChaCha20Poly1305,
    /// NIST SP 800-38D, with a key of 256 bits.
    Aes256Gcm,
}

/// A key of one cipher, in a library's hands. A (key, nonce) that has sealed never seals again: that is its owner's duty.
pub trait Aead: Sized {
    /// Takes 32 bytes as a key.
    fn new(cipher: Cipher, key: &[u8; 32]) -> Self;

    /// Encrypts `plain` into the beginning of `sealed` and puts the tag behind it. `sealed` is [`TAG`] bytes longer than `plain`.
    ///
    /// # Panics
    /// When it is not: a mistake of the caller's, whatever came from outside.
    fn seal(&self, nonce: [u8; NONCE], associated: &[u8], plain: &[u8], sealed: &mut [u8]);

    /// Encrypts `data` where it stands and returns the tag that belongs behind it.
    fn seal_in_place(&self, nonce: [u8; NONCE], associated: &[u8], data: &mut [u8]) -> [u8; TAG];

    /// Checks and decrypts `sealed` (ciphertext and tag) where it stands; the plaintext is its beginning. `None` when it was not made
    /// by this key, nonce and associated data; `sealed` is garbage then.
    fn open_in_place<'a>(&self, nonce: [u8; NONCE], associated: &[u8], sealed: &'a mut [u8]) -> Option<&'a mut [u8]>;
}

#[cfg(not(feature = "aws-lc"))]
type DefaultAead = Ring;
#[cfg(feature = "aws-lc")]
type DefaultAead = AwsLc;

/// A key that seals by counters. The nonce is four zero bytes and the counter in little endian, as Noise and WireGuard have it.
pub struct AeadKey(DefaultAead);

impl AeadKey {
    /// Takes 32 bytes as a key of ChaCha20-Poly1305.
    pub fn new(key: &[u8; 32]) -> Self {
        Self(DefaultAead::new(Cipher::ChaCha20Poly1305, key))
    }

    /// Takes 32 bytes as a key of AES-256-GCM, with nonces as above.
    pub fn aes_256_gcm(key: &[u8; 32]) -> Self {
        Self(DefaultAead::new(Cipher::Aes256Gcm, key))
    }

    /// Encrypts `data` in place and returns the tag that belongs behind it. Never call it twice with one counter.
    pub fn seal(&self, counter: u64, associated: &[u8], data: &mut [u8]) -> [u8; TAG] {
        self.0.seal_in_place(nonce(counter), associated, data)
    }

    /// Checks and decrypts `sealed` (ciphertext and tag) in place; the plaintext is its beginning. `None` when it was not made by
    /// this key, counter and associated data; `sealed` is garbage then.
    pub fn open<'a>(&self, counter: u64, associated: &[u8], sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
        self.0.open_in_place(nonce(counter), associated, sealed)
    }
}

fn nonce(counter: u64) -> [u8; NONCE] {
    let mut bytes = [0; NONCE];
    bytes[4..].copy_from_slice(&counter.to_le_bytes());
    bytes
}

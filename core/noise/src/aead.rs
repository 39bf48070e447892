//! Authenticated encryption (AEAD): ChaCha20-Poly1305 (RFC 8439), AES-256-GCM (NIST SP 800-38D) and AEGIS-256X4 (RFC 10032).
//!
//! [`Aead`] is the interface to a library; [`Ring`] is the library that ships, and [`Aegis`] has the one cipher that it lacks. `AwsLc` is built with the
//! feature `aws-lc`, for comparison. Without the feature `aes`, [`Ring`] has ChaCha20-Poly1305 alone, and [`Aegis`] no cipher. All pass the same conformance suite, and `make bench-aead` measures them. The library of [`AeadKey`] is chosen at
//! compile time, which costs nothing per packet.

#[cfg(feature = "aes")]
mod aegis;
#[cfg(not(feature = "aes"))]
#[path = "aead/no_aegis.rs"]
mod aegis;
#[cfg(feature = "aws-lc")]
mod aws_lc;
mod ring;
#[cfg(test)]
mod tests;

pub use aegis::Aegis;
#[cfg(feature = "aws-lc")]
pub use aws_lc::AwsLc;
pub use ring::Ring;

/// Length of the tag that sealing adds, 16 bytes with all ciphers.
pub const TAG: usize = 16;

/// Length of a nonce, 12 bytes with all ciphers. [`Aegis`] fills it up to the 32 bytes of its own nonce.
pub const NONCE: usize = 12;

/// AEAD of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// ChaCha20-Poly1305 (RFC 8439).
    ChaCha20Poly1305,
    /// AES-GCM (NIST SP 800-38D) with a 256-bit key.
    Aes256Gcm,
    /// AEGIS-256X4 (RFC 10032).
    Aegis256X4,
}

/// A key of one cipher, as a library holds it. The owner of a key must use each nonce once.
pub trait Aead: Sized {
    /// The ciphers of the library.
    const CIPHERS: &'static [Cipher];

    /// Returns a key of 32 bytes.
    ///
    /// # Panics
    /// If `cipher` is not in [`Self::CIPHERS`], which is a bug of the caller and independent of its input.
    fn new(cipher: Cipher, key: &[u8; 32]) -> Self;

    /// Encrypts `plain` into `sealed`, the tag at the end. `sealed` is [`TAG`] bytes longer than `plain`.
    ///
    /// # Panics
    /// If `sealed` has another length, which is a bug of the caller and independent of its input.
    fn seal(&self, nonce: [u8; NONCE], associated: &[u8], plain: &[u8], sealed: &mut [u8]) {
        let (data, tag) = sealed.split_at_mut(plain.len());
        data.copy_from_slice(plain);
        tag.copy_from_slice(&self.seal_in_place(nonce, associated, data));
    }

    /// Encrypts `data` in place and returns the tag.
    fn seal_in_place(&self, nonce: [u8; NONCE], associated: &[u8], data: &mut [u8]) -> [u8; TAG];

    /// Checks and decrypts `sealed` (ciphertext and tag) in place and returns the plaintext, its beginning. Returns `None` if it was not made with this key,
    /// nonce and associated data; the content of `sealed` is undefined then.
    fn open_in_place<'a>(&self, nonce: [u8; NONCE], associated: &[u8], sealed: &'a mut [u8]) -> Option<&'a mut [u8]>;
}

#[cfg(not(feature = "aws-lc"))]
type DefaultAead = Ring;
#[cfg(feature = "aws-lc")]
type DefaultAead = AwsLc;

/// A key whose nonces are counters: four zero bytes and the counter, little-endian, as in Noise and WireGuard.
pub struct AeadKey(Key);

#[expect(
    clippy::large_enum_variant,
    reason = "handshakes and cookies make keys of the library per message, without an allocation"
)]
enum Key {
    Library(DefaultAead),
    Aegis(Aegis),
}

impl AeadKey {
    /// Returns a ChaCha20-Poly1305 key.
    pub fn new(key: &[u8; 32]) -> Self {
        Self(Key::Library(DefaultAead::new(Cipher::ChaCha20Poly1305, key)))
    }

    /// Returns an AES-256-GCM key.
    ///
    /// # Panics
    /// In a program without the feature `aes`, whose nodes neither offer nor accept the cipher.
    pub fn aes_256_gcm(key: &[u8; 32]) -> Self {
        Self(Key::Library(DefaultAead::new(Cipher::Aes256Gcm, key)))
    }

    /// Returns an AEGIS-256X4 key. It is slow on a processor for which [`Aegis::is_fast`] returns false.
    ///
    /// # Panics
    /// In a program without the feature `aes`, whose nodes neither offer nor accept the cipher.
    pub fn aegis_256x4(key: &[u8; 32]) -> Self {
        Self(Key::Aegis(Aegis::new(Cipher::Aegis256X4, key)))
    }

    /// Encrypts `data` in place and returns the tag. The caller must use each counter once.
    pub fn seal(&self, counter: u64, associated: &[u8], data: &mut [u8]) -> [u8; TAG] {
        match &self.0 {
            Key::Library(key) => key.seal_in_place(nonce(counter), associated, data),
            Key::Aegis(key) => key.seal_in_place(nonce(counter), associated, data),
        }
    }

    /// Checks and decrypts `sealed` (ciphertext and tag) in place and returns the plaintext, its beginning. Returns `None` if it was not made with this key,
    /// counter and associated data; the content of `sealed` is undefined then.
    pub fn open<'a>(&self, counter: u64, associated: &[u8], sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
        match &self.0 {
            Key::Library(key) => key.open_in_place(nonce(counter), associated, sealed),
            Key::Aegis(key) => key.open_in_place(nonce(counter), associated, sealed),
        }
    }
}

fn nonce(counter: u64) -> [u8; NONCE] {
    let mut bytes = [0; NONCE];
    bytes[4..].copy_from_slice(&counter.to_le_bytes());
    bytes
}

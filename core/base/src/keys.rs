//! Keys of 32 bytes, distinguished by type. Secret keys have no `Debug` and no `Display`, and are wiped when dropped (law 12).

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::base64::{decode_base64_array, encode_base64};

/// A Curve25519 public key. Its text is 44 characters of base64, as in WireGuard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// Returns the bytes as on the wire.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode_base64(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<Self, BadKey> {
        key_from_base64(text).map(|key| Self(*key))
    }
}

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A Curve25519 private key (machine, node, ephemeral or coordinator). Comparison, and reading and writing its text, take constant time.
///
/// ```compile_fail,E0277
/// fn prints<T: std::fmt::Debug>() {}
/// prints::<taut_base::PrivateKey>(); // law 12
/// ```
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct PrivateKey([u8; 32]);

impl PrivateKey {
    /// Returns the key of 32 random bytes, clamped by RFC 7748 section 5.
    pub fn from_bytes(mut bytes: [u8; 32]) -> Self {
        bytes[0] &= 248;
        bytes[31] = (bytes[31] & 127) | 64;
        let key = Self(bytes);
        bytes.zeroize();
        key
    }

    /// Returns the secret bytes, to compute with them or to store them.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the key as base64, for a state file that only its owner can read. The text is wiped when dropped.
    pub fn expose_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(encode_base64(&self.0))
    }

    /// Reads the text of [`Self::expose_base64`].
    ///
    /// # Errors
    /// If the text is not 44 characters of base64 for 32 bytes.
    pub fn from_base64(text: &str) -> Result<Self, BadKey> {
        key_from_base64(text).map(|key| Self::from_bytes(*key))
    }
}

impl PartialEq for PrivateKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for PrivateKey {}

/// A preshared key, mixed into the handshake (WireGuard paper, section 5.2). All zeros means no key. Comparison takes constant time.
///
/// ```compile_fail,E0277
/// fn prints<T: std::fmt::Debug>() {}
/// prints::<taut_base::PresharedKey>(); // law 12
/// ```
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct PresharedKey([u8; 32]);

impl PresharedKey {
    /// No preshared key: the zeros that the paper prescribes instead.
    pub const NONE: Self = Self([0; 32]);

    /// Returns the key of 32 bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the secret bytes, for the handshake.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for PresharedKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for PresharedKey {}

fn key_from_base64(text: &str) -> Result<Zeroizing<[u8; 32]>, BadKey> {
    decode_base64_array(text).map_err(|_| BadKey)
}

/// A text that is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadKey;

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a key: a key is 44 characters of base64 that stand for 32 bytes")
    }
}

impl Error for BadKey {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_keys_read_back_what_they_wrote() {
        let key = PublicKey([7; 32]);
        assert_eq!(key.to_string().len(), 44);
        assert_eq!(key.to_string().parse(), Ok(key));
        assert_eq!("short".parse::<PublicKey>(), Err(BadKey));
    }

    #[test]
    fn private_keys_are_clamped() {
        let key = PrivateKey::from_bytes([0xff; 32]);
        assert_eq!(key.expose()[0], 0xf8);
        assert_eq!(key.expose()[31], 0x7f);
        assert!(PrivateKey::from_base64(&key.expose_base64()).is_ok_and(|again| again == key));
    }
}

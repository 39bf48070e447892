//! Keys: 32 bytes each, told apart by type. What is secret has no `Debug`, no `Display`, and is wiped when dropped (law 12).

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::base64::{decode_base64_array, encode_base64};

/// A Curve25519 public key. Written as WireGuard writes it: 44 characters of base64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// The bytes as they go on the wire.
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

/// A Curve25519 private key (machine, node, ephemeral or coordinator). Comparing takes constant time.
///
/// ```compile_fail,E0277
/// fn prints<T: std::fmt::Debug>() {}
/// prints::<taut_base::PrivateKey>(); // law 12
/// ```
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct PrivateKey([u8; 32]);

impl PrivateKey {
    /// Takes 32 random bytes as a key; clamped as RFC 7748 section 5 asks.
    pub fn from_bytes(mut bytes: [u8; 32]) -> Self {
        bytes[0] &= 248;
        bytes[31] = (bytes[31] & 127) | 64;
        let key = Self(bytes);
        bytes.zeroize();
        key
    }

    /// The secret bytes, for the one who computes or stores with them.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// The key as base64, for a state file that only its owner reads; wiped when dropped.
    pub fn expose_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(encode_base64(&self.0))
    }

    /// Reads what [`Self::expose_base64`] wrote.
    ///
    /// # Errors
    /// When the text is not 44 characters of base64 for 32 bytes.
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

/// A preshared key, mixed into the handshake (WireGuard paper, section 5.2). All zeros means none. Comparing takes constant time.
///
/// ```compile_fail,E0277
/// fn prints<T: std::fmt::Debug>() {}
/// prints::<taut_base::PresharedKey>(); // law 12
/// ```
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct PresharedKey([u8; 32]);

impl PresharedKey {
    /// No preshared key: the zeros that the paper prescribes in its place.
    pub const NONE: Self = Self([0; 32]);

    /// Takes 32 bytes as they are.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The secret bytes, for the handshake.
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

/// A text that is no key.
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

//! The public key that signs releases (Ed25519, RFC 8032), and checksums.

use std::fmt;
use std::str::FromStr;

use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use taut_base::{decode_base64, encode_base64};
use taut_pubkey::Algorithm;

/// Length of a signature in bytes (RFC 8032 section 5.1.6).
pub const SIGNATURE: usize = 64;
/// Length of a public key in bytes.
const KEY: usize = 32;
/// The 12 bytes before the 32 bytes of a decoded Ed25519 public key: DER structure and algorithm identifier (RFC 8410 section 4).
const PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The public key that signs releases.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ReleaseKey([u8; KEY]);

impl ReleaseKey {
    /// Returns true if `signature` is this key's signature over `message`.
    pub fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        Algorithm::Ed25519.verify(&self.0, message, signature)
    }
}

/// Reads the PEM that `openssl pkey -pubout` writes, or its base64 line alone.
impl FromStr for ReleaseKey {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("-----"));
        let bytes = decode_base64(lines.next().ok_or(())?).map_err(|_| ())?;
        if lines.next().is_some() {
            return Err(());
        }
        bytes.strip_prefix(&PREFIX).and_then(|key| key.try_into().ok()).map(Self).ok_or(())
    }
}

/// The base64 line of its PEM.
impl fmt::Display for ReleaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode_base64(&[&PREFIX[..], &self.0].concat()))
    }
}

impl fmt::Debug for ReleaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReleaseKey({self})")
    }
}

/// A SHA-256 that is computed piece by piece.
pub struct Checksum(Context);

impl Checksum {
    /// Begins a checksum.
    pub fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the checksum of all bytes that were added.
    pub fn finish(self) -> [u8; SHA256_OUTPUT_LEN] {
        let mut sum = [0; SHA256_OUTPUT_LEN];
        sum.copy_from_slice(self.0.finish().as_ref());
        sum
    }
}

impl Default for Checksum {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `openssl genpkey -algorithm ed25519 | openssl pkey -pubout` wrote.
    const PEM: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";

    #[test]
    fn a_key_is_read_from_its_file_or_its_line() {
        let key: ReleaseKey = PEM.parse().unwrap();
        assert_eq!(key.to_string().parse(), Ok(key));
        assert!(PEM.contains(&key.to_string()));
        let short = encode_base64(&PREFIX);
        let other = encode_base64(&[7; 44]);
        for text in
            ["", "-----BEGIN PUBLIC KEY-----", "Zm8=", &short, &other, &format!("{PEM}{PEM}"), "MCowBQYDK2VwAyEA"]
        {
            assert!(text.parse::<ReleaseKey>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_signature_is_for_one_message_and_one_key() {
        // RFC 8032 section 7.1, test 2.
        let key = [
            0x3d, 0x40, 0x17, 0xc3, 0xe8, 0x43, 0x89, 0x5a, 0x92, 0xb7, 0x0a, 0xa7, 0x4d, 0x1b, 0x7e, 0xbc, 0x9c, 0x98,
            0x2c, 0xcf, 0x2e, 0xc4, 0x96, 0x8c, 0xc0, 0xcd, 0x55, 0xf1, 0x2a, 0xf4, 0x66, 0x0c,
        ];
        let signature = [
            0x92, 0xa0, 0x09, 0xa9, 0xf0, 0xd4, 0xca, 0xb8, 0x72, 0x0e, 0x82, 0x0b, 0x5f, 0x64, 0x25, 0x40, 0xa2, 0xb2,
            0x7b, 0x54, 0x16, 0x50, 0x3f, 0x8f, 0xb3, 0x76, 0x22, 0x23, 0xeb, 0xdb, 0x69, 0xda, 0x08, 0x5a, 0xc1, 0xe4,
            0x3e, 0x15, 0x99, 0x6e, 0x45, 0x8f, 0x36, 0x13, 0xd0, 0xf1, 0x1d, 0x8c, 0x38, 0x7b, 0x2e, 0xae, 0xb4, 0x30,
            0x2a, 0xee, 0xb0, 0x0d, 0x29, 0x16, 0x12, 0xbb, 0x0c, 0x00,
        ];
        assert!(ReleaseKey(key).has_signed(&[0x72], &signature));
        assert!(!ReleaseKey(key).has_signed(&[0x73], &signature));
        assert!(!ReleaseKey([7; KEY]).has_signed(&[0x72], &signature));
        assert!(!ReleaseKey(key).has_signed(&[0x72], &signature[..63]) && !ReleaseKey(key).has_signed(&[0x72], &[]));
    }

    #[test]
    fn a_checksum_does_not_depend_on_the_pieces() {
        let mut sum = Checksum::new();
        sum.add(b"a");
        sum.add(b"bc");
        // FIPS 180-4, the example of one block.
        assert_eq!(sum.finish()[..4], [0xba, 0x78, 0x16, 0xbf]);
    }
}

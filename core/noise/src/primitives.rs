//! X25519 (RFC 7748), BLAKE2s (RFC 7693), HMAC (RFC 2104).

use std::error::Error;
use std::fmt;

use blake2::digest::consts::U16;
use blake2::digest::{KeyInit, Mac};
use blake2::{Blake2s256, Blake2sMac, Digest};
use taut_base::{PrivateKey, PublicKey};
use x25519_dalek::{StaticSecret, X25519_BASEPOINT_BYTES};
use zeroize::{Zeroize, Zeroizing};

/// Block length of BLAKE2s, 64 bytes. HMAC pads its key to one block (RFC 2104 section 2).
const BLOCK: usize = 64;

/// Returns the public key of a private key: the secret agreed with the base point (RFC 7748, section 6.1).
///
/// The library's own function multiplies on the Edwards form of the curve. That needs 20 kB of code that nothing else uses, and saves 20 µs where the
/// processor has AVX2, a tenth of a handshake; elsewhere nothing.
pub fn public_key(private: &PrivateKey) -> PublicKey {
    let secret = StaticSecret::from(*private.expose());
    PublicKey(secret.diffie_hellman(&x25519_dalek::PublicKey::from(X25519_BASEPOINT_BYTES)).to_bytes())
}

/// Returns the X25519 secret of a private key and another party's public key.
///
/// # Errors
/// [`LowOrderKey`] if the public key is a point of low order, for which anyone can compute the result (fault A8).
pub fn dh(private: &PrivateKey, public: &PublicKey) -> Result<Zeroizing<[u8; 32]>, LowOrderKey> {
    let secret = StaticSecret::from(*private.expose());
    let shared = secret.diffie_hellman(&x25519_dalek::PublicKey::from(public.0));
    if !shared.was_contributory() {
        return Err(LowOrderKey);
    }
    Ok(Zeroizing::new(shared.to_bytes()))
}

/// A public key is a point of low order, so that the secret agreed with it is not secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LowOrderKey;

impl fmt::Display for LowOrderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the other side's public key is a point of low order, which no honest program makes")
    }
}

impl Error for LowOrderKey {}

/// Returns the 32-byte BLAKE2s hash of the parts in order.
pub fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Blake2s256::new();
    for part in parts {
        Digest::update(&mut hasher, part);
    }
    hasher.finalize().into()
}

/// Returns the HMAC-BLAKE2s of the parts in order.
pub fn hmac(key: &[u8; 32], parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    let mut inner_pad = [0x36; BLOCK];
    let mut outer_pad = [0x5c; BLOCK];
    for (place, byte) in key.iter().enumerate() {
        inner_pad[place] ^= byte;
        outer_pad[place] ^= byte;
    }
    let mut hasher = Blake2s256::new();
    Digest::update(&mut hasher, inner_pad);
    for part in parts {
        Digest::update(&mut hasher, part);
    }
    let mut inner: [u8; 32] = hasher.finalize().into();
    let outer = Zeroizing::new(hash(&[&outer_pad, &inner]));
    inner_pad.zeroize();
    outer_pad.zeroize();
    inner.zeroize();
    outer
}

/// Returns the 16-byte keyed BLAKE2s: `Mac` of the WireGuard paper, section 5.4. The key has at most 32 bytes.
pub fn keyed_mac(key: &[u8], message: &[u8]) -> [u8; 16] {
    // No caller has a longer key. Truncating it avoids a panic.
    let key = &key[..key.len().min(32)];
    match Blake2sMac::<U16>::new_from_slice(key) {
        Ok(mut mac) => {
            Mac::update(&mut mac, message);
            mac.finalize().into_bytes().into()
        }
        Err(_) => [0; 16],
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rfc_7693_blake2s_of_abc() {
        let expected = [
            0x50, 0x8c, 0x5e, 0x8c, 0x32, 0x7c, 0x14, 0xe2, 0xe1, 0xa7, 0x2b, 0xa3, 0x4e, 0xeb, 0x45, 0x2f, 0x37, 0x45,
            0x8b, 0x20, 0x9e, 0xd6, 0x3a, 0x29, 0x4d, 0x99, 0x9b, 0x4c, 0x86, 0x67, 0x59, 0x82,
        ];
        assert_eq!(hash(&[b"a", b"bc"]), expected);
    }

    #[test]
    fn rfc_7748_agreement() {
        let alice = PrivateKey::from_bytes([1; 32]);
        let bob = PrivateKey::from_bytes([2; 32]);
        let here = dh(&alice, &public_key(&bob)).unwrap();
        assert_eq!(here, dh(&bob, &public_key(&alice)).unwrap());
    }

    proptest! {
        #[test]
        fn public_keys_are_those_of_the_library(private: [u8; 32]) {
            let expected = x25519_dalek::PublicKey::from(&StaticSecret::from(private)).to_bytes();
            prop_assert_eq!(public_key(&PrivateKey::from_bytes(private)).0, expected);
        }
    }

    #[test]
    fn fault_a8_low_order_points_are_refused() {
        let private = PrivateKey::from_bytes([1; 32]);
        let mut one = [0; 32];
        one[0] = 1;
        let mut minus_one = [0xff; 32];
        minus_one[0] = 0xec;
        minus_one[31] = 0x7f;
        for point in [[0; 32], one, minus_one] {
            assert_eq!(dh(&private, &PublicKey(point)), Err(LowOrderKey));
        }
    }
}

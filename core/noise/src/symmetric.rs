//! The symmetric state of a Noise handshake (Noise specification, revision 34, section 5.2): a chaining key, into which every shared secret is mixed, and
//! a hash of the transcript.

use std::error::Error;
use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::aead::{AeadKey, TAG};
use crate::primitives::{hash, hmac};

/// Chaining key and transcript hash; `C` and `H` in the WireGuard paper.
///
/// ```compile_fail,E0277
/// fn prints<T: std::fmt::Debug>() {}
/// prints::<taut_noise::Symmetric>(); // law 12
/// ```
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Symmetric {
    chaining_key: [u8; 32],
    transcript: [u8; 32],
}

impl Symmetric {
    /// Returns the initial state for a protocol name and a prologue.
    pub fn new(protocol: &str, prologue: &[u8]) -> Self {
        let chaining_key = if protocol.len() <= 32 {
            let mut padded = [0; 32];
            padded[..protocol.len()].copy_from_slice(protocol.as_bytes());
            padded
        } else {
            hash(&[protocol.as_bytes()])
        };
        let mut state = Self { chaining_key, transcript: chaining_key };
        state.mix_hash(prologue);
        state
    }

    /// Adds data to the transcript.
    pub fn mix_hash(&mut self, data: &[u8]) {
        self.transcript = hash(&[&self.transcript, data]);
    }

    /// Mixes in a secret without deriving a key: WireGuard's `C := KDF1(C, secret)`.
    pub fn mix_key(&mut self, secret: &[u8]) {
        let [next, ..] = kdf(&self.chaining_key, secret);
        self.chaining_key = *next;
    }

    /// Mixes in a secret and returns the key of the next encryption: `(C, key) := KDF2(C, secret)`.
    pub fn mix_key_and_derive(&mut self, secret: &[u8]) -> AeadKey {
        let [next, key, _] = kdf(&self.chaining_key, secret);
        self.chaining_key = *next;
        AeadKey::new(&key)
    }

    /// Mixes in a preshared key: `(C, t, key) := KDF3(C, psk)`, and `t` into the transcript.
    pub fn mix_preshared(&mut self, secret: &[u8; 32]) -> AeadKey {
        let [next, middle, key] = kdf(&self.chaining_key, secret);
        self.chaining_key = *next;
        self.mix_hash(&*middle);
        AeadKey::new(&key)
    }

    /// Encrypts `plain` into `out`, which is [`TAG`] bytes longer, and adds the ciphertext to the transcript.
    pub fn encrypt(&mut self, key: &AeadKey, plain: &[u8], out: &mut [u8]) {
        let (body, tag) = out.split_at_mut(plain.len());
        body.copy_from_slice(plain);
        tag.copy_from_slice(&key.seal(0, &self.transcript, body));
        self.transcript = hash(&[&self.transcript, body, tag]);
    }

    /// Decrypts the ciphertext of [`Self::encrypt`].
    ///
    /// # Errors
    /// If the other party of this handshake did not make `sealed`. The state is unchanged then.
    pub fn decrypt(&mut self, key: &AeadKey, sealed: &[u8], out: &mut [u8]) -> Result<(), DecryptError> {
        if sealed.len() != out.len() + TAG {
            return Err(DecryptError);
        }
        let mut work = Zeroizing::new(sealed.to_vec());
        let plain = key.open(0, &self.transcript, &mut work).ok_or(DecryptError)?;
        out.copy_from_slice(plain);
        self.mix_hash(sealed);
        Ok(())
    }

    /// Returns a secret for other keys than the transport's: HKDF-Extract (RFC 5869) with the chaining key as salt. It reveals nothing about the keys of
    /// [`Self::split`], which derive from the empty input, and they reveal nothing about it.
    pub fn export(&self, label: &[u8]) -> Zeroizing<[u8; 32]> {
        hmac(&self.chaining_key, &[label])
    }

    /// Returns the two transport keys, the initiator's sending key first: `KDF2(C, "")`.
    pub fn split(&self) -> (Zeroizing<[u8; 32]>, Zeroizing<[u8; 32]>) {
        let [first, second, _] = kdf(&self.chaining_key, &[]);
        (first, second)
    }
}

/// Returns the first three outputs of HKDF-BLAKE2s (RFC 5869; `KDF` of the WireGuard paper, section 5.4).
fn kdf(key: &[u8; 32], input: &[u8]) -> [Zeroizing<[u8; 32]>; 3] {
    let extracted = hmac(key, &[input]);
    let first = hmac(&extracted, &[&[1]]);
    let second = hmac(&extracted, &[&*first, &[2]]);
    let third = hmac(&extracted, &[&*second, &[3]]);
    [first, second, third]
}

/// A handshake field was not made by the other party of this handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecryptError;

impl fmt::Display for DecryptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a handshake field does not decrypt: another key, another protocol, or altered on the way")
    }
}

impl Error for DecryptError {}

//! Secrets of which the coordinator keeps only a hash.
//!
//! Plain BLAKE2s-256 is the right hash for them. They are 32 random bytes: nobody can guess one, so a slow password hash protects nothing, and no two are
//! equal, so a salt has no effect.

use ring::rand::{SecureRandom, SystemRandom};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use taut_base::{decode_base64url, encode_base64url};
use taut_netmap::OPERATOR_PREFIX;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// 32 random bytes. No `Debug`, wiped when dropped.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Secret([u8; 32]);

impl Secret {
    pub(crate) fn new() -> Self {
        Self(random())
    }

    /// Parses an enrolment secret, base64url.
    pub(crate) fn from_base64url(text: &str) -> Option<Self> {
        let mut bytes = decode_base64url(text).ok()?;
        let secret = bytes.as_slice().try_into().ok().map(Self);
        bytes.zeroize();
        secret
    }

    /// Parses an operator token.
    pub(crate) fn from_operator_token(text: &str) -> Option<Self> {
        Self::from_base64url(text.strip_prefix(OPERATOR_PREFIX)?)
    }

    pub(crate) fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the secret as an operator token.
    pub(crate) fn expose_operator_token(&self) -> String {
        format!("{OPERATOR_PREFIX}{}", encode_base64url(&self.0))
    }

    /// Returns the hash, which is what the database stores.
    pub(crate) fn hash(&self) -> [u8; 32] {
        taut_noise::hash(&[&self.0])
    }

    /// Returns the number of the entry of `hashes` that is this secret's hash. All entries are compared completely, so that the time reveals neither which one
    /// matched nor how similar one is (fault E13).
    pub(crate) fn which<'a>(&self, hashes: impl Iterator<Item = (i64, &'a [u8; 32])>) -> Option<i64> {
        let own = self.hash();
        let mut found = (Choice::from(0), 0);
        for (number, hash) in hashes {
            let is_own = hash.ct_eq(&own);
            found.0 |= is_own;
            found.1.conditional_assign(&number, is_own);
        }
        bool::from(found.0).then_some(found.1)
    }
}

/// Returns random bytes of the kernel.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("a booted kernel has random numbers");
    bytes
}

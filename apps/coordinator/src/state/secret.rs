//! Secrets that the coordinator gives away and keeps by hash only.
//!
//! A plain BLAKE2s-256 is the right hash for them: they are 32 random bytes, so there is nothing to guess that a slow password hash would
//! protect, and no two are alike, so there is nothing for a salt to do.

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

    /// Reads the secret of an enrolment, base64url.
    pub(crate) fn from_base64url(text: &str) -> Option<Self> {
        let mut bytes = decode_base64url(text).ok()?;
        let secret = bytes.as_slice().try_into().ok().map(Self);
        bytes.zeroize();
        secret
    }

    /// Reads what [`Self::expose_operator_token`] wrote.
    pub(crate) fn from_operator_token(text: &str) -> Option<Self> {
        Self::from_base64url(text.strip_prefix(OPERATOR_PREFIX)?)
    }

    pub(crate) fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// The token as the operator keeps it.
    pub(crate) fn expose_operator_token(&self) -> String {
        format!("{OPERATOR_PREFIX}{}", encode_base64url(&self.0))
    }

    /// What is stored of it.
    pub(crate) fn hash(&self) -> [u8; 32] {
        taut_noise::hash(&[&self.0])
    }

    /// Number of the one of `hashes` that is this secret's. All are compared, each whole: the time it takes does not tell which it was,
    /// nor how close one came (fault E13).
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

/// Random bytes of the system.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the kernel has random numbers for whoever asks once it has booted");
    bytes
}

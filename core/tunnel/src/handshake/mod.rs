//! WireGuard's handshake (paper, section 5.4): `Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s`, one message each way, as a chain of types.
//!
//! ```text
//! SentInitiation::start ──── 148 bytes ───▶ ReceivedInitiation::read        one DH, tells who asks
//!      │                                  └─▶ authenticate     the second DH, yields the timestamp
//!      │                                       └─▶ AuthenticatedInitiation::respond
//!   finish ◀──────────── 92 bytes ─────────────────────┘
//!      └─▶ SessionKeys                                 └─▶ SessionKeys
//! ```
//! `finish` borrows its state: a forged response must not end an attempt that the real one would complete (fault A9).

mod initiator;
mod responder;
mod timestamp;

use std::error::Error;
use std::fmt;

use taut_base::{PresharedKey, PrivateKey, PublicKey};
use taut_noise::{LowOrderKey, dh, hash, keyed_mac, public_key};
use zeroize::Zeroizing;

use crate::cookie::{CookieChecker, cookie_key};

pub use initiator::SentInitiation;
pub use responder::{AuthenticatedInitiation, ReceivedInitiation};
pub use timestamp::Timestamp;

/// `Construction` of the paper, section 5.4.
const CONSTRUCTION: &str = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
/// `Identifier` of the paper, section 5.4: the handshake's prologue.
const IDENTIFIER: &[u8] = b"WireGuard v1 zx2c4 Jason@zx2c4.com";
/// `Label-Mac1` of the paper, section 5.4.
const LABEL_MAC1: &[u8] = b"mac1----";

/// This node's WireGuard key and what derives from it.
pub struct Identity {
    private: PrivateKey,
    public: PublicKey,
    mac1_key: [u8; 32],
}

impl Identity {
    /// Derives the rest from the private key.
    pub fn new(private: PrivateKey) -> Self {
        let public = public_key(&private);
        Self { private, public, mac1_key: mac1_key(&public) }
    }

    /// Who this node is to its peers.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// What a lane judges messages to this node by (protocol.md 2.4). `seed` is fresh randomness, for its cookies.
    pub fn checker(&self, seed: [u8; 32]) -> CookieChecker {
        CookieChecker::new(self.mac1_key, &self.public, seed)
    }
}

/// A peer's WireGuard key and what derives from it and ours.
pub struct Remote {
    public: PublicKey,
    static_secret: Zeroizing<[u8; 32]>,
    preshared: PresharedKey,
    mac1_key: [u8; 32],
    cookie_key: [u8; 32],
}

impl Remote {
    /// Computes what every handshake with this peer needs.
    ///
    /// # Errors
    /// When the peer's key is a point of low order.
    pub fn new(identity: &Identity, public: PublicKey, preshared: PresharedKey) -> Result<Self, LowOrderKey> {
        let static_secret = dh(&identity.private, &public)?;
        Ok(Self { public, static_secret, preshared, mac1_key: mac1_key(&public), cookie_key: cookie_key(&public) })
    }

    /// Who the peer is.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// The key that the peer seals cookies with.
    pub(crate) fn cookie_key(&self) -> &[u8; 32] {
        &self.cookie_key
    }

    /// Puts mac1 into a message to this peer that ends with both MACs, of whatever protocol: a relay's clients show it, too.
    pub fn write_mac1(&self, message: &mut [u8]) {
        if let Some(start) = message.len().checked_sub(32) {
            write_mac1(&self.mac1_key, message, start..start + 16);
        }
    }

    /// What is mixed into its handshakes besides the keys.
    pub fn preshared(&self) -> &PresharedKey {
        &self.preshared
    }

    /// Mixes another key into handshakes from now on; sessions are not touched.
    pub fn set_preshared(&mut self, preshared: PresharedKey) {
        self.preshared = preshared;
    }
}

fn mac1_key(public: &PublicKey) -> [u8; 32] {
    hash(&[LABEL_MAC1, public.as_bytes()])
}

fn write_mac1(mac1_key: &[u8; 32], message: &mut [u8], field: std::ops::Range<usize>) {
    let mac = keyed_mac(mac1_key, &message[..field.start]);
    message[field].copy_from_slice(&mac);
}

/// Why a handshake message leads nowhere. The sender learns nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeError {
    /// A key in it is a point of low order (fault A8).
    LowOrder,
    /// A sealed field does not decrypt: not made for us, not by this peer, or altered.
    NotAuthentic,
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LowOrder => "a handshake message with a key of low order, which no honest program sends",
            Self::NotAuthentic => "a handshake message that was not made for this node by this peer",
        })
    }
}

impl Error for HandshakeError {}

impl From<LowOrderKey> for HandshakeError {
    fn from(_: LowOrderKey) -> Self {
        Self::LowOrder
    }
}

impl From<taut_noise::DecryptError> for HandshakeError {
    fn from(_: taut_noise::DecryptError) -> Self {
        Self::NotAuthentic
    }
}

#[cfg(test)]
mod tests;

//! WireGuard's handshake (paper, section 5.4): `Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s`, one message each way, as a chain of types.
//!
//! ```text
//! SentInitiation::start ──── 148 bytes ───▶ ReceivedInitiation::read        one DH, yields the claimed key
//!      │                                  └─▶ authenticate     the second DH, yields the timestamp
//!      │                                       └─▶ AuthenticatedInitiation::respond
//!   finish ◀──────────── 92 bytes ─────────────────────┘
//!      └─▶ SessionKeys                                 └─▶ SessionKeys
//! ```
//! `finish` borrows its state, because a forged response must not end an attempt that the real response would complete (fault A9).

mod initiator;
mod responder;
mod timestamp;

use std::error::Error;
use std::fmt;

use taut_noise::LowOrderKey;

pub use crate::identity::{Identity, Remote};
pub use initiator::SentInitiation;
pub use responder::{AuthenticatedInitiation, ReceivedInitiation};
pub use timestamp::Timestamp;

/// `Construction` of the paper, section 5.4.
const CONSTRUCTION: &str = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
/// `Identifier` of the paper, section 5.4: the handshake's prologue.
const IDENTIFIER: &[u8] = b"WireGuard v1 zx2c4 Jason@zx2c4.com";
/// Why a handshake message was rejected. The sender gets no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeError {
    /// A key in the message is a point of low order (fault A8).
    LowOrder,
    /// A sealed field does not decrypt: the message was made for another node, made by another peer, or altered.
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

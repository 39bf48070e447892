//! `Noise_IK_25519_ChaChaPoly_BLAKE2s` (Noise specification, section 7.5): one message each way. The initiator knows the
//! responder's key beforehand; the responder learns the initiator's key from the first message.
//!
//! ```text
//! Initiator::start ── first message ──▶ Responder::read ─▶ PendingReply
//!                                                            │ reply
//! Initiator::finish ◀──────────── second message ────────────┘
//!        └─▶ Transport                              Transport ◀─┘
//! ```
//! Neither message carries a payload: all data follows the handshake (protocol.md 8).

use taut_base::{PrivateKey, PublicKey};

use crate::aead::{AeadKey, TAG};
use crate::primitives::{dh, public_key};
use crate::symmetric::{DecryptError, Symmetric};
use crate::transport::Transport;

const PROTOCOL: &str = "Noise_IK_25519_ChaChaPoly_BLAKE2s";

/// Length of the first message, 96 bytes: ephemeral key, sealed static key, sealed empty payload.
pub const FIRST_MESSAGE: usize = 32 + 32 + TAG + TAG;
/// Length of the second message, 48 bytes: ephemeral key, sealed empty payload.
pub const SECOND_MESSAGE: usize = 32 + TAG;

/// The node's state after the first message.
pub struct Initiator {
    state: Symmetric,
    private: PrivateKey,
    ephemeral: PrivateKey,
}

impl Initiator {
    /// Makes the first message to the owner of `responder`. `ephemeral` is fresh randomness, used for nothing else.
    ///
    /// # Errors
    /// If the responder's key is a point of low order.
    pub fn start(
        prologue: &[u8],
        private: &PrivateKey,
        responder: &PublicKey,
        ephemeral: PrivateKey,
    ) -> Result<(Self, [u8; FIRST_MESSAGE]), DecryptError> {
        let mut state = Symmetric::new(PROTOCOL, prologue);
        state.mix_hash(responder.as_bytes());
        let mut message = [0; FIRST_MESSAGE];
        let (sent_ephemeral, rest) = message.split_at_mut(32);
        let (sealed_static, sealed_payload) = rest.split_at_mut(32 + TAG);

        sent_ephemeral.copy_from_slice(public_key(&ephemeral).as_bytes());
        state.mix_hash(sent_ephemeral);
        let key = agree(&mut state, &ephemeral, responder)?;
        state.encrypt(&key, public_key(private).as_bytes(), sealed_static);
        let key = agree(&mut state, private, responder)?;
        state.encrypt(&key, &[], sealed_payload);
        Ok((Self { state, private: private.clone(), ephemeral }, message))
    }

    /// Reads the second message and returns the open channel. The responder has proven its key.
    ///
    /// # Errors
    /// If the responder did not make the message for this handshake.
    pub fn finish(mut self, message: &[u8]) -> Result<Transport, DecryptError> {
        let message: &[u8; SECOND_MESSAGE] = message.try_into().map_err(|_| DecryptError)?;
        let (received, sealed_payload) = message.split_at(32);
        let theirs = key_from(received)?;
        self.state.mix_hash(received);
        self.state.mix_key(&*dh(&self.ephemeral, &theirs).map_err(|_| DecryptError)?);
        let key = agree(&mut self.state, &self.private, &theirs)?;
        self.state.decrypt(&key, sealed_payload, &mut [])?;
        let (sending, receiving) = self.state.split();
        Ok(Transport::new(&sending, &receiving))
    }
}

/// The coordinator's side before the first message.
pub struct Responder;

impl Responder {
    /// Reads the first message.
    ///
    /// # Errors
    /// If the message is not a first message to the owner of `private` with this prologue.
    pub fn read(prologue: &[u8], private: &PrivateKey, message: &[u8]) -> Result<PendingReply, DecryptError> {
        let message: &[u8; FIRST_MESSAGE] = message.try_into().map_err(|_| DecryptError)?;
        let (received, rest) = message.split_at(32);
        let (sealed_static, sealed_payload) = rest.split_at(32 + TAG);
        let mut state = Symmetric::new(PROTOCOL, prologue);
        state.mix_hash(public_key(private).as_bytes());

        let ephemeral = key_from(received)?;
        state.mix_hash(received);
        let key = agree(&mut state, private, &ephemeral)?;
        let mut initiator = [0; 32];
        state.decrypt(&key, sealed_static, &mut initiator)?;
        let initiator = PublicKey(initiator);
        let key = agree(&mut state, private, &initiator)?;
        state.decrypt(&key, sealed_payload, &mut [])?;
        Ok(PendingReply { state, initiator, ephemeral })
    }
}

/// The coordinator's state after the first message. It knows the initiator's key, and refuses the initiator by dropping this state without a reply.
pub struct PendingReply {
    state: Symmetric,
    initiator: PublicKey,
    ephemeral: PublicKey,
}

impl PendingReply {
    /// Returns the initiator's static key.
    pub fn initiator(&self) -> PublicKey {
        self.initiator
    }

    /// Makes the second message and the open channel. `ephemeral` is fresh randomness, used for nothing else.
    ///
    /// # Errors
    /// If a key of the initiator is a point of low order.
    pub fn reply(mut self, ephemeral: &PrivateKey) -> Result<(Transport, [u8; SECOND_MESSAGE]), DecryptError> {
        let mut message = [0; SECOND_MESSAGE];
        let (sent_ephemeral, sealed_payload) = message.split_at_mut(32);
        sent_ephemeral.copy_from_slice(public_key(ephemeral).as_bytes());
        self.state.mix_hash(sent_ephemeral);
        self.state.mix_key(&*dh(ephemeral, &self.ephemeral).map_err(|_| DecryptError)?);
        let key = agree(&mut self.state, ephemeral, &self.initiator)?;
        self.state.encrypt(&key, &[], sealed_payload);
        let (receiving, sending) = self.state.split();
        Ok((Transport::new(&sending, &receiving), message))
    }
}

fn agree(state: &mut Symmetric, private: &PrivateKey, public: &PublicKey) -> Result<AeadKey, DecryptError> {
    let secret = dh(private, public).map_err(|_| DecryptError)?;
    Ok(state.mix_key_and_derive(&*secret))
}

fn key_from(bytes: &[u8]) -> Result<PublicKey, DecryptError> {
    bytes.try_into().map(PublicKey).map_err(|_| DecryptError)
}

//! The responder's side of the handshake (paper, sections 5.4.2 and 5.4.3).

use taut_base::{PrivateKey, PublicKey, ReceiverIndex};
use taut_noise::{Symmetric, dh, public_key};
use taut_wire::wireguard::{self, response};

use super::{CONSTRUCTION, HandshakeError, IDENTIFIER, Timestamp};
use crate::exporter::Exporter;
use crate::identity::{Identity, Remote, write_mac1};
use crate::role::Role;
use crate::session::SessionKeys;

/// A received initiation whose sender's key is known but not proven. Reading it cost one DH (fault A6).
pub struct ReceivedInitiation {
    state: Symmetric,
    initiator: PublicKey,
    ephemeral: PublicKey,
    sender: ReceiverIndex,
    sealed_timestamp: [u8; 28],
}

impl ReceivedInitiation {
    /// Reads an initiation to this node.
    ///
    /// # Errors
    /// If the message was not made for this node's key.
    pub fn read(identity: &Identity, message: &wireguard::Initiation<'_>) -> Result<Self, HandshakeError> {
        let mut state = Symmetric::new(CONSTRUCTION, IDENTIFIER);
        state.mix_hash(identity.public.as_bytes());
        let ephemeral = PublicKey(*message.ephemeral);
        state.mix_key(ephemeral.as_bytes());
        state.mix_hash(ephemeral.as_bytes());
        let key = state.mix_key_and_derive(&*dh(&identity.private, &ephemeral)?);
        let mut initiator = [0; 32];
        state.decrypt(&key, message.sealed_static, &mut initiator)?;
        Ok(Self {
            state,
            initiator: PublicKey(initiator),
            ephemeral,
            sender: ReceiverIndex(message.sender),
            sealed_timestamp: *message.sealed_timestamp,
        })
    }

    /// Returns the key that the sender claims. The caller drops the message if no peer has it, before it costs more (fault A7).
    pub fn initiator(&self) -> PublicKey {
        self.initiator
    }

    /// Verifies that `remote` made the initiation. It may still be a replay.
    ///
    /// # Errors
    /// If `remote` did not make it.
    pub fn authenticate(mut self, remote: &Remote) -> Result<AuthenticatedInitiation, HandshakeError> {
        let key = self.state.mix_key_and_derive(&*remote.static_secret);
        let mut timestamp = Timestamp::default();
        self.state.decrypt(&key, &self.sealed_timestamp, &mut timestamp.0)?;
        Ok(AuthenticatedInitiation { state: self.state, ephemeral: self.ephemeral, sender: self.sender, timestamp })
    }
}

/// An initiation that the peer made. It may be a replay: the caller compares [`Self::timestamp`] with the peer's last one.
pub struct AuthenticatedInitiation {
    state: Symmetric,
    ephemeral: PublicKey,
    sender: ReceiverIndex,
    timestamp: Timestamp,
}

impl AuthenticatedInitiation {
    /// Returns the time at which the peer made the initiation, by the peer's clock.
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// Makes the response and the session's keys. The peer will address the session by the index `local`; `ephemeral` is fresh randomness.
    ///
    /// # Errors
    /// If the initiator's ephemeral key is of low order.
    pub fn respond(
        mut self,
        remote: &Remote,
        local: ReceiverIndex,
        ephemeral: &PrivateKey,
    ) -> Result<(SessionKeys, [u8; response::LEN]), HandshakeError> {
        let ephemeral_public = public_key(ephemeral);
        self.state.mix_key(ephemeral_public.as_bytes());
        self.state.mix_hash(ephemeral_public.as_bytes());
        self.state.mix_key(&*dh(ephemeral, &self.ephemeral)?);
        self.state.mix_key(&*dh(ephemeral, &remote.public)?);
        let key = self.state.mix_preshared(remote.preshared.expose());
        let mut sealed_empty = [0; 16];
        self.state.encrypt(&key, &[], &mut sealed_empty);

        let mut message = [0; response::LEN];
        wireguard::write_response(&mut message, local.0, self.sender.0, ephemeral_public.as_bytes(), &sealed_empty);
        write_mac1(&remote.mac1_key, &mut message, response::MAC1);
        let (receiving, sending) = self.state.split();
        let extension = Exporter::of(&self.state, Role::Responder, local, self.sender);
        let keys = SessionKeys::stock(Role::Responder, local, self.sender, sending, receiving);
        Ok((SessionKeys { extension: Some(extension), ..keys }, message))
    }
}

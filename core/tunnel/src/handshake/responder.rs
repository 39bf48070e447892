//! The side that answers: paper, sections 5.4.2 and 5.4.3.

use taut_base::{PrivateKey, PublicKey, ReceiverIndex};
use taut_noise::{Symmetric, dh, public_key};
use taut_wire::wireguard::{self, response};

use super::{CONSTRUCTION, HandshakeError, IDENTIFIER, Identity, Remote, Timestamp, write_mac1};
use crate::exporter::Exporter;
use crate::session::{Role, SessionKeys};

/// An initiation whose sender's name is known, not yet proven. It has cost one DH (fault A6).
pub struct ReceivedInitiation {
    state: Symmetric,
    initiator: PublicKey,
    ephemeral: PublicKey,
    sender: ReceiverIndex,
    sealed_timestamp: [u8; 28],
}

impl ReceivedInitiation {
    /// Reads an initiation to us.
    ///
    /// # Errors
    /// When it was not made for our key.
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

    /// Who claims to ask. Drop the message if it is no peer, before more is spent on it (fault A7).
    pub fn initiator(&self) -> PublicKey {
        self.initiator
    }

    /// Proves that `remote` made the initiation at some time.
    ///
    /// # Errors
    /// When it did not.
    pub fn authenticate(mut self, remote: &Remote) -> Result<AuthenticatedInitiation, HandshakeError> {
        let key = self.state.mix_key_and_derive(&*remote.static_secret);
        let mut timestamp = Timestamp::default();
        self.state.decrypt(&key, &self.sealed_timestamp, &mut timestamp.0)?;
        Ok(AuthenticatedInitiation { state: self.state, ephemeral: self.ephemeral, sender: self.sender, timestamp })
    }
}

/// An initiation that the peer made. It may be a replay: compare [`Self::timestamp`] with the peer's last one.
pub struct AuthenticatedInitiation {
    state: Symmetric,
    ephemeral: PublicKey,
    sender: ReceiverIndex,
    timestamp: Timestamp,
}

impl AuthenticatedInitiation {
    /// When the peer says it made this.
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// Makes the response, and with it the session. `local` is the index by which the peer shall name the session; `ephemeral` is fresh
    /// randomness.
    ///
    /// # Errors
    /// When the initiator's ephemeral key is of low order.
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

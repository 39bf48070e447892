//! The initiator's side of the handshake (paper, sections 5.4.2 and 5.4.3).

use taut_base::{PrivateKey, PublicKey, ReceiverIndex};
use taut_noise::{Symmetric, dh, public_key};
use taut_wire::wireguard::{self, Response, initiation};

use super::{CONSTRUCTION, HandshakeError, IDENTIFIER, Timestamp};
use crate::exporter::Exporter;
use crate::identity::{Identity, Remote, write_mac1};
use crate::role::Role;
use crate::session::SessionKeys;

/// A sent initiation that waits for its response.
pub struct SentInitiation {
    state: Symmetric,
    ephemeral: PrivateKey,
    local: ReceiverIndex,
}

impl SentInitiation {
    /// Makes an initiation to `remote`. The response will carry the index `local`; `ephemeral` is fresh randomness.
    ///
    /// # Errors
    /// If a key is of low order.
    pub fn start(
        identity: &Identity,
        remote: &Remote,
        local: ReceiverIndex,
        timestamp: Timestamp,
        ephemeral: PrivateKey,
    ) -> Result<(Self, [u8; initiation::LEN]), HandshakeError> {
        let mut state = Symmetric::new(CONSTRUCTION, IDENTIFIER);
        state.mix_hash(remote.public.as_bytes());
        let ephemeral_public = public_key(&ephemeral);
        state.mix_key(ephemeral_public.as_bytes());
        state.mix_hash(ephemeral_public.as_bytes());

        let key = state.mix_key_and_derive(&*dh(&ephemeral, &remote.public)?);
        let mut sealed_static = [0; 48];
        state.encrypt(&key, identity.public.as_bytes(), &mut sealed_static);
        let key = state.mix_key_and_derive(&*remote.static_secret);
        let mut sealed_timestamp = [0; 28];
        state.encrypt(&key, &timestamp.0, &mut sealed_timestamp);

        let mut message = [0; initiation::LEN];
        wireguard::write_initiation(
            &mut message,
            local.0,
            ephemeral_public.as_bytes(),
            &sealed_static,
            &sealed_timestamp,
        );
        write_mac1(&remote.mac1_key, &mut message, initiation::MAC1);
        Ok((Self { state, ephemeral, local }, message))
    }

    /// Returns the index that the response carries.
    pub fn local(&self) -> ReceiverIndex {
        self.local
    }

    /// Reads the response and returns the session's keys.
    ///
    /// # Errors
    /// If `remote` did not make the response for this initiation. The initiation still accepts the real response (fault A9).
    pub fn finish(
        &self,
        identity: &Identity,
        remote: &Remote,
        response: &Response<'_>,
    ) -> Result<SessionKeys, HandshakeError> {
        let mut state = self.state.clone();
        let theirs = PublicKey(*response.ephemeral);
        state.mix_key(theirs.as_bytes());
        state.mix_hash(theirs.as_bytes());
        state.mix_key(&*dh(&self.ephemeral, &theirs)?);
        state.mix_key(&*dh(&identity.private, &theirs)?);
        let key = state.mix_preshared(remote.preshared.expose());
        state.decrypt(&key, response.sealed_empty, &mut [])?;
        let (sending, receiving) = state.split();
        let remote = ReceiverIndex(response.sender);
        let extension = Exporter::of(&state, Role::Initiator, self.local, remote);
        let keys = SessionKeys::stock(Role::Initiator, self.local, remote, sending, receiving);
        Ok(SessionKeys { extension: Some(extension), ..keys })
    }
}

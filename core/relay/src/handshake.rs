//! The handshake of a bind: `Noise_IK_25519_ChaChaPoly_BLAKE2s` (Noise specification, section 7.5), with the ticket in the first message and a welcome in the
//! second.
//!
//! ```text
//! Initiator::start ──── bind ───▶ Asking::read     two Diffie-Hellman operations, then the ticket is known
//! Initiator::finish ◀── bound ─── Asking::reply    two more
//! ```
//! A `bind` carries a stamp of the client, which only rises. It tells the relay which of two binds is later, so that a recorded bind cannot replace the present
//! one. Release 0.1.0 sends zeros, and does not read the stamp.
//!
//! The client knows the relay's key from the map; the relay receives the client's bind key encrypted. A recorded `bind` can be replayed, but the answer is useless
//! without the private keys: a binding begins only with the first control frame under its keys.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use taut_base::{PrivateKey, PublicKey};
use taut_noise::{AeadKey, DecryptError, Symmetric, dh, public_key};
use zeroize::Zeroizing;

use crate::frame::{BIND, BIND_LEN, BIND_PAYLOAD, BOUND, BOUND_LEN, WELCOME_LEN, header, le32};
use crate::ticket::{TICKET_LEN, Ticket};

const PROTOCOL: &str = "Noise_IK_25519_ChaChaPoly_BLAKE2s";
const PROLOGUE: &[u8] = b"taut relay v1";

/// Bytes of a sealed key.
const SEALED_KEY: usize = 48;
/// Offset of mac1 in `bind`; mac2 follows it.
const MACS: usize = BIND_LEN - 32;

/// The two keys of a binding.
pub(crate) struct Keys {
    pub(crate) sending: Zeroizing<[u8; 32]>,
    pub(crate) receiving: Zeroizing<[u8; 32]>,
}

/// The relay's message in `bound`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    /// The client's address, as the relay sees it.
    pub(crate) seen: SocketAddr,
    /// Time after the client's last frame until the binding ends; whole seconds, at most 65,535.
    pub(crate) patience: Duration,
    /// The latest version of tickets that the relay accepts; 0 from release 0.1.0, which accepts version 1.
    pub(crate) tickets: u8,
    /// Number of lanes that a client may have at the relay, the first included; 0 from release 0.1.0, where it may have one.
    pub(crate) lanes: u8,
}

impl Welcome {
    /// `address (16)  port (2)  seconds (2)  ticket version (1)  lanes (1)`.
    fn write(&self) -> [u8; WELCOME_LEN] {
        let mut bytes = [0; WELCOME_LEN];
        write_address(&mut bytes, self.seen);
        let seconds = u16::try_from(self.patience.as_secs()).unwrap_or(u16::MAX);
        bytes[18..20].copy_from_slice(&seconds.to_le_bytes());
        (bytes[20], bytes[21]) = (self.tickets, self.lanes);
        bytes
    }

    fn read(bytes: &[u8; WELCOME_LEN]) -> Self {
        let seconds = u16::from_le_bytes([bytes[18], bytes[19]]);
        let patience = Duration::from_secs(u64::from(seconds));
        Self { seen: read_address(bytes), patience, tickets: bytes[20], lanes: bytes[21] }
    }
}

/// Writes `address (16)  port (2)`; IPv4 as `::ffff:a.b.c.d`.
pub(crate) fn write_address(bytes: &mut [u8], address: SocketAddr) {
    let ip = match address.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    for (address, byte) in bytes.iter_mut().zip(ip.octets().into_iter().chain(address.port().to_le_bytes())) {
        *address = byte;
    }
}

/// Reads what [`write_address`] wrote.
pub(crate) fn read_address(bytes: &[u8]) -> SocketAddr {
    let octets: [u8; 16] = bytes.first_chunk().copied().unwrap_or_default();
    let port = bytes.get(16..).and_then(|rest| rest.first_chunk()).map_or(0, |port| u16::from_le_bytes(*port));
    SocketAddr::new(IpAddr::from(octets).to_canonical(), port)
}

/// The client, after it made its first message.
pub(crate) struct Initiator {
    state: Symmetric,
    private: PrivateKey,
    ephemeral: PrivateKey,
}

impl Initiator {
    /// Returns a `bind` for the relay with this key, with zeros as MACs. `stamp` is later than those of all earlier binds, or 0 if the client has no stamps. `ephemeral` is fresh randomness, used for nothing else.
    pub(crate) fn start(
        relay: &PublicKey,
        private: &PrivateKey,
        ticket: &Ticket,
        stamp: u64,
        index: u32,
        ephemeral: PrivateKey,
    ) -> Result<(Self, [u8; BIND_LEN]), DecryptError> {
        let mut message = [0; BIND_LEN];
        let (head, rest) = message.split_at_mut(8);
        let (sent_ephemeral, rest) = rest.split_at_mut(32);
        let (sealed_key, rest) = rest.split_at_mut(SEALED_KEY);
        let (sealed_ticket, _) = rest.split_at_mut(BIND_PAYLOAD + 16);
        head.copy_from_slice(&header(BIND, index));
        sent_ephemeral.copy_from_slice(public_key(&ephemeral).as_bytes());

        let mut state = begin(relay, head, sent_ephemeral);
        let key = agree(&mut state, &ephemeral, relay)?;
        state.encrypt(&key, public_key(private).as_bytes(), sealed_key);
        let key = agree(&mut state, private, relay)?;
        let mut payload = [0; BIND_PAYLOAD];
        payload[..TICKET_LEN].copy_from_slice(ticket.as_bytes());
        payload[TICKET_LEN..TICKET_LEN + 8].copy_from_slice(&stamp.to_le_bytes());
        state.encrypt(&key, &payload, sealed_ticket);
        Ok((Self { state, private: private.clone(), ephemeral }, message))
    }

    /// Reads the relay's answer. It borrows the handshake, so that a forged answer does not end it.
    pub(crate) fn finish(&self, bound: &[u8; BOUND_LEN]) -> Result<(Keys, Welcome), DecryptError> {
        let (head, rest) = bound.split_at(12);
        let (received, sealed) = rest.split_at(32);
        let theirs = key_from(received)?;
        let mut state = self.state.clone();
        state.mix_hash(head);
        state.mix_hash(received);
        agree(&mut state, &self.ephemeral, &theirs)?;
        let key = agree(&mut state, &self.private, &theirs)?;
        let mut welcome = [0; WELCOME_LEN];
        state.decrypt(&key, sealed, &mut welcome)?;
        let (sending, receiving) = state.split();
        Ok((Keys { sending, receiving }, Welcome::read(&welcome)))
    }
}

/// A `bind` that the relay has decrypted and not yet answered.
pub(crate) struct ReadBind {
    state: Symmetric,
    theirs: PublicKey,
    ephemeral: PublicKey,
    /// The client's index.
    pub(crate) index: u32,
    /// The ticket in the bind. It is not verified; its sender owns the bind key.
    pub(crate) ticket: Ticket,
    /// The client's stamp; 0 from a client without stamps.
    pub(crate) stamp: u64,
}

impl ReadBind {
    /// Decrypts a `bind` for the owner of `private`, after its MACs were checked.
    pub(crate) fn read(private: &PrivateKey, public: &PublicKey, bind: &[u8; BIND_LEN]) -> Result<Self, DecryptError> {
        let (head, rest) = bind[..MACS].split_at(8);
        let (received, rest) = rest.split_at(32);
        let (sealed_key, sealed_ticket) = rest.split_at(SEALED_KEY);
        let ephemeral = key_from(received)?;
        let mut state = begin(public, head, received);
        let key = agree(&mut state, private, &ephemeral)?;
        let mut theirs = [0; 32];
        state.decrypt(&key, sealed_key, &mut theirs)?;
        let theirs = PublicKey(theirs);
        let key = agree(&mut state, private, &theirs)?;
        let mut payload = [0; BIND_PAYLOAD];
        state.decrypt(&key, sealed_ticket, &mut payload)?;
        let ticket = Ticket::from_bytes(&payload[..TICKET_LEN]).map_err(|_| DecryptError)?;
        let stamp = payload[TICKET_LEN..].first_chunk().map_or(0, |stamp| u64::from_le_bytes(*stamp));
        Ok(Self { state, theirs, ephemeral, index: le32(head, 4), ticket, stamp })
    }

    /// Returns the bind key, which the client has proven to own.
    pub(crate) fn bind_key(&self) -> PublicKey {
        self.theirs
    }

    /// Returns the keys of the binding and the answer. `ephemeral` is fresh randomness, used for nothing else.
    pub(crate) fn reply(
        mut self,
        index: u32,
        welcome: &Welcome,
        ephemeral: &PrivateKey,
    ) -> Result<(Keys, [u8; BOUND_LEN]), DecryptError> {
        let mut bound = [0; BOUND_LEN];
        let (head, rest) = bound.split_at_mut(12);
        let (sent_ephemeral, sealed) = rest.split_at_mut(32);
        head[..8].copy_from_slice(&header(BOUND, self.index));
        head[8..].copy_from_slice(&index.to_le_bytes());
        sent_ephemeral.copy_from_slice(public_key(ephemeral).as_bytes());
        self.state.mix_hash(head);
        self.state.mix_hash(sent_ephemeral);
        agree(&mut self.state, ephemeral, &self.ephemeral)?;
        let key = agree(&mut self.state, ephemeral, &self.theirs)?;
        self.state.encrypt(&key, &welcome.write(), sealed);
        let (receiving, sending) = self.state.split();
        Ok((Keys { sending, receiving }, bound))
    }
}

fn begin(relay: &PublicKey, head: &[u8], ephemeral: &[u8]) -> Symmetric {
    let mut state = Symmetric::new(PROTOCOL, PROLOGUE);
    state.mix_hash(relay.as_bytes());
    state.mix_hash(head);
    state.mix_hash(ephemeral);
    state
}

fn agree(state: &mut Symmetric, private: &PrivateKey, public: &PublicKey) -> Result<AeadKey, DecryptError> {
    let secret = dh(private, public).map_err(|_| DecryptError)?;
    Ok(state.mix_key_and_derive(&*secret))
}

fn key_from(bytes: &[u8]) -> Result<PublicKey, DecryptError> {
    bytes.try_into().map(PublicKey).map_err(|_| DecryptError)
}

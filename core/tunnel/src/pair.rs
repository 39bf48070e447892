//! A key pair in use: one key for each direction, with its counter and replay window.

use std::fmt;

use taut_base::ReceiverIndex;
use taut_noise::{AeadKey, TAG};
use taut_wire::control::Suite;
use taut_wire::wireguard::{self, DATA_HEADER};
use zeroize::Zeroizing;

use crate::limits::{REJECT_AFTER_BLOCKS, REJECT_AFTER_MESSAGES, REKEY_AFTER_BLOCKS, REKEY_AFTER_MESSAGES};
use crate::long_messages::{ReceivedLong, SentLong};
use crate::window::ReplayWindow;

/// The keys and indices of a [`Pair`].
pub struct PairKeys {
    /// AEAD of the keys.
    pub suite: Suite,
    /// Receiver index in the peer's packets to this node.
    pub local: ReceiverIndex,
    /// Receiver index in this node's packets to the peer.
    pub remote: ReceiverIndex,
    /// Key of sent packets.
    pub sending: Zeroizing<[u8; 32]>,
    /// Key of received packets.
    pub receiving: Zeroizing<[u8; 32]>,
}

/// A key pair in use. It owns its counter and replay window, and can be neither cloned nor made twice from the same keys.
pub struct Pair {
    suite: Suite,
    local: ReceiverIndex,
    remote: ReceiverIndex,
    sending: AeadKey,
    receiving: AeadKey,
    sent: u64,
    /// Cipher blocks used; they limit an AES-256-GCM key.
    blocks: u64,
    window: ReplayWindow,
    sent_long: SentLong,
    received_long: ReceivedLong,
}

impl Pair {
    /// Returns a pair that has sealed nothing. It consumes the keys, so that they are used once.
    pub(crate) fn new(keys: PairKeys) -> Self {
        let PairKeys { suite, local, remote, sending, receiving } = keys;
        let key = match suite {
            Suite::ChaCha20Poly1305 => AeadKey::new,
            Suite::Aes256Gcm => AeadKey::aes_256_gcm,
            Suite::Aegis256X4 => AeadKey::aegis_256x4,
        };
        Self {
            suite,
            local,
            remote,
            sending: key(&sending),
            receiving: key(&receiving),
            sent: 0,
            blocks: 0,
            window: ReplayWindow::new(),
            sent_long: SentLong::default(),
            received_long: ReceivedLong::default(),
        }
    }

    /// Returns the pair's AEAD.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Returns true if packets under this pair may have [partial checksums](taut_wire::partial_checksum): not under WireGuard's own suite (law 1).
    pub fn allows_partial_checksums(&self) -> bool {
        self.suite != Suite::ChaCha20Poly1305
    }

    /// Returns the receiver index in the peer's packets.
    pub fn local(&self) -> ReceiverIndex {
        self.local
    }

    /// Returns the number of sealed messages, which is the next counter.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the highest counter of an authentic message, if there was one.
    pub fn highest(&self) -> Option<u64> {
        self.window.highest()
    }

    /// Returns the length of the longest authentic message lately, for the next receipt
    /// ([`ControlMessage::Receipt`](taut_wire::control::ControlMessage::Receipt)).
    pub(crate) fn take_longest(&mut self) -> u16 {
        self.received_long.take()
    }

    /// Takes the peer's receipt for a counter that was sealed. Returns true if long messages are lost while shorter ones arrive.
    pub(crate) fn receipted(&mut self, counter: u64, longest: u16) -> bool {
        self.sent_long.receipted(counter, longest)
    }

    /// Seals `datagram` in place as a data message. The caller has written `packet` bytes at [`DATA_HEADER`] into a slice of
    /// [`crate::Session::sealed_len`] bytes; header, padding and tag are written here.
    ///
    /// # Errors
    /// [`Exhausted`] if the key has reached its limit. `datagram` is unchanged then.
    pub fn seal(&mut self, datagram: &mut [u8], packet: usize) -> Result<(), Exhausted> {
        if self.exhausted() {
            return Err(Exhausted);
        }
        let Some((header, body)) = datagram.split_first_chunk_mut::<DATA_HEADER>() else { return Err(Exhausted) };
        let Some((plain, tag)) = body.split_last_chunk_mut::<TAG>() else { return Err(Exhausted) };
        let counter = self.sent;
        self.sent += 1;
        self.sent_long.sealed(plain.len(), counter);
        // The tag takes one more block; padded packets are whole blocks.
        self.blocks += plain.len().div_ceil(16) as u64 + 1;
        plain[packet..].fill(0);
        *tag = self.sending.seal(counter, &[], plain);
        wireguard::write_data_header(header, self.remote.0, counter);
        Ok(())
    }

    /// Opens a data message in place and returns the padded packet, which is empty for a keepalive. Only an authentic message moves the replay window.
    ///
    /// # Errors
    /// If the counter was seen before or is too old, or if the message was not sealed for this pair.
    pub fn open<'a>(&mut self, counter: u64, ciphertext: &'a mut [u8]) -> Result<&'a mut [u8], OpenError> {
        if counter >= REJECT_AFTER_MESSAGES {
            return Err(OpenError::CounterAtLimit);
        }
        if !self.window.is_fresh(counter) {
            return Err(OpenError::Replayed);
        }
        let plain = self.receiving.open(counter, &[], ciphertext).ok_or(OpenError::NotAuthentic)?;
        if !self.window.record(counter) {
            return Err(OpenError::Replayed);
        }
        self.received_long.received(plain.len());
        Ok(plain)
    }

    /// Returns true if the key is used so much that its session should be renewed.
    pub(crate) fn wants_rekey(&self) -> bool {
        self.sent >= REKEY_AFTER_MESSAGES || self.blocks_reach(REKEY_AFTER_BLOCKS)
    }

    /// Returns true if the key has reached its limit and seals nothing more.
    pub(crate) fn exhausted(&self) -> bool {
        self.sent >= REJECT_AFTER_MESSAGES || self.blocks_reach(REJECT_AFTER_BLOCKS)
    }

    /// Returns true if an AES-256-GCM key has used `limit` blocks. A session cannot reach the corresponding limit of ChaCha20-Poly1305, and AEGIS-256X4 has
    /// none (RFC 10032): its state of 3,072 bits does not repeat.
    fn blocks_reach(&self, limit: u64) -> bool {
        self.suite == Suite::Aes256Gcm && self.blocks >= limit
    }

    /// Sets the number of used blocks.
    #[cfg(test)]
    pub(crate) fn skip_to_block(&mut self, blocks: u64) {
        self.blocks = blocks;
    }

    /// Sets the number of sealed messages.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, counter: u64) {
        self.sent = counter;
    }
}

/// The key has reached its limit and seals nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the session has sent all the messages that its key may seal; a new handshake is needed")
    }
}

impl std::error::Error for Exhausted {}

/// Why a data message was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The counter was seen before, or is too old for the replay window.
    Replayed,
    /// The counter is beyond the limit of a key (fault A12).
    CounterAtLimit,
    /// The message was sealed for another session, or altered.
    NotAuthentic,
}

//! A key pair in use: one key for each direction, with the counter and the replay window that belong to them.

use std::fmt;

use taut_base::ReceiverIndex;
use taut_noise::{AeadKey, TAG};
use taut_wire::control::Suite;
use taut_wire::wireguard::{self, DATA_HEADER};
use zeroize::Zeroizing;

use crate::limits::{REJECT_AFTER_BLOCKS, REJECT_AFTER_MESSAGES, REKEY_AFTER_BLOCKS, REKEY_AFTER_MESSAGES};
use crate::window::ReplayWindow;

/// What a [`Pair`] is made of.
pub struct PairKeys {
    /// The AEAD that the keys are for.
    pub suite: Suite,
    /// By which the peer names this pair to us.
    pub local: ReceiverIndex,
    /// By which we name it to the peer.
    pub remote: ReceiverIndex,
    /// Key of what we send.
    pub sending: Zeroizing<[u8; 32]>,
    /// Key of what we receive.
    pub receiving: Zeroizing<[u8; 32]>,
}

/// Keys in use. Counter and window live only here: it can be neither copied nor made twice of the same keys.
pub struct Pair {
    suite: Suite,
    local: ReceiverIndex,
    remote: ReceiverIndex,
    sending: AeadKey,
    receiving: AeadKey,
    sent: u64,
    /// Blocks of the cipher that were used, where they are what limits a key.
    blocks: u64,
    window: ReplayWindow,
}

impl Pair {
    /// Puts keys to use, once: they are consumed.
    pub(crate) fn new(keys: PairKeys) -> Self {
        let PairKeys { suite, local, remote, sending, receiving } = keys;
        let key = match suite {
            Suite::ChaCha20Poly1305 => AeadKey::new,
            Suite::Aes256Gcm => AeadKey::aes_256_gcm,
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
        }
    }

    /// Its AEAD.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Whether the peer may mark packets in it ([`taut_wire::partial_checksum`]): in none of WireGuard's own suite (law 1).
    pub fn allows_partial_checksums(&self) -> bool {
        self.suite != Suite::ChaCha20Poly1305
    }

    /// By which the peer names it.
    pub fn local(&self) -> ReceiverIndex {
        self.local
    }

    /// How many messages it has sealed: the next one's counter.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The highest counter that was authentic, if there was one.
    pub fn highest(&self) -> Option<u64> {
        self.window.highest()
    }

    /// Turns `datagram` into a data message. Its packet stands from [`DATA_HEADER`] on, `packet` bytes long; the slice is
    /// [`crate::Session::sealed_len`] long, and everything around the packet is written here: header, zeros, tag.
    ///
    /// # Errors
    /// [`Exhausted`] when the key has sealed all it may; nothing was written then.
    pub fn seal(&mut self, datagram: &mut [u8], packet: usize) -> Result<(), Exhausted> {
        if self.exhausted() {
            return Err(Exhausted);
        }
        let Some((header, body)) = datagram.split_first_chunk_mut::<DATA_HEADER>() else { return Err(Exhausted) };
        let Some((plain, tag)) = body.split_last_chunk_mut::<TAG>() else { return Err(Exhausted) };
        let counter = self.sent;
        self.sent += 1;
        // One more makes the tag; padded packets are whole blocks.
        self.blocks += plain.len().div_ceil(16) as u64 + 1;
        plain[packet..].fill(0);
        *tag = self.sending.seal(counter, &[], plain);
        wireguard::write_data_header(header, self.remote.0, counter);
        Ok(())
    }

    /// Opens a data message in place and yields the padded packet: empty for a keepalive. The window moves only for what is authentic.
    ///
    /// # Errors
    /// When it was seen before, is too old, or was not sealed for this pair.
    pub fn open<'a>(&mut self, counter: u64, ciphertext: &'a mut [u8]) -> Result<&'a mut [u8], OpenError> {
        if counter >= REJECT_AFTER_MESSAGES {
            return Err(OpenError::CounterAtLimit);
        }
        if !self.window.fresh(counter) {
            return Err(OpenError::Replayed);
        }
        let plain = self.receiving.open(counter, &[], ciphertext).ok_or(OpenError::NotAuthentic)?;
        if !self.window.mark(counter) {
            return Err(OpenError::Replayed);
        }
        Ok(plain)
    }

    /// Whether so much was sealed that there should be a new session.
    pub(crate) fn wants_rekey(&self) -> bool {
        self.sent >= REKEY_AFTER_MESSAGES || self.blocks_reach(REKEY_AFTER_BLOCKS)
    }

    /// Whether nothing may be sealed any more.
    pub(crate) fn exhausted(&self) -> bool {
        self.sent >= REJECT_AFTER_MESSAGES || self.blocks_reach(REJECT_AFTER_BLOCKS)
    }

    /// ChaCha20-Poly1305 has no such limit that a session could reach.
    fn blocks_reach(&self, limit: u64) -> bool {
        self.suite == Suite::Aes256Gcm && self.blocks >= limit
    }

    /// As if so many blocks had been used already.
    #[cfg(test)]
    pub(crate) fn skip_to_block(&mut self, blocks: u64) {
        self.blocks = blocks;
    }

    /// As if so many messages had been sealed already.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, counter: u64) {
        self.sent = counter;
    }
}

/// The key has sealed all the messages it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the session has sent all the messages that its key may seal; a new handshake is needed")
    }
}

impl std::error::Error for Exhausted {}

/// Why a data message did not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Its counter was seen before, or is too old to say.
    Replayed,
    /// Its counter is beyond what a key may be used for (fault A12).
    CounterAtLimit,
    /// It was not sealed for this session, or altered on the way.
    NotAuthentic,
}

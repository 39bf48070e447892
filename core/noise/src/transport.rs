//! The channel after a handshake on a reliable stream: messages of any size, split into Noise records.
//!
//! A message is a sequence of records, each `length (2 bytes, big endian) ‖ ciphertext`, where the length counts the ciphertext with its tag. The
//! first plaintext byte of a record is 1 if another record of the same message follows, else 0. Counters are implicit, because the stream keeps the order.
//! A record that does not open therefore ends the channel.

use std::error::Error;
use std::fmt;

use crate::aead::{AeadKey, TAG};

/// Largest message that is opened, 16 MiB: a map of 10,000 peers with eight endpoints each takes about 5 MB.
pub const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// Plaintext bytes per record: a Noise message of 65,535 bytes (Noise specification, section 3) without tag and flag.
const RECORD: usize = 65_535 - TAG - 1;

/// An open channel, with a key and a counter per direction.
pub struct Transport {
    sending: AeadKey,
    receiving: AeadKey,
    sent: u64,
    received: u64,
}

impl Transport {
    pub(crate) fn new(sending: &[u8; 32], receiving: &[u8; 32]) -> Self {
        Self { sending: AeadKey::new(sending), receiving: AeadKey::new(receiving), sent: 0, received: 0 }
    }

    /// Seals one message.
    pub fn seal(&mut self, message: &[u8]) -> Vec<u8> {
        let records = message.len().div_ceil(RECORD).max(1);
        let mut sealed = Vec::with_capacity(message.len() + records * (2 + 1 + TAG));
        for number in 0..records {
            let start = number * RECORD;
            let part = &message[start..message.len().min(start + RECORD)];
            let length = u16::try_from(1 + part.len() + TAG).unwrap_or(u16::MAX);
            sealed.extend_from_slice(&length.to_be_bytes());
            let body = sealed.len();
            sealed.push(u8::from(number + 1 < records));
            sealed.extend_from_slice(part);
            let tag = self.sending.seal(self.sent, &[], &mut sealed[body..]);
            sealed.extend_from_slice(&tag);
            self.sent += 1;
        }
        sealed
    }

    /// Opens one message.
    ///
    /// # Errors
    /// If a record was truncated, altered, repeated or omitted, or if the message is larger than [`MAX_MESSAGE`]. The caller has to close the channel then.
    pub fn open(&mut self, mut sealed: Vec<u8>) -> Result<Vec<u8>, TransportError> {
        if sealed.len() > MAX_MESSAGE {
            return Err(TransportError::TooLarge { bytes: sealed.len() });
        }
        let mut message = Vec::with_capacity(sealed.len());
        let mut rest = sealed.as_mut_slice();
        loop {
            let (length, body) = rest.split_at_mut_checked(2).ok_or(TransportError::Cut)?;
            let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
            let (record, after) = body.split_at_mut_checked(length).ok_or(TransportError::Cut)?;
            let plain = self.receiving.open(self.received, &[], record).ok_or(TransportError::Altered)?;
            self.received += 1;
            let (more, part) = plain.split_first().ok_or(TransportError::Cut)?;
            message.extend_from_slice(part);
            match (*more, after.is_empty()) {
                (0, true) => return Ok(message),
                (1, false) => rest = after,
                _ => return Err(TransportError::Cut),
            }
        }
    }
}

/// Why a message could not be opened. The channel is unusable afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportError {
    /// A record or the message has a wrong length.
    Cut,
    /// A record does not open: it was altered, repeated, omitted, or belongs to another channel.
    Altered,
    /// The message is larger than [`MAX_MESSAGE`].
    TooLarge {
        /// Size of the message.
        bytes: usize,
    },
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut => f.write_str("a control message was truncated on the way"),
            Self::Altered => f.write_str("a control message was altered on the way, or belongs to another channel"),
            Self::TooLarge { bytes } => {
                write!(f, "a control message of {bytes} bytes is over the limit of {MAX_MESSAGE}")
            }
        }
    }
}

impl Error for TransportError {}

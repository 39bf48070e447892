//! WireGuard's four messages: exact layouts, views and writers (WireGuard paper, sections 5.4.2 to 5.4.6).
//!
//! This module checks types and lengths; it has no cryptography. Integers are little-endian. The first four bytes of a message, read as one number, are its
//! type, so a reserved byte that is not zero makes the message malformed.

use core::fmt;
use core::ops::Range;

/// Length of the header of a data message, 16 bytes: type, receiver, counter (paper 5.4.6).
pub const DATA_HEADER: usize = 16;
/// Length of the tag at the end of every sealed field, 16 bytes for Poly1305 and GCM.
pub const TAG: usize = 16;
/// Length of the shortest data message, 32 bytes: the header and the tag of an empty packet (a keepalive).
pub const DATA_MIN: usize = DATA_HEADER + TAG;
/// Length that a data message adds to an inner packet, 32 bytes.
pub const DATA_OVERHEAD: usize = DATA_HEADER + TAG;
/// Inner packets are padded with zeros to a multiple of 16 bytes (paper 5.4.6).
pub const PADDING: usize = 16;

/// Message type of an initiation.
pub const TYPE_INITIATION: u32 = 1;
/// Message type of a response.
pub const TYPE_RESPONSE: u32 = 2;
/// Message type of a cookie reply.
pub const TYPE_COOKIE_REPLY: u32 = 3;
/// Message type of data.
pub const TYPE_DATA: u32 = 4;

/// Offsets of the fields of an initiation (paper 5.4.2).
pub mod initiation {
    use super::Range;
    /// Length of the message.
    pub const LEN: usize = 148;
    /// The initiator's index.
    pub const SENDER: Range<usize> = 4..8;
    /// The initiator's ephemeral public key, in clear.
    pub const EPHEMERAL: Range<usize> = 8..40;
    /// The initiator's static public key, sealed.
    pub const STATIC: Range<usize> = 40..88;
    /// A TAI64N timestamp, sealed.
    pub const TIMESTAMP: Range<usize> = 88..116;
    /// The first MAC, which covers all bytes before it.
    pub const MAC1: Range<usize> = 116..132;
    /// The second MAC, which covers all bytes before it; zeros without a cookie.
    pub const MAC2: Range<usize> = 132..148;
}

/// Offsets of the fields of a response (paper 5.4.3).
pub mod response {
    use super::Range;
    /// Length of the message.
    pub const LEN: usize = 92;
    /// The responder's index.
    pub const SENDER: Range<usize> = 4..8;
    /// The initiator's index, repeated.
    pub const RECEIVER: Range<usize> = 8..12;
    /// The responder's ephemeral public key, in clear.
    pub const EPHEMERAL: Range<usize> = 12..44;
    /// The tag of an empty sealed field.
    pub const EMPTY: Range<usize> = 44..60;
    /// The first MAC, which covers all bytes before it.
    pub const MAC1: Range<usize> = 60..76;
    /// The second MAC, which covers all bytes before it; zeros without a cookie.
    pub const MAC2: Range<usize> = 76..92;
}

/// Offsets of the fields of a cookie reply (paper 5.4.7).
pub mod cookie_reply {
    use super::Range;
    /// Length of the message.
    pub const LEN: usize = 64;
    /// The sender index of the answered message.
    pub const RECEIVER: Range<usize> = 4..8;
    /// The nonce of the sealed cookie.
    pub const NONCE: Range<usize> = 8..32;
    /// The cookie, sealed.
    pub const COOKIE: Range<usize> = 32..64;
}

/// Offsets of the fields of a data message (paper 5.4.6). The sealed packet follows at [`DATA_HEADER`].
pub mod data {
    use super::Range;
    /// The receiver's index.
    pub const RECEIVER: Range<usize> = 4..8;
    /// The counter, which is also the nonce.
    pub const COUNTER: Range<usize> = 8..16;
}

/// Why a datagram is not a WireGuard message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MalformedMessage {
    /// Fewer bytes than a message type.
    Short {
        /// Length of the datagram.
        len: usize,
    },
    /// The first four bytes are not one of the four types: another protocol, or reserved bytes that are not zero.
    UnknownType {
        /// Type and reserved bytes, read as one little-endian number.
        word: u32,
    },
    /// The length does not match the type.
    WrongLength {
        /// The message type, 1 to 4.
        kind: u32,
        /// Length of the datagram.
        len: usize,
    },
}

impl fmt::Display for MalformedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MalformedMessage::Short { len } => {
                write!(f, "a datagram of {len} bytes is too short for WireGuard; it is dropped")
            }
            MalformedMessage::UnknownType { word } => write!(
                f,
                "a datagram begins with {word:#010x}, which is no WireGuard message type; something else talks to this port"
            ),
            MalformedMessage::WrongLength { kind, len } => {
                write!(
                    f,
                    "a WireGuard message of type {kind} has {len} bytes, which that type never has; it is dropped"
                )
            }
        }
    }
}

impl core::error::Error for MalformedMessage {}

/// A view of one of the four messages in a datagram.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {
    /// An initiation, type 1.
    Initiation(Initiation<'a>),
    /// A response, type 2.
    Response(Response<'a>),
    /// A cookie reply, type 3.
    CookieReply(CookieReply<'a>),
    /// A data message, type 4.
    Data(Data<'a>),
}

/// A handshake initiation (paper 5.4.2).
#[derive(Clone, Copy, Debug)]
pub struct Initiation<'a> {
    /// All bytes of the message, for the MACs and the transcript.
    pub bytes: &'a [u8; initiation::LEN],
    /// The initiator's index.
    pub sender: u32,
    /// The initiator's ephemeral public key.
    pub ephemeral: &'a [u8; 32],
    /// The initiator's sealed static public key.
    pub sealed_static: &'a [u8; 48],
    /// The sealed TAI64N timestamp.
    pub sealed_timestamp: &'a [u8; 28],
    /// The first MAC, over the bytes before it.
    pub mac1: &'a [u8; 16],
    /// The second MAC, over the bytes before it; zeros without a cookie.
    pub mac2: &'a [u8; 16],
}

/// A handshake response (paper 5.4.3).
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// All bytes of the message, for the MACs.
    pub bytes: &'a [u8; response::LEN],
    /// The responder's index.
    pub sender: u32,
    /// The index of the answered initiation.
    pub receiver: u32,
    /// The responder's ephemeral public key.
    pub ephemeral: &'a [u8; 32],
    /// The tag of the empty sealed field.
    pub sealed_empty: &'a [u8; TAG],
    /// The first MAC, over the bytes before it.
    pub mac1: &'a [u8; 16],
    /// The second MAC, over the bytes before it; zeros without a cookie.
    pub mac2: &'a [u8; 16],
}

/// A cookie reply (paper 5.4.7).
#[derive(Clone, Copy, Debug)]
pub struct CookieReply<'a> {
    /// The sender index of the answered message.
    pub receiver: u32,
    /// The nonce of the sealed cookie.
    pub nonce: &'a [u8; 24],
    /// The sealed cookie.
    pub sealed_cookie: &'a [u8; 32],
}

/// A data message (paper 5.4.6).
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    /// The receiver's index.
    pub receiver: u32,
    /// The counter, which is also the nonce.
    pub counter: u64,
    /// The sealed inner packet with its tag: at least [`TAG`] bytes.
    pub ciphertext: &'a [u8],
}

/// Returns the message in a datagram, which is recognised by type and length only.
///
/// # Errors
/// [`MalformedMessage`] if the datagram is not a WireGuard message. It must not be answered.
pub fn classify(datagram: &[u8]) -> Result<Message<'_>, MalformedMessage> {
    let len = datagram.len();
    let Some((word, _)) = datagram.split_first_chunk() else {
        return Err(MalformedMessage::Short { len });
    };
    let kind = u32::from_le_bytes(*word);
    let message = match kind {
        TYPE_DATA => parse_data(datagram).map(Message::Data),
        TYPE_INITIATION => parse_initiation(datagram).map(Message::Initiation),
        TYPE_RESPONSE => parse_response(datagram).map(Message::Response),
        TYPE_COOKIE_REPLY => parse_cookie_reply(datagram).map(Message::CookieReply),
        word => return Err(MalformedMessage::UnknownType { word }),
    };
    message.ok_or(MalformedMessage::WrongLength { kind, len })
}

fn parse_initiation(datagram: &[u8]) -> Option<Initiation<'_>> {
    let bytes: &[u8; initiation::LEN] = datagram.try_into().ok()?;
    let mut fields = FieldReader(bytes.get(4..)?);
    Some(Initiation {
        bytes,
        sender: fields.le32()?,
        ephemeral: fields.take()?,
        sealed_static: fields.take()?,
        sealed_timestamp: fields.take()?,
        mac1: fields.take()?,
        mac2: fields.take()?,
    })
}

fn parse_response(datagram: &[u8]) -> Option<Response<'_>> {
    let bytes: &[u8; response::LEN] = datagram.try_into().ok()?;
    let mut fields = FieldReader(bytes.get(4..)?);
    Some(Response {
        bytes,
        sender: fields.le32()?,
        receiver: fields.le32()?,
        ephemeral: fields.take()?,
        sealed_empty: fields.take()?,
        mac1: fields.take()?,
        mac2: fields.take()?,
    })
}

fn parse_cookie_reply(datagram: &[u8]) -> Option<CookieReply<'_>> {
    let bytes: &[u8; cookie_reply::LEN] = datagram.try_into().ok()?;
    let mut fields = FieldReader(bytes.get(4..)?);
    Some(CookieReply { receiver: fields.le32()?, nonce: fields.take()?, sealed_cookie: fields.take()? })
}

fn parse_data(datagram: &[u8]) -> Option<Data<'_>> {
    let (header, ciphertext) = datagram.split_first_chunk::<DATA_HEADER>()?;
    if ciphertext.len() < TAG {
        return None;
    }
    let [_, _, _, _, r0, r1, r2, r3, counter @ ..] = *header;
    Some(Data { receiver: u32::from_le_bytes([r0, r1, r2, r3]), counter: u64::from_le_bytes(counter), ciphertext })
}

/// Reads one field after the other.
struct FieldReader<'a>(&'a [u8]);

impl<'a> FieldReader<'a> {
    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(field)
    }

    fn le32(&mut self) -> Option<u32> {
        self.take().map(|field| u32::from_le_bytes(*field))
    }
}

/// Writes an initiation with zero MACs. The caller writes the MACs to [`initiation::MAC1`] and [`initiation::MAC2`] afterwards.
pub fn write_initiation(
    out: &mut [u8; initiation::LEN],
    sender: u32,
    ephemeral: &[u8; 32],
    sealed_static: &[u8; 48],
    sealed_timestamp: &[u8; 28],
) {
    out.fill(0);
    out[..4].copy_from_slice(&TYPE_INITIATION.to_le_bytes());
    out[initiation::SENDER].copy_from_slice(&sender.to_le_bytes());
    out[initiation::EPHEMERAL].copy_from_slice(ephemeral);
    out[initiation::STATIC].copy_from_slice(sealed_static);
    out[initiation::TIMESTAMP].copy_from_slice(sealed_timestamp);
}

/// Writes a response with zero MACs. The caller writes the MACs to [`response::MAC1`] and [`response::MAC2`] afterwards.
pub fn write_response(
    out: &mut [u8; response::LEN],
    sender: u32,
    receiver: u32,
    ephemeral: &[u8; 32],
    sealed_empty: &[u8; TAG],
) {
    out.fill(0);
    out[..4].copy_from_slice(&TYPE_RESPONSE.to_le_bytes());
    out[response::SENDER].copy_from_slice(&sender.to_le_bytes());
    out[response::RECEIVER].copy_from_slice(&receiver.to_le_bytes());
    out[response::EPHEMERAL].copy_from_slice(ephemeral);
    out[response::EMPTY].copy_from_slice(sealed_empty);
}

/// Writes a cookie reply.
pub fn write_cookie_reply(
    out: &mut [u8; cookie_reply::LEN],
    receiver: u32,
    nonce: &[u8; 24],
    sealed_cookie: &[u8; 32],
) {
    out[..4].copy_from_slice(&TYPE_COOKIE_REPLY.to_le_bytes());
    out[cookie_reply::RECEIVER].copy_from_slice(&receiver.to_le_bytes());
    out[cookie_reply::NONCE].copy_from_slice(nonce);
    out[cookie_reply::COOKIE].copy_from_slice(sealed_cookie);
}

/// Writes the header of a data message.
#[inline]
pub fn write_data_header(out: &mut [u8; DATA_HEADER], receiver: u32, counter: u64) {
    out[..4].copy_from_slice(&TYPE_DATA.to_le_bytes());
    out[data::RECEIVER].copy_from_slice(&receiver.to_le_bytes());
    out[data::COUNTER].copy_from_slice(&counter.to_le_bytes());
}

/// Returns the padded length of an inner packet of `len` bytes: the next multiple of [`PADDING`], but at most `mtu`.
///
/// The rule of the kernel's `calculate_skb_padding` (`drivers/net/wireguard/send.c`): an MTU of 0 does not limit the padding, and for a packet longer than the
/// MTU the remainder after a multiple of the MTU is padded.
#[must_use]
#[inline]
pub const fn padded_len(len: usize, mtu: usize) -> usize {
    let last = if mtu != 0 && len > mtu { len % mtu } else { len };
    let aligned = last.saturating_add(PADDING - 1) / PADDING * PADDING;
    let padded = if mtu != 0 && aligned > mtu { mtu } else { aligned };
    len.saturating_add(padded.saturating_sub(last))
}

#[cfg(test)]
mod tests;

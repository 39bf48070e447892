//! Frames of a WebSocket (RFC 6455, section 5), as a client reads and writes them.
//!
//! ```text
//! first byte   final (1 bit)  reserved (3)  opcode (4)
//! second byte  masked (1)  length (7): up to 125, or 126 for 16 bits, or 127 for 64 bits that follow
//! mask         4 bytes, only in frames of clients
//! payload
//! ```
//! A client masks what it sends, so that a program that chooses payloads cannot choose the bytes on the wire and deceive a proxy (section 10.3). A server does
//! not mask.

use std::error::Error;
use std::fmt;

use crate::bytes::array;

/// Longest payload of a control frame, 125 bytes (RFC 6455, section 5.5).
pub const MAX_CONTROL: usize = 125;
/// Longest header of a client's frame: two bytes, a length of 64 bits, and the mask.
pub const MAX_HEADER: usize = 14;

/// Marks the last frame of a message.
const FINAL: u8 = 0x80;
/// Bits for extensions, which a client of this crate does not ask for.
const RESERVED: u8 = 0x70;
/// Marks a masked payload.
const MASKED: u8 = 0x80;
/// The length that says that 16 bits with the length follow.
const IN_16_BITS: u8 = 126;
/// The length that says that 64 bits with the length follow.
const IN_64_BITS: u8 = 127;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// A further part of a message.
    Continuation,
    /// A message of text in UTF-8, or its first part.
    Text,
    /// A message of bytes, or its first part.
    Binary,
    /// The end of the connection.
    Close,
    /// A question that [`Opcode::Pong`] answers.
    Ping,
    /// An answer with the payload of the ping.
    Pong,
}

impl Opcode {
    const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    const fn bits(self) -> u8 {
        match self {
            Self::Continuation => 0,
            Self::Text => 1,
            Self::Binary => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }

    /// Returns true if the frame is not a part of a message.
    pub const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// The header of a frame from a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// True in the last frame of a message.
    pub is_final: bool,
    /// The kind of the frame.
    pub opcode: Opcode,
    /// Bytes of the payload.
    pub length: u64,
}

impl FrameHeader {
    /// Reads the header at the start of `bytes`, and returns it with its own length. Returns `None` if more bytes are needed.
    ///
    /// # Errors
    /// If no server may send such a header. The connection is unusable then, because the start of the next frame is unknown.
    pub fn read_from_server(bytes: &[u8]) -> Result<Option<(Self, usize)>, BadFrame> {
        let Some([first, second]) = array(bytes, 0) else { return Ok(None) };
        if first & RESERVED != 0 {
            return Err(BadFrame::Reserved);
        }
        let opcode = Opcode::from_bits(first & !(FINAL | RESERVED)).ok_or(BadFrame::UnknownOpcode)?;
        let is_final = first & FINAL != 0;
        if second & MASKED != 0 {
            return Err(BadFrame::Masked);
        }
        if opcode.is_control() && !is_final {
            return Err(BadFrame::ControlInParts);
        }
        if opcode.is_control() && usize::from(*second) > MAX_CONTROL {
            return Err(BadFrame::LongControl);
        }
        let (length, end, least) = match *second {
            IN_16_BITS => match array(bytes, 2) {
                Some(field) => (u64::from(u16::from_be_bytes(*field)), 4, u64::from(IN_16_BITS)),
                None => return Ok(None),
            },
            IN_64_BITS => match array(bytes, 2) {
                Some(field) => (u64::from_be_bytes(*field), 10, 0x1_0000),
                None => return Ok(None),
            },
            short => (u64::from(short), 2, 0),
        };
        // Each length has one form, the shortest (section 5.2).
        if length < least {
            return Err(BadFrame::LongForm);
        }
        Ok(Some((Self { is_final, opcode, length }, end)))
    }
}

/// Returns the header of a client's frame that is a whole message or a control frame, in the first bytes of the array, and the number of these bytes.
pub fn client_header(opcode: Opcode, length: usize, mask: [u8; 4]) -> ([u8; MAX_HEADER], usize) {
    let mut header = [0; MAX_HEADER];
    let mut end = 0;
    let mut put = |bytes: &[u8]| {
        for byte in bytes {
            if let Some(place) = header.get_mut(end) {
                *place = *byte;
                end += 1;
            }
        }
    };
    put(&[FINAL | opcode.bits()]);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < IN_16_BITS => put(&[MASKED | short]),
        (_, Ok(length)) => {
            put(&[MASKED | IN_16_BITS]);
            put(&length.to_be_bytes());
        }
        _ => {
            put(&[MASKED | IN_64_BITS]);
            put(&(length as u64).to_be_bytes());
        }
    }
    put(&mask);
    (header, end)
}

/// Masks a payload, or removes the mask.
pub fn apply_mask(payload: &mut [u8], mask: [u8; 4]) {
    // Sixteen bytes at once are one instruction of most processors.
    let wide = u128::from_ne_bytes(std::array::from_fn(|index| mask[index % 4]));
    let (chunks, rest) = payload.as_chunks_mut::<16>();
    for chunk in chunks {
        *chunk = (u128::from_ne_bytes(*chunk) ^ wide).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= key;
    }
}

/// Bytes that a server may not send. The connection is unusable after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadFrame {
    /// A reserved bit is set, although no extension was agreed on.
    Reserved,
    /// A kind of frame that RFC 6455 does not know.
    UnknownOpcode,
    /// The frame is masked, as only those of clients are.
    Masked,
    /// A control frame that is not final.
    ControlInParts,
    /// A control frame with more than [`MAX_CONTROL`] bytes.
    LongControl,
    /// A length in more bytes than it needs.
    LongForm,
    /// A further part of a message that has not begun.
    NoMessage,
    /// A message began before the last one was complete.
    InsideMessage,
    /// A message longer than the limit.
    TooLong,
    /// A text that is not UTF-8.
    NotText,
    /// A close frame with half a code.
    HalfCode,
}

impl fmt::Display for BadFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reserved => "a frame uses an extension that was not agreed on",
            Self::UnknownOpcode => "a frame is of an unknown kind",
            Self::Masked => "a frame is masked like that of a client",
            Self::ControlInParts => "a control frame is in parts",
            Self::LongControl => "a control frame is too long",
            Self::LongForm => "a length is in more bytes than it needs",
            Self::NoMessage => "a part of a message came without its beginning",
            Self::InsideMessage => "a message began inside another one",
            Self::TooLong => "a message is longer than the limit",
            Self::NotText => "a text is not UTF-8",
            Self::HalfCode => "a close frame has half a code",
        })
    }
}

impl Error for BadFrame {}

#[cfg(test)]
mod tests;

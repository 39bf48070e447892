//! The frames between a client and a relay, by their first byte. Integers are little-endian. A datagram with other values than zero in an unnamed
//! byte is no frame.
//!
//! ```text
//! data     80 0 0 0  id (4)  WireGuard's datagram                                                    8 + at least 32
//! bind     81 0 0 0  index (4)  ephemeral (32)  sealed key (48)  sealed ticket and stamp (208)  mac1 (16)  mac2 (16)     328
//! bound    82 0 0 0  index (4)  relay's index (4)  ephemeral (32)  sealed welcome (48)                          92
//! control  83 0 0 0  receiver's index (4)  counter (8)  sealed message (56)                                      72
//! cookie   84 1 0 0  index (4)  nonce (24)  sealed cookie (32)                                                   64
//! again    84 2 0 0  id or index (4)  the last 16 bytes of the frame that it answers                                       24
//! ```
//! The first bytes differ from those of WireGuard (1 to 4) and STUN (below 64). No answer to an unauthenticated sender is longer than the frame that it answers:
//! `bind` is the longest frame except data, and `again` is shorter than the shortest.

use core::fmt;

/// Bytes of the header in front of a relayed datagram.
pub use taut_wire::relay::HEADER as DATA_HEADER;
/// Returns the header of a data frame, which a client writes in front of a WireGuard datagram.
pub use taut_wire::relay::header as data_header;
pub(crate) use taut_wire::relay::{AGAIN, BIND, BOUND, CONTROL, DATA};
use taut_wire::wireguard;

use crate::ticket::TICKET_LEN;

/// Bytes of `bind`.
pub const BIND_LEN: usize = 8 + 32 + 48 + BIND_PAYLOAD + 16 + 32;
/// Bytes of `bound`.
pub const BOUND_LEN: usize = 12 + 32 + WELCOME_LEN + 16;
/// Bytes of `control`.
pub const CONTROL_LEN: usize = 16 + MESSAGE_LEN + 16;
/// Bytes of `cookie`: WireGuard's cookie reply under another type.
pub const COOKIE_LEN: usize = wireguard::cookie_reply::LEN;
/// Bytes of `again`.
pub const AGAIN_LEN: usize = 8 + ECHO_LEN;

/// Bytes of the encrypted payload of `bind`: the ticket, the stamp (8), and zeros reserved for later versions.
pub(crate) const BIND_PAYLOAD: usize = TICKET_LEN + 16;
/// Bytes of the encrypted payload of `bound`.
pub(crate) const WELCOME_LEN: usize = 32;
/// Bytes of the encrypted payload of `control`.
pub const MESSAGE_LEN: usize = 40;
/// Bytes that `again` repeats of the frame that it answers: a tag, which only an observer of the frame knows.
pub(crate) const ECHO_LEN: usize = 16;

/// The second byte of `cookie` and of `again`.
const KIND_COOKIE: u8 = 1;
const KIND_AGAIN: u8 = 2;

/// The random bits of an id. In a data frame the others name a lane, as in a receiver index.
pub(crate) const ID_BITS: u32 = !0xf;

/// One frame, borrowed from a datagram.
#[derive(Clone, Copy, Debug)]
pub enum Frame<'a> {
    /// Data that the relay forwards.
    Data {
        /// The number that this client has for the peer.
        id: u32,
        /// The WireGuard datagram.
        datagram: &'a [u8],
    },
    /// The client's message of the handshake.
    Bind(&'a [u8; BIND_LEN]),
    /// The relay's answer to `bind`.
    Bound(&'a [u8; BOUND_LEN]),
    /// An encrypted control message.
    Control(&'a [u8; CONTROL_LEN]),
    /// The relay requires a cookie first.
    Cookie(&'a [u8; COOKIE_LEN]),
    /// The relay does not know the sender of a frame.
    Again {
        /// The id or index in the frame that it answers.
        id: u32,
        /// The last bytes of that frame.
        echo: &'a [u8; ECHO_LEN],
    },
}

/// Returns true if the first byte is that of a relay frame.
pub const fn is_frame(datagram: &[u8]) -> bool {
    matches!(datagram.first(), Some(DATA..=AGAIN))
}

/// Reads the frame in a datagram.
///
/// # Errors
/// [`NoFrame`] for any other datagram, which must not be answered.
pub fn parse(datagram: &[u8]) -> Result<Frame<'_>, NoFrame> {
    let ([kind, second, third, fourth, id @ ..], _) = datagram.split_first_chunk::<DATA_HEADER>().ok_or(NoFrame)?;
    let id = u32::from_le_bytes(*id);
    match (*kind, *second, *third, *fourth) {
        (DATA, 0, 0, 0) => inner(datagram).map(|datagram| Frame::Data { id, datagram }),
        (BIND, 0, 0, 0) => datagram.try_into().ok().map(Frame::Bind),
        (BOUND, 0, 0, 0) => datagram.try_into().ok().map(Frame::Bound),
        (CONTROL, 0, 0, 0) => datagram.try_into().ok().map(Frame::Control),
        (AGAIN, KIND_COOKIE, 0, 0) => datagram.try_into().ok().map(Frame::Cookie),
        (AGAIN, KIND_AGAIN, 0, 0) if datagram.len() == AGAIN_LEN => {
            datagram.last_chunk().map(|echo| Frame::Again { id, echo })
        }
        _ => None,
    }
    .ok_or(NoFrame)
}

/// Returns the content of a data frame if it may be a WireGuard message. A relay forwards nothing else.
fn inner(datagram: &[u8]) -> Option<&[u8]> {
    let inner = datagram.get(DATA_HEADER..)?;
    let kind = u32::from_le_bytes(*inner.first_chunk()?);
    let possible = (wireguard::TYPE_INITIATION..=wireguard::TYPE_DATA).contains(&kind);
    (possible && inner.len() >= wireguard::DATA_MIN).then_some(inner)
}

/// Returns the id of a data frame and the WireGuard datagram in it; `None` for any other datagram.
pub fn data(datagram: &[u8]) -> Option<(u32, &[u8])> {
    match parse(datagram) {
        Ok(Frame::Data { id, datagram }) => Some((id, datagram)),
        _ => None,
    }
}

/// Returns the first 8 bytes of a frame other than `cookie` and `again`.
pub(crate) fn header(kind: u8, id: u32) -> [u8; DATA_HEADER] {
    let mut header = data_header(id);
    header[0] = kind;
    header
}

/// Returns the frame that tells a sender that its binding is unknown.
pub(crate) fn again(id: u32, answered: &[u8]) -> Option<[u8; AGAIN_LEN]> {
    let echo: &[u8; ECHO_LEN] = answered.last_chunk()?;
    let mut bytes = [0; AGAIN_LEN];
    bytes[..DATA_HEADER].copy_from_slice(&header(AGAIN, id));
    bytes[1] = KIND_AGAIN;
    bytes[DATA_HEADER..].copy_from_slice(echo);
    Some(bytes)
}

/// Turns a WireGuard cookie reply into a relay's `cookie` frame.
pub(crate) fn cookie(mut reply: [u8; COOKIE_LEN]) -> [u8; COOKIE_LEN] {
    reply[..4].copy_from_slice(&[AGAIN, KIND_COOKIE, 0, 0]);
    reply
}

/// Returns the little-endian number at offset `at`; 0 if the bytes end before.
pub(crate) fn le32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |field| u32::from_le_bytes(*field))
}

/// The error for a datagram that is no frame of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFrame;

impl fmt::Display for NoFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the datagram is no frame of a relay; it is dropped")
    }
}

impl core::error::Error for NoFrame {}

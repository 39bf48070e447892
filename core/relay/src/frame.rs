//! The frames between a client and a relay, by their first byte. Integers are little-endian; bytes that are not named are zero, or it is no frame.
//!
//! ```text
//! data     80 0 0 0  id (4)  WireGuard's datagram                                                    8 + at least 32
//! bind     81 0 0 0  index (4)  ephemeral (32)  sealed key (48)  sealed ticket and stamp (208)  mac1 (16)  mac2 (16)     328
//! bound    82 0 0 0  index (4)  relay's index (4)  ephemeral (32)  sealed welcome (48)                          92
//! control  83 0 0 0  receiver's index (4)  counter (8)  sealed message (56)                                      72
//! cookie   84 1 0 0  index (4)  nonce (24)  sealed cookie (32)                                                   64
//! again    84 2 0 0  id or index (4)  the last 16 bytes of what it answers                                       24
//! ```
//! No first byte is one of WireGuard's (1 to 4) or STUN's (below 64). No answer to a stranger is longer than what it answers: `bind` is the longest
//! frame but data, and `again` shorter than the shortest.

use core::fmt;

/// Bytes in front of a datagram that a relay carries.
pub use taut_wire::relay::HEADER as DATA_HEADER;
/// The header of a data frame: what a client writes in front of WireGuard's datagram.
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

/// Bytes of what `bind` seals: the ticket, the stamp (8), and zeros for what later versions say.
pub(crate) const BIND_PAYLOAD: usize = TICKET_LEN + 16;
/// Bytes of what `bound` seals.
pub(crate) const WELCOME_LEN: usize = 32;
/// Bytes of what `control` seals.
pub const MESSAGE_LEN: usize = 40;
/// How much `again` repeats of what it answers: a tag, which nobody guesses who did not see it.
pub(crate) const ECHO_LEN: usize = 16;

/// The second byte of `cookie` and of `again`.
const KIND_COOKIE: u8 = 1;
const KIND_AGAIN: u8 = 2;

/// The bits of an id that are random. The others are kept for a lane, as in a receiver index, and zero.
pub(crate) const ID_BITS: u32 = !0xf;

/// One frame, borrowed from a datagram.
#[derive(Clone, Copy, Debug)]
pub enum Frame<'a> {
    /// What the relay hands on.
    Data {
        /// The number that this client has for the peer.
        id: u32,
        /// WireGuard's.
        datagram: &'a [u8],
    },
    /// A client's first message of the handshake.
    Bind(&'a [u8; BIND_LEN]),
    /// The relay's answer.
    Bound(&'a [u8; BOUND_LEN]),
    /// Something sealed.
    Control(&'a [u8; CONTROL_LEN]),
    /// The relay wants to see a cookie first.
    Cookie(&'a [u8; COOKIE_LEN]),
    /// The relay does not know who sent that.
    Again {
        /// The id or index that it bore.
        id: u32,
        /// Its last bytes.
        echo: &'a [u8; ECHO_LEN],
    },
}

/// Whether a datagram may be a relay's frame, by its first byte alone.
pub const fn is_frame(datagram: &[u8]) -> bool {
    matches!(datagram.first(), Some(DATA..=AGAIN))
}

/// The frame in a datagram.
///
/// # Errors
/// [`NoFrame`] for any other bytes. Nothing of them is answered.
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

/// What stands behind the header of a data frame, if it may be WireGuard's: a relay carries nothing else.
fn inner(datagram: &[u8]) -> Option<&[u8]> {
    let inner = datagram.get(DATA_HEADER..)?;
    let kind = u32::from_le_bytes(*inner.first_chunk()?);
    let possible = (wireguard::TYPE_INITIATION..=wireguard::TYPE_DATA).contains(&kind);
    (possible && inner.len() >= wireguard::DATA_MIN).then_some(inner)
}

/// The id of a data frame, and WireGuard's datagram in it; `None` for all else.
pub fn data(datagram: &[u8]) -> Option<(u32, &[u8])> {
    match parse(datagram) {
        Ok(Frame::Data { id, datagram }) => Some((id, datagram)),
        _ => None,
    }
}

/// The first 8 bytes of any frame but `cookie` and `again`.
pub(crate) fn header(kind: u8, id: u32) -> [u8; DATA_HEADER] {
    let mut header = data_header(id);
    header[0] = kind;
    header
}

/// Tells a sender that its binding is not known here.
pub(crate) fn again(id: u32, answered: &[u8]) -> Option<[u8; AGAIN_LEN]> {
    let echo: &[u8; ECHO_LEN] = answered.last_chunk()?;
    let mut bytes = [0; AGAIN_LEN];
    bytes[..DATA_HEADER].copy_from_slice(&header(AGAIN, id));
    bytes[1] = KIND_AGAIN;
    bytes[DATA_HEADER..].copy_from_slice(echo);
    Some(bytes)
}

/// Makes WireGuard's cookie reply a relay's.
pub(crate) fn cookie(mut reply: [u8; COOKIE_LEN]) -> [u8; COOKIE_LEN] {
    reply[..4].copy_from_slice(&[AGAIN, KIND_COOKIE, 0, 0]);
    reply
}

/// The little-endian number at `at`; 0 behind the end.
pub(crate) fn le32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |field| u32::from_le_bytes(*field))
}

/// A datagram that is no relay's frame, or one that no version of this program sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFrame;

impl fmt::Display for NoFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no frame of a relay; it is dropped")
    }
}

impl core::error::Error for NoFrame {}

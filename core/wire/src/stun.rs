//! STUN's Binding (RFC 8489), and the one request of RFC 5780 that tells how a NAT filters: nothing else of either.
//!
//! A node asks a relay where its datagrams seem to come from; a relay answers. No state on either side but the transaction that the asker drew.
//!
//! ```text
//! header     type (2)  length (2)  21 12 a4 42  transaction (12)          20 bytes; integers big-endian; type 1 asks, 0x0101 answers
//! attribute  type (2)  length (2)  value, zeros up to a multiple of 4
//!   0x0003   CHANGE-REQUEST       4       in requests: bit 1 asks for an answer from the other port, bit 2 from another address
//!   0x0020   XOR-MAPPED-ADDRESS   8, 20   in answers: where the request came from
//!   0x802c   OTHER-ADDRESS        8, 20   in answers: where else the same server answers from
//!   0x8022   SOFTWARE             any     in requests: fills them up to REQUEST_LEN
//!   0x8028   FINGERPRINT          4       last: CRC-32 of what is before it, so that STUN is told from all else
//! ```
//! A request of ours is never shorter than any answer, and a request that is shorter than its answer gets none (law 12): whoever forges the source of
//! one gains nothing. It is filled by SOFTWARE, which every server passes over. RFC 5780's PADDING would be answered by as much padding, or by an error.
//! Nothing here is authentic: who is on the way, or guesses the 12 bytes of a transaction, may lie. An answer is a hint, and a probe the proof.

mod attributes;
#[cfg(test)]
mod tests;

use core::fmt;
use core::net::SocketAddr;

use crate::bytes::{array, be16, low16, put, put8, put16};
use attributes::{Attributes, address_len, read_address, write_address};

/// Bytes of a request of ours: as many as the longest answer has.
pub const REQUEST_LEN: usize = MAX_ANSWER_LEN;
/// Bytes of the longest answer: two IPv6 addresses and a fingerprint.
pub const MAX_ANSWER_LEN: usize = HEADER + 2 * (ATTRIBUTE + 20) + FINGERPRINT_LEN;
/// Longest message that is read: a server may say more than we ask for, but answers to us have no reason to be fragmented.
pub const MAX_LEN: usize = 1280;

const HEADER: usize = 20;
/// Type and length of an attribute.
const ATTRIBUTE: usize = 4;
/// The whole attribute.
const FINGERPRINT_LEN: usize = ATTRIBUTE + 4;
/// RFC 8489 section 5: it tells STUN from its predecessor, and here from all else.
const COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];

const BINDING_REQUEST: u16 = 0x0001;
const BINDING_SUCCESS: u16 = 0x0101;
const BINDING_ERROR: u16 = 0x0111;

const CHANGE_REQUEST: u16 = 0x0003;
const XOR_MAPPED_ADDRESS: u16 = 0x0020;
const PADDING: u16 = 0x0026;
const SOFTWARE: u16 = 0x8022;
const FINGERPRINT: u16 = 0x8028;
const OTHER_ADDRESS: u16 = 0x802c;

/// Flags of CHANGE-REQUEST (RFC 5780 section 7.2).
const CHANGE_ADDRESS: u8 = 4;
const CHANGE_PORT: u8 = 2;

/// What stands in SOFTWARE, before it is filled up. No version: strangers need not know which one to attack.
const NAME: &[u8] = b"taut";

/// Drawn at random for one request; whoever repeats it has read the request.
pub type Transaction = [u8; 12];

/// Whether a datagram is a message of STUN's Binding, by its frame alone. No WireGuard message and no relay frame is: of WireGuard's, only one of 20
/// bytes could have the lengths agree, and none is that short.
pub fn is_stun(datagram: &[u8]) -> bool {
    let kind = be16(datagram, 0);
    matches!(kind, BINDING_REQUEST | BINDING_SUCCESS | BINDING_ERROR)
        && datagram.len() <= MAX_LEN
        && datagram.len().is_multiple_of(4)
        && array(datagram, 4) == Some(&COOKIE)
        && usize::from(be16(datagram, 2)) + HEADER == datagram.len()
}

/// Asks a server where we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindingRequest {
    /// Whose answer this waits for.
    pub transaction: Transaction,
    /// Asks for an answer from the server's other port: it comes through a NAT that filters by address alone, or not at all.
    pub change_port: bool,
}

impl BindingRequest {
    /// Writes the request.
    pub fn write(&self, out: &mut [u8; REQUEST_LEN]) {
        out.fill(0);
        let mut at = write_header(out, BINDING_REQUEST, &self.transaction);
        if self.change_port {
            at = write_attribute(out, at, CHANGE_REQUEST, 4);
            put8(out, at - 1, CHANGE_PORT);
        }
        let filled = REQUEST_LEN - FINGERPRINT_LEN - at - ATTRIBUTE;
        let value = at + ATTRIBUTE;
        write_attribute(out, at, SOFTWARE, filled);
        // Blanks, not zeros: the value is text.
        for (place, byte) in out.iter_mut().skip(value).take(filled).zip(NAME.iter().chain(core::iter::repeat(&b' '))) {
            *place = *byte;
        }
        write_fingerprint(out);
    }

    /// Reads a request.
    ///
    /// # Errors
    /// [`BadStun`] when it is none, or asks for what a server of ours does not do. It gets no answer.
    pub fn parse(datagram: &[u8]) -> Result<Self, BadStun> {
        let (transaction, attributes) = open(datagram, BINDING_REQUEST)?;
        let mut request = Self { transaction, change_port: false };
        for attribute in attributes {
            match attribute? {
                (CHANGE_REQUEST, &[_, _, _, flags]) if flags & CHANGE_ADDRESS == 0 => {
                    request.change_port = flags & CHANGE_PORT != 0;
                }
                (CHANGE_REQUEST, _) => return Err(BadStun::Unsupported),
                (PADDING, _) => {}
                (kind, _) => must_know(kind)?,
            }
        }
        Ok(request)
    }
}

/// Tells who asked where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindingResponse {
    /// The request's.
    pub transaction: Transaction,
    /// Where the request came from, as the server saw it.
    pub mapped: SocketAddr,
    /// Where else the server answers from, if it said so.
    pub other: Option<SocketAddr>,
}

impl BindingResponse {
    /// Bytes that [`Self::write`] writes.
    pub fn len(&self) -> usize {
        let other = self.other.map_or(0, |other| ATTRIBUTE + address_len(other));
        HEADER + ATTRIBUTE + address_len(self.mapped) + other + FINGERPRINT_LEN
    }

    /// Never: an answer has a header.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the answer and returns its length.
    pub fn write(&self, out: &mut [u8; MAX_ANSWER_LEN]) -> usize {
        out.fill(0);
        let length = self.len();
        let out = &mut out[..length];
        let mut at = write_header(out, BINDING_SUCCESS, &self.transaction);
        let end = write_attribute(out, at, XOR_MAPPED_ADDRESS, address_len(self.mapped));
        write_address(out, at + ATTRIBUTE, self.mapped, Some(&self.transaction));
        at = end;
        if let Some(other) = self.other {
            write_attribute(out, at, OTHER_ADDRESS, address_len(other));
            write_address(out, at + ATTRIBUTE, other, None);
        }
        write_fingerprint(out);
        length
    }

    /// Reads an answer. Whose it is says [`Self::transaction`]: one that nobody waits for is to be dropped.
    ///
    /// # Errors
    /// [`BadStun`] when it is none, or does not say where we are.
    pub fn parse(datagram: &[u8]) -> Result<Self, BadStun> {
        let (transaction, attributes) = open(datagram, BINDING_SUCCESS)?;
        let (mut mapped, mut other) = (None, None);
        for attribute in attributes {
            match attribute? {
                (XOR_MAPPED_ADDRESS, value) if mapped.is_none() => {
                    mapped = Some(read_address(value, Some(&transaction)).ok_or(BadStun::Attribute)?);
                }
                (OTHER_ADDRESS, value) if other.is_none() => {
                    other = Some(read_address(value, None).ok_or(BadStun::Attribute)?);
                }
                // RFC 8489 section 14: of several of a kind, the first one counts. The rest is what older servers say besides.
                (XOR_MAPPED_ADDRESS | PADDING, _) => {}
                (kind, _) => must_know(kind)?,
            }
        }
        Ok(Self { transaction, mapped: mapped.ok_or(BadStun::Attribute)?, other })
    }
}

/// What a server answers to a datagram from `source`, and whether from its other port. `other` is where it answers from if asked to change the port,
/// as the asker sees it, if it knows.
///
/// # Errors
/// [`BadStun`]: there is no answer then.
pub fn answer(
    datagram: &[u8],
    source: SocketAddr,
    other: Option<SocketAddr>,
) -> Result<(BindingResponse, bool), BadStun> {
    let request = BindingRequest::parse(datagram)?;
    let answer = BindingResponse { transaction: request.transaction, mapped: source, other };
    if answer.len() > datagram.len() {
        return Err(BadStun::ShorterThanItsAnswer);
    }
    Ok((answer, request.change_port))
}

/// Why a datagram is no message of STUN that is of use here. Nothing of it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadStun {
    /// No message of Binding, or of another kind than was to be read.
    NotStun,
    /// An attribute that is cut, or whose value cannot be, or that has to be there and is not.
    Attribute,
    /// The checksum at its end is wrong, or is not the end.
    Fingerprint,
    /// It says or asks what may not be passed over, and what this code does not know.
    Unsupported,
    /// A request that would be answered by more than it has.
    ShorterThanItsAnswer,
}

impl fmt::Display for BadStun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotStun => "no Binding message of STUN; it is dropped",
            Self::Attribute => "a STUN message whose attributes are cut, wrong or missing; it is dropped",
            Self::Fingerprint => "a STUN message with a wrong checksum; it is dropped",
            Self::Unsupported => "a STUN message that needs more of STUN than taut has; it is dropped",
            Self::ShorterThanItsAnswer => "a STUN request that is shorter than its answer would be; it gets none",
        })
    }
}

impl core::error::Error for BadStun {}

/// The parts of a message of this type: transaction and attributes without the fingerprint, which is checked.
fn open(datagram: &[u8], kind: u16) -> Result<(Transaction, Attributes<'_>), BadStun> {
    if !is_stun(datagram) || be16(datagram, 0) != kind {
        return Err(BadStun::NotStun);
    }
    let transaction = *array(datagram, 8).ok_or(BadStun::NotStun)?;
    Ok((transaction, Attributes::new(datagram, HEADER)))
}

/// RFC 8489 section 14: what has a type below 0x8000 may not be passed over by who does not know it.
fn must_know(kind: u16) -> Result<(), BadStun> {
    // MAPPED-ADDRESS, which servers say besides for those who know no other.
    let known = kind >= 0x8000 || kind == 0x0001;
    if known { Ok(()) } else { Err(BadStun::Unsupported) }
}

fn write_header(out: &mut [u8], kind: u16, transaction: &Transaction) -> usize {
    put16(out, 0, kind);
    put16(out, 2, low16(out.len().saturating_sub(HEADER)));
    put(out, 4, COOKIE);
    put(out, 8, *transaction);
    HEADER
}

/// Writes type and length at `at`; says where the next attribute begins.
fn write_attribute(out: &mut [u8], at: usize, kind: u16, length: usize) -> usize {
    put16(out, at, kind);
    put16(out, at + 2, low16(length));
    at + ATTRIBUTE + length.next_multiple_of(4)
}

fn write_fingerprint(out: &mut [u8]) {
    let at = out.len().saturating_sub(FINGERPRINT_LEN);
    write_attribute(out, at, FINGERPRINT, 4);
    let sum = attributes::fingerprint(out.get(..at).unwrap_or_default());
    put(out, at + ATTRIBUTE, sum.to_be_bytes());
}

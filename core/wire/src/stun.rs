//! STUN's Binding method (RFC 8489), and the one request of RFC 5780 that shows how a NAT filters.
//!
//! A node asks a relay for the source address of its datagrams, and the relay answers. The only state is the node's random transaction id.
//!
//! ```text
//! header     type (2)  length (2)  21 12 a4 42  transaction (12)          20 bytes; integers big-endian; type 1 asks, 0x0101 answers
//! attribute  type (2)  length (2)  value, zeros up to a multiple of 4
//!   0x0003   CHANGE-REQUEST       4       in requests: bit 1 asks for an answer from the other port, bit 2 from another address
//!   0x0020   XOR-MAPPED-ADDRESS   8, 20   in answers: source of the request
//!   0x802c   OTHER-ADDRESS        8, 20   in answers: the server's other address
//!   0x8022   SOFTWARE             any     in requests: padding up to REQUEST_LEN
//!   0x8028   FINGERPRINT          4       last: CRC-32 of the bytes before it, which identifies STUN
//! ```
//! A request of a node is as long as the longest answer, and a server ignores requests that are shorter than their answers (law 12), so that a forged source
//! address gains no amplification. SOFTWARE pads a request, because every server ignores it; RFC 5780's PADDING would be answered by padding or an error.
//! No message is authentic: an attacker on the path, or one that guesses the 12 bytes of a transaction, can forge answers. An answer is a hint; a probe
//! proves it.

mod attributes;
#[cfg(test)]
mod tests;

use core::fmt;
use core::net::SocketAddr;

use crate::bytes::{array, be16, low16, put, put8, put16};
use attributes::{Attributes, address_len, read_address, write_address};

/// Length of a node's request: that of the longest answer.
pub const REQUEST_LEN: usize = MAX_ANSWER_LEN;
/// Length of the longest answer: two IPv6 addresses and a fingerprint.
pub const MAX_ANSWER_LEN: usize = HEADER + 2 * (ATTRIBUTE + 20) + FINGERPRINT_LEN;
/// Longest message that is read, 1,280 bytes. A server may add attributes, but not so many that the answer is fragmented.
pub const MAX_LEN: usize = 1280;

const HEADER: usize = 20;
/// Length of an attribute's header: type and length.
const ATTRIBUTE: usize = 4;
/// Length of the fingerprint attribute.
const FINGERPRINT_LEN: usize = ATTRIBUTE + 4;
/// Magic cookie (RFC 8489 section 5), which identifies STUN.
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

/// Beginning of SOFTWARE, before its padding. It has no version, which would help attackers.
const NAME: &[u8] = b"taut";

/// Random id of one request. An answer that repeats it comes from a receiver of the request.
pub type Transaction = [u8; 12];

/// Returns true if the header of a datagram is that of a Binding message. WireGuard messages and relay frames never match: for a WireGuard message the
/// lengths could agree only at 20 bytes, and all are longer.
pub fn is_stun(datagram: &[u8]) -> bool {
    let kind = be16(datagram, 0);
    matches!(kind, BINDING_REQUEST | BINDING_SUCCESS | BINDING_ERROR)
        && datagram.len() <= MAX_LEN
        && datagram.len().is_multiple_of(4)
        && array(datagram, 4) == Some(&COOKIE)
        && usize::from(be16(datagram, 2)) + HEADER == datagram.len()
}

/// A Binding request, which asks a server for the source address of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindingRequest {
    /// Id of the request.
    pub transaction: Transaction,
    /// Asks for an answer from the server's other port. It arrives only through a NAT that does not filter by port.
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
        // Spaces instead of zeros, because the value is text.
        for (place, byte) in out.iter_mut().skip(value).take(filled).zip(NAME.iter().chain(core::iter::repeat(&b' '))) {
            *place = *byte;
        }
        write_fingerprint(out);
    }

    /// Reads a request.
    ///
    /// # Errors
    /// [`BadStun`] if it is not a request, or asks for an unsupported feature. The server sends no answer.
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

/// A Binding success response, which tells the source address of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindingResponse {
    /// Id of the request.
    pub transaction: Transaction,
    /// Source of the request, as the server saw it.
    pub mapped: SocketAddr,
    /// The server's other address, if it has told one.
    pub other: Option<SocketAddr>,
}

impl BindingResponse {
    /// Returns the length of the written response.
    pub fn len(&self) -> usize {
        let other = self.other.map_or(0, |other| ATTRIBUTE + address_len(other));
        HEADER + ATTRIBUTE + address_len(self.mapped) + other + FINGERPRINT_LEN
    }

    /// Returns false: a response has a header.
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

    /// Reads a response. The caller drops it if its transaction is not outstanding.
    ///
    /// # Errors
    /// [`BadStun`] if it is not a success response, or has no mapped address.
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
                // RFC 8489 section 14: the first attribute of a type counts. Older servers add PADDING.
                (XOR_MAPPED_ADDRESS | PADDING, _) => {}
                (kind, _) => must_know(kind)?,
            }
        }
        Ok(Self { transaction, mapped: mapped.ok_or(BadStun::Attribute)?, other })
    }
}

/// Returns the response to a datagram from `source`, and true if it has to be sent from the server's other port. `other` is the address of that port as the
/// node sees it, if the server knows.
///
/// # Errors
/// [`BadStun`] if there is no response.
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

/// Why a datagram is not a supported STUN message. It is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadStun {
    /// Not a Binding message of the expected type.
    NotStun,
    /// A truncated, invalid or missing attribute.
    Attribute,
    /// The fingerprint is wrong, or not the last attribute.
    Fingerprint,
    /// An attribute that must be understood is unknown.
    Unsupported,
    /// A request that is shorter than its answer.
    ShorterThanItsAnswer,
}

impl fmt::Display for BadStun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotStun => "not a Binding message of STUN; it is dropped",
            Self::Attribute => "a STUN message whose attributes are truncated, wrong or missing; it is dropped",
            Self::Fingerprint => "a STUN message with a wrong checksum; it is dropped",
            Self::Unsupported => "a STUN message with an attribute that taut does not support; it is dropped",
            Self::ShorterThanItsAnswer => "a STUN request that is shorter than its answer would be; it gets no answer",
        })
    }
}

impl core::error::Error for BadStun {}

/// Returns transaction and attributes of a message of this type. The attributes exclude the fingerprint, which is checked.
fn open(datagram: &[u8], kind: u16) -> Result<(Transaction, Attributes<'_>), BadStun> {
    if !is_stun(datagram) || be16(datagram, 0) != kind {
        return Err(BadStun::NotStun);
    }
    let transaction = *array(datagram, 8).ok_or(BadStun::NotStun)?;
    Ok((transaction, Attributes::new(datagram, HEADER)))
}

/// Checks that an unknown attribute may be ignored: only types from 0x8000 on may (RFC 8489 section 14).
fn must_know(kind: u16) -> Result<(), BadStun> {
    // MAPPED-ADDRESS, which servers add for older clients.
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

/// Writes type and length of an attribute at `at`. Returns the offset of the next attribute.
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

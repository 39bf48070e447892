//! Echo requests and replies of ICMP (RFC 792) and ICMPv6 (RFC 4443, 4): read, and written whole; the error about a packet that is too long; and what an error is about.

mod about;
mod too_big;

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use about::{ErrorAbout, Quoted};
pub use too_big::{TOO_BIG_MAX, write_too_big};

use crate::bytes::{be16, low16, put, put8, put16, put32};
use crate::checksum::{self, Sum, pseudo_v6};
use crate::ip::{ICMP, ICMPV6, Packet, V4_HEADER, V6_HEADER, Version, v4, v6};

/// Length of an echo message's header, 8 bytes.
pub const HEADER: usize = 8;
/// Hop limit of written packets, 64: the value that the IP registry recommends (RFC 1700, "IP TTL").
pub const HOP_LIMIT: u8 = 64;

/// Types of ICMP echo (RFC 792).
const V4_REPLY: u8 = 0;
const V4_REQUEST: u8 = 8;
/// Types of ICMPv6 echo (RFC 4443, 4.1 and 4.2).
const V6_REQUEST: u8 = 128;
const V6_REPLY: u8 = 129;

/// Kind of an echo message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EchoKind {
    /// Echo request.
    Request,
    /// Echo reply.
    Reply,
}

/// An echo message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo<'a> {
    /// Request or reply.
    pub kind: EchoKind,
    /// Identifier of the sender; the reply repeats it.
    pub ident: u16,
    /// Number of the request; the reply repeats it.
    pub sequence: u16,
    /// Any bytes; the reply repeats them.
    pub payload: &'a [u8],
}

/// Why a packet is not an echo message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotEcho {
    /// Another protocol, another ICMP type or code, or a fragment.
    OtherKind,
    /// The message is cut off.
    Short,
    /// The checksum is wrong.
    Checksum,
}

impl fmt::Display for NotEcho {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotEcho::OtherKind => "the packet is no whole ICMP echo message",
            NotEcho::Short => "the ICMP echo message is cut off",
            NotEcho::Checksum => "the checksum of the ICMP echo message is wrong",
        })
    }
}

impl core::error::Error for NotEcho {}

/// Why an echo message was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwritable {
    /// The output is too small.
    NoRoom {
        /// Bytes that are needed.
        needed: usize,
    },
    /// The packet would be longer than IP allows.
    TooLong,
    /// One address is IPv4 and the other IPv6.
    MixedFamilies,
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unwritable::NoRoom { needed } => write!(f, "the echo message takes {needed} bytes; give a larger buffer"),
            Unwritable::TooLong => f.write_str("the echo message would be longer than an IP packet; send less payload"),
            Unwritable::MixedFamilies => {
                f.write_str("source and destination are of different IP versions; use two of the same")
            }
        }
    }
}

impl core::error::Error for Unwritable {}

impl<'a> Echo<'a> {
    /// Reads the echo message in an IP packet and verifies its checksum.
    ///
    /// # Errors
    /// [`NotEcho`] if it is not an echo message.
    pub fn parse(packet: &Packet<'a>) -> Result<Echo<'a>, NotEcho> {
        if packet.is_fragment() {
            return Err(NotEcho::OtherKind);
        }
        let message = packet.payload();
        let pseudo_header = match (packet.version(), packet.protocol()) {
            (Version::V4, ICMP) => Sum::ZERO,
            (Version::V6, ICMPV6) => packet.pseudo_header(low16(message.len())),
            _ => return Err(NotEcho::OtherKind),
        };
        let payload = message.get(HEADER..).ok_or(NotEcho::Short)?;
        let kind = match (packet.version(), be16(message, 0).to_be_bytes()) {
            (Version::V4, [V4_REQUEST, 0]) | (Version::V6, [V6_REQUEST, 0]) => EchoKind::Request,
            (Version::V4, [V4_REPLY, 0]) | (Version::V6, [V6_REPLY, 0]) => EchoKind::Reply,
            _ => return Err(NotEcho::OtherKind),
        };
        if pseudo_header + Sum::of(message) != checksum::VALID {
            return Err(NotEcho::Checksum);
        }
        Ok(Echo { kind, ident: be16(message, 4), sequence: be16(message, 6), payload })
    }

    /// Returns the length of the ICMP message.
    #[must_use]
    pub const fn message_len(&self) -> usize {
        HEADER + self.payload.len()
    }

    /// Writes the ICMP message with its checksum, without an IP header, and returns its length. The addresses decide between ICMP and ICMPv6, whose checksum
    /// covers them.
    ///
    /// # Errors
    /// [`Unwritable`] if nothing was written.
    pub fn write_message(&self, source: IpAddr, destination: IpAddr, out: &mut [u8]) -> Result<usize, Unwritable> {
        let len = self.message_len();
        let (version, pseudo_header) = match (source, destination) {
            (IpAddr::V4(_), IpAddr::V4(_)) => (Version::V4, Sum::ZERO),
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let length = u32::try_from(len).map_err(|_| Unwritable::TooLong)?;
                (Version::V6, pseudo_v6(from, to, ICMPV6, length))
            }
            _ => return Err(Unwritable::MixedFamilies),
        };
        let out = out.get_mut(..len).ok_or(Unwritable::NoRoom { needed: len })?;
        put(out, 0, [self.type_number(version), 0, 0, 0]);
        put16(out, 4, self.ident);
        put16(out, 6, self.sequence);
        if let Some(body) = out.get_mut(HEADER..) {
            body.copy_from_slice(self.payload);
        }
        let checksum = (pseudo_header + Sum::of(out)).checksum();
        put16(out, 2, checksum);
        Ok(len)
    }

    /// Writes the IP packet and returns its length.
    ///
    /// # Errors
    /// [`Unwritable`] if it does not fit. The content of `out` is undefined then.
    pub fn write_packet(&self, source: IpAddr, destination: IpAddr, out: &mut [u8]) -> Result<usize, Unwritable> {
        let header = if source.is_ipv4() { V4_HEADER } else { V6_HEADER };
        let needed = header + self.message_len();
        let total = u16::try_from(needed).map_err(|_| Unwritable::TooLong)?;
        let Some((head, message)) = out.split_at_mut_checked(header) else {
            return Err(Unwritable::NoRoom { needed });
        };
        let written = self.write_message(source, destination, message).map_err(|error| match error {
            Unwritable::NoRoom { .. } => Unwritable::NoRoom { needed },
            other => other,
        })?;
        match (source, destination) {
            (IpAddr::V4(from), IpAddr::V4(to)) => write_v4_header(head, from, to, total),
            (IpAddr::V6(from), IpAddr::V6(to)) => write_v6_header(head, from, to, low16(written)),
            _ => return Err(Unwritable::MixedFamilies),
        }
        Ok(needed)
    }

    const fn type_number(&self, version: Version) -> u8 {
        match (version, self.kind) {
            (Version::V4, EchoKind::Request) => V4_REQUEST,
            (Version::V4, EchoKind::Reply) => V4_REPLY,
            (Version::V6, EchoKind::Request) => V6_REQUEST,
            (Version::V6, EchoKind::Reply) => V6_REPLY,
        }
    }
}

/// Writes an IPv4 header without options. DF is set, so the ID may be zero (RFC 6864, 4.1).
fn write_v4_header(head: &mut [u8], from: Ipv4Addr, to: Ipv4Addr, total: u16) {
    head.fill(0);
    put8(head, 0, 0x45);
    put16(head, v4::TOTAL_LENGTH, total);
    put16(head, v4::FLAGS, v4::DONT_FRAGMENT);
    put8(head, v4::TTL, HOP_LIMIT);
    put8(head, v4::PROTOCOL, ICMP);
    put(head, v4::SOURCE, from.octets());
    put(head, v4::DESTINATION, to.octets());
    let checksum = Sum::of(head).checksum();
    put16(head, v4::CHECKSUM, checksum);
}

fn write_v6_header(head: &mut [u8], from: Ipv6Addr, to: Ipv6Addr, length: u16) {
    put32(head, 0, 6 << 28);
    put16(head, v6::PAYLOAD_LENGTH, length);
    put8(head, v6::NEXT_HEADER, ICMPV6);
    put8(head, v6::HOP_LIMIT, HOP_LIMIT);
    put(head, v6::SOURCE, from.octets());
    put(head, v6::DESTINATION, to.octets());
}

#[cfg(test)]
mod tests;

//! The packet that an ICMP error quotes, and its destination (RFC 792; RFC 4443, 2.4).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::HEADER;
use crate::bytes::{array, u8_at};
use crate::ip::{ICMP, ICMPV6, Packet, V4_HEADER, V6_HEADER, Version, v4, v6};

/// Types of ICMP errors: destination unreachable, source quench, redirect, time exceeded, parameter problem (RFC 792).
const V4_ERRORS: [u8; 5] = [3, 4, 5, 11, 12];
/// First type of ICMPv6 that is no error (RFC 4443, 2.1).
const V6_FIRST_OTHER: u8 = 128;

/// Whether a packet is an ICMP error, and about which packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorAbout {
    /// It is no ICMP error.
    #[default]
    Nothing,
    /// It is an error about a packet to this address.
    PacketTo(IpAddr),
    /// It is an error, and the packet that it is about cannot be read.
    Unknown,
}

impl ErrorAbout {
    /// Reads a packet. A fragment other than the first is no error: without its first one, it is worth nothing.
    #[must_use]
    #[inline]
    pub fn of(packet: &Packet<'_>) -> Self {
        match (packet.version(), packet.protocol()) {
            (Version::V4, ICMP) | (Version::V6, ICMPV6) => Self::of_icmp(packet),
            _ => Self::Nothing,
        }
    }

    #[cold]
    fn of_icmp(packet: &Packet<'_>) -> Self {
        let message = packet.payload();
        let Some(kind) = message.first() else { return Self::Nothing };
        let is_error = match packet.version() {
            Version::V4 => V4_ERRORS.contains(kind),
            Version::V6 => *kind < V6_FIRST_OTHER,
        };
        if packet.is_later_fragment() || !is_error {
            return Self::Nothing;
        }
        let quoted = message.get(HEADER..).unwrap_or_default();
        let to = match (packet.version(), u8_at(quoted, 0) >> 4) {
            (Version::V4, 4) if quoted.len() >= V4_HEADER => {
                array(quoted, v4::DESTINATION).map(|octets: &[u8; 4]| Ipv4Addr::from(*octets).into())
            }
            (Version::V6, 6) if quoted.len() >= V6_HEADER => {
                array(quoted, v6::DESTINATION).map(|octets: &[u8; 16]| Ipv6Addr::from(*octets).into())
            }
            _ => None,
        };
        to.map_or(Self::Unknown, Self::PacketTo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{Ip, payload};

    fn of(bytes: &[u8]) -> ErrorAbout {
        ErrorAbout::of(&Packet::parse(bytes).unwrap())
    }

    fn error(kind: u8, quoted: &[u8]) -> Vec<u8> {
        [&[kind, 4, 0, 0, 0, 0, 2, 0], quoted].concat()
    }

    #[test]
    fn an_error_names_the_destination_of_the_packet_that_it_quotes() {
        let (four, six) = (Ip::v4().udp((1, 2), &payload(30, 1)), Ip::v6().udp((1, 2), &payload(30, 1)));
        let to = |bytes: &[u8]| ErrorAbout::PacketTo(Packet::parse(bytes).unwrap().destination());
        for kind in [3, 4, 5, 11, 12] {
            assert_eq!(of(&Ip::v4().carry(ICMP, &error(kind, &four))), to(&four), "{kind}");
            assert_eq!(
                of(&Ip::v4().carry(ICMP, &error(kind, &four[..28]))),
                to(&four),
                "{kind}: as little as RFC 792 asks for"
            );
        }
        for kind in [1, 2, 3, 4, 127] {
            assert_eq!(of(&Ip::v6().carry(ICMPV6, &error(kind, &six))), to(&six), "{kind}");
        }
        for kind in [0, 8, 13] {
            assert_eq!(of(&Ip::v4().carry(ICMP, &error(kind, &four))), ErrorAbout::Nothing, "{kind}");
        }
        for kind in [128, 129, 135, 255] {
            assert_eq!(of(&Ip::v6().carry(ICMPV6, &error(kind, &six))), ErrorAbout::Nothing, "{kind}");
        }
        assert_eq!(of(&four), ErrorAbout::Nothing);
        assert_eq!(of(&Ip::v4().carry(ICMPV6, &error(1, &four))), ErrorAbout::Nothing, "ICMPv6 in IPv4 is none");
    }

    #[test]
    fn an_error_whose_quote_cannot_be_read_is_not_taken_for_another_packet() {
        let (four, six) = (Ip::v4().udp((1, 2), &payload(30, 1)), Ip::v6().udp((1, 2), &payload(30, 1)));
        for quoted in [&four[..19], &[], &six] {
            assert_eq!(of(&Ip::v4().carry(ICMP, &error(3, quoted))), ErrorAbout::Unknown);
        }
        for quoted in [&six[..39], &[], &four] {
            assert_eq!(of(&Ip::v6().carry(ICMPV6, &error(2, quoted))), ErrorAbout::Unknown);
        }
        // The first fragment of an error, cut before what it quotes; a later fragment is no error by itself.
        let mut first = Ip::v4().carry(ICMP, &error(3, &[]));
        first[6] = 0x20;
        assert_eq!(of(&first), ErrorAbout::Unknown);
        first[7] = 1;
        assert_eq!(of(&first), ErrorAbout::Nothing);
        // The same for IPv6, with another extension header behind the fragment header.
        let fragment = |offset: u8| {
            [&[60, 0, 0, offset << 3 | 1, 0, 0, 0, 1, ICMPV6, 0, 0, 0, 0, 0, 0, 0][..], &error(2, &six)].concat()
        };
        assert_eq!(
            of(&Ip::v6().carry(44, &fragment(0))),
            ErrorAbout::PacketTo(Packet::parse(&six).unwrap().destination())
        );
        assert_eq!(of(&Ip::v6().carry(44, &fragment(1))), ErrorAbout::Nothing);
    }
}

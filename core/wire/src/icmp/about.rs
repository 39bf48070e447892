//! The packet that an ICMP error quotes, and its destination (RFC 792; RFC 4443, 2.4).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::HEADER;
use crate::bytes::{array, be16, u8_at};
use crate::ip::{self, ICMP, ICMPV6, Packet, V4_HEADER, V6_HEADER, Version, v4, v6};

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

/// The packet that an ICMP error quotes, as far as errors have to quote it (RFC 792; RFC 4443, 2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Source of the quoted packet: the host that the error is for.
    pub source: IpAddr,
    /// Destination of the quoted packet.
    pub destination: IpAddr,
    /// Protocol of the quoted packet, behind all extension headers.
    pub protocol: u8,
    /// The first bytes of its upper layer. TCP, UDP and SCTP have their ports there, source first.
    pub head: [u8; 8],
}

impl Quoted {
    /// Reads the packet that an ICMP error quotes. Returns `None` if `packet` is no whole error, if too little is quoted, or if the quoted packet is a fragment other than the
    /// first, which has no ports.
    #[must_use]
    pub fn of(packet: &Packet<'_>) -> Option<Self> {
        if packet.is_fragment() || ErrorAbout::of(packet) == ErrorAbout::Nothing {
            return None;
        }
        let quoted = packet.payload().get(HEADER..)?;
        let (header, protocol) = match (packet.version(), u8_at(quoted, 0) >> 4) {
            (Version::V4, 4) => {
                let later = be16(quoted, v4::FLAGS) & v4::OFFSET != 0;
                let header = usize::from(u8_at(quoted, 0) & 0x0f) * 4;
                if later || header < V4_HEADER {
                    return None;
                }
                (header, u8_at(quoted, v4::PROTOCOL))
            }
            (Version::V6, 6) => ip::upper_layer_v6(quoted)?,
            _ => return None,
        };
        let (source, destination) = match packet.version() {
            Version::V4 => {
                let at = |at| array(quoted, at).map(|octets: &[u8; 4]| IpAddr::from(*octets));
                (at(v4::SOURCE)?, at(v4::DESTINATION)?)
            }
            Version::V6 => {
                let at = |at| array(quoted, at).map(|octets: &[u8; 16]| IpAddr::from(*octets));
                (at(v6::SOURCE)?, at(v6::DESTINATION)?)
            }
        };
        Some(Self { source, destination, protocol, head: *array(quoted, header)? })
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

    #[test]
    fn fault_g7_the_quoted_flow_is_read_behind_options_and_extension_headers() {
        let quoted = |bytes: &[u8]| Quoted::of(&Packet::parse(bytes).unwrap());
        let four = Ip::v4().udp((1, 2), &payload(30, 1));
        let found = quoted(&Ip::v4().carry(ICMP, &error(3, &four[..28]))).unwrap();
        assert_eq!((found.protocol, &found.head[..4]), (17, &[0, 1, 0, 2][..]));
        let whole = Packet::parse(&four).unwrap();
        assert_eq!((found.source, found.destination), (whole.source(), whole.destination()));
        assert_eq!(
            quoted(&Ip::v4().carry(ICMP, &error(3, &four[..27]))),
            None,
            "eight bytes of the upper layer are quoted"
        );
        assert_eq!(quoted(&Ip::v4().carry(ICMP, &error(8, &four))), None, "no error");
        let mut later = four;
        later[7] = 1;
        assert_eq!(quoted(&Ip::v4().carry(ICMP, &error(3, &later))), None);

        let udp = Ip::v6().udp((1, 2), &payload(30, 1));
        let mut behind = udp[..40].to_vec();
        behind[6] = 60;
        behind.extend([17, 0, 0, 0, 0, 0, 0, 0]);
        behind.extend(&udp[40..]);
        let found = quoted(&Ip::v6().carry(ICMPV6, &error(1, &behind))).unwrap();
        assert_eq!((found.protocol, &found.head[..4]), (17, &[0, 1, 0, 2][..]));
        assert_eq!(quoted(&Ip::v6().carry(ICMPV6, &error(1, &behind[..50]))), None);
    }
}

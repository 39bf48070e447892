//! The ICMP error that tells a sender the longest packet that passes: "fragmentation needed" (RFC 1191, 4) and "packet too big" (RFC 4443, 3.2).

use core::net::IpAddr;

use super::{HEADER, write_v4_header, write_v6_header};
use crate::bytes::{be16, low16, put, put16, put32, u8_at};
use crate::checksum::{Sum, pseudo_v6};
use crate::ip::{ICMP, ICMPV6, Packet, V4_HEADER, V6_HEADER, Version, v4};

/// Length of the longest error packet, 1,280 bytes: IPv6 quotes as much of the packet as fits into its minimum MTU (RFC 4443, 3.2).
pub const TOO_BIG_MAX: usize = 1_280;

/// Bytes of an IPv4 error packet at most, 576 (RFC 1812, 4.3.2.3).
const V4_MAX: usize = 576;

const UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;
const V6_TOO_BIG: u8 = 2;

/// Writes the error about `packet`, which is too long for packets of at most `mtu` bytes, and returns its length. It comes from the destination of the
/// packet and goes to its source.
///
/// Returns `None` if there must be no such error: the packet is another ICMP error or a later fragment, or an IPv4 packet that may be fragmented; or if `out`
/// has less than [`TOO_BIG_MAX`] bytes.
pub fn write_too_big(packet: &Packet<'_>, mtu: u16, out: &mut [u8; TOO_BIG_MAX]) -> Option<usize> {
    if is_error(packet) {
        return None;
    }
    let (from, to) = (packet.destination(), packet.source());
    let (header, longest) = match packet.version() {
        Version::V4 => (V4_HEADER, V4_MAX),
        Version::V6 => (V6_HEADER, TOO_BIG_MAX),
    };
    let quoted = packet.bytes().get(..packet.bytes().len().min(longest - header - HEADER))?;
    let length = HEADER + quoted.len();
    let (head, message) = out.get_mut(..header + length)?.split_at_mut_checked(header)?;
    message.get_mut(HEADER..)?.copy_from_slice(quoted);
    let pseudo_header = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let may_fragment = be16(packet.bytes(), v4::FLAGS) & v4::DONT_FRAGMENT == 0;
            if may_fragment {
                return None;
            }
            put(message, 0, [UNREACHABLE, FRAGMENTATION_NEEDED, 0, 0, 0, 0]);
            put16(message, 6, mtu);
            write_v4_header(head, from, to, low16(header + length));
            Sum::ZERO
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            put(message, 0, [V6_TOO_BIG, 0, 0, 0]);
            put32(message, 4, u32::from(mtu));
            write_v6_header(head, from, to, low16(length));
            pseudo_v6(from, to, ICMPV6, u32::from(low16(length)))
        }
        _ => return None,
    };
    let checksum = (pseudo_header + Sum::of(message)).checksum();
    put16(message, 2, checksum);
    Some(header + length)
}

/// Returns true if no ICMP error may be sent about the packet: it is an error itself, or a fragment (RFC 1122, 3.2.2; RFC 4443, 2.4).
fn is_error(packet: &Packet<'_>) -> bool {
    let kind = u8_at(packet.payload(), 0);
    let error = match (packet.version(), packet.protocol()) {
        // Only these are queries: echo, router discovery, timestamp and the obsolete ones.
        (Version::V4, ICMP) => !matches!(kind, 0 | 8..=10 | 13..=18),
        (Version::V6, ICMPV6) => kind < 128,
        _ => false,
    };
    error || packet.is_fragment()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{Ip, Tcp, naive_sum, payload};

    fn error(packet: &[u8], mtu: u16) -> Option<Vec<u8>> {
        let mut out = [0xee; TOO_BIG_MAX];
        let length = write_too_big(&Packet::parse(packet).unwrap(), mtu, &mut out)?;
        Some(out[..length].to_vec())
    }

    fn long(ip: &Ip) -> Vec<u8> {
        ip.tcp(&Tcp { payload: payload(3_000, 1), ..Tcp::default() })
    }

    #[test]
    fn the_error_goes_back_and_quotes_the_packet() {
        let packet = long(&Ip::v4());
        let found = error(&packet, 1_300).unwrap();
        assert_eq!((found.len(), &found[20..22], &found[26..28]), (576, &[3, 4][..], &[5, 0x14][..]));
        assert_eq!((&found[12..16], &found[16..20]), (&packet[16..20], &packet[12..16]));
        assert_eq!(found[28..], packet[..548]);
        assert_eq!((naive_sum(&found[..20]), naive_sum(&found[20..])), (0xffff, 0xffff));

        let packet = long(&Ip::v6());
        let found = error(&packet, 1_300).unwrap();
        assert_eq!((found.len(), &found[40..42], &found[44..48]), (1_280, &[2, 0][..], &[0, 0, 5, 0x14][..]));
        assert_eq!((&found[8..24], &found[24..40]), (&packet[24..40], &packet[8..24]));
        assert_eq!(found[48..], packet[..1_232]);
        let pseudo = [&found[8..40], &[0, 0, 4, 216, 0, 0, 0, 58], &found[40..]].concat();
        assert_eq!(naive_sum(&pseudo), 0xffff);
    }

    #[test]
    fn no_error_about_errors_fragments_and_packets_that_may_be_fragmented() {
        let mut packet = long(&Ip::v4());
        packet[6] = 0;
        assert_eq!(error(&packet, 1_300), None, "may be fragmented");
        (packet[6], packet[7]) = (0x60, 0);
        assert_eq!(error(&packet, 1_300), None, "a fragment");
        for (ip, protocol, query) in [(Ip::v4(), ICMP, 8), (Ip::v6(), ICMPV6, 128)] {
            let mut message = payload(2_000, 1);
            message[0] = query;
            assert!(error(&ip.carry(protocol, &message), 1_300).is_some());
            message[0] = 3;
            assert_eq!(error(&ip.carry(protocol, &message), 1_300), None, "an error");
        }
    }
}

//! The maximum segment size that a TCP connection announces in its first packet of each direction (RFC 9293, 3.7.1), and lowering it.
//!
//! The end points of a forwarded connection know only the MTU of their own links. Without a lower value they would send segments that are too long for the
//! tunnel between them, and depend on ICMP errors that many networks drop (fault I5).

use crate::bytes::{be16, put16, u8_at};
use crate::checksum;
use crate::ip::{self, Packet, V4_HEADER, V6_HEADER, Version};
use crate::tcp;

/// Kinds of TCP options (RFC 9293, 3.1). Every other kind has its length in its second byte.
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MSS: u8 = 2;

/// Returns true if a packet opens a TCP connection: it has the flag SYN, and perhaps a maximum segment size.
#[must_use]
#[inline]
pub fn opens_connection(packet: &Packet<'_>) -> bool {
    packet.protocol() == ip::TCP
        && u8_at(packet.payload(), tcp::field::FLAGS) & tcp::SYN != 0
        && !packet.is_fragment()
        && !packet.has_routing_header()
}

/// Lowers the maximum segment size in `bytes`, a packet that [opens a connection](opens_connection), to what fits into packets of `mtu` bytes. A packet
/// without the option and one with a value that fits stay as they are. The checksum is updated, so a wrong one stays wrong; a
/// [partial](crate::partial_checksum) one does not cover the option. Returns true if the value was lowered.
pub fn lower(bytes: &mut [u8], mtu: usize, is_partial: bool) -> bool {
    let Ok(packet) = Packet::parse(bytes) else { return false };
    let Some((place, announced)) = find(&packet) else { return false };
    let headers = tcp::HEADER + if packet.version() == Version::V4 { V4_HEADER } else { V6_HEADER };
    let highest = u16::try_from(mtu.saturating_sub(headers)).unwrap_or(u16::MAX);
    if announced <= highest {
        return false;
    }
    let transport = packet.header_len();
    put16(bytes, transport + place, highest);
    if !is_partial {
        // A word at an odd place counts with its bytes swapped (RFC 1071, 2 B).
        let swap = |word: u16| if place.is_multiple_of(2) { word } else { word.swap_bytes() };
        let field = transport + usize::from(tcp::CHECKSUM_OFFSET);
        let sum = checksum::updated(be16(bytes, field), swap(announced), swap(highest));
        put16(bytes, field, sum);
    }
    true
}

/// Returns the value of the option and its place behind the IP header.
fn find(packet: &Packet<'_>) -> Option<(usize, u16)> {
    let segment = tcp::Segment::parse(packet.payload()).ok()?;
    let mut options = segment.options();
    while let Some((kind, rest)) = options.split_first() {
        options = match *kind {
            END => return None,
            NO_OPERATION => rest,
            kind => {
                let length = usize::from(*rest.first()?);
                if kind == MSS && length == 4 && options.len() >= 4 {
                    return Some((segment.header_len() - options.len() + 2, be16(options, 2)));
                }
                // A length below 2 would not advance.
                options.get(length.max(2)..)?
            }
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testkit::{Ip, Tcp, is_right};

    /// Options with the value at an even or odd place.
    fn options(before: &[u8], mss: u16) -> Vec<u8> {
        let [high, low] = mss.to_be_bytes();
        let mut options = [before, &[MSS, 4, high, low, 4, 2]].concat();
        options.resize(options.len().next_multiple_of(4), 0);
        options
    }

    fn syn(ip: &Ip, options: Vec<u8>) -> Vec<u8> {
        ip.tcp(&Tcp { flags: tcp::SYN, options, ..Tcp::default() })
    }

    #[test]
    fn fault_i5_the_segment_size_of_a_new_connection_is_lowered_to_the_mtu() {
        for (ip, highest) in [(Ip::v4(), 1_380), (Ip::v6(), 1_360)] {
            for before in [&[][..], &[1], &[1, 1], &[8, 10, 1, 2, 3, 4, 5, 6, 7, 8], &[3, 3, 7]] {
                let mut packet = syn(&ip, options(before, 8_960));
                assert!(opens_connection(&Packet::parse(&packet).unwrap()));
                assert!(lower(&mut packet, 1_420, false));
                assert_eq!(packet, syn(&ip, options(before, highest)), "{before:?}");
                assert!(is_right(&packet) && !lower(&mut packet, 1_420, false));
            }
        }
    }

    #[test]
    fn other_packets_stay_as_they_are() {
        let ip = Ip::v4();
        for options in
            [vec![], options(&[], 1_380), options(&[0], 9_000), vec![MSS, 3, 40, 0], vec![7, 0, MSS, 4], vec![MSS, 4]]
        {
            let mut options = options;
            options.resize(options.len().next_multiple_of(4), 1);
            let packet = syn(&ip, options);
            let mut changed = packet.clone();
            assert!(!lower(&mut changed, 1_420, false));
            assert_eq!(changed, packet);
        }
        let established = ip.tcp(&Tcp { flags: tcp::ACK, ..Tcp::default() });
        assert!(!opens_connection(&Packet::parse(&established).unwrap()));
        assert!(!opens_connection(&Packet::parse(&ip.udp((2, 2), &[2; 30])).unwrap()));
    }

    #[test]
    fn a_partial_checksum_does_not_cover_the_value() {
        let mut packet = syn(&Ip::v4(), options(&[], 9_000));
        let before = packet[36..38].to_vec();
        assert!(lower(&mut packet, 1_420, true));
        assert_eq!(packet[36..38], before);
    }

    proptest! {
        #[test]
        fn takes_any_options(options in proptest::collection::vec(any::<u8>(), 0..=40), mtu in 0_usize..70_000, six: bool) {
            let mut options = options;
            options.truncate(options.len() / 4 * 4);
            let mut packet = syn(&Ip { six, ..Ip::v4() }, options);
            lower(&mut packet, mtu, false);
            prop_assert!(is_right(&packet));
        }
    }
}

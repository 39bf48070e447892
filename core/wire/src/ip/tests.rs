use super::*;
use crate::testkit::{Ip, Tcp, payload};
use proptest::prelude::*;

#[test]
fn v4_fields() {
    let bytes = Ip { tos: 0xb9, ..Ip::v4() }.tcp(&Tcp { payload: payload(10, 1), ..Tcp::default() });
    let packet = Packet::parse(&bytes).unwrap();
    assert_eq!((packet.version(), packet.protocol(), packet.header_len()), (Version::V4, TCP, 20));
    assert_eq!(packet.source(), IpAddr::from([10, 0, 0, 1]));
    assert_eq!(packet.destination(), IpAddr::from([10, 0, 0, 2]));
    assert_eq!(packet.traffic_class(), 0xb9);
    assert!(packet.header_checksum_ok() && !packet.is_fragment() && !packet.has_options());
    assert_eq!(packet.payload(), &bytes[20..]);
    assert_eq!(packet.pseudo_header(30).folded(), Ip::v4().pseudo(6, 30));
}

#[test]
fn v6_fields() {
    let bytes = Ip { tos: 0xb9, ..Ip::v6() }.udp((1, 2), &[5; 3]);
    let packet = Packet::parse(&bytes).unwrap();
    assert_eq!((packet.version(), packet.protocol(), packet.header_len()), (Version::V6, UDP, 40));
    assert_eq!(packet.source().to_string(), "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fd01");
    assert_eq!(packet.destination().to_string(), "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fd02");
    assert_eq!(packet.traffic_class(), 0xb9);
    assert!(packet.header_checksum_ok() && !packet.is_fragment() && !packet.has_options());
    assert_eq!(packet.pseudo_header(11).folded(), Ip::v6().pseudo(17, 11));
}

#[test]
fn padding_is_ignored() {
    for ip in [Ip::v4(), Ip::v6()] {
        let exact = ip.udp((1, 2), &[9; 5]);
        let mut padded = exact.clone();
        padded.extend([0; 11]);
        assert_eq!(Packet::parse(&padded).unwrap().bytes(), exact);
    }
}

#[test]
fn wrong_lengths_are_refused_by_name() {
    assert_eq!(Packet::parse(&[]).unwrap_err(), MalformedIp::Empty);
    assert_eq!(Packet::parse(&[0x50; 60]).unwrap_err(), MalformedIp::Version);
    for ip in [Ip::v4(), Ip::v6()] {
        let bytes = ip.udp((1, 2), &[9; 5]);
        assert_eq!(Packet::parse(&bytes[..bytes.len() - 1]).unwrap_err(), MalformedIp::Length);
        assert_eq!(Packet::parse(&bytes[..19]).unwrap_err(), MalformedIp::Header);
    }
    let mut bytes = Ip::v4().udp((1, 2), &[9; 5]);
    bytes[3] = 19;
    assert_eq!(Packet::parse(&bytes).unwrap_err(), MalformedIp::Length);
    bytes[0] = 0x44;
    assert_eq!(Packet::parse(&bytes).unwrap_err(), MalformedIp::Header);
}

#[test]
fn fault_g15_a_source_route_is_found_among_options() {
    let routed = |options: &[u8]| {
        let bytes = Ip { options: options.to_vec(), ..Ip::v4() }.udp((1, 2), &[9; 5]);
        Packet::parse(&bytes).unwrap().is_source_routed()
    };
    let (loose, strict) = ([131, 7, 4, 192, 168, 1, 7, 0], [137, 7, 4, 192, 168, 1, 7, 0]);
    assert!(routed(&loose) && routed(&strict));
    assert!(routed(&[1, 1, 1, 148, 4, 0, 0, 131, 3, 4, 0, 0]), "behind others (RFC 2113)");
    for other in [[1; 8], [0, 131, 0, 0, 0, 0, 0, 0], [148, 4, 0, 0, 0, 0, 0, 0], [7, 8, 131, 137, 131, 137, 0, 0]] {
        assert!(!routed(&other), "{other:?}");
    }
    for lying in [[7, 0, 131, 3], [7, 1, 131, 3], [7, 200, 131, 3], [1, 1, 1, 7]] {
        assert!(!routed(&lying), "{lying:?}");
    }
    assert!(!routed(&[]));
    let mut v6 = Ip::v6().udp((1, 2), &[9; 5]);
    assert!(!Packet::parse(&v6).unwrap().is_source_routed());
    v6.splice(40..40, [UDP, 0, 4, 1, 0, 0, 0, 0]);
    (v6[5], v6[6]) = (v6[5] + 8, 43);
    assert!(Packet::parse(&v6).unwrap().is_source_routed());
}

#[test]
fn v4_options_and_fragments() {
    let bytes = Ip { options: vec![1; 8], ..Ip::v4() }.udp((1, 2), &[9; 5]);
    let packet = Packet::parse(&bytes).unwrap();
    assert!(packet.has_options() && packet.header_checksum_ok());
    assert_eq!(packet.header_len(), 28);
    for (flags, fragment) in
        [(0x4000_u16, false), (0, false), (0x8000, false), (0x2000, true), (1, true), (0x3fff, true)]
    {
        let mut bytes = Ip::v4().udp((1, 2), &[9; 5]);
        bytes[6..8].copy_from_slice(&flags.to_be_bytes());
        assert_eq!(Packet::parse(&bytes).unwrap().is_fragment(), fragment, "{flags:#x}");
    }
}

#[test]
fn a_flipped_header_bit_is_seen() {
    let mut bytes = Ip::v4().udp((1, 2), &[9; 5]);
    bytes[8] ^= 4;
    assert!(!Packet::parse(&bytes).unwrap().header_checksum_ok());
}

/// Returns an IPv6 packet with these headers, each with its own number; the last one is the upper layer.
fn chain(headers: &[(u8, &[u8])]) -> Vec<u8> {
    let mut body = vec![];
    for (at, (_, bytes)) in headers.iter().enumerate() {
        let start = body.len();
        body.extend_from_slice(bytes);
        if let Some((next, _)) = headers.get(at + 1) {
            body[start] = *next;
        }
    }
    Ip::v6().carry(headers[0].0, &body)
}

#[test]
fn v6_extension_headers_are_walked() {
    let udp = [0, 1, 0, 2, 0, 8, 0, 0];
    let hop = [0; 8];
    let long = [[0, 1, 0, 0, 0, 0, 0, 0], [0; 8]].concat();
    let auth = [[0, 2, 0, 0, 0, 0, 0, 0], [0; 8]].concat();
    let bytes = chain(&[(0, &hop), (60, &long), (51, &auth), (UDP, &udp)]);
    let packet = Packet::parse(&bytes).unwrap();
    assert_eq!((packet.protocol(), packet.header_len(), packet.payload()), (UDP, 80, &udp[..]));
    assert!(packet.has_options() && !packet.is_fragment() && !packet.has_routing_header());

    let bytes = chain(&[(43, &hop), (44, &hop), (UDP, &udp)]);
    let packet = Packet::parse(&bytes).unwrap();
    assert!(packet.has_routing_header() && packet.is_fragment());
    assert_eq!((packet.protocol(), packet.header_len()), (UDP, 56));
}

#[test]
fn v6_later_fragment_has_no_more_headers() {
    let fragment = [0, 0, 0, 8, 0, 0, 0, 0];
    let bytes = chain(&[(44, &fragment), (60, &[0xff; 8])]);
    let packet = Packet::parse(&bytes).unwrap();
    assert!(packet.is_fragment());
    assert_eq!((packet.protocol(), packet.header_len(), packet.payload()), (60, 48, &[0xff; 8][..]));
}

#[test]
fn v6_extension_headers_are_bounded() {
    let hop: (u8, &[u8]) = (60, &[0; 8]);
    let udp: (u8, &[u8]) = (UDP, &[0; 8]);
    let many = |count| [vec![hop; count], vec![udp]].concat();
    assert!(Packet::parse(&chain(&many(MAX_EXTENSIONS))).is_ok());
    assert_eq!(Packet::parse(&chain(&many(MAX_EXTENSIONS + 1))).unwrap_err(), MalformedIp::Extension);
    assert_eq!(Packet::parse(&chain(&[(60, &[0, 1, 0, 0, 0, 0, 0, 0])])).unwrap_err(), MalformedIp::Extension);
    assert_eq!(Packet::parse(&chain(&[(60, &[0; 7])])).unwrap_err(), MalformedIp::Extension);
}

proptest! {
    #[test]
    fn takes_any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), first in prop_oneof![Just(0x45), Just(0x46), Just(0x60)], next in 0_u8..61) {
        touch(&bytes)?;
        if let Some(byte) = bytes.first_mut() {
            *byte = first;
        }
        if bytes.len() > 40 {
            // Matching lengths, so that the bytes after them are reached.
            let len = u8::try_from(bytes.len()).unwrap();
            bytes[2] = 0;
            bytes[3] = len;
            bytes[4] = 0;
            bytes[5] = len - 40;
            bytes[6] = next;
        }
        touch(&bytes)?;
    }
}

fn touch(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(packet) = Packet::parse(bytes) {
        prop_assert_eq!(packet.header_len() + packet.payload().len(), packet.bytes().len());
        prop_assert!(packet.bytes().len() <= bytes.len());
        let _ = (packet.source(), packet.destination(), packet.traffic_class(), packet.header_checksum_ok());
        let _ = packet.pseudo_header(0);
    }
    Ok(())
}

#[test]
fn v6_a_fragment_without_others_is_a_whole_packet() {
    let udp = [0, 1, 0, 2, 0, 8, 0, 0];
    for (word, part) in [(0_u16, None), (1, Some((7, 0, 8))), (8, Some((7, 8, 8)))] {
        let [high, low] = word.to_be_bytes();
        let bytes = chain(&[(44, &[0, 0, high, low, 0, 0, 0, 7]), (UDP, &udp)]);
        let found = Packet::parse(&bytes).unwrap().fragment_part();
        assert_eq!(found.map(|part| (part.ident, part.offset, part.length)), part);
    }
}

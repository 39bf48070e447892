use super::*;
use taut_testkit::packets::{Ip, Tcp, payload};

fn of(bytes: &[u8]) -> Result<Classified, Refusal> {
    Classified::of(&Packet::parse(bytes).unwrap())
}

fn transport_of(bytes: &[u8]) -> Transport {
    of(bytes).unwrap().transport
}

/// An IPv6 packet whose upper layer is behind these extension headers, each of 8 bytes.
fn behind(headers: &[u8], protocol: u8, upper: &[u8]) -> Vec<u8> {
    let mut chain: Vec<u8> = Vec::new();
    for place in 0..headers.len() {
        let next = headers.get(place + 1).copied().unwrap_or(protocol);
        chain.extend([next, 0, 0, 0, 0, 0, 0, 0]);
    }
    chain.extend(upper);
    Ip::v6().carry(headers.first().copied().unwrap_or(protocol), &chain)
}

#[test]
fn ports_and_flags_are_read() {
    let tcp = |flags| Tcp { flags, ..Tcp::default() };
    for ip in [Ip::v4(), Ip::v6()] {
        let datagram = of(&ip.udp((5, 6), &payload(30, 1))).unwrap();
        assert_eq!(datagram.transport, Transport::Ports { source: 5, destination: 6, opens: false, ends: false });
        assert_eq!((datagram.protocol, datagram.port()), (UDP, Some(6)));
        for (flags, expected) in [
            (tcp::SYN, (true, false)),
            (tcp::SYN | tcp::ACK, (false, false)),
            (tcp::ACK, (false, false)),
            (tcp::FIN | tcp::ACK, (false, true)),
            (tcp::RST, (false, true)),
        ] {
            let Transport::Ports { opens, ends, .. } = transport_of(&ip.tcp(&tcp(flags))) else { panic!() };
            assert_eq!((opens, ends), expected, "{flags:#x}");
        }
        let sctp = ip.carry(SCTP, &[0, 7, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(transport_of(&sctp), Transport::Ports { source: 7, destination: 8, opens: false, ends: false });
        assert_eq!(transport_of(&ip.carry(47, &[])), Transport::Other);
        assert_eq!(transport_of(&ip.carry(59, &[])), Transport::Other, "no next header");
    }
}

#[test]
fn fault_g4_ports_behind_extension_headers_are_found() {
    let udp = [0, 5, 0, 6, 0, 8, 0, 0];
    for headers in [&[0][..], &[60], &[43], &[0, 60, 43, 60], &[60; 8], &[44], &[0, 44, 60]] {
        let found = of(&behind(headers, UDP, &udp)).unwrap();
        assert_eq!((found.protocol, found.port()), (UDP, Some(6)), "{headers:?}");
    }
    // The length field of AH counts 4-byte words, minus two.
    let ah = [&[UDP, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0], &udp[..]].concat();
    assert_eq!(of(&Ip::v6().carry(51, &ah)).unwrap().port(), Some(6));
    // A packet with too many headers, or with a header longer than the packet, is malformed.
    assert!(Packet::parse(&behind(&[60; 9], UDP, &udp)).is_err());
    for (header, length) in [(60, 255), (51, 255), (43, 2)] {
        let bytes = Ip::v6().carry(header, &[&[UDP, length, 0, 0, 0, 0, 0, 0], &udp[..]].concat());
        assert!(Packet::parse(&bytes).is_err(), "{header}");
    }
    // Unknown next headers and ESP hide what follows: they are protocols without ports, which only a rule for all ports allows.
    for unknown in [50, 59, 99, 253] {
        let found = of(&behind(&[60], unknown, &udp)).unwrap();
        assert_eq!((found.protocol, found.transport), (unknown, Transport::Other));
    }
}

#[test]
fn fault_g5_a_fragment_shows_its_header_whole_or_is_refused() {
    let fragment = |protocol: u8, offset: u16, length: usize| {
        let mut bytes = Ip::v4().carry(protocol, &vec![0x50; length]);
        bytes[6..8].copy_from_slice(&(0x2000 | offset).to_be_bytes());
        bytes
    };
    for (protocol, header) in [(TCP, 20), (UDP, 8), (SCTP, 12)] {
        assert_eq!(of(&fragment(protocol, 0, header - 1)), Err(Refusal::TinyFragment), "{protocol}");
        assert!(matches!(transport_of(&fragment(protocol, 0, header)), Transport::Ports { .. }));
        let later = transport_of(&fragment(protocol, 1, 4));
        assert!(matches!(later, Transport::LaterFragment { offset: 8, .. }), "{later:?}");
        assert_eq!(of(&Ip::v4().carry(protocol, &vec![0x50; header - 1])), Err(Refusal::Malformed));
    }
    let six = |offset: u16| {
        let [high, low] = (offset << 3 | 1).to_be_bytes();
        Ip::v6().carry(44, &[UDP, 0, high, low, 0, 0, 0, 9, 0, 5, 0, 6, 0, 8, 0, 0])
    };
    assert!(matches!(transport_of(&six(0)), Transport::Ports { destination: 6, .. }));
    assert_eq!(transport_of(&six(3)), Transport::LaterFragment { ident: 9, offset: 24 });
}

#[test]
fn echoes_and_errors_are_told_apart() {
    for (ip, protocol, request, reply, error) in [(Ip::v4(), ICMP, 8, 0, 3), (Ip::v6(), ICMPV6, 128, 129, 1)] {
        let message = |kind: u8| ip.carry(protocol, &[kind, 0, 0, 0, 1, 2, 0, 0]);
        assert_eq!(transport_of(&message(request)), Transport::Echo { ident: 0x102, reply: false });
        assert_eq!(transport_of(&message(reply)), Transport::Echo { ident: 0x102, reply: true });
        assert_eq!(transport_of(&message(error)), Transport::Error(None));
        assert_eq!(transport_of(&message(135)), Transport::Other);
        let quoted = [&[error, 0, 0, 0, 0, 0, 0, 0], &ip.udp((5, 6), &[])[..]].concat();
        let Transport::Error(Some(quoted)) = transport_of(&ip.carry(protocol, &quoted)) else { panic!() };
        assert_eq!(quoted_ports(&quoted), Some((5, 6)));
    }
    assert_eq!(transport_of(&Ip::v4().carry(ICMPV6, &[1, 0, 0, 0, 0, 0, 0, 0])), Transport::Other);
}

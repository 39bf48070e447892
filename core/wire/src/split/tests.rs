use super::*;
use crate::testkit::{Ip, Superpackets, Tcp, is_right, naive_sum, payload, upper_layer};
use crate::vnet::{GSO_UDP, NEEDS_CSUM};
use proptest::prelude::*;

fn segments(header: VnetHeader, packet: &[u8]) -> Vec<Vec<u8>> {
    let mut split = Split::new(header, packet).unwrap();
    let (count, largest) = (split.segments(), split.largest());
    let mut segments = vec![];
    while let Some(len) = split.next_len() {
        assert_eq!(split.remaining(), count - segments.len());
        let mut out = vec![0xee; len + 3];
        assert_eq!(split.write_next(&mut out), Some(len));
        assert_eq!(out[len..], [0xee; 3]);
        out.truncate(len);
        segments.push(out);
    }
    assert_eq!(split.write_next(&mut [0; 70_000]), None);
    assert_eq!((segments.len(), split.remaining()), (count, 0));
    assert_eq!(segments.iter().map(Vec::len).max(), Some(largest));
    segments
}

fn error(header: VnetHeader, packet: &[u8]) -> Unsplittable {
    Split::new(header, packet).unwrap_err()
}

/// A simple segmenter as reference: it builds each packet from the fields of the superpacket.
fn reference(ip: &Ip, tcp: Option<&Tcp>, data: &[u8], gso_size: usize) -> Vec<Vec<u8>> {
    let pieces: Vec<&[u8]> = data.chunks(gso_size).collect();
    let mut sequence = tcp.map_or(0, |tcp| tcp.sequence);
    let mut packets = vec![];
    for (at, piece) in pieces.iter().enumerate() {
        let ip = Ip { id: ip.id.wrapping_add(u16::try_from(at).unwrap()), ..ip.clone() };
        packets.push(match tcp {
            None => ip.udp((5_000, 6_000), piece),
            Some(tcp) => {
                let mut flags = tcp.flags;
                if at + 1 < pieces.len() {
                    flags &= !(tcp::FIN | tcp::PSH);
                }
                if at > 0 {
                    flags &= !tcp::CWR;
                }
                ip.tcp(&Tcp { sequence, flags, payload: piece.to_vec(), ..tcp.clone() })
            }
        });
        sequence = sequence.wrapping_add(u32::try_from(piece.len()).unwrap());
    }
    packets
}

#[test]
fn a_single_packet_is_unchanged() {
    for ip in [Ip::v4(), Ip::v6()] {
        let packet = ip.tcp(&Tcp { payload: payload(33, 1), ..Tcp::default() });
        assert_eq!(segments(VnetHeader::NONE, &packet), [packet]);
    }
}

#[test]
fn a_partial_checksum_is_completed() {
    for ip in [Ip::v4(), Ip::v6()] {
        let tcp = Tcp { payload: payload(33, 1), ..Tcp::default() };
        let (header, packet) = ip.tcp_super(&tcp, 0);
        let header = VnetHeader { gso_type: GSO_NONE, ..header };
        assert_eq!(segments(header, &packet), [ip.tcp(&tcp)]);

        let (header, packet) = ip.udp_super((7, 8), &payload(20, 2), 0);
        let header = VnetHeader { gso_type: GSO_NONE, ..header };
        assert_eq!(segments(header, &packet), [ip.udp((7, 8), &payload(20, 2))]);
    }
}

#[test]
fn a_udp_checksum_of_zero_is_sent_as_ones() {
    let ip = Ip::v4();
    // A payload word that makes the sum 0xffff, so that its complement is zero.
    let bare = ip.udp((7, 8), &[0, 0]);
    let rest = u16::from_be_bytes([bare[26], bare[27]]);
    let (header, packet) = ip.udp_super((7, 8), &rest.to_be_bytes(), 2);
    for gso_type in [GSO_NONE, GSO_UDP_L4] {
        let packet = &segments(VnetHeader { gso_type, ..header }, &packet)[0];
        assert_eq!(packet[26..28], [0xff, 0xff]);
        assert!(is_right(packet));
    }
}

#[test]
fn a_partial_checksum_must_lie_in_the_packet() {
    let packet = Ip::v4().tcp(&Tcp::default());
    let at = |csum_start, csum_offset| VnetHeader { flags: NEEDS_CSUM, csum_start, csum_offset, ..VnetHeader::NONE };
    assert!(Split::new(at(20, 16), &packet).is_ok());
    assert!(Split::new(at(20, 18), &packet).is_ok());
    for (start, offset) in [(20, 19), (20, 0xffff), (0xffff, 0xffff), (19, 0), (0, 0), (39, 0)] {
        assert_eq!(error(at(start, offset), &packet), Unsplittable::ChecksumPlace { start, offset });
    }
    assert_eq!(error(at(39, 0), &Ip::v6().tcp(&Tcp::default())), Unsplittable::ChecksumPlace { start: 39, offset: 0 });
}

#[test]
fn tcp_fields_of_each_segment() {
    let tcp =
        Tcp { flags: tcp::ACK | tcp::FIN | tcp::PSH | tcp::CWR | tcp::ECE, payload: payload(250, 1), ..Tcp::default() };
    let ip = Ip { id: 0xffff, ..Ip::v4() };
    let (header, packet) = ip.tcp_super(&tcp, 100);
    let header = VnetHeader { gso_type: GSO_TCPV4 | GSO_ECN, ..header };
    let all = segments(header, &packet);
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [140, 140, 90]);
    assert_eq!(all.iter().map(|p| be16(p, 4)).collect::<Vec<_>>(), [0xffff, 0, 1]);
    assert_eq!(all.iter().map(|p| be32(p, 24)).collect::<Vec<_>>(), [0xffff_f000, 0xffff_f064, 0xffff_f0c8]);
    assert_eq!(
        all.iter().map(|p| p[33]).collect::<Vec<_>>(),
        [tcp::ACK | tcp::ECE | tcp::CWR, tcp::ACK | tcp::ECE, tcp::ACK | tcp::ECE | tcp::FIN | tcp::PSH]
    );
    assert!(all.iter().all(|packet| is_right(packet)));
}

#[test]
fn too_small_an_output_loses_nothing() {
    let (header, packet) = Ip::v4().udp_super((1, 2), &payload(30, 1), 10);
    let mut split = Split::new(header, &packet).unwrap();
    assert_eq!(split.write_next(&mut [0; 37]), None);
    assert_eq!(split.remaining(), 3);
    assert_eq!(split.write_next(&mut [0; 38]), Some(38));
    assert_eq!(split.remaining(), 2);
}

#[test]
fn bytes_beyond_the_ip_length_are_omitted() {
    let (header, mut packet) = Ip::v6().udp_super((1, 2), &payload(30, 1), 20);
    let exact = segments(header, &packet);
    packet.extend([0; 40]);
    assert_eq!(segments(header, &packet), exact);
}

#[test]
fn an_unsplittable_packet_is_refused_by_name() {
    let tcp = Tcp { payload: payload(50, 1), ..Tcp::default() };
    let (header, packet) = Ip::v4().tcp_super(&tcp, 10);
    assert_eq!(error(header, &[]), Unsplittable::Ip(ip::MalformedIp::Empty));
    assert_eq!(error(header, &[0x45; 65_536]), Unsplittable::TooLarge { len: 65_536 });
    assert_eq!(error(VnetHeader { gso_size: 0, ..header }, &packet), Unsplittable::ZeroSize);
    for gso_type in [GSO_UDP, 2, 0x20, 0x40, GSO_ECN, GSO_UDP_L4 | GSO_ECN, 0xff] {
        assert_eq!(error(VnetHeader { gso_type, ..header }, &packet), Unsplittable::UnknownKind { gso_type });
    }
    for gso_type in [GSO_TCPV6, GSO_TCPV6 | GSO_ECN, GSO_UDP_L4] {
        let found = error(VnetHeader { gso_type, ..header }, &packet);
        assert_eq!(found, Unsplittable::WrongProtocol { gso_type, protocol: 6 });
    }
    for (start, offset) in [(24, 16), (20, 6), (0, 0)] {
        let found = error(VnetHeader { csum_start: start, csum_offset: offset, ..header }, &packet);
        assert_eq!(found, Unsplittable::ChecksumPlace { start, offset });
    }
    let mut fragment = packet.clone();
    fragment[6] = 0x20;
    assert_eq!(error(header, &fragment), Unsplittable::NotWhole);
    let mut lie = packet.clone();
    lie[32] = 0xf0;
    lie[3] = 70;
    assert_eq!(error(header, &lie), Unsplittable::Transport);
    assert_eq!(
        error(VnetHeader { gso_type: GSO_UDP_L4, ..header }, &Ip::v4().carry(17, &[0; 7])),
        Unsplittable::Transport
    );
}

#[test]
fn a_routing_header_is_not_split() {
    let (header, mut packet) = Ip { options: vec![0; 8], ..Ip::v6() }.udp_super((1, 2), &payload(30, 1), 10);
    assert_eq!(segments(header, &packet).len(), 3);
    packet[6] = 43;
    assert_eq!(error(header, &packet), Unsplittable::NotWhole);
}

#[test]
fn segments_are_bounded() {
    let data = payload(65_535 - 20 - 8, 1);
    let (header, packet) = Ip::v4().udp_super((1, 2), &data, 1);
    assert_eq!(packet.len(), MAX_SUPERPACKET);
    assert_eq!(error(header, &packet), Unsplittable::TooManySegments { segments: data.len() });
    assert!(Split::new(VnetHeader { gso_size: 8, ..header }, &packet).is_ok());
    assert_eq!(segments(VnetHeader { gso_size: 0xffff, ..header }, &packet).len(), 1);
}

#[test]
fn headers_without_payload_are_one_segment() {
    let (header, packet) = Ip::v4().tcp_super(&Tcp::default(), 100);
    assert_eq!(segments(header, &packet), [Ip::v4().tcp(&Tcp::default())]);
}

#[test]
fn hdr_len_is_not_read() {
    let (header, packet) = Ip::v4().udp_super((1, 2), &payload(30, 1), 10);
    let exact = segments(header, &packet);
    for hdr_len in [0, 1, 28, 58, 0xffff] {
        assert_eq!(segments(VnetHeader { hdr_len, ..header }, &packet), exact);
    }
}

fn any_ip() -> impl Strategy<Value = Ip> {
    (any::<[bool; 3]>(), any::<(u8, u8, u16)>(), 0_u32..0x10_0000).prop_map(
        |([six, dont_fragment, options], (tos, ttl, id), flow_label)| {
            let options = if options { vec![0; 8] } else { vec![] };
            Ip { six, tos, ttl, id, dont_fragment, flow_label, options, ..Ip::v4() }
        },
    )
}

fn any_tcp() -> impl Strategy<Value = Tcp> {
    (any::<(u32, u32, u8, u16)>(), 0_u8..16, 0_usize..=10).prop_map(
        |((sequence, acknowledgement, flags, window), reserved, words)| Tcp {
            sequence,
            acknowledgement,
            reserved,
            flags,
            window,
            options: payload(words * 4, 9),
            ..Tcp::default()
        },
    )
}

/// Returns the segments of a packet on a path that carries `limit` bytes; `None` if it cannot be cut.
fn limited(header: VnetHeader, packet: &[u8], limit: usize) -> Option<Vec<Vec<u8>>> {
    let mut split = Split::new(header, packet).unwrap();
    let before = (split.segments(), split.largest());
    if !split.limit_to(limit) {
        assert_eq!((split.segments(), split.largest()), before);
        return None;
    }
    assert!(split.largest() <= limit);
    let mut out = vec![0; limit];
    let mut segments = vec![];
    while let Some(length) = split.write_next(&mut out) {
        segments.push(out[..length].to_vec());
    }
    Some(segments)
}

#[test]
fn only_tcp_segments_that_stay_the_same_stream_are_cut() {
    let syn = tcp::SYN | tcp::ACK;
    for ip in [Ip::v4(), Ip::v6()] {
        let single = |flags| ip.tcp(&Tcp { flags, payload: payload(900, 1), ..Tcp::default() });
        assert!(limited(VnetHeader::NONE, &single(tcp::ACK), 500).is_some());
        assert_eq!(limited(VnetHeader::NONE, &single(syn), 500), None);
        assert_eq!(limited(VnetHeader::NONE, &single(tcp::ACK | tcp::URG), 500), None);
        let (header, packet) = ip.tcp_super(&Tcp { flags: syn, payload: payload(900, 1), ..Tcp::default() }, 600);
        assert_eq!(limited(header, &packet, 500), None);
        assert_eq!(limited(VnetHeader::NONE, &ip.udp((1, 2), &payload(900, 1)), 500), None);
        let (header, packet) = ip.udp_super((1, 2), &payload(900, 1), 600);
        assert_eq!(limited(header, &packet, 500), None);
        assert_eq!(limited(header, &packet, 700).unwrap().len(), 2);
        // No room for a byte of payload.
        assert_eq!(limited(VnetHeader::NONE, &single(tcp::ACK), 40), None);
        assert_eq!(limited(VnetHeader::NONE, &single(tcp::ACK), 0), None);
        // A damaged packet stays damaged.
        let mut damaged = single(tcp::ACK);
        *damaged.last_mut().unwrap() ^= 1;
        assert_eq!(limited(VnetHeader::NONE, &damaged, 500), None);
        // A checksum that is not TCP's own.
        let start = u16::try_from(upper_layer(&damaged).0).unwrap() + 4;
        let other = VnetHeader { flags: NEEDS_CSUM, csum_start: start, csum_offset: 16, ..VnetHeader::NONE };
        assert_eq!(limited(other, &single(tcp::ACK), 500), None);
    }
    let mut fragment = Ip::v4().tcp(&Tcp { payload: payload(900, 1), ..Tcp::default() });
    fragment[6] |= 0x20;
    assert_eq!(limited(VnetHeader::NONE, &fragment, 500), None);
}

proptest! {
    #[test]
    fn fault_i1_shorter_tcp_segments_equal_the_reference(ip in any_ip(), tcp in any_tcp(), len in 1_usize..9_000, gso_size in 8_u16..3_000,
        limit in 150_usize..3_000, kind in 0..3) {
        let tcp = Tcp { payload: payload(len, 1), flags: tcp.flags & !(tcp::SYN | tcp::URG), ..tcp };
        let (header, packet) = match kind {
            0 => (VnetHeader::NONE, ip.tcp(&tcp)),
            1 => {
                let (header, packet) = ip.tcp_super(&tcp, 0);
                (VnetHeader { gso_type: GSO_NONE, ..header }, packet)
            }
            _ => ip.tcp_super(&tcp, gso_size),
        };
        let whole = if kind == 2 { usize::from(gso_size) } else { len };
        let headers = packet.len() - len;
        let found = limited(header, &packet, limit).unwrap();
        prop_assert!(found.iter().all(|packet| is_right(packet)));
        prop_assert_eq!(found, reference(&ip, Some(&tcp), &tcp.payload, whole.min(limit - headers)));
    }

    #[test]
    fn shorter_segments_keep_partial_checksums(ip in any_ip(), tcp in any_tcp(), len in 1_usize..5_000, limit in 150_usize..3_000) {
        let tcp = Tcp { payload: payload(len, 1), flags: tcp.flags & !(tcp::SYN | tcp::URG), ..tcp };
        let (header, packet) = ip.tcp_super(&tcp, 0);
        let header = VnetHeader { gso_type: GSO_NONE, ..header };
        let complete = limited(header, &packet, limit).unwrap();
        let mut split = Split::new(header, &packet).unwrap();
        prop_assert!(split.limit_to(limit));
        split.allow_partial_checksums();
        for complete in complete {
            let mut segment = vec![0; complete.len()];
            split.write_next(&mut segment).unwrap();
            if partial_checksum::clear_flag(&mut segment) {
                PartialChecksum::of(&Packet::parse(&segment).unwrap()).unwrap().complete(&mut segment);
            }
            prop_assert_eq!(segment, complete);
        }
        prop_assert_eq!(split.remaining(), 0);
    }

    #[test]
    fn tcp_equals_the_reference(ip in any_ip(), tcp in any_tcp(), len in 1_usize..9_000, gso_size in 8_u16..3_000, ecn: bool) {
        let tcp = Tcp { payload: payload(len, 1), ..tcp };
        let (mut header, packet) = ip.tcp_super(&tcp, gso_size);
        if ecn {
            header.gso_type |= GSO_ECN;
        }
        let found = segments(header, &packet);
        prop_assert!(found.iter().all(|packet| is_right(packet)));
        prop_assert_eq!(found, reference(&ip, Some(&tcp), &tcp.payload, usize::from(gso_size)));
    }

    #[test]
    fn udp_equals_the_reference(ip in any_ip(), len in 1_usize..9_000, gso_size in 8_u16..3_000, seed: u8) {
        let data = payload(len, seed);
        let (header, packet) = ip.udp_super((5_000, 6_000), &data, gso_size);
        let found = segments(header, &packet);
        prop_assert!(found.iter().all(|packet| is_right(packet)));
        prop_assert_eq!(found, reference(&ip, None, &data, usize::from(gso_size)));
    }

    #[test]
    fn any_place_of_a_partial_checksum(ip in any_ip(), len in 0_usize..200, inner in 0_usize..100) {
        // As with a tunnel inside: the checksum is further in than the outer transport header.
        let message = payload(len + 40, 1);
        let mut packet = ip.carry(47, &message);
        let start = upper_layer(&packet).0 + inner.min(len);
        packet[start + 16..start + 18].copy_from_slice(&[0x12, 0x34]);
        let sum = naive_sum(&packet[start..]);
        let header = VnetHeader { flags: NEEDS_CSUM, csum_start: u16::try_from(start).unwrap(), csum_offset: 16, ..VnetHeader::NONE };
        let found = &segments(header, &packet)[0];
        packet[start + 16..start + 18].copy_from_slice(&(!sum).to_be_bytes());
        prop_assert_eq!(found, &packet);
    }

    #[test]
    fn takes_any_header_and_bytes(bytes: [u8; 10], kind in prop_oneof![Just(0_u8), Just(1), Just(4), Just(5), Just(0x81)],
        mut packet in proptest::collection::vec(any::<u8>(), 0..150), whole in any_tcp(), six: bool, flip in 0_usize..80) {
        let header = VnetHeader::decode(&bytes);
        drain(header, &packet);
        drain(VnetHeader { gso_type: kind, ..header }, &packet);
        // Almost valid: one byte of a superpacket differs.
        let ip = Ip { six, ..Ip::v4() };
        let (good, near) = ip.tcp_super(&Tcp { payload: packet.clone(), ..whole }, 16);
        packet = near;
        let at = flip.min(packet.len() - 1);
        packet[at] = bytes[0];
        drain(good, &packet);
        drain(VnetHeader { gso_type: kind, gso_size: u16::from(bytes[1]), ..good }, &packet);
    }
}

/// Splits the packet if possible, and parses every segment.
fn drain(header: VnetHeader, packet: &[u8]) {
    let Ok(mut split) = Split::new(header, packet) else { return };
    let mut out = vec![0; split.largest()];
    let mut written = 0;
    while let Some(len) = split.write_next(&mut out) {
        assert!(header.gso_type == GSO_NONE || Packet::parse(&out[..len]).unwrap().bytes().len() == len);
        written += 1;
    }
    assert_eq!(written, split.segments());
}

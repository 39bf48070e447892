use super::*;
use crate::merge::{Merger, Offloads};
use crate::split::Split;
use crate::testkit::{Ip, Superpackets, Tcp, is_right, payload};
use crate::vnet::{GSO_ECN, GSO_UDP_L4};
use proptest::prelude::*;

/// Returns all segments, with partial checksums if `allowed`.
fn cut(header: VnetHeader, packet: &[u8], allowed: bool) -> Vec<Vec<u8>> {
    let mut split = Split::new(header, packet).unwrap();
    if allowed {
        split.allow_partial_checksums();
    }
    let mut segments = vec![];
    while let Some(len) = split.next_len() {
        let mut segment = vec![0xee; len];
        assert_eq!(split.write_next(&mut segment), Some(len));
        segments.push(segment);
    }
    segments
}

/// Returns the packets that a receiver's kernel sees: [`Split`] splits the runs and completes the checksums. Each packet has the number of packets in its run.
fn through_the_kernel(offloads: Offloads, packets: &[Vec<u8>]) -> Vec<(usize, Vec<u8>)> {
    let mut buffer = vec![];
    let mut places = vec![];
    for packet in packets {
        let start = buffer.len();
        buffer.extend(packet);
        buffer.resize(buffer.len().next_multiple_of(16), 0);
        places.push(start..buffer.len());
    }
    let (mut merger, mut out) = (Merger::new(offloads), vec![]);
    let mut emit = |run: crate::merge::Run<'_>| {
        let bytes = run.slices().collect::<Vec<_>>().concat();
        let packets = run.packets();
        out.extend(cut(run.header(), &bytes, false).into_iter().map(|packet| (packets, packet)));
    };
    for place in places {
        let partial = if clear_flag(&mut buffer[place.clone()]) {
            Some(
                PartialChecksum::of(&Packet::parse(&buffer[place.clone()]).unwrap())
                    .expect("the flag of this node's own packet is valid"),
            )
        } else {
            None
        };
        merger.push(&mut buffer, place, 1, partial, &mut emit).unwrap();
    }
    merger.flush(&mut buffer, &mut emit);
    out
}

fn is_flagged(packet: &[u8]) -> bool {
    clear_flag(&mut packet.to_vec())
}

fn partial_of(packet: &[u8]) -> Option<PartialChecksum> {
    PartialChecksum::of(&Packet::parse(packet).unwrap())
}

#[test]
fn the_flag_is_one_bit_and_can_be_cleared() {
    for ip in [Ip::v4(), Ip::v6()] {
        let packet = ip.tcp(&Tcp::default());
        let mut flagged = packet.clone();
        set_flag(&mut flagged);
        assert_eq!(flagged[0], packet[0] | 0x80);
        assert_eq!(
            Packet::parse(&flagged).unwrap_err(),
            ip::MalformedIp::Version,
            "a packet with the flag is not an IP packet"
        );
        assert!(clear_flag(&mut flagged));
        assert_eq!(flagged, packet);
        assert!(!clear_flag(&mut flagged));
        assert_eq!(flagged, packet);
    }
    for nibble in (0..16_u8).filter(|nibble| !matches!(nibble, 0xc | 0xe)) {
        let mut bytes = [nibble << 4 | 5, 1];
        assert!(!clear_flag(&mut bytes));
        assert_eq!(bytes, [nibble << 4 | 5, 1]);
    }
    set_flag(&mut []);
    assert!(!clear_flag(&mut []));
}

#[test]
fn a_flagged_segment_has_the_pseudo_header_of_its_own_length() {
    for ip in [Ip::v4(), Ip::v6()] {
        let at = if ip.six { 40 } else { 20 };
        let tcp = Tcp { payload: payload(250, 1), ..Tcp::default() };
        let (header, packet) = ip.tcp_super(&tcp, 100);
        for (segment, length) in cut(header, &packet, true).iter().zip([120, 120, 70]) {
            assert_eq!(segment.len(), at + length);
            assert!(is_flagged(segment));
            assert_eq!(be16(segment, at + 16), ip.pseudo(6, length));
        }
        let (header, packet) = ip.udp_super((5, 6), &payload(250, 1), 100);
        for (segment, length) in cut(header, &packet, true).iter().zip([108, 108, 58]) {
            assert!(is_flagged(segment));
            assert_eq!((be16(segment, at + 6), be16(segment, at + 4)), (ip.pseudo(17, length), low16(length)));
        }
    }
}

/// Packets whose checksum is not partial, or not at the usual position, are sent byte for byte as without partial checksums.
#[test]
fn all_other_packets_have_no_flag() {
    for ip in [Ip::v4(), Ip::v6()] {
        let tcp = Tcp { payload: payload(200, 1), ..Tcp::default() };
        let (header, packet) = ip.tcp_super(&tcp, 90);
        let single = VnetHeader { gso_type: GSO_NONE, ..header };
        let wrong_sum = {
            let mut packet = packet.clone();
            packet[usize::from(header.csum_start) + 17] ^= 1;
            packet
        };
        let with_options = Ip { options: vec![0; 8], ..ip.clone() }.tcp_super(&tcp, 90);
        let complete = ip.tcp(&tcp);
        let mut fragment = complete.clone();
        if !ip.six {
            fragment[6] = 0x20;
        }
        let unusual = [
            (VnetHeader::NONE, complete.clone(), "complete"),
            (VnetHeader { flags: 0, ..header }, packet.clone(), "a superpacket whose checksum is complete"),
            (VnetHeader { csum_offset: 14, ..single }, packet.clone(), "another place"),
            (
                VnetHeader { csum_start: header.csum_start + 2, csum_offset: 14, ..single },
                packet.clone(),
                "another start",
            ),
            (single, wrong_sum, "not the sum of the pseudo header"),
            (with_options.0, with_options.1.clone(), "a superpacket with options"),
            (VnetHeader { gso_type: GSO_NONE, ..with_options.0 }, with_options.1, "options"),
            (VnetHeader::NONE, ip.carry(58, &[128, 0, 0, 0, 0, 0, 0, 0]), "another protocol"),
            (VnetHeader::NONE, fragment, "fragment"),
        ];
        for (header, packet, what) in unusual {
            let segments = cut(header, &packet, true);
            assert!(segments.iter().all(|segment| !is_flagged(segment)), "{what}");
            assert_eq!(segments, cut(header, &packet, false), "{what}");
        }
        assert!(is_flagged(&cut(single, &packet, true)[0]));
    }
}

#[test]
fn a_fragment_has_no_partial_checksum() {
    let (header, mut packet) = Ip::v4().udp_super((5, 6), &payload(50, 1), 0);
    assert!(partial_of(&packet).is_some());
    packet[6] = 0x20;
    assert!(!is_flagged(&cut(VnetHeader { gso_type: GSO_NONE, ..header }, &packet, true)[0]));
    assert_eq!(partial_of(&packet), None);
}

#[test]
fn fault_a11_a_flag_on_a_packet_without_partial_checksum_is_refused() {
    for ip in [Ip::v4(), Ip::v6()] {
        let at = if ip.six { 40 } else { 20 };
        let (_, tcp) = ip.tcp_super(&Tcp { payload: payload(60, 1), ..Tcp::default() }, 0);
        let (_, udp) = ip.udp_super((5, 6), &payload(60, 1), 0);
        assert!(partial_of(&tcp).is_some() && partial_of(&udp).is_some());
        for (packet, field) in [(&tcp, at + 16), (&udp, at + 6)] {
            for bit in 0..16 {
                let mut lie = packet.clone();
                lie[field + bit / 8] ^= 1 << (bit % 8);
                assert_eq!(partial_of(&lie), None, "the field does not hold the sum of the pseudo header");
            }
            let mut moved = packet.clone();
            moved[if ip.six { 8 } else { 12 }] ^= 1;
            assert_eq!(partial_of(&moved), None, "nor does it for another address");
        }
        // Complete checksums, no checksum, wrong lengths, truncated headers, other protocols.
        assert_eq!(partial_of(&ip.tcp(&Tcp { payload: payload(60, 1), ..Tcp::default() })), None);
        assert_eq!(partial_of(&ip.udp((5, 6), &payload(60, 1))), None);
        let mut none = udp.clone();
        none[at + 6..at + 8].fill(0);
        assert_eq!(partial_of(&none), None);
        let mut short = udp.clone();
        short[at + 5] -= 1;
        assert_eq!(partial_of(&short), None);
        assert_eq!(partial_of(&ip.carry(17, &[0; 7])), None);
        assert_eq!(partial_of(&ip.carry(6, &[0; 19])), None);
        let pseudo = ip.pseudo(58, 40).to_be_bytes();
        assert_eq!(partial_of(&ip.carry(58, &[&[0; 16][..], &pseudo, &[0; 22]].concat())), None);
        let (_, options) = Ip { options: vec![0; 8], ..ip.clone() }.tcp_super(&Tcp::default(), 0);
        assert_eq!(partial_of(&options), None);
    }
}

#[test]
fn a_single_packet_is_written_with_a_virtio_header_for_its_partial_checksum() {
    for ip in [Ip::v4(), Ip::v6()] {
        let at = if ip.six { 40 } else { 20 };
        let (_, packet) = ip.tcp_super(&Tcp { flags: 0x10 | tcp::FIN, payload: payload(60, 1), ..Tcp::default() }, 0);
        let (_, syn) = ip.tcp_super(&Tcp { flags: tcp::SYN, ..Tcp::default() }, 0);
        let (_, udp) = ip.udp_super((5, 6), &payload(60, 1), 0);
        for (packet, csum_offset) in [(packet, 16), (syn, 16), (udp, 6)] {
            for offloads in [Offloads::ALL, Offloads::NONE] {
                let mut merger = Merger::new(offloads);
                let mut buffer = packet.clone();
                let mut seen = vec![];
                let mut emit =
                    |run: crate::merge::Run<'_>| seen.push((run.header(), run.slices().collect::<Vec<_>>().concat()));
                merger.push(&mut buffer, 0..packet.len(), 1, partial_of(&packet), &mut emit).unwrap();
                merger.flush(&mut buffer, &mut emit);
                let hdr_len = at + csum_offset + 2;
                let header = VnetHeader { flags: NEEDS_CSUM, hdr_len, csum_start: at, csum_offset, ..VnetHeader::NONE };
                assert_eq!(seen, [(header, packet.clone())]);
            }
        }
    }
}

#[test]
fn partial_checksums_merge_only_with_each_other() {
    for ip in [Ip::v4(), Ip::v6()] {
        let tcp = Tcp { payload: payload(400, 1), ..Tcp::default() };
        let (header, packet) = ip.tcp_super(&tcp, 100);
        let (flagged, plain) = (cut(header, &packet, true), cut(header, &packet, false));
        let mixed: Vec<_> = (0..4).map(|at| if at < 2 { &flagged } else { &plain }[at].clone()).collect();
        let counts = |packets: &[Vec<u8>]| -> Vec<usize> {
            through_the_kernel(Offloads::ALL, packets).iter().map(|(count, _)| *count).collect()
        };
        assert_eq!(counts(&flagged), [4; 4]);
        assert_eq!(counts(&plain), [4; 4]);
        assert_eq!(counts(&mixed), [2; 4]);
        assert_eq!(counts(&mixed.into_iter().rev().collect::<Vec<_>>()), [1; 4]);
    }
}

#[test]
fn a_partial_checksum_can_be_completed() {
    for ip in [Ip::v4(), Ip::v6()] {
        let tcp = Tcp { payload: payload(61, 1), ..Tcp::default() };
        let mut packet = ip.tcp_super(&tcp, 0).1;
        partial_of(&packet).unwrap().complete(&mut packet);
        assert_eq!(packet, ip.tcp(&tcp));
        let mut packet = ip.udp_super((5, 6), &payload(61, 1), 0).1;
        partial_of(&packet).unwrap().complete(&mut packet);
        assert_eq!(packet, ip.udp((5, 6), &payload(61, 1)));
    }
}

/// A packet or superpacket from the sender's kernel.
#[derive(Clone, Debug)]
struct FromKernel {
    six: bool,
    udp: bool,
    /// 0: a superpacket; 1: one packet, checksum partial; 2: one packet, complete; 3: the same, corrupted before it reached this node.
    how: u8,
    len: usize,
    gso_size: u16,
    flags: u8,
    ecn: bool,
}

fn any_from_kernel() -> impl Strategy<Value = FromKernel> {
    (
        any::<(bool, bool, bool, u8)>(),
        prop_oneof![3 => Just(0_u8), 2 => Just(1), 1 => Just(2), 1 => Just(3)],
        1_usize..3_000,
        8_u16..600,
    )
        .prop_map(|((six, udp, ecn, flags), how, len, gso_size)| FromKernel {
            six,
            udp,
            how,
            len,
            gso_size,
            flags,
            ecn,
        })
}

/// Returns the packets of a script, with sequence numbers and IDs that continue within each of the four flows.
fn packets_of(script: &[FromKernel]) -> Vec<(VnetHeader, Vec<u8>, bool)> {
    let (mut sequences, mut id) = ([7_u32; 2], 1_u16);
    let mut packets = vec![];
    for (seed, step) in script.iter().enumerate() {
        // With DF clear every ID matters, so that every byte is compared.
        let ip = Ip { dont_fragment: false, id, six: step.six, ..Ip::v4() };
        let data = payload(step.len, u8::try_from(seed % 256).unwrap());
        let sequence = &mut sequences[usize::from(step.six)];
        // CWR would make a superpacket of another kind.
        let flags = 0x10 | step.flags & if step.how == 0 && !step.ecn { 0x7f } else { 0xff };
        let tcp = Tcp { sequence: *sequence, flags, payload: data.clone(), ..Tcp::default() };
        let (mut header, packet) =
            if step.udp { ip.udp_super((5, 6), &data, step.gso_size) } else { ip.tcp_super(&tcp, step.gso_size) };
        if !step.udp {
            *sequence = sequence.wrapping_add(u32::try_from(step.len).unwrap());
        }
        let segments = if step.how == 0 { step.len.div_ceil(usize::from(step.gso_size)) } else { 1 };
        id = id.wrapping_add(u16::try_from(segments).unwrap());
        let complete = || if step.udp { ip.udp((5, 6), &data) } else { ip.tcp(&tcp) };
        packets.push(match step.how {
            0 => {
                header.gso_type |= if step.ecn && header.gso_type != GSO_UDP_L4 { GSO_ECN } else { 0 };
                (header, packet, false)
            }
            1 => (VnetHeader { gso_type: GSO_NONE, gso_size: 0, ..header }, packet, false),
            2 => (VnetHeader::NONE, complete(), false),
            _ => {
                let mut corrupted = complete();
                *corrupted.last_mut().unwrap() ^= 0x10;
                (VnetHeader::NONE, corrupted, true)
            }
        });
    }
    packets
}

/// Returns the packets of each flow in order. A merger may change the order between flows.
fn by_flow(packets: Vec<Vec<u8>>) -> [Vec<Vec<u8>>; 4] {
    let mut flows = [const { vec![] }; 4];
    for packet in packets {
        let parsed = Packet::parse(&packet).unwrap();
        let flow = usize::from(parsed.protocol() == ip::UDP) * 2 + usize::from(parsed.version() == ip::Version::V6);
        flows[flow].push(packet);
    }
    flows
}

/// Returns a packet without PSH and the checksum over it: PSH of a packet inside a run moves to the last one.
fn without_psh(packet: Vec<u8>) -> Vec<u8> {
    let mut packet = packet;
    let (at, protocol) = crate::testkit::upper_layer(&packet);
    if protocol == ip::TCP {
        packet[at + 13] &= !tcp::PSH;
        packet[at + 16..at + 18].fill(0);
    }
    packet
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(taut_testkit::cases(1_000)))]

    /// For all packets of the sender's kernel and all offloads of the receiver: after the receiver's kernel has completed the checksums, the packets equal those
    /// without partial checksums, byte for byte, and a packet that was corrupted before arrives corrupted and alone.
    #[test]
    fn fault_i7_packets_with_partial_checksums_arrive_as_those_without(
        script in proptest::collection::vec(any_from_kernel(), 1..12),
        granted in any::<[bool; 5]>(),
        allowed in proptest::collection::vec(any::<bool>(), 12),
    ) {
        let [tcp4, tcp6, ecn, udp4, udp6] = granted;
        let offloads = Offloads { tcp4, tcp6, ecn, udp4, udp6 };
        let (mut mixed, mut plain, mut corrupted) = (vec![], vec![], vec![]);
        for ((header, packet, bad), allowed) in packets_of(&script).into_iter().zip(allowed) {
            mixed.extend(cut(header, &packet, allowed));
            plain.extend(cut(header, &packet, false));
            if bad {
                corrupted.push(packet);
            }
        }
        let found = through_the_kernel(offloads, &mixed);
        for (count, packet) in &found {
            let bad = corrupted.contains(packet);
            prop_assert!(bad || is_right(packet));
            prop_assert!(!bad || *count == 1, "a corrupted packet is alone");
        }
        let bad = found.iter().filter(|(_, packet)| corrupted.contains(packet)).count();
        prop_assert_eq!(bad, corrupted.len());
        let found: Vec<_> = found.into_iter().map(|(_, packet)| without_psh(packet)).collect();
        prop_assert_eq!(by_flow(found), by_flow(plain.into_iter().map(without_psh).collect()));
    }

    #[test]
    fn takes_any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), nibble in prop_oneof![Just(0xc0_u8), Just(0xe0)]) {
        if let Some(first) = bytes.first_mut() {
            *first = nibble | *first & 15;
            prop_assert!(clear_flag(&mut bytes));
        }
        let Ok(packet) = Packet::parse(&bytes) else { return Ok(()) };
        let Some(partial) = PartialChecksum::of(&packet) else { return Ok(()) };
        let length = packet.bytes().len();
        partial.complete(&mut bytes[..length]);
    }
}

use super::*;
use crate::split::Split;
use crate::testkit::{Ip, Tcp, is_right, naive_sum, payload, upper_layer};

mod trains;

/// An emitted run: the virtio header, the number of packets, and the bytes after the header.
#[derive(Debug, PartialEq, Eq)]
struct Out {
    header: VnetHeader,
    packets: usize,
    bytes: Vec<u8>,
}

/// Passes one batch through a merger. The packets have gaps between them and padding at the end, as in a receive buffer.
fn merge_sessions(offloads: Offloads, packets: &[(u32, Vec<u8>)]) -> Vec<Out> {
    let mut buffer = vec![];
    let mut places = vec![];
    for (session, packet) in packets {
        buffer.extend([0xee; 16]);
        let padded = packet.len().next_multiple_of(16);
        places.push((*session, buffer.len()..buffer.len() + padded));
        buffer.extend(packet);
        buffer.resize(buffer.len() + padded - packet.len(), 0);
        buffer.extend([0xdd; 16]);
    }
    let mut merger = Merger::new(offloads);
    let mut out = vec![];
    let mut emit = |run: Run<'_>| {
        let slices: Vec<&[u8]> = run.slices().collect();
        assert_eq!((slices.len(), slices.concat().len()), (run.packets(), run.bytes()));
        out.push(Out { header: run.header(), packets: run.packets(), bytes: slices.concat() });
    };
    for (session, place) in places {
        merger.push(&mut buffer, place, session, None, &mut emit).unwrap();
    }
    merger.flush(&mut buffer, &mut emit);
    assert!(merger.is_empty());
    out
}

fn merge(packets: &[Vec<u8>]) -> Vec<Out> {
    let packets: Vec<_> = packets.iter().map(|packet| (1, packet.clone())).collect();
    merge_sessions(Offloads::ALL, &packets)
}

/// Returns the number of packets of each run.
fn counts(packets: &[Vec<u8>]) -> Vec<usize> {
    merge(packets).iter().map(|out| out.packets).collect()
}

/// Returns the packets into which the kernel splits a run.
fn split(out: &Out) -> Vec<Vec<u8>> {
    let mut split = Split::new(out.header, &out.bytes).unwrap();
    let mut segments = vec![];
    while let Some(len) = split.next_len() {
        let mut segment = vec![0; len];
        split.write_next(&mut segment);
        segments.push(segment);
    }
    segments
}

/// Returns true if length and header checksum of a superpacket are what the kernel expects.
fn has_right_ip_header(packet: &[u8]) -> bool {
    if packet[0] >> 4 == 4 {
        usize::from(be16(packet, 2)) == packet.len() && naive_sum(&packet[..20]) == 0xffff
    } else {
        usize::from(be16(packet, 4)) + 40 == packet.len()
    }
}

/// Returns contiguous packets of one TCP flow with these payload lengths. DF is clear, so that the kernel must restore every byte.
fn train(ip: &Ip, tcp: &Tcp, lengths: &[usize]) -> Vec<Vec<u8>> {
    let (mut ip, mut tcp) = (Ip { dont_fragment: false, ..ip.clone() }, tcp.clone());
    let mut packets = vec![];
    for &len in lengths {
        tcp.payload = payload(len, u8::try_from(packets.len() % 256).unwrap());
        packets.push(ip.tcp(&tcp));
        tcp.sequence = tcp.sequence.wrapping_add(u32::try_from(len).unwrap());
        ip.id = ip.id.wrapping_add(1);
    }
    packets
}

/// Returns two packets that would merge if `change` did not change the second one.
fn pair(ip: &Ip, change: impl Fn(&mut Ip, &mut Tcp)) -> Vec<Vec<u8>> {
    let first = Tcp { payload: payload(100, 1), options: vec![1; 12], ..Tcp::default() };
    let mut second = Tcp { sequence: first.sequence + 100, payload: payload(100, 2), ..first.clone() };
    let mut second_ip = Ip { id: ip.id.wrapping_add(1), ..ip.clone() };
    change(&mut second_ip, &mut second);
    vec![ip.tcp(&first), second_ip.tcp(&second)]
}

#[test]
fn a_train_becomes_one_and_comes_back() {
    for ip in [Ip::v4(), Ip::v6()] {
        let packets = train(&ip, &Tcp { options: vec![1; 12], ..Tcp::default() }, &[500; 20]);
        let out = merge(&packets);
        assert_eq!(out.len(), 1);
        assert_eq!(split(&out[0]), packets);
        let transport = if ip.six { 40 } else { 20 };
        assert_eq!(
            out[0].header,
            VnetHeader {
                flags: NEEDS_CSUM,
                gso_type: if ip.six { GSO_TCPV6 } else { GSO_TCPV4 },
                hdr_len: transport + 32,
                gso_size: 500,
                csum_start: transport,
                csum_offset: 16,
            }
        );
        assert!(has_right_ip_header(&out[0].bytes));
        let (at, _) = upper_layer(&out[0].bytes);
        let length = out[0].bytes.len() - at;
        assert_eq!(be16(&out[0].bytes, at + 16), ip.pseudo(6, length), "partial checksum");
    }
}

#[test]
fn one_packet_alone_is_untouched() {
    let packets = train(&Ip::v4(), &Tcp::default(), &[500]);
    let out = merge(&packets);
    assert_eq!(out, [Out { header: VnetHeader::NONE, packets: 1, bytes: packets[0].clone() }]);
}

#[test]
fn a_shorter_packet_ends_the_run_and_a_longer_one_begins_another() {
    for ip in [Ip::v4(), Ip::v6()] {
        let packets = train(&ip, &Tcp::default(), &[100, 100, 60, 60, 60, 100, 100]);
        assert_eq!(counts(&packets), [3, 2, 2]);
        let back: Vec<_> = merge(&packets).iter().flat_map(split).collect();
        assert_eq!(back, packets);
    }
}

#[test]
fn runs_are_bounded_in_bytes_and_packets() {
    for ip in [Ip::v4(), Ip::v6()] {
        let packets = train(&ip, &Tcp::default(), &[8_000; 10]);
        let out = merge(&packets);
        assert_eq!(out.iter().map(|out| out.packets).collect::<Vec<_>>(), [8, 2]);
        assert!(out.iter().all(|out| out.bytes.len() <= MAX_BYTES));
        assert_eq!(counts(&train(&ip, &Tcp::default(), &[10; 130])), [MAX_RUN, MAX_RUN, 2]);
    }
    // 65,535 less 40 bytes of headers is 65,495.
    assert_eq!(counts(&train(&Ip::v4(), &Tcp::default(), &[32_747, 32_747, 1])), [3]);
    assert_eq!(counts(&train(&Ip::v4(), &Tcp::default(), &[32_747, 32_747, 2])), [2, 1]);
    assert_eq!(counts(&train(&Ip::v4(), &Tcp::default(), &[32_748, 32_747])), [2]);
    assert_eq!(counts(&train(&Ip::v4(), &Tcp::default(), &[32_748, 32_748])), [1, 1]);
}

#[test]
fn headers_that_differ_never_merge() {
    for ip in [Ip::v4(), Ip::v6()] {
        assert_eq!(counts(&pair(&ip, |_, _| {})), [2]);
        let changes: [fn(&mut Ip, &mut Tcp); 20] = [
            |_, tcp| tcp.sequence += 1,
            |_, tcp| tcp.sequence -= 1,
            |_, tcp| tcp.sequence -= 100,
            |_, tcp| tcp.acknowledgement += 1,
            |_, tcp| tcp.window += 1,
            |_, tcp| tcp.reserved = 1,
            |_, tcp| tcp.reserved = 4,
            |_, tcp| tcp.options[11] = 2,
            |_, tcp| tcp.options.truncate(8),
            |_, tcp| tcp.options.extend([1; 4]),
            |_, tcp| tcp.flags |= tcp::ECE,
            |_, tcp| tcp.flags |= tcp::CWR,
            |_, tcp| tcp.flags |= tcp::URG,
            |_, tcp| tcp.flags |= tcp::SYN,
            |_, tcp| tcp.flags |= tcp::RST,
            |_, tcp| tcp.flags = 0,
            |_, tcp| tcp.payload.clear(),
            |_, tcp| tcp.payload.push(0),
            |ip, _| ip.tos ^= 1,
            |ip, _| ip.ttl -= 1,
        ];
        for (at, change) in changes.iter().enumerate() {
            let packets = pair(&ip, change);
            let out = merge(&packets);
            assert_eq!(
                out.iter().map(|out| &out.bytes).collect::<Vec<_>>(),
                packets.iter().collect::<Vec<_>>(),
                "change {at}"
            );
            assert!(out.iter().all(|out| out.header == VnetHeader::NONE));
        }
    }
    assert_eq!(counts(&pair(&Ip::v6(), |ip, _| ip.flow_label += 1)), [1, 1]);
    assert_eq!(counts(&pair(&Ip::v4(), |ip, _| ip.dont_fragment = false)), [1, 1]);
    assert_eq!(counts(&pair(&Ip::v4(), |ip, _| ip.options = vec![1; 4])), [1, 1]);
    assert_eq!(counts(&pair(&Ip::v6(), |ip, _| ip.options = vec![0; 8])), [1, 1]);
}

#[test]
fn flags_other_than_bulk_datas_never_merge_even_if_equal() {
    for ip in [Ip::v4(), Ip::v6()] {
        for flags in [tcp::SYN, tcp::RST, tcp::URG, tcp::CWR, tcp::FIN] {
            let packets = train(&ip, &Tcp { flags: tcp::ACK | flags, ..Tcp::default() }, &[100; 3]);
            assert_eq!(counts(&packets), [1, 1, 1], "flags {flags:#x}");
        }
        assert_eq!(counts(&train(&ip, &Tcp { flags: 0, ..Tcp::default() }, &[100; 3])), [1, 1, 1]);
        assert_eq!(counts(&train(&ip, &Tcp { flags: tcp::ACK | tcp::ECE, ..Tcp::default() }, &[100; 3])), [3]);
    }
}

#[test]
fn the_ip_id_counts_only_with_df_clear() {
    let fragmentable = Ip { dont_fragment: false, ..Ip::v4() };
    assert_eq!(counts(&pair(&fragmentable, |_, _| {})), [2]);
    assert_eq!(counts(&pair(&fragmentable, |ip, _| ip.id = ip.id.wrapping_sub(1))), [1, 1]);
    assert_eq!(counts(&pair(&fragmentable, |ip, _| ip.id = ip.id.wrapping_add(1))), [1, 1]);
    assert_eq!(counts(&pair(&Ip::v4(), |ip, _| ip.id = ip.id.wrapping_sub(1))), [2]);
    assert_eq!(counts(&pair(&Ip::v4(), |ip, _| ip.id = 0)), [2]);
}

#[test]
fn fin_ends_a_run_and_shows_on_its_last_segment() {
    let mut packets = pair(&Ip { dont_fragment: false, ..Ip::v4() }, |_, tcp| tcp.flags |= tcp::FIN | tcp::PSH);
    let out = merge(&packets);
    assert_eq!(out.len(), 1);
    assert_eq!(split(&out[0]), packets);
    // After FIN no packet is appended, even a matching one.
    packets.swap(0, 1);
    assert_eq!(counts(&packets), [1, 1]);
}

#[test]
fn psh_inside_a_run_is_set_on_the_superpacket() {
    let packets: Vec<_> = (0..4_u8)
        .map(|at| {
            let flags = if at == 1 { tcp::ACK | tcp::PSH } else { tcp::ACK };
            let sequence = 1_000 + u32::from(at) * 50;
            Ip::v6().tcp(&Tcp { sequence, flags, payload: payload(50, at), ..Tcp::default() })
        })
        .collect();
    let out = merge(&packets);
    assert_eq!(out.len(), 1);
    let flags: Vec<_> = split(&out[0]).iter().map(|segment| segment[53]).collect();
    assert_eq!(flags, [tcp::ACK, tcp::ACK, tcp::ACK, tcp::ACK | tcp::PSH]);
}

#[test]
fn cwr_only_first_and_only_with_ecn_granted() {
    let mut packets = pair(&Ip { dont_fragment: false, ..Ip::v4() }, |_, _| {});
    let with_cwr = Tcp { flags: tcp::ACK | tcp::CWR, payload: payload(100, 1), options: vec![1; 12], ..Tcp::default() };
    packets[0] = Ip { dont_fragment: false, ..Ip::v4() }.tcp(&with_cwr);
    let out = merge(&packets);
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].header.gso_type, GSO_TCPV4 | GSO_ECN);
    assert_eq!(split(&out[0]), packets);

    let sessions: Vec<_> = packets.iter().map(|packet| (1, packet.clone())).collect();
    let out = merge_sessions(Offloads { ecn: false, ..Offloads::ALL }, &sessions);
    assert_eq!(out.iter().map(|out| out.packets).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn a_bad_checksum_is_written_alone_and_ends_the_run() {
    for ip in [Ip::v4(), Ip::v6()] {
        let header = if ip.six { 40 } else { 20 };
        let mut places = vec![header + 16, header + 20, header + 20 + 99, header + 4];
        if !ip.six {
            places.push(10);
            places.push(8);
        }
        for at in places {
            let mut packets = train(&ip, &Tcp::default(), &[100; 5]);
            packets[2][at] ^= 1;
            let out = merge(&packets);
            assert_eq!(out.iter().map(|out| out.packets).collect::<Vec<_>>(), [2, 1, 2], "byte {at}");
            assert_eq!(out[1], Out { header: VnetHeader::NONE, packets: 1, bytes: packets[2].clone() });
            assert_eq!(out.iter().flat_map(split).collect::<Vec<_>>(), packets);
        }
    }
}

#[test]
fn a_run_never_crosses_a_session() {
    let packets: Vec<_> =
        train(&Ip::v4(), &Tcp::default(), &[100; 6]).into_iter().zip([1, 1, 2, 2, 1, 1]).map(|(p, s)| (s, p)).collect();
    let out = merge_sessions(Offloads::ALL, &packets);
    assert_eq!(out.iter().map(|out| out.packets).collect::<Vec<_>>(), [2, 2, 2]);
    assert_eq!(out.iter().flat_map(split).collect::<Vec<_>>(), packets.into_iter().map(|(_, p)| p).collect::<Vec<_>>());
}

#[test]
fn offloads_not_granted_are_not_used() {
    let trains = [
        (Offloads { tcp4: false, ..Offloads::ALL }, train(&Ip::v4(), &Tcp::default(), &[100; 2])),
        (Offloads { tcp6: false, ..Offloads::ALL }, train(&Ip::v6(), &Tcp::default(), &[100; 2])),
        (Offloads { udp4: false, ..Offloads::ALL }, vec![Ip::v4().udp((1, 2), &[3; 9]); 2]),
        (Offloads { udp6: false, ..Offloads::ALL }, vec![Ip::v6().udp((1, 2), &[3; 9]); 2]),
    ];
    for (offloads, packets) in trains {
        assert_eq!(counts(&packets), [2]);
        let packets: Vec<_> = packets.into_iter().map(|packet| (1, packet)).collect();
        assert_eq!(merge_sessions(offloads, &packets).len(), 2);
        assert_eq!(merge_sessions(Offloads::NONE, &packets).len(), 2);
    }
}

#[test]
fn flows_interleave_without_ending_each_other() {
    let flow = |port| train(&Ip::v4(), &Tcp { source: port, ..Tcp::default() }, &[100; 4]);
    let flows: Vec<_> = (1..=MAX_OPEN).map(|port| flow(u16::try_from(port).unwrap())).collect();
    let packets: Vec<_> = (0..4).flat_map(|at| flows.iter().map(move |flow| flow[at].clone())).collect();
    let out = merge(&packets);
    assert_eq!(out.iter().map(|out| out.packets).collect::<Vec<_>>(), [4; MAX_OPEN]);
    assert_eq!(out.iter().flat_map(split).collect::<Vec<_>>(), flows.concat(), "oldest first");
}

#[test]
fn one_flow_too_many_ends_the_oldest_run() {
    let flow = |port| train(&Ip::v4(), &Tcp { source: port, ..Tcp::default() }, &[100; 2]);
    let first: Vec<_> = (0..=8).map(|port| flow(port)[0].clone()).collect();
    let packets = [first, vec![flow(1)[1].clone(), flow(0)[1].clone()]].concat();
    let out = merge(&packets);
    let ports: Vec<_> = out.iter().map(|out| (be16(&out.bytes, 20), out.packets)).collect();
    // Flow 8 ends flow 0; the second packet of flow 0 then ends flow 1, which is the oldest now.
    assert_eq!(ports, [(0, 1), (1, 2), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (7, 1), (8, 1), (0, 1)]);
}

#[test]
fn an_unmergeable_packet_passes_runs_of_other_flows() {
    let mut packets = train(&Ip::v4(), &Tcp::default(), &[100; 2]);
    packets.insert(1, Ip::v4().carry(1, &[8, 0, 0, 0, 0, 0, 0, 0]));
    packets.insert(2, Ip::v4().tcp(&Tcp { source: 9, ..Tcp::default() }));
    assert_eq!(counts(&packets), [1, 1, 2]);
}

#[test]
fn fragments_end_the_runs_between_their_hosts_only() {
    for ip in [Ip::v4(), Ip::v6()] {
        let mine = train(&ip, &Tcp::default(), &[100; 2]);
        let others = train(&Ip { source: 9, ..ip.clone() }, &Tcp::default(), &[100; 2]);
        let fragment = if ip.six {
            ip.carry(44, &[17, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4])
        } else {
            let mut fragment = ip.carry(17, &[1, 2, 3, 4]);
            fragment[6] = 0x20;
            fragment
        };
        let packets = [others[0].clone(), mine[0].clone(), fragment.clone(), others[1].clone(), mine[1].clone()];
        let out = merge(&packets);
        assert_eq!(out.iter().map(|out| out.packets).collect::<Vec<_>>(), [1, 1, 2, 1]);
        assert_eq!((&out[0].bytes, &out[1].bytes), (&mine[0], &fragment));
        assert_eq!(split(&out[2]), others);
        assert_eq!(out[3].bytes, mine[1]);
    }
}

#[test]
fn udp_merges_equal_sizes_with_checksums() {
    for ip in [Ip::v4(), Ip::v6()] {
        let datagram =
            |id: u16, len: usize| Ip { id, dont_fragment: false, ..ip.clone() }.udp((7, 8), &payload(len, 1));
        let packets: Vec<_> =
            [90, 90, 90, 40, 90, 90, 100].iter().zip(5..).map(|(&len, id)| datagram(id, len)).collect();
        let out = merge(&packets);
        assert_eq!(out.iter().map(|out| out.packets).collect::<Vec<_>>(), [4, 2, 1]);
        assert_eq!(out.iter().flat_map(split).collect::<Vec<_>>(), packets);
        let transport = if ip.six { 40 } else { 20 };
        assert_eq!(
            out[0].header,
            VnetHeader {
                flags: NEEDS_CSUM,
                gso_type: GSO_UDP_L4,
                hdr_len: transport + 8,
                gso_size: 90,
                csum_start: transport,
                csum_offset: 6,
            }
        );
        assert_eq!(be16(&out[0].bytes, usize::from(transport) + 4), 8 + 90 * 3 + 40);
    }
}

#[test]
fn udp_without_checksum_or_payload_or_with_a_short_length_stays_alone() {
    for ip in [Ip::v4(), Ip::v6()] {
        let at = if ip.six { 40 } else { 20 };
        let mut zero = ip.udp((7, 8), &payload(50, 1));
        zero[at + 6..at + 8].fill(0);
        assert_eq!(counts(&[zero.clone(), zero]), [1, 1]);
        let empty = ip.udp((7, 8), &[]);
        assert_eq!(counts(&[empty.clone(), empty]), [1, 1]);
        // Bytes beyond the UDP length, and a checksum that is correct if the pseudo header counts them.
        let inner = ip.udp((7, 8), &payload(50, 1));
        let mut long = ip.carry(17, &[&inner[at..], &[0; 4]].concat());
        let checksum = be16(&long, at + 6) - 4;
        put16(&mut long, at + 6, checksum);
        assert_eq!(counts(&[long.clone(), long]), [1, 1]);
    }
}

#[test]
fn malformed_packets_and_positions_are_an_error() {
    let mut merger = Merger::new(Offloads::ALL);
    let mut buffer = [0_u8; 64];
    let mut push = |place: Range<usize>| merger.push(&mut buffer, place, 1, None, |_| panic!("emitted"));
    assert_eq!(push(0..0), Err(MalformedIp::Empty));
    assert_eq!(push(0..64), Err(MalformedIp::Version));
    assert_eq!(push(10..65), Err(MalformedIp::Length));
    #[expect(clippy::reversed_empty_ranges, reason = "a caller's mistake must not panic")]
    let reversed = 9..8;
    assert_eq!(push(reversed), Err(MalformedIp::Length));
    assert_eq!(push(usize::MAX - 1..usize::MAX), Err(MalformedIp::Length));
}

#[test]
fn a_buffer_that_shrank_is_harmless() {
    let packets = train(&Ip::v4(), &Tcp::default(), &[100; 3]);
    let mut buffer = packets.concat();
    let mut merger = Merger::new(Offloads::ALL);
    for at in 0..3 {
        merger.push(&mut buffer, at * 140..(at + 1) * 140, 1, None, |_| {}).unwrap();
    }
    let mut emitted = 0;
    merger.flush(&mut [0; 10], |run| emitted += run.slices().map(<[u8]>::len).sum::<usize>());
    assert_eq!(emitted, 0);
}

//! Packets of every odd kind through two lane cores: a packet that one host writes to its TUN leaves the other host's TUN as a slow reference says.
//!
//! The reference is `taut_testkit::packets`, which builds and checks packets the obvious way and uses no code under test. The far kernel is simulated
//! here, too: [`split_again`] splits a superpacket that is written to its TUN, field by field.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod rig;

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use rig::{Host, at, pair};
use taut_base::{PeerId, Prefix};
use taut_lane::{Flush, InboundIo};
use taut_node::{Routes, ToLane};
use taut_testkit::packets::{self, Ip, Tcp, is_right, payload, upper_layer};
use taut_udp::Transmit;
use taut_wire::control::Suite;
use taut_wire::merge::Run;
use taut_wire::vnet::VnetHeader;

/// A superpacket of the reference, with our own type for its virtio header.
fn decoded((header, packet): (packets::VirtioHeader, Vec<u8>)) -> (VnetHeader, Vec<u8>) {
    (VnetHeader::decode(&header.encode()), packet)
}

/// What was written to a TUN: virtio header and packet.
#[derive(Default)]
struct Taken(Vec<(VnetHeader, Vec<u8>)>);

impl InboundIo for Taken {
    fn write(&mut self, run: Run<'_>) -> bool {
        self.0.push((run.header(), run.slices().collect::<Vec<_>>().concat()));
        true
    }

    fn next_command(&mut self) -> Option<ToLane> {
        None
    }
}

/// Returns two hosts, each of which routes the addresses of the reference to the other.
fn hosts() -> (Host, Host) {
    let (mut here, mut there) = pair(Suite::ChaCha20Poly1305);
    for end in [&mut here, &mut there] {
        let all = ["10.0.0.0/8", "fd00::/8"].map(|prefix| (prefix.parse::<Prefix>().unwrap(), PeerId(0)));
        end.core.command(ToLane::Routes(Arc::new(Routes::new(all))), &mut end.out, at(1));
    }
    (here, there)
}

/// Takes the batch, as the runs that the other host receives.
fn sent(end: &mut Host) -> Vec<(Vec<u8>, usize)> {
    let mut runs = vec![];
    while !end.out.is_empty() {
        let mut transmit = [Transmit { destination: ([0; 4], 0).into(), contents: &[], segment_size: 0, ecn: 0 }];
        let count = end.out.transmits(Flush::All, &mut transmit);
        runs.push((transmit[0].contents.to_vec(), transmit[0].segment_size));
        end.out.consume(count, 0);
    }
    runs
}

/// Sends packets through both lane cores, and returns the packets that the far kernel sees.
fn across(packets: &[(VnetHeader, Vec<u8>)]) -> Vec<Vec<u8>> {
    let (mut here, mut there) = hosts();
    let mut taken = Taken::default();
    for (header, packet) in packets {
        if !here.out.has_room() {
            receive(&mut here, &mut there, &mut taken);
        }
        here.send(&[&header.encode()[..], packet].concat(), at(2));
    }
    receive(&mut here, &mut there, &mut taken);
    taken.0.iter().flat_map(|(header, packet)| split_again(*header, packet)).collect()
}

fn receive(here: &mut Host, there: &mut Host, taken: &mut Taken) {
    for (mut run, size) in sent(here) {
        let from = ([192, 0, 2, 1], 8288).into();
        there.core.inbound(from, &mut run, size, taken, &mut there.out, at(2));
    }
}

/// Returns the packets that a superpacket was merged from, as a kernel does. Checks sizes and partial sum of the superpacket.
fn split_again(header: VnetHeader, packet: &[u8]) -> Vec<Vec<u8>> {
    if header == VnetHeader::NONE {
        return vec![packet.to_vec()];
    }
    let (transport, protocol) = upper_layer(packet);
    let headers = transport + if protocol == 6 { usize::from(packet[transport + 12] >> 4) * 4 } else { 8 };
    assert_eq!((header.flags, usize::from(header.csum_start)), (1, transport));
    assert_eq!(usize::from(header.hdr_len), headers);
    let pieces: Vec<&[u8]> = packet[headers..].chunks(header.gso_size.into()).collect();
    assert!(pieces.len() > 1, "a superpacket holds several");
    let mut offset = 0_u32;
    let mut segments = vec![];
    for (number, piece) in pieces.iter().enumerate() {
        let mut segment = [&packet[..headers], piece].concat();
        let length = u16::try_from(segment.len()).unwrap();
        if packet[0] >> 4 == 4 {
            segment[2..4].copy_from_slice(&length.to_be_bytes());
            let id = u16::from_be_bytes([packet[4], packet[5]]).wrapping_add(u16::try_from(number).unwrap());
            segment[4..6].copy_from_slice(&id.to_be_bytes());
            segment[10..12].fill(0);
            let sum = !packets::naive_sum(&segment[..transport]);
            segment[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            segment[4..6].copy_from_slice(&(length - 40).to_be_bytes());
        }
        let upper = length - u16::try_from(transport).unwrap();
        let field = if protocol == 6 {
            let sequence = u32::from_be_bytes(packet[transport + 4..transport + 8].try_into().unwrap());
            segment[transport + 4..transport + 8].copy_from_slice(&sequence.wrapping_add(offset).to_be_bytes());
            let ends = number + 1 == pieces.len();
            segment[transport + 13] &= if ends { 0xff } else { !0x09 } & if number == 0 { 0xff } else { !0x80 };
            transport + 16
        } else {
            segment[transport + 4..transport + 6].copy_from_slice(&upper.to_be_bytes());
            transport + 6
        };
        segment[field..field + 2].fill(0);
        let addresses = if packet[0] >> 4 == 4 { &packet[12..20] } else { &packet[8..40] };
        let whole = [addresses, &[0, protocol], &upper.to_be_bytes(), &segment[transport..]].concat();
        // In UDP, zero means that there is no checksum, so its equal is written.
        let sum = match !packets::naive_sum(&whole) {
            0 if protocol == 17 => 0xffff,
            sum => sum,
        };
        segment[field..field + 2].copy_from_slice(&sum.to_be_bytes());
        offset += u32::try_from(piece.len()).unwrap();
        segments.push(segment);
    }
    segments
}

/// Returns the packet without the fields that a merge may change: PSH inside a run, an IP ID without meaning, and the sums over them.
fn essence(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let (transport, protocol) = upper_layer(&packet);
    let right = is_right(&packet);
    if right && protocol == 6 {
        packet[transport + 13] &= !0x08;
        packet[transport + 16..transport + 18].fill(0);
    }
    if right && packet[0] >> 4 == 4 && packet[6] & 0x40 != 0 {
        packet[4..6].fill(0);
        packet[10..12].fill(0);
    }
    packet
}

/// Returns addresses, protocol and ports. Packets with the same ones must stay in order.
fn flow(packet: &[u8]) -> Vec<u8> {
    let (transport, protocol) = upper_layer(packet);
    let addresses = if packet[0] >> 4 == 4 { &packet[12..20] } else { &packet[8..40] };
    [addresses, &[protocol], packet[transport..].get(..4).unwrap_or_default()].concat()
}

fn by_flow<'a>(packets: impl IntoIterator<Item = &'a Vec<u8>>) -> HashMap<Vec<u8>, Vec<Vec<u8>>> {
    let mut flows = HashMap::<_, Vec<_>>::new();
    for packet in packets {
        flows.entry(flow(packet)).or_default().push(essence(packet));
    }
    flows
}

/// A packet that a host writes to its TUN, and the packets that the far host must see.
#[derive(Clone, Debug)]
struct Sent {
    given: (VnetHeader, Vec<u8>),
    seen: Vec<Vec<u8>>,
}

/// The checksum of a single packet.
#[derive(Clone, Copy, Debug)]
enum Sum {
    Right,
    Partial,
    Wrong,
    Zero,
}

fn any_ip() -> impl Strategy<Value = Ip> {
    let id = prop_oneof![1 => 0_u16..6, 1 => any::<u16>()];
    (any::<[bool; 2]>(), 0_u8..5, (0_u8..4, id), 1_u8..3, 0_u8..8).prop_map(
        |([six, dont_fragment], tos, (ttl, id), source, odd)| {
            // Few packets have IP options (no-operation, end) or a destination options header that pads.
            let options = match (odd, six) {
                (0, false) => vec![1, 1, 1, 0],
                (0, true) => vec![0, 0, 1, 4, 0, 0, 0, 0],
                _ => vec![],
            };
            Ip {
                six,
                tos: if tos < 3 { 0 } else { tos },
                ttl: if ttl == 0 { 63 } else { 64 },
                id,
                dont_fragment,
                source,
                options,
                ..Ip::v4()
            }
        },
    )
}

fn any_tcp() -> impl Strategy<Value = Tcp> {
    let flags = prop_oneof![6 => Just(0x10_u8), 1 => Just(0x18), 1 => Just(0x11), 1 => Just(0x90), 1 => Just(0x50), 1 => Just(0x30)];
    // Sequence numbers that often follow each other or repeat.
    let sequence = prop_oneof![4 => (0_u32..6).prop_map(|number| number * 100), 1 => any::<u32>()];
    (sequence, any::<bool>(), 1_u16..4, flags).prop_map(|(sequence, timestamps, port, flags)| {
        // No-operation twice and a timestamp (RFC 7323), as Linux writes them.
        let options = if timestamps { vec![1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9] } else { vec![] };
        Tcp { source: 1_000 + port, sequence, flags, options, ..Tcp::default() }
    })
}

/// Yields a TCP superpacket, or a train of UDP datagrams.
fn any_superpacket() -> impl Strategy<Value = Sent> {
    (any_ip(), any_tcp(), 1_usize..6_000, 40_u16..1_300, any::<bool>(), any::<u8>()).prop_map(
        |(ip, tcp, length, gso_size, udp, seed)| {
            let data = payload(length, seed);
            let pieces = data.chunks(gso_size.into()).enumerate();
            let count = pieces.len();
            let of = |number: usize| Ip { id: ip.id.wrapping_add(u16::try_from(number).unwrap()), ..ip.clone() };
            if udp {
                let ports = (tcp.source, 53);
                let seen = pieces.map(|(number, piece)| of(number).udp(ports, piece)).collect();
                return Sent { given: decoded(ip.udp_superpacket(ports, &data, gso_size)), seen };
            }
            let mut sequence = tcp.sequence;
            let seen = pieces.map(|(number, piece)| {
                let mut flags = tcp.flags;
                flags &= if number + 1 == count { 0xff } else { !0x09 };
                flags &= if number == 0 { 0xff } else { !0x80 };
                let segment = Tcp { sequence, flags, payload: piece.to_vec(), ..tcp.clone() };
                sequence = sequence.wrapping_add(u32::try_from(piece.len()).unwrap());
                of(number).tcp(&segment)
            });
            let seen = seen.collect();
            let whole = Tcp { payload: data, ..tcp };
            let (mut header, packet) = decoded(ip.tcp_superpacket(&whole, gso_size));
            header.gso_type |= if whole.flags & 0x80 != 0 { 0x80 } else { 0 };
            Sent { given: (header, packet), seen }
        },
    )
}

/// Yields a single packet: with a checksum in any state, or a fragment, or of an unknown protocol.
fn any_single() -> impl Strategy<Value = Sent> {
    let sum = prop_oneof![3 => Just(Sum::Right), 1 => Just(Sum::Partial), 1 => Just(Sum::Wrong), 1 => Just(Sum::Zero)];
    let length = prop_oneof![2 => Just(100_usize), 1 => 0_usize..1_300];
    (any_ip(), any_tcp(), length, sum, 0_u8..8, any::<u8>()).prop_map(|(ip, tcp, length, sum, kind, seed)| {
        let data = payload(length, seed);
        let tcp = Tcp { payload: data.clone(), ..tcp };
        let ports = (tcp.source, 53);
        let right = match kind {
            0 => ip.carry(50, &data),
            1 => return fragment(&ip, &data),
            2..4 => ip.udp(ports, &data),
            _ => ip.tcp(&tcp),
        };
        let (header, mut given) = match (sum, kind) {
            (Sum::Partial, 2..4) => decoded(ip.udp_superpacket(ports, &data, 0)),
            (Sum::Partial, 4..) => decoded(ip.tcp_superpacket(&tcp, 0)),
            _ => (VnetHeader::NONE, right.clone()),
        };
        let header = VnetHeader { gso_type: 0, gso_size: 0, ..header };
        let (transport, protocol) = upper_layer(&given);
        let field = transport + if protocol == 6 { 16 } else { 6 };
        let mut seen = right;
        if protocol == 6 || protocol == 17 {
            match sum {
                Sum::Wrong => given[field] ^= 0x40,
                Sum::Zero => given[field..field + 2].fill(0),
                Sum::Right | Sum::Partial => {}
            }
            if !matches!(sum, Sum::Partial) {
                seen.clone_from(&given);
            }
        }
        Sent { given: (header, given), seen: vec![seen] }
    })
}

/// Returns a first fragment.
fn fragment(ip: &Ip, data: &[u8]) -> Sent {
    let data = [&[0x03, 0xe9, 0, 53, 0, 0, 0, 0], data].concat();
    let packet = if ip.six {
        let header = [&[17, 0, 0, 1, 0, 0, 0, 9][..], &data].concat();
        Ip { options: vec![], ..ip.clone() }.carry(44, &header)
    } else {
        let mut packet = Ip { dont_fragment: false, ..ip.clone() }.carry(17, &data);
        packet[6] |= 0x20;
        let header = upper_layer(&packet).0;
        packet[10..12].fill(0);
        let sum = !packets::naive_sum(&packet[..header]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    };
    Sent { given: (VnetHeader::NONE, packet.clone()), seen: vec![packet] }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(taut_testkit::cases(400)))]

    /// Fault I7. A wrong checksum arrives wrong, a partial one completed, and no packet is lost, duplicated, or reordered in its flow.
    #[test]
    fn fault_i7_packets_of_any_kind_arrive_as_the_reference_says(
        sent in proptest::collection::vec(prop_oneof![1 => any_superpacket(), 2 => any_single()], 1..40),
    ) {
        let given: Vec<_> = sent.iter().map(|sent| sent.given.clone()).collect();
        let arrived = across(&given);
        let expected: Vec<_> = sent.into_iter().flat_map(|sent| sent.seen).collect();
        prop_assert_eq!(arrived.len(), expected.len());
        let (arrived, expected) = (by_flow(&arrived), by_flow(&expected));
        for (flow, packets) in expected {
            prop_assert_eq!(arrived.get(&flow), Some(&packets));
        }
    }

    /// Fault A5. In one received run, good datagrams are mixed with garbage, forgeries and replays: the good ones arrive once and in order.
    #[test]
    fn fault_a5_good_datagrams_of_a_run_arrive_among_any_others(
        kinds in proptest::collection::vec(0_u8..8, 1..60), noise in any::<[u8; 32]>(),
    ) {
        let (mut here, mut there) = hosts();
        let mut expected = vec![];
        let mut sequence = 0_u32;
        for number in 0..kinds.len() {
            let tcp = Tcp { sequence, payload: payload(400, u8::try_from(number).unwrap()), ..Tcp::default() };
            sequence += 400;
            let packet = Ip::v4().tcp(&tcp);
            here.send(&[&VnetHeader::NONE.encode()[..], &packet].concat(), at(2));
            expected.push(packet);
        }
        let sealed: Vec<u8> = sent(&mut here).into_iter().flat_map(|(run, _)| run).collect();
        let size = sealed.len() / kinds.len();
        let (mut run, mut good) = (vec![], vec![]);
        for ((kind, datagram), packet) in kinds.iter().zip(sealed.chunks(size)).zip(expected) {
            let mut datagram = datagram.to_vec();
            match kind {
                0 => datagram.iter_mut().zip(noise.iter().cycle()).for_each(|(byte, noise)| *byte = *noise),
                1 => datagram[40] ^= 1,
                2 => datagram[4] ^= 0x80,
                3 => datagram.copy_from_slice(&sealed[..size]),
                _ => good.push(packet.clone()),
            }
            // The first datagram again: a replay, unless the first one was altered and arrives intact only now.
            if *kind == 3 && !(good.contains(&first(&sealed, size))) {
                good.push(first(&sealed, size));
            }
            run.extend(datagram);
        }
        let mut taken = Taken::default();
        there.core.inbound(([192, 0, 2, 1], 8288).into(), &mut run, size, &mut taken, &mut there.out, at(2));
        let arrived: Vec<_> = taken.0.iter().flat_map(|(header, packet)| split_again(*header, packet)).collect();
        let essences = |packets: &[Vec<u8>]| packets.iter().map(|packet| essence(packet)).collect::<Vec<_>>();
        prop_assert_eq!(essences(&arrived), essences(&good));
    }
}

/// Returns the packet in the first datagram of a run, opened by a new pair of hosts.
fn first(sealed: &[u8], size: usize) -> Vec<u8> {
    let (_, mut there) = hosts();
    let mut taken = Taken::default();
    let mut datagram = sealed[..size].to_vec();
    there.core.inbound(([192, 0, 2, 1], 8288).into(), &mut datagram, size, &mut taken, &mut there.out, at(2));
    taken.0.remove(0).1
}

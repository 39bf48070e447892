//! Packets arrive as they were sent, with AES-256-GCM and without a cipher.

use std::io::IoSlice;

use taut_wire::checksum::{Sum, VALID, pseudo_v4};
use taut_wire::vnet::{self, GSO_NONE, GSO_TCPV4, GSO_UDP_L4, NEEDS_CSUM, VnetHeader};

use crate::arguments::FloorArguments;
use crate::cipher::FloorCipher;
use crate::inbound::Inbound;
use crate::outbound::Outbound;
use crate::packet::{PacketLayout, TransportProtocol};

const MSS: u16 = 1_380;
const OPTIONS: usize = 12;

/// Returns a TCP packet as the TUN yields it, with `payload` from sequence number `sequence` on, and with FIN, PSH and ACK set.
fn tcp(sequence: u32, payload: &[u8]) -> Vec<u8> {
    let length = (40 + OPTIONS + payload.len()) as u16;
    let gso_type = if payload.len() > usize::from(MSS) { GSO_TCPV4 } else { GSO_NONE };
    let vnet = VnetHeader { flags: NEEDS_CSUM, gso_type, gso_size: MSS, ..VnetHeader::NONE };
    let mut packet = vnet.encode().to_vec();
    packet.extend([0x45, 0]);
    packet.extend(length.to_be_bytes());
    packet.extend([1, 2, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend([0x12, 0x34, 0x56, 0x78]);
    packet.extend(sequence.to_be_bytes());
    packet.extend([0, 0, 0, 9, 0x80, 0x19, 1, 0, 0, 0, 0, 0]);
    packet.extend([1; OPTIONS]);
    packet.extend(payload);
    packet
}

/// Returns a UDP packet as the TUN yields it.
fn udp(payload: &[u8], gso_size: u16) -> Vec<u8> {
    let vnet = VnetHeader { flags: NEEDS_CSUM, gso_type: GSO_UDP_L4, gso_size, ..VnetHeader::NONE };
    let mut packet = vnet.encode().to_vec();
    packet.extend([0x45, 0]);
    packet.extend((28 + payload.len() as u16).to_be_bytes());
    packet.extend([1, 2, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend([0x12, 0x34, 0x56, 0x78]);
    packet.extend((8 + payload.len() as u16).to_be_bytes());
    packet.extend([0xab, 0xcd]);
    packet.extend(payload);
    packet
}

/// Returns bytes that differ by position.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

fn cipher(name: &str) -> FloorCipher {
    FloorCipher::named(name).unwrap()
}

/// Returns the runs in which these packets are sent, with the size of their datagrams.
fn sealed(packets: &[Vec<u8>], cipher: &FloorCipher) -> Vec<(Vec<u8>, usize)> {
    let (mut outbound, mut runs) = (Outbound::new(), Vec::new());
    let mut send = |run: &[u8], size: usize| runs.push((run.to_vec(), size));
    packets.iter().for_each(|packet| outbound.take(packet, cipher, &mut send));
    outbound.flush(&mut send);
    runs
}

/// Returns the packets that the receiver writes to its TUN.
fn opened(runs: &mut [(Vec<u8>, usize)], cipher: &FloorCipher) -> Vec<(VnetHeader, Vec<u8>)> {
    let mut written = Vec::new();
    let mut write = |pieces: &[IoSlice<'_>]| {
        let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        let (vnet, packet) = VnetHeader::parse(&bytes).unwrap();
        written.push((vnet, packet.to_vec()));
    };
    for (run, size) in runs {
        let mut inbound = Inbound::new();
        run.chunks_mut(*size).for_each(|datagram| inbound.take(datagram, cipher, &mut write));
        inbound.finish(&mut write);
    }
    written
}

fn seal_and_open(packets: &[Vec<u8>], name: &str) -> Vec<(VnetHeader, Vec<u8>)> {
    opened(&mut sealed(packets, &cipher(name)), &cipher(name))
}

#[test]
fn a_tcp_superpacket_arrives_whole() {
    for name in ["aes", "none"] {
        for length in [usize::from(MSS) + 1, 5_000, 20 * usize::from(MSS)] {
            let arrived = seal_and_open(&[tcp(u32::MAX - 2_000, &pattern(length))], name);
            let [(vnet, packet)] = arrived.as_slice() else { panic!("{} packets of {length} bytes", arrived.len()) };
            assert_eq!((vnet.gso_type, vnet.gso_size, vnet.hdr_len), (GSO_TCPV4, MSS, 52), "{name} {length}");
            assert_eq!(packet[52..], pattern(length), "{name} {length}");
            assert_eq!(packet[33], 0x19, "the superpacket has FIN and PSH of its last segment");
            assert_eq!(Sum::of(&packet[..20]), VALID);
            let sum = pseudo_v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 6, (length + 32) as u16);
            assert_eq!(packet[36..38], sum.folded().to_be_bytes());
        }
    }
}

#[test]
fn each_segment_is_a_whole_packet() {
    let mut runs = sealed(&[tcp(100, &pattern(3_000))], &cipher("none"));
    let [(run, size)] = runs.as_mut_slice() else { panic!("{} runs", runs.len()) };
    let mut expected = [(100, 1_380, 0x10), (1_480, 1_380, 0x10), (2_860, 240, 0x19)].into_iter();
    for datagram in run.chunks_mut(*size) {
        let segment = &datagram[16..];
        let packet = PacketLayout::read(segment).unwrap();
        let (sequence, payload, flags) = expected.next().unwrap();
        assert_eq!(
            (packet.transport, packet.payload(), segment[33]),
            (TransportProtocol::Tcp(sequence), payload, flags)
        );
        assert_eq!(Sum::of(&segment[..20]), VALID);
    }
    assert_eq!(expected.next(), None);
}

#[test]
fn only_consecutive_segments_are_joined() {
    let full = pattern(usize::from(MSS));
    let gap = seal_and_open(&[tcp(0, &full), tcp(1_381, &full)], "aes");
    assert_eq!(gap.iter().map(|(vnet, _)| vnet.gso_type).collect::<Vec<_>>(), [GSO_NONE; 2]);
    let follows = seal_and_open(&[tcp(0, &full), tcp(1_380, &full)], "aes");
    assert_eq!(
        follows.iter().map(|(vnet, packet)| (vnet.gso_type, packet.len())).collect::<Vec<_>>(),
        [(GSO_TCPV4, 2_812)]
    );
    let empty = seal_and_open(&[tcp(0, &[]), tcp(0, &full), tcp(1_380, &[])], "aes");
    assert_eq!(empty.iter().map(|(_, packet)| packet.len()).collect::<Vec<_>>(), [52, 1_432, 52]);
}

#[test]
fn runs_stay_within_the_limits_of_the_kernel() {
    let packets: Vec<_> = (0..6).map(|number| tcp(number * 40_000, &pattern(40_000))).collect();
    let mut runs = sealed(&packets, &cipher("aes"));
    assert!(runs.iter().all(|(run, size)| run.len() <= taut_udp::MAX_GSO_BYTES && run.len().div_ceil(*size) <= 64));
    let arrived: usize = opened(&mut runs, &cipher("aes")).iter().map(|(_, packet)| packet.len() - 52).sum();
    assert_eq!(arrived, 240_000);
}

#[test]
fn the_largest_packet_has_a_run_of_its_own() {
    let mut packet = tcp(0, &pattern(0xffff - 52));
    packet[1] = GSO_NONE;
    let arrived = seal_and_open(&[packet.clone(), packet.clone()], "aes");
    assert_eq!(arrived.iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>(), [0xffff; 2]);
    assert_eq!(arrived[0].1[52..], packet[vnet::LEN + 52..]);
}

#[test]
fn a_udp_superpacket_becomes_datagrams_without_checksum() {
    let arrived = seal_and_open(&[udp(&pattern(2_500), 1_000)], "aes");
    let lengths: Vec<_> = arrived.iter().map(|(_, packet)| u16::from_be_bytes([packet[24], packet[25]])).collect();
    assert_eq!(lengths, [1_008, 1_008, 508]);
    assert!(arrived.iter().all(|(vnet, packet)| *vnet == VnetHeader::NONE && packet[26..28] == [0, 0]));
    assert_eq!(arrived.iter().flat_map(|(_, packet)| packet[28..].to_vec()).collect::<Vec<_>>(), pattern(2_500));
}

#[test]
fn fragments_are_not_changed() {
    let mut packet = udp(&pattern(50), 0);
    packet[1] = GSO_NONE;
    packet[vnet::LEN + 7] = 1;
    let arrived = seal_and_open(&[packet.clone()], "aes");
    assert_eq!(arrived[0].1[20..], packet[vnet::LEN + 20..]);
}

#[test]
fn damaged_and_invalid_packets_are_dropped() {
    let aes = cipher("aes");
    let mut runs = sealed(&[tcp(0, &pattern(3_000))], &aes);
    runs[0].0[40] ^= 1;
    let arrived = opened(&mut runs, &aes);
    assert_eq!(
        arrived.iter().map(|(_, packet)| packet.len() - 52).sum::<usize>(),
        3_000 - 1_380,
        "only the first segment is undamaged"
    );
    for length in 0..100 {
        for byte in [0, 0x45, 0xff] {
            assert_eq!(opened(&mut [(vec![byte; length], length.max(1))], &cipher("none")), []);
            assert_eq!(sealed(&[vec![byte; length]], &aes), []);
        }
    }
}

#[test]
fn every_flag_is_required_and_checked() {
    let parse = |line: &str| FloorArguments::parse(line.split(' ').map(str::to_owned));
    let whole = "--tun floor0 --listen 5555 --peer 10.0.0.2:5555 --cipher none";
    let arguments = parse(whole).unwrap();
    assert_eq!((arguments.tun.as_str(), arguments.port, arguments.peer.port()), ("floor0", 5_555, 5_555));
    for bad in [
        "--tun floor0",
        "--tun",
        "--cipher rot13",
        "--listen 99999",
        "--peer [::1]:1",
        &whole.replace("--tun", "--tap"),
    ] {
        let why = parse(bad).err().unwrap().to_string();
        assert!(why.contains("usage:"), "{why}");
    }
}

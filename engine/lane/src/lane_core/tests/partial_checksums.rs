//! Packets with a partial checksum: they stay partial between Taut nodes, marked by a flag, and to no other peer.

use taut_base::{ReceiverIndex, SessionId};
use taut_node::ToLane;
use taut_tunnel::{Session, SessionKeys};
use taut_wire::control::{Abilities, Suite, Suites};
use taut_wire::merge::{Merger, Offloads};
use taut_wire::vnet::VnetHeader;
use taut_wire::wireguard::{DATA_HEADER, DATA_OVERHEAD};

use super::kit::{PEER, TestLane, add_session, at, exporter, keys, outer, packet, read, superpacket};
use crate::drops::{DropCounts, DropReason};

/// Returns the keys of session 1 between Taut nodes that both have AES.
fn taut_keys() -> (SessionKeys, SessionKeys) {
    let extended = |keys: SessionKeys| SessionKeys {
        extension: Some(exporter(keys.role, keys.stock.local, keys.stock.remote)),
        suites: Suites::STOCK.with(Suite::Aes256Gcm),
        ..keys
    };
    let (ours, theirs) = keys(1);
    (extended(ours), extended(theirs))
}

/// Returns host 1, whose peer has this suite and these abilities, and the session as the peer has it.
fn sender(suite: Suite, abilities: Abilities) -> (TestLane, Session) {
    let mut here = TestLane::new(1, 2);
    let (ours, theirs) = taut_keys();
    here.command(add_session(1, ours, Some(outer(2)), at(0)), at(0));
    here.command(ToLane::UseSuite { peer: PEER, session: SessionId(1), suite, abilities }, at(0));
    here.datagrams();
    (here, Session::new(SessionId(1), theirs, at(0)))
}

/// Returns host 2, and the session as its peer has it, which seals with this suite.
fn receiver(suite: Suite) -> (TestLane, Session) {
    let mut there = TestLane::new(2, 1);
    let (ours, theirs) = taut_keys();
    there.command(add_session(1, theirs, None, at(0)), at(0));
    let mut peer = Session::new(SessionId(1), ours, at(0));
    peer.use_suite(suite, Abilities::OURS);
    (there, peer)
}

/// Returns the contents of a datagram, with padding.
fn opened(session: &mut Session, datagram: &[u8]) -> Vec<u8> {
    let index = ReceiverIndex(u32::from_le_bytes(datagram[4..8].try_into().unwrap()));
    let counter = u64::from_le_bytes(datagram[8..16].try_into().unwrap());
    session.data_pair(index).unwrap().open(counter, &mut datagram[DATA_HEADER..].to_vec()).unwrap().to_vec()
}

fn sealed(session: &mut Session, packet: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; DATA_OVERHEAD + packet.len().next_multiple_of(16)];
    datagram[DATA_HEADER..][..packet.len()].copy_from_slice(packet);
    session.seal(&mut datagram, packet.len()).unwrap();
    datagram
}

/// Returns a packet with a partial checksum and the flag that says so.
fn flagged(payload: usize) -> Vec<u8> {
    let (_, mut packet) = superpacket(payload, 0);
    packet[0] |= 0x80;
    packet
}

#[test]
fn a_superpacket_arrives_unchanged_and_no_checksum_is_computed() {
    let (mut here, _) = sender(Suite::Aes256Gcm, Abilities::OURS);
    let (mut there, _) = receiver(Suite::Aes256Gcm);
    let (header, packet) = superpacket(10_000, 1_380);
    let single = VnetHeader { gso_type: 0, gso_size: 0, hdr_len: 38, ..header };
    for header in [header, single] {
        let packet = if header == single { superpacket(900, 0).1 } else { packet.clone() };
        here.core.outbound(&read(header, &packet), &mut here.out, at(1));
        for (_, run, size) in here.runs() {
            there.inbound(outer(1), &run, size, at(1));
        }
        assert_eq!(std::mem::take(&mut there.io.written), [(header, packet)]);
    }
    let drops: &DropCounts = &there.core.drops;
    assert!(drops.iter().all(|(_, count)| count == 0));
    assert_eq!(there.received().0, here.sent().0, "the flag costs no byte");
}

#[test]
fn partial_checksums_go_only_to_peers_that_accept_them() {
    let aes = Suite::Aes256Gcm;
    for (suite, abilities, partial) in [
        (aes, Abilities::OURS, true),
        (aes, Abilities::default(), false),
        (aes, Abilities(0xfe), false),
        (Suite::ChaCha20Poly1305, Abilities::OURS, false),
    ] {
        let (mut here, mut peer) = sender(suite, abilities);
        let (header, packet) = superpacket(3_000, 1_000);
        here.core.outbound(&read(header, &packet), &mut here.out, at(1));
        let first: Vec<_> = here.datagrams().iter().map(|datagram| opened(&mut peer, datagram)[0]).collect();
        assert_eq!(first, [if partial { 0xc5 } else { 0x45 }; 3], "{suite:?} {abilities:?}");
    }
    // A packet with a complete checksum is not flagged.
    let (mut here, mut peer) = sender(aes, Abilities::OURS);
    here.outbound(&packet(1, 2, 100), at(1));
    assert!(opened(&mut peer, &here.datagrams()[0]).starts_with(&packet(1, 2, 100)));
}

#[test]
fn fault_a11_a_packet_with_a_wrong_partial_checksum_flag_is_dropped_and_counted() {
    let (mut there, mut peer) = receiver(Suite::ChaCha20Poly1305);
    let datagram = sealed(&mut peer, &flagged(100));
    there.inbound(outer(1), &datagram, datagram.len(), at(1));
    there.assert_dropped(DropReason::BadOuter, 1);
    assert!(there.io.written.is_empty(), "packets of WireGuard's own pair are never flagged");

    let (mut there, mut peer) = receiver(Suite::Aes256Gcm);
    let mut icmp = packet(1, 2, 100);
    icmp[0] |= 0x80;
    let mut fragment = flagged(100);
    fragment[6] |= 0x20;
    let mut complete = flagged(100);
    complete[36] ^= 1;
    let mut options = flagged(100);
    options[0] = 0xc6;
    for wrong in [icmp, fragment, complete, options] {
        let datagram = sealed(&mut peer, &wrong);
        there.inbound(outer(1), &datagram, datagram.len(), at(1));
    }
    there.assert_dropped(DropReason::BadOuter, 4);
    assert!(there.io.written.is_empty());

    let good = sealed(&mut peer, &flagged(100));
    there.inbound(outer(1), &good, good.len(), at(1));
    let told = VnetHeader { flags: 1, hdr_len: 38, csum_start: 20, csum_offset: 16, ..VnetHeader::NONE };
    assert_eq!(there.io.written, [(told, superpacket(100, 0).1)], "the session stays");
}

#[test]
fn without_a_virtio_header_the_checksum_is_completed() {
    let (mut there, mut peer) = receiver(Suite::Aes256Gcm);
    there.core.vnet_header = false;
    there.core.merger = Merger::new(Offloads::NONE);
    let (mut here, mut old_peer) = sender(Suite::Aes256Gcm, Abilities::default());
    let (header, packet) = superpacket(101, 0);
    here.core.outbound(&read(VnetHeader { gso_type: 0, ..header }, &packet), &mut here.out, at(1));
    let complete = opened(&mut old_peer, &here.datagrams()[0])[..packet.len()].to_vec();
    assert_ne!(complete, packet);

    let datagram = sealed(&mut peer, &flagged(101));
    there.inbound(outer(1), &datagram, datagram.len(), at(1));
    assert_eq!(there.io.written, [(VnetHeader::NONE, complete)]);
}

#[test]
fn a_corrupted_packet_beside_flagged_ones_arrives_corrupted_and_unmerged() {
    let (mut there, mut peer) = receiver(Suite::Aes256Gcm);
    let mut corrupted = superpacket(100, 0).1;
    corrupted[100] ^= 1;
    let run: Vec<u8> =
        [flagged(100), corrupted.clone(), flagged(100)].iter().flat_map(|packet| sealed(&mut peer, packet)).collect();
    there.inbound(outer(1), &run, run.len() / 3, at(1));
    let written = std::mem::take(&mut there.io.written);
    assert_eq!(written.len(), 3);
    assert_eq!(written[1], (VnetHeader::NONE, corrupted));
}

#[test]
fn packets_that_waited_for_a_session_have_complete_checksums_until_abilities_are_known() {
    let (ours, theirs) = taut_keys();
    let mut here = TestLane::new(1, 2);
    let (header, packet) = superpacket(2_000, 1_000);
    here.core.outbound(&read(header, &packet), &mut here.out, at(0));
    here.command(add_session(1, ours, Some(outer(2)), at(0)), at(0));
    let mut peer = Session::new(SessionId(1), theirs, at(0));
    let first: Vec<_> = here.datagrams().iter().map(|datagram| opened(&mut peer, datagram)[0]).collect();
    assert_eq!(first, [0x45; 2], "no abilities were agreed yet");
}

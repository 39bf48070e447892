use std::time::Duration;

use taut_node::{FromLane, HandshakeMessage, ToLane};
use taut_tunnel::Session;
use taut_wire::vnet::VnetHeader;

use super::kit::{PEER, TestLane, add_session, at, inner, keys, outer, packet, pair, read, superpacket};
use crate::drops::DropReason;

/// Delivers everything in the batch of `here` to `there`, and returns what `there` wrote to its TUN.
fn carry(here: &mut TestLane, there: &mut TestLane) -> Vec<Vec<u8>> {
    for datagram in here.datagrams() {
        there.inbound(outer(1), &datagram, datagram.len(), at(1));
    }
    there.written()
}

#[test]
fn a_packet_goes_to_the_peer_whose_address_it_has() {
    let (mut here, mut there) = pair();
    here.outbound(&packet(1, 2, 100), at(1));
    let runs = here.runs();
    assert_eq!(
        runs.iter().map(|(to, bytes, size)| (*to, bytes.len(), *size)).collect::<Vec<_>>(),
        [(outer(2), 144, 144)]
    );
    there.inbound(outer(1), &runs[0].1, 144, at(1));
    assert_eq!(there.written(), [packet(1, 2, 100)]);
}

#[test]
fn a_packet_without_a_route_is_dropped() {
    let (mut here, _) = pair();
    here.outbound(&packet(1, 3, 100), at(1));
    here.outbound(&packet(1, 255, 100), at(1));
    here.assert_dropped(DropReason::NoRoute, 2);
    assert!(here.out.is_empty());
}

#[test]
fn bytes_that_are_no_ip_packet_are_dropped() {
    let (mut here, _) = pair();
    let good = packet(1, 2, 100);
    let mut version = good.clone();
    version[0] = 0x75;
    let (mut header, big) = superpacket(3000, 1000);
    header.gso_type = 77;
    let bad = [
        vec![],
        vec![0; 9],
        read(VnetHeader::NONE, &[]),
        read(VnetHeader::NONE, &version),
        read(VnetHeader::NONE, &good[..50]),
        read(header, &big),
    ];
    for packet in &bad {
        here.core.outbound(packet, &mut here.out, at(1));
    }
    here.assert_dropped(DropReason::BadInner, 6);
    assert!(here.out.is_empty());
}

#[test]
fn without_a_session_packets_wait_and_the_agent_is_asked_once_a_second() {
    let mut here = TestLane::new(1, 2);
    for quarter in 0..8 {
        here.outbound(&packet(1, 2, 100), at(0) + Duration::from_millis(250 * quarter));
    }
    assert!(here.out.is_empty());
    assert_eq!(here.outputs(), [FromLane::WantsHandshake(PEER), FromLane::WantsHandshake(PEER)]);
}

#[test]
fn packets_that_waited_leave_in_order_once_we_have_a_session() {
    let (mut here, mut there) = (TestLane::new(1, 2), TestLane::new(2, 1));
    let packets: Vec<Vec<u8>> = (0..20).map(|number| packet(1, 2, 100 + number)).collect();
    for packet in &packets {
        here.outbound(packet, at(0));
    }
    let (ours, theirs) = keys(1);
    there.command(add_session(1, theirs, None, at(1)), at(1));
    here.command(add_session(1, ours, Some(outer(2)), at(1)), at(1));
    assert_eq!(carry(&mut here, &mut there), packets);
}

#[test]
fn a_session_we_initiated_is_confirmed_by_an_empty_packet_if_no_packet_waits() {
    let mut here = TestLane::new(1, 2);
    here.command(add_session(1, keys(1).0, Some(outer(2)), at(1)), at(1));
    assert_eq!(here.datagrams().iter().map(Vec::len).collect::<Vec<_>>(), [32]);
}

#[test]
fn a_session_we_answered_for_is_used_after_the_peer_used_it() {
    let (mut here, mut there) = pair();
    there.outbound(&packet(2, 1, 99), at(1));
    assert!(there.out.is_empty());
    here.outbound(&packet(1, 2, 100), at(1));
    carry(&mut here, &mut there);
    assert!(there.outputs().iter().any(|said| matches!(said, FromLane::Confirmed { peer: PEER, .. })));
    let runs = there.runs();
    assert_eq!(runs[0].0, outer(1));
    here.inbound(outer(2), &runs[0].1, runs[0].2, at(1));
    assert_eq!(here.written(), [packet(2, 1, 99)]);
}

#[test]
fn packets_queue_behind_those_that_still_wait() {
    let (mut here, mut there) = (TestLane::new(1, 2), TestLane::new(2, 1));
    let packets: Vec<Vec<u8>> = (0..150).map(|number| packet(1, 2, 1200 + number)).collect();
    let (waiting, later) = packets.split_at(140);
    for packet in waiting {
        here.outbound(packet, at(0));
    }
    let (ours, theirs) = keys(1);
    there.command(add_session(1, theirs, None, at(1)), at(1));
    here.command(add_session(1, ours, Some(outer(2)), at(1)), at(1));
    assert!(!here.out.has_room(), "more packets waited than one batch holds");
    let mut arrived = carry(&mut here, &mut there);
    assert!(arrived.len() < 140);
    for packet in later {
        here.outbound(packet, at(1));
    }
    while here.core.send_backlog(&mut here.out, at(1)) {
        arrived.extend(carry(&mut here, &mut there));
    }
    assert_eq!(arrived.len(), packets.len());
    assert!(arrived == packets, "in order");
}

#[test]
fn when_too_many_packets_wait_the_oldest_are_dropped() {
    let (mut here, mut there) = (TestLane::new(1, 2), TestLane::new(2, 1));
    let (header, packet) = superpacket(60_000, 1300);
    for _ in 0..6 {
        here.core.outbound(&read(header, &packet), &mut here.out, at(0));
    }
    here.assert_dropped(DropReason::StagedOverflow, 2);
    let (ours, theirs) = keys(1);
    there.command(add_session(1, theirs, None, at(1)), at(1));
    here.command(add_session(1, ours, Some(outer(2)), at(1)), at(1));
    let mut datagrams = here.datagrams().len();
    while here.core.send_backlog(&mut here.out, at(1)) {
        datagrams += here.datagrams().len();
    }
    assert_eq!(datagrams, 4 * 60_000_usize.div_ceil(1300));
}

#[test]
fn waiting_packets_are_dropped_when_the_agent_gives_up() {
    let mut here = TestLane::new(1, 2);
    for _ in 0..7 {
        here.outbound(&packet(1, 2, 100), at(0));
    }
    here.command(ToLane::GiveUp(PEER), at(90));
    here.assert_dropped(DropReason::NoHandshake, 7);
    here.command(add_session(1, keys(1).0, Some(outer(2)), at(91)), at(91));
    assert_eq!(
        here.datagrams().iter().map(Vec::len).collect::<Vec<_>>(),
        [32],
        "only the empty packet is left to send"
    );
}

#[test]
fn a_superpacket_becomes_runs_of_equal_datagrams() {
    let (mut here, _) = pair();
    let (header, packet) = superpacket(10_000, 1300);
    here.core.outbound(&read(header, &packet), &mut here.out, at(1));
    let sealed = Session::sealed_len(1340, 1420);
    let last = Session::sealed_len(40 + 10_000 % 1300, 1420);
    let runs = here.runs();
    assert_eq!(
        runs.iter().map(|(to, bytes, size)| (*to, bytes.len(), *size)).collect::<Vec<_>>(),
        [(outer(2), 7 * sealed + last, sealed)]
    );
}

#[test]
fn a_superpacket_of_tiny_segments_is_dropped() {
    let (mut here, _) = pair();
    let (header, packet) = superpacket(65_000, 8);
    here.core.outbound(&read(header, &packet), &mut here.out, at(1));
    here.assert_dropped(DropReason::BadInner, 1);
    assert!(here.out.is_empty());
}

#[test]
fn a_handshake_message_without_room_is_counted() {
    let mut here = TestLane::new(1, 2);
    let message = HandshakeMessage::new(&[1; 148]).unwrap();
    // Each goes to another destination, as in a map of very many peers, so that no run takes two.
    let destinations = (1..=u16::MAX).map(|port| (inner(2), port).into());
    let sent = destinations.take_while(|destination: &std::net::SocketAddr| {
        here.command(ToLane::Send { way: (*destination).into(), message }, at(0));
        here.dropped(DropReason::SendFailed) == 0
    });
    let sent = sent.count();
    here.assert_dropped(DropReason::SendFailed, 1);
    assert_eq!(here.runs().len(), sent);
    assert!(here.out.has_room());
}

#[test]
fn no_packet_passes_to_or_from_a_removed_peer() {
    let (mut here, mut there) = pair();
    here.outbound(&packet(1, 2, 100), at(1));
    let datagrams = here.datagrams();
    there.command(ToLane::RemovePeer(PEER), at(1));
    for datagram in &datagrams {
        there.inbound(outer(1), datagram, datagram.len(), at(1));
    }
    there.assert_dropped(DropReason::UnknownIndex, 1);
    there.outbound(&packet(2, 1, 100), at(1));
    assert_eq!(there.dropped(DropReason::NoRoute), 1);
    assert!(there.written().is_empty() && there.out.is_empty());
    assert!(there.outputs().is_empty(), "the agent is not told, because it gave the command");
}

#[test]
fn inner_and_outer_bytes_are_counted() {
    let (mut here, mut there) = pair();
    here.outbound(&packet(1, 2, 100), at(1));
    for datagram in here.datagrams() {
        there.inbound(outer(1), &datagram, datagram.len(), at(1));
    }
    // 100 bytes padded to 112, with a header of 16 and a tag of 16 (paper, section 5.4.6); before that the empty packet that confirms.
    assert_eq!((here.sent(), there.received()), ((100, 32 + 144), (100, 144)));
}

//! Packets that are longer than their path carries (faults I1, I2 and I5).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use taut_base::{LaneId, MAX_MTU, Prefix, SAFE_PACKET, SessionId, Time};
use taut_node::{FromLane, Routes, ToLane};
use taut_path::{Choice, Way};
use taut_testkit::packets::{Ip, Tcp, is_right, payload, upper_layer};
use taut_tunnel::Session;
use taut_wire::control::{Abilities, Suite, Suites};
use taut_wire::ecn::Ecn;
use taut_wire::pieces::Plan;
use taut_wire::split::Split;
use taut_wire::vnet::{GSO_NONE, VnetHeader};
use taut_wire::wireguard::{DATA_HEADER, DATA_OVERHEAD};
use taut_wire::{relay, tcp};

use super::kit::{PEER, TestLane, add_session, at, choice, keys, outer, pair, read, taut_pair_with};
use crate::batch::SEALED_SUPERPACKET_MAX;
use crate::drops::DropReason;

/// Endpoint of a relay.
const RELAY: u8 = 9;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn relayed() -> Way {
    Way::Relayed { relay: outer(RELAY), id: 7 }
}

fn limited(way: Way, limit: u16) -> ToLane {
    ToLane::SetPath { peer: PEER, choice: Choice { limit, ..choice(way) } }
}

fn abilities(suite: Suite, abilities: Abilities) -> ToLane {
    ToLane::UseSuite { peer: PEER, session: SessionId(1), suite, abilities }
}

/// Routes the addresses of the test kit's packets to the peer, and sets the largest MTU.
fn route(end: &mut TestLane, peer: u8) {
    let mut six = [0xfd; 16];
    six[15] = peer;
    let addresses = [IpAddr::from([10, 0, 0, peer]), IpAddr::from(six)];
    end.command(ToLane::Routes(Arc::new(Routes::new(addresses.map(|address| (Prefix::host(address), PEER))))), at(0));
    end.command(ToLane::SetMtu(MAX_MTU), at(0));
    end.command(ToLane::Relays(Arc::new([outer(RELAY)])), at(0));
}

/// Returns two Taut nodes whose session uses this suite, each with packets of any size to the other one.
fn ends(suite: Suite) -> (TestLane, TestLane) {
    let (mut here, mut there) = taut_pair_with(Suites::STOCK.with(Suite::Aes256Gcm));
    for (end, peer) in [(&mut here, 2), (&mut there, 1)] {
        route(end, peer);
        end.command(abilities(suite, Abilities::OURS), at(0));
        end.command(ToLane::SetPath { peer: PEER, choice: choice(Way::Direct(outer(peer))) }, at(0));
        end.outputs();
        end.datagrams();
    }
    (here, there)
}

/// Carries all datagrams of at most `longest` bytes to `there`, which gets them from `source`. Returns the lengths of all datagrams.
fn carry(here: &mut TestLane, there: &mut TestLane, source: SocketAddr, longest: usize, now: Time) -> Vec<usize> {
    let datagrams = here.datagrams();
    for datagram in datagrams.iter().filter(|datagram| datagram.len() <= longest) {
        there.inbound(source, datagram, datagram.len(), now);
    }
    datagrams.iter().map(Vec::len).collect()
}

/// A packet as an application sees it: a part of a stream, or a datagram.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Stream(Vec<u8>),
    Datagram(Vec<u8>),
}

/// Cuts packets as a kernel does without limit, and joins neighbours of a stream.
fn seen(packets: impl IntoIterator<Item = (VnetHeader, Vec<u8>)>) -> Vec<Seen> {
    let mut all: Vec<Seen> = Vec::new();
    for (header, packet) in packets {
        let mut split = Split::new(header, &packet).unwrap();
        let mut out = vec![0; split.largest()];
        while let Some(length) = split.write_next(&mut out) {
            let segment = &out[..length];
            let (transport, protocol) = upper_layer(segment);
            assert!(protocol == 47 || is_right(segment));
            let data = transport + usize::from(segment.get(transport + 12).map_or(0, |offset| offset >> 4)) * 4;
            match (all.last_mut(), protocol) {
                (Some(Seen::Stream(bytes)), 6) => bytes.extend(&segment[data..]),
                (_, 6) => all.push(Seen::Stream(segment[data..].to_vec())),
                _ => all.push(Seen::Datagram(segment.to_vec())),
            }
        }
    }
    all
}

/// Returns a packet of one of six kinds as it is read from the TUN.
fn any_packet() -> impl Strategy<Value = (VnetHeader, Vec<u8>)> {
    let length = prop_oneof![1_usize..1_000, 900_usize..3_000, 1_usize..65_350];
    (0..6_u8, length, 500_u16..9_000, any::<bool>(), any::<bool>(), any::<u8>()).prop_map(
        |(kind, length, size, six, dont_fragment, seed)| {
            let ip = Ip { six, dont_fragment, ..Ip::v4() };
            let data = payload(length, seed);
            let tcp = Tcp { flags: tcp::ACK | tcp::PSH, payload: data.clone(), ..Tcp::default() };
            let taken = |(header, packet): (taut_testkit::packets::VirtioHeader, Vec<u8>)| {
                (VnetHeader::decode(&header.encode()), packet)
            };
            let single =
                |(header, packet): (VnetHeader, Vec<u8>)| (VnetHeader { gso_type: GSO_NONE, ..header }, packet);
            match kind {
                0 => (VnetHeader::NONE, ip.udp((5, 6), &data)),
                1 => single(taken(ip.udp_superpacket((5, 6), &data, size))),
                2 => taken(ip.udp_superpacket((5, 6), &data, size)),
                3 => (VnetHeader::NONE, ip.tcp(&tcp)),
                4 => taken(ip.tcp_superpacket(&tcp, size)),
                _ => (VnetHeader::NONE, ip.carry(47, &data)),
            }
        },
    )
}

proptest! {
    #[test]
    fn fault_i1_i2_packets_of_any_size_pass_any_path(packets in proptest::collection::vec(any_packet(), 1..6), limit in 500_u16..9_100,
        aes: bool, through_relay: bool, copies: bool) {
        let suite = if aes { Suite::Aes256Gcm } else { Suite::ChaCha20Poly1305 };
        let (mut here, mut there) = ends(suite);
        let way = if through_relay { relayed() } else { outer(2).into() };
        let second = if through_relay { Way::Direct(outer(2)) } else { relayed() };
        let choice = Choice { limit, also: Some(second).filter(|_| copies), ..choice(way) };
        here.command(ToLane::SetPath { peer: PEER, choice }, at(1));
        let longest = usize::from(limit) + DATA_OVERHEAD + if through_relay { relay::HEADER } else { 0 };
        let mut written = Vec::new();
        for (header, packet) in &packets {
            prop_assert!(here.out.has_room());
            let before = here.out.position();
            here.core.outbound(&read(*header, packet), &mut here.out, at(2));
            let most = if copies { 2 * SEALED_SUPERPACKET_MAX } else { SEALED_SUPERPACKET_MAX };
            prop_assert!(here.out.position() - before <= most);
            for (place, run, size) in here.runs() {
                // Copies take a path with its own limit.
                prop_assert!(size <= longest || copies);
                for datagram in run.chunks(size) {
                    let source = if place == outer(RELAY) { outer(RELAY) } else { outer(1) };
                    there.inbound(source, datagram, datagram.len(), at(2));
                }
            }
            written.append(&mut there.io.written);
        }
        prop_assert_eq!(seen(written), seen(packets));
        // The receiver knows a copy as such only once it has heard of the second path.
        let repeated = there.dropped(DropReason::Duplicate) + there.dropped(DropReason::Replayed);
        prop_assert_eq!(there.core.drops.iter().map(|(_, count)| count).sum::<u64>(), repeated);
        prop_assert!(copies || repeated == 0);
    }
}

#[test]
fn fault_i1_full_size_packets_pass_an_underlay_of_1280_bytes() {
    let (mut here, mut there) = ends(Suite::Aes256Gcm);
    // 1,280 less 40 (IPv6), 8 (UDP) and 32 (WireGuard).
    here.command(limited(outer(2).into(), 1_200), at(1));
    let packet = Ip::v6().udp((1, 2), &payload(1_372, 1));
    here.outbound(&packet, at(1));
    assert_eq!(carry(&mut here, &mut there, outer(1), 1_232, at(1)), [752, 752], "two messages of one length");
    assert_eq!(there.written(), [packet]);
    assert_eq!(here.sent().0, 1_420, "the packet is counted once");
    assert_eq!(there.received().0, 1_420);
}

#[test]
fn fault_i2_padding_makes_no_packet_longer_than_the_path_carries() {
    for limit in 1_000..1_020 {
        let (mut here, mut there) = ends(Suite::ChaCha20Poly1305);
        here.command(limited(outer(2).into(), limit), at(1));
        let packet = Ip::v4().udp((1, 2), &payload(usize::from(limit) - 28, 1));
        here.outbound(&packet, at(1));
        assert_eq!(carry(&mut here, &mut there, outer(1), 2_000, at(1)), [usize::from(limit) + DATA_OVERHEAD]);
        assert_eq!(there.written(), [packet]);
    }
}

/// A peer of release 0.1.0 tells that it takes no pieces.
#[test]
fn a_peer_without_pieces_gets_what_any_wireguard_may_send() {
    let (mut here, _) = ends(Suite::Aes256Gcm);
    here.command(abilities(Suite::Aes256Gcm, Abilities(1)), at(1));
    here.command(limited(outer(2).into(), 1_000), at(1));
    here.outbound(&Ip::v4().udp((1, 2), &payload(1_392, 1)), at(1));
    assert_eq!(here.datagrams().iter().map(Vec::len).collect::<Vec<_>>(), [1_424 + DATA_OVERHEAD]);
    let mut too_long = |packet: &[u8], now| {
        here.outbound(packet, now);
        assert!(here.datagrams().is_empty());
        here.core.poll_host_packet()
    };
    let packet = Ip::v4().udp((1, 2), &payload(1_393, 1));
    let error = too_long(&packet, at(1)).unwrap();
    assert_eq!(
        (&error[12..20], &error[20..22], &error[26..28]),
        (&[10, 0, 0, 2, 10, 0, 0, 1][..], &[3, 4][..], &[5, 0][..])
    );
    assert!(too_long(&Ip::v6().udp((1, 2), &payload(1_393, 1)), at(1)).is_some());
    let may_fragment = Ip { dont_fragment: false, ..Ip::v4() };
    assert!(too_long(&may_fragment.udp((1, 2), &payload(1_393, 1)), at(1)).is_none());
    let told = (0..100).filter(|_| too_long(&packet, at(1)).is_some()).count();
    assert!((10..=20).contains(&told), "{told} errors at once");
    assert!(too_long(&packet, at(2)).is_some());
    here.assert_dropped(DropReason::TooLong, 104);
    // TCP is cut for any peer.
    here.outbound(&Ip::v4().tcp(&Tcp { payload: payload(5_000, 1), ..Tcp::default() }), at(2));
    assert_eq!(here.datagrams().len(), 6);
}

/// Returns two Taut nodes that know nothing of each other's abilities. The path to the second one carries packets of 1,000 bytes.
fn new_ends() -> (TestLane, TestLane) {
    let (mut here, mut there) = taut_pair_with(Suites::STOCK);
    for (end, peer) in [(&mut here, 2), (&mut there, 1)] {
        route(end, peer);
    }
    here.command(limited(outer(2).into(), 1_000), at(0));
    here.outputs();
    here.datagrams();
    (here, there)
}

#[test]
fn fault_i1_the_first_long_packet_waits_until_the_peer_tells_whether_it_takes_pieces() {
    let packets = [1_392, 60, 1_392, 1_100].map(|length| Ip::v4().udp((1, 2), &payload(length, 1)));
    let message = |packet: &[u8]| packet.len().next_multiple_of(16) + DATA_OVERHEAD;
    for (theirs, lengths) in
        [(Abilities::OURS, None), (Abilities(1), Some(packets.each_ref().map(|packet| message(packet))))]
    {
        let (mut here, mut there) = new_ends();
        packets.iter().for_each(|packet| here.outbound(packet, at(1)));
        assert!(here.datagrams().is_empty(), "later packets wait behind it");
        here.command(abilities(Suite::ChaCha20Poly1305, theirs), at(1));
        let sent = carry(&mut here, &mut there, outer(1), 2_000, at(1));
        assert_eq!(sent.iter().all(|length| *length <= 1_000 + DATA_OVERHEAD), lengths.is_none());
        assert!(lengths.is_none_or(|lengths| sent == lengths));
        assert_eq!(there.written(), packets, "in order");
        here.assert_dropped(DropReason::StagedOverflow, 0);
    }
}

#[test]
fn fault_i1_a_peer_that_tells_nothing_gets_long_packets_whole_after_a_second() {
    let (mut here, mut there) = new_ends();
    let long = Ip::v4().udp((1, 2), &payload(1_392, 1));
    here.outbound(&long, at(1));
    here.time_passes(at(1) + ms(999));
    assert!(here.datagrams().is_empty());
    assert!(here.core.poll_timeout().is_some_and(|due| due <= at(2)));
    here.time_passes(at(2));
    carry(&mut here, &mut there, outer(1), 2_000, at(2));
    here.outbound(&long, at(3));
    carry(&mut here, &mut there, outer(1), 2_000, at(3));
    assert_eq!(there.written(), [long.clone(), long.clone()], "the second one does not wait");
    here.command(abilities(Suite::ChaCha20Poly1305, Abilities::OURS), at(4));
    here.outbound(&long, at(4));
    assert_eq!(here.datagrams().len(), 2, "a peer that tells late gets pieces");
}

#[test]
fn fault_i1_packets_that_waited_for_the_session_stay_in_order_and_short_ones_leave_at_once() {
    let (mut here, mut there) = (TestLane::taut(1, 2), TestLane::taut(2, 1));
    for (end, peer) in [(&mut here, 2), (&mut there, 1)] {
        route(end, peer);
    }
    let packets = [60, 1_392, 61, 1_100].map(|length| Ip::v4().udp((1, 2), &payload(length, 1)));
    packets.iter().for_each(|packet| here.outbound(packet, at(1)));
    let (ours, theirs) = keys(1);
    let extended = |keys: taut_tunnel::SessionKeys| taut_tunnel::SessionKeys {
        extension: Some(super::kit::exporter(keys.role, keys.stock.local, keys.stock.remote)),
        ..keys
    };
    there.command(add_session(1, extended(theirs), None, at(1)), at(1));
    here.command(add_session(1, extended(ours), Some(outer(2)), at(1)), at(1));
    // No path was chosen yet: the limit is that of a safe packet.
    carry(&mut here, &mut there, outer(1), 2_000, at(1));
    assert_eq!(there.written(), packets[..1]);
    here.command(limited(outer(2).into(), 1_000), at(1));
    assert!(here.datagrams().is_empty());
    here.command(abilities(Suite::ChaCha20Poly1305, Abilities::OURS), at(1));
    carry(&mut here, &mut there, outer(1), 1_000 + DATA_OVERHEAD, at(1));
    assert_eq!(there.written(), packets[1..]);
}

#[test]
fn fault_p1_packets_that_wait_for_a_peer_to_tell_are_bounded() {
    let (mut here, _) = new_ends();
    let long = Ip::v4().udp((1, 2), &payload(1_392, 1));
    (0..10_000).for_each(|_| here.outbound(&long, at(1)));
    assert!(here.datagrams().is_empty() && here.dropped(DropReason::StagedOverflow) > 9_000);
    here.command(abilities(Suite::ChaCha20Poly1305, Abilities::OURS), at(1));
    while here.core.send_backlog(&mut here.out, at(1)) {
        here.datagrams();
    }
    here.outbound(&long, at(1));
    assert_eq!(here.datagrams().len(), 2);
}

#[test]
fn a_native_peer_gets_whole_packets_and_sends_no_pieces() {
    let (mut here, mut there) = pair();
    route(&mut here, 2);
    here.outbound(&Ip::v4().udp((1, 2), &payload(9_000, 1)), at(1));
    assert_eq!(here.datagrams().len(), 1);
    let mut piece = vec![0; 600];
    Plan::new(1_000, 600).unwrap().write(0, 1, &payload(1_000, 1), &mut piece).unwrap();
    let mut session = Session::new(SessionId(1), keys(1).0, at(0));
    there.inbound(outer(1), &seal(&mut session, &piece), 700, at(1));
    there.assert_dropped(DropReason::BadOuter, 1);
}

#[test]
fn fault_i8_the_tunnels_own_datagrams_are_not_sealed_again() {
    let (mut here, _) = pair();
    let endpoint = outer(2);
    let prefix = Prefix::host(endpoint.ip());
    here.command(ToLane::Routes(Arc::new(Routes::new([(prefix, PEER)]))), at(0));
    let SocketAddr::V4(to) = endpoint else { panic!("IPv4") };
    let mut datagram = Ip::v4().udp((8288, to.port()), &payload(100, 1));
    datagram[16..20].copy_from_slice(&to.ip().octets());
    here.outbound(&datagram, at(1));
    assert!(here.datagrams().is_empty());
    here.assert_dropped(DropReason::Loop, 1);
    // Any other packet to that address may go through the tunnel.
    datagram[23] ^= 1;
    here.outbound(&datagram, at(1));
    assert_eq!(here.datagrams().len(), 1);
}

/// Seals any bytes as the peer.
fn seal(session: &mut Session, bytes: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; Session::sealed_len(bytes.len(), 0)];
    datagram[DATA_HEADER..DATA_HEADER + bytes.len()].copy_from_slice(bytes);
    session.seal(&mut datagram, bytes.len()).unwrap();
    datagram
}

/// Returns a node, and the session as its peer has it.
fn receiver() -> (TestLane, Session) {
    let (_, mut there) = ends(Suite::Aes256Gcm);
    let (ours, theirs) = keys(2);
    let extended = |keys: taut_tunnel::SessionKeys| taut_tunnel::SessionKeys {
        extension: Some(super::kit::exporter(keys.role, keys.stock.local, keys.stock.remote)),
        suites: Suites::STOCK.with(Suite::Aes256Gcm),
        ..keys
    };
    there.command(add_session(2, extended(theirs), None, at(0)), at(0));
    let mut peer = Session::new(SessionId(2), extended(ours), at(0));
    peer.use_suite(Suite::Aes256Gcm, Abilities::OURS);
    (there, peer)
}

/// Has the peer send a packet in pieces with these congestion marks, one after the other.
fn send_pieces(there: &mut TestLane, peer: &mut Session, id: u32, packet: &[u8], marks: &[Ecn]) {
    let plan = Plan::new(packet.len(), 1_000).unwrap();
    for (index, mark) in (0..plan.count()).zip(marks.iter().chain(std::iter::repeat(&Ecn::NotEct))) {
        let mut piece = vec![0; plan.longest()];
        let length = plan.write(index, id, packet, &mut piece).unwrap();
        let datagram = seal(peer, &piece[..length]);
        there.core.arrived_at(None, *mark);
        there.inbound(outer(1), &datagram, datagram.len(), at(1));
    }
}

#[test]
fn a_packet_in_pieces_is_checked_like_any_other() {
    let (mut there, mut peer) = receiver();
    let good = Ip { source: 1, destination: 2, ..Ip::v4() };
    let bad = [
        (DropReason::SourceNotAllowed, Ip { source: 3, ..good.clone() }.udp((1, 2), &payload(1_400, 1))),
        (DropReason::BadOuter, payload(1_400, 1)),
        (DropReason::BadOuter, [vec![0x10, 0, 2, 0, 1, 1, 1, 1, 2, 0], payload(1_400, 1)].concat()),
    ];
    for (id, (reason, packet)) in (0..).zip(&bad) {
        let before = there.dropped(*reason);
        send_pieces(&mut there, &mut peer, id, packet, &[]);
        assert_eq!(there.dropped(*reason), before + 1);
    }
    assert!(there.written().is_empty());
    send_pieces(&mut there, &mut peer, 9, &good.udp((1, 2), &payload(1_400, 1)), &[]);
    assert_eq!(there.written().len(), 1);
}

#[test]
fn a_congestion_mark_on_any_piece_reaches_the_packet() {
    let (mut there, mut peer) = receiver();
    let packet = Ip { tos: 2, ..Ip::v4() }.udp((1, 2), &payload(1_400, 1));
    send_pieces(&mut there, &mut peer, 1, &packet, &[Ecn::Ce, Ecn::Ect0]);
    send_pieces(&mut there, &mut peer, 2, &packet, &[Ecn::Ect0, Ecn::Ect0]);
    assert_eq!(there.written().iter().map(|packet| packet[1]).collect::<Vec<_>>(), [3, 2]);
    let packet = Ip::v4().udp((1, 2), &payload(1_400, 1));
    send_pieces(&mut there, &mut peer, 3, &packet, &[Ecn::Ce]);
    there.assert_dropped(DropReason::CongestionMet, 1);
}

#[test]
fn pieces_that_never_complete_a_packet_are_counted_and_forgotten() {
    let (mut there, mut peer) = receiver();
    let packet = Ip::v4().udp((1, 2), &payload(1_400, 1));
    let plan = Plan::new(packet.len(), 1_000).unwrap();
    let mut piece = vec![0; plan.longest()];
    for id in 0..10 {
        plan.write(0, id, &packet, &mut piece).unwrap();
        let datagram = seal(&mut peer, &piece);
        there.inbound(outer(1), &datagram, datagram.len(), at(1));
    }
    there.assert_dropped(DropReason::Incomplete, 6);
    assert!(there.core.poll_timeout().is_some_and(|due| due <= at(2)));
    there.time_passes(at(2));
    there.assert_dropped(DropReason::Incomplete, 10);
    // Damaged pieces and those of a removed peer.
    for bad in [&piece[..20], &[0x1f; 64][..]] {
        let datagram = seal(&mut peer, bad);
        there.inbound(outer(1), &datagram, datagram.len(), at(2));
    }
    assert_eq!(there.dropped(DropReason::BadOuter), 2);
    plan.write(0, 20, &packet, &mut piece).unwrap();
    let datagram = seal(&mut peer, &piece);
    there.inbound(outer(1), &datagram, datagram.len(), at(2));
    there.command(ToLane::RemovePeer(PEER), at(2));
    assert_eq!(there.dropped(DropReason::Incomplete), 11);
}

#[test]
fn while_a_change_waits_for_a_gap_the_lower_limit_applies() {
    let lengths = |here: &mut TestLane, now| {
        here.outbound(&Ip::v4().udp((1, 2), &payload(1_372, 1)), now);
        here.datagrams().len()
    };
    for (relay, direct) in [(1_100, 1_400), (1_400, 1_100)] {
        let (mut here, _) = ends(Suite::Aes256Gcm);
        here.command(limited(relayed(), relay), at(1));
        assert_eq!(lengths(&mut here, at(1)), if relay == 1_100 { 2 } else { 1 });
        let change = Choice { behind: ms(30), limit: direct, ..choice(outer(2).into()) };
        here.command(ToLane::SetPath { peer: PEER, choice: change }, at(1));
        assert_eq!(lengths(&mut here, at(1) + ms(1)), 2, "the change waits");
        // A limit that rises meanwhile neither ends the wait nor starts it again.
        here.command(ToLane::SetPath { peer: PEER, choice: Choice { limit: direct + 8, ..change } }, at(1) + ms(2));
        assert_eq!(lengths(&mut here, at(1) + ms(2)), 2);
        assert_eq!(lengths(&mut here, at(1) + ms(40)), if direct == 1_100 { 2 } else { 1 }, "the new path");
    }
}

#[test]
fn another_limit_of_the_same_path_does_not_end_a_suspicion() {
    let (mut here, _) = ends(Suite::Aes256Gcm);
    let with_spare = |limit| Choice { spare: Some(relayed()), limit, ..choice(outer(2).into()) };
    let tell = |here: &mut TestLane, limit, now| {
        here.command(ToLane::SetPath { peer: PEER, choice: with_spare(limit) }, now);
    };
    let suspected = |here: &mut TestLane| here.outputs().contains(&FromLane::Suspect { peer: PEER });
    tell(&mut here, 1_400, at(1));
    here.outbound(&Ip::v4().udp((1, 2), &payload(100, 1)), at(1));
    tell(&mut here, 1_392, at(1) + ms(50));
    here.time_passes(at(1) + ms(100));
    assert!(suspected(&mut here), "the deadline did not move");
    here.datagrams();
    // The search begins with a low limit, and copies continue.
    tell(&mut here, 1_000, at(1) + ms(101));
    here.outbound(&Ip::v4().udp((1, 2), &payload(100, 1)), at(1) + ms(102));
    assert_eq!(here.datagrams().len(), 2);
    // An answer at the former size proves the path.
    tell(&mut here, 1_392, at(1) + ms(103));
    here.outbound(&Ip::v4().udp((1, 2), &payload(100, 1)), at(1) + ms(104));
    assert_eq!(here.datagrams().len(), 1);
    here.time_passes(at(1) + ms(204));
    assert!(suspected(&mut here), "and may be suspected again");
}

#[test]
fn without_a_second_path_a_lower_limit_shows_whether_shorter_packets_arrive() {
    let (mut here, _) = ends(Suite::Aes256Gcm);
    for (limit, now) in [(1_400, at(1)), (1_000, at(1) + ms(150))] {
        here.command(limited(outer(2).into(), limit), now);
        here.outbound(&Ip::v4().udp((1, 2), &payload(100, 1)), now);
        here.time_passes(now + ms(100));
        assert!(here.outputs().contains(&FromLane::Suspect { peer: PEER }), "at {limit} bytes");
    }
}

/// Sends a packet of `length` bytes on a path that loses more than 1,200 bytes.
fn lossy(here: &mut TestLane, there: &mut TestLane, length: usize, now: Time) {
    here.outbound(&Ip::v4().udp((1, 2), &payload(length - 28, 1)), now);
    carry(here, there, outer(1), 1_200, now);
}

#[test]
fn fault_i1_long_packets_that_do_not_arrive_are_reported_once_a_second() {
    for (theirs, reported) in [(Abilities::OURS, true), (Abilities(1), false)] {
        let (mut here, mut there) = ends(Suite::Aes256Gcm);
        here.command(abilities(Suite::Aes256Gcm, theirs), at(1));
        let mut lost = Vec::new();
        for round in 0..100 {
            let now = at(1) + ms(30 * round);
            (0..3).for_each(|_| lossy(&mut here, &mut there, 1_300, now));
            lossy(&mut here, &mut there, 900, now);
            there.time_passes(now + ms(20));
            carry(&mut there, &mut here, outer(2), 2_000, now + ms(20));
            let told = here.outputs().into_iter().filter(|said| *said == FromLane::LongLost { peer: PEER }).count();
            lost.extend(std::iter::repeat_n(30 * round, told));
        }
        assert_eq!(lost, if reported { vec![0, 1_020, 2_040] } else { vec![] });
    }
}

#[test]
fn long_packets_that_are_lost_now_and_then_are_not_reported() {
    let (mut here, mut there) = ends(Suite::Aes256Gcm);
    for round in 0..100 {
        let now = at(1) + ms(30 * round);
        (0..2).for_each(|_| lossy(&mut here, &mut there, 1_300, now));
        here.outbound(&Ip::v4().udp((1, 2), &payload(1_300 - 28, 1)), now);
        carry(&mut here, &mut there, outer(1), 2_000, now);
        lossy(&mut here, &mut there, 900, now);
        there.time_passes(now + ms(20));
        carry(&mut there, &mut here, outer(2), 2_000, now + ms(20));
        assert!(!here.outputs().contains(&FromLane::LongLost { peer: PEER }), "round {round}");
    }
}

#[test]
fn fault_i1_packets_that_do_not_arrive_are_reported_although_shorter_long_ones_do() {
    let (mut here, mut there) = ends(Suite::Aes256Gcm);
    let mut reported = false;
    for round in 0..4 {
        let now = at(1) + ms(30 * round);
        (0..5).for_each(|_| lossy(&mut here, &mut there, 1_100, now));
        lossy(&mut here, &mut there, 1_300, now);
        lossy(&mut here, &mut there, 900, now);
        there.time_passes(now + ms(20));
        carry(&mut there, &mut here, outer(2), 2_000, now + ms(20));
        reported |= here.outputs().contains(&FromLane::LongLost { peer: PEER });
        assert_eq!(reported, round >= 2, "with the third");
    }
}

#[test]
fn fault_i5_the_segment_size_is_lowered_in_both_directions() {
    let mss = |value: u16| [&[2, 4][..], &value.to_be_bytes()].concat();
    for suite in [Suite::ChaCha20Poly1305, Suite::Aes256Gcm] {
        for flags in [tcp::SYN, tcp::SYN | tcp::ACK] {
            for partial in [false, true] {
                let (mut here, mut there) = ends(suite);
                let syn = |value| Tcp { flags, options: mss(value), ..Tcp::default() };
                let ip = Ip::v4();
                let sent = || {
                    if !partial {
                        return (VnetHeader::NONE, ip.tcp(&syn(8_960)));
                    }
                    let (header, packet) = ip.tcp_superpacket(&syn(8_960), 0);
                    (VnetHeader { gso_type: GSO_NONE, ..VnetHeader::decode(&header.encode()) }, packet)
                };
                let mut arrives = |ours, theirs| {
                    here.command(ToLane::SetMtu(ours), at(1));
                    there.command(ToLane::SetMtu(theirs), at(1));
                    let (header, packet) = sent();
                    here.core.outbound(&read(header, &packet), &mut here.out, at(1));
                    carry(&mut here, &mut there, outer(1), 2_000, at(1));
                    let (header, packet) = there.io.written.pop().unwrap();
                    let mut out = vec![0; packet.len()];
                    Split::new(header, &packet).unwrap().write_next(&mut out).unwrap();
                    out
                };
                assert_eq!(arrives(1_420, 9_000), ip.tcp(&syn(1_380)), "as it is sent");
                assert_eq!(arrives(9_000, 1_420), ip.tcp(&syn(1_380)), "as it is received");
                assert_eq!(arrives(9_000, 9_000), ip.tcp(&syn(8_960)));
            }
        }
    }
}

#[test]
fn the_limit_holds_on_all_lanes() {
    let mut here = TestLane::new(1, 2);
    here.command(ToLane::RemovePeer(PEER), at(0));
    let TestLane { core, out, io } = here;
    let mut here = TestLane { core: core.as_lane(LaneId(1), 2), out, io };
    here.command(ToLane::AddPeer { peer: PEER, roams: false }, at(0));
    let limit = |here: &mut TestLane| here.core.peers.get_mut(PEER).and_then(|peer| peer.path.limit());
    assert_eq!(limit(&mut here), Some(SAFE_PACKET), "before a path was chosen");
    for bytes in [1_400, 1_000] {
        here.command(limited(outer(2).into(), bytes), at(1));
        assert_eq!(limit(&mut here), Some(bytes));
    }
}

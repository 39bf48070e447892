//! Datagrams through a relay, frames of relays and STUN servers, and what may change a peer's path.

use std::net::SocketAddr;
use std::sync::Arc;

use taut_base::{LaneId, Prefix, ReceiverIndex, SessionId};
use taut_node::{Datagram, FromLane, HandshakeMessage, Routes, ToLane};
use taut_path::Way;
use taut_testkit::packets::Ip;
use taut_tunnel::handshake::{Remote, SentInitiation, Timestamp};
use taut_tunnel::{Role, SessionKeys};
use taut_wire::control::{ControlMessage, Suites};
use taut_wire::relay::{HEADER, header, id};
use taut_wire::wireguard::{cookie_reply, initiation};

use super::kit::{
    PEER, TestLane, add_session, at, choice, exporter, identity, outer, packet, pair, read, superpacket, taut_pair,
};
use crate::drops::DropReason;

/// The relay's host number.
const RELAY: u8 = 9;

fn through(id: u32) -> Way {
    Way::Relayed { relay: outer(RELAY), id }
}

fn name_relay(end: &mut TestLane) {
    end.command(ToLane::Relays(Arc::new([outer(RELAY)])), at(0));
}

fn set_path(end: &mut TestLane, way: Way) {
    end.command(ToLane::SetPath { peer: PEER, choice: choice(way) }, at(0));
}

/// Returns what the relay makes of a run: it replaces the sender's number for the peer, `from`, by the receiver's number, `to`.
fn relayed(run: &[u8], size: usize, from: u32, to: u32) -> Vec<u8> {
    let mut run = run.to_vec();
    for frame in run.chunks_mut(size) {
        assert_eq!(id(frame), Some(from));
        frame[..HEADER].copy_from_slice(&header(to));
    }
    run
}

#[test]
fn packets_through_a_relay_arrive_unchanged() {
    let (mut here, mut there) = taut_pair();
    set_path(&mut here, through(7));
    name_relay(&mut there);
    let (header, packet) = superpacket(40 * 1380, 1380);
    here.core.outbound(&read(header, &packet), &mut here.out, at(1));
    let runs = here.runs();
    let mut segments = 0;
    for (destination, run, size) in &runs {
        assert_eq!(*destination, outer(RELAY));
        segments += run.len().div_ceil(*size);
        there.inbound(outer(RELAY), &relayed(run, *size, 7, 3), *size, at(1));
    }
    assert!(runs.len() <= 3 && segments == 40, "equal sizes still form runs: {} of {segments}", runs.len());
    let written = std::mem::take(&mut there.io.written);
    assert_eq!(written.len(), 1, "and are merged again");
    assert_eq!(written[0].1[40..], packet[40..]);
    let outputs = there.outputs();
    assert!(outputs.contains(&FromLane::Arrived { peer: PEER, way: through(3) }), "{outputs:?}");
    assert!(outputs.contains(&FromLane::Confirmed { peer: PEER, id: SessionId(1) }));
    there.outbound(&super::kit::packet(2, 1, 100), at(1));
    let [(destination, answer, _)] = &there.runs()[..] else { panic!("one datagram") };
    assert_eq!(
        (*destination, id(answer)),
        (outer(RELAY), Some(3)),
        "before the agent chooses, the answer takes the path that the packet came on"
    );
    here.outputs();
    name_relay(&mut here);
    here.inbound(outer(RELAY), &relayed(answer, answer.len(), 3, 7), answer.len(), at(1));
    assert_eq!(here.written().len(), 1);
    assert!(
        !here.outputs().iter().any(|said| matches!(said, FromLane::Arrived { .. })),
        "packets go on that path already"
    );
}

#[test]
fn a_probe_through_a_relay_is_answered_through_it() {
    let (mut here, mut there) = taut_pair();
    name_relay(&mut there);
    let way = Some(through(7));
    let probe = ControlMessage::Probe { id: 5 };
    let ask = |way| ToLane::Control { peer: PEER, session: SessionId(1), lane: LaneId::FIRST, way, message: probe };
    here.command(ask(way), at(1));
    let [(_, asked, size)] = &here.runs()[..] else { panic!("one probe") };
    there.inbound(outer(RELAY), &relayed(asked, *size, 7, 3), *size, at(1));
    let [(destination, answer, size)] = &there.runs()[..] else { panic!("one answer") };
    assert_eq!((*destination, answer.len()), (outer(RELAY), asked.len()), "the answer is as long as the probe");
    name_relay(&mut here);
    here.outputs();
    here.inbound(outer(RELAY), &relayed(answer, *size, 3, 7), *size, at(1));
    let heard = here.outputs().into_iter().find_map(|said| match said {
        FromLane::Control { source, message, .. } => Some((source, message)),
        _ => None,
    });
    let seen = "0.0.0.0:0".parse().unwrap();
    assert_eq!(heard, Some((through(7), ControlMessage::Answer { id: 5, seen })));
}

#[test]
fn only_datagrams_of_named_relays_are_taken() {
    let (mut here, mut there) = taut_pair();
    set_path(&mut here, through(7));
    here.outbound(&packet(1, 2, 100), at(1));
    let [(_, frame, size)] = &here.runs()[..] else { panic!("one datagram") };
    there.inbound(outer(RELAY), frame, *size, at(1));
    there.assert_dropped(DropReason::NotWireGuard, 1);
    let bind = [0x82; 60];
    there.inbound(outer(RELAY), &bind, bind.len(), at(1));
    there.assert_dropped(DropReason::NotWireGuard, 2);
    name_relay(&mut there);
    there.inbound(outer(8), frame, *size, at(1));
    there.assert_dropped(DropReason::NotWireGuard, 3);
    assert!(there.outputs().is_empty() && there.written().is_empty());
    there.inbound(outer(RELAY), frame, *size, at(1));
    assert_eq!(there.written().len(), 1, "it was not opened before");
    there.command(ToLane::Relays(Arc::new([])), at(1));
    there.inbound(outer(RELAY), &bind, bind.len(), at(1));
    there.assert_dropped(DropReason::NotWireGuard, 4);
}

#[test]
fn frames_and_stun_answers_reach_the_agent_within_a_rate() {
    let (_, mut there) = pair();
    name_relay(&mut there);
    let mut stun = [0; 32];
    stun[..8].copy_from_slice(&[1, 1, 0, 12, 0x21, 0x12, 0xa4, 0x42]);
    request(&mut there, &stun);
    for bytes in [&stun[..], &[0x81; 4], &[0x84; 512]] {
        there.inbound(outer(RELAY), bytes, bytes.len(), at(1));
        let datagram = FromLane::Datagram { source: outer(RELAY), bytes: Datagram::new(bytes).unwrap() };
        assert_eq!(there.outputs(), [datagram]);
    }
    let other = [&[0x85; 40][..], &[0x80; 8], &[0x80; 7], &[0x84; 513], &stun[..19], &[0xc1; 32]];
    for bytes in other {
        there.inbound(outer(RELAY), bytes, bytes.len(), at(1));
    }
    there.assert_dropped(DropReason::NotWireGuard, 6);
    let taken = (0..10_000)
        .filter(|_| {
            there.inbound(outer(RELAY), &stun, stun.len(), at(2));
            there.outputs().len() == 1
        })
        .count();
    assert_eq!((taken, there.dropped(DropReason::RelayRate)), (200, 9_800));
}

/// Sends a bind or a STUN request to the relay.
fn request(end: &mut TestLane, bytes: &[u8]) {
    let bytes = Datagram::new(bytes).unwrap();
    end.command(ToLane::Datagram { destination: outer(RELAY), bytes }, at(0));
    end.runs();
}

#[test]
fn fault_a14_frames_with_a_relays_forged_address_do_not_stop_its_own_frames() {
    let (_, mut here) = pair();
    name_relay(&mut here);
    let frame = |kind: u8, index: u32| {
        let mut frame = [0; 72];
        frame[0] = kind;
        frame[4..8].copy_from_slice(&index.to_le_bytes());
        frame
    };
    let stun = |transaction: u8| {
        let mut stun = [transaction; 32];
        stun[..8].copy_from_slice(&[1, 1, 0, 12, 0x21, 0x12, 0xa4, 0x42]);
        stun
    };
    request(&mut here, &frame(0x81, 7));
    request(&mut here, &stun(7));
    let mut outputs = |bytes: &[u8]| {
        here.inbound(outer(RELAY), bytes, bytes.len(), at(1));
        here.outputs().len()
    };
    // The forger has not seen our bind and our request.
    let forged = (100..10_000).map(|index| outputs(&frame(0x83, index)) + outputs(&stun(9))).sum::<usize>();
    assert_eq!(forged, 200, "the limit of other frames, and no STUN answer without a request");
    assert_eq!(outputs(&frame(0x82, 7)), 1, "the relay's answer to our bind");
    assert_eq!((outputs(&frame(0x83, 7)), outputs(&stun(7))), (1, 1));
    let own = (0..1_000).map(|_| outputs(&frame(0x83, 7))).sum::<usize>();
    assert_eq!(own, 200 - 3, "answers have a limit, too");
}

#[test]
fn unsealed_datagrams_leave_as_they_are() {
    let (mut here, _) = pair();
    let bytes = Datagram::new(&[0x81; 200]).unwrap();
    here.command(ToLane::Datagram { destination: outer(RELAY), bytes }, at(0));
    assert_eq!(here.runs(), [(outer(RELAY), vec![0x81; 200], 200)]);
    let message = HandshakeMessage::new(&[1; initiation::LEN]).unwrap();
    here.command(ToLane::Send { way: through(4), message }, at(0));
    let [(destination, frame, _)] = &here.runs()[..] else { panic!("one frame") };
    assert_eq!((*destination, id(frame), &frame[HEADER..]), (outer(RELAY), Some(4), message.as_bytes()));
    assert!(Datagram::new(&[0; Datagram::MAX + 1]).is_none());
}

#[test]
fn fault_c6_packets_that_a_relay_repeats_are_dropped() {
    let (mut here, mut there) = taut_pair();
    set_path(&mut here, through(7));
    name_relay(&mut there);
    here.outbound(&packet(1, 2, 100), at(1));
    let [(_, frame, size)] = &here.runs()[..] else { panic!("one datagram") };
    let frame = relayed(frame, *size, 7, 3);
    there.inbound(outer(RELAY), &frame, *size, at(1));
    there.outputs();
    set_path(&mut there, through(3));
    for _ in 0..100 {
        there.inbound(outer(RELAY), &frame, *size, at(2));
    }
    // The same under another client's number, which proves nothing.
    there.inbound(outer(RELAY), &relayed(&frame, *size, 3, 4), *size, at(2));
    there.inbound(outer(1), &frame[HEADER..], *size - HEADER, at(2));
    there.assert_dropped(DropReason::Replayed, 102);
    assert_eq!(there.written().len(), 1);
    assert!(there.outputs().is_empty());
}

#[test]
fn fault_d2_an_authentic_packet_from_elsewhere_does_not_change_a_taut_peers_path() {
    let (mut here, mut there) = taut_pair();
    set_path(&mut there, outer(1).into());
    for place in [7, 8, 7] {
        here.outbound(&packet(1, 2, 100), at(1));
        let [(_, datagram, size)] = &here.runs()[..] else { panic!("one datagram") };
        there.inbound(outer(place), datagram, *size, at(1));
        there.outbound(&packet(2, 1, 100), at(1));
        assert_eq!(there.runs()[0].0, outer(1));
    }
    assert_eq!(there.written().len(), 3, "the packets are the peer's all the same");
    let arrived = |place: u8| FromLane::Arrived { peer: PEER, way: outer(place).into() };
    let outputs: Vec<_> = there.outputs().into_iter().filter(|said| matches!(said, FromLane::Arrived { .. })).collect();
    assert_eq!(outputs, [arrived(7), arrived(8)], "each once within a second");
    // Packets come from everywhere: the agent is told of eight sources at most.
    for place in 10..200 {
        here.outbound(&packet(1, 2, 100), at(1));
        let [(_, datagram, size)] = &here.runs()[..] else { panic!("one datagram") };
        there.inbound(outer(place), datagram, *size, at(1));
    }
    assert!(there.outputs().len() <= 8);
    set_path(&mut there, outer(8).into());
    there.outbound(&packet(2, 1, 100), at(1));
    assert_eq!(there.runs()[0].0, outer(8), "the agent changes the path");
}

#[test]
fn fault_b3_a_flood_through_a_relay_is_asked_for_cookies_and_a_client_that_shows_one_passes() {
    let mut there = TestLane::new(2, 1);
    name_relay(&mut there);
    let remote = Remote::new(&identity(1), identity(2).public(), taut_base::PresharedKey::NONE).unwrap();
    let stamp = Timestamp::from_wall_clock(std::time::Duration::from_secs(1));
    let key = taut_base::PrivateKey::from_bytes([3; 32]);
    let (_, message) = SentInitiation::start(&identity(1), &remote, ReceiverIndex(0x1230), stamp, key).unwrap();
    let frame = |id: u32, message: &[u8]| [&header(id), message].concat();
    let ask = |there: &mut TestLane, id: u32, message: &[u8]| {
        let frame = frame(id, message);
        there.inbound(outer(RELAY), &frame, frame.len(), at(1));
        let taken = there.outputs().len();
        (taken, there.datagrams())
    };
    let taken: usize = (0..100).map(|lane| ask(&mut there, 0x10 | (lane % 16), &message).0).sum();
    assert_eq!(taken, 5, "the burst of one client, on all its lanes together");
    let (taken, answers) = ask(&mut there, 0x10, &message);
    assert!(taken == 0 && answers.len() == 1, "a cookie");
    assert_eq!((id(&answers[0]), answers[0].len()), (Some(0x10), HEADER + cookie_reply::LEN));
    let Ok(taut_wire::wireguard::Message::CookieReply(reply)) = taut_wire::wireguard::classify(&answers[0][HEADER..])
    else {
        panic!("no cookie reply")
    };
    assert_eq!(ask(&mut there, 0x20, &message).0, 1, "another client of that relay needs no cookie (fault B5)");
    let (mut cookies, mut shown) = (taut_tunnel::cookie::Cookies::default(), message);
    let source = taut_node::source_of(through(0x10));
    assert!(cookies.take(&remote, taut_tunnel::cookie::mac1(&message).unwrap(), source, &reply, at(1)));
    cookies.write_mac2(source, &mut shown, at(1));
    assert_eq!(ask(&mut there, 0x10, &shown).0, 1, "with the cookie it passes");
    assert_eq!(ask(&mut there, 0x10, &message).0, 0);
    // The cookie is this client's: another client of the relay cannot use it.
    while ask(&mut there, 0x30, &message).0 == 1 {}
    assert_eq!(ask(&mut there, 0x30, &shown).0, 0);
}

/// Returns lane 1 of two of host `number`, with lane 1 of a session of this role.
fn second_lane(number: u8, peer: u8, role: Role) -> TestLane {
    let mut end = TestLane::taut(number, peer);
    end.command(ToLane::RemovePeer(PEER), at(0));
    let TestLane { core, out, io } = end;
    let mut end = TestLane { core: core.as_lane(LaneId(1), 2), out, io };
    end.command(ToLane::AddPeer { peer: PEER, roams: false }, at(0));
    let (local, remote) = if role == Role::Initiator { (0x20, 0x30) } else { (0x30, 0x20) };
    let exporter = exporter(role, ReceiverIndex(local), ReceiverIndex(remote));
    let keys = SessionKeys::for_extra_lane(role, exporter, Suites::STOCK, LaneId(1));
    end.command(add_session(1, keys, None, at(0)), at(0));
    name_relay(&mut end);
    end
}

fn probe(way: Way) -> ToLane {
    let (session, lane, message) = (SessionId(1), LaneId(1), ControlMessage::Probe { id: 3 });
    ToLane::Control { peer: PEER, session, lane, way: Some(way), message }
}

#[test]
fn relayed_data_of_another_lane_is_handed_off_with_the_relays_header() {
    let mut here = second_lane(1, 2, Role::Initiator);
    here.command(probe(through(0x71)), at(1));
    let (_, frame, size) = here.runs().remove(0);
    // The relay knows no address of the receiver's second lane.
    let mut first = TestLane::taut(2, 1);
    first.core = first.core.as_lane(LaneId::FIRST, 2);
    name_relay(&mut first);
    let frame = relayed(&frame, size, 0x71, 0x31);
    first.inbound(outer(RELAY), &frame, size, at(1));
    let (to, source, stray) = first.io.strays.remove(0);
    assert_eq!((to, source, &stray), (LaneId(1), outer(RELAY), &frame));
    let mut second = second_lane(2, 1, Role::Responder);
    second.inbound(source, &stray, stray.len(), at(1));
    let answers = second.datagrams();
    assert_eq!(id(&answers[0]), Some(0x31), "the answer goes to the sender's lane");
}

#[test]
fn the_way_of_a_closed_lane_follows_the_peer_to_its_present_path() {
    let mut here = second_lane(1, 2, Role::Initiator);
    let mut there = second_lane(2, 1, Role::Responder);
    let way = |end: &mut TestLane| end.core.peers.get_mut(PEER).and_then(|peer| peer.lane(LaneId(1))?.way);
    let mut comes_by = |there: &mut TestLane, source: Way, sent: Way, place| {
        here.command(probe(sent), at(1));
        let (_, frame, size) = here.runs().remove(0);
        let frame = if let (Way::Relayed { id: to, .. }, Way::Relayed { id: from, .. }) = (source, sent) {
            relayed(&frame, size, from, to)
        } else {
            frame
        };
        there.inbound(place, &frame, frame.len(), at(1));
        there.runs();
        way(there)
    };
    let (direct, there_by_relay) = (Way::Direct(outer(1)), through(0x31));
    set_path(&mut there, direct);
    // A peer may forge the source: its receipts would go to a stranger (fault D10).
    assert_eq!(comes_by(&mut there, Way::Direct(outer(9)), outer(2).into(), outer(9)), None);
    assert_eq!(comes_by(&mut there, direct, outer(2).into(), outer(1)), Some(direct), "the first one");
    // Another way is followed only where it leads to the chosen path.
    assert_eq!(comes_by(&mut there, there_by_relay, through(0x71), outer(RELAY)), Some(direct));
    set_path(&mut there, through(0x30));
    assert_eq!(comes_by(&mut there, there_by_relay, through(0x71), outer(RELAY)), Some(there_by_relay));
    assert_eq!(comes_by(&mut there, direct, outer(2).into(), outer(1)), Some(there_by_relay));
}

#[test]
fn fault_i8_datagrams_to_a_relay_are_not_sealed_again_for_a_relay() {
    let (mut here, _) = taut_pair();
    let other = outer(RELAY + 1);
    here.command(ToLane::Relays(Arc::new([outer(RELAY), other])), at(0));
    let prefixes = [outer(RELAY), other].map(|relay| (Prefix::host(relay.ip()), PEER));
    here.command(ToLane::Routes(Arc::new(Routes::new(prefixes))), at(0));
    let datagram = |to: SocketAddr| {
        let SocketAddr::V4(to) = to else { panic!("IPv4") };
        let mut datagram = Ip::v4().udp((8288, to.port()), &[1; 100]);
        datagram[16..20].copy_from_slice(&to.ip().octets());
        datagram
    };
    set_path(&mut here, through(7));
    // The relay on the way, and another one, to which the tunnel may send for another peer.
    here.outbound(&datagram(outer(RELAY)), at(1));
    here.outbound(&datagram(other), at(1));
    assert!(here.runs().is_empty());
    here.assert_dropped(DropReason::Loop, 2);
    // Any other packet to that address may go through the tunnel.
    let mut tcp = datagram(outer(RELAY));
    tcp[9] = 6;
    here.outbound(&tcp, at(1));
    assert_eq!((here.runs().len(), here.dropped(DropReason::Loop)), (1, 2));
}

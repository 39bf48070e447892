use std::time::Duration;

use taut_base::{Prefix, PresharedKey, PrivateKey, ReceiverIndex, SessionId};
use taut_node::{FromLane, Routes, ToLane};
use taut_tunnel::Session;
use taut_tunnel::handshake::{Remote, SentInitiation, Timestamp};
use taut_wire::wireguard::DATA_HEADER;

use super::kit::{PEER, TestLane, add_session, at, identity, inner, keys, outer, packet, pair, read, superpacket};
use crate::drops::DropReason;

/// Returns the datagram in which `here` sends a packet to host 2.
fn sealed(here: &mut TestLane, packet: &[u8]) -> Vec<u8> {
    here.outbound(packet, at(1));
    here.datagrams().pop().unwrap()
}

#[test]
fn waiting_commands_are_carried_out_before_a_packet_with_an_unknown_index_is_dropped() {
    let (mut here, mut there) = (TestLane::new(1, 2), TestLane::new(2, 1));
    let (ours, theirs) = keys(1);
    here.command(add_session(1, ours, Some(outer(2)), at(0)), at(0));
    here.datagrams();
    there.io.commands.push_back(add_session(1, theirs, None, at(0)));
    let datagram = sealed(&mut here, &packet(1, 2, 100));
    there.inbound(outer(1), &datagram, datagram.len(), at(1));
    assert_eq!(there.written(), [packet(1, 2, 100)]);
    assert!(there.outputs().contains(&FromLane::Confirmed { peer: PEER, id: SessionId(1) }));
}

#[test]
fn fault_a10_a_packet_with_an_unknown_index_is_dropped_and_moves_no_endpoint() {
    let (mut here, mut there) = pair();
    let datagram = sealed(&mut here, &packet(1, 2, 100));
    there.inbound(outer(1), &datagram, datagram.len(), at(1));
    there.outputs();
    let mut unknown = sealed(&mut here, &packet(1, 2, 100));
    unknown[4..8].copy_from_slice(&0x7777_7770_u32.to_le_bytes());
    there.inbound(outer(9), &unknown, unknown.len(), at(1));
    there.assert_dropped(DropReason::UnknownIndex, 1);
    there.outbound(&packet(2, 1, 100), at(1));
    assert_eq!(there.runs()[0].0, outer(1));
    assert!(there.outputs().is_empty());
}

#[test]
fn an_authentic_packet_from_elsewhere_moves_the_endpoint_of_a_native_peer() {
    let (mut here, mut there) = pair();
    for place in [1, 7] {
        let datagram = sealed(&mut here, &packet(1, 2, 100));
        there.inbound(outer(place), &datagram, datagram.len(), at(1));
        assert!(there.outputs().contains(&FromLane::Moved { peer: PEER, way: outer(place).into() }));
        there.outbound(&packet(2, 1, 100), at(1));
        assert_eq!(there.runs()[0].0, outer(place));
    }
}

#[test]
fn a_replay_is_dropped_and_moves_no_endpoint() {
    let (mut here, mut there) = pair();
    let datagram = sealed(&mut here, &packet(1, 2, 100));
    there.inbound(outer(1), &datagram, datagram.len(), at(1));
    there.outputs();
    there.inbound(outer(9), &datagram, datagram.len(), at(1));
    there.assert_dropped(DropReason::Replayed, 1);
    assert_eq!(there.written().len(), 1);
    assert!(there.outputs().is_empty());
}

#[test]
fn an_altered_packet_is_dropped_and_the_good_one_still_arrives() {
    let (mut here, mut there) = pair();
    let good = sealed(&mut here, &packet(1, 2, 100));
    for place in [8, 20, good.len() - 1] {
        let mut altered = good.clone();
        altered[place] ^= 1;
        there.inbound(outer(9), &altered, altered.len(), at(1));
    }
    there.assert_dropped(DropReason::NotAuthentic, 3);
    assert!(there.outputs().is_empty() && there.written().is_empty());
    there.inbound(outer(1), &good, good.len(), at(1));
    assert_eq!(there.written(), [packet(1, 2, 100)]);
}

#[test]
fn a_packet_from_a_source_that_is_not_the_peers_is_dropped() {
    let (mut here, mut there) = pair();
    for source in [3, 1, 3] {
        let datagram = sealed(&mut here, &packet(source, 2, 100));
        there.inbound(outer(1), &datagram, datagram.len(), at(1));
    }
    there.assert_dropped(DropReason::SourceNotAllowed, 2);
    assert_eq!(there.written(), [packet(1, 2, 100)]);
}

#[test]
fn fault_g15_a_packet_to_a_destination_that_is_not_ours_is_dropped() {
    let (mut here, mut there) = pair();
    let to = |destination: u8| Routes::new([(Prefix::host(inner(1)), PEER)]).only_to(&[inner(destination)]);
    // A sender that routes all of this to host 2.
    let everywhere = Routes::new([("0.0.0.0/0".parse().unwrap(), PEER)]);
    here.command(ToLane::Routes(everywhere.into()), at(0));
    let mut send = |there: &mut TestLane, packets: &[Vec<u8>]| {
        let datagrams: Vec<_> = packets.iter().map(|packet| sealed(&mut here, packet)).collect();
        there.inbound(outer(1), &datagrams.concat(), datagrams[0].len(), at(1));
    };
    there.command(ToLane::Routes(to(2).into()), at(0));
    let good = packet(1, 2, 100);
    // They come in a run between packets to our address, so the remembered pair of addresses must not let them pass.
    send(&mut there, &[good.clone(), packet(1, 3, 100), good.clone(), packet(1, 255, 100), good.clone()]);
    assert_eq!(there.written(), [good.clone(), good.clone(), good.clone()]);
    there.assert_dropped(DropReason::DestinationNotOurs, 2);
    let counted = there.received().0;
    for far in [[192, 168, 1, 7], [224, 0, 0, 251], [255, 255, 255, 255], [127, 0, 0, 1]] {
        let mut packet = good.clone();
        packet[16..20].copy_from_slice(&far);
        send(&mut there, &[packet]);
    }
    assert!(there.written().is_empty());
    there.assert_dropped(DropReason::DestinationNotOurs, 6);
    assert_eq!(there.received().0, counted, "packets that are not delivered do not count");

    // The node gets another address: the remembered pair of addresses is forgotten.
    there.command(ToLane::Routes(to(3).into()), at(1));
    send(&mut there, &[good.clone(), packet(1, 3, 100)]);
    assert_eq!(there.written(), [packet(1, 3, 100)]);
}

/// The kernel believes an ICMP error without asking who sent it: one about a packet to another host would cut the packets to that host short.
#[test]
fn fault_i3_an_icmp_error_about_a_packet_to_another_peer_is_dropped() {
    let (mut here, mut there) = pair();
    let own = Routes::new([(Prefix::host(inner(1)), PEER), (Prefix::host(inner(3)), taut_base::PeerId(77))])
        .only_to(&[inner(2)]);
    there.command(ToLane::Routes(own.into()), at(0));
    // "Fragmentation needed, 552 bytes", about a packet that we sent to this host.
    let about = |host: u8| {
        let quoted = packet(2, host, 28);
        let mut error = packet(1, 2, 28 + 28);
        (error[9], error[20], error[21]) = (1, 3, 4);
        error[26..28].copy_from_slice(&552_u16.to_be_bytes());
        error[28..].copy_from_slice(&quoted);
        error
    };
    let fine = about(1);
    // A packet between them has the same ends, so the remembered pair of addresses must not let an error pass.
    for packet in [&fine, &packet(1, 2, 100), &about(3), &about(9), &fine] {
        let datagram = sealed(&mut here, packet);
        there.inbound(outer(1), &datagram, datagram.len(), at(1));
    }
    assert_eq!(there.written(), [fine.clone(), packet(1, 2, 100), fine]);
    there.assert_dropped(DropReason::ForeignError, 2);
}

#[test]
fn fault_g15_a_source_route_does_not_bypass_the_destination_check() {
    let (mut here, mut there) = pair();
    let own = Routes::new([(Prefix::host(inner(1)), PEER)]).only_to(&[inner(2)]);
    there.command(ToLane::Routes(own.into()), at(0));
    let good = packet(1, 2, 100);
    let mut routed = good.clone();
    // Eight bytes of options: a loose source route to 192.168.1.7 (RFC 791, 3.1).
    routed.splice(20..20, [131, 7, 4, 192, 168, 1, 7, 0]);
    (routed[0], routed[3]) = (0x47, 108);
    for packet in [&good, &routed] {
        let datagram = sealed(&mut here, packet);
        there.inbound(outer(1), &datagram, datagram.len(), at(1));
    }
    assert_eq!(there.written(), [good]);
    there.assert_dropped(DropReason::DestinationNotOurs, 1);
}

#[test]
fn fault_g15_without_own_addresses_only_allowed_ips_decide() {
    let (mut here, mut there) = pair();
    here.command(ToLane::Routes(Routes::new([("0.0.0.0/0".parse().unwrap(), PEER)]).into()), at(0));
    let datagram = sealed(&mut here, &packet(1, 77, 100));
    there.inbound(outer(1), &datagram, datagram.len(), at(1));
    assert_eq!(there.written(), [packet(1, 77, 100)]);
}

#[test]
fn a_sealed_message_without_an_ip_packet_is_dropped() {
    let (_, mut there) = pair();
    let mut session = Session::new(SessionId(1), keys(1).0, at(0));
    for content in [&[0x75; 40][..], &packet(1, 2, 100)[..60]] {
        let mut datagram = vec![0; Session::sealed_len(content.len(), 1420)];
        datagram[DATA_HEADER..][..content.len()].copy_from_slice(content);
        session.seal(&mut datagram, content.len()).unwrap();
        there.inbound(outer(1), &datagram, datagram.len(), at(1));
    }
    there.assert_dropped(DropReason::BadOuter, 2);
    assert!(there.written().is_empty());
}

#[test]
fn fault_a11_an_authentic_packet_with_a_wrong_ip_header_is_dropped_and_its_session_stays() {
    let (mut here, mut there) = pair();
    let good = packet(1, 2, 100);
    let ipv6 = {
        let mut packet = vec![0; 100];
        packet[0] = 0x60;
        packet[5] = 60;
        packet
    };
    let with = |packet: &[u8], changes: &[(usize, u8)]| {
        let mut packet = packet.to_vec();
        changes.iter().for_each(|(place, value)| packet[*place] = *value);
        packet
    };
    let headers = [
        ("version 0", with(&good, &[(0, 0x05)])),
        ("version 5", with(&good, &[(0, 0x55)])),
        ("version 15", with(&good, &[(0, 0xf5)])),
        ("a header of 16 bytes", with(&good, &[(0, 0x44)])),
        ("a header longer than the packet", with(&good[..28], &[(0, 0x4f), (3, 28)])),
        ("longer than the message, padding included", with(&good, &[(2, 0), (3, 113)])),
        ("65,535 bytes", with(&good, &[(2, 0xff), (3, 0xff)])),
        ("shorter than its header", with(&good, &[(2, 0), (3, 19)])),
        ("no length", with(&good, &[(2, 0), (3, 0)])),
        ("IPv6, longer than the message", with(&ipv6, &[(5, 73)])),
        ("IPv6, 65,535 bytes", with(&ipv6, &[(4, 0xff), (5, 0xff)])),
        ("IPv6 without room for its header", ipv6[..16].to_vec()),
    ];
    let mut session = Session::new(SessionId(1), keys(1).0, at(0));
    for (number, (wrong, content)) in (1..).zip(&headers) {
        let mut datagram = vec![0; Session::sealed_len(content.len(), 1420)];
        datagram[DATA_HEADER..][..content.len()].copy_from_slice(content);
        session.seal(&mut datagram, content.len()).unwrap();
        there.inbound(outer(1), &datagram, datagram.len(), at(1));
        assert_eq!((there.dropped(DropReason::BadOuter), there.written().len()), (number, 0), "{wrong}");
    }
    there.assert_dropped(DropReason::BadOuter, headers.len() as u64);
    let mut datagram = vec![0; Session::sealed_len(good.len(), 1420)];
    datagram[DATA_HEADER..][..good.len()].copy_from_slice(&good);
    session.seal(&mut datagram, good.len()).unwrap();
    there.inbound(outer(1), &datagram, datagram.len(), at(2));
    assert_eq!(there.written(), [good], "the session stays");
    assert!(there.outputs().iter().all(|said| !matches!(said, FromLane::Retired { .. } | FromLane::WantsHandshake(_))));
    there.outbound(&packet(2, 1, 100), at(2));
    let answer = there.datagrams().pop().unwrap();
    here.inbound(outer(2), &answer, answer.len(), at(2));
    assert_eq!(here.written(), [packet(2, 1, 100)]);
}

#[test]
fn fault_a18_padding_does_not_reach_the_tun() {
    let (mut here, mut there) = pair();
    for length in 28..80 {
        let datagram = sealed(&mut here, &packet(1, 2, length));
        assert_eq!(datagram.len() % 16, 0);
        there.inbound(outer(1), &datagram, datagram.len(), at(1));
        assert_eq!(there.written(), [packet(1, 2, length)]);
    }
}

#[test]
fn an_empty_packet_is_not_written() {
    let (mut here, mut there) = (TestLane::new(1, 2), TestLane::new(2, 1));
    let (ours, theirs) = keys(1);
    there.command(add_session(1, theirs, None, at(0)), at(0));
    here.command(add_session(1, ours, Some(outer(2)), at(0)), at(0));
    let empty = here.datagrams().pop().unwrap();
    there.inbound(outer(1), &empty, empty.len(), at(0));
    assert!(there.written().is_empty());
    assert!(there.outputs().contains(&FromLane::Confirmed { peer: PEER, id: SessionId(1) }));
}

#[test]
fn fault_a1_an_empty_datagram_is_counted() {
    let (_, mut there) = pair();
    there.inbound(outer(1), &[], 0, at(1));
    assert_eq!(there.dropped(DropReason::NotWireGuard), 1);
}

#[test]
fn fault_a5_garbage_in_a_run_does_not_affect_its_neighbours() {
    let (mut here, mut there) = pair();
    let mut datagrams: Vec<Vec<u8>> = (0..6).map(|_| sealed(&mut here, &packet(1, 2, 100))).collect();
    datagrams[1].fill(0xee);
    datagrams[3][30] ^= 1;
    datagrams[5].truncate(20);
    there.inbound(outer(1), &datagrams.concat(), datagrams[0].len(), at(1));
    assert_eq!(there.written(), vec![packet(1, 2, 100); 3]);
    assert_eq!((there.dropped(DropReason::NotWireGuard), there.dropped(DropReason::NotAuthentic)), (2, 1));
}

#[test]
fn a_packet_that_the_tun_does_not_take_is_counted() {
    let (mut here, mut there) = pair();
    there.io.refuses = true;
    let datagram = sealed(&mut here, &packet(1, 2, 100));
    there.inbound(outer(1), &datagram, datagram.len(), at(1));
    there.assert_dropped(DropReason::TunWrite, 1);
}

#[test]
fn the_segments_of_a_superpacket_become_one_write_again() {
    let (mut here, mut there) = pair();
    let (header, packet) = superpacket(20_000, 1300);
    here.core.outbound(&read(header, &packet), &mut here.out, at(1));
    for (_, run, size) in here.runs() {
        there.inbound(outer(1), &run, size, at(1));
    }
    assert_eq!(there.io.written, [(header, packet)]);
}

#[test]
fn only_handshake_messages_for_this_node_reach_the_agent() {
    let mut there = TestLane::new(2, 1);
    let initiation_to = |number: u8| {
        let identity = identity(1);
        let remote = Remote::new(&identity, super::kit::identity(number).public(), PresharedKey::NONE).unwrap();
        let stamp = Timestamp::from_wall_clock(Duration::from_secs(1));
        SentInitiation::start(&identity, &remote, ReceiverIndex(16), stamp, PrivateKey::from_bytes([9; 32])).unwrap().1
    };
    there.inbound(outer(1), &initiation_to(3), 148, at(0));
    there.inbound(outer(1), &[[2, 0, 0, 0].as_slice(), &[7; 88]].concat(), 92, at(0));
    there.assert_dropped(DropReason::BadMac1, 2);
    assert!(there.outputs().is_empty());
    there.inbound(outer(1), &initiation_to(2), 148, at(0));
    let outputs = there.outputs();
    assert!(
        matches!(&outputs[..], [FromLane::Handshake { source, message }] if *source == outer(1).into() && message.as_bytes() == initiation_to(2))
    );
}

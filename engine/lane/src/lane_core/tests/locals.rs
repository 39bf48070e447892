use std::net::IpAddr;

use taut_base::{PresharedKey, PrivateKey, ReceiverIndex, Time};
use taut_node::{HandshakeMessage, ToLane};
use taut_tunnel::handshake::{Remote, SentInitiation, Timestamp};
use taut_udp::Local;
use taut_wire::ecn::Ecn;
use taut_wire::wireguard::{TYPE_DATA, TYPE_INITIATION, TYPE_RESPONSE};

use super::kit::{PEER, TestLane, add_session, at, identity, keys, outer, packet, pair};

fn local(number: u8) -> Local {
    Local { address: IpAddr::from([203, 0, 113, number]), interface: 3 }
}

/// Returns the source address of data to host `number`.
fn data(end: &TestLane, number: u8) -> Option<Local> {
    end.core.local_for(outer(number), &TYPE_DATA.to_le_bytes())
}

/// Delivers a datagram from endpoint `from` to host 2, at its address `at_local`.
fn deliver(there: &mut TestLane, from: u8, datagram: &[u8], at_local: u8) {
    deliver_later(there, from, datagram, at_local, at(1));
}

fn deliver_later(there: &mut TestLane, from: u8, datagram: &[u8], at_local: u8, now: Time) {
    there.core.arrived_at(Some(local(at_local)), Ecn::NotEct);
    there.inbound(outer(from), datagram, datagram.len(), now);
}

fn sealed(here: &mut TestLane) -> Vec<u8> {
    here.outbound(&packet(1, 2, 100), at(1));
    here.datagrams().pop().unwrap()
}

#[test]
fn data_leaves_from_the_address_to_which_the_last_authentic_packet_came() {
    let (mut here, mut there) = pair();
    let first = sealed(&mut here);
    deliver(&mut there, 1, &first, 1);
    assert_eq!(data(&there, 1), Some(local(1)));
    let next = sealed(&mut here);
    let mut forged = next.clone();
    *forged.last_mut().unwrap() ^= 1;
    for datagram in [&forged, &first] {
        deliver(&mut there, 1, datagram, 2);
        assert_eq!(data(&there, 1), Some(local(1)), "forged or replayed");
    }
    deliver(&mut there, 1, &next, 2);
    assert_eq!(data(&there, 1), Some(local(2)));
    // Authentic, but the socket does not tell to which address the packet came.
    there.core.arrived_at(None, Ecn::NotEct);
    let datagram = sealed(&mut here);
    there.inbound(outer(1), &datagram, datagram.len(), at(1));
    assert_eq!(data(&there, 1), Some(local(2)));
}

#[test]
fn an_address_that_agent_or_kernel_removed_is_learned_again_from_the_next_packet() {
    let (mut here, mut there) = pair();
    for kernel in [true, false] {
        let datagram = sealed(&mut here);
        deliver(&mut there, 1, &datagram, 1);
        assert_eq!(data(&there, 1), Some(local(1)));
        if kernel {
            there.core.local_refused(local(2));
            assert_eq!(data(&there, 1), Some(local(1)), "another address");
            there.core.local_refused(local(1));
        } else {
            there.command(ToLane::ForgetLocal { place: outer(9) }, at(1));
            assert_eq!(data(&there, 1), Some(local(1)), "another endpoint");
            there.command(ToLane::ForgetLocal { place: outer(1) }, at(1));
        }
        assert_eq!(data(&there, 1), None);
    }
}

#[test]
fn fault_d19_after_the_user_sets_an_endpoint_or_a_socket_mark_the_routes_choose_the_source() {
    let (mut here, mut there) = pair();
    let mut hear = |there: &mut TestLane| {
        let datagram = sealed(&mut here);
        deliver(there, 1, &datagram, 1);
        assert_eq!(data(there, 1), Some(local(1)));
    };
    hear(&mut there);
    there.command(ToLane::SetEndpoint { peer: PEER, endpoint: outer(9) }, at(1));
    assert_eq!(data(&there, 1), Some(local(1)), "another endpoint");
    there.command(ToLane::SetEndpoint { peer: PEER, endpoint: outer(1) }, at(1));
    assert_eq!(data(&there, 1), None);
    // The next packet of the peer decides again.
    hear(&mut there);
    there.command(ToLane::ForgetLocals, at(1));
    assert_eq!(data(&there, 1), None);
    hear(&mut there);
}

#[test]
fn fault_d7_an_address_that_the_routes_left_is_not_learned_again_once_the_peer_is_heard_elsewhere() {
    let (mut here, mut there) = pair();
    let mut hear = |there: &mut TestLane, at_local, second| {
        let datagram = sealed(&mut here);
        deliver_later(there, 1, &datagram, at_local, at(second));
        data(there, 1)
    };
    assert_eq!(hear(&mut there, 1, 1), Some(local(1)));
    there.command(ToLane::ForgetLocal { place: outer(1) }, at(1));
    assert_eq!(hear(&mut there, 1, 2), None, "the peer does not know the new address yet");
    assert_eq!(hear(&mut there, 2, 2), Some(local(2)));
    assert_eq!(hear(&mut there, 1, 50), Some(local(2)), "the peer sends to both");
    // The routes lead back, and the peer is heard at the former address.
    there.command(ToLane::ForgetLocal { place: outer(1) }, at(50));
    assert_eq!(hear(&mut there, 1, 50), Some(local(1)));
    // The routes lead to an address at which the peer cannot be heard.
    there.command(ToLane::ForgetLocal { place: outer(1) }, at(100));
    assert_eq!(hear(&mut there, 1, 102), None);
    assert_eq!(hear(&mut there, 1, 103), Some(local(1)), "the address that works is used again");
}

#[test]
fn a_handshake_is_answered_from_the_address_it_came_to_and_proves_it_when_it_ends() {
    let mut there = TestLane::new(2, 1);
    let remote = Remote::new(&identity(1), identity(2).public(), PresharedKey::NONE).unwrap();
    let index = ReceiverIndex(16);
    let (_, initiation) = SentInitiation::start(
        &identity(1),
        &remote,
        index,
        Timestamp::from_wall_clock(std::time::Duration::from_secs(1)),
        PrivateKey::from_bytes([7; 32]),
    )
    .unwrap();
    deliver(&mut there, 1, &initiation, 2);
    assert_eq!(there.core.local_for(outer(1), &TYPE_RESPONSE.to_le_bytes()), Some(local(2)));
    assert_eq!(there.core.local_for(outer(1), &TYPE_INITIATION.to_le_bytes()), None, "the address is not proven yet");
    // The session is added as if the answer had ended a handshake of ours.
    there.command(add_session(1, keys(1).1, Some(outer(1)), at(1)), at(1));
    let message = HandshakeMessage::new(&initiation).unwrap();
    there.command(ToLane::Send { way: outer(1).into(), message }, at(1));
    assert_eq!(there.core.local_for(outer(1), &TYPE_INITIATION.to_le_bytes()), Some(local(2)));
    there.command(ToLane::Send { way: outer(1).into(), message }, at(1));
    assert_eq!(there.core.local_for(outer(1), &TYPE_INITIATION.to_le_bytes()), None, "the second attempt");
}

#[test]
fn a_peer_that_moves_often_leaves_few_entries_behind() {
    let (mut here, mut there) = pair();
    for place in 1..=250 {
        let datagram = sealed(&mut here);
        deliver(&mut there, place, &datagram, 1);
        assert_eq!(data(&there, place), Some(local(1)));
    }
    let table = std::sync::Arc::default();
    there.core.share_locals(std::sync::Arc::clone(&table));
    there.core.locals.forget(&mut |_, _| false);
    let known = (1..=250).filter(|place| data(&there, *place).is_some()).count();
    assert!((1..30).contains(&known), "{known}");
}

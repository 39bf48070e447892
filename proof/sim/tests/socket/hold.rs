//! Held packets of one peer do not delay another peer (fault B11). The order in which packets reach the network shows it.

use std::net::UdpSocket;
use std::time::Duration;

use taut_base::DEFAULT_MTU;
use taut_namespace::in_namespace;
use taut_node::ToLane;
use taut_path::Choice;

use crate::rig::{Peer, Rig};

/// Attempts, each with a change of the path, 5.
const ATTEMPTS: usize = 5;
/// Packets of each peer in an attempt, 200.
const TRIES: usize = 200;

/// Returns a lane with sessions to a member, whose packets will have to wait, and to a bystander.
fn rig() -> (Rig, Peer, Peer) {
    let (member, bystander) = (Peer::new(2, 1), Peer::new(3, 2));
    let rig = Rig::new(&[&member, &bystander]);
    for (session, peer) in (0..).zip([&member, &bystander]) {
        rig.tell(peer.session(session));
        assert_eq!(rig.play(&rig.wire, &[peer.frame(0, 7)]), [7]);
    }
    (rig, member, bystander)
}

/// Sends a packet of the host to this peer.
fn send(rig: &Rig, peer: &Peer) {
    rig.app.send_to(b"packet", (peer.inner, 9000)).unwrap();
}

/// Returns true if the next data on the network is the bystander's. Returns `None` if no data waits and the socket does not block.
fn next_is_bystanders(wire: &UdpSocket, bystander: &Peer) -> Option<bool> {
    let mut frame = [0; 2000];
    loop {
        let length = wire.recv(&mut frame).ok()?;
        // Shorter datagrams are keepalives.
        if length > 48 {
            return Some(frame[4..8] == bystander.remote().to_le_bytes());
        }
    }
}

#[test]
fn fault_b11_packets_held_for_a_change_of_path_do_not_delay_another_peer() {
    in_namespace(|| {
        // The packets are held for 50 ms, in which a busy machine may run nothing else; a lane that delays the other peer delays it in every attempt.
        let seen: Vec<(u32, u32)> = (0..ATTEMPTS).map_while(|_| packets_out_of_turn().err()).collect();
        assert!(
            seen.len() < ATTEMPTS,
            "packets of the bystander, and of the member, before any was overtaken: {seen:?}"
        );
    });
}

/// Sends packets of a member whose path changes, and of a bystander; fails with the packets of each if none of the bystander's overtook one of the member's.
fn packets_out_of_turn() -> Result<(), (u32, u32)> {
    let (rig, member, bystander) = rig();
    let other = Rig::endpoint(2);
    other.set_nonblocking(true).unwrap();
    let way = other.local_addr().unwrap().into();
    let choice = Choice {
        way,
        also: None,
        spare: None,
        behind: Duration::from_millis(50),
        round_trip: None,
        limit: DEFAULT_MTU,
    };
    // A packet has to be on its way that could be overtaken.
    send(&rig, &member);
    assert_eq!(next_is_bystanders(&rig.wire, &bystander), Some(false));
    rig.tell(ToLane::SetPath { peer: member.id, choice });
    rig.wire.set_nonblocking(true).unwrap();
    let (mut members, mut bystanders) = (0, 0);
    let overtaken = (0..TRIES).any(|_| {
        send(&rig, &member);
        send(&rig, &bystander);
        std::thread::sleep(Duration::from_millis(5));
        while let Some(is_bystanders) = next_is_bystanders(&rig.wire, &bystander) {
            *(if is_bystanders { &mut bystanders } else { &mut members }) += 1;
        }
        // Once the member's packets take the new path, they are not counted any more.
        bystanders > members && other.peek(&mut [0; 2000]).is_err()
    });
    if overtaken { Ok(()) } else { Err((bystanders, members)) }
}

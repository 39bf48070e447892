//! A peer whose packets have to wait delays no other peer (fault B11): the tests check the order in which packets reach the wire.

use std::net::UdpSocket;
use std::time::Duration;

use taut_namespace::in_namespace;
use taut_node::ToLane;
use taut_path::Choice;

use crate::rig::{Peer, Rig};

/// Numbers of packets to the peer that waits and to the other one, in the order in which they are sent.
const TRIES: usize = 200;

/// A lane with sessions to a member, whose packets will have to wait, and to a bystander.
fn rig() -> (Rig, Peer, Peer) {
    let (member, bystander) = (Peer::new(2, 1), Peer::new(3, 2));
    let rig = Rig::new(&[&member, &bystander]);
    for (session, peer) in (0..).zip([&member, &bystander]) {
        rig.tell(peer.session(session));
        assert_eq!(rig.play(&rig.wire, &[peer.frame(0, 7)]), [7]);
    }
    (rig, member, bystander)
}

/// A packet from the host to this peer.
fn send(rig: &Rig, peer: &Peer) {
    rig.app.send_to(b"packet", (peer.inner, 9000)).unwrap();
}

/// Reads the next data message on the wire; true if it is the bystander's. `None` if none is there and the socket does not block.
fn next_is(wire: &UdpSocket, bystander: &Peer) -> Option<bool> {
    let mut frame = [0; 2000];
    loop {
        let length = wire.recv(&mut frame).ok()?;
        // Skips keepalives, which are shorter.
        if length > 48 {
            return Some(frame[4..8] == bystander.remote().to_le_bytes());
        }
    }
}

#[test]
fn fault_b11_what_waits_for_closing_lanes_of_a_peer_holds_up_no_other() {
    in_namespace(|| {
        let (rig, member, bystander) = rig();
        // If this thread does not run for 50 ms, the wait is over before it begins, and the test tries again.
        let overtaken = (0..TRIES).any(|_| {
            rig.tell(ToLane::OpenLanes { peer: member.id, lanes: Vec::new(), barrier: 1 });
            rig.tell(ToLane::CloseLanes(member.id));
            send(&rig, &member);
            send(&rig, &bystander);
            let order = [next_is(&rig.wire, &bystander), next_is(&rig.wire, &bystander)];
            order == [Some(true), Some(false)]
        });
        assert!(overtaken, "the bystander's packet waited for the member's every time");
    });
}

#[test]
fn fault_b11_what_waits_for_a_change_of_a_peers_path_holds_up_no_other() {
    in_namespace(|| {
        let (rig, member, bystander) = rig();
        let place = Rig::place(2);
        place.set_nonblocking(true).unwrap();
        let way = place.local_addr().unwrap().into();
        let choice = Choice { way, also: None, spare: None, behind: Duration::from_millis(50), round_trip: None };
        // A packet has to be in flight that others could overtake.
        send(&rig, &member);
        assert_eq!(next_is(&rig.wire, &bystander), Some(false));
        rig.tell(ToLane::SetPath { peer: member.id, choice });
        rig.wire.set_nonblocking(true).unwrap();
        let (mut members, mut bystanders) = (0, 0);
        let overtaken = (0..TRIES).any(|_| {
            send(&rig, &member);
            send(&rig, &bystander);
            std::thread::sleep(Duration::from_millis(5));
            while let Some(bystanders_turn) = next_is(&rig.wire, &bystander) {
                *(if bystanders_turn { &mut bystanders } else { &mut members }) += 1;
            }
            // Packets of the member on their new path are no longer counted.
            bystanders > members && place.peek(&mut [0; 2000]).is_err()
        });
        assert!(overtaken, "{bystanders} packets of the bystander came, none before its turn; {members} of the member");
    });
}

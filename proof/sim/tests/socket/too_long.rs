//! A packet that no message of a path carries: its sender's kernel learns the length that passes, and sends shorter packets from then on.

use std::time::Duration;

use taut_base::{MIN_MTU, SAFE_PACKET};
use taut_lane::DropReason;
use taut_namespace::in_namespace;
use taut_node::ToLane;
use taut_path::Choice;
use taut_wire::wireguard::DATA_OVERHEAD;

use crate::rig::{Peer, Rig, wait_until};

/// Bytes that a program sends in one datagram: 1,500 with its headers, the MTU that the kernel gives a TUN.
const PAYLOAD: usize = 1_472;

#[test]
fn fault_i1_the_kernel_learns_the_length_that_passes() {
    in_namespace(|| {
        let peer = Peer::new(2, 1);
        let rig = Rig::new(&[&peer]);
        rig.tell(peer.session(0));
        assert_eq!(rig.play(&rig.wire, &[peer.frame(0, 7)]), [7]);
        let way = rig.wire.local_addr().unwrap().into();
        let (behind, round_trip) = (Duration::ZERO, None);
        let choice = Choice { way, also: None, spare: None, behind, round_trip, limit: SAFE_PACKET };
        rig.tell(ToLane::SetPath { peer: peer.id, choice });
        let send = || rig.app.send_to(&[7; PAYLOAD], (peer.inner, 9000));

        send().unwrap();
        wait_until(|| rig.dropped(DropReason::TooLong) == 1);
        rig.wire.set_nonblocking(true).unwrap();
        wait_until(|| {
            // The kernel reports the error to the next call, or sends fragments.
            let _ = send();
            std::thread::sleep(Duration::from_millis(1));
            let mut message = [0; 2_000];
            let lengths = std::iter::from_fn(|| rig.wire.recv(&mut message).ok());
            // Shorter messages are keepalives.
            let lengths: Vec<usize> = lengths.filter(|length| *length > 48).collect();
            assert!(lengths.iter().all(|length| *length <= usize::from(MIN_MTU) + DATA_OVERHEAD), "{lengths:?}");
            lengths.len() >= 2
        });
    });
}

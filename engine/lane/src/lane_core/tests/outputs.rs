//! Messages for the agent, and a queue of the agent that is full.

use std::time::Duration;

use taut_base::{PresharedKey, PrivateKey, ReceiverIndex};
use taut_node::FromLane;
use taut_tunnel::handshake::{Remote, SentInitiation, Timestamp};

use super::kit::{PEER, TestLane, at, identity, outer, packet};
use crate::drops::DropReason;

/// Returns host 2 with a handshake message from host 1 that waits for the agent.
fn with_handshake() -> TestLane {
    let mut there = TestLane::new(2, 1);
    let remote = Remote::new(&identity(1), identity(2).public(), PresharedKey::NONE).unwrap();
    let stamp = Timestamp::from_wall_clock(Duration::from_secs(1));
    let key = PrivateKey::from_bytes([9; 32]);
    let (_, initiation) = SentInitiation::start(&identity(1), &remote, ReceiverIndex(16), stamp, key).unwrap();
    there.inbound(outer(1), &initiation, initiation.len(), at(0));
    there
}

#[test]
fn a_refused_message_is_the_next_output_and_handshakes_behind_it_are_dropped() {
    let mut there = with_handshake();
    there.outbound(&packet(2, 1, 100), at(0));
    let message = there.core.poll_output().unwrap();
    assert_eq!(message, FromLane::WantsHandshake(PEER));
    assert!(!there.core.has_output(), "handshake messages do not count");
    there.core.refused(message);
    assert!(there.core.has_output());
    there.assert_dropped(DropReason::AgentBusy, 1);
    assert_eq!(there.outputs(), [FromLane::WantsHandshake(PEER)]);
}

#[test]
fn a_refused_handshake_is_dropped_and_counted() {
    let mut there = with_handshake();
    let message = there.core.poll_output().unwrap();
    assert!(matches!(message, FromLane::Handshake { .. }));
    there.core.refused(message);
    there.assert_dropped(DropReason::AgentBusy, 1);
    assert_eq!(there.outputs(), []);
}

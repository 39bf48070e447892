//! The order of a node's outputs, on which the protocol depends.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "what several tests share, of which this one needs a part")]
mod common;

use std::time::Duration;

use common::{endpoint, key, map, seeded};
use taut_base::{LaneId, PresharedKey, ReceiverIndex, Time};
use taut_node::{Clocks, FromLane, HandshakeMessage, Node, Output, ToLane};
use taut_noise::public_key;
use taut_tunnel::Limits;
use taut_tunnel::handshake::{Identity, Remote, SentInitiation, Timestamp};
use taut_wire::control::Lanes;

const CLOCKS: Clocks = Clocks { now: Time::ZERO, wall: Duration::from_secs(1_800_000_000) };

#[test]
fn a_session_is_in_every_lane_before_the_response_leaves() {
    let mut node = Node::new(key(0), Limits::WIREGUARD, seeded(1));
    node.set_lanes(Lanes::with_ports(&[9, 10]));
    node.set_map(&map(0, 0..2));
    while node.poll_output().is_some() {}
    let from = Identity::new(key(1));
    let to = Remote::new(&from, public_key(&key(0)), PresharedKey::NONE).unwrap();
    let stamp = Timestamp::from_wall_clock(CLOCKS.wall);
    let (_, initiation) = SentInitiation::start(&from, &to, ReceiverIndex(16), stamp, key(9)).unwrap();
    let message = HandshakeMessage::new(&initiation).unwrap();
    // The initiation came to the last lane, and the response leaves from there.
    node.handle(LaneId(2), FromLane::Handshake { source: endpoint(1).into(), message }, CLOCKS);
    let commands = std::iter::from_fn(|| node.poll_output()).filter_map(|output| match output {
        Output::Lane(lane, ToLane::AddSession { .. }) => Some(("session", lane.0)),
        Output::Lane(lane, ToLane::Send { .. }) => Some(("response", lane.0)),
        _ => None,
    });
    let commands: Vec<_> = commands.collect();
    assert_eq!(commands, [("session", 0), ("session", 1), ("session", 2), ("response", 2)]);
}

#[test]
fn a_stamp_ceiling_comes_before_the_first_initiation() {
    let mut node = Node::new(key(0), Limits::WIREGUARD, seeded(2));
    node.set_map(&map(0, 0..2));
    while node.poll_output().is_some() {}
    node.greet(&[public_key(&key(1))], CLOCKS);
    let Some(Output::StampCeiling(ceiling)) = node.poll_output() else {
        panic!("the first output is no stamp ceiling")
    };
    assert!(ceiling > CLOCKS.wall);
    assert!(matches!(node.poll_output(), Some(Output::Lane(_, ToLane::Send { .. }))));
}

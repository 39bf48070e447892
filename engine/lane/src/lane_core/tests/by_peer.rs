//! Peers that are divided among lanes, as in `taut wg --lanes`: each belongs to one lane, which serves it as a node's only lane would.

use taut_base::LaneId;
use taut_node::{FromLane, ToLane};
use taut_wire::vnet::VnetHeader;

use super::kit::{PEER, TestLane, add_session, at, keys, outer, packet, read};
use crate::drops::DropReason;
use crate::lane_core::outbound::HandOff;

/// The lane that the peer belongs to.
const OWNER: LaneId = LaneId(1);

/// Returns a lane of the two lanes of host 1.
fn lane(own: LaneId) -> TestLane {
    let mut lane = TestLane::new(1, 2);
    lane.core = lane.core.as_lane(own, 2).by_peer();
    lane
}

/// Returns both lanes of host 1, and host 2, with a session that host 1 initiated.
fn network() -> (TestLane, TestLane, TestLane) {
    assert_eq!(PEER.only_lane(2), OWNER);
    let (mut first, mut owner, mut there) = (lane(LaneId::FIRST), lane(OWNER), TestLane::new(2, 1));
    first.command(ToLane::RemovePeer(PEER), at(0));
    let (mut ours, mut theirs) = keys(1);
    ours.stock.local = ours.stock.local.on_lane(OWNER);
    theirs.stock.remote = ours.stock.local;
    there.command(add_session(1, theirs, None, at(0)), at(0));
    owner.command(add_session(1, ours, Some(outer(2)), at(0)), at(0));
    for datagram in owner.datagrams() {
        there.inbound(outer(1), &datagram, datagram.len(), at(0));
    }
    (first, owner, there)
}

#[test]
fn a_packet_is_handed_off_to_the_lane_of_its_peer_and_sealed_there() {
    let (mut first, mut owner, mut there) = network();
    let sent = packet(1, 2, 100);
    let bytes = read(VnetHeader::NONE, &sent);
    let hand_off = first.core.outbound(&bytes, &mut first.out, at(1));
    assert_eq!(hand_off, HandOff { packet: true, to: Some(OWNER), mark: None });
    assert!(first.out.is_empty());
    assert_eq!(owner.core.outbound(&bytes, &mut owner.out, at(1)), HandOff::default());
    for datagram in owner.datagrams() {
        there.inbound(outer(1), &datagram, datagram.len(), at(1));
    }
    assert_eq!(there.written(), [sent]);
}

#[test]
fn a_datagram_at_another_socket_is_handed_off_to_the_lane_in_its_index() {
    let (mut first, mut owner, mut there) = network();
    let sent = packet(2, 1, 100);
    there.outbound(&sent, at(1));
    let [datagram] = &there.datagrams()[..] else { panic!("one datagram") };
    first.inbound(outer(2), datagram, datagram.len(), at(1));
    assert_eq!(first.io.strays, [(OWNER, outer(2), datagram.clone())]);
    assert!(first.written().is_empty());
    // The peer is at another endpoint now: the owner follows it, as a node's only lane does.
    owner.outputs();
    owner.inbound(outer(3), datagram, datagram.len(), at(1));
    assert_eq!(owner.written(), [sent]);
    assert!(owner.outputs().contains(&FromLane::Moved { peer: PEER, way: outer(3).into() }));
    // Nobody else has a session with an index that the owner does not know.
    owner.command(ToLane::RemovePeer(PEER), at(2));
    owner.inbound(outer(2), datagram, datagram.len(), at(2));
    assert!(owner.io.strays.is_empty());
    owner.assert_dropped(DropReason::UnknownIndex, 1);
}

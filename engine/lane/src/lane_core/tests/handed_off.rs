//! The first of two lanes, which serves two lanes of the session: its own flows, and those of the other thread.

use std::sync::Arc;
use std::time::Duration;

use taut_base::{LaneId, Placement, Prefix, ReceiverIndex, Time};
use taut_node::{Routes, ToLane};
use taut_path::Way;
use taut_testkit::packets::Ip;
use taut_tun::flow;
use taut_tunnel::{Role, SessionKeys};
use taut_wire::control::Suites;
use taut_wire::vnet::VnetHeader;

use super::kit::*;
use crate::selector::{Mark, bucket};

/// The lane of the session that the first lane serves beside its own.
const FURTHER: LaneId = LaneId(2);

/// The base of the barriers of the first lane's marks.
const BARRIER: u64 = 70;

/// Returns a packet of a flow that belongs to this thread, of two; `number` tells the flows apart.
fn packet_of(thread: LaneId, number: usize) -> Vec<u8> {
    let ports = (1_000..).map(|port| Ip::v4().udp((port, 9), &[7; 100]));
    ports.filter(|packet| Placement::new(2).lane(flow(packet)) == thread).nth(number).unwrap_or_default()
}

/// Returns the first lane of a host whose session has three lanes, with a short round trip.
fn first_lane() -> TestLane {
    let TestLane { core, out, io } = taut_pair().0;
    let mut here = TestLane { core: core.as_lane(LaneId::FIRST, 2), out, io };
    let exporter = exporter(Role::Initiator, ReceiverIndex(0x20), ReceiverIndex(0x30));
    let keys = SessionKeys::for_extra_lane(Role::Initiator, exporter, Suites::STOCK, FURTHER);
    here.command(add_session(1, keys, None, at(0)), at(0));
    let destination = Prefix::host([10, 0, 0, 2].into());
    here.command(ToLane::Routes(Arc::new(Routes::new([(destination, PEER)]))), at(0));
    here.command(ToLane::SetPath { peer: PEER, choice: choice(Way::Direct(outer(2))) }, at(0));
    here.time_passes(at(0) + ms(50));
    here.datagrams();
    here
}

fn open(here: &mut TestLane, whole: bool, now: Time) {
    let lanes = vec![(FURTHER, Way::Direct(outer(4)))];
    here.command(ToLane::OpenLanes { peer: PEER, lanes, whole, barrier: BARRIER }, now);
}

/// Returns the endpoints that the batch goes to, and the number of datagrams to each, without messages of control.
fn sent(here: &mut TestLane) -> Vec<u8> {
    let runs = here.runs();
    let data = runs.iter().flat_map(|(to, bytes, size)| bytes.chunks(*size).map(move |bytes| (to, bytes.len())));
    data.filter(|(_, length)| *length > 100).map(|(to, _)| if *to == outer(4) { 2 } else { 0 }).collect()
}

fn hand_off(here: &mut TestLane, packet: &[u8], now: Time) {
    here.core.outbound_handed_off(&read(VnetHeader::NONE, packet), &mut here.out, now);
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[test]
fn flows_of_another_thread_stay_on_the_first_lane_of_the_session() {
    let mut here = first_lane();
    open(&mut here, false, at(1));
    let (own, other) = (packet_of(LaneId::FIRST, 0), packet_of(LaneId(1), 1));
    assert_ne!(bucket(flow(&own)), bucket(flow(&other)));
    // The first lane still reads all packets. Those of its own flow are held for the answer to a mark, the others leave.
    here.outbound(&own, at(1));
    here.outbound(&other, at(1));
    hand_off(&mut here, &other, at(1));
    assert_eq!(sent(&mut here), [0, 0]);
    here.command(ToLane::Passed { peer: PEER, barrier: BARRIER + 1 }, at(1) + ms(10));
    // The lanes are open now. New flows of the first lane take either, those of the other thread do not.
    let flows = (0..40).map(|number| packet_of(LaneId::FIRST, number));
    flows.for_each(|packet| here.outbound(&packet, at(1) + ms(11)));
    here.time_passes(at(1) + ms(11));
    assert!((5..36).contains(&sent(&mut here).iter().filter(|lane| **lane == 2).count()));
    for number in 0..40 {
        let packet = packet_of(LaneId(1), number);
        here.outbound(&packet, at(1) + ms(12));
        hand_off(&mut here, &packet, at(1) + ms(12));
    }
    assert_eq!(sent(&mut here), [0; 80]);
}

#[test]
fn while_lanes_close_packets_and_marks_of_another_thread_wait_too() {
    let mut here = first_lane();
    // Nobody else serves lanes of the session, so the first lane spreads all flows.
    open(&mut here, true, at(1));
    here.outbound(&packet_of(LaneId(1), 0), at(1));
    here.command(ToLane::Passed { peer: PEER, barrier: BARRIER + 1 }, at(1) + ms(10));
    (0..40).for_each(|number| here.outbound(&packet_of(LaneId(1), number), at(1) + ms(11)));
    here.time_passes(at(1) + ms(11));
    assert!(sent(&mut here).contains(&2));
    // Then another thread starts, and the peer's lanes change.
    here.command(ToLane::CloseLanes(PEER), at(2));
    open(&mut here, false, at(2) + ms(1));
    here.core.mark_handed_off(Mark { peer: PEER, barrier: 99 }, &mut here.out, at(2) + ms(2));
    hand_off(&mut here, &packet_of(LaneId(1), 0), at(2) + ms(3));
    here.time_passes(at(2) + ms(49));
    assert!(here.runs().is_empty());
    here.time_passes(at(2) + ms(50));
    let lengths: Vec<usize> = here.datagrams().iter().map(Vec::len).collect();
    assert!(matches!(lengths[..], [mark, data] if mark < 100 && data > 100), "{lengths:?}, in their order");
    // From then on nothing waits.
    hand_off(&mut here, &packet_of(LaneId(1), 1), at(2) + ms(51));
    assert_eq!(sent(&mut here), [0]);
}

//! The events that a node reports about handshakes and sessions.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "what several tests share, of which this one needs a part")]
mod common;

use std::time::Duration;

use common::{Seeded, endpoint, key, map, seeded};
use taut_base::{NodeId, Time};
use taut_node::{
    Clocks, FromLane, HandshakeFailure, HandshakeMessage, HandshakeRefusal, Node, NodeEvent, Output, ToLane,
};
use taut_noise::public_key;
use taut_tunnel::{Limits, Role};

fn clocks(seconds: u64) -> Clocks {
    let now = Duration::from_secs(seconds);
    Clocks { now: Time::from_duration(now), wall: Duration::from_secs(1_800_000_000) + now }
}

fn node(number: u8) -> Node<Seeded> {
    let mut node = Node::new(key(number), Limits::WIREGUARD, seeded(u64::from(number)));
    node.set_map(&map(number, 0..2));
    outputs(&mut node);
    node
}

/// Returns the handshake messages that leave, each once, and the events.
fn outputs(node: &mut Node<Seeded>) -> (Vec<HandshakeMessage>, Vec<NodeEvent>) {
    let (mut messages, mut events) = (Vec::new(), Vec::new());
    while let Some(output) = node.poll_output() {
        match output {
            Output::Lane(_, ToLane::Send { message, .. }) if !messages.contains(&message) => messages.push(message),
            Output::Event(event) => events.push(event),
            _ => {}
        }
    }
    (messages, events)
}

fn greet(node: &mut Node<Seeded>, peer: u8, at: u64) -> (HandshakeMessage, Vec<NodeEvent>) {
    node.greet(&[public_key(&key(peer))], clocks(at));
    let (messages, events) = outputs(node);
    (messages[0], events)
}

/// Advances time until nothing is due.
fn run_until_idle(node: &mut Node<Seeded>) -> Vec<NodeEvent> {
    let mut all = Vec::new();
    while let Some(due) = node.poll_timeout() {
        let now = due.since(Time::ZERO);
        node.handle_timeout(Clocks { now: due, wall: Duration::from_secs(1_800_000_000) + now });
        all.extend(outputs(node).1);
    }
    all
}

fn receive(
    node: &mut Node<Seeded>,
    from: u8,
    message: HandshakeMessage,
    at: u64,
) -> (Vec<HandshakeMessage>, Vec<NodeEvent>) {
    node.handle_lane(FromLane::Handshake { source: endpoint(from).into(), message }, clocks(at));
    outputs(node)
}

#[test]
fn a_silent_peer_is_reported_once_and_so_is_its_first_answer() {
    let (mut one, mut two) = (node(0), node(1));
    let (early, events) = greet(&mut one, 1, 10);
    let [NodeEvent::HandshakeStarted { peer }] = events[..] else { panic!("{events:?}") };
    assert_eq!(one.peer_name(peer), Some((NodeId(2), "n1")));
    let events = run_until_idle(&mut one);
    let [NodeEvent::HandshakeFailed { reason, tried, again, .. }] = events[..] else { panic!("{events:?}") };
    assert_eq!((reason, again), (HandshakeFailure::NoAnswer, false));
    assert!(tried >= Duration::from_secs(60), "{tried:?}");
    greet(&mut one, 1, 200);
    let events = run_until_idle(&mut one);
    assert!(matches!(events[..], [NodeEvent::HandshakeFailed { again: true, .. }]), "{events:?}");
    // The peer answers the third attempt.
    let (initiation, _) = greet(&mut one, 1, 400);
    let (answers, events) = receive(&mut two, 0, initiation, 400);
    assert_eq!(events, [], "the session is not in use yet");
    let (_, events) = receive(&mut one, 1, answers[0], 402);
    let through = endpoint(1).into();
    let expected = [
        NodeEvent::HandshakeCompleted { peer, way: through, took: Duration::from_secs(2) },
        NodeEvent::PeerAnswers { peer },
        NodeEvent::SessionBegan { peer, role: Role::Initiator, number: 1 },
    ];
    let reported = |event: &&NodeEvent| expected.contains(event);
    assert!(events.iter().filter(reported).eq(&expected), "{events:?}");
    // The initiation of the first attempt is older than the accepted one, so it is refused as a replay.
    let (_, events) = receive(&mut two, 0, early, 403);
    let [NodeEvent::HandshakeRefused { reason: HandshakeRefusal::OldStamp, .. }] = events[..] else {
        panic!("{events:?}")
    };
    let (_, events) = receive(&mut two, 0, initiation, 410);
    assert_eq!(events, [], "a duplicate of the accepted initiation reports no event");
}

#[test]
fn a_handshake_with_a_peer_without_an_endpoint_fails_for_lack_of_a_path() {
    let mut node = Node::new(key(0), Limits::WIREGUARD, seeded(3));
    let mut map = map(0, 0..2);
    map.peers.values_mut().for_each(|peer| peer.endpoints.clear());
    node.set_map(&map);
    node.greet(&[public_key(&key(1))], clocks(10));
    let events = run_until_idle(&mut node);
    let failed =
        |event: &NodeEvent| matches!(event, NodeEvent::HandshakeFailed { reason: HandshakeFailure::NoPath, .. });
    assert!(events.iter().any(failed), "{events:?}");
}

//! Relays and tickets from the coordinator reach the agent, and are available after a restart without the coordinator.

use std::net::SocketAddr;

use taut_base::{RelayId, encode_base64url};
use taut_control::{Command, ControlEvent};
use taut_netmap::{Delta, NetworkMap, ToCoordinator, ToNode};
use taut_noise::public_key;

use crate::coordinator::{Coordinator, Session, map, relay};
use crate::node::{Node, StateDir};

fn ticket(bytes: &[u8], expires: u64) -> ToNode {
    ToNode::Ticket { ticket: encode_base64url(bytes), numbered: None, expires }
}

fn next_ticket(node: &Node) -> (Vec<u8>, u64) {
    node.expect(
        |event| if let ControlEvent::Ticket { ticket, expires, .. } = event { Some((ticket, expires)) } else { None },
    )
}

/// Returns the endpoints of the first relay in the agent's map. The unspecified endpoint is missing: it stands for the coordinator's address, which
/// is a loopback address here and therefore never used.
fn endpoints(map: &NetworkMap) -> Vec<SocketAddr> {
    map.relays[0].endpoints.clone()
}

/// Joins a node, and sends it a map with a relay.
fn joined(coordinator: &Coordinator, state: &StateDir) -> (Node, Session) {
    let node = Node::start(state);
    node.join(coordinator.token());
    let identity = node.identity();
    let mut session = coordinator.accept();
    let hello = session.receive_hello();
    assert_eq!(hello.bind_key, Some(public_key(&identity.bind_key)), "tickets are for the key that binds");
    assert_ne!(hello.bind_key, Some(hello.node_key), "the bind key differs from the node key");
    session.send(&ToNode::Map(NetworkMap { relays: vec![relay(1)], ..map(5, hello.node_key, 1) }));
    assert_eq!(endpoints(&node.map()), [SocketAddr::from(([192, 0, 2, 1], 3478))]);
    (node, session)
}

#[test]
fn fault_n2_relays_and_ticket_outlive_a_restart_without_the_coordinator() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session) = joined(&coordinator, &state);
    session.send(&ticket(b"first", 10));
    assert_eq!(next_ticket(&node), (b"first".to_vec(), 10));
    session.send(&ticket(b"first", 10));
    session.send(&ticket(b"second", 20));
    assert_eq!(next_ticket(&node), (b"second".to_vec(), 20), "a ticket that is already known is not reported again");
    node.stop();
    drop((session, coordinator));

    let again = Node::start(&state);
    let events: Vec<ControlEvent> = std::iter::from_fn(|| again.event_at_once()).collect();
    let [
        ControlEvent::Identity(_),
        ControlEvent::Recent(_),
        ControlEvent::Ticket { ticket, numbered: None, expires: 20 },
        ControlEvent::Map(map),
        ..,
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!(ticket, b"second");
    assert_eq!(endpoints(map), [SocketAddr::from(([192, 0, 2, 1], 3478))]);
    again.stop();
}

#[test]
fn a_change_replaces_all_relays_and_other_changes_keep_them() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session) = joined(&coordinator, &state);
    let change = |from: u64, relays| {
        ToNode::Delta(Delta {
            from,
            to: from + 1,
            me: None,
            upserts: Vec::new(),
            removes: Vec::new(),
            relays,
            filter: None,
            naming: None,
        })
    };
    session.send(&change(5, Some(vec![relay(2), relay(3)])));
    assert_eq!(node.map().relays.iter().map(|relay| relay.id).collect::<Vec<_>>(), [RelayId(2), RelayId(3)]);
    session.send(&change(6, None));
    assert_eq!(node.map().relays.len(), 2);
    session.send(&change(7, Some(vec![relay(2), relay(2)])));
    assert!(node.disconnected().contains("two relays have the number 2"));
    node.stop();
}

#[test]
fn bound_relays_are_sent_once_per_channel() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session) = joined(&coordinator, &state);
    let ids = vec![RelayId(1)];
    for _ in 0..2 {
        node.send(Command::Relays(ids.clone()));
    }
    node.send(Command::Relays(Vec::new()));
    assert_eq!(session.receive(), Some(ToCoordinator::Relays { ids }));
    assert_eq!(session.receive(), Some(ToCoordinator::Relays { ids: Vec::new() }));
    drop(session);
    node.disconnected();
    let mut session = coordinator.accept();
    session.receive_hello();
    assert_eq!(session.receive(), Some(ToCoordinator::Relays { ids: Vec::new() }));
    node.stop();
}

#[test]
fn fault_l5_a_numbered_ticket_is_saved_with_the_plain_one_and_ignored_if_invalid() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session) = joined(&coordinator, &state);
    let both = |numbered: &str| {
        let numbered = Some(String::from(numbered));
        ToNode::Ticket { ticket: encode_base64url(b"plain"), numbered, expires: 30 }
    };
    let next_numbered = |node: &Node| {
        node.expect(|event| match event {
            ControlEvent::Ticket { ticket, numbered, expires: 30 } if ticket == b"plain" => Some(numbered),
            _ => None,
        })
    };
    session.send(&both("no ticket!"));
    assert_eq!(next_numbered(&node), None);
    session.send(&both(&encode_base64url(b"numbered")));
    assert_eq!(next_numbered(&node), Some(b"numbered".to_vec()));
    node.stop();
    drop((session, coordinator));
    let again = Node::start(&state);
    assert_eq!(next_numbered(&again), Some(b"numbered".to_vec()));
    again.stop();
}

#[test]
fn an_invalid_ticket_ends_the_channel_and_is_not_saved() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session) = joined(&coordinator, &state);
    session.send(&ToNode::Ticket { ticket: String::from("no ticket!"), numbered: None, expires: 1 });
    assert!(node.disconnected().contains("ticket"));
    node.stop();
    assert!(!state.path().join("ticket.json").exists());
}

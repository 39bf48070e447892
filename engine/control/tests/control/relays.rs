//! Relays and tickets from the coordinator reach the agent, and are available after a restart without the coordinator.

use std::net::SocketAddr;

use taut_base::{RelayId, encode_base64url};
use taut_control::{Command, Event};
use taut_netmap::{Delta, NetworkMap, ToCoordinator, ToNode};
use taut_noise::public_key;

use crate::coordinator::{Coordinator, Session, map, relay};
use crate::node::{Node, StateDir};

fn ticket(bytes: &[u8], expires: u64) -> ToNode {
    ToNode::Ticket { ticket: encode_base64url(bytes), numbered: None, expires }
}

fn next_ticket(node: &Node) -> (Vec<u8>, u64) {
    node.expect(|event| if let Event::Ticket { ticket, expires, .. } = event { Some((ticket, expires)) } else { None })
}

/// Returns the endpoints of the first relay in the agent's map. The unspecified endpoint is missing: it stands for the coordinator's address, which
/// is a loopback address here and therefore never used.
fn places(map: &NetworkMap) -> Vec<SocketAddr> {
    map.relays[0].endpoints.clone()
}

/// Joins a node, and sends it a map with a relay.
fn joined(coordinator: &Coordinator, state: &StateDir) -> (Node, Session) {
    let node = Node::start(state);
    node.join(coordinator.token());
    let identity = node.identity();
    let mut session = coordinator.accept();
    let hello = session.hear_hello();
    assert_eq!(hello.bind_key, Some(public_key(&identity.bind_key)), "tickets are for the key that binds");
    assert_ne!(hello.bind_key, Some(hello.node_key), "the bind key differs from the node key");
    session.say(&ToNode::Map(NetworkMap { relays: vec![relay(1)], ..map(5, hello.node_key, 1) }));
    assert_eq!(places(&node.map()), [SocketAddr::from(([192, 0, 2, 1], 3478))]);
    (node, session)
}

#[test]
fn fault_n2_relays_and_ticket_outlive_a_restart_without_the_coordinator() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session) = joined(&coordinator, &state);
    session.say(&ticket(b"first", 10));
    assert_eq!(next_ticket(&node), (b"first".to_vec(), 10));
    session.say(&ticket(b"first", 10));
    session.say(&ticket(b"second", 20));
    assert_eq!(next_ticket(&node), (b"second".to_vec(), 20), "a ticket that is already known is not reported again");
    node.stop();
    drop((session, coordinator));

    let again = Node::start(&state);
    let told: Vec<Event> = std::iter::from_fn(|| again.event_at_once()).collect();
    let [
        Event::Identity(_),
        Event::Recent(_),
        Event::Ticket { ticket, numbered: None, expires: 20 },
        Event::Map(map),
        ..,
    ] = &told[..]
    else {
        panic!("{told:?}");
    };
    assert_eq!(ticket, b"second");
    assert_eq!(places(map), [SocketAddr::from(([192, 0, 2, 1], 3478))]);
    again.stop();
}

#[test]
fn a_change_of_relays_is_taken_whole_and_other_changes_leave_them() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session) = joined(&coordinator, &state);
    let change = |from: u64, relays| {
        ToNode::Delta(Delta { from, to: from + 1, me: None, upserts: Vec::new(), removes: Vec::new(), relays })
    };
    session.say(&change(5, Some(vec![relay(2), relay(3)])));
    assert_eq!(node.map().relays.iter().map(|relay| relay.id).collect::<Vec<_>>(), [RelayId(2), RelayId(3)]);
    session.say(&change(6, None));
    assert_eq!(node.map().relays.len(), 2);
    session.say(&change(7, Some(vec![relay(2), relay(2)])));
    assert!(node.disconnected().contains("two relays have the number 2"));
    node.stop();
}

#[test]
fn where_this_node_is_bound_is_said_on_every_channel_and_once() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session) = joined(&coordinator, &state);
    let ids = vec![RelayId(1)];
    for _ in 0..2 {
        node.send(Command::Relays(ids.clone()));
    }
    node.send(Command::Relays(Vec::new()));
    assert_eq!(session.hear(), Some(ToCoordinator::Relays { ids }));
    assert_eq!(session.hear(), Some(ToCoordinator::Relays { ids: Vec::new() }));
    drop(session);
    node.disconnected();
    let mut session = coordinator.accept();
    session.hear_hello();
    assert_eq!(session.hear(), Some(ToCoordinator::Relays { ids: Vec::new() }));
    node.stop();
}

#[test]
fn fault_l5_the_numbered_ticket_is_kept_beside_the_other_one_and_costs_nothing_if_it_is_none() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session) = joined(&coordinator, &state);
    let both = |numbered: &str| {
        let numbered = Some(String::from(numbered));
        ToNode::Ticket { ticket: encode_base64url(b"plain"), numbered, expires: 30 }
    };
    let told = |node: &Node| {
        node.expect(|event| match event {
            Event::Ticket { ticket, numbered, expires: 30 } if ticket == b"plain" => Some(numbered),
            _ => None,
        })
    };
    session.say(&both("no ticket!"));
    assert_eq!(told(&node), None);
    session.say(&both(&encode_base64url(b"numbered")));
    assert_eq!(told(&node), Some(b"numbered".to_vec()));
    node.stop();
    drop((session, coordinator));
    let again = Node::start(&state);
    assert_eq!(told(&again), Some(b"numbered".to_vec()));
    again.stop();
}

#[test]
fn a_ticket_that_is_none_ends_the_channel_and_is_not_kept() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session) = joined(&coordinator, &state);
    session.say(&ToNode::Ticket { ticket: String::from("no ticket!"), numbered: None, expires: 1 });
    assert!(node.disconnected().contains("ticket"));
    node.stop();
    assert!(!state.path().join("ticket.json").exists());
}

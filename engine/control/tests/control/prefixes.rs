//! The overlay's prefixes are pinned: a compromised coordinator cannot move the overlay onto other addresses (fault E24).

use std::sync::Arc;
use std::time::Duration;

use taut_base::PublicKey;
use taut_control::{Command, ControlEvent, OtherPrefixes};
use taut_netmap::{Delta, NetworkMap, Prefixes, ToNode};

use crate::coordinator::{Coordinator, Session, map, relay};
use crate::node::{Node, StateDir};

fn reported(node: &Node) -> Option<OtherPrefixes> {
    node.expect(|event| if let ControlEvent::OtherPrefixes(other) = event { Some(other) } else { None })
}

/// Returns the map of a coordinator that moves the overlay onto the addresses of local networks.
fn moved(version: u64, key: PublicKey) -> NetworkMap {
    let mut moved = map(version, key, 1);
    moved.network.ipv4 = "192.168.0.0/16".parse().unwrap();
    moved.me.addresses = vec!["192.168.0.1".parse().unwrap()];
    moved.peers.values_mut().for_each(|peer| peer.addresses = vec!["192.168.1.254".parse().unwrap()]);
    moved
}

fn prefixes(map: &NetworkMap) -> Prefixes {
    Prefixes::from(&map.network)
}

/// Returns the content of this node's identity file.
fn identity(state: &StateDir) -> String {
    std::fs::read_to_string(state.path().join("identity.json")).unwrap()
}

/// Returns a node that joined, its channel and its map. `came_up`: true if its network came up on this host, which pins the prefixes.
fn joined(coordinator: &Coordinator, state: &StateDir, came_up: bool) -> (Node, Session, Arc<NetworkMap>) {
    let node = Node::start(state);
    node.join(coordinator.token());
    assert!(node.identity().is_new);
    let mut session = coordinator.accept();
    let hello = session.receive_hello();
    session.send(&ToNode::Map(map(5, hello.node_key, 1)));
    let map = node.map();
    if came_up {
        node.send(Command::PinPrefixes);
        // The test waits for the save. Otherwise the thread might receive the next map before it handles the command.
        while !identity(state).contains("pinned") {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    (node, session, map)
}

/// Checks that the node has not applied the refused map: the coordinator's next message arrives without a map event in between.
fn assert_not_applied(node: &Node, session: &mut Session) {
    session.send(&ToNode::Presence { whole: true, nodes: Vec::new() });
    loop {
        match node.event() {
            ControlEvent::Presence { .. } => return,
            ControlEvent::Map(map) => panic!("{} was applied", map.network.ipv4),
            ControlEvent::Disconnected { why, .. } => panic!("the channel was closed: {why}"),
            _ => {}
        }
    }
}

#[test]
fn fault_e24_a_map_with_other_prefixes_waits_for_consent() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, first) = joined(&coordinator, &state, true);
    let wanted = moved(6, first.me.key);
    session.send(&ToNode::Map(wanted.clone()));
    let refused = OtherPrefixes { pinned: prefixes(&first), wanted: prefixes(&wanted) };
    assert_eq!(reported(&node), Some(refused));
    assert_not_applied(&node, &mut session);
    // A change that arrives meanwhile is applied to the waiting map.
    let peer = crate::coordinator::peer(7);
    let peer = taut_netmap::Peer { addresses: vec!["192.168.7.7".parse().unwrap()], ..peer };
    let delta = Delta {
        from: 6,
        to: 7,
        me: None,
        upserts: vec![peer],
        removes: Vec::new(),
        relays: Some(vec![relay(1)]),
        filter: None,
        naming: None,
    };
    session.send(&ToNode::Delta(delta));
    assert_not_applied(&node, &mut session);

    // Consent to other prefixes than those of the waiting map has no effect.
    node.send(Command::AcceptPrefixes(prefixes(&first)));
    assert_not_applied(&node, &mut session);
    node.send(Command::AcceptPrefixes(refused.wanted));
    assert_eq!(reported(&node), None);
    let now = node.map();
    assert_eq!((now.version, now.network.ipv4, now.peers.len(), now.relays.len()), (7, refused.wanted.ipv4, 2, 1));
    node.stop();

    // The accepted prefixes are pinned, also after a restart.
    let node = Node::start(&state);
    assert!(!node.identity().is_new);
    assert_eq!(prefixes(&node.map()), refused.wanted);
    let mut session = coordinator.accept();
    assert_eq!(session.receive_hello().have, 7);
    session.send(&ToNode::Map(map(8, first.me.key, 1)));
    assert_eq!(reported(&node), Some(OtherPrefixes { pinned: refused.wanted, wanted: refused.pinned }));
}

#[test]
fn fault_e24_the_old_map_stays_in_force_over_a_restart_until_its_prefixes_return() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, session, first) = joined(&coordinator, &state, true);
    node.stop();
    drop(session);

    let node = Node::start(&state);
    assert!(!node.identity().is_new);
    assert_eq!(*node.map(), *first);
    let mut session = coordinator.accept();
    session.receive_hello();
    session.send(&ToNode::Map(moved(6, first.me.key)));
    assert!(reported(&node).is_some());
    // On a new channel the node requests a full map, because it could not apply a change of the map in force.
    drop(session);
    node.disconnected();
    let mut session = coordinator.accept();
    assert_eq!(session.receive_hello().have, 0);
    session.send(&ToNode::Map(moved(7, first.me.key)));
    assert_not_applied(&node, &mut session);
    session.send(&ToNode::Map(map(8, first.me.key, 2)));
    assert_eq!(reported(&node), None);
    assert_eq!(node.map().version, 8);
}

#[test]
fn fault_e24_state_of_release_0_1_0_pins_what_its_last_good_map_has() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    // Without `PinPrefixes` the files are the same as those of release 0.1.0.
    let (node, session, first) = joined(&coordinator, &state, false);
    node.stop();
    drop(session);
    assert!(!identity(&state).contains("pinned"));

    let node = Node::start(&state);
    assert!(!node.identity().is_new, "it was up before");
    let mut session = coordinator.accept();
    session.receive_hello();
    session.send(&ToNode::Map(moved(6, first.me.key)));
    assert!(reported(&node).is_some());
    assert_not_applied(&node, &mut session);
    assert!(identity(&state).contains("\"pinned\":{\"ipv4\":\"100.64.0.0/10\""));
}

#[test]
fn a_network_that_never_came_up_may_change_its_prefixes() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, first) = joined(&coordinator, &state, false);
    let wanted = moved(6, first.me.key);
    session.send(&ToNode::Map(wanted.clone()));
    assert_eq!(prefixes(&node.map()), prefixes(&wanted));
}

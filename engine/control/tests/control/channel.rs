//! The life of a channel: join, map changes, loss, resumption, refusal, end.

use std::io::{Read, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::coordinator::{Coordinator, SECRET, Session, map, peer};
use crate::node::{Node, StateDir};
use taut_base::{NodeId, PrivateKey, PublicKey, encode_base64url};
use taut_control::{Command, ControlEvent};
use taut_dial::{ChannelTarget, Dial, Received};
use taut_event::Waker;
use taut_netmap::{Delta, NetworkMap, Problem, ProblemCode, ToCoordinator, ToNode, prologue};
use taut_noise::{MAX_MESSAGE, public_key};

fn delta(from: u64, to: u64, upserts: &[u8], removes: &[u64]) -> ToNode {
    ToNode::Delta(Delta {
        from,
        to,
        me: None,
        upserts: upserts.iter().map(|id| peer(*id)).collect(),
        removes: removes.iter().map(|id| NodeId(*id)).collect(),
        relays: None,
        filter: None,
        naming: None,
    })
}

fn refusal(code: ProblemCode) -> ToNode {
    ToNode::Refused(Problem { code, message: String::from("no"), hint: String::from("ask") })
}

/// Returns a node that joined and has map 5 with `peers` peers.
fn joined(coordinator: &Coordinator, state: &StateDir, peers: u8) -> (Node, Session, PublicKey) {
    let node = Node::start(state);
    assert!(matches!(node.event(), ControlEvent::NeedsJoin));
    node.join(coordinator.token());
    let key = public_key(&node.identity().node_key);
    let mut session = coordinator.accept();
    assert_eq!(session.receive_hello().node_key, key);
    session.send(&ToNode::Map(map(5, key, peers)));
    assert_eq!(node.connected(), coordinator.url());
    assert_eq!(*node.map(), map(5, key, peers));
    (node, session, key)
}

#[test]
fn joins_with_new_keys_and_sends_the_secret_only_encrypted() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let node = Node::start(&state);
    assert!(matches!(node.event(), ControlEvent::NeedsJoin));
    node.join(coordinator.token());
    let identity = node.identity();
    assert_eq!((identity.network, identity.url.clone(), identity.wanted), ([1; 16], coordinator.url(), true));

    let mut session = coordinator.accept();
    assert_eq!(session.target, format!("/control/v1?network={}", "01".repeat(16)));
    let hello = session.receive_hello();
    assert_ne!(session.machine, hello.node_key, "two keys, two purposes");
    let enrol = hello.enrol.unwrap();
    assert_eq!((enrol.secret, enrol.name), (encode_base64url(&SECRET), String::from("a")));
    assert_eq!((hello.schema, hello.have, hello.version), (1, 0, String::from("test")));
    session.send(&ToNode::Map(map(1, hello.node_key, 1)));
    assert_eq!(node.map().peers.len(), 1);
    node.stop();
}

#[test]
fn applies_changes_and_presence_and_ignores_unknown_messages() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, _) = joined(&coordinator, &state, 2);
    session.send_json(br#"{"type":"teleport","to":"mars"}"#);
    session.send(&delta(5, 6, &[9], &[2]));
    let after = node.map();
    assert_eq!(after.version, 6);
    assert_eq!(after.peers.keys().copied().collect::<Vec<_>>(), [NodeId(3), NodeId(9)]);
    session.send(&ToNode::Presence { whole: true, nodes: vec![(NodeId(9), true)] });
    assert!(matches!(node.event(), ControlEvent::Presence { whole: true, nodes } if nodes == [(NodeId(9), true)]));
    node.stop();
}

#[test]
fn law_6_after_a_bad_change_a_full_map_is_requested_and_a_bad_map_is_ignored() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, key) = joined(&coordinator, &state, 2);
    session.send(&delta(4, 6, &[9], &[]));
    assert!(node.disconnected().contains("version 4"));

    let mut session = coordinator.accept();
    assert_eq!(session.receive_hello().have, 0, "requests a full map");
    let mut hostile = map(6, key, 2);
    hostile.network.ipv4 = "0.0.0.0/0".parse().unwrap();
    session.send(&ToNode::Map(hostile));
    assert!(node.disconnected().contains("0.0.0.0/0"));

    let mut session = coordinator.accept();
    assert_eq!(session.receive_hello().have, 0, "still requests a full map");
    session.send(&ToNode::Map(map(6, PublicKey([88; 32]), 2)));
    assert!(node.disconnected().contains("a key that is not its own"));

    let mut session = coordinator.accept();
    session.receive_hello();
    session.send(&ToNode::Map(map(6, key, 3)));
    assert_eq!(*node.map(), map(6, key, 3), "and no refused map was applied");
    session.send(&delta(6, 7, &[], &[2]));
    assert_eq!(node.map().version, 7, "changes are applied again");
    node.stop();
}

#[test]
fn fault_e17_an_endless_message_breaks_the_channel() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, key) = joined(&coordinator, &state, 1);
    let flood = thread::spawn(move || session.flood());
    assert!(node.disconnected().contains("without a complete message"));
    assert!(flood.join().unwrap(), "the node closes it");
    let mut session = coordinator.accept();
    session.receive_hello();
    session.send(&ToNode::Map(map(6, key, 3)));
    assert_eq!(*node.map(), map(6, key, 3));
    node.stop();
}

#[test]
fn fault_e20_a_reserved_name_is_ignored_and_the_map_is_applied() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, key) = joined(&coordinator, &state, 2);
    let mut named = map(6, key, 2);
    named.me.name = String::from("wpad");
    named.peers.get_mut(&NodeId(2)).unwrap().name = String::from("localhost");
    session.send(&ToNode::Map(named));
    let seen = node.map();
    assert_eq!((seen.version, seen.me.name.as_str()), (6, "node-1"));
    assert_eq!((seen.peers[&NodeId(2)].name.as_str(), seen.peers.len()), ("node-2", 2));
    let mut other = peer(3);
    other.name = String::from("ip6-loopback");
    let renamed = Delta {
        from: 6,
        to: 7,
        me: None,
        upserts: vec![other],
        removes: Vec::new(),
        relays: None,
        filter: None,
        naming: None,
    };
    session.send(&ToNode::Delta(renamed));
    let seen = node.map();
    assert_eq!((seen.version, seen.peers[&NodeId(3)].name.as_str()), (7, "node-3"));
    node.stop();
}

#[test]
fn resumes_from_its_map_when_the_coordinator_comes_back() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, session, _) = joined(&coordinator, &state, 1);
    node.send(Command::Endpoints {
        endpoints: vec!["10.0.0.1:8288".parse().unwrap()],
        ports: vec![8288],
        observed: Vec::new(),
    });
    let address = coordinator.address();
    drop(session);
    drop(coordinator);
    node.disconnected();
    let coordinator = Coordinator::start_at(address);
    let mut session = coordinator.accept();
    let hello = session.receive_hello();
    assert_eq!(hello.have, 5);
    assert!(hello.enrol.is_none(), "the secret was used and forgotten");
    assert!(matches!(session.receive(), Some(ToCoordinator::Endpoints { ports, .. }) if ports == [8288]));
    session.send(&delta(5, 5, &[], &[]));
    node.connected();
    session.send(&delta(5, 6, &[8], &[]));
    assert_eq!(node.map().version, 6, "no event for the empty change");
    node.stop();
}

#[test]
fn law_5_a_restart_brings_back_identity_and_map_without_the_coordinator() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, session, key) = joined(&coordinator, &state, 3);
    node.send(Command::RememberPort(4321));
    node.stop();
    drop(session);
    drop(coordinator);

    let node = Node::start(&state);
    let identity = node.identity();
    assert_eq!(public_key(&identity.node_key), key);
    assert_eq!((identity.port, identity.wanted), (Some(4321), true));
    assert_eq!(*node.map(), map(5, key, 3));
    assert!(node.disconnected().contains("refused"));
    node.stop();
}

#[test]
fn the_saved_state_is_reported_at_the_start() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let node = Node::start(&state);
    assert!(matches!(node.event_at_once(), Some(ControlEvent::NeedsJoin)));
    node.stop();
    let (node, session, _) = joined(&coordinator, &state, 2);
    node.stop();
    drop((session, coordinator));
    let again = Node::start(&state);
    let events: Vec<ControlEvent> = std::iter::from_fn(|| again.event_at_once()).collect();
    assert!(
        matches!(events[..], [ControlEvent::Identity(_), ControlEvent::Recent(_), ControlEvent::Map(_), ..]),
        "{events:?}"
    );
    again.stop();
}

#[test]
fn down_sends_a_goodbye_and_is_saved_and_up_connects_again() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, _) = joined(&coordinator, &state, 1);
    node.send(Command::Down);
    assert!(matches!(session.receive(), Some(ToCoordinator::Goodbye)));
    assert!(session.receive().is_none());
    node.stop();

    let node = Node::start(&state);
    assert!(!node.identity().wanted);
    assert_eq!(node.map().version, 5);
    node.send(Command::Up);
    let mut session = coordinator.accept();
    assert_eq!(session.receive_hello().have, 5);
    node.stop();
    assert!(matches!(session.receive(), Some(ToCoordinator::Goodbye)), "stopping also sends a goodbye");

    let node = Node::start(&state);
    assert!(node.identity().wanted, "up was saved");
    node.stop();
}

#[test]
fn a_final_refusal_ends_the_attempts_until_the_next_command_of_the_user() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let node = Node::start(&state);
    node.join(coordinator.token());
    let mut session = coordinator.accept();
    session.receive_hello();
    session.send(&refusal(ProblemCode::Enrolment));
    node.expect(|event| matches!(event, ControlEvent::Refused(problem) if problem.code.is_final()).then_some(()));
    assert!(session.receive().is_none());

    node.join(coordinator.token());
    let mut session = coordinator.accept();
    let hello = session.receive_hello();
    session.send(&ToNode::Map(map(1, hello.node_key, 0)));
    node.map();
    node.stop();
}

#[test]
fn a_refusal_is_read_although_the_coordinator_closed_the_connection_meanwhile() {
    let coordinator = Coordinator::start();
    let target = ChannelTarget {
        path: String::from("/control/v1"),
        prologue: prologue(&coordinator.network),
        key: PrivateKey::from_bytes([9; 32]),
        coordinator: coordinator.token().coordinator,
        max_message: MAX_MESSAGE,
        wrong_server: "",
        key_path: "/key",
        key_source: "",
    };
    let dial = Dial::start(coordinator.url(), Vec::new(), target, Waker::new().unwrap()).unwrap();
    let mut session = coordinator.accept();
    let mut channel = loop {
        match dial.take() {
            Some(outcome) => break outcome.unwrap(),
            None => thread::sleep(Duration::from_millis(1)),
        }
    };
    channel.send(&ToCoordinator::Ping).unwrap();
    session.send(&refusal(ProblemCode::NotAMember));
    // The ping was not read, so the kernel resets the connection, and whatever is sent from now on fails.
    drop(session);
    for _ in 0..3 {
        channel.send(&ToCoordinator::Ping).unwrap();
    }
    let Ok(Received::Message(last)) = channel.receive() else { panic!("the refusal is lost") };
    assert!(String::from_utf8(last).unwrap().contains("not-a-member"));
    assert!(channel.receive().is_err(), "then comes the end");
    channel.flush().unwrap();
    assert!(!channel.wants_write());
}

/// Answers the connections of a node as a coordinator with the key `shown` does: it cannot read a handshake for another key.
fn be_another(coordinator: &Coordinator, shown: Option<PublicKey>) {
    let socket = coordinator.accept_socket();
    drop(tungstenite::accept(socket).unwrap().read());
    let mut asked = coordinator.accept_socket();
    let mut request = [0; 1024];
    let length = asked.read(&mut request).unwrap();
    assert!(request[..length].starts_with(b"GET /key HTTP/1.1\r\n"));
    let answer = shown.map_or_else(
        || String::from("HTTP/1.1 404 Not Found\r\n\r\n"),
        |key| format!("HTTP/1.1 200 OK\r\n\r\n{{\"schema\":1,\"key\":\"{key}\"}}"),
    );
    asked.write_all(answer.as_bytes()).unwrap();
}

#[test]
fn a_coordinator_with_another_key_is_told_with_both_keys() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let node = Node::start(&state);
    let token = coordinator.token();
    let (own, other) = (token.coordinator, PublicKey([9; 32]));
    node.join(token);
    let why = |shown| {
        be_another(&coordinator, shown);
        node.expect(|event| if let ControlEvent::Disconnected { why, .. } = event { Some(why) } else { None })
    };
    let named = why(Some(other));
    assert!(named.contains(&format!("shows {other}, and expected is {own}")), "{named}");
    assert!(named.contains("taut-coordinator devices invite") && named.contains("somebody in between"), "{named}");
    let lost = why(Some(own));
    assert!(lost.contains("closed the connection"), "the key is right: {lost}");
    let unknown = why(None);
    assert!(unknown.contains("does not have the coordinator's key of the join token"), "{unknown}");
    node.stop();
}

#[test]
fn after_a_temporary_refusal_the_node_retries() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let node = Node::start(&state);
    node.join(coordinator.token());
    let mut session = coordinator.accept();
    session.receive_hello();
    session.send(&refusal(ProblemCode::Unavailable));
    node.expect(|event| matches!(event, ControlEvent::Refused(problem) if !problem.code.is_final()).then_some(()));
    node.disconnected();
    // Release 0.1.0 does not know `too-often`. It retries after this code as after any unknown code.
    for code in ["too-often", "from-the-future"] {
        let mut session = coordinator.accept();
        session.receive_hello();
        session.send_json(format!(r#"{{"type":"refused","code":"{code}","message":"no","hint":"wait"}}"#).as_bytes());
        node.expect(|event| matches!(event, ControlEvent::Refused(problem) if !problem.code.is_final()).then_some(()));
        node.disconnected();
    }
    assert!(coordinator.accept().receive_hello().enrol.is_some(), "the secret is sent again");
    node.stop();
}

#[test]
fn fault_d14_a_node_reports_a_twin_and_keeps_its_channel_or_pauses() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, _) = joined(&coordinator, &state, 1);
    let ToNode::Refused(problem) = refusal(ProblemCode::Twin) else { panic!() };
    // The twin that the coordinator serves keeps its channel.
    for problem in [Some(problem.clone()), None] {
        session.send(&ToNode::Twin { problem: problem.clone() });
        let reported = node.expect(|event| if let ControlEvent::Twin(problem) = event { Some(problem) } else { None });
        assert_eq!(reported, problem);
    }
    session.send(&delta(5, 6, &[9], &[]));
    assert_eq!(node.map().version, 6);
    // The twin that the coordinator does not serve pauses for longer than the back-off allows. The refusal is not final.
    session.send(&ToNode::Refused(problem));
    node.expect(|event| matches!(event, ControlEvent::Refused(problem) if !problem.code.is_final()).then_some(()));
    let pause = node
        .expect(|event| if let ControlEvent::Disconnected { retry_in, .. } = event { Some(retry_in) } else { None });
    assert!((30..=60).contains(&pause.as_secs()), "{pause:?}");
    assert!(session.receive().is_none());
    node.stop();
}

#[test]
fn a_member_joins_no_other_network_but_may_enrol_again_with_the_same_keys() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, key) = joined(&coordinator, &state, 1);
    let mut other = coordinator.token();
    other.network = [2; 16];
    node.join(other);
    let problem = node.expect(|event| if let ControlEvent::Refused(problem) = event { Some(problem) } else { None });
    assert!(problem.hint.contains("--state") && !problem.code.is_final(), "{problem}");
    session.send(&delta(5, 6, &[9], &[]));
    assert_eq!(node.map().version, 6, "the present channel stays open");

    node.join(coordinator.token());
    assert_eq!(public_key(&node.identity().node_key), key);
    let before = session.machine;
    let mut session = coordinator.accept();
    assert_eq!(session.machine, before);
    let hello = session.receive_hello();
    assert!(hello.enrol.is_some() && hello.node_key == key && hello.have == 6);

    // The single-use secret in a container's environment was used up at the first start.
    session.send(&refusal(ProblemCode::Enrolment));
    let mut session = coordinator.accept();
    assert!(session.receive_hello().enrol.is_none());
    session.send(&delta(6, 6, &[], &[]));
    node.connected();
    node.stop();
}

#[test]
fn a_node_that_was_removed_may_join_another_network() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, _) = joined(&coordinator, &state, 1);
    session.send(&refusal(ProblemCode::NotAMember));
    node.expect(|event| matches!(event, ControlEvent::Refused(_)).then_some(()));
    let mut elsewhere = Coordinator::start();
    elsewhere.network = [2; 16];
    node.join(elsewhere.token());
    assert_eq!(node.identity().network, [2; 16]);
    assert_eq!(elsewhere.accept().receive_hello().have, 0, "the other network's map does not count");
    node.stop();
}

#[test]
fn the_urls_are_tried_in_turn() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let closed = Coordinator::start().url();
    let node = Node::start(&state);
    node.join(coordinator.token_with(vec![String::from("gopher://x"), closed.clone(), coordinator.url()]));
    assert!(node.disconnected().contains("gopher://x: not a coordinator's URL"));
    assert!(node.disconnected().contains(&closed));
    let mut session = coordinator.accept();
    let hello = session.receive_hello();
    session.send(&ToNode::Map(map(1, hello.node_key, 0)));
    assert_eq!(node.connected(), coordinator.url());
    node.stop();
}

#[test]
fn invalid_bytes_end_the_channel_and_not_the_node() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, _) = joined(&coordinator, &state, 1);
    session.send_garbage();
    assert!(node.disconnected().contains("control message"));
    let mut session = coordinator.accept();
    session.receive_hello();
    session.send_json(b"{\"type\":\"map\",\"version\":{}}");
    assert!(node.disconnected().contains("makes no sense"));
    drop(coordinator.accept_socket());
    assert!(node.disconnected().contains("closed the connection"));
    coordinator.accept();
    node.stop();
}

#[test]
fn fault_c7_a_replayed_message_of_the_coordinator_is_refused() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, key) = joined(&coordinator, &state, 2);
    // A replayed removal of a peer. Further below: a replayed full map that would restore the removed peer.
    let removal = session.seal(&delta(5, 6, &[], &[2]));
    session.send_sealed(&removal);
    assert_eq!(node.map().version, 6);
    session.send_sealed(&removal);
    assert!(node.disconnected().contains("belongs to another channel"));

    let mut session = coordinator.accept();
    assert_eq!(session.receive_hello().have, 6);
    let whole = session.seal(&ToNode::Map(map(7, key, 3)));
    session.send_sealed(&whole);
    assert_eq!(node.map().version, 7);
    session.send(&delta(7, 8, &[], &[2]));
    assert_eq!(node.map().version, 8);
    session.send_sealed(&whole);
    assert!(node.disconnected().contains("belongs to another channel"));

    // The map is replayed at its original position, as the first message after a handshake, but on another channel.
    let mut session = coordinator.accept();
    assert_eq!(session.receive_hello().have, 8);
    session.send_sealed(&whole);
    assert!(node.disconnected().contains("belongs to another channel"));
    let mut session = coordinator.accept();
    assert_eq!(session.receive_hello().have, 8, "the refused map changed nothing");
    session.send(&delta(8, 9, &[7], &[]));
    let after = node.map();
    assert_eq!((after.version, after.peers.contains_key(&NodeId(2))), (9, false));
    node.stop();
}

#[test]
fn a_server_that_is_not_the_coordinator_is_reported() {
    use std::io::{Read, Write};
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let node = Node::start(&state);
    node.join(coordinator.token());
    let mut socket = coordinator.accept_socket();
    let _ = socket.read(&mut [0; 1024]).unwrap();
    socket.write_all(b"HTTP/1.1 404 Not LoadedState\r\nContent-Length: 0\r\n\r\n").unwrap();
    assert!(node.disconnected().contains("HTTP status 404"));

    let mut other_key = coordinator.token();
    other_key.coordinator = PublicKey(*public_key(&PrivateKey::from_bytes([77; 32])).as_bytes());
    node.join(other_key);
    node.identity();
    // This server cannot read a handshake to another key. It closes the connection, as a coordinator does. An attempt with the right key may still be under
    // way when the node receives the new token. It fails on its own, and the loop skips it.
    let mut socket = loop {
        let Ok(mut socket) = tungstenite::accept(coordinator.accept_socket()) else { continue };
        if socket.read().is_ok() {
            break socket;
        }
    };
    socket.close(None).unwrap();
    drop(socket);
    assert!(node.disconnected().contains("does not have the coordinator's key"));
    node.stop();
}

#[test]
fn down_takes_effect_while_an_attempt_hangs() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let node = Node::start(&state);
    node.join(coordinator.token());
    // The connection is accepted and never answered.
    let mut socket = coordinator.accept_socket();
    node.send(Command::Down);
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).unwrap();
    node.stop();
    let node = Node::start(&state);
    assert!(!node.identity().wanted);
    node.stop();
}

#[test]
fn large_maps_are_received_and_saved() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, key) = joined(&coordinator, &state, 1);
    let mut large: NetworkMap = map(6, key, 0);
    for id in 2..3_000_u64 {
        let mut one = peer(2);
        one.id = NodeId(id);
        one.name = format!("n{id}");
        one.key.0[..8].copy_from_slice(&id.to_le_bytes());
        one.addresses = vec![std::net::Ipv6Addr::from_bits((0xfd00 << 112) | u128::from(id)).into()];
        one.endpoints = vec!["[2001:db8::1]:8288".parse().unwrap(); 8];
        large.peers.insert(one.id, one);
    }
    session.send(&ToNode::Map(large.clone()));
    assert_eq!(node.map(), Arc::new(large.clone()));
    node.stop();
    let node = Node::start(&state);
    assert_eq!(node.map().version, 6, "and are saved");
    node.stop();
}

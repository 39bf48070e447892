//! The life of a channel: joining, following, losing, resuming, refusing, ending.

use std::sync::Arc;
use std::thread;

use crate::coordinator::{Coordinator, SECRET, Session, map, peer};
use crate::node::{Node, StateDir};
use taut_base::{NodeId, PublicKey, encode_base64url};
use taut_control::{Command, Event};
use taut_netmap::{Delta, NetworkMap, Problem, ProblemCode, ToCoordinator, ToNode};
use taut_noise::public_key;

fn delta(from: u64, to: u64, upserts: &[u8], removes: &[u64]) -> ToNode {
    ToNode::Delta(Delta {
        from,
        to,
        me: None,
        upserts: upserts.iter().map(|id| peer(*id)).collect(),
        removes: removes.iter().map(|id| NodeId(*id)).collect(),
        relays: None,
    })
}

fn refusal(code: ProblemCode) -> ToNode {
    ToNode::Refused(Problem { code, message: String::from("no"), hint: String::from("ask") })
}

/// A node that joined and has map 5 with `peers` peers.
fn joined(coordinator: &Coordinator, state: &StateDir, peers: u8) -> (Node, Session, PublicKey) {
    let node = Node::start(state);
    assert!(matches!(node.event(), Event::NeedsJoin));
    node.join(coordinator.token());
    let key = public_key(&node.identity().node_key);
    let mut session = coordinator.accept();
    assert_eq!(session.hear_hello().node_key, key);
    session.say(&ToNode::Map(map(5, key, peers)));
    assert_eq!(node.connected(), coordinator.url());
    assert_eq!(*node.map(), map(5, key, peers));
    (node, session, key)
}

#[test]
fn joins_with_new_keys_and_shows_the_secret_only_inside() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let node = Node::start(&state);
    assert!(matches!(node.event(), Event::NeedsJoin));
    node.join(coordinator.token());
    let identity = node.identity();
    assert_eq!((identity.network, identity.url.clone(), identity.wanted), ([1; 16], coordinator.url(), true));

    let mut session = coordinator.accept();
    assert_eq!(session.target, format!("/control/v1?network={}", "01".repeat(16)));
    let hello = session.hear_hello();
    assert_ne!(session.machine, hello.node_key, "two keys, two purposes");
    let enrol = hello.enrol.unwrap();
    assert_eq!((enrol.secret, enrol.name), (encode_base64url(&SECRET), String::from("a")));
    assert_eq!((hello.schema, hello.have, hello.version), (1, 0, String::from("test")));
    session.say(&ToNode::Map(map(1, hello.node_key, 1)));
    assert_eq!(node.map().peers.len(), 1);
    node.stop();
}

#[test]
fn follows_changes_and_presence_and_ignores_the_future() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, _) = joined(&coordinator, &state, 2);
    session.say_json(br#"{"type":"teleport","to":"mars"}"#);
    session.say(&delta(5, 6, &[9], &[2]));
    let after = node.map();
    assert_eq!(after.version, 6);
    assert_eq!(after.peers.keys().copied().collect::<Vec<_>>(), [NodeId(3), NodeId(9)]);
    session.say(&ToNode::Presence { whole: true, nodes: vec![(NodeId(9), true)] });
    assert!(matches!(node.event(), Event::Presence { whole: true, nodes } if nodes == [(NodeId(9), true)]));
    node.stop();
}

#[test]
fn law_6_a_bad_change_leads_to_a_whole_map_and_a_bad_map_to_nothing() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, key) = joined(&coordinator, &state, 2);
    session.say(&delta(4, 6, &[9], &[]));
    assert!(node.disconnected().contains("version 4"));

    let mut session = coordinator.accept();
    assert_eq!(session.hear_hello().have, 0, "asks for the whole map");
    let mut hostile = map(6, key, 2);
    hostile.network.ipv4 = "0.0.0.0/0".parse().unwrap();
    session.say(&ToNode::Map(hostile));
    assert!(node.disconnected().contains("0.0.0.0/0"));

    let mut session = coordinator.accept();
    assert_eq!(session.hear_hello().have, 0, "still");
    session.say(&ToNode::Map(map(6, PublicKey([88; 32]), 2)));
    assert!(node.disconnected().contains("a key that is not its own"));

    let mut session = coordinator.accept();
    session.hear_hello();
    session.say(&ToNode::Map(map(6, key, 3)));
    assert_eq!(*node.map(), map(6, key, 3), "and none of the others came through");
    session.say(&delta(6, 7, &[], &[2]));
    assert_eq!(node.map().version, 7, "changes are taken again");
    node.stop();
}

#[test]
fn fault_e17_a_message_without_end_breaks_the_channel() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, key) = joined(&coordinator, &state, 1);
    let flood = thread::spawn(move || session.flood());
    assert!(node.disconnected().contains("without a complete message"));
    assert!(flood.join().unwrap(), "the node closes it");
    let mut session = coordinator.accept();
    session.hear_hello();
    session.say(&ToNode::Map(map(6, key, 3)));
    assert_eq!(*node.map(), map(6, key, 3));
    node.stop();
}

#[test]
fn fault_e20_a_reserved_name_is_ignored_and_the_map_is_taken() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, key) = joined(&coordinator, &state, 2);
    let mut named = map(6, key, 2);
    named.me.name = String::from("wpad");
    named.peers.get_mut(&NodeId(2)).unwrap().name = String::from("localhost");
    session.say(&ToNode::Map(named));
    let seen = node.map();
    assert_eq!((seen.version, seen.me.name.as_str()), (6, "node-1"));
    assert_eq!((seen.peers[&NodeId(2)].name.as_str(), seen.peers.len()), ("node-2", 2));
    let mut other = peer(3);
    other.name = String::from("ip6-loopback");
    let renamed = Delta { from: 6, to: 7, me: None, upserts: vec![other], removes: Vec::new(), relays: None };
    session.say(&ToNode::Delta(renamed));
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
    let hello = session.hear_hello();
    assert_eq!(hello.have, 5);
    assert!(hello.enrol.is_none(), "the secret was used and forgotten");
    assert!(matches!(session.hear(), Some(ToCoordinator::Endpoints { ports, .. }) if ports == [8288]));
    session.say(&delta(5, 5, &[], &[]));
    node.connected();
    session.say(&delta(5, 6, &[8], &[]));
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
fn what_the_disk_held_is_told_before_anybody_asks() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let node = Node::start(&state);
    assert!(matches!(node.event_at_once(), Some(Event::NeedsJoin)));
    node.stop();
    let (node, session, _) = joined(&coordinator, &state, 2);
    node.stop();
    drop((session, coordinator));
    let again = Node::start(&state);
    let told: Vec<Event> = std::iter::from_fn(|| again.event_at_once()).collect();
    assert!(matches!(told[..], [Event::Identity(_), Event::Recent(_), Event::Map(_), ..]), "{told:?}");
    again.stop();
}

#[test]
fn down_says_goodbye_and_is_remembered_up_connects_again() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, _) = joined(&coordinator, &state, 1);
    node.send(Command::Down);
    assert!(matches!(session.hear(), Some(ToCoordinator::Goodbye)));
    assert!(session.hear().is_none());
    node.stop();

    let node = Node::start(&state);
    assert!(!node.identity().wanted);
    assert_eq!(node.map().version, 5);
    node.send(Command::Up);
    let mut session = coordinator.accept();
    assert_eq!(session.hear_hello().have, 5);
    node.stop();
    assert!(matches!(session.hear(), Some(ToCoordinator::Goodbye)), "stopping says goodbye, too");

    let node = Node::start(&state);
    assert!(node.identity().wanted, "up was remembered");
    node.stop();
}

#[test]
fn a_final_refusal_ends_the_attempts_until_the_user_does_something() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let node = Node::start(&state);
    node.join(coordinator.token());
    let mut session = coordinator.accept();
    session.hear_hello();
    session.say(&refusal(ProblemCode::Enrolment));
    node.expect(|event| matches!(event, Event::Refused(problem) if problem.code.is_final()).then_some(()));
    assert!(session.hear().is_none());

    node.join(coordinator.token());
    let mut session = coordinator.accept();
    let hello = session.hear_hello();
    session.say(&ToNode::Map(map(1, hello.node_key, 0)));
    node.map();
    node.stop();
}

#[test]
fn a_passing_refusal_is_told_and_tried_again() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let node = Node::start(&state);
    node.join(coordinator.token());
    let mut session = coordinator.accept();
    session.hear_hello();
    session.say(&refusal(ProblemCode::Unavailable));
    node.expect(|event| matches!(event, Event::Refused(problem) if !problem.code.is_final()).then_some(()));
    node.disconnected();
    // Release 0.1.0 reads `too-often` as it reads a code from the future: as one that is tried again.
    for code in ["too-often", "from-the-future"] {
        let mut session = coordinator.accept();
        session.hear_hello();
        session.say_json(format!(r#"{{"type":"refused","code":"{code}","message":"no","hint":"wait"}}"#).as_bytes());
        node.expect(|event| matches!(event, Event::Refused(problem) if !problem.code.is_final()).then_some(()));
        node.disconnected();
    }
    assert!(coordinator.accept().hear_hello().enrol.is_some(), "the secret is still to be shown");
    node.stop();
}

#[test]
fn fault_d14_who_hears_of_a_twin_says_so_and_waits_or_goes_on() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, _) = joined(&coordinator, &state, 1);
    let ToNode::Refused(problem) = refusal(ProblemCode::Twin) else { panic!() };
    // The one that is served goes on.
    for told in [Some(problem.clone()), None] {
        session.say(&ToNode::Twin { problem: told.clone() });
        let heard = node.expect(|event| if let Event::Twin(problem) = event { Some(problem) } else { None });
        assert_eq!(heard, told);
    }
    session.say(&delta(5, 6, &[9], &[]));
    assert_eq!(node.map().version, 6);
    // The one that is not waits for longer than anybody else, and is not final.
    session.say(&ToNode::Refused(problem));
    node.expect(|event| matches!(event, Event::Refused(problem) if !problem.code.is_final()).then_some(()));
    let pause =
        node.expect(|event| if let Event::Disconnected { retry_in, .. } = event { Some(retry_in) } else { None });
    assert!((30..=60).contains(&pause.as_secs()), "{pause:?}");
    assert!(session.hear().is_none());
    node.stop();
}

#[test]
fn a_member_joins_no_other_network_but_may_enrol_again_with_the_same_keys() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, key) = joined(&coordinator, &state, 1);
    let mut other = coordinator.token();
    other.network = [2; 16];
    node.join(other);
    let problem = node.expect(|event| if let Event::Refused(problem) = event { Some(problem) } else { None });
    assert!(problem.hint.contains("--state") && !problem.code.is_final(), "{problem}");
    session.say(&delta(5, 6, &[9], &[]));
    assert_eq!(node.map().version, 6, "the present channel goes on");

    node.join(coordinator.token());
    assert_eq!(public_key(&node.identity().node_key), key);
    let before = session.machine;
    let mut session = coordinator.accept();
    assert_eq!(session.machine, before);
    let hello = session.hear_hello();
    assert!(hello.enrol.is_some() && hello.node_key == key && hello.have == 6);

    // The one-off secret in a container's environment was used at its first start.
    session.say(&refusal(ProblemCode::Enrolment));
    let mut session = coordinator.accept();
    assert!(session.hear_hello().enrol.is_none());
    session.say(&delta(6, 6, &[], &[]));
    node.connected();
    node.stop();
}

#[test]
fn a_node_that_was_removed_may_join_another_network() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, _) = joined(&coordinator, &state, 1);
    session.say(&refusal(ProblemCode::NotAMember));
    node.expect(|event| matches!(event, Event::Refused(_)).then_some(()));
    let mut elsewhere = Coordinator::start();
    elsewhere.network = [2; 16];
    node.join(elsewhere.token());
    assert_eq!(node.identity().network, [2; 16]);
    assert_eq!(elsewhere.accept().hear_hello().have, 0, "the other network's map does not count");
    node.stop();
}

#[test]
fn each_url_in_turn() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let closed = Coordinator::start().url();
    let node = Node::start(&state);
    node.join(coordinator.token_with(vec![String::from("gopher://x"), closed.clone(), coordinator.url()]));
    assert!(node.disconnected().contains("gopher://x: not a coordinator's URL"));
    assert!(node.disconnected().contains(&closed));
    let mut session = coordinator.accept();
    let hello = session.hear_hello();
    session.say(&ToNode::Map(map(1, hello.node_key, 0)));
    assert_eq!(node.connected(), coordinator.url());
    node.stop();
}

#[test]
fn garbage_ends_the_channel_and_not_the_node() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, _) = joined(&coordinator, &state, 1);
    session.say_garbage();
    assert!(node.disconnected().contains("control message"));
    let mut session = coordinator.accept();
    session.hear_hello();
    session.say_json(b"{\"type\":\"map\",\"version\":{}}");
    assert!(node.disconnected().contains("makes no sense"));
    drop(coordinator.accept_socket());
    assert!(node.disconnected().contains("closed the connection"));
    coordinator.accept();
    node.stop();
}

#[test]
fn fault_c7_what_the_coordinator_said_once_is_not_heard_again() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let (node, mut session, key) = joined(&coordinator, &state, 2);
    // The removal of a peer, and a whole map from before it that would bring the peer back.
    let removal = session.seal(&delta(5, 6, &[], &[2]));
    session.say_sealed(&removal);
    assert_eq!(node.map().version, 6);
    session.say_sealed(&removal);
    assert!(node.disconnected().contains("belongs to another channel"));

    let mut session = coordinator.accept();
    assert_eq!(session.hear_hello().have, 6);
    let whole = session.seal(&ToNode::Map(map(7, key, 3)));
    session.say_sealed(&whole);
    assert_eq!(node.map().version, 7);
    session.say(&delta(7, 8, &[], &[2]));
    assert_eq!(node.map().version, 8);
    session.say_sealed(&whole);
    assert!(node.disconnected().contains("belongs to another channel"));

    // In its old place, the first after a handshake, but on another channel.
    let mut session = coordinator.accept();
    assert_eq!(session.hear_hello().have, 8);
    session.say_sealed(&whole);
    assert!(node.disconnected().contains("belongs to another channel"));
    let mut session = coordinator.accept();
    assert_eq!(session.hear_hello().have, 8, "it knows what it knew");
    session.say(&delta(8, 9, &[7], &[]));
    let after = node.map();
    assert_eq!((after.version, after.peers.contains_key(&NodeId(2))), (9, false));
    node.stop();
}

#[test]
fn somebody_elses_server_is_named_as_such() {
    use std::io::{Read, Write};
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let node = Node::start(&state);
    node.join(coordinator.token());
    let mut socket = coordinator.accept_socket();
    let _ = socket.read(&mut [0; 1024]).unwrap();
    socket.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").unwrap();
    assert!(node.disconnected().contains("HTTP status 404"));

    let mut stranger = coordinator.token();
    stranger.coordinator = PublicKey(*public_key(&taut_base::PrivateKey::from_bytes([77; 32])).as_bytes());
    node.join(stranger);
    node.identity();
    // This side cannot read the handshake to another key, and hangs up, as a coordinator does. An attempt with the right key that was
    // under way when the new token came breaks off by itself.
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
fn down_is_obeyed_while_an_attempt_hangs() {
    let (coordinator, state) = (Coordinator::start(), StateDir::new());
    let node = Node::start(&state);
    node.join(coordinator.token());
    // Accepted, and never answered.
    let mut socket = coordinator.accept_socket();
    node.send(Command::Down);
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut socket, &mut rest).unwrap();
    node.stop();
    let node = Node::start(&state);
    assert!(!node.identity().wanted);
    node.stop();
}

#[test]
fn large_maps_come_through() {
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
    session.say(&ToNode::Map(large.clone()));
    assert_eq!(node.map(), Arc::new(large.clone()));
    node.stop();
    let node = Node::start(&state);
    assert_eq!(node.map().version, 6, "and stand on disk");
    node.stop();
}

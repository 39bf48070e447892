//! Refusals of the control channel.

use std::thread;
use std::time::Duration;

use taut_base::PrivateKey;
use taut_netmap::{CONTROL_PATH, Hello, ProblemCode, SCHEMA, ToCoordinator, ToNode};
use taut_noise::ik::FIRST_MESSAGE;
use tungstenite::{Bytes, Message};

use super::world::{Directory, TestChannel, TestCoordinator, TestHost, read};
use crate::state::random;

#[test]
fn nothing_is_sent_without_a_handshake() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let network = coordinator.token().network;
    let hello = serde_json::to_vec(&TestHost::new().hello(None, 0)).unwrap();
    for first in [vec![], vec![0; FIRST_MESSAGE], random::<FIRST_MESSAGE>().to_vec(), hello, vec![0; 60_000]] {
        let mut socket = TestChannel::socket(coordinator.address, &network);
        socket.send(Message::binary(first)).unwrap();
        assert_eq!(read(&mut socket), None);
    }
    let mut socket = TestChannel::socket(coordinator.address, &network);
    socket.send(Message::text("hello")).unwrap();
    assert_eq!(read(&mut socket), None);
}

#[test]
fn a_member_that_violates_the_protocol_is_disconnected() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    type Nonsense = fn(&mut TestChannel, &TestHost);
    let nonsense: [Nonsense; 5] = [
        |channel, host| channel.send(&host.hello(None, 0)),
        |channel, _| drop(channel.socket.send(Message::binary(vec![0; 100]))),
        |channel, _| drop(channel.socket.send(Message::binary(vec![0; 70_000]))),
        |channel, _| {
            let sealed = channel.transport.seal(b"{\"no\":\"type\"}");
            drop(channel.socket.send(Message::binary(sealed)));
        },
        |channel, _| {
            let sealed = channel.transport.seal("[".repeat(50_000).as_bytes());
            drop(channel.socket.send(Message::binary(sealed)));
        },
    ];
    for send in nonsense {
        let mut node = coordinator.join("n");
        let host = node.host.clone();
        send(&mut node.channel, &host);
        while node.channel.receive().is_some() {}
        assert!(host.resume(&coordinator, &coordinator.token(), None).is_ok(), "it may come back");
    }
}

#[test]
fn fault_l5_unknown_messages_and_fields_are_ignored() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut node = coordinator.join("n");
    for message in [br#"{"type":"mood","colour":["blue"]}"#.as_slice(), br#"{"type":"ping","new":{"in":"version 2"}}"#]
    {
        let sealed = node.channel.transport.seal(message);
        node.channel.socket.send(Message::binary(sealed)).unwrap();
    }
    while node.channel.receive().unwrap() != ToNode::Pong {}
}

#[test]
fn a_newer_protocol_is_refused_by_name() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let token = coordinator.token();
    let mut channel = TestChannel::open(coordinator.address, &token, &PrivateKey::from_bytes(random())).unwrap();
    let hello = Hello {
        schema: SCHEMA + 1,
        node_key: TestHost::new().node,
        bind_key: None,
        enrol: None,
        have: 0,
        version: String::new(),
        request: None,
        run: 0,
    };
    channel.send(&ToCoordinator::Hello(hello));
    match channel.receive() {
        Some(ToNode::Refused(problem)) => assert_eq!(problem.code, ProblemCode::Version),
        other => panic!("{other:?}"),
    }
    assert!(channel.receive().is_none());
}

#[test]
fn a_refusal_is_not_overtaken_by_a_reset() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let host = TestHost::new();
    let mut channel = TestChannel::open(coordinator.address, &coordinator.token(), &host.machine).unwrap();
    channel.send(&host.hello(None, 0));
    // The refusal is here. A node that has not read it yet sends more, as it does after each hello; a closed socket would answer by a reset.
    channel.socket.get_ref().peek(&mut [0]).unwrap();
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(10));
        channel.send(&ToCoordinator::Ping);
    }
    assert!(matches!(channel.receive(), Some(ToNode::Refused(problem)) if problem.code == ProblemCode::NotAMember));
    assert!(channel.receive().is_none());
}

#[test]
fn requests_that_are_no_websocket_get_an_answer() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    for query in ["", "?network=", "?network=zz", "?network=00112233445566778899aabbccddeeff"] {
        let (status, body) = coordinator.ask_unchecked("GET", &format!("{CONTROL_PATH}{query}"), None, None);
        assert_eq!((status, &body["error"]["code"]), (400, &"bad-request".into()), "{query}");
    }
}

#[test]
fn a_newer_channel_takes_over() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut old = coordinator.join("n");
    let mut new = old.host.resume(&coordinator, &coordinator.token(), Some(old.map.clone())).unwrap();
    while old.channel.receive().is_some() {}
    new.channel.send(&ToCoordinator::Ping);
    while new.channel.receive().unwrap() != ToNode::Pong {}
    assert!(coordinator.wait(coordinator.state.nodes(None)).unwrap()[0].online);
}

#[test]
fn fault_e25_a_machine_that_reconnects_too_often_is_disconnected() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (host, bystander) = (coordinator.join("restless").host, coordinator.join("calm"));
    assert!((0..1_000).any(|_| !comes_back(&host, &coordinator)), "a thousand channels of one machine");
    assert!(comes_back(&bystander.host, &coordinator), "another machine has its own share");
}

#[test]
fn fault_e25_websocket_pings_are_answered_at_a_limited_rate() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (mut node, mut calm) = (coordinator.join("restless"), coordinator.join("calm"));
    let mut stranger = TestChannel::socket(coordinator.address, &coordinator.token().network);
    for socket in [&mut node.channel.socket, &mut stranger] {
        // Occasional pings are allowed, because a proxy may send them.
        for number in 0..1_000 {
            let sent = socket.send(Message::Ping(Bytes::from_static(b"x")));
            assert!(sent.is_ok() || number > 32);
        }
    }
    while node.channel.receive().is_some() {}
    assert!(read(&mut stranger).is_none());
    calm.channel.send(&ToCoordinator::Ping);
    while calm.channel.receive().unwrap() != ToNode::Pong {}
}

/// Returns true if a new channel of a member is answered.
fn comes_back(host: &TestHost, coordinator: &TestCoordinator) -> bool {
    let mut channel = TestChannel::open(coordinator.address, &coordinator.token(), &host.machine).expect("a handshake");
    let hello = channel.transport.seal(&serde_json::to_vec(&host.hello(None, 0)).unwrap());
    channel.socket.send(Message::binary(hello)).is_ok() && channel.receive().is_some()
}

//! Limits on connections and requests (faults E13, E19, F13): on unauthenticated ones per address, also behind a proxy, and on channels per network.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;
use taut_base::encode_base64url;
use taut_netmap::{Enrol, ProblemCode, ToCoordinator, ToNode};
use tungstenite::WebSocket;

use super::world::{Directory, TestChannel, TestCoordinator, TestHost};

/// Unauthenticated connections of one address: an eighth of the 1,024 places.
const SHARE: usize = 128;

/// Longest wait; only a failing test reaches it.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Opens a silent WebSocket for a client, as a trusted proxy does.
fn open(coordinator: &TestCoordinator, client: &str) -> WebSocket<TcpStream> {
    TestChannel::socket_by(coordinator.address, &coordinator.token().network, Some(client)).expect("an open WebSocket")
}

fn is_open(socket: &WebSocket<TcpStream>) -> bool {
    let stream = socket.get_ref();
    stream.set_nonblocking(true).unwrap();
    let seen = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    seen.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

fn wait_for(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < TEST_TIMEOUT, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn fault_e19_f13_a_clients_flood_through_a_proxy_displaces_itself() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let other = open(&coordinator, "203.0.113.7");
    let hidden = open(&coordinator, "unknown");
    let crowd: Vec<_> = (0..SHARE + 40).map(|_| open(&coordinator, "1.1.1.1, 192.0.2.1")).collect();
    let count = || crowd.iter().filter(|socket| is_open(socket)).count();
    wait_for("the flood to be within its share", || count() <= SHARE);
    assert_eq!(count(), SHARE);
    assert!(is_open(&other) && is_open(&hidden));
    assert!(!is_open(&crowd[0]) && is_open(&crowd[SHARE + 39]), "the oldest went");
}

#[test]
fn fault_f13_a_connection_without_a_hello_has_ten_seconds_in_all() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let socket = open(&coordinator, "192.0.2.1");
    let mut member = coordinator.join("member");
    wait_for("the end of a connection without a hello", || !is_open(&socket));
    member.channel.send(&ToCoordinator::Ping);
    while member.channel.receive().unwrap() != ToNode::Pong {}
}

#[test]
fn fault_e19_a_node_behind_a_proxy_is_seen_at_its_own_address() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let other = coordinator.join("other");
    let endpoints = |client: &str, name: &str| {
        let host = TestHost::new();
        let socket = open(&coordinator, client);
        let mut channel = TestChannel::begin(socket, &coordinator.token(), &host.machine).unwrap();
        let enrol = Enrol { secret: encode_base64url(&coordinator.token().secret), name: String::from(name) };
        channel.send(&host.hello(Some(enrol), 0));
        assert!(matches!(channel.receive(), Some(ToNode::Map(_))));
        channel.send(&ToCoordinator::Endpoints { endpoints: Vec::new(), ports: vec![8288], observed: Vec::new() });
        channel.send(&ToCoordinator::Ping);
        while channel.receive().unwrap() != ToNode::Pong {}
        let map = || other.fresh_map(&coordinator);
        let peer = |map: &taut_netmap::NetworkMap| map.peers.values().find(|peer| peer.name == name).unwrap().clone();
        if client != "unknown" {
            wait_for("the endpoint to be told", || !peer(&map()).endpoints.is_empty());
        }
        peer(&map()).endpoints
    };
    assert_eq!(endpoints("10.9.9.9, 203.0.113.7", "one"), ["203.0.113.7:8288".parse().unwrap()]);
    assert_eq!(endpoints("unknown", "two"), [], "a proxy is no place to reach a node at");
}

#[test]
fn fault_e13_guesses_at_a_token_are_slowed_and_the_operator_is_not() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut stream = TcpStream::connect(coordinator.address).unwrap();
    let guess = coordinator.operator_token().chars().rev().collect::<String>().replace("-potuat", "");
    let guess = format!("tautop-{guess}");
    let began = Instant::now();
    for _ in 0..320 {
        assert_eq!(ask(&mut stream, "192.0.2.1", &guess), 401);
    }
    // 200 at once, then a second's pause for each 20.
    assert!(began.elapsed() >= Duration::from_secs(4), "320 guesses in {:?}", began.elapsed());
    assert_eq!(ask(&mut stream, "192.0.2.1", coordinator.operator_token()), 200, "from the same address");
}

/// Requests the nodes on an open connection, as the proxy of a client. Returns the status of the answer.
fn ask(stream: &mut TcpStream, client: &str, token: &str) -> u16 {
    let head = format!("GET /api/v1/nodes HTTP/1.1\r\nhost: x\r\nx-forwarded-for: {client}\r\n");
    stream.write_all(format!("{head}authorization: Bearer {token}\r\n\r\n").as_bytes()).unwrap();
    let (mut answer, mut byte) = (Vec::new(), [0]);
    while !answer.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        answer.extend(byte);
    }
    let answer = String::from_utf8(answer).unwrap().to_lowercase();
    let length = answer.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    stream.read_exact(&mut vec![0; length.trim().parse().unwrap()]).unwrap();
    answer[9..12].parse().unwrap()
}

#[test]
fn fault_f13_networks_share_the_places_of_channels() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start_with_channels(&directory, 4);
    let operator = Some(coordinator.operator_token());
    let (status, _) = coordinator.ask("POST", "/api/v1/networks", operator, Some(r#"{"name":"second"}"#));
    assert_eq!(status, 201);
    let mut first: Vec<_> = ["a", "b", "c", "d"].map(|name| coordinator.join(name)).into();
    let refused =
        TestHost::new().join(&coordinator, &coordinator.token(), "e").err().expect("its own network has all places");
    assert!(refused.code == ProblemCode::Unavailable && !refused.code.is_final());

    // A node that reconnects replaces its own channel.
    let back = first[3].host.resume(&coordinator, &coordinator.token(), None).unwrap();
    first[3] = back;

    let (_, answer) =
        coordinator.ask("POST", "/api/v1/keys", operator, Some(&json!({ "network": "second" }).to_string()));
    let token = answer["join_token"].as_str().unwrap().parse().unwrap();
    let mut other = ["f", "g"].map(|name| TestHost::new().join(&coordinator, &token, name).unwrap());
    while first[0].channel.receive().is_some() {}
    while first[1].channel.receive().is_some() {}
    for node in first.iter_mut().skip(2).chain(&mut other) {
        node.channel.send(&ToCoordinator::Ping);
        while node.channel.receive().unwrap() != ToNode::Pong {}
    }
    assert!(TestHost::new().join(&coordinator, &token, "h").is_err(), "two and two");
}

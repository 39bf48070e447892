//! A bridge between a socket in the role of the lane and a listener in the role of the relay.

use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tungstenite::{Message, WebSocket, accept};

use super::*;

/// Limit on every wait, 30 s: longer than any machine needs, so a test that hangs fails.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

struct World {
    lane: UdpSocket,
    relay: TcpListener,
    bridge: Bridge,
}

fn world() -> World {
    let (lane, relay) = (UdpSocket::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    lane.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let url = format!("ws://{}/relay/v1", relay.local_addr().unwrap());
    let options = BridgeOptions { url, lane: lane.local_addr().unwrap().port(), overlay: Vec::new() };
    let bridge = Bridge::start_with(&options, Waker::new().unwrap(), true).unwrap();
    World { lane, relay, bridge }
}

impl World {
    fn accept(&self) -> WebSocket<TcpStream> {
        let (tcp, _) = self.relay.accept().unwrap();
        tcp.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        let socket = accept(tcp).unwrap();
        until("the bridge to be open", || self.bridge.report().is_open);
        socket
    }

    fn send(&self, bytes: &[u8]) {
        self.lane.send_to(bytes, self.bridge.local_address()).unwrap();
    }

    fn receive(&self) -> Vec<u8> {
        let mut bytes = vec![0; 70_000];
        let (length, from) = self.lane.recv_from(&mut bytes).unwrap();
        assert_eq!(from, self.bridge.local_address());
        bytes.truncate(length);
        bytes
    }
}

fn until(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + TEST_TIMEOUT;
    while !done() {
        assert!(Instant::now() < end, "timed out waiting for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn each_datagram_is_a_message_and_each_message_a_datagram() {
    let world = world();
    let mut relay = world.accept();
    for length in [0, 1, 148, 1_500, 9_000, 60_000] {
        let bytes: Vec<u8> = (0..length).map(|index: u32| index.to_le_bytes()[0]).collect();
        world.send(&bytes);
        assert_eq!(relay.read().unwrap(), Message::binary(bytes.clone()), "{length}");
        relay.send(Message::binary(bytes.clone())).unwrap();
        assert_eq!(world.receive(), bytes, "{length}");
    }
    let report = world.bridge.report();
    assert_eq!((report.opened, report.dropped_out, report.dropped_in), (1, 0, 0));
}

#[test]
fn datagrams_of_other_sockets_are_ignored() {
    let world = world();
    let mut relay = world.accept();
    let outsider = UdpSocket::bind("127.0.0.1:0").unwrap();
    outsider.send_to(b"outsider", world.bridge.local_address()).unwrap();
    world.send(b"lane");
    assert_eq!(relay.read().unwrap(), Message::binary(&b"lane"[..]));
}

#[test]
fn fault_f5_a_stalled_stream_drops_and_counts_new_datagrams_and_blocks_no_lane() {
    let world = world();
    let mut relay = world.accept();
    // This is far more than the kernel buffers for both ends of a connection. The sender keeps pace with the bridge's reads from the lane's socket.
    until("something to be dropped", || {
        (0..64).for_each(|_| world.send(&[7; 60_000]));
        world.bridge.report().dropped_out > 100
    });
    assert!(world.bridge.report().is_open);
    // The bridge sends again as soon as the relay reads, and the other direction never stopped.
    relay.send(Message::binary(&b"back"[..])).unwrap();
    assert_eq!(world.receive(), b"back");
    let reader = thread::spawn(move || while relay.read().unwrap() != Message::binary(&b"last"[..]) {});
    until("the last datagram to arrive", || {
        world.send(b"last");
        reader.is_finished()
    });
    reader.join().unwrap();
}

#[test]
fn fault_n4_a_lost_connection_is_reopened_and_a_useless_one_is_replaced() {
    let world = world();
    drop(world.accept());
    let mut second = world.accept();
    until("the second connection to be counted", || world.bridge.report().opened == 2);
    world.bridge.reconnect();
    // The bridge closes the second connection, even if data is still buffered in it.
    while second.read().is_ok() {}
    let mut third = world.accept();
    until("the third connection to be counted", || world.bridge.report().opened == 3);
    // The host's address is the same as before, so the bridge keeps its connection.
    world.bridge.host_changed();
    world.send(b"still here");
    assert_eq!(third.read().unwrap(), Message::binary(&b"still here"[..]));
}

#[test]
fn fault_f18_an_endless_message_breaks_the_connection_and_later_datagrams_pass() {
    let world = world();
    let mut relay = world.accept().into_inner();
    relay.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
    let began = Instant::now();
    let flood = thread::spawn(move || {
        let mut was_closed = relay.write_all(&[2, 0]).is_err();
        while !was_closed && began.elapsed() < 2 * TEST_TIMEOUT {
            was_closed = relay.write_all(&[0; 100_000]).is_err();
        }
        was_closed
    });
    let mut again = world.accept();
    until("the second connection to be counted", || world.bridge.report().opened == 2);
    world.send(b"still here");
    assert_eq!(again.read().unwrap(), Message::binary(&b"still here"[..]));
    assert!(flood.join().unwrap(), "the bridge closes it");
}

#[test]
fn dropping_the_bridge_closes_the_connection_and_its_port() {
    let World { bridge, relay, lane: _lane } = world();
    let (tcp, _) = relay.accept().unwrap();
    tcp.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let mut socket = accept(tcp).unwrap();
    let address = bridge.local_address();
    drop(bridge);
    let ended = loop {
        match socket.read() {
            Ok(_) => {}
            Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => break false,
            Err(_) => break true,
        }
    };
    assert!(ended, "the connection outlives the bridge");
    until("the port to be free", || UdpSocket::bind(address).is_ok());
}

#[test]
fn fault_j4_no_connection_is_made_to_an_address_that_no_relay_may_have() {
    let relay = TcpListener::bind("127.0.0.1:0").unwrap();
    relay.set_nonblocking(true).unwrap();
    let url = format!("ws://localhost:{}/", relay.local_addr().unwrap().port());
    let options = BridgeOptions { url, lane: 9, overlay: Vec::new() };
    let bridge = Bridge::start(&options, Waker::new().unwrap()).unwrap();
    until("the reported problem", || bridge.report().problem.is_some());
    assert!(bridge.report().problem.unwrap().contains("nothing may be sent there"));
    assert_eq!(relay.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "no connection was made");
}

#[test]
fn an_invalid_url_and_a_server_that_is_no_relay_are_reported() {
    for url in ["http://a/", "ws://", "wss://a b/", "a"] {
        assert!(parse_relay_url(url).is_err(), "{url}");
    }
    let relay = parse_relay_url("wss://[2001:db8::1]/vpn/relay/v1").unwrap();
    assert_eq!(
        (relay.secure, relay.authority().as_str(), relay.path.as_str()),
        (true, "[2001:db8::1]:443", "/vpn/relay/v1")
    );
    let world = world();
    let (mut tcp, _) = world.relay.accept().unwrap();
    tcp.write_all(b"HTTP/1.1 404 Not LoadedState\r\ncontent-length: 0\r\n\r\n").unwrap();
    until("the reported problem", || world.bridge.report().problem.is_some_and(|why| why.contains("HTTP status 404")));
}

//! A channel to a coordinator's end by another library's WebSocket, over TCP.

use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use taut_noise::ik::Responder;
use tungstenite::{Message as Theirs, WebSocket as Server, accept};

use super::*;
use crate::dial::{Cancel, connect};

/// Limit on every wait, 30 s: longer than any machine needs, so a test that hangs fails.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);
const COORDINATOR: [u8; 32] = [7; 32];

/// Takes one connection and does the coordinator's half of the handshakes.
fn coordinator(listener: TcpListener) -> JoinHandle<(Server<TcpStream>, Transport)> {
    thread::spawn(move || {
        let (tcp, _) = listener.accept().unwrap();
        tcp.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        let mut socket = accept(tcp).unwrap();
        let Theirs::Binary(first) = socket.read().unwrap() else { panic!("the first message") };
        let reply = Responder::read(b"test", &PrivateKey::from_bytes(COORDINATOR), &first).unwrap();
        let (transport, second) = reply.reply(&PrivateKey::from_bytes([9; 32])).unwrap();
        socket.send(Theirs::binary(second.to_vec())).unwrap();
        (socket, transport)
    })
}

fn pair() -> (SealedChannel, Server<TcpStream>, Transport) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = coordinator(listener);
    let url: Url = format!("http://{address}").parse().unwrap();
    let target = ChannelTarget {
        path: String::from("/control/v1"),
        prologue: b"test".to_vec(),
        key: PrivateKey::from_bytes([8; 32]),
        coordinator: taut_noise::public_key(&PrivateKey::from_bytes(COORDINATOR)),
        max_message: taut_noise::MAX_MESSAGE,
        wrong_server: "wrong",
        key_path: "/key",
        key_source: "the test",
    };
    let stream = connect(address, &url, &Cancel::default()).unwrap();
    assert!(stream.has_deadline(), "the handshakes have a time limit together");
    let channel = SealedChannel::open(stream, &url, &target).unwrap();
    let (socket, transport) = server.join().unwrap();
    (channel, socket, transport)
}

#[test]
fn messages_pass_and_the_time_limit_of_the_handshakes_is_over() {
    let (mut channel, mut server, mut theirs) = pair();
    channel.send(&"question").unwrap();
    let Theirs::Binary(sealed) = server.read().unwrap() else { panic!("a message") };
    assert_eq!(theirs.open(sealed.to_vec()).unwrap(), b"\"question\"");
    assert!(!channel.socket.stream().has_deadline());
}

#[test]
fn a_coordinator_that_reads_nothing_ends_the_channel_at_32_mib() {
    let (mut channel, _server, _theirs) = pair();
    let (message, mut sent) = ("x".repeat(1024 * 1024), 0);
    let broken = loop {
        match channel.send(&message) {
            Ok(()) => sent += message.len(),
            Err(broken) => break broken,
        }
        assert!(sent < 2 * MOST_WAITING, "{sent} bytes wait for a coordinator, and the channel goes on");
    };
    assert!(broken.0.contains("32 MiB wait"), "{broken:?}");
    // The buffers of the kernel took some more.
    assert!(sent >= MOST_WAITING - message.len(), "{sent}");
}

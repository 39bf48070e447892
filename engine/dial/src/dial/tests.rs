//! Servers that take the first message of a handshake, and then go away.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use taut_base::PrivateKey;
use tungstenite::accept;

use super::*;

/// Limit on every wait, 30 s: longer than any machine needs, so a test that hangs fails.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

fn public(byte: u8) -> PublicKey {
    taut_noise::public_key(&PrivateKey::from_bytes([byte; 32]))
}

fn target() -> ChannelTarget {
    ChannelTarget {
        path: String::from("/control/v1"),
        prologue: b"test".to_vec(),
        key: PrivateKey::from_bytes([8; 32]),
        coordinator: public(7),
        max_message: taut_noise::MAX_MESSAGE,
        wrong_server: "wrong",
        key_path: "/key",
        key_source: "the test",
    }
}

fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

/// Takes a connection up to the first message of the channel's handshake.
fn first_message(listener: &TcpListener) -> tungstenite::WebSocket<TcpStream> {
    let (tcp, _) = listener.accept().unwrap();
    tcp.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let mut socket = accept(tcp).unwrap();
    assert!(socket.read().unwrap().is_binary());
    socket
}

/// Returns the error of an attempt at a server that drops the channel, and gives this answer to the question for its key; `None` refuses that connection.
fn dropped(answer: Option<String>) -> String {
    let (listener, url) = listen();
    let server = thread::spawn(move || {
        let channel = first_message(&listener);
        let Some(answer) = answer else {
            // Before the channel ends, so that the next connection finds nobody.
            drop(listener);
            return drop(channel);
        };
        drop(channel);
        let (mut second, _) = listener.accept().unwrap();
        let _ = second.read(&mut [0; 4096]);
        second.write_all(answer.as_bytes()).unwrap();
    });
    let broken = attempt(&url, &[], &target(), &Cancel::default()).err().unwrap();
    server.join().unwrap();
    broken.0
}

#[test]
fn a_lost_connection_is_not_told_as_a_wrong_key() {
    let shown = |key: PublicKey| format!("HTTP/1.1 200 OK\r\n\r\n{{\"key\":\"{key}\"}}");
    let lost = "the coordinator closed the connection";
    assert_eq!(dropped(None), lost, "nobody listens any more");
    for answer in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 503 x\r\n\r\n", "HTTP/1.1 429 x\r\n\r\n", &shown(public(7))] {
        assert_eq!(dropped(Some(String::from(answer))), lost, "{answer}");
    }
    let long = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(20_000));
    for answer in ["HTTP/1.1 404 x\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n{\"a\":1}", &long] {
        assert_eq!(dropped(Some(String::from(answer))), "wrong", "{answer:.80}");
    }
    let other = dropped(Some(shown(public(6))));
    assert!(other.contains(&format!("it shows {}, and expected is {}", public(6), public(7))), "{other}");
}

#[test]
fn a_cancelled_attempt_opens_no_second_connection() {
    let (listener, url) = listen();
    let cancel = Arc::new(Cancel::default());
    let shared = Arc::clone(&cancel);
    let client = thread::spawn(move || attempt(&url, &[], &target(), &shared).err().unwrap());
    let channel = first_message(&listener);
    cancel.cancel();
    assert_eq!(client.join().unwrap().0, "cancelled");
    drop(channel);
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[cfg(feature = "tls")]
#[test]
fn a_channel_to_a_server_without_tls_says_that_http_will_do() {
    let (listener, url) = listen();
    let server = thread::spawn(move || {
        let (mut tcp, _) = listener.accept().unwrap();
        let _ = tcp.read(&mut [0; 4096]);
        tcp.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let broken = attempt(&url.replace("http://", "https://"), &[], &target(), &Cancel::default()).err().unwrap();
    server.join().unwrap();
    assert!(broken.0.contains("does not speak TLS at this port: write http://"), "{broken}");
}

#[cfg(not(feature = "tls"))]
#[test]
fn a_build_without_tls_refuses_https_before_it_connects() {
    let (listener, url) = listen();
    listener.set_nonblocking(true).unwrap();
    let url = url.replace("http://", "https://");
    let broken = attempt(&url, &[], &target(), &Cancel::default()).err().unwrap();
    assert_eq!(broken.0, WITHOUT_TLS.join(": "));
    let address = listener.local_addr().unwrap();
    assert!(connect(address, &url.parse().unwrap(), &Cancel::default()).is_err());
    assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert!(!crate::scheme::SPEAKS_TLS.contains("https://"));
}

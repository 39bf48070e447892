//! URLs of http at servers of TLS, and of https at servers without it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::thread;

use taut_dial::fetch;

use crate::server::{Server, Trust};

/// Starts a server that answers the first bytes of a client with these, and returns its URL with this scheme.
fn answering(scheme: &str, answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("{scheme}://localhost:{}", listener.local_addr().unwrap().port());
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let _ = socket.read(&mut [0; 4096]);
        let _ = socket.write_all(answer);
    });
    url
}

fn refused(url: &str, file: &Path) -> String {
    fetch(&url.parse().unwrap(), "/key", &[file]).unwrap_err().0
}

#[test]
fn an_https_url_at_a_server_without_tls_says_so() {
    let authority = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/https/authority.pem"));
    for answer in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"SSH-2.0-OpenSSH_9.9\r\n"] {
        let why = refused(&answering("https", answer), authority);
        // Only the certificate vouches for this server, so no answer may lead the user away from it.
        assert!(why.starts_with("the server does not speak TLS at this port: check the port"), "{why}");
        assert!(!why.contains("http://"), "{why}");
    }
}

#[test]
fn an_answer_of_tls_that_is_wrong_is_not_taken_for_plain_text() {
    let authority = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/https/authority.pem"));
    // A record of a handshake message that is longer than any.
    let why = refused(&answering("https", &[22, 3, 3, 0, 4, 2, 255, 255, 255]), authority);
    assert!(!why.contains("does not speak TLS"), "{why}");
}

#[test]
fn an_http_url_at_a_server_of_tls_says_so() {
    let (url, file) = Server::default().serve(Trust::Its);
    let why = refused(&url.replace("https://", "http://"), &file);
    std::fs::remove_file(&file).unwrap();
    assert!(why.starts_with("the server speaks TLS at this port: write https://"), "{why}");
    let proxy = b"HTTP/1.1 400 Bad Request\r\n\r\nThe plain HTTP request was sent to HTTPS port";
    let why = refused(&answering("http", proxy), &file);
    assert!(why.starts_with("the server speaks TLS at this port"), "{why}");
}

//! Servers that send a byte now and then: every byte would begin a socket's timeout anew.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use taut_dial::download;

/// Starts a server that sends these bytes at once and then one more every 50 ms, until the client goes away.
fn drip(scheme: &str, first: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("{scheme}://localhost:{}", listener.local_addr().unwrap().port());
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let _ = socket.read(&mut [0; 4096]);
        let mut sent = socket.write_all(first);
        while sent.is_ok() {
            thread::sleep(Duration::from_millis(50));
            sent = socket.write_all(&[0]);
        }
    });
    url
}

#[test]
fn a_file_and_a_handshake_that_drip_end_with_the_limit() {
    // A record of a handshake with 16,000 bytes that never ends.
    let handshake: &[u8] = &[0x16, 3, 3, 0x3e, 0x80, 2, 0, 0x3e, 0x7c, 3, 3];
    for url in [drip("http", b"HTTP/1.0 200 OK\r\n\r\n"), drip("https", handshake)] {
        // No authority of this list is asked: the handshake never comes that far.
        let authorities = [std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/https/authority.pem"))];
        let limit = Duration::from_secs(1);
        let mut file = Vec::new();
        let slow = download(&url.parse().unwrap(), "/file", &authorities, 1 << 20, limit, &mut file).unwrap_err().0;
        assert_eq!(slow, "the file did not arrive within 1 s", "{url}");
    }
}

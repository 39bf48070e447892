use std::io::{self, Read, Write};

use super::*;

/// A server whose answer is known before the request; `{accept}` in it becomes the answer to the key. It returns `piece` bytes per read.
struct Canned {
    answer: String,
    request: Vec<u8>,
    at: usize,
    piece: usize,
}

impl Read for Canned {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == 0 {
            let request = String::from_utf8(self.request.clone()).unwrap();
            let key = request.split("Sec-WebSocket-Key: ").nth(1).unwrap().split("\r\n").next().unwrap();
            self.answer = self.answer.replace("{accept}", &tungstenite::handshake::derive_accept_key(key.as_bytes()));
        }
        let rest = &self.answer.as_bytes()[self.at..];
        let length = rest.len().min(self.piece).min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        self.at += length;
        Ok(length)
    }
}

impl Write for Canned {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.request.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn answered(answer: &str, piece: usize) -> (Result<Vec<u8>, WebSocketError>, usize) {
    answered_on(false, answer, piece)
}

fn answered_on(secure: bool, answer: &str, piece: usize) -> (Result<Vec<u8>, WebSocketError>, usize) {
    let mut server = Canned { answer: answer.into(), request: Vec::new(), at: 0, piece };
    let opened = open(&mut server, "[::1]:8288", "/control/v1?network=7", secure);
    assert!(server.request.starts_with(b"GET /control/v1?network=7 HTTP/1.1\r\nHost: [::1]:8288\r\n"));
    assert!(server.request.ends_with(b"\r\n\r\n"));
    (opened, server.at)
}

const GOOD: &str = "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nconnection: keep-alive, Upgrade\r\nSEC-WebSocket-Accept:{accept}\r\n\r\n";

#[test]
fn an_answer_is_accepted_in_any_pieces_and_the_bytes_behind_it_are_kept() {
    for answer in [String::from(GOOD), GOOD.replace("\r\n", "\n")] {
        for piece in [1, 2, 3, 7, 4_096] {
            let (opened, read) = answered(&format!("{answer}\x02\x01\n\n"), piece);
            // At most one piece is read behind the head.
            let rest = opened.unwrap();
            assert!(rest.len() < piece.max(1) && b"\x02\x01\n\n".starts_with(&rest), "{piece}: {rest:?}");
            assert!(piece < 4_096 || read == answer.len() + 28 - "{accept}".len() + 4, "{piece}: {read}");
        }
    }
}

#[test]
fn the_key_of_the_rfc_is_accepted_as_there() {
    assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_ne!(key().unwrap(), key().unwrap());
    assert_eq!(key().unwrap().len(), 24);
}

#[test]
fn other_answers_are_refused_with_the_reason() {
    for (answer, expected) in [
        (GOOD.replace("{accept}", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "to another request"),
        (GOOD.replace("SEC-WebSocket-Accept:{accept}\r\n", ""), "to another request"),
        (GOOD.replace("\r\n\r\n", "\r\nSec-WebSocket-Accept: x\r\n\r\n"), "to another request"),
        (GOOD.replace("upgrade: WebSocket", "upgrade: h2c"), "does not change to WebSocket"),
        (GOOD.replace("Upgrade\r\n", "close\r\n"), "does not change to WebSocket"),
        (GOOD.replace("\r\n\r\n", "\r\nsec-websocket-extensions: permessage-deflate\r\n\r\n"), "not asked for"),
        (GOOD.replace("\r\n\r\n", "\r\nSec-WebSocket-Protocol: chat\r\n\r\n"), "not asked for"),
        (String::from("SSH-2.0-OpenSSH_9.6\r\n"), "not HTTP"),
        (String::from("HTTP/1.1\r\n\r\n"), "not HTTP"),
        (String::from("HTTP/1.1 1O1 x\r\n\r\n"), "not HTTP"),
        (String::from("HTTP/1.1 0101 x\r\n\r\n"), "not HTTP"),
    ] {
        let (refused, _) = answered(&answer, 1_000);
        assert!(
            matches!(refused, Err(WebSocketError::Opening(why)) if why.contains(expected)),
            "{answer}: {refused:?}"
        );
    }
    for answer in ["\u{15}\u{3}\u{3}", "HTTP/1.1 400 x\r\n\r\nspeaks https\n"] {
        for piece in [5, 1_000] {
            let (refused, _) = answered(answer, piece.max(answer.find("\r\n\r\n").map_or(0, |end| end + 4)));
            assert!(matches!(refused, Err(WebSocketError::SpeaksTls)), "{answer}: {refused:?}");
        }
    }
    // A proxy that ends TLS passes on what the server behind it says to plain HTTP.
    let (refused, _) = answered_on(true, "HTTP/1.1 400 x\r\n\r\nspeaks https\n", 1_000);
    assert!(matches!(refused, Err(WebSocketError::Status(400))), "{refused:?}");
    let (refused, _) = answered_on(true, "\u{15}\u{3}\u{3}", 1_000);
    assert!(matches!(refused, Err(WebSocketError::Opening("its answer is not HTTP"))), "{refused:?}");
    for status in [200, 302, 400, 403, 404, 503] {
        let (refused, _) = answered(&format!("HTTP/1.0 {status} x\r\nLocation: http://a/\r\n\r\n"), 5);
        assert!(matches!(refused, Err(WebSocketError::Status(found)) if found == status), "{refused:?}");
    }
}

#[test]
fn an_answer_without_end_is_cut_off_and_one_that_ends_early_is_named() {
    let endless = format!("HTTP/1.1 101 x\r\nX: {}", "y".repeat(10 * LONGEST_HEAD));
    for piece in [100, 1_024] {
        let (refused, read) = answered(&endless, piece);
        assert!(matches!(refused, Err(WebSocketError::Opening(why)) if why.contains("no end")), "{refused:?}");
        assert!(read <= LONGEST_HEAD + READ);
    }
    // An answer that is not HTTP is refused at its first wrong byte.
    assert_eq!(answered(&"x".repeat(100_000), 1).1, 1);
    for cut in [0, 5, GOOD.len() - 2] {
        assert!(matches!(answered(&GOOD[..cut], 3).0, Err(WebSocketError::NoAnswer)), "{cut}");
    }
}

#[test]
fn nothing_is_read_behind_a_refusal_without_a_body() {
    let head = "HTTP/1.1 400 x\r\nContent-Length: 0\r\n\r\n";
    let (refused, read) = answered(&format!("{head}speaks https"), head.len());
    assert!(matches!(refused, Err(WebSocketError::Status(400))), "{refused:?}");
    assert_eq!(read, head.len());
}

#[test]
fn a_path_is_never_empty() {
    assert!(request("a:1", "", "k").starts_with("GET / HTTP/1.1\r\nHost: a:1\r\n"));
}

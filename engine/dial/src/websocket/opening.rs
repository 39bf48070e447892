//! The opening of a WebSocket (RFC 6455, section 4.1): a request by HTTP, and the head of its answer.

use std::io::{ErrorKind, Read, Write};

use ring::rand::{SecureRandom, SystemRandom};
use taut_base::encode_base64;

use super::WebSocketError;
use super::sha1::sha1;
use crate::scheme::speaks_tls;

/// The text that a server appends to the key before it hashes it (RFC 6455, section 1.3). Only a server that knows WebSocket gives the right answer.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Longest head of an answer, 64 KiB: proxies add some KiB of cookies and policies at most.
const LONGEST_HEAD: usize = 64 * 1024;
/// Bytes read at once, 1 KiB: most heads have fewer.
const READ: usize = 1024;

/// Does the opening. Returns the bytes that were read behind the head of the answer. The stream limits the time. On a stream that is `secure`, no answer says that TLS is
/// missing: a proxy that ends TLS may pass such an answer of the server behind it on, and the URL is of https already.
pub(super) fn open(
    stream: &mut (impl Read + Write),
    authority: &str,
    path: &str,
    secure: bool,
) -> Result<Vec<u8>, WebSocketError> {
    let key = key()?;
    stream.write_all(request(authority, path, &key).as_bytes())?;
    stream.flush()?;
    let (mut answer, mut piece) = (Vec::new(), [0; READ]);
    loop {
        let before = answer.len();
        match stream.read(&mut piece) {
            Ok(0) => return Err(WebSocketError::NoAnswer),
            Ok(length) => answer.extend_from_slice(piece.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        }
        if let Some(end) = head_end(&answer, before) {
            let head = String::from_utf8_lossy(answer.get(..end).unwrap_or_default()).into_owned();
            let checked = check(&head, &key);
            if !secure && matches!(checked, Err(WebSocketError::Status(400))) {
                // The text behind the head may come separately; it only explains the refusal.
                let is_whole = answer.len() > end || is_without_body(&head);
                let length = if is_whole { 0 } else { stream.read(&mut piece).unwrap_or_default() };
                answer.extend_from_slice(piece.get(..length).unwrap_or_default());
                return Err(if speaks_tls(&answer) { WebSocketError::SpeaksTls } else { WebSocketError::Status(400) });
            }
            checked?;
            return Ok(answer.split_off(end));
        }
        if !secure && !is_http(&answer) && speaks_tls(&answer) {
            return Err(WebSocketError::SpeaksTls);
        }
        if !is_http(&answer) {
            return Err(WebSocketError::Opening("its answer is not HTTP"));
        }
        if answer.len() > LONGEST_HEAD {
            return Err(WebSocketError::Opening("the head of its answer has no end"));
        }
    }
}

/// Returns a new key: 16 random bytes in base64. It is no secret; it keeps caches from answering.
fn key() -> Result<String, WebSocketError> {
    let mut bytes = [0; 16];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| WebSocketError::Io(std::io::Error::other("the system gave no random bytes")))?;
    Ok(encode_base64(&bytes))
}

fn request(authority: &str, path: &str, key: &str) -> String {
    let path = if path.is_empty() { "/" } else { path };
    format!(
        "GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
    )
}

/// Returns the answer to a key that a WebSocket server gives.
fn accept(key: &str) -> String {
    encode_base64(&sha1(format!("{key}{GUID}").as_bytes()))
}

/// Returns the position behind the empty line that ends the head. The first `searched` bytes were searched before. Lines may end without a carriage return
/// (RFC 9112, section 2.2).
fn head_end(answer: &[u8], searched: usize) -> Option<usize> {
    // The last two bytes may be the beginning of the end.
    (searched.saturating_sub(2)..answer.len()).find_map(|at| match answer.get(at..)? {
        [b'\n', b'\n', ..] => Some(at + 2),
        [b'\n', b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}

/// Returns true if the bytes are the beginning of an answer by HTTP/1.
fn is_http(answer: &[u8]) -> bool {
    answer.iter().zip(b"HTTP/1.").all(|(found, expected)| found == expected)
}

/// Returns true if the head says that nothing follows it. A server that keeps the connection open then would be waited for in vain.
fn is_without_body(head: &str) -> bool {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    fields.any(|(name, value)| name.eq_ignore_ascii_case("Content-Length") && value.trim() == "0")
}

/// Checks the head of an answer.
fn check(head: &str, key: &str) -> Result<(), WebSocketError> {
    let mut lines = head.lines();
    let first = lines.next().filter(|line| is_http(line.as_bytes())).unwrap_or_default();
    let status = first.split(' ').nth(1).filter(|status| status.len() == 3).and_then(|status| status.parse().ok());
    match status {
        Some(101) => {}
        Some(status) => return Err(WebSocketError::Status(status)),
        None => return Err(WebSocketError::Opening("its answer is not HTTP")),
    }
    let fields: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
    let values = |name: &'static str| {
        let named = fields.iter().filter(move |(found, _)| found.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.trim())
    };
    let has_token = |name, token: &str| {
        values(name).flat_map(|list| list.split(',')).any(|found| found.trim().eq_ignore_ascii_case(token))
    };
    let problem = if !has_token("Upgrade", "websocket") || !has_token("Connection", "upgrade") {
        "its answer does not change to WebSocket; a proxy in between may not pass it on"
    } else if !values("Sec-WebSocket-Accept").eq([accept(key).as_str()]) {
        "its answer is to another request; a proxy in between may have stored it"
    } else if values("Sec-WebSocket-Extensions").chain(values("Sec-WebSocket-Protocol")).next().is_some() {
        "it chose an extension or a protocol that was not asked for"
    } else {
        return Ok(());
    };
    Err(WebSocketError::Opening(problem))
}

#[cfg(test)]
mod tests;

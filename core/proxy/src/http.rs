//! An HTTP proxy's requests: `CONNECT host:port`, and methods with an absolute `http://` URL, which are passed on with the path alone.
//!
//! A connection serves one request: the server is asked to close it afterwards (`Connection: close`), so that a second request, which may be for another host, comes on a connection of
//! its own.

use crate::{Parsed, Refusal, Target};

/// Longest head of a request, 16 KiB: what servers commonly accept. Headers with large cookies fit.
pub const MAX_HEAD: usize = 16 * 1024;

/// The reply to a `CONNECT` whose connection stands. What follows are the bytes of the server.
pub const CONNECTED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// Headers that concern the client and the proxy alone (RFC 9110, section 7.6.1), in lower case.
const OWN_HEADERS: [&str; 4] = ["proxy-connection", "proxy-authorization", "connection", "keep-alive"];

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where it goes.
    pub target: Target,
    /// The head to send to the server first; `None` for `CONNECT`, where the client's bytes follow.
    pub head: Option<Vec<u8>>,
}

/// Reads the head of a request.
pub fn request(bytes: &[u8]) -> Parsed<Request, Refusal> {
    let Some(end) = end_of_head(bytes) else {
        return if bytes.len() < MAX_HEAD && could_be(bytes) {
            Parsed::More
        } else {
            Parsed::Wrong(Refusal::Malformed)
        };
    };
    if end > MAX_HEAD {
        return Parsed::Wrong(Refusal::Malformed);
    }
    match std::str::from_utf8(&bytes[..end]).map_err(|_| Refusal::Malformed).and_then(read) {
        Ok(request) => Parsed::Done(request, end),
        Err(refusal) => Parsed::Wrong(refusal),
    }
}

/// Returns true if the bytes begin as a method does: a client of another protocol gets its answer before 16 KiB came.
fn could_be(bytes: &[u8]) -> bool {
    bytes.iter().take(16).take_while(|byte| **byte != b' ').all(u8::is_ascii_uppercase)
}

/// Returns the place behind the empty line at the end of a head.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let looked = &bytes[..bytes.len().min(MAX_HEAD)];
    looked.windows(4).position(|window| window == b"\r\n\r\n").map(|place| place + 4)
}

fn read(head: &str) -> Result<Request, Refusal> {
    let (line, headers) = head.split_once("\r\n").ok_or(Refusal::Malformed)?;
    let words: Vec<&str> = line.split(' ').collect();
    let [method, url, version @ ("HTTP/1.0" | "HTTP/1.1")] = words[..] else { return Err(Refusal::Malformed) };
    if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Err(Refusal::Malformed);
    }
    if method == "CONNECT" {
        return Ok(Request { target: url.parse().map_err(|_| Refusal::Malformed)?, head: None });
    }
    // Other schemes are refused: for `https`, the only common one, clients use `CONNECT`.
    let rest = url.strip_prefix("http://").ok_or(Refusal::Unsupported)?;
    let cut = rest.find(['/', '?']).unwrap_or(rest.len());
    let (place, path) = rest.split_at(cut);
    // Parts before an `@` are a password for the server, which clients send in a header.
    if place.contains('@') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Refusal::Malformed);
    }
    let with_port = place.parse::<Target>().or_else(|_| format!("{place}:80").parse());
    let target = with_port.map_err(|_| Refusal::Malformed)?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut head = format!("{method} {slash}{path} {version}\r\n");
    for header in headers.split("\r\n").take_while(|header| !header.is_empty()) {
        let (name, _) = header.split_once(':').ok_or(Refusal::Malformed)?;
        // A space before the colon, or a line that continues the one before, means different things to different servers.
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()) || header.contains(['\r', '\n', '\0']) {
            return Err(Refusal::Malformed);
        }
        if !OWN_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            head.push_str(header);
            head.push_str("\r\n");
        }
    }
    head.push_str("Connection: close\r\n\r\n");
    Ok(Request { target, head: Some(head.into_bytes()) })
}

/// Returns the response that there is no connection, with the reason as its body.
pub fn refused(refusal: Refusal) -> Vec<u8> {
    let (status, phrase) = refusal.http();
    let body = format!("taut: {refusal}\n");
    let length = body.len();
    format!(
        "HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wrong(text: &str) -> Refusal {
        match request(text.as_bytes()) {
            Parsed::Wrong(refusal) => refusal,
            other => panic!("{text:?}: {other:?}"),
        }
    }

    fn passed(text: &str) -> (String, String) {
        match request(text.as_bytes()) {
            Parsed::Done(Request { target, head: Some(head) }, used) if used == text.len() => {
                (target.to_string(), String::from_utf8(head).unwrap())
            }
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn connect_is_read_and_what_follows_stays() {
        let text = b"CONNECT Nas:443 HTTP/1.1\r\nHost: nas:443\r\n\r\n\x16\x03";
        let Parsed::Done(found, used) = request(text) else { panic!() };
        assert_eq!((found.target.to_string(), found.head, used), (String::from("nas:443"), None, text.len() - 2));
        for end in 0..text.len() - 2 {
            assert_eq!(request(&text[..end]), Parsed::More);
        }
    }

    #[test]
    fn other_methods_are_passed_on_with_their_path() {
        let (target, head) = passed(
            "GET http://nas/a?b=%20 HTTP/1.1\r\nHost: nas\r\nProxy-Connection: keep-alive\r\nAccept: */*\r\n\r\n",
        );
        assert_eq!(target, "nas:80");
        assert_eq!(head, "GET /a?b=%20 HTTP/1.1\r\nHost: nas\r\nAccept: */*\r\nConnection: close\r\n\r\n");
        assert_eq!(passed("POST http://[fd00::2]:8080 HTTP/1.0\r\n\r\n").0, "[fd00::2]:8080");
        assert!(passed("GET http://nas?x HTTP/1.1\r\n\r\n").1.starts_with("GET /?x "));
    }

    #[test]
    fn other_requests_are_refused() {
        for text in [
            "CONNECT nas HTTP/1.1\r\n\r\n",
            "CONNECT nas:443 HTTP/2\r\n\r\n",
            "GET http://user@nas/ HTTP/1.1\r\n\r\n",
            "GET http:///x HTTP/1.1\r\n\r\n",
            "GET http://nas/ HTTP/1.1\r\nHost : nas\r\n\r\n",
            "GET http://nas/ HTTP/1.1\r\n Host: nas\r\n\r\n",
            "GET http://nas/ HTTP/1.1\r\nHost: nas\nX: y\r\n\r\n",
            "get http://nas/ HTTP/1.1\r\n\r\n",
            "GET  http://nas/ HTTP/1.1\r\n\r\n",
            "\x05\x01\x00",
            "{\"json\": 1}",
        ] {
            assert_eq!(wrong(text), Refusal::Malformed, "{text:?}");
        }
        assert_eq!(wrong("GET / HTTP/1.1\r\n\r\n"), Refusal::Unsupported, "a request to the proxy itself");
        assert_eq!(wrong("GET https://nas/ HTTP/1.1\r\n\r\n"), Refusal::Unsupported);
        let long = format!("GET http://nas/ HTTP/1.1\r\nX: {}", "x".repeat(MAX_HEAD));
        assert_eq!(wrong(&long), Refusal::Malformed);
    }

    #[test]
    fn a_refusal_says_why() {
        let text = String::from_utf8(refused(Refusal::Outside)).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("HTTP/1.1 403 Forbidden\r\n") && head.contains(&format!("Content-Length: {}", body.len()))
        );
        assert!(body.contains("outside of the overlay"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            "(GET|CONNECT|POST) (http://)?[a-z.:\\[\\]/@?]{0,20} HTTP/1\\.[01]\r\n([A-Za-z: \t]{0,12}\r?\n){0,4}\r\n".prop_map(String::into_bytes),
        ]) {
            if let Parsed::Done(found, used) = request(&bytes) {
                prop_assert!(used <= bytes.len());
                // Nothing but the one request is in the head.
                if let Some(head) = found.head {
                    prop_assert!(head.ends_with(b"\r\n\r\n"));
                    prop_assert_eq!(end_of_head(&head), Some(head.len()));
                }
            }
        }
    }
}

//! One short answer of a server by HTTP, such as a coordinator's public key. This is the only place where certificates are checked: the key is not known yet, so the
//! certificate authorities of the host authenticate it once.

use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::broken::Broken;
use crate::dial::connect_verified;
use crate::tls::{authorities, explain};
use crate::url::Url;

/// Longest time for the whole answer, 30 s: each read has a timeout of its own, which a server could use up for every byte.
const LONGEST_TIME: Duration = Duration::from_secs(30);

/// Longest answer, 16 KiB: a key has a hundred bytes, and headers a few KiB at most.
const LONGEST: usize = 16 * 1024;

/// Files with certificate authorities: Debian, Alpine and OpenWrt; Fedora; FreeBSD and older Alpine.
pub const AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Returns the JSON object that a server answers to `GET` at `path` below `url`. An https server needs a certificate for its name by an authority in the first of
/// the `files` that exists.
///
/// # Errors
/// If the server cannot be reached, its certificate is not valid, or its answer is not a JSON object.
pub fn fetch(url: &Url, path: &str, files: &[&Path]) -> Result<Vec<u8>, Broken> {
    let authorities = if url.secure { Some(authorities(files)?) } else { None };
    let mut stream = connect_verified(url, authorities.as_ref())?;
    let request = format!(
        "GET {}{path} HTTP/1.1\r\nHost: {}\r\nAccept: application/json\r\nConnection: close\r\n\r\n",
        url.path,
        url.authority()
    );
    stream.write_all(request.as_bytes()).and_then(|()| stream.flush()).map_err(|error| explain(&error))?;
    let mut answer = Vec::new();
    let mut piece = [0; 2048];
    let start = Instant::now();
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => answer.extend_from_slice(piece.get(..length).unwrap_or_default()),
            // Some servers end TLS without a closing message.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(explain(&error)),
        }
        if answer.len() > LONGEST {
            return Err(Broken(String::from("its answer is too long")));
        }
        if start.elapsed() > LONGEST_TIME {
            return Err(Broken(String::from("its answer takes too long")));
        }
    }
    body(&answer).ok_or_else(|| Broken(String::from("its answer is not that of a coordinator")))
}

/// Returns the JSON object in a successful answer.
fn body(answer: &[u8]) -> Option<Vec<u8>> {
    let text = str::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.lines().next()?.split(' ').nth(1)?;
    // A proxy may send the body in chunks, and then chunk lengths surround the object.
    let object = body.get(body.find('{')?..=body.rfind('}')?)?;
    (status == "200").then(|| object.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_of_an_answer_is_found_and_nothing_else_is_one() {
        let found = |text: &str| body(text.as_bytes()).map(|object| String::from_utf8(object).unwrap());
        let plain = "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n{\"a\":1}";
        assert_eq!(found(plain).as_deref(), Some("{\"a\":1}"));
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n7\r\n{\"a\":1}\r\n0\r\n\r\n";
        assert_eq!(found(chunked).as_deref(), Some("{\"a\":1}"));
        for text in ["", "HTTP/1.1 404 Not Found\r\n\r\n{}", "HTTP/1.1 200 OK\r\n\r\n", "200\r\n\r\n}{", "{}"] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}

//! A short answer of a server by HTTP on a stream that is connected already.

use std::io::{self, ErrorKind, Read, Write};

use taut_base::PublicKey;

use crate::broken::Broken;
use crate::scheme::{SPEAKS_TLS, speaks_tls};
use crate::stream::Stream;
use crate::tls::explain;
use crate::url::Url;

/// Longest answer, 16 KiB: a key has a hundred bytes, and headers a few KiB at most.
const LONGEST: usize = 16 * 1024;

/// Returns the key that a coordinator shows at `path` to anybody, or `None` if the server answers by HTTP with something else. Nothing vouches for the key.
///
/// # Errors
/// If the server does not answer, or cannot at present: that tells nothing about its key.
pub(crate) fn shown_key(stream: Stream, url: &Url, path: &str) -> Result<Option<PublicKey>, Broken> {
    #[derive(taut_json::Deserialize)]
    struct Shown {
        key: PublicKey,
    }
    let answer = exchange(stream, url, path)?;
    match status(&answer) {
        None => Err(Broken(String::from("its answer is not HTTP"))),
        // Those of a proxy without its server, and of a server with too much work.
        Some(status) if status.starts_with('5') || ["408", "429"].contains(&status.as_str()) => {
            Err(Broken(format!("it answered with HTTP status {status}")))
        }
        Some(_) => {
            let shown = body(&answer).and_then(|object| taut_json::from_slice::<Shown>(&object).ok());
            Ok(shown.map(|shown| shown.key))
        }
    }
}

/// Returns the JSON object that a server answers to `GET` at `path` below `url`.
pub(crate) fn ask(stream: Stream, url: &Url, path: &str) -> Result<Vec<u8>, Broken> {
    let answer = exchange(stream, url, path)?;
    if answer.len() > LONGEST {
        return Err(Broken(String::from("its answer is too long")));
    }
    body(&answer).ok_or_else(|| {
        let what =
            if !url.secure && speaks_tls(&answer) { SPEAKS_TLS } else { "its answer is not that of a coordinator" };
        Broken(String::from(what))
    })
}

/// Returns a server's whole answer to `GET`, or the beginning of one that is longer than [`LONGEST`].
fn exchange(mut stream: Stream, url: &Url, path: &str) -> Result<Vec<u8>, Broken> {
    let slow = |error| explain_slow(&error, || String::from("its answer takes too long"));
    let request = format!(
        "GET {}{path} HTTP/1.1\r\nHost: {}\r\nAccept: application/json\r\nConnection: close\r\n\r\n",
        url.path,
        url.authority()
    );
    stream.write_all(request.as_bytes()).and_then(|()| stream.flush()).map_err(slow)?;
    let mut answer = Vec::new();
    let mut piece = [0; 2048];
    while answer.len() <= LONGEST {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => answer.extend_from_slice(piece.get(..length).unwrap_or_default()),
            // Some servers end TLS without a closing message.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(slow(error)),
        }
    }
    Ok(answer)
}

/// Returns an error for the user; what took too long has words of its own.
pub(crate) fn explain_slow(error: &io::Error, slow: impl FnOnce() -> String) -> Broken {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Broken(slow()),
        _ => explain(error),
    }
}

/// Returns the status of an answer by HTTP whose head is complete.
fn status(answer: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(answer);
    let (head, _) = text.split_once("\r\n\r\n")?;
    let first = head.lines().next().filter(|line| line.starts_with("HTTP/1."))?;
    first.split(' ').nth(1).map(|status| status.chars().take(3).collect())
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

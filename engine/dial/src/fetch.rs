//! Answers of a server by HTTP: a short one, such as a coordinator's public key, or a file. This is the only place where certificates are checked: the key is not known
//! yet, so the certificate authorities of the host authenticate it once.

use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use taut_base::PublicKey;

use crate::broken::{Broken, SPEAKS_TLS, speaks_tls};
use crate::dial::connect_verified;
use crate::stream::Stream;
use crate::tls::{authorities, explain};
use crate::url::Url;

/// Longest answer, 16 KiB: a key has a hundred bytes, and headers a few KiB at most.
const LONGEST: usize = 16 * 1024;

/// Longest head of an answer that is a file, 16 KiB, as servers limit those of requests.
const LONGEST_HEAD: usize = 16 * 1024;

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
    ask(connect_verified(url, authorities.as_ref())?, url, path)
}

/// Returns the key that a coordinator shows at `path` to anybody. Nothing vouches for it.
pub(crate) fn shown_key(stream: Stream, url: &Url, path: &str) -> Result<PublicKey, Broken> {
    #[derive(taut_json::Deserialize)]
    struct Shown {
        key: PublicKey,
    }
    let answer = taut_json::from_slice::<Shown>(&ask(stream, url, path)?);
    answer.map(|shown| shown.key).map_err(|error| Broken(error.to_string()))
}

/// Returns the JSON object that a server answers to `GET` at `path` below `url`.
fn ask(mut stream: Stream, url: &Url, path: &str) -> Result<Vec<u8>, Broken> {
    let slow = |error| explain_slow(&error, || String::from("its answer takes too long"));
    let request = format!(
        "GET {}{path} HTTP/1.1\r\nHost: {}\r\nAccept: application/json\r\nConnection: close\r\n\r\n",
        url.path,
        url.authority()
    );
    stream.write_all(request.as_bytes()).and_then(|()| stream.flush()).map_err(slow)?;
    let mut answer = Vec::new();
    let mut piece = [0; 2048];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => answer.extend_from_slice(piece.get(..length).unwrap_or_default()),
            // Some servers end TLS without a closing message.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(slow(error)),
        }
        if answer.len() > LONGEST {
            return Err(Broken(String::from("its answer is too long")));
        }
    }
    body(&answer).ok_or_else(|| {
        let what = if speaks_tls(&answer) { SPEAKS_TLS } else { "its answer is not that of a coordinator" };
        Broken(String::from(what))
    })
}

/// Writes the file that a server answers to `GET` at `path` below `url` to `into`, at most `most` bytes within `limit`, and returns its length. Certificates as in
/// [`fetch()`].
///
/// # Errors
/// If the server cannot be reached, its certificate is not valid, it has no such file, the file is longer or arrives too slowly or not whole, or it cannot be written.
pub fn download(
    url: &Url,
    path: &str,
    files: &[&Path],
    most: u64,
    limit: Duration,
    into: &mut dyn Write,
) -> Result<u64, Broken> {
    let authorities = if url.secure { Some(authorities(files)?) } else { None };
    let mut stream = connect_verified(url, authorities.as_ref())?;
    stream.set_deadline(Instant::now() + limit);
    let slow = |error| explain_slow(&error, || format!("the file did not arrive within {} s", limit.as_secs()));
    // To HTTP/1.0 no server answers in chunks (RFC 9112 section 6.1), and the end of the connection is the end of the file.
    let request = format!("GET {}{path} HTTP/1.0\r\nHost: {}\r\nConnection: close\r\n\r\n", url.path, url.authority());
    stream.write_all(request.as_bytes()).and_then(|()| stream.flush()).map_err(slow)?;
    let (mut head, mut length, mut whole) = (Vec::new(), 0_u64, None);
    let mut piece = [0; 16 * 1024];
    loop {
        // What arrives has no limit but `most`, which is checked below.
        stream.allow_more();
        let read = match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => piece.get(..read).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(slow(error)),
        };
        let body = match whole {
            Some(_) => read,
            None => {
                head.extend_from_slice(read);
                let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") else {
                    if head.len() > LONGEST_HEAD {
                        return Err(Broken(String::from("its answer is not that of an HTTP server")));
                    }
                    continue;
                };
                whole = Some(file_length(head.get(..end).unwrap_or_default())?);
                head.get(end + 4..).unwrap_or_default()
            }
        };
        length += body.len() as u64;
        if length > most {
            return Err(Broken(format!("the file is longer than {most} bytes")));
        }
        into.write_all(body).map_err(|error| Broken(format!("the file cannot be written: {error}")))?;
    }
    match whole {
        None if speaks_tls(&head) => Err(Broken(String::from(SPEAKS_TLS))),
        None => Err(Broken(String::from("the connection ended before the answer"))),
        Some(Some(whole)) if whole != length => {
            Err(Broken(format!("only {length} of {whole} bytes of the file arrived")))
        }
        Some(_) => Ok(length),
    }
}

/// Returns an error for the user; what took too long has words of its own.
fn explain_slow(error: &io::Error, slow: impl FnOnce() -> String) -> Broken {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Broken(slow()),
        _ => explain(error),
    }
}

/// Returns the length that the head of a successful answer tells, if it does.
fn file_length(head: &[u8]) -> Result<Option<u64>, Broken> {
    let text = String::from_utf8_lossy(head);
    let status = text.lines().next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    let header = |name: &str| {
        let values = text.lines().skip(1).filter_map(|line| line.split_once(':'));
        values.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    };
    match status {
        "200" => {}
        "404" => return Err(Broken(String::from("the server has no such file (404)"))),
        _ if status.starts_with('3') => {
            let place: String = header("location").unwrap_or("elsewhere").chars().take(200).collect();
            return Err(Broken(format!("the server says that the file is at another URL, {place}: give that one")));
        }
        _ => return Err(Broken(format!("the server answered {status:.3}"))),
    }
    if header("transfer-encoding").is_some() || header("content-encoding").is_some() {
        return Err(Broken(String::from("the server changed the form of the file, although nobody asked for that")));
    }
    Ok(header("content-length").and_then(|digits| digits.parse().ok()))
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
    fn only_a_whole_plain_file_is_one() {
        let length = |head: &str| file_length(head.as_bytes());
        assert_eq!(length("HTTP/1.1 200 OK\r\nContent-length: 7").unwrap(), Some(7));
        assert_eq!(length("HTTP/1.0 200 OK\r\nServer: x").unwrap(), None);
        let moved = length("HTTP/1.1 302 Found\r\nlocation: https://b/c").unwrap_err().0;
        assert!(moved.contains("https://b/c"), "{moved}");
        for head in [
            "",
            "HTTP/1.1 404 no",
            "HTTP/1.1 500 x",
            "200",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked",
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip",
        ] {
            assert!(length(head).is_err(), "{head}");
        }
    }

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

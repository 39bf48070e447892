//! Answers of a server by HTTP: a short one, such as a coordinator's public key, or a file. This is the only place where certificates are checked: the key is not known
//! yet, so the certificate authorities of the host authenticate it once.

use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::answer::{ask, explain_slow};
use crate::broken::Broken;
use crate::dial::connect_verified;
use crate::scheme::{SPEAKS_TLS, speaks_tls};
use crate::tls::authorities;
use crate::url::Url;

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
        None if !url.secure && speaks_tls(&head) => Err(Broken(String::from(SPEAKS_TLS))),
        None => Err(Broken(String::from("the connection ended before the answer"))),
        Some(Some(whole)) if whole != length => {
            Err(Broken(format!("only {length} of {whole} bytes of the file arrived")))
        }
        Some(_) => Ok(length),
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
}

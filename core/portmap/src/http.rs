//! The part of HTTP that gateways need: one request per connection, one answer of bounded length (RFC 9112).

use std::fmt;
use std::net::SocketAddrV4;

/// Longest answer with its head, in bytes. Descriptions of real gateways have 5 to 30 KiB; a longer one is a defect or an attack (fault D15).
pub const MAX_ANSWER: usize = 64 * 1024;

/// Longest head of an answer, in bytes.
const MAX_HEAD: usize = 8 * 1024;

/// Returns a request for a page.
pub fn get(place: SocketAddrV4, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {place}\r\nUser-Agent: taut UPnP/1.1\r\nConnection: close\r\n\r\n")
        .into_bytes()
}

/// Returns a request that calls `action` (with its service's name) of a service.
pub fn post(place: SocketAddrV4, path: &str, action: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: {place}\r\nUser-Agent: taut UPnP/1.1\r\nContent-Type: text/xml; charset=\"utf-8\"\r\n\
         SOAPAction: \"{action}\"\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

/// A complete answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body, with its chunks joined.
    pub body: Vec<u8>,
}

/// The reason why bytes are not a valid answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpError {
    /// The answer is longer than allowed.
    TooLong,
    /// The bytes are not HTTP, or inconsistent.
    Malformed,
    /// The connection ended before the answer did.
    Short,
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "its answer is too long",
            Self::Malformed => "its answer is not HTTP",
            Self::Short => "its answer ends too early",
        })
    }
}

/// Reads the bytes received so far. `ended`: no more will follow. Returns `None` if the answer is not complete.
///
/// # Errors
/// An error if no further bytes can make it a valid answer.
pub fn read(bytes: &[u8], ended: bool) -> Result<Option<Answer>, HttpError> {
    if bytes.len() > MAX_ANSWER {
        return Err(HttpError::TooLong);
    }
    let Some(end) = bytes.windows(4).take(MAX_HEAD).position(|window| window == b"\r\n\r\n") else {
        return match (bytes.len() > MAX_HEAD, ended) {
            (true, _) => Err(HttpError::TooLong),
            (false, true) => Err(HttpError::Short),
            (false, false) => Ok(None),
        };
    };
    let head = Head::parse(&bytes[..end])?;
    let rest = &bytes[end + 4..];
    let body = match head.framing {
        Framing::Length(length) if length > MAX_ANSWER => return Err(HttpError::TooLong),
        Framing::Length(length) => rest.get(..length).map(<[u8]>::to_vec),
        Framing::Chunks => join(rest)?,
        Framing::UntilEnd => ended.then(|| rest.to_vec()),
    };
    match body {
        Some(body) => Ok(Some(Answer { status: head.status, body })),
        None if ended => Err(HttpError::Short),
        None => Ok(None),
    }
}

/// How the end of a body is marked.
enum Framing {
    Length(usize),
    Chunks,
    UntilEnd,
}

struct Head {
    status: u16,
    framing: Framing,
}

impl Head {
    fn parse(bytes: &[u8]) -> Result<Self, HttpError> {
        let text = std::str::from_utf8(bytes).map_err(|_| HttpError::Malformed)?;
        let mut lines = text.split("\r\n");
        let first = lines.next().and_then(|line| line.strip_prefix("HTTP/1.")).ok_or(HttpError::Malformed)?;
        let status = first.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or(HttpError::Malformed)?;
        let mut framing = Framing::UntilEnd;
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            if name.eq_ignore_ascii_case("transfer-encoding") && value.eq_ignore_ascii_case("chunked") {
                framing = Framing::Chunks;
            } else if name.eq_ignore_ascii_case("content-length") && !matches!(framing, Framing::Chunks) {
                framing = Framing::Length(value.parse().map_err(|_| HttpError::Malformed)?);
            }
        }
        Ok(Self { status, framing })
    }
}

/// Returns the chunks of a body, joined; `None` while the last one is missing.
fn join(mut rest: &[u8]) -> Result<Option<Vec<u8>>, HttpError> {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|window| window == b"\r\n") else { return Ok(None) };
        let line = std::str::from_utf8(&rest[..end]).map_err(|_| HttpError::Malformed)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| HttpError::Malformed)?;
        if size > MAX_ANSWER {
            return Err(HttpError::TooLong);
        }
        if size == 0 {
            return Ok(Some(body));
        }
        let Some(chunk) = rest.get(end + 2..end + 2 + size + 2) else { return Ok(None) };
        let (chunk, line_end) = chunk.split_at(size);
        if line_end != b"\r\n" {
            return Err(HttpError::Malformed);
        }
        body.extend_from_slice(chunk);
        rest = &rest[end + 2 + size + 2..];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ok(body: &[u8]) -> Result<Option<Answer>, HttpError> {
        Ok(Some(Answer { status: 200, body: body.to_vec() }))
    }

    #[test]
    fn reads_each_framing() {
        assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef", false), ok(b"abc"));
        assert_eq!(read(b"HTTP/1.0 200 OK\r\n\r\nabc", true), ok(b"abc"));
        assert_eq!(read(b"HTTP/1.0 200 OK\r\n\r\nabc", false), Ok(None));
        let chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\n";
        assert_eq!(read(chunks, false), ok(b"abc"));
    }

    #[test]
    fn fault_d15_long_and_inconsistent_answers_are_refused() {
        assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n", false), Err(HttpError::TooLong));
        assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", false), Err(HttpError::Malformed));
        assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", true), Err(HttpError::Short));
        assert_eq!(read(&[b'a'; MAX_HEAD + 1], false), Err(HttpError::TooLong));
        assert_eq!(read(&[b'a'; MAX_ANSWER + 1], false), Err(HttpError::TooLong));
        let chunked = |rest: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{rest}");
        assert_eq!(read(chunked("fffffff\r\n").as_bytes(), false), Err(HttpError::TooLong));
        assert_eq!(read(chunked("ffffffffffffffffffff\r\n").as_bytes(), false), Err(HttpError::Malformed));
        assert_eq!(read(chunked("1\r\nabc").as_bytes(), false), Err(HttpError::Malformed));
        assert_eq!(read(chunked("5\r\nabc").as_bytes(), true), Err(HttpError::Short));
    }

    proptest! {
        #[test]
        fn an_answer_is_read_the_same_in_any_pieces(
            body in prop::collection::vec(any::<u8>(), 0..200), cut in any::<prop::sample::Index>(),
        ) {
            let mut whole = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
            whole.extend(&body);
            prop_assert_eq!(read(&whole[..cut.index(whole.len())], false), Ok(None));
            prop_assert_eq!(read(&whole, false), ok(&body));
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..400), ended in any::<bool>()) {
            let _ = read(&bytes, ended);
        }
    }
}

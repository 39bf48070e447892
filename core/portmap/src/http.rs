//! As much HTTP as a gateway is asked by: one request per connection, one answer of bounded length (RFC 9112).

use std::fmt;
use std::net::SocketAddrV4;

/// Longest answer, head included. Descriptions of real gateways have 5 to 30 KiB; a longer one is a defect or an attack (fault D15).
pub const MAX_ANSWER: usize = 64 * 1024;

/// Longest head of an answer.
const MAX_HEAD: usize = 8 * 1024;

/// A request for a page.
pub fn get(place: SocketAddrV4, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {place}\r\nUser-Agent: taut UPnP/1.1\r\nConnection: close\r\n\r\n")
        .into_bytes()
}

/// A request that calls the `action` (with its service's name) of a service.
pub fn post(place: SocketAddrV4, path: &str, action: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: {place}\r\nUser-Agent: taut UPnP/1.1\r\nContent-Type: text/xml; charset=\"utf-8\"\r\n\
         SOAPAction: \"{action}\"\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

/// An answer that has come in whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body, chunks joined.
    pub body: Vec<u8>,
}

/// Why bytes are no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// Longer than an answer may be.
    TooLong,
    /// Not HTTP, or inconsistent.
    Malformed,
    /// It ended before its end.
    Short,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "its answer is too long",
            Self::Malformed => "its answer is not HTTP",
            Self::Short => "its answer ends too early",
        })
    }
}

/// Reads what has come so far; `ended` when nothing will follow. `None` when more is to come.
///
/// # Errors
/// When no continuation can make it an answer.
pub fn read(bytes: &[u8], ended: bool) -> Result<Option<Answer>, Bad> {
    if bytes.len() > MAX_ANSWER {
        return Err(Bad::TooLong);
    }
    let Some(end) = bytes.windows(4).take(MAX_HEAD).position(|window| window == b"\r\n\r\n") else {
        return match (bytes.len() > MAX_HEAD, ended) {
            (true, _) => Err(Bad::TooLong),
            (false, true) => Err(Bad::Short),
            (false, false) => Ok(None),
        };
    };
    let head = Head::parse(&bytes[..end])?;
    let rest = &bytes[end + 4..];
    let body = match head.framing {
        Framing::Length(length) if length > MAX_ANSWER => return Err(Bad::TooLong),
        Framing::Length(length) => rest.get(..length).map(<[u8]>::to_vec),
        Framing::Chunks => join(rest)?,
        Framing::UntilEnd => ended.then(|| rest.to_vec()),
    };
    match body {
        Some(body) => Ok(Some(Answer { status: head.status, body })),
        None if ended => Err(Bad::Short),
        None => Ok(None),
    }
}

/// How the end of a body is told.
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
    fn parse(bytes: &[u8]) -> Result<Self, Bad> {
        let text = std::str::from_utf8(bytes).map_err(|_| Bad::Malformed)?;
        let mut lines = text.split("\r\n");
        let first = lines.next().and_then(|line| line.strip_prefix("HTTP/1.")).ok_or(Bad::Malformed)?;
        let status = first.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or(Bad::Malformed)?;
        let mut framing = Framing::UntilEnd;
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            if name.eq_ignore_ascii_case("transfer-encoding") && value.eq_ignore_ascii_case("chunked") {
                framing = Framing::Chunks;
            } else if name.eq_ignore_ascii_case("content-length") && !matches!(framing, Framing::Chunks) {
                framing = Framing::Length(value.parse().map_err(|_| Bad::Malformed)?);
            }
        }
        Ok(Self { status, framing })
    }
}

/// The chunks of a body, joined; `None` while the last one is not there.
fn join(mut rest: &[u8]) -> Result<Option<Vec<u8>>, Bad> {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|window| window == b"\r\n") else { return Ok(None) };
        let line = std::str::from_utf8(&rest[..end]).map_err(|_| Bad::Malformed)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| Bad::Malformed)?;
        if size > MAX_ANSWER {
            return Err(Bad::TooLong);
        }
        if size == 0 {
            return Ok(Some(body));
        }
        let Some(chunk) = rest.get(end + 2..end + 2 + size + 2) else { return Ok(None) };
        let (chunk, line_end) = chunk.split_at(size);
        if line_end != b"\r\n" {
            return Err(Bad::Malformed);
        }
        body.extend_from_slice(chunk);
        rest = &rest[end + 2 + size + 2..];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ok(body: &[u8]) -> Result<Option<Answer>, Bad> {
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
    fn fault_d15_what_is_too_long_or_lies_is_refused() {
        assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n", false), Err(Bad::TooLong));
        assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", false), Err(Bad::Malformed));
        assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", true), Err(Bad::Short));
        assert_eq!(read(&[b'a'; MAX_HEAD + 1], false), Err(Bad::TooLong));
        assert_eq!(read(&[b'a'; MAX_ANSWER + 1], false), Err(Bad::TooLong));
        let chunked = |rest: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{rest}");
        assert_eq!(read(chunked("fffffff\r\n").as_bytes(), false), Err(Bad::TooLong));
        assert_eq!(read(chunked("ffffffffffffffffffff\r\n").as_bytes(), false), Err(Bad::Malformed));
        assert_eq!(read(chunked("1\r\nabc").as_bytes(), false), Err(Bad::Malformed));
        assert_eq!(read(chunked("5\r\nabc").as_bytes(), true), Err(Bad::Short));
    }

    proptest! {
        #[test]
        fn a_cut_answer_waits_and_the_whole_one_is_the_same_however_it_came(
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

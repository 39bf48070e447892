//! The PROXY protocol, versions 1 and 2 (haproxy, doc/proxy-protocol.txt): a header in which a proxy tells the source of a TCP connection.
//!
//! Any client could send such a header, so a server reads it only on connections from a trusted proxy (fault E19).

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longest header, 2,048 bytes: addresses and the proxy's information about TLS. Version 1 has 107 bytes at most.
pub const MAX: usize = 2_048;

/// Beginning of a header of version 2. No HTTP request and no TLS message begins like it.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Beginning of a header of version 1.
const WORD: &[u8; 6] = b"PROXY ";

/// Longest header of version 1, 107 bytes with its line end.
const MAX_LINE: usize = 107;

/// The header at the beginning of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// No header.
    Absent,
    /// Too few bytes to decide.
    Partial,
    /// A header of `length` bytes; the connection's own bytes follow.
    Complete {
        /// Bytes of the header.
        length: usize,
        /// The address of the proxy's peer; `None` for the proxy's own connections and for peers without an IP address.
        source: Option<IpAddr>,
    },
}

/// A header that is invalid or longer than [`MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadProxyHeader;

/// Reads the first bytes of a connection.
///
/// # Errors
/// [`BadProxyHeader`] if the header is invalid. The connection is unusable then, because the position of its own bytes is unknown.
pub fn parse(bytes: &[u8]) -> Result<ProxyHeader, BadProxyHeader> {
    if begins(bytes, SIGNATURE) {
        return parse_binary(bytes);
    }
    if begins(bytes, WORD) {
        return parse_line(bytes);
    }
    Ok(ProxyHeader::Absent)
}

/// Returns true if the bytes begin with the beginning of a header, of either version.
pub fn is_header(bytes: &[u8]) -> bool {
    bytes.starts_with(SIGNATURE) || bytes.starts_with(WORD)
}

/// Returns true if the bytes begin with `word`, or `word` begins with the bytes.
fn begins(bytes: &[u8], word: &[u8]) -> bool {
    let length = bytes.len().min(word.len());
    bytes[..length] == word[..length]
}

fn parse_binary(bytes: &[u8]) -> Result<ProxyHeader, BadProxyHeader> {
    let Some(head) = bytes.get(..16) else { return Ok(ProxyHeader::Partial) };
    let length = 16 + usize::from(u16::from_be_bytes([head[14], head[15]]));
    // Version 2 with one of its two commands: 0 for a connection of the proxy itself, 1 for one of a peer.
    if !matches!(head[12], 0x20 | 0x21) || length > MAX {
        return Err(BadProxyHeader);
    }
    let Some(block) = bytes.get(16..length) else { return Ok(ProxyHeader::Partial) };
    let source = match (head[12], head[13]) {
        (0x21, 0x11) => Some(IpAddr::V4(Ipv4Addr::from(array::<4>(block, 12)?))),
        (0x21, 0x21) => Some(IpAddr::V6(Ipv6Addr::from(array::<16>(block, 36)?)).to_canonical()),
        _ => None,
    };
    Ok(ProxyHeader::Complete { length, source })
}

/// Returns the first bytes of a block of at least `least` bytes.
fn array<const N: usize>(block: &[u8], least: usize) -> Result<[u8; N], BadProxyHeader> {
    let long_enough = block.len() >= least;
    block.first_chunk().copied().filter(|_| long_enough).ok_or(BadProxyHeader)
}

fn parse_line(bytes: &[u8]) -> Result<ProxyHeader, BadProxyHeader> {
    let seen = &bytes[..bytes.len().min(MAX_LINE)];
    let Some(end) = seen.windows(2).position(|pair| pair == b"\r\n") else {
        return if seen.len() < MAX_LINE { Ok(ProxyHeader::Partial) } else { Err(BadProxyHeader) };
    };
    let line = std::str::from_utf8(&seen[..end]).map_err(|_| BadProxyHeader)?;
    let mut words = line.split(' ').skip(1);
    let (family, source) = (words.next(), words.next().unwrap_or_default());
    let source = match family {
        Some("TCP4") => Some(IpAddr::V4(source.parse().map_err(|_| BadProxyHeader)?)),
        Some("TCP6") => Some(IpAddr::V6(source.parse().map_err(|_| BadProxyHeader)?).to_canonical()),
        Some("UNKNOWN") => None,
        _ => return Err(BadProxyHeader),
    };
    // The proxy's own address and both ports.
    let is_whole = source.is_none() || words.count() == 3;
    if is_whole { Ok(ProxyHeader::Complete { length: end + 2, source }) } else { Err(BadProxyHeader) }
}

impl fmt::Display for BadProxyHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a header of the PROXY protocol that cannot be read")
    }
}

impl Error for BadProxyHeader {}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
        let length = u16::try_from(block.len()).unwrap().to_be_bytes();
        [SIGNATURE.as_slice(), &[command, family], &length, block].concat()
    }

    fn header(length: usize, source: &str) -> Result<ProxyHeader, BadProxyHeader> {
        Ok(ProxyHeader::Complete { length, source: source.parse().ok() })
    }

    #[test]
    fn version_2_is_read_and_the_bytes_after_it_are_ignored() {
        let four = [&[203, 0, 113, 7, 10, 0, 0, 1, 0x9c, 0x40, 1, 0xbb][..], b"tlv"].concat();
        let bytes = [binary(0x21, 0x11, &four), b"GET / HTTP/1.1".to_vec()].concat();
        assert_eq!(parse(&bytes), header(31, "203.0.113.7"));
        for length in 0..31 {
            assert_eq!(parse(&bytes[..length]), Ok(ProxyHeader::Partial), "{length}");
        }
        let six = [&Ipv6Addr::LOCALHOST.octets()[..], &[0; 20]].concat();
        assert_eq!(parse(&binary(0x21, 0x21, &six)), header(52, "::1"));
        let mapped: Ipv6Addr = "::ffff:203.0.113.7".parse().unwrap();
        assert_eq!(parse(&binary(0x21, 0x21, &[&mapped.octets()[..], &[0; 20]].concat())), header(52, "203.0.113.7"));
    }

    #[test]
    fn version_2_without_an_address_has_no_source() {
        assert_eq!(parse(&binary(0x20, 0x11, &[1; 12])), header(28, "none"));
        assert_eq!(parse(&binary(0x20, 0, &[])), header(16, "none"));
        assert_eq!(parse(&binary(0x21, 0x31, &[b'/'; 216])), header(232, "none"));
    }

    #[test]
    fn version_1_is_read() {
        assert_eq!(parse(b"PROXY TCP4 203.0.113.7 10.0.0.1 40000 443\r\nGET"), header(43, "203.0.113.7"));
        assert_eq!(parse(b"PROXY TCP6 2001:db8::7 2001:db8::1 40000 443\r\n"), header(46, "2001:db8::7"));
        assert_eq!(parse(b"PROXY UNKNOWN\r\n"), header(15, "none"));
        assert_eq!(parse(b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n"), header(43, "none"));
        assert_eq!(parse(b"PROXY TCP4 203.0"), Ok(ProxyHeader::Partial));
    }

    #[test]
    fn other_beginnings_are_not_a_header() {
        for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"\x16\x03\x01\x02\x00", b"PRI * HTTP/2.0", b"POST /", b"\r\n\r\nGET"]
        {
            assert_eq!(parse(bytes), Ok(ProxyHeader::Absent));
        }
        for bytes in [&b""[..], b"P", b"PR", b"\r", b"\r\n\r\n\0\r\nQUIT"] {
            assert_eq!(parse(bytes), Ok(ProxyHeader::Partial));
        }
    }

    #[test]
    fn fault_e19_an_inconsistent_header_is_refused() {
        let long = [binary(0x21, 0x11, &[0; 12])[..14].to_vec(), vec![0xff, 0xff]].concat();
        for bytes in [
            binary(0x31, 0x11, &[0; 12]),
            binary(0x22, 0x11, &[0; 12]),
            binary(0x21, 0x11, &[0; 11]),
            binary(0x21, 0x21, &[0; 35]),
            long,
            b"PROXY TCP4 2001:db8::7 10.0.0.1 1 2\r\n".to_vec(),
            b"PROXY TCP4 203.0.113.7\r\n".to_vec(),
            b"PROXY TCP5 203.0.113.7 10.0.0.1 1 2\r\n".to_vec(),
            b"PROXY \xff\r\n".to_vec(),
            [&b"PROXY "[..], &[b'x'; 200]].concat(),
        ] {
            assert_eq!(parse(&bytes), Err(BadProxyHeader), "{bytes:?}");
        }
    }
}

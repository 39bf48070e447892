//! Statements of a reverse proxy about its client: headers of a request, and the PROXY protocol in front of a connection.

use std::net::IpAddr;

use taut_wire::forwarded::{ForwardedClient, client};
use taut_wire::proxy::{self, ProxyHeader};

/// The address that every proxy here adds at the right end.
const REAL: [u8; 4] = [192, 0, 2, 7];

/// Headers, a line each: `F` and `X` begin the headers that are read. No header of a client outweighs the address that the last proxy adds.
pub(crate) fn headers(data: &[u8]) {
    let lines = |kind: u8| move |line: &&[u8]| line.first() == Some(&kind);
    let read: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    let of = |kind| read.iter().copied().filter(lines(kind)).map(|line| &line[1..]).collect::<Vec<_>>();
    let (standard, usual) = (of(b'F'), of(b'X'));
    let claim = |standard: &[&[u8]], usual: &[&[u8]]| client(standard.iter().copied(), usual.iter().copied(), is_proxy);
    let real = ForwardedClient::Client(IpAddr::from(REAL));

    if let ForwardedClient::Client(address) = claim(&standard, &usual) {
        assert_eq!(address, address.to_canonical());
    }
    // A proxy that adds a header line.
    assert_eq!(claim(&[standard.as_slice(), &[b"for=192.0.2.7"]].concat(), &[]), real);
    assert_eq!(claim(&[], &[usual.as_slice(), &[b"192.0.2.7"], &[b"10.0.0.1, 10.0.0.2"]].concat()), real);
    // A proxy that extends the client's line. An open quote in that line may hide the proxy's address, but cannot replace it.
    for line in &standard {
        let line = [line, &b", for=\"192.0.2.7:443\";proto=https"[..]].concat();
        let found = claim(&[&line], &[]);
        assert!(found == real || found == ForwardedClient::Unclear, "{found:?}");
    }
    for line in &usual {
        assert_eq!(claim(&[], &[&[line, &b", 192.0.2.7"[..]].concat()]), real);
    }
}

fn is_proxy(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(address) if address.octets()[0] == 10)
}

/// The beginning of a connection, byte by byte: later bytes do not change a decision.
pub(crate) fn start(data: &[u8]) {
    let mut decided = None;
    for length in 0..=data.len() {
        let now = proxy::parse(&data[..length]);
        if let Some(decided) = decided {
            assert_eq!(now, decided, "changed at byte {length}");
        } else if now != Ok(ProxyHeader::Partial) {
            decided = Some(now);
        } else {
            assert!(length < proxy::MAX, "a decision is still open after the maximum length of a header");
        }
        if let Ok(ProxyHeader::Complete { length: header, .. }) = now {
            assert!(header <= length && header <= proxy::MAX);
        }
    }
}

/// Seeds for [`headers`].
pub(crate) fn header_seeds() -> Vec<Vec<u8>> {
    let texts = [
        "X203.0.113.7\nX203.0.113.8, 10.0.0.2",
        "Ffor=192.0.2.60;proto=http;by=203.0.113.43\nFfor=\"[2001:db8:cafe::17]:4711\", for=_hidden",
        "Ffor=\"unended, for=unknown\nX, [2001:db8::1]:1,::ffff:9.9.9.9",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Seeds for [`start`].
pub(crate) fn start_seeds() -> Vec<Vec<u8>> {
    let binary = [
        &b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0f\xcb\0\x71\x07\x0a\0\0\x01\x9c\x40\x01\xbb"[..],
        b"\x04\0\0GET / HTTP/1.1\r\n\r\n",
    ];
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0".to_vec();
    let line = b"PROXY TCP6 2001:db8::7 2001:db8::1 40000 443\r\nGET / HTTP/1.1\r\n\r\n".to_vec();
    vec![binary.concat(), local, line, b"PROXY UNKNOWN\r\n".to_vec(), b"POST / HTTP/1.1\r\n\r\n".to_vec()]
}

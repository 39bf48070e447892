//! SOCKS5 (RFC 1928), the server's side, without authentication: who may connect is decided by the address that the proxy listens on.
//!
//! ```text
//! client: 5, number of methods, methods     proxy: 5, method (0: none needed, 255: none accepted)
//! client: 5, command, 0, kind, address, port     proxy: 5, code (0: done), 0, kind, address, port
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::{Host, Parsed, Refusal, Target};

/// The version of the protocol.
const VERSION: u8 = 5;
/// The method without authentication.
const NO_AUTHENTICATION: u8 = 0;
/// The command of a TCP connection.
const CONNECT: u8 = 1;
/// Kinds of addresses.
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// Longest request, 262 bytes: four bytes, a name of 255 with its length, and the port. A greeting has at most 257.
pub const MAX_REQUEST: usize = 262;

/// The answer to a greeting: connections need no authentication.
pub const ACCEPTED: [u8; 2] = [VERSION, NO_AUTHENTICATION];
/// The answer to a client that wants authentication and nothing else.
pub const NOT_ACCEPTED: [u8; 2] = [VERSION, 0xff];

/// Reads a greeting. The value is true if the client does without authentication.
pub fn greeting(bytes: &[u8]) -> Parsed<bool, Refusal> {
    match bytes {
        [] => Parsed::More,
        [VERSION] => Parsed::More,
        [VERSION, count, rest @ ..] => match rest.get(..usize::from(*count)) {
            None => Parsed::More,
            Some(methods) => Parsed::Done(methods.contains(&NO_AUTHENTICATION), 2 + methods.len()),
        },
        _ => Parsed::Wrong(Refusal::Malformed),
    }
}

/// Reads a request for a connection.
pub fn request(bytes: &[u8]) -> Parsed<Target, Refusal> {
    let [version, rest @ ..] = bytes else { return Parsed::More };
    if *version != VERSION {
        return Parsed::Wrong(Refusal::Malformed);
    }
    let [command, _, kind, rest @ ..] = rest else { return Parsed::More };
    if *command != CONNECT {
        return Parsed::Wrong(Refusal::Unsupported);
    }
    let Some((host, length)) = host(*kind, rest) else {
        return if matches!(*kind, IPV4 | NAME | IPV6) { Parsed::More } else { Parsed::Wrong(Refusal::Malformed) };
    };
    let Some(port) = rest.get(length..).and_then(<[u8]>::first_chunk) else { return Parsed::More };
    match (host, u16::from_be_bytes(*port)) {
        (None, _) | (_, 0) => Parsed::Wrong(Refusal::Malformed),
        (Some(host), port) => Parsed::Done(Target { host, port }, 4 + length + 2),
    }
}

/// Reads an address, and returns it with its length; the address is `None` if it is a name that cannot exist. `None` if bytes are missing or the kind is unknown.
fn host(kind: u8, bytes: &[u8]) -> Option<(Option<Host>, usize)> {
    let address = |address: IpAddr, length| Some((Some(Host::Address(address.to_canonical())), length));
    match kind {
        IPV4 => address(Ipv4Addr::from(*bytes.first_chunk::<4>()?).into(), 4),
        IPV6 => address(Ipv6Addr::from(*bytes.first_chunk::<16>()?).into(), 16),
        NAME => {
            let length = usize::from(*bytes.first()?);
            let name = bytes.get(1..=length)?;
            // Some clients write addresses as names; brackets belong to URLs alone.
            let text = std::str::from_utf8(name).ok().filter(|text| !text.starts_with('['));
            Some((text.and_then(Host::read), 1 + length))
        }
        _ => None,
    }
}

/// Returns the reply that the connection stands, from this address of the overlay.
pub fn connected(from: SocketAddr) -> Vec<u8> {
    reply(0, from)
}

/// Returns the reply that there is no connection.
pub fn refused(refusal: Refusal) -> Vec<u8> {
    reply(refusal.socks5(), SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))
}

fn reply(code: u8, address: SocketAddr) -> Vec<u8> {
    let mut reply = vec![VERSION, code, 0];
    match address.ip() {
        IpAddr::V4(ip) => {
            reply.push(IPV4);
            reply.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            reply.push(IPV6);
            reply.extend(ip.octets());
        }
    }
    reply.extend(address.port().to_be_bytes());
    reply
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn done(bytes: &[u8]) -> String {
        match request(bytes) {
            Parsed::Done(target, used) => format!("{target} after {used}"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn greetings_are_read() {
        assert_eq!(greeting(&[5, 1, 0]), Parsed::Done(true, 3));
        assert_eq!(greeting(&[5, 3, 1, 2, 0, 5]), Parsed::Done(true, 5), "the rest is the request");
        assert_eq!(greeting(&[5, 1, 2]), Parsed::Done(false, 3), "a client that insists on a password");
        assert_eq!(greeting(&[5, 0]), Parsed::Done(false, 2));
        assert_eq!(greeting(&[4, 1, 0, 80]), Parsed::Wrong(Refusal::Malformed), "SOCKS4");
        assert_eq!(greeting(b"GET /"), Parsed::Wrong(Refusal::Malformed), "HTTP");
        for short in [&[][..], &[5], &[5, 2, 0]] {
            assert_eq!(greeting(short), Parsed::More);
        }
    }

    #[test]
    fn requests_are_read() {
        assert_eq!(done(&[5, 1, 0, 1, 100, 64, 0, 2, 0, 22, 9]), "100.64.0.2:22 after 10");
        assert_eq!(done(b"\x05\x01\x00\x03\x03NAS\x01\xbb"), "nas:443 after 10");
        assert_eq!(done(b"\x05\x01\x00\x03\x09192.0.2.1\x00\x50"), "192.0.2.1:80 after 16", "an address as a name");
        let mut six = vec![5, 1, 0, 4];
        six.extend("fd00::2".parse::<Ipv6Addr>().unwrap().octets());
        six.extend([0, 80]);
        assert_eq!(done(&six), "[fd00::2]:80 after 22");
        for (bytes, refusal) in [
            (&[5, 2, 0, 1][..], Refusal::Unsupported),
            (&[5, 3, 0, 1], Refusal::Unsupported),
            (&[5, 1, 0, 2], Refusal::Malformed),
            (&[5, 1, 0, 1, 1, 2, 3, 4, 0, 0], Refusal::Malformed),
            (&[5, 1, 0, 3, 0, 0, 80], Refusal::Malformed),
            (b"\x05\x01\x00\x03\x02a \x00\x50", Refusal::Malformed),
            (b"\x05\x01\x00\x03\x05[::1]\x00\x50", Refusal::Malformed),
            (&[4, 1], Refusal::Malformed),
        ] {
            assert_eq!(request(bytes), Parsed::Wrong(refusal), "{bytes:?}");
        }
    }

    #[test]
    fn replies_name_the_address() {
        assert_eq!(connected("100.64.0.1:1027".parse().unwrap()), [5, 0, 0, 1, 100, 64, 0, 1, 4, 3]);
        assert_eq!(connected("[fd00::1]:1".parse().unwrap()).len(), 22);
        assert_eq!(refused(Refusal::NoAnswer), [5, 4, 0, 1, 0, 0, 0, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm_and_more_is_never_asked_for_without_end(bytes in proptest::collection::vec(prop_oneof![0..6_u8, any::<u8>()], 0..300)) {
            for parsed in [greeting(&bytes).used(), request(&bytes).used()] {
                match parsed {
                    Some(used) => prop_assert!(used <= bytes.len() && used <= MAX_REQUEST),
                    None => prop_assert!(bytes.len() < MAX_REQUEST),
                }
            }
        }

        #[test]
        fn a_request_is_read_at_its_last_byte_and_not_before(name in "[a-z]{1,30}", port in 1..=u16::MAX, behind in any::<u8>()) {
            let mut bytes = vec![5, 1, 0, 3, u8::try_from(name.len()).unwrap()];
            bytes.extend(name.as_bytes());
            bytes.extend(port.to_be_bytes());
            for end in 0..bytes.len() {
                prop_assert_eq!(request(&bytes[..end]), Parsed::More);
            }
            let wanted = Parsed::Done(Target { host: Host::Name(name), port }, bytes.len());
            bytes.push(behind);
            prop_assert_eq!(request(&bytes), wanted);
        }
    }

    impl<T> Parsed<T, Refusal> {
        /// Returns the number of bytes that were used, 0 for a wrong message; `None` if more are needed.
        fn used(self) -> Option<usize> {
            match self {
                Self::More => None,
                Self::Done(_, used) => Some(used),
                Self::Wrong(_) => Some(0),
            }
        }
    }
}

//! What a client says before its connection stands, by the protocol of the service that it connected to. Pure: bytes in, a step out.

use std::net::SocketAddr;

use taut_proxy::{Parsed, Refusal, Target, http, socks5};

/// The protocol of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// SOCKS5, before or after the greeting.
    Socks5 {
        /// True after the greeting.
        greeted: bool,
    },
    /// HTTP; `tunnel` is true for `CONNECT`, whose client waits for a response.
    Http {
        /// True once `CONNECT` was read.
        tunnel: bool,
    },
    /// A port forward: nothing is said.
    None,
}

/// The next step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// More bytes are needed.
    Wait,
    /// Send this, and go on.
    Say(Vec<u8>),
    /// Connect there, and send these bytes first.
    Connect(Target, Vec<u8>),
    /// Send this, and end.
    End(Vec<u8>),
}

/// Longest handshake.
pub(crate) const MAX_HANDSHAKE: usize = http::MAX_HEAD;

impl Protocol {
    /// Reads what a client said, and takes it out of `received`.
    pub(crate) fn hear(&mut self, received: &mut Vec<u8>) -> Step {
        match self {
            Self::None => Step::Wait,
            Self::Socks5 { greeted: greeted @ false } => match socks5::greeting(received) {
                Parsed::More => Step::Wait,
                Parsed::Wrong(_) => Step::End(Vec::new()),
                Parsed::Done(false, _) => Step::End(socks5::NOT_ACCEPTED.to_vec()),
                Parsed::Done(true, used) => {
                    *greeted = true;
                    received.drain(..used);
                    Step::Say(socks5::ACCEPTED.to_vec())
                }
            },
            Self::Socks5 { .. } => match socks5::request(received) {
                Parsed::More => Step::Wait,
                Parsed::Wrong(refusal) => Step::End(self.refused(refusal)),
                Parsed::Done(target, used) => {
                    received.drain(..used);
                    Step::Connect(target, Vec::new())
                }
            },
            Self::Http { tunnel } => match http::request(received) {
                Parsed::More => Step::Wait,
                Parsed::Wrong(refusal) => Step::End(self.refused(refusal)),
                Parsed::Done(request, used) => {
                    *tunnel = request.head.is_none();
                    received.drain(..used);
                    Step::Connect(request.target, request.head.unwrap_or_default())
                }
            },
        }
    }

    /// Returns what the client is told once its connection stands, from this address of the overlay.
    pub(crate) fn connected(&self, from: SocketAddr) -> Vec<u8> {
        match self {
            Self::Socks5 { .. } => socks5::connected(from),
            Self::Http { tunnel: true } => http::CONNECTED.to_vec(),
            Self::Http { tunnel: false } | Self::None => Vec::new(),
        }
    }

    /// Returns what the client is told if there is no connection; nothing if the protocol has no words for it, and the connection is reset.
    pub(crate) fn refused(&self, refusal: Refusal) -> Vec<u8> {
        match self {
            Self::Socks5 { greeted: false } => socks5::NOT_ACCEPTED.to_vec(),
            Self::Socks5 { greeted: true } => socks5::refused(refusal),
            Self::Http { .. } => http::refused(refusal),
            Self::None => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_of_socks5_may_send_all_at_once() {
        let mut protocol = Protocol::Socks5 { greeted: false };
        let mut received = b"\x05\x01\x00\x05\x01\x00\x03\x03nas\x00\x16SSH".to_vec();
        assert_eq!(protocol.hear(&mut received), Step::Say(vec![5, 0]));
        assert_eq!(protocol.hear(&mut received), Step::Connect("nas:22".parse().unwrap(), Vec::new()));
        assert_eq!(received, b"SSH", "the rest is for the server");
        assert_eq!(protocol.refused(Refusal::Refused)[..2], [5, 5]);
        let mut protocol = Protocol::Socks5 { greeted: false };
        assert_eq!(protocol.hear(&mut vec![5, 1, 2]), Step::End(vec![5, 255]));
        assert_eq!(protocol.hear(&mut b"GET".to_vec()), Step::End(Vec::new()));
    }

    #[test]
    fn a_request_of_http_is_passed_on_without_a_response_of_the_proxy() {
        let own = "100.64.0.1:1".parse().unwrap();
        let mut protocol = Protocol::Http { tunnel: false };
        let mut received = b"GET http://nas/ HTTP/1.1\r\n\r\nbody".to_vec();
        let Step::Connect(target, head) = protocol.hear(&mut received) else { panic!() };
        assert_eq!((target.to_string(), &received[..]), (String::from("nas:80"), &b"body"[..]));
        assert!(head.starts_with(b"GET / HTTP/1.1\r\n") && protocol.connected(own).is_empty());
        let mut received = b"CONNECT nas:1 HTTP/1.1\r\n\r\n".to_vec();
        assert!(matches!(protocol.hear(&mut received), Step::Connect(_, head) if head.is_empty()));
        assert!(protocol.connected(own).starts_with(b"HTTP/1.1 200 "));
    }
}

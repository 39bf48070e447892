//! The reasons why a proxy does not connect.

use std::fmt;

/// The reason why a connection into the overlay was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request is not one of the protocol.
    Malformed,
    /// The protocol has the command, and this proxy does not.
    Unsupported,
    /// The destination is outside of the overlay.
    Outside,
    /// No node and no record of the network has this name.
    UnknownName,
    /// The destination refused the connection: nothing listens on the port.
    Refused,
    /// The destination did not answer in time: the node is away, or its policy drops the packets.
    NoAnswer,
    /// This client, or all clients together, have as many connections as they may have.
    TooMany,
    /// The network is down.
    Down,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Malformed,
        Self::Unsupported,
        Self::Outside,
        Self::UnknownName,
        Self::Refused,
        Self::NoAnswer,
        Self::TooMany,
        Self::Down,
    ];

    /// Returns the code of a SOCKS5 reply (RFC 1928, section 6).
    pub fn socks5(self) -> u8 {
        match self {
            Self::Malformed | Self::TooMany => 0x01,
            Self::Outside => 0x02,
            Self::Down => 0x03,
            Self::UnknownName | Self::NoAnswer => 0x04,
            Self::Refused => 0x05,
            Self::Unsupported => 0x07,
        }
    }

    /// Returns the status of an HTTP response, with its phrase.
    pub fn http(self) -> (u16, &'static str) {
        match self {
            Self::Malformed => (400, "Bad Request"),
            Self::Unsupported => (501, "Not Implemented"),
            Self::Outside => (403, "Forbidden"),
            Self::UnknownName | Self::Refused => (502, "Bad Gateway"),
            Self::NoAnswer => (504, "Gateway Timeout"),
            Self::TooMany | Self::Down => (503, "Service Unavailable"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "this is no request that the proxy understands",
            Self::Unsupported => "the proxy connects TCP only (CONNECT)",
            Self::Outside => "the destination is outside of the overlay, and this proxy leads nowhere else",
            Self::UnknownName => "no node of the network has this name (`taut status` lists them)",
            Self::Refused => "the node refused the connection: nothing listens on this port",
            Self::NoAnswer => "no answer: the node is away, or its policy does not let this node in (`taut why NODE`)",
            Self::TooMany => "too many connections; close some",
            Self::Down => "the network is down (`taut status` says why)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_is_an_error_in_both_protocols() {
        for refusal in Refusal::ALL {
            assert!((1..=8).contains(&refusal.socks5()), "{refusal:?}");
            assert!((400..600).contains(&refusal.http().0), "{refusal:?}");
            assert!(!refusal.to_string().is_empty());
        }
    }
}

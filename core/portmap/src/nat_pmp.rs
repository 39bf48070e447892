//! The NAT Port Mapping Protocol (RFC 6886), for UDP.
//!
//! ```text
//! address?   0  0                                                       → 0  128  result (2)  epoch (4)  address (4)
//! map        0  1  0 0  inner port (2)  outer port (2)  lifetime (4)    → 0  129  result (2)  epoch (4)  inner (2)  outer (2)  lifetime (4)
//! ```
//! Integers are big-endian. A gateway that speaks only NAT-PMP answers a PCP request in this form, with a result that says so.

use std::fmt;
use std::net::Ipv4Addr;

use crate::bytes::{u16_at, u32_at};

/// The request for the gateway's outer address.
pub const ADDRESS_REQUEST: [u8; 2] = [0, 0];

const VERSION: u8 = 0;
const ADDRESS: u8 = 0;
const MAP_UDP: u8 = 1;
const RESPONSE: u8 = 128;

/// Returns a request to map our `port` for `lifetime` seconds, to the outer port `suggested` if that is free; with both 0, a request to end the
/// mapping.
pub fn map_request(port: u16, suggested: u16, lifetime: u32) -> [u8; 12] {
    let ([a, b], [c, d], [e, f, g, h]) = (port.to_be_bytes(), suggested.to_be_bytes(), lifetime.to_be_bytes());
    [VERSION, MAP_UDP, 0, 0, a, b, c, d, e, f, g, h]
}

/// A response of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// The result code.
    pub result: ResultCode,
    /// Seconds since the gateway last lost its mappings.
    pub epoch: u32,
    /// The subject of the response.
    pub body: Body,
}

/// The subject of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// The gateway's outer address; unspecified after an error.
    Address(Ipv4Addr),
    /// A mapping.
    Map {
        /// This host's port.
        port: u16,
        /// The outer port.
        outside: u16,
        /// The lifetime in seconds.
        lifetime: u32,
    },
    /// An error for a request that was not made in this protocol: a PCP request that was not understood.
    Other,
}

impl Response {
    /// Reads a response. Returns `None` if it is not one of this version.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..8)?;
        let (result, operation) = (ResultCode(u16_at(header, 2)), header[1]);
        if header[0] != VERSION || operation < RESPONSE {
            return None;
        }
        let body = match operation - RESPONSE {
            ADDRESS if result.is_success() => Body::Address(Ipv4Addr::from(u32_at(bytes.get(8..12)?, 0))),
            ADDRESS => Body::Address(Ipv4Addr::UNSPECIFIED),
            // A PCP request for a mapping has the same opcode; its error is shorter.
            MAP_UDP if bytes.len() >= 16 => {
                Body::Map { port: u16_at(bytes, 8), outside: u16_at(bytes, 10), lifetime: u32_at(bytes, 12) }
            }
            _ if result.is_success() => return None,
            _ => Body::Other,
        };
        Some(Self { result, epoch: u32_at(header, 4), body })
    }
}

/// A result code (RFC 6886 section 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultCode(pub u16);

impl ResultCode {
    /// "Unsupported version": the answer to a PCP request of a gateway that speaks only NAT-PMP.
    pub const UNSUPPORTED_VERSION: Self = Self(1);

    /// Returns true on success.
    pub fn is_success(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for ResultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            0 => "success",
            1 => "it does not speak this version",
            2 => "not authorised: port mapping is disabled there, or not allowed for this host",
            3 => "its own network is not up",
            4 => "it has no room for more mappings",
            5 => "it does not support the request",
            code => return write!(f, "result code {code}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_responses() {
        let address = [0, 128, 0, 0, 0, 0, 0, 9, 203, 0, 113, 9];
        let body = Body::Address([203, 0, 113, 9].into());
        assert_eq!(Response::parse(&address), Some(Response { result: ResultCode(0), epoch: 9, body }));
        let map = [0, 129, 0, 0, 0, 0, 0, 9, 0x20, 0x60, 0x23, 0x28, 0, 0, 0x1c, 0x20];
        let body = Body::Map { port: 8288, outside: 9000, lifetime: 7_200 };
        assert_eq!(Response::parse(&map), Some(Response { result: ResultCode(0), epoch: 9, body }));
    }

    #[test]
    fn a_truncated_success_is_rejected() {
        for whole in
            [&[0, 128, 0, 0, 0, 0, 0, 9, 203, 0, 113, 9][..], &[0, 129, 0, 0, 0, 0, 0, 9, 0, 1, 0, 1, 0, 0, 0, 1]]
        {
            for length in 0..whole.len() {
                assert_eq!(Response::parse(&whole[..length]), None, "{length}");
            }
        }
    }

    #[test]
    fn errors_may_be_short() {
        for operation in [128, 129, 130] {
            let response = Response::parse(&[0, operation, 0, 2, 0, 0, 0, 1]).unwrap();
            assert_eq!(response.result, ResultCode(2));
        }
        assert_eq!(Response::parse(&[2, 129, 0, 1, 0, 0, 0, 1]), None, "that is PCP");
        assert_eq!(Response::parse(&[0, 1, 0, 2, 0, 0, 0, 1]), None, "that is a request");
    }
}

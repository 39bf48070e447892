//! The Port Control Protocol (RFC 6887), version 2: the MAP operation without options, for UDP and IPv4.
//!
//! ```text
//! request   2  opcode  0 0  lifetime (4)  client address (16)
//! response  2  opcode | 0x80  0  result  lifetime (4)  epoch (4)  0 × 12
//! MAP       nonce (12)  protocol  0 × 3  inner port (2)  outer port (2)  outer address (16)
//! ```
//! Integers are big-endian, IPv4 addresses are written as `::ffff:a.b.c.d`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};

use crate::bytes::{u16_at, u32_at};

/// The gateway's UDP port (RFC 6887 section 19), which it shares with NAT-PMP.
pub const PORT: u16 = 5351;

/// Length in bytes of a MAP request, and of its response without options.
pub const MAP_LEN: usize = 60;

/// Longest message in bytes (RFC 6887 section 7).
pub const MAX_LEN: usize = 1_100;

const VERSION: u8 = 2;
const MAP: u8 = 1;
const RESPONSE: u8 = 0x80;
/// The IANA number of UDP.
const UDP: u8 = 17;
const HEADER: usize = 24;

/// Identifies a mapping of this host, so that only a host that sees the request can answer it.
pub type Nonce = [u8; 12];

/// A request for a mapping; with a lifetime of 0, for its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The lifetime in seconds.
    pub lifetime: u32,
    /// The address that the request is sent from; the gateway refuses another one.
    pub client: Ipv4Addr,
    /// The nonce, the same for the whole life of a mapping.
    pub nonce: Nonce,
    /// This host's port.
    pub port: u16,
    /// The suggested outer endpoint; unspecified parts leave the choice to the gateway.
    pub suggested: SocketAddrV4,
}

impl Request {
    /// Returns the request as bytes.
    pub fn write(&self) -> [u8; MAP_LEN] {
        let mut bytes = [0; MAP_LEN];
        bytes[..2].copy_from_slice(&[VERSION, MAP]);
        bytes[4..8].copy_from_slice(&self.lifetime.to_be_bytes());
        bytes[8..24].copy_from_slice(&self.client.to_ipv6_mapped().octets());
        bytes[24..36].copy_from_slice(&self.nonce);
        bytes[36] = UDP;
        bytes[40..42].copy_from_slice(&self.port.to_be_bytes());
        bytes[42..44].copy_from_slice(&self.suggested.port().to_be_bytes());
        bytes[44..60].copy_from_slice(&self.suggested.ip().to_ipv6_mapped().octets());
        bytes
    }
}

/// A response of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// The result code.
    pub result: ResultCode,
    /// Seconds that the mapping lives; after an error, seconds in which another request is useless.
    pub lifetime: u32,
    /// Seconds since the gateway last lost its mappings.
    pub epoch: u32,
    /// The mapping that the response is about; `None` for an error in short form.
    pub map: Option<Map>,
}

/// The part of a response about one mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    /// The nonce of the request.
    pub nonce: Nonce,
    /// This host's port.
    pub port: u16,
    /// The outer endpoint.
    pub outside: SocketAddr,
}

impl Response {
    /// Reads a response. Returns `None` if it is not a response of this version to a MAP for UDP.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > MAX_LEN || !bytes.len().is_multiple_of(4) {
            return None;
        }
        let header = bytes.get(..HEADER)?;
        if header[0] != VERSION || header[1] != RESPONSE | MAP {
            return None;
        }
        let result = ResultCode(header[3]);
        let map = bytes.get(HEADER..MAP_LEN).map(Map::parse);
        match map {
            // A response about another protocol, or a success without a mapping, is ignored.
            Some(None) => None,
            None if result.is_success() => None,
            map => Some(Self { result, lifetime: u32_at(header, 4), epoch: u32_at(header, 8), map: map.flatten() }),
        }
    }
}

impl Map {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut nonce = Nonce::default();
        nonce.copy_from_slice(&bytes[..12]);
        let mut address = [0; 16];
        address.copy_from_slice(&bytes[20..36]);
        let outside = SocketAddr::new(IpAddr::from(Ipv6Addr::from(address)).to_canonical(), u16_at(bytes, 18));
        (bytes[12] == UDP).then_some(Self { nonce, port: u16_at(bytes, 16), outside })
    }
}

/// A result code (RFC 6887 section 7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultCode(pub u8);

impl ResultCode {
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
            3 | 5 | 6 => "it did not understand the request",
            4 => "it does not support the request",
            7 => "its own network is not up",
            8 => "it has no room for more mappings",
            9 => "it does not map UDP",
            10 => "this host has too many mappings",
            11 => "it cannot provide the requested port",
            12 => "another NAT is between this host and it",
            13 => "too many remote peers",
            code => return write!(f, "result code {code}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A success for port 8288, as in RFC 6887 section 11.1.
    fn success() -> [u8; MAP_LEN] {
        let suggested = "203.0.113.9:9000".parse().unwrap();
        let request =
            Request { lifetime: 3_600, client: [192, 168, 1, 5].into(), nonce: [7; 12], port: 8288, suggested };
        let mut bytes = request.write();
        bytes[1] |= RESPONSE;
        bytes[8..24].fill(0);
        bytes[8..12].copy_from_slice(&77_u32.to_be_bytes());
        bytes
    }

    #[test]
    fn a_response_is_read_as_it_is_written_down() {
        let response = Response::parse(&success()).unwrap();
        let outside = "203.0.113.9:9000".parse().unwrap();
        let map = Some(Map { nonce: [7; 12], port: 8288, outside });
        assert_eq!(response, Response { result: ResultCode(0), lifetime: 3_600, epoch: 77, map });
    }

    #[test]
    fn only_responses_to_a_map_are_read() {
        let good = success();
        for (place, value) in [(0, 0), (0, 1), (0, 3), (1, 1), (1, 0x82), (36, 6)] {
            let mut bad = good;
            bad[place] = value;
            assert_eq!(Response::parse(&bad), None, "{place}");
        }
        for length in 0..MAP_LEN {
            assert_eq!(Response::parse(&good[..length]), None, "{length}");
        }
        assert_eq!(Response::parse(&[good.as_slice(), &[0; MAX_LEN]].concat()), None);
    }

    #[test]
    fn an_error_may_be_short_and_each_has_words() {
        let mut short = success()[..HEADER].to_vec();
        for code in 1..=255 {
            short[3] = code;
            let response = Response::parse(&short).unwrap();
            assert!(response.map.is_none() && !response.result.is_success());
            assert!(!response.result.to_string().is_empty());
        }
    }
}

//! Endpoints that a node tells a peer directly: sealed, on any path, and earlier than through the coordinator.
//!
//! ```text
//! endpoints  6  count  nat  0  serial (4)  heard (4)  0 × 4  count × (address (16)  port (2))   32 to 160 bytes
//! ```
//! Retransmitted until the peer has sent the `serial` back as `heard`. An older list that arrives late is ignored.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::{BadControl, ENDPOINTS, MAX, SHORT};
use crate::bytes::array;

/// Limit on the endpoints of one message, 8: the number tried for a handshake (protocol.md 2.1), and a bound on the probes that a list can cause.
pub const MAX_ENDPOINTS: usize = 8;

/// Offset of the endpoints.
const LIST: usize = 16;

/// Length of an endpoint, 18 bytes: address and port.
const ONE: usize = 18;

/// Endpoints at which the sender may be reachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// Number of the list. The next list has the next number, which wraps to 0.
    pub serial: u32,
    /// Number of the latest list that the sender received from the peer; 0 if none.
    pub heard: u32,
    /// Kind of the NAT in front of the sender, as a number of `taut_path::Nat`; 0 if unknown.
    pub nat: u8,
    count: u8,
    /// The endpoints as on the wire, which takes half the memory of socket addresses: messages wait in queues.
    list: [[u8; ONE]; MAX_ENDPOINTS],
}

impl Endpoints {
    /// Returns a list of the first [`MAX_ENDPOINTS`] endpoints. Endpoints with port 0 are omitted.
    pub fn new(serial: u32, heard: u32, nat: u8, endpoints: impl IntoIterator<Item = SocketAddr>) -> Self {
        let mut message = Self { serial, heard, nat, count: 0, list: [[0; ONE]; MAX_ENDPOINTS] };
        let usable = endpoints.into_iter().filter(|endpoint| endpoint.port() != 0);
        for (place, endpoint) in message.list.iter_mut().zip(usable) {
            let address = match endpoint.ip() {
                IpAddr::V4(address) => address.to_ipv6_mapped(),
                IpAddr::V6(address) => address,
            };
            place[..16].copy_from_slice(&address.octets());
            place[16..].copy_from_slice(&endpoint.port().to_le_bytes());
            message.count += 1;
        }
        message
    }

    /// Returns the endpoints. The caller has to check whether packets may be sent there.
    pub fn list(&self) -> impl Iterator<Item = SocketAddr> {
        self.list.iter().take(usize::from(self.count)).filter_map(read)
    }

    pub(super) fn write(&self, out: &mut [u8; MAX]) -> usize {
        out[..3].copy_from_slice(&[ENDPOINTS, self.count, self.nat]);
        out[4..8].copy_from_slice(&self.serial.to_le_bytes());
        out[8..12].copy_from_slice(&self.heard.to_le_bytes());
        for (place, one) in out[LIST..].chunks_exact_mut(ONE).zip(&self.list).take(usize::from(self.count)) {
            place.copy_from_slice(one);
        }
        message_len(self.count)
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, BadControl> {
        let [_, count, nat, ..] = *bytes else { return Err(BadControl) };
        let serial = array(bytes, 4).map(|field| u32::from_le_bytes(*field)).ok_or(BadControl)?;
        let heard = array(bytes, 8).map(|field| u32::from_le_bytes(*field)).ok_or(BadControl)?;
        if usize::from(count) > MAX_ENDPOINTS {
            return Err(BadControl);
        }
        let listed = bytes.get(LIST..message_len(count)).ok_or(BadControl)?;
        let endpoints = listed.as_chunks::<ONE>().0.iter().take(usize::from(count)).filter_map(read);
        Ok(Self::new(serial, heard, nat, endpoints))
    }
}

fn read(one: &[u8; ONE]) -> Option<SocketAddr> {
    let address = Ipv6Addr::from(*array::<16>(one, 0)?);
    let port = u16::from_le_bytes(*array(one, 16)?);
    Some(SocketAddr::new(address.to_canonical(), port))
}

/// Returns the length of a message with `count` endpoints, a multiple of 16 as of all sealed packets.
fn message_len(count: u8) -> usize {
    (LIST + ONE * usize::from(count)).next_multiple_of(SHORT)
}

#[cfg(test)]
mod tests {
    use super::super::ControlMessage;
    use super::*;

    fn endpoint(number: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], number))
    }

    #[test]
    fn lists_of_every_length_are_read_as_written() {
        for count in 0..=8 {
            let message = ControlMessage::Endpoints(Endpoints::new(7, u32::MAX, 3, (1..=count).map(endpoint)));
            let mut bytes = [0xee; MAX];
            let length = message.write(&mut bytes);
            assert_eq!(length % 16, 0);
            assert_eq!(ControlMessage::parse(&bytes[..length]), Ok(message));
        }
        assert_eq!([0, 1, 8].map(message_len), [16, 48, 160]);
    }

    #[test]
    fn fault_d10_a_list_is_never_longer_than_the_limit() {
        let many = Endpoints::new(1, 0, 0, (0..1000).map(endpoint));
        assert_eq!(many.list().count(), MAX_ENDPOINTS);
        assert_eq!(many.list().next(), Some(endpoint(1)), "port 0 is nowhere");
        let mut bytes = [0; 512];
        bytes[..2].copy_from_slice(&[ENDPOINTS, 9]);
        assert_eq!(ControlMessage::parse(&bytes), Err(BadControl));
        bytes[1] = 8;
        let Ok(ControlMessage::Endpoints(parsed)) = ControlMessage::parse(&bytes) else { panic!("a list") };
        assert_eq!(parsed.list().count(), 0, "eight times nowhere");
    }
}

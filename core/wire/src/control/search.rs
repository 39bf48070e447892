//! A request that the peer probes a range of ports, because the sender's NAT maps each destination to another port.
//!
//! ```text
//! search  7  step  port (2)  ports (2)  sockets (2)  0 × 8  address (16)     32 bytes
//! ```
//! The receiver limits the probes by its own budget (protocol.md 5.6).

use core::net::SocketAddr;

use super::{BadControl, LONG, MAX, SEARCH, array, read_endpoint, write_endpoint};

/// Ports that the sender's NAT may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// The NAT's address and the first port. The caller has to check whether packets may be sent there.
    pub from: SocketAddr,
    /// Distance from each port to the next; 0 for random ports.
    pub step: u8,
    /// Number of ports.
    pub ports: u16,
    /// Number of sockets that the sender opens for the search; 0 if it uses only the socket of its first lane. For users.
    pub sockets: u16,
}

impl Search {
    pub(super) fn write(&self, out: &mut [u8; MAX]) -> usize {
        out[..2].copy_from_slice(&[SEARCH, self.step]);
        out[4..6].copy_from_slice(&self.ports.to_le_bytes());
        out[6..8].copy_from_slice(&self.sockets.to_le_bytes());
        write_endpoint(self.from, out);
        LONG
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, BadControl> {
        let number = |place| array(bytes, place).map(|field| u16::from_le_bytes(*field)).ok_or(BadControl);
        let step = *bytes.get(1).ok_or(BadControl)?;
        Ok(Self { from: read_endpoint(bytes)?, step, ports: number(4)?, sockets: number(6)? })
    }
}

#[cfg(test)]
mod tests {
    use super::super::ControlMessage;
    use super::*;

    #[test]
    fn the_fields_are_where_the_document_says() {
        let from = SocketAddr::from(([192, 0, 2, 1], 0x1234));
        let message = ControlMessage::Search(Search { from, step: 3, ports: 0x0506, sockets: 0x0708 });
        let mut bytes = [0xee; MAX];
        assert_eq!(message.write(&mut bytes), LONG);
        assert_eq!(bytes[..16], [7, 3, 0x34, 0x12, 6, 5, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[26..32], [0xff, 0xff, 192, 0, 2, 1]);
        assert_eq!(ControlMessage::parse(&bytes[..LONG]), Ok(message));
    }
}

//! Asking a peer to probe ports that nobody could tell it: the sender's NAT gives each destination another one.
//!
//! ```text
//! search  7  step  port (2)  ports (2)  sockets (2)  0 × 8  address (16)     32 bytes
//! ```
//! What a receiver sends for it is bounded by its own budget (protocol.md 5.6), and by what it wants itself.

use core::net::SocketAddr;

use super::{BadControl, LONG, MAX, SEARCH, array, place, write_place};

/// Which ports the sender may be behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// The NAT's address, and the first port. Nobody has looked yet at whether packets may be sent there.
    pub from: SocketAddr,
    /// From each port to the next one; 0: any ports, drawn at random.
    pub step: u8,
    /// How many ports.
    pub ports: u16,
    /// Sockets that the sender opens for it; 0 when only the one of its first lane is to be found. For people.
    pub sockets: u16,
}

impl Search {
    pub(super) fn write(&self, out: &mut [u8; MAX]) -> usize {
        out[..2].copy_from_slice(&[SEARCH, self.step]);
        out[4..6].copy_from_slice(&self.ports.to_le_bytes());
        out[6..8].copy_from_slice(&self.sockets.to_le_bytes());
        write_place(self.from, out);
        LONG
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, BadControl> {
        let number = |place| array(bytes, place).map(|field| u16::from_le_bytes(*field)).ok_or(BadControl);
        let step = *bytes.get(1).ok_or(BadControl)?;
        Ok(Self { from: place(bytes)?, step, ports: number(4)?, sockets: number(6)? })
    }
}

#[cfg(test)]
mod tests {
    use super::super::ControlMessage;
    use super::*;

    #[test]
    fn it_stands_where_the_document_says() {
        let from = SocketAddr::from(([192, 0, 2, 1], 0x1234));
        let message = ControlMessage::Search(Search { from, step: 3, ports: 0x0506, sockets: 0x0708 });
        let mut bytes = [0xee; MAX];
        assert_eq!(message.write(&mut bytes), LONG);
        assert_eq!(bytes[..16], [7, 3, 0x34, 0x12, 6, 5, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[26..32], [0xff, 0xff, 192, 0, 2, 1]);
        assert_eq!(ControlMessage::parse(&bytes[..LONG]), Ok(message));
    }
}

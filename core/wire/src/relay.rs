//! The header of a peer's datagram that goes through a relay (protocol.md 6.1, docs/spec/relay.md). It names the receiver, or the sender.
//!
//! ```text
//! data   0x80  0 0 0  id (4, little-endian)  datagram
//! ```
//! The id is a number that the relay gave its client for one peer. It is in the client's frames to the peer and in the relay's frames from the peer. Every
//! frame of a relay begins with a byte of 0x80 or more, so none is a WireGuard message (types 1 to 4) or a STUN message (RFC 8489, section 5: two zero
//! bits).

/// The first byte of a frame that carries a datagram.
pub const DATA: u8 = 0x80;
/// The first byte of a client's bind message.
pub const BIND: u8 = 0x81;
/// The first byte of the answer to [`BIND`].
pub const BOUND: u8 = 0x82;
/// The first byte of a control message between client and relay, sealed with the keys of a bind.
pub const CONTROL: u8 = 0x83;
/// The first byte of a relay's request to bind again.
pub const AGAIN: u8 = 0x84;

/// Length of the header before a datagram, 8 bytes.
pub const HEADER: usize = 8;

/// Offset of the id.
const ID: usize = 4;

/// Returns the header of a datagram to or from the peer with this id.
pub const fn header(id: u32) -> [u8; HEADER] {
    let [a, b, c, d] = id.to_le_bytes();
    [DATA, 0, 0, 0, a, b, c, d]
}

/// Returns the id of a relayed datagram; `None` for any other bytes. The datagram follows the header and may be empty.
pub fn id(frame: &[u8]) -> Option<u32> {
    let header = frame.first_chunk::<HEADER>()?;
    if header[..ID] != [DATA, 0, 0, 0] {
        return None;
    }
    header.last_chunk().map(|id| u32::from_le_bytes(*id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for number in [0, 1, 0x0102_0304, u32::MAX] {
            let mut frame = [0xee; HEADER + 3];
            frame[..HEADER].copy_from_slice(&header(number));
            assert_eq!(id(&frame), Some(number));
            assert_eq!(frame[HEADER..], [0xee; 3]);
        }
        assert_eq!(header(0x0102_0304), [0x80, 0, 0, 0, 4, 3, 2, 1]);
    }

    #[test]
    fn other_bytes_are_not_a_relayed_datagram() {
        let mut frame = [0; 40];
        frame[..HEADER].copy_from_slice(&header(7));
        assert!((0..HEADER).all(|cut| id(&frame[..cut]).is_none()));
        for place in 0..ID {
            for bit in 0..8 {
                let mut other = frame;
                other[place] ^= 1 << bit;
                assert_eq!(id(&other), None, "byte {place}, bit {bit}");
            }
        }
    }
}

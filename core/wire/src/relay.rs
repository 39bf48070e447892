//! How datagrams of peers go by a relay (protocol.md 6.1, docs/spec/relay.md): each behind a header that says whom it is for, or whom it is from.
//!
//! ```text
//! data   0x80  0 0 0  id (4, little-endian)  datagram
//! ```
//! The id is a number that the relay gave its client for one peer. What a client sends to the peer has it, and what comes to the client from the peer. Every
//! frame of a relay begins with a byte of 0x80 or more, so none is a WireGuard message (types 1 to 4) or a STUN message (RFC 8489, section 5: two zero
//! bits).

/// The first byte of a frame that carries a datagram.
pub const DATA: u8 = 0x80;
/// The first byte of a client's question to be served.
pub const BIND: u8 = 0x81;
/// The first byte of the answer to [`BIND`].
pub const BOUND: u8 = 0x82;
/// The first byte of what client and relay say to each other under the keys of a bind.
pub const CONTROL: u8 = 0x83;
/// The first byte of a relay's wish to be asked again.
pub const AGAIN: u8 = 0x84;

/// Bytes in front of a datagram.
pub const HEADER: usize = 8;

/// Where the id stands.
const ID: usize = 4;

/// What stands in front of a datagram for, or from, the peer of this number.
pub const fn header(id: u32) -> [u8; HEADER] {
    let [a, b, c, d] = id.to_le_bytes();
    [DATA, 0, 0, 0, a, b, c, d]
}

/// The number in front of a relayed datagram; `None` for any other bytes. What follows the header is the datagram, perhaps empty.
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
    fn nothing_else_is_taken_for_a_relayed_datagram() {
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

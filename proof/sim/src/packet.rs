//! The inner packets of the simulated applications: ICMP echo requests that carry a number.

use std::net::IpAddr;

use taut_wire::icmp::{Echo, Kind};
use taut_wire::ip::Packet;

/// Bytes of the longest packet that an application sends, IP header included.
pub const MAX_PACKET: usize = 640;

/// IPv4 header, ICMP header and the number.
const SMALLEST: usize = 20 + 8 + 8;

/// The packet `number` from one overlay address to another. Length and contents follow from the number.
pub(crate) fn write(number: u64, source: IpAddr, destination: IpAddr) -> Vec<u8> {
    let length = SMALLEST + usize::try_from(number.wrapping_mul(37) % (MAX_PACKET - SMALLEST) as u64).unwrap_or(0);
    let mut payload = vec![number.to_le_bytes()[0]; length - SMALLEST + 8];
    payload[..8].copy_from_slice(&number.to_be_bytes());
    let echo = Echo { kind: Kind::Request, ident: 1, sequence: 1, payload: &payload };
    let mut packet = vec![0; length];
    let written = echo.write_packet(source, destination, &mut packet);
    assert_eq!(written, Ok(length), "the world's own packets are well formed");
    packet
}

/// The number of a packet that [`write()`] made; `None` for any other.
pub(crate) fn number(packet: &[u8]) -> Option<u64> {
    let echo = Echo::parse(&Packet::parse(packet).ok()?).ok()?;
    echo.payload.first_chunk().map(|number| u64::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_lengths_vary() {
        let addresses: [IpAddr; 2] = [[100, 64, 0, 1].into(), [100, 64, 0, 2].into()];
        let packets: Vec<Vec<u8>> = (0..2_000).map(|number| write(number, addresses[0], addresses[1])).collect();
        for (packet, expected) in packets.iter().zip(0..) {
            assert_eq!(number(packet), Some(expected));
        }
        assert_eq!(packets.iter().map(Vec::len).min(), Some(SMALLEST));
        assert_eq!(packets.iter().map(Vec::len).max(), Some(MAX_PACKET - 1));
    }
}

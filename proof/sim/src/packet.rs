//! The inner packets of the simulated applications: ICMP echo requests that carry a number, or datagrams of several flows.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use taut_wire::checksum::Sum;
use taut_wire::icmp::{Echo, EchoKind};
use taut_wire::ip::Packet;

/// Bytes of the longest packet that an application sends, IP header included, unless a world has other [`lengths`](crate::World::set_lengths).
pub const MAX_PACKET: usize = 640;

/// Bytes of the IPv4 header.
const IP: usize = 20;

/// Bytes of the ICMP or UDP header.
const HEADER: usize = 8;

/// Bytes of the shortest packet: both headers and the number.
const SMALLEST: usize = IP + HEADER + 8;

/// The lengths of packets, unless a world has others.
pub(crate) const LENGTHS: RangeInclusive<usize> = SMALLEST..=MAX_PACKET - 1;

/// Returns packet `number` from one overlay address to another. The number determines length and contents, and the flow, if there are several, the ports. No length is
/// shorter than the headers and the number.
pub(crate) fn write(number: u64, ends: [IpAddr; 2], flow: Option<u16>, lengths: &RangeInclusive<usize>) -> Vec<u8> {
    let [source, destination] = ends;
    let count = lengths.end() - lengths.start() + 1;
    let length = lengths.start() + usize::try_from(number.wrapping_mul(37) % count as u64).unwrap_or(0);
    let mut payload = vec![number.to_le_bytes()[0]; length - SMALLEST + 8];
    payload[..8].copy_from_slice(&number.to_be_bytes());
    let echo = Echo { kind: EchoKind::Request, ident: 1, sequence: 1, payload: &payload };
    let mut packet = vec![0; length];
    let written = echo.write_packet(source, destination, &mut packet);
    assert_eq!(written, Ok(length), "the world's own packets are well formed");
    if let Some(flow) = flow {
        make_datagram(&mut packet, FIRST_PORT + flow);
    }
    packet
}

/// Source port of the first flow.
const FIRST_PORT: u16 = 40_000;

/// Turns an echo request into a UDP datagram from this port, with the same payload.
fn make_datagram(packet: &mut [u8], port: u16) {
    let length = u16::try_from(packet.len() - IP).unwrap_or(0);
    packet[9] = 17;
    packet[10..12].fill(0);
    let sum = Sum::of(&packet[..IP]).checksum();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    for (place, value) in packet[IP..IP + HEADER].chunks_exact_mut(2).zip([port, 7, length, 0]) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

/// Returns the number of a packet that [`write()`] made, or `None` for any other packet.
pub(crate) fn number(packet: &[u8]) -> Option<u64> {
    let payload = Packet::parse(packet).ok()?.bytes().get(IP + HEADER..)?;
    payload.first_chunk().map(|number| u64::from_be_bytes(*number))
}

/// Returns the source address of a packet.
pub(crate) fn source(packet: &[u8]) -> Option<IpAddr> {
    Packet::parse(packet).ok().map(|packet| packet.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_lengths_vary() {
        let addresses: [IpAddr; 2] = [[100, 64, 0, 1].into(), [100, 64, 0, 2].into()];
        let packets: Vec<Vec<u8>> = (0..2_000).map(|number| write(number, addresses, None, &LENGTHS)).collect();
        for (packet, expected) in packets.iter().zip(0..) {
            assert_eq!(number(packet), Some(expected));
        }
        assert_eq!(packets.iter().map(Vec::len).min(), Some(SMALLEST));
        assert_eq!(packets.iter().map(Vec::len).max(), Some(MAX_PACKET - 1));
    }
}

//! The fields of an IPv4 packet that change when it is split or joined, and no others.

use std::net::Ipv4Addr;

use taut_wire::checksum::{Sum, pseudo_v4};
pub(crate) use taut_wire::ip::V4_HEADER;
use taut_wire::ip::{TCP, UDP};

/// First byte of an IPv4 packet without options: version 4 and a header of five words.
const PLAIN_V4: u8 = 0x45;
/// Bytes of a UDP header.
const UDP_HEADER: usize = 8;
/// Offset of the checksum in a TCP header.
pub(crate) const TCP_CHECKSUM: usize = 16;
/// TCP flags that only the last of several segments may have: FIN and PSH.
pub(crate) const LAST_ONLY: u8 = 0x09;

/// The protocol after the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransportProtocol {
    /// TCP with this sequence number.
    Tcp(u32),
    /// UDP.
    Udp,
    /// Any other protocol, or a fragment: the packet is carried unchanged.
    Other,
}

/// The fields of a packet that splitting and joining need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketLayout {
    /// The protocol after the IP header.
    pub(crate) transport: TransportProtocol,
    /// Bytes of the headers that each of its segments repeats.
    pub(crate) headers: usize,
    /// Bytes of the packet, headers included.
    pub(crate) length: usize,
}

impl PacketLayout {
    /// Reads the packet at the beginning of `bytes`. Returns `None` if it is not whole, not IPv4, or has IP options.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let ip = bytes.first_chunk::<V4_HEADER>()?;
        let length = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        if ip[0] != PLAIN_V4 || length > bytes.len() {
            return None;
        }
        let is_fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff != 0;
        let (transport, headers) = match ip[9] {
            TCP if !is_fragment => {
                let tcp = bytes.get(V4_HEADER..)?.first_chunk::<20>()?;
                let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
                (TransportProtocol::Tcp(sequence), V4_HEADER + 4 * usize::from(tcp[12] >> 4))
            }
            UDP if !is_fragment => (TransportProtocol::Udp, V4_HEADER + UDP_HEADER),
            _ => (TransportProtocol::Other, V4_HEADER),
        };
        // A TCP header has at least 20 bytes.
        let sound = headers <= length && (!matches!(transport, TransportProtocol::Tcp(_)) || headers >= 2 * V4_HEADER);
        sound.then_some(Self { transport, headers, length })
    }

    /// Returns the number of bytes after the headers.
    pub(crate) fn payload(&self) -> usize {
        self.length - self.headers
    }
}

/// Sets the packet's length in these headers, and the IP header's checksum. The length has 16 bits; a longer packet is a mistake of the caller, and the
/// receiver drops it.
pub(crate) fn set_length(headers: &mut [u8], length: usize) {
    headers[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    headers[10..12].fill(0);
    let checksum = Sum::of(&headers[..V4_HEADER]).checksum();
    headers[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// Makes the TCP checksum partial: its field contains the sum of the pseudo header alone.
pub(crate) fn leave_tcp_checksum(headers: &mut [u8], length: usize) {
    let address = |at: usize| Ipv4Addr::new(headers[at], headers[at + 1], headers[at + 2], headers[at + 3]);
    let sum = pseudo_v4(address(12), address(16), TCP, (length - V4_HEADER) as u16).folded();
    let field = V4_HEADER + TCP_CHECKSUM;
    headers[field..field + 2].copy_from_slice(&sum.to_be_bytes());
}

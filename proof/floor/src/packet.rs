//! Where the fields of an IPv4 packet stand that are adjusted when it is cut or joined, and nothing more.

use std::net::Ipv4Addr;

use taut_wire::checksum::{Sum, pseudo_v4};
pub(crate) use taut_wire::ip::V4_HEADER;
use taut_wire::ip::{TCP, UDP};

/// Version 4 and a header of five words, which is one without options.
const PLAIN_V4: u8 = 0x45;
/// Bytes of a UDP header.
const UDP_HEADER: usize = 8;
/// Where TCP's checksum stands, from its own header on.
pub(crate) const TCP_CHECKSUM: usize = 16;
/// TCP's flags of which only the last segment of several has any: FIN and PSH.
pub(crate) const LAST_ONLY: u8 = 0x09;

/// What follows the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// TCP, with this sequence number.
    Tcp(u32),
    /// UDP.
    Udp,
    /// Anything else, fragments included: carried as it is.
    Other,
}

/// The few facts about a packet that cutting and joining go by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// What it is.
    pub(crate) kind: Kind,
    /// Bytes of all headers that each segment of it repeats.
    pub(crate) headers: usize,
    /// Bytes of the packet, headers included.
    pub(crate) length: usize,
}

impl Packet {
    /// Reads the packet at the beginning of `bytes`; `None` when it is not whole, not IPv4, or has IP options.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let ip = bytes.first_chunk::<V4_HEADER>()?;
        let length = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        if ip[0] != PLAIN_V4 || length > bytes.len() {
            return None;
        }
        let is_fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff != 0;
        let (kind, headers) = match ip[9] {
            TCP if !is_fragment => {
                let tcp = bytes.get(V4_HEADER..)?.first_chunk::<20>()?;
                let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
                (Kind::Tcp(sequence), V4_HEADER + 4 * usize::from(tcp[12] >> 4))
            }
            UDP if !is_fragment => (Kind::Udp, V4_HEADER + UDP_HEADER),
            _ => (Kind::Other, V4_HEADER),
        };
        // A TCP header that claims less than 20 bytes is none.
        let sound = headers <= length && (!matches!(kind, Kind::Tcp(_)) || headers >= 2 * V4_HEADER);
        sound.then_some(Self { kind, headers, length })
    }

    /// Bytes behind the headers.
    pub(crate) fn payload(&self) -> usize {
        self.length - self.headers
    }
}

/// Sets the length of the packet whose headers these are, and the IP header's checksum. A length has 16 bits; what does not fit is a mistake of
/// the caller's that the receiver will drop.
pub(crate) fn set_length(headers: &mut [u8], length: usize) {
    headers[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    headers[10..12].fill(0);
    let checksum = Sum::of(&headers[..V4_HEADER]).checksum();
    headers[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// Leaves TCP's checksum to whoever gets the packet: the sum of the pseudo header alone stands in its field.
pub(crate) fn leave_tcp_checksum(headers: &mut [u8], length: usize) {
    let address = |at: usize| Ipv4Addr::new(headers[at], headers[at + 1], headers[at + 2], headers[at + 3]);
    let sum = pseudo_v4(address(12), address(16), TCP, (length - V4_HEADER) as u16).folded();
    let field = V4_HEADER + TCP_CHECKSUM;
    headers[field..field + 2].copy_from_slice(&sum.to_be_bytes());
}

//! Packets with a partial TCP or UDP checksum (`CHECKSUM_PARTIAL` in the kernel), and the flag that identifies them.
//!
//! Between two Taut nodes the session authenticates a packet, so its inner checksum proves nothing more. A packet that the sender's own kernel passed to the
//! TUN with a partial checksum is sent as it is. The receiver's kernel gets it with a partial checksum too: it accepts the packet, and completes the checksum
//! if it forwards it (`docs/spec`, "Marked packets").
//!
//! The flag is the highest bit of the version nibble (4 becomes 0xc, 6 becomes 0xe). It costs no byte, and a packet whose flag was not removed is not a valid
//! IP packet.

use crate::bytes::{be16, low16, put16};
use crate::checksum::Sum;
use crate::ip::{self, Packet};
use crate::vnet::{GSO_NONE, NEEDS_CSUM, VnetHeader};
use crate::{tcp, udp};

/// The flag in the first byte.
const FLAG: u8 = 0x80;

/// Sets the flag of a packet whose checksum is [partial](PartialChecksum::of).
pub fn set_flag(packet: &mut [u8]) {
    if let Some(first) = packet.first_mut() {
        *first |= FLAG;
    }
}

/// Clears the flag of a packet. Returns false and changes nothing if the flag is not set.
pub fn clear_flag(packet: &mut [u8]) -> bool {
    let Some(first) = packet.first_mut() else { return false };
    let is_set = matches!(*first >> 4, 0xc | 0xe);
    if is_set {
        *first &= !FLAG;
    }
    is_set
}

/// The position of a packet's partial checksum. It proves that the checksum field is that of the packet's protocol and has the sum of the pseudo header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialChecksum {
    transport: u16,
    csum_offset: u16,
}

impl PartialChecksum {
    /// Returns the partial checksum of a packet without flag. Returns `None` if the packet is not plain TCP or UDP (a fragment, IP options or extension headers,
    /// a truncated header), or if its checksum field does not have the sum of the pseudo header.
    #[must_use]
    pub fn of(packet: &Packet<'_>) -> Option<PartialChecksum> {
        if packet.is_fragment() || packet.has_options() {
            return None;
        }
        let message = packet.payload();
        let csum_offset = match packet.protocol() {
            ip::TCP if tcp::Segment::parse(message).is_ok() => tcp::CHECKSUM_OFFSET,
            ip::UDP if udp::Datagram::parse(message).ok()?.length() == message.len() => udp::CHECKSUM_OFFSET,
            _ => return None,
        };
        let sum = packet.pseudo_header(low16(message.len())).folded();
        let partial = PartialChecksum { transport: low16(packet.header_len()), csum_offset };
        (be16(message, usize::from(csum_offset)) == sum).then_some(partial)
    }

    /// Returns the virtio header that describes the partial checksum to a kernel. The packet is not a superpacket.
    #[must_use]
    pub const fn header(self) -> VnetHeader {
        VnetHeader {
            flags: NEEDS_CSUM,
            gso_type: GSO_NONE,
            // Up to the end of the checksum field, which the kernel has to read.
            hdr_len: self.transport + self.csum_offset + 2,
            gso_size: 0,
            csum_start: self.transport,
            csum_offset: self.csum_offset,
        }
    }

    /// Completes the checksum of `packet`, for a receiver without support for partial checksums. `packet` has the length in its IP header.
    pub fn complete(self, packet: &mut [u8]) {
        let start = usize::from(self.transport);
        complete(packet, start, start + usize::from(self.csum_offset));
    }

    /// Returns true if a virtio header has the same position.
    pub(crate) const fn is_at(self, header: VnetHeader) -> bool {
        header.csum_start == self.transport && header.csum_offset == self.csum_offset
    }
}

/// Completes a partial checksum. The field at `field` holds the sum of the pseudo header already.
pub(crate) fn complete(packet: &mut [u8], start: usize, field: usize) {
    let sum = Sum::of(packet.get(start..).unwrap_or_default());
    // A checksum at offset 6 is UDP's (or DCCP's), where 0 would mean "none"; 0xffff is the same number.
    let is_udp = field - start == usize::from(udp::CHECKSUM_OFFSET);
    put16(packet, field, if is_udp { sum.udp_checksum() } else { sum.checksum() });
}

#[cfg(test)]
mod tests;

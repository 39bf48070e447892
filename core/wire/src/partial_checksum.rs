//! The mark of a packet whose TCP or UDP checksum was never computed, because the kernel that made it vouches for it.
//!
//! Between two Taut nodes a segment is authenticated by the session already, so that its inner checksum proves nothing
//! more. What the sender's own kernel handed over with a partial checksum goes as it is, and the receiver's kernel is
//! told the same: it believes the packet, and completes the checksum if it forwards it (`docs/spec`, "Marked packets").
//!
//! The mark is the highest bit of the version nibble (4 becomes 0xc, 6 becomes 0xe): it costs no byte, and to whoever
//! does not know it the packet is of no IP version.

use crate::bytes::{be16, low16, put16};
use crate::checksum::Sum;
use crate::ip::{self, Packet};
use crate::vnet::{GSO_NONE, NEEDS_CSUM, VnetHeader};
use crate::{tcp, udp};

/// The bit of the first byte.
const MARK: u8 = 0x80;

/// Marks a finished packet. Its checksum has to be [partial](PartialChecksum::of).
pub(crate) fn set_flag(packet: &mut [u8]) {
    if let Some(first) = packet.first_mut() {
        *first |= MARK;
    }
}

/// Takes the mark off a packet; false when there is none, and then nothing changes.
pub fn clear_flag(packet: &mut [u8]) -> bool {
    let Some(first) = packet.first_mut() else { return false };
    let marked = matches!(*first >> 4, 0xc | 0xe);
    if marked {
        *first &= !MARK;
    }
    marked
}

/// Where the partial checksum of a packet stands: proof that it is where its protocol has it, and that it is the sum of
/// the pseudo header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialChecksum {
    transport: u16,
    csum_offset: u16,
}

impl PartialChecksum {
    /// Looks at a packet without mark. `None` if it is not plain TCP or UDP (a fragment, IP options or extension headers,
    /// a header that is cut off), or if its checksum field does not hold the sum of its pseudo header.
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

    /// The virtio header that tells a kernel of it. The packet is no superpacket.
    #[must_use]
    pub const fn header(self) -> VnetHeader {
        VnetHeader {
            flags: NEEDS_CSUM,
            gso_type: GSO_NONE,
            // As far as the kernel has to read by itself.
            hdr_len: self.transport + self.csum_offset + 2,
            gso_size: 0,
            csum_start: self.transport,
            csum_offset: self.csum_offset,
        }
    }

    /// Completes the checksum of the packet, for who cannot be told. `packet` ends where its IP length says.
    pub fn complete(self, packet: &mut [u8]) {
        let start = usize::from(self.transport);
        complete(packet, start, start + usize::from(self.csum_offset));
    }

    /// Whether a virtio header tells of the same place.
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

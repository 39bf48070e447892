//! Sealing of the segments of one superpacket into the send batch.

use taut_tunnel::Session;
use taut_wire::mss;
use taut_wire::partial_checksum;
use taut_wire::relay;
use taut_wire::split::Split;
use taut_wire::wireguard::DATA_HEADER;

use crate::batch::{Destination, SEALED_SUPERPACKET_MAX, SendBatch};
use crate::drops::{DropCounts, DropReason};

/// The properties that all messages of a superpacket share.
#[derive(Clone, Copy)]
pub(super) struct Outgoing {
    pub(super) destination: Destination,
    /// MTU of the TUN.
    pub(super) mtu: usize,
    /// True if the packet is a SYN of TCP.
    pub(super) opens_connection: bool,
}

/// The messages that a superpacket became.
#[derive(Default)]
pub(super) struct Sealed {
    /// Bytes of inner packets.
    pub(super) bytes: usize,
    /// Bytes of the messages that carry them.
    pub(super) outer: usize,
}

/// Writes and seals one segment after the other. Padding makes no segment longer than `limit`, the packet limit of the path.
pub(super) fn seal_segments(
    mut split: Split<'_>,
    limit: Option<u16>,
    session: &mut Session,
    outgoing: Outgoing,
    out: &mut SendBatch,
    drops: &DropCounts,
) -> Sealed {
    let mut sealed = Sealed::default();
    let limit = limit.map(usize::from).filter(|limit| split.largest() <= *limit);
    let longest = limit.map_or(outgoing.mtu, |limit| limit.min(outgoing.mtu));
    if split.segments() * (relay::HEADER + Session::sealed_len(split.largest(), longest)) > SEALED_SUPERPACKET_MAX {
        drops.add(DropReason::BadInner, 1);
        return sealed;
    }
    // Checksums stay partial where the session allows that: it authenticates the packet.
    if session.sends_partial_checksums() {
        split.allow_partial_checksums();
    }
    while let Some(length) = split.next_len() {
        let size = Session::sealed_len(length, longest);
        let appended = out.append(outgoing.destination, size, |datagram| {
            split.write_next(&mut datagram[DATA_HEADER..]);
            if outgoing.opens_connection {
                lower_segment_size(&mut datagram[DATA_HEADER..DATA_HEADER + length], outgoing.mtu);
            }
            session.seal(datagram, length)
        });
        match appended {
            Some(Ok(())) => {
                sealed.bytes += length;
                sealed.outer += size;
            }
            // The key is used up in the middle of a superpacket: the rest is lost, and the next packet asks for a handshake.
            Some(Err(_)) | None => {
                drops.add(DropReason::NoHandshake, split.remaining() as u64 + 1);
                break;
            }
        }
    }
    sealed
}

/// Lowers the segment size that a new TCP connection announces to what the TUN's MTU allows.
#[cold]
pub(super) fn lower_segment_size(packet: &mut [u8], mtu: usize) {
    let is_partial = partial_checksum::clear_flag(packet);
    mss::lower(packet, mtu, is_partial);
    if is_partial {
        partial_checksum::set_flag(packet);
    }
}

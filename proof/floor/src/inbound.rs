//! The inbound direction: datagrams are opened, and TCP segments joined into superpackets for the TUN.

use std::io::IoSlice;
use std::mem;

use taut_udp::MAX_SEGMENTS;
use taut_wire::merge::MAX_BYTES;
use taut_wire::vnet::{self, GSO_NONE, GSO_TCPV4, NEEDS_CSUM, VnetHeader};
use taut_wire::wireguard::{DATA_HEADER, TAG};

use crate::cipher::FloorCipher;
use crate::packet::{PacketLayout, TCP_CHECKSUM, TransportProtocol, V4_HEADER, leave_tcp_checksum, set_length};

/// The packet that grows from the segments of one run of datagrams.
pub(crate) struct Inbound<'a> {
    /// Virtio header and packet headers, in place of those of the first datagram. Empty while no packet grows.
    head: &'a mut [u8],
    /// The whole packet: a place for `head`, and the payload of each segment.
    pieces: [IoSlice<'a>; 1 + MAX_SEGMENTS],
    /// Number of payloads.
    count: usize,
    /// The first segment, with the length of all segments.
    packet: PacketLayout,
    /// Payload bytes of the first segment. No other segment has more.
    size: usize,
    /// The sequence number of the next segment.
    next: u32,
}

impl<'a> Inbound<'a> {
    /// Returns a state without a packet.
    pub(crate) fn new() -> Self {
        let packet = PacketLayout { transport: TransportProtocol::Other, headers: 0, length: 0 };
        let pieces = [IoSlice::new(&[]); 1 + MAX_SEGMENTS];
        Self { head: &mut [], pieces, count: 0, packet, size: 0, next: 0 }
    }

    /// Takes one datagram. `write` gets the packet before it, if the datagram does not continue that packet. A datagram that this cipher did not seal, or that
    /// contains no packet, is dropped.
    pub(crate) fn take(&mut self, datagram: &'a mut [u8], cipher: &FloorCipher, write: impl FnMut(&[IoSlice<'_>])) {
        let Some(packet) = open(datagram, cipher) else { return };
        // The virtio header replaces the end of WireGuard's header, directly before the packet's own headers.
        let whole = &mut datagram[DATA_HEADER - vnet::LEN..DATA_HEADER + packet.length];
        let (head, payload) = whole.split_at_mut(vnet::LEN + packet.headers);
        if self.continues(&packet) {
            self.join(head, payload.len());
        } else {
            self.finish(write);
            (self.head, self.packet, self.size, self.next) = (head, packet, payload.len(), 0);
            if let TransportProtocol::Tcp(sequence) = packet.transport {
                self.next = sequence.wrapping_add(payload.len() as u32);
            }
        }
        self.count += 1;
        self.pieces[self.count] = IoSlice::new(payload);
    }

    /// Passes the packet to `write`.
    pub(crate) fn finish(&mut self, mut write: impl FnMut(&[IoSlice<'_>])) {
        let head = mem::take(&mut self.head);
        let Some((vnet, headers)) = head.split_first_chunk_mut::<{ vnet::LEN }>() else { return };
        let is_tcp = matches!(self.packet.transport, TransportProtocol::Tcp(_));
        if is_tcp {
            leave_tcp_checksum(headers, self.packet.length);
        }
        if self.count > 1 {
            set_length(headers, self.packet.length);
        }
        *vnet = if is_tcp { self.tcp_header().encode() } else { VnetHeader::NONE.encode() };
        self.pieces[0] = IoSlice::new(head);
        write(&self.pieces[..=self.count]);
        self.count = 0;
    }

    fn tcp_header(&self) -> VnetHeader {
        let single = self.count == 1;
        VnetHeader {
            flags: NEEDS_CSUM,
            gso_type: if single { GSO_NONE } else { GSO_TCPV4 },
            hdr_len: self.packet.headers as u16,
            gso_size: if single { 0 } else { self.size as u16 },
            csum_start: V4_HEADER as u16,
            csum_offset: TCP_CHECKSUM as u16,
        }
    }

    /// Returns true if the segment continues the packet.
    fn continues(&self, packet: &PacketLayout) -> bool {
        let payload = packet.payload();
        !self.head.is_empty()
            && packet.transport == TransportProtocol::Tcp(self.next)
            && matches!(self.packet.transport, TransportProtocol::Tcp(_))
            && (1..=self.size).contains(&payload)
            && self.packet.length + payload <= MAX_BYTES
            && self.count < MAX_SEGMENTS
    }

    /// Adds a segment with `payload` bytes. Acknowledgement, flags and window of the last segment are kept.
    fn join(&mut self, head: &[u8], payload: usize) {
        let tcp = vnet::LEN + V4_HEADER;
        self.head[tcp + 8..tcp + 12].copy_from_slice(&head[tcp + 8..tcp + 12]);
        self.head[tcp + 13] |= head[tcp + 13];
        self.head[tcp + 14..tcp + 16].copy_from_slice(&head[tcp + 14..tcp + 16]);
        self.packet.length += payload;
        self.next = self.next.wrapping_add(payload as u32);
    }
}

/// Opens a datagram in place and reads the packet in it.
fn open(datagram: &mut [u8], cipher: &FloorCipher) -> Option<PacketLayout> {
    let (header, sealed) = datagram.split_first_chunk_mut::<DATA_HEADER>()?;
    let counter = u64::from_le_bytes(*header.last_chunk()?);
    let padded = sealed.len().checked_sub(TAG)?;
    cipher.open(counter, sealed).then(|| PacketLayout::read(&sealed[..padded]))?
}

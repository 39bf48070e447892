//! The outbound direction: superpackets of the TUN become sealed datagrams.

use taut_udp::{MAX_GSO_BYTES, MAX_SEGMENTS};
use taut_wire::vnet::{GSO_NONE, VnetHeader};
use taut_wire::wireguard::{DATA_HEADER, DATA_OVERHEAD, PADDING, TAG, write_data_header};

use crate::cipher::FloorCipher;
use crate::packet::{LAST_ONLY, PacketLayout, TransportProtocol, V4_HEADER, set_length};

/// WireGuard's receiver index, which the receiver ignores here.
const RECEIVER: u32 = 0x0403_0201;

/// Sealed datagrams of one size that wait to be sent as one run.
pub(crate) struct Outbound {
    memory: Box<[u8]>,
    filled: usize,
    count: usize,
    /// Bytes of each datagram; only the last may be shorter.
    size: usize,
    counter: u64,
}

impl Outbound {
    /// Returns a batch without datagrams.
    pub(crate) fn new() -> Self {
        // Room for a run, or for one datagram with the largest packet.
        let memory = vec![0; MAX_GSO_BYTES.max(DATA_OVERHEAD + PADDING + 0xffff)].into_boxed_slice();
        Self { memory, filled: 0, count: 0, size: 0, counter: 0 }
    }

    /// Splits and seals one packet as it was read, with its virtio header. `send` gets each full run and the size of its datagrams; the rest waits. A packet
    /// that cannot be split is dropped.
    pub(crate) fn take(&mut self, read: &[u8], cipher: &FloorCipher, mut send: impl FnMut(&[u8], usize)) {
        let Some((vnet, bytes)) = VnetHeader::parse(read) else { return };
        let Some(packet) = PacketLayout::read(bytes) else { return };
        let (headers, payload) = bytes[..packet.length].split_at(packet.headers);
        let step = if vnet.gso_type == GSO_NONE { payload.len() } else { usize::from(vnet.gso_size) };
        if payload.is_empty() {
            return self.segment(&packet, headers, &[], 0, cipher, &mut send);
        }
        for (number, part) in payload.chunks(step.max(1)).enumerate() {
            let offset = number * step;
            self.segment(&packet, headers, part, offset, cipher, &mut send);
        }
    }

    /// Passes the waiting datagrams to `send`.
    pub(crate) fn flush(&mut self, mut send: impl FnMut(&[u8], usize)) {
        if self.count > 0 {
            send(&self.memory[..self.filled], self.size);
        }
        (self.filled, self.count) = (0, 0);
    }

    /// Seals one segment: `part` is the payload from `offset` on.
    fn segment(
        &mut self,
        packet: &PacketLayout,
        headers: &[u8],
        part: &[u8],
        offset: usize,
        cipher: &FloorCipher,
        send: &mut impl FnMut(&[u8], usize),
    ) {
        let length = headers.len() + part.len();
        // Pads beyond the MTU, too, where a tunnel would not (`padded_len`): a cipher takes least time for whole blocks.
        let padded = length.next_multiple_of(PADDING);
        let size = padded + DATA_OVERHEAD;
        if size > self.size || self.filled + size > MAX_GSO_BYTES || self.count == MAX_SEGMENTS {
            self.flush(&mut *send);
        }
        if self.count == 0 {
            self.size = size;
        }
        let datagram = &mut self.memory[self.filled..self.filled + size];
        let (inner, tag) = datagram[DATA_HEADER..].split_at_mut(padded);
        inner[..headers.len()].copy_from_slice(headers);
        inner[headers.len()..length].copy_from_slice(part);
        inner[length..].fill(0);
        adjust(&mut inner[..headers.len()], packet, offset, part.len());
        tag[..TAG].copy_from_slice(&cipher.seal(self.counter, inner));
        if let Some(header) = datagram.first_chunk_mut() {
            write_data_header(header, RECEIVER, self.counter);
        }
        self.counter += 1;
        self.filled += size;
        self.count += 1;
        if size < self.size {
            self.flush(send);
        }
    }
}

/// Turns the headers of a superpacket into those of one segment, which carries `part` bytes of the payload from `offset` on.
fn adjust(headers: &mut [u8], packet: &PacketLayout, offset: usize, part: usize) {
    set_length(headers, packet.headers + part);
    match packet.transport {
        TransportProtocol::Tcp(sequence) => {
            let sequence = sequence.wrapping_add(offset as u32);
            headers[V4_HEADER + 4..V4_HEADER + 8].copy_from_slice(&sequence.to_be_bytes());
            if offset + part < packet.payload() {
                headers[V4_HEADER + 13] &= !LAST_ONLY;
            }
        }
        TransportProtocol::Udp => {
            let length = (packet.headers - V4_HEADER + part) as u16;
            headers[V4_HEADER + 4..V4_HEADER + 6].copy_from_slice(&length.to_be_bytes());
            // Zero means that there is no checksum (RFC 768).
            headers[V4_HEADER + 6..V4_HEADER + 8].fill(0);
        }
        TransportProtocol::Other => {}
    }
}

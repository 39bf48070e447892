//! Cutting what the TUN hands over into sealed datagrams.

use taut_udp::{MAX_GSO_BYTES, MAX_SEGMENTS};
use taut_wire::vnet::{GSO_NONE, VnetHeader};
use taut_wire::wireguard::{DATA_HEADER, DATA_OVERHEAD, PADDING, TAG, write_data_header};

use crate::cipher::Cipher;
use crate::packet::{Kind, LAST_ONLY, Packet, V4_HEADER, set_length};

/// WireGuard's receiver index, which nobody looks at here.
const RECEIVER: u32 = 0x0403_0201;

/// Datagrams of one size that wait to be sent as one, sealed where they stand.
pub(crate) struct Outbound {
    memory: Box<[u8]>,
    filled: usize,
    count: usize,
    /// Bytes of each datagram; only the last may be shorter.
    size: usize,
    counter: u64,
}

impl Outbound {
    /// With nothing waiting.
    pub(crate) fn new() -> Self {
        // A run, or one datagram around the largest packet.
        let memory = vec![0; MAX_GSO_BYTES.max(DATA_OVERHEAD + PADDING + 0xffff)].into_boxed_slice();
        Self { memory, filled: 0, count: 0, size: 0, counter: 0 }
    }

    /// Cuts and seals one packet as it was read, its virtio header in front. `send` gets each run that is full, and the size of its datagrams;
    /// what is left waits. What cannot be cut is dropped.
    pub(crate) fn take(&mut self, read: &[u8], cipher: &Cipher, mut send: impl FnMut(&[u8], usize)) {
        let Some((vnet, bytes)) = VnetHeader::parse(read) else { return };
        let Some(packet) = Packet::read(bytes) else { return };
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

    /// Hands over what waits.
    pub(crate) fn flush(&mut self, mut send: impl FnMut(&[u8], usize)) {
        if self.count > 0 {
            send(&self.memory[..self.filled], self.size);
        }
        (self.filled, self.count) = (0, 0);
    }

    /// One segment: the payload from `offset` on.
    fn segment(
        &mut self,
        packet: &Packet,
        headers: &[u8],
        part: &[u8],
        offset: usize,
        cipher: &Cipher,
        send: &mut impl FnMut(&[u8], usize),
    ) {
        let length = headers.len() + part.len();
        // Past the MTU, too, where a tunnel would stop (`padded_len`): whole blocks are what a cipher takes least for.
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

/// Makes the headers of a superpacket those of the segment whose `part` bytes stand at `offset` of its payload.
fn adjust(headers: &mut [u8], packet: &Packet, offset: usize, part: usize) {
    set_length(headers, packet.headers + part);
    match packet.kind {
        Kind::Tcp(sequence) => {
            let sequence = sequence.wrapping_add(offset as u32);
            headers[V4_HEADER + 4..V4_HEADER + 8].copy_from_slice(&sequence.to_be_bytes());
            if offset + part < packet.payload() {
                headers[V4_HEADER + 13] &= !LAST_ONLY;
            }
        }
        Kind::Udp => {
            let length = (packet.headers - V4_HEADER + part) as u16;
            headers[V4_HEADER + 4..V4_HEADER + 6].copy_from_slice(&length.to_be_bytes());
            // Zero is "none" (RFC 768).
            headers[V4_HEADER + 6..V4_HEADER + 8].fill(0);
        }
        Kind::Other => {}
    }
}

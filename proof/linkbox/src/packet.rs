//! Frames and their buffers.

use taut_packet::VIRTIO_HEADER;

use crate::direction::Frame;

/// A frame with its own buffer.
pub(crate) struct Packet {
    buffer: Box<[u8]>,
    length: usize,
    /// Bytes in front of the frame that are not on the wire.
    header: usize,
    /// True if the buffer came from the [`Pool`].
    pooled: bool,
}

impl Packet {
    /// Returns the frame in the first `length` bytes of `buffer`, which include the virtio header of a superpacket.
    pub(crate) fn new(buffer: Box<[u8]>, length: usize, superpacket: bool) -> Self {
        let header = if superpacket { VIRTIO_HEADER } else { 0 };
        Self { buffer, length, header, pooled: true }
    }

    /// Returns the bytes for the socket.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.length).unwrap_or_default()
    }
}

impl Frame for Packet {
    fn length(&self) -> usize {
        self.length.saturating_sub(self.header)
    }

    fn copy(&self) -> Self {
        Self { buffer: self.bytes().into(), pooled: false, ..*self }
    }
}

/// Free buffers. Free and used ones together are as many as were in use at the same time, which is bounded.
pub(crate) struct Pool {
    room: usize,
    free: Vec<Box<[u8]>>,
}

impl Pool {
    /// Returns a pool of buffers with this many bytes.
    pub(crate) fn new(room: usize) -> Self {
        Self { room, free: Vec::new() }
    }

    /// Returns a free buffer.
    pub(crate) fn take(&mut self) -> Box<[u8]> {
        self.free.pop().unwrap_or_else(|| vec![0; self.room].into())
    }

    /// Takes back the buffer of a packet. The buffer of a copy is freed, because each duplicate would enlarge the pool.
    pub(crate) fn give_back(&mut self, packet: Packet) {
        if packet.pooled {
            self.free.push(packet.buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_holds_no_more_buffers_than_were_in_use_at_once() {
        let mut pool = Pool::new(100);
        for _ in 0..3 {
            let packets = [60, 100].map(|length| Packet::new(pool.take(), length, false));
            let copies = packets.each_ref().map(Frame::copy);
            assert_eq!(copies.each_ref().map(|copy| (copy.length(), copy.bytes().len())), [(60, 60), (100, 100)]);
            packets.into_iter().chain(copies).for_each(|packet| pool.give_back(packet));
            assert_eq!(pool.free.len(), 2);
        }
    }

    #[test]
    fn a_virtio_header_is_not_on_the_wire() {
        let packet = Packet::new(vec![7; 200].into(), 100, true);
        assert_eq!((packet.bytes().len(), packet.length()), (100, 100 - VIRTIO_HEADER));
    }
}

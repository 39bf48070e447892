//! Frames and their buffers.

use taut_packet::VIRTIO_HEADER;

use crate::direction::Frame;

/// A frame in a buffer of its own.
pub(crate) struct Packet {
    buffer: Box<[u8]>,
    length: usize,
    /// Bytes in front that are not on the wire.
    header: usize,
    /// Its buffer came from the [`Pool`].
    pooled: bool,
}

impl Packet {
    /// The first `length` bytes of `buffer`; of a superpacket, a virtio header is among them.
    pub(crate) fn new(buffer: Box<[u8]>, length: usize, superpacket: bool) -> Self {
        let header = if superpacket { VIRTIO_HEADER } else { 0 };
        Self { buffer, length, header, pooled: true }
    }

    /// What goes to the socket.
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

/// Buffers that are not in use: with those that are, as many as were ever in use at the same time, of which there is a bound.
pub(crate) struct Pool {
    room: usize,
    free: Vec<Box<[u8]>>,
}

impl Pool {
    /// Of buffers with so many bytes.
    pub(crate) fn new(room: usize) -> Self {
        Self { room, free: Vec::new() }
    }

    /// An empty buffer.
    pub(crate) fn take(&mut self) -> Box<[u8]> {
        self.free.pop().unwrap_or_else(|| vec![0; self.room].into())
    }

    /// A packet that is not needed any more. The buffer of a copy is freed: kept, each duplicate would make the pool larger.
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
    fn the_pool_has_what_was_in_use_at_once_and_no_more() {
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

//! Replies that wait until the lane writes to the TUN.

use std::collections::VecDeque;

/// Replies that wait, 64: a lane reads as many packets per turn, and writes all replies at the turn's end.
const MAX_WAITING: usize = 64;

/// A bounded queue of packets.
#[derive(Debug, Default)]
pub(super) struct Outbox(VecDeque<Box<[u8]>>);

impl Outbox {
    /// Returns true if one more packet fits.
    pub(super) fn has_room(&self) -> bool {
        self.0.len() < MAX_WAITING
    }

    /// Appends a packet. Without room it is lost: a segment of TCP is sent again, and a client over UDP asks again.
    pub(super) fn push(&mut self, packet: Option<Box<[u8]>>) {
        if self.has_room() {
            self.0.extend(packet);
        }
    }

    /// Returns the next packet.
    pub(super) fn pop(&mut self) -> Option<Box<[u8]>> {
        self.0.pop_front()
    }
}

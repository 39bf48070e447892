//! Packets that wait for a handshake.

use std::collections::VecDeque;

/// Bytes that wait for one peer at most: four full superpackets, or some hundred ordinary packets. Kernel WireGuard keeps 128 packets.
const PER_PEER: usize = 256 * 1024;

/// Superpackets of one peer, as read from the TUN with their virtio header. The oldest go first when there are too many: whoever sent them
/// has the least use for them.
#[derive(Default)]
pub(crate) struct Staged {
    packets: VecDeque<Box<[u8]>>,
    bytes: usize,
}

impl Staged {
    /// Keeps a copy, and returns how many older packets that pushed out.
    pub(crate) fn push(&mut self, packet: &[u8]) -> u64 {
        let mut dropped = 0;
        while self.bytes + packet.len() > PER_PEER {
            let Some(oldest) = self.packets.pop_front() else { break };
            self.bytes -= oldest.len();
            dropped += 1;
        }
        self.bytes += packet.len();
        self.packets.push_back(packet.into());
        dropped
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Takes the oldest.
    pub(crate) fn pop(&mut self) -> Option<Box<[u8]>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.len();
        Some(packet)
    }

    /// Throws all away, and returns how many there were.
    pub(crate) fn clear(&mut self) -> u64 {
        let dropped = self.packets.len() as u64;
        *self = Self::default();
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let mut staged = Staged::default();
        let dropped: u64 = (0..10_u8).map(|number| staged.push(&vec![number; 60_000])).sum();
        assert_eq!(dropped, 6);
        assert_eq!(staged.pop().unwrap()[0], 6);
        assert_eq!(staged.clear(), 3);
        assert!(staged.pop().is_none());
    }
}

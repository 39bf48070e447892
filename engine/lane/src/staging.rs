//! Packets that wait for a session of their peer, or behind a packet that waits to learn whether the peer takes pieces.
//!
//! Any program on the host can make packets wait, for each peer that does not answer. So both a peer and a lane have a bound. A peer never gets more than
//! half of what the lane has left (a dynamic threshold, as in switches with shared memory): however many peers do not answer, the next peer finds room.

use std::collections::VecDeque;

use taut_base::PeerId;

use crate::numbers::NumberMap;

/// Bytes that wait for one peer at most, 256 KiB: four full superpackets or some hundred ordinary packets. Kernel WireGuard keeps 128 packets.
const PER_PEER: usize = 256 * 1024;

/// Bytes that wait in one lane for all its peers at most, 4 MiB: sixteen peers that are sent bulk data get what [`PER_PEER`] allows, and thousands of peers
/// that are sent a ping each have room, too.
const PER_LANE: usize = 4 * 1024 * 1024;

/// Bytes that a packet costs beside its own, 64: its place in the queue and the allocator's header.
const ENTRY: usize = 64;

/// Superpackets of one peer, as read from the TUN with their virtio header, oldest first.
#[derive(Default)]
struct StagedQueue {
    packets: VecDeque<Box<[u8]>>,
    cost: usize,
}

/// The packets of one lane that wait for a session, by peer.
#[derive(Default)]
pub(crate) struct Staging {
    /// Queues with at least one packet.
    queues: NumberMap<PeerId, StagedQueue>,
    /// Cost of all queues.
    cost: usize,
    /// Peers that have a session, and whose waiting packets did not fit into the send batch.
    backlog: Vec<PeerId>,
}

impl Staging {
    /// Returns true if a packet of the peer waits.
    #[inline]
    pub(crate) fn has(&self, id: PeerId) -> bool {
        !self.queues.is_empty() && self.queues.contains_key(&id)
    }

    /// Keeps a copy of a packet and returns the number of packets that this cost: the peer's oldest ones, for which their sender has the least use, and the
    /// packet itself if there is no room for it.
    pub(crate) fn push(&mut self, id: PeerId, packet: &[u8]) -> u64 {
        let cost = ENTRY + packet.len();
        let mut dropped = 0;
        loop {
            let used = self.queues.get(&id).map_or(0, |queue| queue.cost);
            let room = PER_PEER.min((PER_LANE - self.cost) / 2);
            if used + cost <= room {
                break;
            }
            dropped += 1;
            if self.pop(id).is_none() {
                return dropped;
            }
        }
        self.cost += cost;
        let queue = self.queues.entry(id).or_default();
        queue.cost += cost;
        queue.packets.push_back(packet.into());
        dropped
    }

    /// Takes the peer's oldest packet.
    pub(crate) fn pop(&mut self, id: PeerId) -> Option<Box<[u8]>> {
        let queue = self.queues.get_mut(&id)?;
        let packet = queue.packets.pop_front()?;
        let cost = ENTRY + packet.len();
        queue.cost -= cost;
        self.cost -= cost;
        if queue.packets.is_empty() {
            self.queues.remove(&id);
        }
        Some(packet)
    }

    /// Puts a packet that was taken just now back in front of the others.
    pub(crate) fn put_back(&mut self, id: PeerId, packet: Box<[u8]>) {
        let cost = ENTRY + packet.len();
        self.cost += cost;
        let queue = self.queues.entry(id).or_default();
        queue.cost += cost;
        queue.packets.push_front(packet);
    }

    /// Drops all packets of the peer and returns their number.
    pub(crate) fn clear(&mut self, id: PeerId) -> u64 {
        let Some(queue) = self.queues.remove(&id) else { return 0 };
        self.cost -= queue.cost;
        queue.packets.len() as u64
    }

    /// Notes that the peer's packets go on once the send batch has room again.
    pub(crate) fn postpone(&mut self, id: PeerId) {
        self.backlog.push(id);
    }

    /// Takes the list of peers that were [postponed](Self::postpone).
    pub(crate) fn take_backlog(&mut self) -> Vec<PeerId> {
        std::mem::take(&mut self.backlog)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: PeerId = PeerId(1);

    #[test]
    fn the_oldest_packets_are_dropped_when_there_are_too_many() {
        let mut staging = Staging::default();
        let dropped: u64 = (0..10_u8).map(|number| staging.push(ONE, &vec![number; 60_000])).sum();
        assert_eq!(dropped, 6);
        assert_eq!(staging.pop(ONE).unwrap()[0], 6);
        assert_eq!(staging.clear(ONE), 3);
        assert!(staging.pop(ONE).is_none());
        assert_eq!(staging.cost, 0);
    }

    #[test]
    fn fault_p1_thousands_of_peers_that_do_not_answer_share_what_a_lane_keeps() {
        for length in [0, 84, 1_420, 65_000] {
            let mut staging = Staging::default();
            let peers = 0..10_000;
            for _ in 0..20 {
                for id in peers.clone().map(PeerId) {
                    staging.push(id, &vec![7; length]);
                    let used = staging.queues.get(&id).map_or(0, |queue| queue.cost);
                    assert!(staging.cost <= PER_LANE && used <= PER_PEER);
                }
            }
            let waiting = peers.clone().filter(|id| staging.has(PeerId(*id))).count();
            assert!(waiting == peers.len() || length > 84, "{waiting} have a packet of {length} bytes that waits");
            // A peer that comes later finds room for a small packet.
            assert_eq!(staging.push(PeerId(10_000), &[7; 20]), 0, "{length}: {} are left", PER_LANE - staging.cost);
        }
    }
}

//! Packets of a peer that are held for a moment while its path or its lanes change, so that none is overtaken (protocol.md 5.8).
//!
//! ```text
//! read or handed off ──▶ must the peer's packets wait? ── no ──▶ sealed
//!                              │ yes                               ▲
//!                              ▼                                   │ in order
//!                        the peer's own queue ── when the wait is over, or when a bound is reached
//! ```
//! A wait concerns one peer. Its packets are copied into a queue of its own, and the lane goes on reading for all others. Both bounds count the bytes of
//! the packets and the memory that keeps them. When a bound is reached, the change is given up: the held packets leave in order, on the path and lane that
//! were in use before. The copy is an exception to law 8, and counted ([`PeerTraffic::held`](crate::PeerTraffic::held)).

use std::collections::VecDeque;

use taut_base::PeerId;

use crate::numbers::NumberMap;

/// Bytes held for one peer at most, 256 KiB (protocol.md 5.8): 100 Mbit/s for 20 ms.
pub(crate) const PER_PEER: usize = 256 * 1024;

/// Bytes held by one lane for all its peers at most, 1 MiB (protocol.md 5.8).
pub(crate) const PER_LANE: usize = 1024 * 1024;

/// Bytes that an entry costs beside its packet, 64: its place in the queue and the allocator's header. Without this cost, a flood of tiny packets would be
/// kept almost for free.
const ENTRY: usize = 64;

/// One entry of a peer's queue.
pub(crate) enum HeldEntry {
    /// A packet or superpacket as it was read from the TUN.
    Packet {
        /// The bytes, virtio header included.
        bytes: Box<[u8]>,
        /// True if another lane read the packet and handed it off to this lane, the first.
        handed_off: bool,
    },
    /// The barrier of another lane's mark, behind the packets that this lane handed off before (see `selector`).
    Mark(u64),
}

impl HeldEntry {
    fn cost(&self) -> usize {
        match self {
            Self::Packet { bytes, .. } => ENTRY + bytes.len(),
            Self::Mark(_) => ENTRY,
        }
    }
}

#[derive(Default)]
struct HeldQueue {
    entries: VecDeque<HeldEntry>,
    cost: usize,
}

/// The held packets of one lane, by peer.
#[derive(Default)]
pub(crate) struct HeldPackets {
    /// Queues with at least one entry.
    queues: NumberMap<PeerId, HeldQueue>,
    /// Cost of all queues.
    cost: usize,
    /// Peers whose oldest entry is tried again now, each once.
    ready: VecDeque<PeerId>,
    /// While true, the agent waits until the lane has sent everything it read, and no packet may be held.
    suspended: bool,
}

impl HeldPackets {
    /// Returns true if a packet of the peer is held.
    #[inline]
    pub(crate) fn has(&self, id: PeerId) -> bool {
        !self.queues.is_empty() && self.queues.contains_key(&id)
    }

    /// Returns true if one more packet of `length` bytes fits into both bounds and packets may be held now.
    pub(crate) fn has_room(&self, id: PeerId, length: usize) -> bool {
        let cost = ENTRY + length;
        let used = self.queues.get(&id).map_or(0, |queue| queue.cost);
        !self.suspended && used + cost <= PER_PEER && self.cost + cost <= PER_LANE
    }

    /// Appends an entry to the peer's queue.
    pub(crate) fn push(&mut self, id: PeerId, entry: HeldEntry) {
        self.add(id, &entry).entries.push_back(entry);
    }

    /// Puts an entry back in front that [`Self::pop`] returned and that has to wait longer.
    pub(crate) fn put_back(&mut self, id: PeerId, entry: HeldEntry) {
        self.add(id, &entry).entries.push_front(entry);
    }

    fn add(&mut self, id: PeerId, entry: &HeldEntry) -> &mut HeldQueue {
        self.cost += entry.cost();
        let queue = self.queues.entry(id).or_default();
        queue.cost += entry.cost();
        queue
    }

    /// Takes the peer's oldest entry.
    pub(crate) fn pop(&mut self, id: PeerId) -> Option<HeldEntry> {
        let queue = self.queues.get_mut(&id)?;
        let entry = queue.entries.pop_front()?;
        queue.cost -= entry.cost();
        self.cost -= entry.cost();
        if queue.entries.is_empty() {
            self.queues.remove(&id);
            self.wait(id);
        }
        Some(entry)
    }

    /// Drops the peer's queue and returns the number of packets in it.
    pub(crate) fn clear(&mut self, id: PeerId) -> u64 {
        self.wait(id);
        let Some(queue) = self.queues.remove(&id) else { return 0 };
        self.cost -= queue.cost;
        queue.entries.iter().filter(|entry| matches!(entry, HeldEntry::Packet { .. })).count() as u64
    }

    /// Has the peer's oldest entry tried again, because its wait may be over.
    pub(crate) fn retry(&mut self, id: PeerId) {
        if self.has(id) && !self.is_ready(id) {
            self.ready.push_back(id);
        }
    }

    /// Notes that the peer's oldest entry has to wait longer.
    pub(crate) fn wait(&mut self, id: PeerId) {
        self.ready.retain(|ready| *ready != id);
    }

    /// Returns true if the peer's oldest entry is tried again now.
    pub(crate) fn is_ready(&self, id: PeerId) -> bool {
        self.ready.contains(&id)
    }

    /// Returns the peer whose oldest entry is tried next.
    pub(crate) fn ready(&self) -> Option<PeerId> {
        self.ready.front().copied()
    }

    /// Forbids or allows to hold packets. While forbidden, [`Self::has_room`] is false; what is held already stays.
    pub(crate) fn set_suspended(&mut self, suspended: bool) {
        self.suspended = suspended;
    }

    /// Returns true while no packet may be held.
    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended
    }

    /// Returns the peers for which packets are held.
    pub(crate) fn peers(&self) -> Vec<PeerId> {
        self.queues.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: PeerId = PeerId(1);

    fn packet(length: usize) -> HeldEntry {
        HeldEntry::Packet { bytes: vec![7; length].into(), handed_off: false }
    }

    /// Pushes packets of this length until a bound is reached, and returns their number.
    fn push_until_full(held: &mut HeldPackets, id: PeerId, length: usize) -> usize {
        let mut pushed = 0;
        while held.has_room(id, length) {
            held.push(id, packet(length));
            pushed += 1;
        }
        pushed
    }

    #[test]
    fn fault_b11_a_peer_and_a_lane_hold_no_more_than_their_bounds() {
        for length in [0, 60, 1_500, 65_000] {
            let mut held = HeldPackets::default();
            let mut all = 0;
            for number in 0..10 {
                let pushed = push_until_full(&mut held, PeerId(number), length);
                assert!(pushed * length <= PER_PEER && pushed <= PER_PEER / ENTRY, "{pushed} of {length} bytes");
                assert!(number > 3 || pushed > 2, "four peers have room, {pushed} of {length} bytes");
                all += pushed;
            }
            assert!(all * length <= PER_LANE && all <= PER_LANE / ENTRY);
            for number in 0..10 {
                held.clear(PeerId(number));
            }
            assert_eq!((held.cost, held.peers().len()), (0, 0));
        }
    }

    #[test]
    fn entries_leave_in_order_and_an_entry_that_was_put_back_is_the_next() {
        let mut held = HeldPackets::default();
        (1..=3).for_each(|length| held.push(ONE, packet(length)));
        held.push(ONE, HeldEntry::Mark(9));
        held.retry(ONE);
        held.retry(ONE);
        assert_eq!((held.ready(), held.peers()), (Some(ONE), vec![ONE]));
        let first = held.pop(ONE).unwrap();
        held.put_back(ONE, first);
        let lengths: Vec<usize> = std::iter::from_fn(|| held.pop(ONE))
            .map(|entry| match entry {
                HeldEntry::Packet { bytes, .. } => bytes.len(),
                HeldEntry::Mark(barrier) => 100 + barrier as usize,
            })
            .collect();
        assert_eq!(lengths, [1, 2, 3, 109]);
        assert_eq!((held.cost, held.ready(), held.peers().len()), (0, None, 0), "nothing is left");
    }
}

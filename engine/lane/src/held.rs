//! Packets of one peer that are held for a moment, so that none is overtaken while the peer's packets change their path or their lane (protocol.md 5.8).
//!
//! ```text
//! read or handed off ──▶ must the peer's packets wait? ── no ──▶ sealed
//!                              │ yes                               ▲
//!                              ▼                                   │ in order
//!                        the peer's own queue ── when the wait is over, or when a bound is reached
//! ```
//! A wait concerns one peer: its packets are copied into a queue of its own, and the lane goes on reading for all others. Both bounds count the bytes
//! of packets and of what it takes to keep them. When one is reached the change is given up, and everything that was held leaves in order by the path
//! and the lane that were in use before. The copy is an exception to law 8, and counted ([`Traffic::held`](crate::Traffic::held)).

use std::collections::VecDeque;

use taut_base::PeerId;

/// Bytes held for one peer, at most (protocol.md 5.8): what 100 Mbit/s are in 20 ms.
pub(crate) const PER_PEER: usize = 256 * 1024;

/// Bytes held by one lane for all its peers, at most (protocol.md 5.8).
pub(crate) const PER_LANE: usize = 1024 * 1024;

/// Bytes that an entry costs beside its packet: its place in the queue and the allocator's header. Without it, a flood of tiny packets would be kept
/// almost for free.
const ENTRY: usize = 64;

/// One entry of a peer's queue.
pub(crate) enum Entry {
    /// A packet or superpacket as it was read from the TUN.
    Packet {
        /// Its bytes, virtio header included.
        bytes: Box<[u8]>,
        /// Another lane read it and handed it off to this one, the first.
        handed: bool,
    },
    /// Another lane's mark, which follows what that lane handed off before, see `fork`.
    Mark(u64),
}

impl Entry {
    fn cost(&self) -> usize {
        match self {
            Self::Packet { bytes, .. } => ENTRY + bytes.len(),
            Self::Mark(_) => ENTRY,
        }
    }
}

/// The queue of one peer.
#[derive(Default)]
pub(crate) struct Queue {
    entries: VecDeque<Entry>,
    cost: usize,
}

impl Queue {
    /// Whether nothing is held for the peer.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// What one lane holds for all its peers together.
#[derive(Default)]
pub(crate) struct Holds {
    cost: usize,
    /// Peers whose queue is not empty.
    holding: Vec<PeerId>,
    /// Of these, peers whose queue is to be tried again now, each once.
    ready: VecDeque<PeerId>,
}

impl Holds {
    /// Whether one more packet of `length` bytes fits into both bounds.
    pub(crate) fn has_room(&self, queue: &Queue, length: usize) -> bool {
        let cost = ENTRY + length;
        queue.cost + cost <= PER_PEER && self.cost + cost <= PER_LANE
    }

    /// Appends an entry to the peer's queue.
    pub(crate) fn push(&mut self, id: PeerId, queue: &mut Queue, entry: Entry) {
        self.add(id, queue, &entry);
        queue.entries.push_back(entry);
    }

    /// Puts an entry back in front that [`Self::pop`] gave: it has to wait longer.
    pub(crate) fn put_back(&mut self, id: PeerId, queue: &mut Queue, entry: Entry) {
        self.add(id, queue, &entry);
        queue.entries.push_front(entry);
    }

    fn add(&mut self, id: PeerId, queue: &mut Queue, entry: &Entry) {
        if queue.is_empty() {
            self.holding.push(id);
        }
        queue.cost += entry.cost();
        self.cost += entry.cost();
    }

    /// Takes the peer's oldest entry.
    pub(crate) fn pop(&mut self, id: PeerId, queue: &mut Queue) -> Option<Entry> {
        let entry = queue.entries.pop_front()?;
        queue.cost -= entry.cost();
        self.cost -= entry.cost();
        if queue.is_empty() {
            self.forget(id);
        }
        Some(entry)
    }

    /// Throws the peer's queue away and returns the number of packets in it.
    pub(crate) fn clear(&mut self, id: PeerId, queue: &mut Queue) -> u64 {
        let packets = queue.entries.iter().filter(|entry| matches!(entry, Entry::Packet { .. })).count();
        self.cost -= queue.cost;
        *queue = Queue::default();
        self.forget(id);
        packets as u64
    }

    fn forget(&mut self, id: PeerId) {
        self.holding.retain(|holding| *holding != id);
        self.wait(id);
    }

    /// The wait of this peer may be over: its queue is tried again.
    pub(crate) fn try_again(&mut self, id: PeerId, queue: &Queue) {
        if !queue.is_empty() && !self.is_ready(id) {
            self.ready.push_back(id);
        }
    }

    /// The peer's oldest entry has to wait longer.
    pub(crate) fn wait(&mut self, id: PeerId) {
        self.ready.retain(|ready| *ready != id);
    }

    /// Whether the peer's queue is to be tried again.
    pub(crate) fn is_ready(&self, id: PeerId) -> bool {
        self.ready.contains(&id)
    }

    /// The peer whose queue is tried next.
    pub(crate) fn ready(&self) -> Option<PeerId> {
        self.ready.front().copied()
    }

    /// Peers whose queue is not empty.
    pub(crate) fn holding(&self) -> &[PeerId] {
        &self.holding
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: PeerId = PeerId(1);

    fn packet(length: usize) -> Entry {
        Entry::Packet { bytes: vec![7; length].into(), handed: false }
    }

    /// Pushes packets of this length until a bound is reached, and returns how many that took.
    fn fill(holds: &mut Holds, id: PeerId, queue: &mut Queue, length: usize) -> usize {
        let mut pushed = 0;
        while holds.has_room(queue, length) {
            holds.push(id, queue, packet(length));
            pushed += 1;
        }
        pushed
    }

    #[test]
    fn fault_b11_a_peer_and_a_lane_hold_no_more_than_their_bounds() {
        for length in [0, 60, 1_500, 65_000] {
            let mut holds = Holds::default();
            let mut queues: Vec<Queue> = (0..10).map(|_| Queue::default()).collect();
            let mut all = 0;
            for (number, queue) in (0..).zip(&mut queues) {
                let pushed = fill(&mut holds, PeerId(number), queue, length);
                assert!(pushed * length <= PER_PEER && pushed <= PER_PEER / ENTRY, "{pushed} of {length} bytes");
                assert!(number > 3 || pushed > 2, "four peers have room, {pushed} of {length} bytes");
                all += pushed;
            }
            assert!(all * length <= PER_LANE && all <= PER_LANE / ENTRY);
            for (number, queue) in (0..).zip(&mut queues) {
                holds.clear(PeerId(number), queue);
            }
            assert_eq!((holds.cost, holds.holding.len()), (0, 0));
        }
    }

    #[test]
    fn entries_leave_in_their_order_and_one_that_is_put_back_is_the_next() {
        let (mut holds, mut queue) = (Holds::default(), Queue::default());
        (1..=3).for_each(|length| holds.push(ONE, &mut queue, packet(length)));
        holds.push(ONE, &mut queue, Entry::Mark(9));
        holds.try_again(ONE, &queue);
        holds.try_again(ONE, &queue);
        assert_eq!((holds.ready(), holds.holding()), (Some(ONE), &[ONE][..]));
        let first = holds.pop(ONE, &mut queue).unwrap();
        holds.put_back(ONE, &mut queue, first);
        let lengths: Vec<usize> = std::iter::from_fn(|| holds.pop(ONE, &mut queue))
            .map(|entry| match entry {
                Entry::Packet { bytes, .. } => bytes.len(),
                Entry::Mark(barrier) => 100 + barrier as usize,
            })
            .collect();
        assert_eq!(lengths, [1, 2, 3, 109]);
        assert_eq!((holds.cost, holds.ready(), holds.holding().len()), (0, None, 0), "nothing is left");
    }
}

//! Packets of a peer that are held for a moment while its path or its lanes change, so that none is overtaken (protocol.md 5.8).
//!
//! ```text
//! read or handed off ──▶ must the peer's packets wait? ── no ──▶ sealed
//!                              │ yes                               ▲
//!                              ▼                                   │ in order
//!                        the peer's own queue ── when the wait is over, or when a bound is reached
//! ```
//! A wait concerns one peer. Its packets are copied into a queue of its own, and the lane goes on reading for all others. When flows change their lanes one
//! by one, a wait concerns one bucket of flows (`selector`), and the peer's other packets pass the queue as long as it has only packets of this bucket. Both
//! bounds count the bytes of the packets and the memory that keeps them. When a bound is reached, the change is given up: the held packets leave in order, on
//! the path and lane that were in use before. The copy is an exception to law 8, and counted ([`PeerTraffic::held`](crate::PeerTraffic::held)).

use std::collections::VecDeque;

use taut_base::PeerId;

use crate::numbers::NumberMap;

/// Bytes held for one peer at most, 256 KiB (protocol.md 5.8): 100 Mbit/s for 20 ms.
pub(crate) const PER_PEER: usize = 256 * 1024;

/// Bytes held by one lane for all its peers at most, 1 MiB (protocol.md 5.8).
pub(crate) const PER_LANE: usize = 1024 * 1024;

/// Bytes held for one peer while flows of it change their lanes one by one, 2 MiB: a TCP connection has about rate × round trip on the way, so this is
/// 8 Gbit/s with 2 ms. Only this node's own load opens lanes, so no peer chooses when this much is held.
pub(crate) const PER_MOVE: usize = 2 * 1024 * 1024;

/// Bytes held by one lane for all such peers at most, 4 MiB, beside [`PER_LANE`]: flows that change lanes take no room from peers that change paths.
const PER_LANE_FOR_MOVES: usize = 4 * 1024 * 1024;

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
    scope: HeldScope,
    /// The bound that its bytes count for, from the first entry to the last.
    kind: HeldKind,
}

/// The bounds on a queue.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum HeldKind {
    /// [`PER_PEER`] and [`PER_LANE`].
    #[default]
    Change,
    /// [`PER_MOVE`] and [`PER_LANE_FOR_MOVES`].
    Move,
}

impl HeldKind {
    fn of(scope: HeldScope) -> Self {
        if scope == HeldScope::Peer { Self::Change } else { Self::Move }
    }

    /// Returns the most bytes for one peer and for one lane.
    fn bounds(self) -> (usize, usize) {
        match self {
            Self::Change => (PER_PEER, PER_LANE),
            Self::Move => (PER_MOVE, PER_LANE_FOR_MOVES),
        }
    }
}

/// The packets of a peer that have to follow a held packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HeldScope {
    /// All of them.
    #[default]
    Peer,
    /// Those of this bucket of flows.
    Flows(usize),
}

/// The held packets of one lane, by peer.
#[derive(Default)]
pub(crate) struct HeldPackets {
    /// Queues with at least one entry.
    queues: NumberMap<PeerId, HeldQueue>,
    /// Cost of all queues, by their [`HeldKind`].
    costs: [usize; 2],
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

    /// Returns true if a packet of this bucket of flows has to follow held packets of the peer.
    #[inline]
    pub(crate) fn precedes(&self, id: PeerId, bucket: usize) -> bool {
        let mut queue = (!self.queues.is_empty()).then(|| self.queues.get(&id)).flatten().into_iter();
        queue.any(|queue| matches!(queue.scope, HeldScope::Peer) || queue.scope == HeldScope::Flows(bucket))
    }

    /// Returns true if one more packet of this scope and `length` bytes fits into both bounds and packets may be held now.
    pub(crate) fn has_room(&self, id: PeerId, length: usize, scope: HeldScope) -> bool {
        let cost = ENTRY + length;
        let (used, kind) = self.queues.get(&id).map_or((0, HeldKind::of(scope)), |queue| (queue.cost, queue.kind));
        let (per_peer, per_lane) = kind.bounds();
        !self.suspended && used + cost <= per_peer && self.costs[kind as usize] + cost <= per_lane
    }

    /// Appends an entry to the peer's queue; the packets of this scope have to follow it.
    pub(crate) fn push(&mut self, id: PeerId, entry: HeldEntry, scope: HeldScope) {
        self.add(id, &entry, scope).entries.push_back(entry);
    }

    /// Puts an entry back in front that [`Self::pop`] returned and that has to wait longer.
    pub(crate) fn put_back(&mut self, id: PeerId, entry: HeldEntry, scope: HeldScope) {
        self.add(id, &entry, scope).entries.push_front(entry);
    }

    fn add(&mut self, id: PeerId, entry: &HeldEntry, scope: HeldScope) -> &mut HeldQueue {
        let kind = HeldKind::of(scope);
        let queue = self.queues.entry(id).or_insert_with(|| HeldQueue { scope, kind, ..HeldQueue::default() });
        if queue.scope != scope {
            queue.scope = HeldScope::Peer;
        }
        queue.cost += entry.cost();
        self.costs[queue.kind as usize] += entry.cost();
        queue
    }

    /// Takes the peer's oldest entry.
    pub(crate) fn pop(&mut self, id: PeerId) -> Option<HeldEntry> {
        let queue = self.queues.get_mut(&id)?;
        let entry = queue.entries.pop_front()?;
        queue.cost -= entry.cost();
        self.costs[queue.kind as usize] -= entry.cost();
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
        self.costs[queue.kind as usize] -= queue.cost;
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
    fn push_until_full(held: &mut HeldPackets, id: PeerId, length: usize, scope: HeldScope) -> usize {
        let mut pushed = 0;
        while held.has_room(id, length, scope) {
            held.push(id, packet(length), scope);
            pushed += 1;
        }
        pushed
    }

    #[test]
    fn fault_b11_a_peer_and_a_lane_hold_no_more_than_their_bounds() {
        let bounds = [(HeldScope::Peer, PER_PEER, PER_LANE, 4), (HeldScope::Flows(3), PER_MOVE, PER_LANE_FOR_MOVES, 2)];
        let lengths = [0, 60, 1_500, 65_000];
        for ((scope, per_peer, per_lane, peers), length) in
            bounds.into_iter().flat_map(|bound| lengths.map(|length| (bound, length)))
        {
            let mut held = HeldPackets::default();
            let mut all = 0;
            for number in 0..10 {
                let pushed = push_until_full(&mut held, PeerId(number), length, scope);
                assert!(pushed * length <= per_peer && pushed <= per_peer / ENTRY, "{pushed} of {length} bytes");
                assert!(number >= peers || pushed > 2, "{peers} peers have room, {pushed} of {length} bytes");
                all += pushed;
            }
            assert!(all * length <= per_lane && all <= per_lane / ENTRY);
            for number in 0..10 {
                held.clear(PeerId(number));
            }
            assert_eq!((held.costs, held.peers().len()), ([0, 0], 0));
        }
    }

    #[test]
    fn fault_b11_flows_that_change_lanes_take_no_room_from_peers_that_change_paths() {
        let mut held = HeldPackets::default();
        let alone = push_until_full(&mut held, ONE, 1_500, HeldScope::Peer);
        held.clear(ONE);
        for number in 2..6 {
            push_until_full(&mut held, PeerId(number), 1_500, HeldScope::Flows(0));
        }
        assert_eq!(push_until_full(&mut held, ONE, 1_500, HeldScope::Peer), alone);
        held.push(PeerId(2), packet(9), HeldScope::Peer);
        assert_eq!(held.clear(PeerId(2)), (PER_MOVE / (1_500 + ENTRY)) as u64 + 1);
        (1..6).for_each(|number| _ = held.clear(PeerId(number)));
        assert_eq!(held.costs, [0, 0]);
    }

    #[test]
    fn only_packets_of_the_same_flows_follow_until_a_packet_for_all_is_held() {
        let mut held = HeldPackets::default();
        held.push(ONE, packet(1), HeldScope::Flows(7));
        assert!(held.has(ONE) && held.precedes(ONE, 7) && !held.precedes(ONE, 8) && !held.precedes(PeerId(2), 7));
        held.push(ONE, packet(2), HeldScope::Peer);
        held.pop(ONE);
        held.pop(ONE);
        assert!(!held.precedes(ONE, 7));
        held.push(ONE, packet(1), HeldScope::Flows(7));
        held.push(ONE, HeldEntry::Mark(1), HeldScope::Peer);
        held.push(ONE, packet(1), HeldScope::Flows(7));
        assert!(held.precedes(ONE, 8));
    }

    #[test]
    fn entries_leave_in_order_and_an_entry_that_was_put_back_is_the_next() {
        let mut held = HeldPackets::default();
        (1..=3).for_each(|length| held.push(ONE, packet(length), HeldScope::Peer));
        held.push(ONE, HeldEntry::Mark(9), HeldScope::Peer);
        held.retry(ONE);
        held.retry(ONE);
        assert_eq!((held.ready(), held.peers()), (Some(ONE), vec![ONE]));
        let first = held.pop(ONE).unwrap();
        held.put_back(ONE, first, HeldScope::Peer);
        let lengths: Vec<usize> = std::iter::from_fn(|| held.pop(ONE))
            .map(|entry| match entry {
                HeldEntry::Packet { bytes, .. } => bytes.len(),
                HeldEntry::Mark(barrier) => 100 + barrier as usize,
            })
            .collect();
        assert_eq!(lengths, [1, 2, 3, 109]);
        assert_eq!((held.costs, held.ready(), held.peers().len()), ([0, 0], None, 0), "nothing is left");
    }
}

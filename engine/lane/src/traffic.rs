//! Byte counters of each peer.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use taut_base::{AtomicU64, PeerId};

/// Bytes to and from one peer, of inner packets and of the data messages around them. Only the lane writes these counters; any thread may read them.
#[derive(Debug, Default)]
pub struct PeerTraffic {
    received: AtomicU64,
    sent: AtomicU64,
    outer_received: AtomicU64,
    outer_sent: AtomicU64,
    relayed_received: AtomicU64,
    relayed_sent: AtomicU64,
    copied: AtomicU64,
    held: AtomicU64,
    given_up: AtomicU64,
    marked_received: AtomicU64,
    marked_sent: AtomicU64,
}

impl PeerTraffic {
    /// Counts an inner packet that a data message brought.
    pub(crate) fn add_received(&self, bytes: usize, relayed: bool) {
        add(&self.received, bytes);
        if relayed {
            add(&self.relayed_received, bytes);
        }
    }

    /// Counts an authentic data message; an empty one counts, too.
    pub(crate) fn add_outer_received(&self, bytes: usize) {
        add(&self.outer_received, bytes);
    }

    /// Counts `bytes` of inner packets and the `outer` bytes of the data messages that carry them.
    pub(crate) fn add_sent(&self, bytes: usize, outer: usize, relayed: bool) {
        add(&self.sent, bytes);
        add(&self.outer_sent, outer);
        if relayed {
            add(&self.relayed_sent, bytes);
        }
    }

    /// Counts messages that carry no inner packet: keepalives and control messages.
    pub(crate) fn add_overhead(&self, outer: usize) {
        add(&self.outer_sent, outer);
    }

    /// Counts copies of messages.
    pub(crate) fn add_copied(&self, outer: usize) {
        add(&self.copied, outer);
    }

    /// Counts a packet that is held.
    pub(crate) fn add_held(&self, bytes: usize) {
        add(&self.held, bytes);
    }

    /// Counts a change of path or lanes that was given up.
    pub(crate) fn add_given_up(&self) {
        add(&self.given_up, 1);
    }

    /// Counts a packet from the peer that got a congestion mark here.
    pub(crate) fn add_marked_received(&self) {
        add(&self.marked_received, 1);
    }

    /// Counts a packet or superpacket to the peer that got a congestion mark here.
    pub(crate) fn add_marked_sent(&self) {
        add(&self.marked_sent, 1);
    }

    /// Packets from the peer, and packets and superpackets to it, that got a congestion mark here because their flow filled a queue of the lane.
    pub fn marked(&self) -> (u64, u64) {
        (self.marked_received.load(Ordering::Relaxed), self.marked_sent.load(Ordering::Relaxed))
    }

    /// Bytes of packets that were held while the peer's path or lanes changed, each for at most 50 ms.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Changes of path or lanes that were given up because the packets to hold would have exceeded a bound.
    pub fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Bytes received from the peer and sent to it through a relay: a part of [`Self::received`] and [`Self::sent`].
    pub fn relayed(&self) -> (u64, u64) {
        (self.relayed_received.load(Ordering::Relaxed), self.relayed_sent.load(Ordering::Relaxed))
    }

    /// Bytes of datagrams that were sent a second time on another path, while the first path was in doubt. No other counter includes them.
    pub fn copied(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    /// Bytes of data messages received from the peer and sent to it, as `wg` shows them: WireGuard's message without UDP and IP headers.
    pub fn outer(&self) -> (u64, u64) {
        (self.outer_received.load(Ordering::Relaxed), self.outer_sent.load(Ordering::Relaxed))
    }

    /// Bytes received from the peer.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Bytes sent to the peer.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

/// Adds to a counter that only the lane writes. A load and a store suffice and cost less than an atomic addition.
fn add(counter: &AtomicU64, bytes: usize) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(bytes as u64), Ordering::Relaxed);
}

/// The traffic of all peers. Its lock is taken at the first packet of a peer, when a peer is removed and when a user asks, and not for other packets.
#[derive(Debug, Default)]
pub struct TrafficTable {
    peers: Mutex<HashMap<PeerId, Arc<PeerTraffic>>>,
}

impl TrafficTable {
    /// Returns the bytes received from `peer` and sent to it.
    pub fn of(&self, peer: PeerId) -> (u64, u64) {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.get(&peer).map_or((0, 0), |traffic| (traffic.received(), traffic.sent()))
    }

    /// Returns the bytes of data messages received from `peer` and sent to it, see [`PeerTraffic::outer`].
    pub fn outer_of(&self, peer: PeerId) -> (u64, u64) {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.get(&peer).map_or((0, 0), |traffic| traffic.outer())
    }

    /// Returns the bytes received from `peer` and sent to it through a relay, see [`PeerTraffic::relayed`].
    pub fn relayed_of(&self, peer: PeerId) -> (u64, u64) {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.get(&peer).map_or((0, 0), |traffic| traffic.relayed())
    }

    /// Returns the bytes sent to `peer` a second time, see [`PeerTraffic::copied`].
    pub fn copied_of(&self, peer: PeerId) -> u64 {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.get(&peer).map_or(0, |traffic| traffic.copied())
    }

    /// Returns the bytes of packets to `peer` that were held and the number of changes that were given up, see [`PeerTraffic::held`] and
    /// [`PeerTraffic::given_up`].
    pub fn held_of(&self, peer: PeerId) -> (u64, u64) {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.get(&peer).map_or((0, 0), |traffic| (traffic.held(), traffic.given_up()))
    }

    /// Returns the packets from `peer` and to it that were marked, see [`PeerTraffic::marked`].
    pub fn marked_of(&self, peer: PeerId) -> (u64, u64) {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.get(&peer).map_or((0, 0), |traffic| traffic.marked())
    }

    /// Returns the counters of `peer`, new ones if it has none.
    pub(crate) fn add(&self, peer: PeerId) -> Arc<PeerTraffic> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(peers.entry(peer).or_default())
    }

    /// Removes the counters of all peers but these. For the table of a lane that ended: a running one does it itself.
    pub fn keep_only(&self, keep: impl Fn(PeerId) -> bool) {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).retain(|peer, _| keep(*peer));
    }

    pub(crate) fn remove(&self, peer: PeerId) {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).remove(&peer);
    }
}

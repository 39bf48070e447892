//! What a lane knows of its peers, found by number or by receiver index.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use taut_base::{LaneId, PeerId, Time};
use taut_path::Way;
use taut_tunnel::{Bucket, Keyring};
use taut_udp::Local;

use crate::held::Queue;
use crate::path::Path;
use crate::selector::LaneSelector;
use crate::staged::Staged;

/// One lane of a peer's sessions.
pub(crate) struct Side {
    pub(crate) lane: LaneId,
    pub(crate) keyring: Keyring,
    /// How packets go: as the agent chose, or to the last place that an authenticated packet came from. On further lanes a probe's answer before
    /// there was one.
    pub(crate) way: Option<Way>,
    /// The address of ours that it, or its relay, speaks to, as last noted.
    pub(crate) local: Option<(SocketAddr, Local)>,
}

impl Side {
    /// A lane of which nothing is known yet.
    pub(crate) fn new(lane: LaneId, keyring: Keyring) -> Self {
        Self { lane, keyring, way: None, local: None }
    }
}

/// A peer on this lane.
pub(crate) struct LanePeer {
    /// The first lane of its sessions that is served here; on our first lane, that is WireGuard's own.
    pub(crate) first: Side,
    /// The others, if the peer has more lanes than we.
    pub(crate) others: Vec<Side>,
    /// By which of them packets go.
    pub(crate) selector: LaneSelector,
    /// Packets that wait for a change of path or lanes; what comes after them queues up behind.
    pub(crate) held: Queue,
    pub(crate) staged: Staged,
    pub(crate) traffic: Arc<Traffic>,
    /// When this peer stands in the timer heap, if it does.
    pub(crate) scheduled: Option<Time>,
    /// Inner source and destination that were allowed last time: most packets need no look-up.
    pub(crate) last_ends: Option<(IpAddr, IpAddr)>,
    /// Control messages that may still go up to the agent.
    pub(crate) control: Bucket,
    /// Control messages of its that may still be opened, and until when none is.
    pub(crate) authentic: Bucket,
    pub(crate) muted: Time,
    /// Probes of its that may still be answered.
    pub(crate) answers: Bucket,
    /// Which ways they go and come.
    pub(crate) path: Path,
}

impl LanePeer {
    /// What is served here of this lane of its sessions.
    pub(crate) fn side(&mut self, lane: LaneId) -> Option<&mut Side> {
        if self.first.lane == lane {
            return Some(&mut self.first);
        }
        self.others.iter_mut().find(|side| side.lane == lane)
    }

    /// When the packets that are held for it are to be tried again at the latest.
    pub(crate) fn held_until(&self) -> Option<Time> {
        if self.held.is_empty() {
            return None;
        }
        // Whatever else they waited for is over: at once.
        self.selector.holds_until().into_iter().chain(self.path.holds_until()).min().or(Some(Time::ZERO))
    }

    /// Where what goes to it is sent to, on all its sides that are served here.
    pub(crate) fn places(&self) -> impl Iterator<Item = SocketAddr> {
        std::iter::once(&self.first).chain(&self.others).filter_map(|side| side.way).map(|way| way.first_hop())
    }

    /// Everything that is served here.
    pub(crate) fn sides(&mut self) -> impl Iterator<Item = &mut Side> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }
}

/// Bytes to and from one peer: of inner packets, and of the data messages around them. Written by the lane, read by anybody.
#[derive(Debug, Default)]
pub struct Traffic {
    received: AtomicU64,
    sent: AtomicU64,
    outer_received: AtomicU64,
    outer_sent: AtomicU64,
    relayed_received: AtomicU64,
    relayed_sent: AtomicU64,
    copied: AtomicU64,
    held: AtomicU64,
    given_up: AtomicU64,
}

impl Traffic {
    /// A packet that came in a data message.
    pub(crate) fn add_received(&self, bytes: usize, relayed: bool) {
        add(&self.received, bytes);
        if relayed {
            add(&self.relayed_received, bytes);
        }
    }

    /// A data message that was authentic, empty ones too.
    pub(crate) fn add_outer_received(&self, bytes: usize) {
        add(&self.outer_received, bytes);
    }

    /// Packets, and the data messages that they went in.
    pub(crate) fn add_sent(&self, bytes: usize, outer: usize, relayed: bool) {
        add(&self.sent, bytes);
        add(&self.outer_sent, outer);
        if relayed {
            add(&self.relayed_sent, bytes);
        }
    }

    /// Messages around nobody's packet.
    pub(crate) fn add_overhead(&self, outer: usize) {
        add(&self.outer_sent, outer);
    }

    /// Copies of messages.
    pub(crate) fn add_copied(&self, outer: usize) {
        add(&self.copied, outer);
    }

    /// A packet that is held.
    pub(crate) fn add_held(&self, bytes: usize) {
        add(&self.held, bytes);
    }

    /// A change of path or lanes that was given up.
    pub(crate) fn add_given_up(&self) {
        add(&self.given_up, 1);
    }

    /// Bytes of packets that were held while the peer's path or lanes changed, for 50 ms at most.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Changes of path or lanes that were given up, because more would have had to be held than may be.
    pub fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Bytes that came from the peer and went to it by a relay: a part of [`Self::received`] and [`Self::sent`].
    pub fn relayed(&self) -> (u64, u64) {
        (self.relayed_received.load(Ordering::Relaxed), self.relayed_sent.load(Ordering::Relaxed))
    }

    /// Bytes of datagrams that were sent a second time by another way, while one was in doubt. They count nowhere else.
    pub fn copied(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    /// Bytes of data messages (WireGuard's own, without UDP and IP) received from the peer and sent to it, as `wg` shows them.
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

/// Only the lane writes: a load and a store do, and cost less than an addition that others could cross.
fn add(counter: &AtomicU64, bytes: usize) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(bytes as u64), Ordering::Relaxed);
}

/// The traffic of all peers. The lock is taken when a peer comes or goes and when a user looks, never for a packet.
#[derive(Debug, Default)]
pub struct TrafficTable {
    peers: Mutex<HashMap<PeerId, Arc<Traffic>>>,
}

impl TrafficTable {
    /// Bytes received and sent with `peer`.
    pub fn of(&self, peer: PeerId) -> (u64, u64) {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.get(&peer).map_or((0, 0), |traffic| (traffic.received(), traffic.sent()))
    }

    /// Bytes of data messages received from `peer` and sent to it, see [`Traffic::outer`].
    pub fn outer_of(&self, peer: PeerId) -> (u64, u64) {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.get(&peer).map_or((0, 0), |traffic| traffic.outer())
    }

    /// Bytes received from `peer` and sent to it by a relay, see [`Traffic::relayed`].
    pub fn relayed_of(&self, peer: PeerId) -> (u64, u64) {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.get(&peer).map_or((0, 0), |traffic| traffic.relayed())
    }

    /// Bytes sent to `peer` a second time, see [`Traffic::copied`].
    pub fn copied_of(&self, peer: PeerId) -> u64 {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.get(&peer).map_or(0, |traffic| traffic.copied())
    }

    /// Bytes of packets to `peer` that were held, and changes that were given up, see [`Traffic::held`] and [`Traffic::given_up`].
    pub fn held_of(&self, peer: PeerId) -> (u64, u64) {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.get(&peer).map_or((0, 0), |traffic| (traffic.held(), traffic.given_up()))
    }

    pub(crate) fn add(&self, peer: PeerId) -> Arc<Traffic> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(peers.entry(peer).or_default())
    }

    pub(crate) fn remove(&self, peer: PeerId) {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).remove(&peer);
    }
}

/// A map by small numbers of our own making: multiplication spreads them well enough, and nobody outside can choose them.
pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        // The odd number next to 2^64 over the golden ratio (Fibonacci hashing); the map uses the top bits, too.
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

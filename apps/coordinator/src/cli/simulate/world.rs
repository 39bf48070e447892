//! State that all simulated members share: the networks, the changes that are under way, and counters.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use taut_base::{NodeId, PublicKey};
use taut_netmap::Peer;

use super::sites::Sites;
use crate::store::NetworkId;

/// The simulated networks and what happens in them.
pub(super) struct World {
    /// The coordinator's key.
    pub(super) coordinator: PublicKey,
    /// The coordinators' addresses.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) networks: Vec<SimulatedNetwork>,
    pub(super) sites: Sites,
    /// Time over which members begin to use relays.
    pub(super) arrival: Duration,
    /// Members whose channel is open and that have their map.
    pub(super) connected: AtomicUsize,
    /// Bytes of all messages that members received.
    pub(super) received: AtomicU64,
    /// Deltas that did not fit the member's map.
    pub(super) misfits: AtomicU64,
    /// Times from a change to its arrival at the last member.
    pub(super) delays: Mutex<Vec<Duration>>,
}

/// One network.
pub(super) struct SimulatedNetwork {
    pub(super) id: NetworkId,
    pub(super) members: Vec<NodeId>,
    /// Changes that some members have not heard of.
    changes: Mutex<BTreeMap<NodeId, Change>>,
}

/// A change of a member's endpoints.
struct Change {
    endpoint: SocketAddr,
    sent: Instant,
    missing: usize,
}

impl SimulatedNetwork {
    pub(super) fn new(id: NetworkId, members: Vec<NodeId>) -> Self {
        Self { id, members, changes: Mutex::default() }
    }

    /// Begins a change of a member. Returns false if its last change is still under way, or if the network has no other member.
    pub(super) fn begin(&self, node: NodeId, endpoint: SocketAddr) -> bool {
        let mut changes = locked(&self.changes);
        if changes.contains_key(&node) || self.members.len() < 2 {
            return false;
        }
        changes.insert(node, Change { endpoint, sent: Instant::now(), missing: self.members.len().saturating_sub(1) });
        true
    }

    /// Notes that one member has heard of this peer, which it knew differently before. Returns the time that the change took if it was the last one.
    pub(super) fn heard(&self, peer: &Peer) -> Option<Duration> {
        let mut changes = locked(&self.changes);
        let change = changes.get_mut(&peer.id).filter(|change| peer.endpoints.contains(&change.endpoint))?;
        change.missing -= 1;
        let is_last = change.missing == 0;
        let took = change.sent.elapsed();
        if is_last {
            changes.remove(&peer.id);
        }
        is_last.then_some(took)
    }

    /// Returns the number of changes that some members have not heard of.
    pub(super) fn under_way(&self) -> usize {
        locked(&self.changes).len()
    }
}

impl World {
    /// Returns the number of members.
    pub(super) fn size(&self) -> usize {
        self.networks.iter().map(|network| network.members.len()).sum()
    }

    /// Returns true if every member is connected and has its map.
    pub(super) fn is_whole(&self) -> bool {
        self.connected.load(Ordering::Relaxed) == self.size()
    }

    /// Returns the number of changes under way.
    pub(super) fn under_way(&self) -> usize {
        self.networks.iter().map(SimulatedNetwork::under_way).sum()
    }

    pub(super) fn note(&self, took: Duration) {
        locked(&self.delays).push(took);
    }
}

/// A member's map, as hashes of its peers: whole maps of ten thousand members would take gigabytes.
#[derive(Clone, Default)]
pub(super) struct Known {
    /// Version of the map.
    pub(super) version: u64,
    /// A hash of each peer.
    pub(super) peers: BTreeMap<NodeId, u64>,
}

/// Returns a hash of all that a map says of a peer.
pub(super) fn hash(peer: &Peer) -> u64 {
    let mut hasher = DefaultHasher::new();
    let Peer { id, name, key, addresses, endpoints, relays, native, routes } = peer;
    (id.0, name, key.0, addresses, endpoints, native, routes).hash(&mut hasher);
    relays.iter().for_each(|relay| relay.0.hash(&mut hasher));
    hasher.finish()
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

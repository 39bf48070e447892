//! The hub of one network: its presence, and hints to its connections.
//!
//! A hint says only that something changed; each connection then reads the database. A lost hint delays a change and does not lose it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use taut_base::NodeId;
use tokio::sync::{oneshot, watch};

use super::duplicates::Duplicates;
use super::feed::Feed;
use super::presence::{Presence, PresenceNews};
use super::rate_limit::RateLimit;

/// Time for which a silent node stays online, 45 s: three of its pings.
pub(crate) const LEASE: Duration = Duration::from_secs(45);

/// Time for which a node stays online after its connection ended, 10 s. A node that changed its address reconnects within a few seconds.
const GRACE: Duration = Duration::from_secs(10);

/// Least time, on average, between two changes of a node's endpoints or relays, 1 s. Each is written to disk and sent to every peer.
const ENDPOINTS_EVERY: Duration = Duration::from_secs(1);

/// Such changes of one node that may follow each other at once, 4. After its start a node learns its interfaces, then what relays observe, then the relays that
/// it is bound to, and each of these helps to reach it.
const ENDPOINTS_BURST: u32 = 4;

/// Hints and presence of one network.
pub(crate) struct Hub {
    version: watch::Sender<u64>,
    revision: watch::Sender<u64>,
    feed: Feed,
    inner: Mutex<HubState>,
}

#[derive(Default)]
struct HubState {
    presence: Presence,
    duplicates: Duplicates,
    /// Rate of each node's endpoint changes. It outlives the node's channels, so that a new channel brings no new budget (fault E21).
    endpoint_rates: BTreeMap<NodeId, RateLimit>,
    /// The connection of each node. Dropping the sender tells the connection that a newer one replaced it.
    connections: BTreeMap<NodeId, (u64, oneshot::Sender<Infallible>)>,
}

impl Hub {
    pub(super) fn new() -> Self {
        Self {
            version: watch::Sender::new(0),
            revision: watch::Sender::new(0),
            feed: Feed::default(),
            inner: Mutex::default(),
        }
    }

    /// Hints at a new version of the map.
    pub(super) fn announce(&self, version: u64) {
        self.version.send_if_modified(|last| {
            let newer = version > *last;
            *last = version.max(*last);
            newer
        });
    }

    /// Returns the latest version that was hinted at; 0 before the first.
    pub(super) fn announced(&self) -> u64 {
        *self.version.borrow()
    }

    /// Returns the maps of the network.
    pub(super) fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Enters a connection of a node, which replaces an older one of the same node. `run` is the number of the program's start. Returns `None` if another
    /// program with the node's keys is connected.
    pub(crate) fn enter(self: &Arc<Self>, node: NodeId, connection: u64, run: u64) -> Option<Membership> {
        let (alive, replaced) = oneshot::channel();
        // Subscribed before the caller reads its first map, so that it misses no change.
        let (version, revision) = (self.version.subscribe(), self.revision.subscribe());
        let now = Instant::now();
        let entered = self.update(|inner| {
            let entered = inner.duplicates.enter(node, run, inner.connections.contains_key(&node), now);
            if entered {
                inner.connections.insert(node, (connection, alive));
                inner.presence.enter(node, connection, now + LEASE);
                inner
                    .endpoint_rates
                    .entry(node)
                    .or_insert_with(|| RateLimit::new(ENDPOINTS_EVERY, ENDPOINTS_BURST, now.into()));
            }
            entered
        });
        if !entered {
            // The connected program is told that there is a duplicate.
            self.revision.send_modify(|_| {});
            return None;
        }
        Some(Membership { hub: Arc::clone(self), node, connection, version, revision, replaced })
    }

    /// Whether two programs were seen with the node's keys.
    pub(crate) fn has_duplicate(&self, node: NodeId) -> bool {
        self.lock().duplicates.has_duplicate(node, Instant::now())
    }

    /// Forgets a node that is no longer a member.
    pub(super) fn forget(&self, node: NodeId) {
        let mut inner = self.lock();
        inner.duplicates.forget(node);
        inner.endpoint_rates.remove(&node);
    }

    /// Ends expired leases, and returns their nodes.
    pub(super) fn sweep(&self, now: Instant) -> Vec<NodeId> {
        self.update(|inner| inner.presence.sweep(now))
    }

    /// Returns true if a node is online.
    pub(crate) fn is_online(&self, node: NodeId) -> bool {
        self.lock().presence.is_online(node)
    }

    /// Returns all nodes that are online.
    pub(crate) fn online(&self) -> Vec<NodeId> {
        self.lock().presence.online().collect()
    }

    fn update<R>(&self, change: impl FnOnce(&mut HubState) -> R) -> R {
        let mut inner = self.lock();
        let result = change(&mut inner);
        let revision = inner.presence.revision();
        drop(inner);
        self.revision.send_if_modified(|last| std::mem::replace(last, revision.max(*last)) < revision);
        result
    }

    fn lock(&self) -> MutexGuard<'_, HubState> {
        // A panic leaves no change incomplete, because every change is one call.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's entry in the hub. Dropping it starts the [`GRACE`] period.
pub(crate) struct Membership {
    hub: Arc<Hub>,
    node: NodeId,
    connection: u64,
    /// Hints at new versions of the map.
    pub(crate) version: watch::Receiver<u64>,
    /// Hints at changed presence.
    pub(crate) revision: watch::Receiver<u64>,
    /// Ends when a newer connection of the same node replaces this one.
    pub(crate) replaced: oneshot::Receiver<Infallible>,
}

impl Membership {
    /// Renews the lease.
    pub(crate) fn renew(&self) {
        self.hub.update(|inner| inner.presence.renew(self.node, self.connection, Instant::now() + LEASE));
    }

    /// Ends the lease at once.
    pub(crate) fn leave(&self) {
        self.hub.update(|inner| inner.presence.leave(self.node, self.connection));
    }

    /// Returns the time at which the node may change its endpoints or relays.
    pub(crate) fn endpoints_due(&self) -> tokio::time::Instant {
        self.hub.lock().endpoint_rates.get(&self.node).map_or_else(tokio::time::Instant::now, RateLimit::due)
    }

    /// Counts such a change, also one that failed.
    pub(crate) fn count_endpoint_change(&self) {
        self.with_endpoint_rate(|endpoint_rates| endpoint_rates.count(tokio::time::Instant::now()));
    }

    /// Delays the next such change, because one could not be stored.
    pub(crate) fn pause_endpoint_changes(&self) {
        self.with_endpoint_rate(|endpoint_rates| endpoint_rates.pause(tokio::time::Instant::now()));
    }

    fn with_endpoint_rate(&self, change: impl FnOnce(&mut RateLimit)) {
        if let Some(endpoint_rates) = self.hub.lock().endpoint_rates.get_mut(&self.node) {
            change(endpoint_rates);
        }
    }

    /// Whether another program was seen with this node's keys.
    pub(crate) fn has_duplicate(&self) -> bool {
        self.hub.has_duplicate(self.node)
    }

    /// Returns the changes after `revision`; for `None` all nodes that are online.
    pub(crate) fn news(&self, revision: Option<u64>) -> PresenceNews {
        self.hub.lock().presence.since(revision)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.hub.update(|inner| {
            inner.presence.close(self.node, self.connection, Instant::now(), GRACE);
            if inner.connections.get(&self.node).is_some_and(|(connection, _)| *connection == self.connection) {
                inner.connections.remove(&self.node);
            }
            if inner.connections.is_empty() {
                self.hub.feed.clear();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_e21_a_new_channel_brings_no_new_budget() {
        let (hub, node) = (Arc::new(Hub::new()), NodeId(1));
        let first = hub.enter(node, 1, 1).unwrap();
        for _ in 0..ENDPOINTS_BURST {
            assert!(first.endpoints_due() <= tokio::time::Instant::now());
            first.count_endpoint_change();
        }
        let due = first.endpoints_due();
        drop(first);
        assert_eq!(hub.enter(node, 2, 1).unwrap().endpoints_due(), due);
        assert!(hub.enter(NodeId(2), 3, 1).unwrap().endpoints_due() < due, "another node has its own");
        hub.forget(node);
        assert!(hub.lock().endpoint_rates.len() == 1);
    }
}

//! The hub of one network: hints to its connections, and who is there.
//!
//! A hint says that something changed, never what: each connection reads the rows again. A hint that is lost costs a delay, not a change.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use taut_base::NodeId;
use tokio::sync::{oneshot, watch};

use super::pace::Pace;
use super::presence::{News, Presence};
use super::twins::Twins;

/// How long presence lasts without a sign of life: three pings, of which nodes send one every 15 s.
pub(crate) const LEASE: Duration = Duration::from_secs(45);

/// How long a node may be gone before it counts as gone: reconnecting after a changed address takes a few seconds.
const GRACE: Duration = Duration::from_secs(10);

/// Least time, on average, between two changes of where a node is: each is written to disk and told to every peer.
const PLACES_EVERY: Duration = Duration::from_secs(1);

/// Writes of one node that may follow each other at once, 4: after a start a node first knows its interfaces, then what relays say, then where it is
/// bound, and each of that helps to reach it.
const PLACES_BURST: u32 = 4;

/// Hints and presence of one network.
pub(crate) struct Hub {
    version: watch::Sender<u64>,
    revision: watch::Sender<u64>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    presence: Presence,
    twins: Twins,
    /// When each node may change where it is. It outlives the node's channels: a new one brings no new budget (fault E21).
    places: BTreeMap<NodeId, Pace>,
    /// Dropping the sender tells the connection that a newer one of the same node took its place.
    connections: BTreeMap<NodeId, (u64, oneshot::Sender<Infallible>)>,
}

impl Hub {
    pub(super) fn new() -> Self {
        Self { version: watch::Sender::new(0), revision: watch::Sender::new(0), inner: Mutex::default() }
    }

    /// Hints at a new version.
    pub(super) fn announce(&self, version: u64) {
        self.version.send_if_modified(|last| {
            let newer = version > *last;
            *last = version.max(*last);
            newer
        });
    }

    /// Takes a connection of a program with this run in; it replaces an older one of the same node. `None` where it is refused, because another
    /// program runs with the node's keys and is connected.
    pub(crate) fn enter(self: &Arc<Self>, node: NodeId, connection: u64, run: u64) -> Option<Membership> {
        let (alive, replaced) = oneshot::channel();
        // Subscribed before the caller reads its first map, so that no change falls in between.
        let (version, revision) = (self.version.subscribe(), self.revision.subscribe());
        let now = Instant::now();
        let entered = self.update(|inner| {
            let entered = inner.twins.enter(node, run, inner.connections.contains_key(&node), now);
            if entered {
                inner.connections.insert(node, (connection, alive));
                inner.presence.enter(node, connection, now + LEASE);
                inner.places.entry(node).or_insert_with(|| Pace::new(PLACES_EVERY, PLACES_BURST, now.into()));
            }
            entered
        });
        if !entered {
            // Whoever is connected has news to tell: that there are two.
            self.revision.send_modify(|_| {});
            return None;
        }
        Some(Membership { hub: Arc::clone(self), node, connection, version, revision, replaced })
    }

    /// Whether two programs were seen with the node's keys.
    pub(crate) fn are_two(&self, node: NodeId) -> bool {
        self.lock().twins.are_two(node, Instant::now())
    }

    /// Forgets what is kept of a node while it is away: it is no member any more.
    pub(super) fn forget(&self, node: NodeId) {
        let mut inner = self.lock();
        inner.twins.forget(node);
        inner.places.remove(&node);
    }

    /// Ends the leases that have run out; who they were of.
    pub(super) fn sweep(&self, now: Instant) -> Vec<NodeId> {
        self.update(|inner| inner.presence.sweep(now))
    }

    /// Whether a node is online.
    pub(crate) fn is_online(&self, node: NodeId) -> bool {
        self.lock().presence.is_online(node)
    }

    /// Everybody who is online.
    pub(crate) fn online(&self) -> Vec<NodeId> {
        self.lock().presence.online().collect()
    }

    fn update<R>(&self, change: impl FnOnce(&mut Inner) -> R) -> R {
        let mut inner = self.lock();
        let result = change(&mut inner);
        let revision = inner.presence.revision();
        drop(inner);
        self.revision.send_if_modified(|last| std::mem::replace(last, revision.max(*last)) < revision);
        result
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here is left half done by a panic: every change is one call.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place in the hub; dropping it starts the grace.
pub(crate) struct Membership {
    hub: Arc<Hub>,
    node: NodeId,
    connection: u64,
    /// Hints at new versions.
    pub(crate) version: watch::Receiver<u64>,
    /// Hints at changed presence.
    pub(crate) revision: watch::Receiver<u64>,
    /// Ends when a newer connection of the same node is there.
    pub(crate) replaced: oneshot::Receiver<Infallible>,
}

impl Membership {
    /// A sign of life.
    pub(crate) fn renew(&self) {
        self.hub.update(|inner| inner.presence.renew(self.node, self.connection, Instant::now() + LEASE));
    }

    /// The node leaves.
    pub(crate) fn leave(&self) {
        self.hub.update(|inner| inner.presence.leave(self.node, self.connection));
    }

    /// When the node may change where it is.
    pub(crate) fn places_due(&self) -> tokio::time::Instant {
        self.hub.lock().places.get(&self.node).map_or_else(tokio::time::Instant::now, Pace::due)
    }

    /// Such a change was written, or tried.
    pub(crate) fn pay_places(&self) {
        self.with_places(|places| places.pay(tokio::time::Instant::now()));
    }

    /// Such a change could not be written: the next one waits for longer.
    pub(crate) fn pause_places(&self) {
        self.with_places(|places| places.pause(tokio::time::Instant::now()));
    }

    fn with_places(&self, change: impl FnOnce(&mut Pace)) {
        if let Some(places) = self.hub.lock().places.get_mut(&self.node) {
            change(places);
        }
    }

    /// Whether another program was seen with this node's keys.
    pub(crate) fn has_twin(&self) -> bool {
        self.hub.are_two(self.node)
    }

    /// What changed after `revision`; everybody for `None`.
    pub(crate) fn news(&self, revision: Option<u64>) -> News {
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
        for _ in 0..PLACES_BURST {
            assert!(first.places_due() <= tokio::time::Instant::now());
            first.pay_places();
        }
        let due = first.places_due();
        drop(first);
        assert_eq!(hub.enter(node, 2, 1).unwrap().places_due(), due);
        assert!(hub.enter(NodeId(2), 3, 1).unwrap().places_due() < due, "another node has its own");
        hub.forget(node);
        assert!(hub.lock().places.len() == 1);
    }
}

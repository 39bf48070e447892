//! The hub of one network: hints to its connections, and who is there.
//!
//! A hint says that something changed, never what: each connection reads the rows again. A hint that is lost costs a delay, not a change.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use taut_base::NodeId;
use tokio::sync::{oneshot, watch};

use super::presence::{News, Presence};
use super::twins::Twins;

/// How long presence lasts without a sign of life: three pings, of which nodes send one every 15 s.
pub(crate) const LEASE: Duration = Duration::from_secs(45);

/// How long a node may be gone before it counts as gone: reconnecting after a changed address takes a few seconds.
const GRACE: Duration = Duration::from_secs(10);

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

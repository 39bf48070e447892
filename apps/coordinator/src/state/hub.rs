//! The hub of one network: its presence, and hints to its connections.
//!
//! A hint says only that something changed; each connection then reads the database. A lost hint delays a change and does not lose it.
//!
//! Where several coordinators serve one database, the nodes here are told to the others, and theirs are entered here (`replicas`).

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use taut_base::NodeId;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot, watch};

use super::duplicates::Duplicates;
use super::feed::Feed;
use super::presence::{Presence, PresenceNews};
use super::rate_limit::RateLimit;
use crate::store::{Announced, NetworkId, PresenceRow};

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
    /// When the latest version was hinted at.
    announced_at: Mutex<Instant>,
    revision: watch::Sender<u64>,
    feed: Feed,
    inner: Mutex<HubState>,
    /// Told when a node comes or goes here.
    moved: Arc<Notify>,
    /// Taken while a policy is tried on the network.
    trying: Arc<Semaphore>,
}

#[derive(Default)]
struct HubState {
    presence: Presence,
    duplicates: Duplicates,
    /// Rate of each node's endpoint changes. It outlives the node's channels, so that a new channel brings no new budget (fault E21).
    endpoint_rates: BTreeMap<NodeId, RateLimit>,
    /// The connection of each node. Dropping the sender tells the connection that a newer one replaced it.
    connections: BTreeMap<NodeId, (u64, oneshot::Sender<Infallible>)>,
    /// The nodes here that were told to other coordinators.
    told: BTreeMap<NodeId, Told>,
}

/// A node here that was told to other coordinators.
#[derive(Clone, Copy)]
struct Told {
    connection: u64,
    /// Number of the change in the database.
    change: i64,
}

/// Nodes of one network that connected or disconnected here, and about which the other coordinators have not been told yet.
pub(super) struct Untold {
    pub(super) entered: Vec<Announced>,
    /// The connections of these nodes, in the same order.
    connections: Vec<u64>,
    pub(super) left: Vec<NodeId>,
}

impl Hub {
    pub(super) fn new(moved: Arc<Notify>) -> Self {
        Self {
            version: watch::Sender::new(0),
            announced_at: Mutex::new(Instant::now()),
            revision: watch::Sender::new(0),
            feed: Feed::default(),
            inner: Mutex::default(),
            moved,
            trying: Arc::new(Semaphore::new(1)),
        }
    }

    /// Takes the network's turn to try a policy; `None` while another one is being tried.
    pub(crate) fn try_policy(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.trying).try_acquire_owned().ok()
    }

    /// Hints at a new version of the map.
    pub(super) fn announce(&self, version: u64) {
        self.version.send_if_modified(|last| {
            let newer = version > *last;
            if newer {
                *self.announced_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            }
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
            let is_connected = inner.connections.contains_key(&node) || inner.presence.elsewhere().contains(&node);
            let entered = inner.duplicates.enter(node, run, is_connected, now);
            if entered {
                inner.connections.insert(node, (connection, alive));
                inner.presence.enter(node, connection, run, now + LEASE);
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
        self.moved.notify_one();
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

    /// Returns the nodes that are online and have their channel here.
    pub(super) fn online_here(&self) -> Vec<NodeId> {
        self.lock().presence.leases().map(|(node, ..)| node).collect()
    }

    /// Returns the number of channels here.
    pub(super) fn channels(&self) -> usize {
        self.lock().connections.len()
    }

    /// Returns what other coordinators do not know.
    pub(super) fn untold(&self, network: NetworkId) -> Untold {
        let inner = self.lock();
        let is_told = |node, connection| inner.told.get(&node).is_some_and(|told| told.connection == connection);
        // The lease of a channel that has ended is not entered: its change would be later than that of the channel which the node may have elsewhere by now, and close it.
        let is_open = |node, connection| inner.connections.get(&node).is_some_and(|(open, _)| *open == connection);
        let is_news = |node, connection| is_open(node, connection) && !is_told(node, connection);
        let entered = inner.presence.leases().filter(|(node, connection, _)| is_news(*node, *connection));
        let (entered, connections) =
            entered.map(|(node, connection, run)| (Announced { node, network, run }, connection)).unzip();
        let left = inner.told.keys().filter(|node| inner.presence.connection(**node).is_none()).copied().collect();
        Untold { entered, connections, left }
    }

    /// Notes that other coordinators were told, by these changes of the nodes that entered.
    pub(super) fn tell_done(&self, untold: &Untold, changes: &[i64]) {
        let mut inner = self.lock();
        for ((node, connection), change) in untold.entered.iter().zip(&untold.connections).zip(changes) {
            inner.told.insert(node.node, Told { connection: *connection, change: *change });
        }
        for node in &untold.left {
            inner.told.remove(node);
        }
    }

    /// Forgets what other coordinators were told, because they no longer know it.
    pub(super) fn forget_told(&self) {
        self.lock().told.clear();
    }

    /// Keeps only these of the nodes that other coordinators were told.
    pub(super) fn keep_told(&self, nodes: &BTreeSet<NodeId>) {
        self.lock().told.retain(|node, _| nodes.contains(node));
    }

    /// Enters the node's row, in which `here` is this coordinator. Of two coordinators that have a channel of the node, the one keeps it whose change is the later
    /// one: it was the node that moved.
    pub(super) fn enter_row(&self, row: &PresenceRow, here: i64) {
        let now = Instant::now();
        let is_duplicate = self.update(|inner| {
            let node = row.node;
            let connection = inner.presence.connection(node);
            let told = inner.told.get(&node).copied();
            match row.replica {
                Some(replica) if replica == here => {
                    inner.presence.leave_elsewhere(node);
                    // This coordinator wrote the row earlier and has forgotten that. With connection 0, which no channel has, the next `untold` either confirms the row or declares the node offline.
                    inner.told.entry(node).or_insert(Told { connection: 0, change: row.change });
                }
                Some(_) => {
                    // A channel that was not told yet is told next, and then is the later one.
                    let is_older =
                        told.is_some_and(|told| Some(told.connection) == connection && told.change < row.change);
                    if is_older || connection.is_none() {
                        inner.duplicates.enter(node, row.run, false, now);
                        inner.presence.move_elsewhere(node);
                        inner.connections.remove(&node);
                        inner.told.remove(&node);
                    } else {
                        inner.presence.enter_elsewhere(node);
                    }
                }
                None => {
                    inner.presence.leave_elsewhere(node);
                    // Another coordinator took this one for dead.
                    if told.is_some_and(|told| told.change < row.change) {
                        inner.told.remove(&node);
                    }
                }
            }
            inner.duplicates.has_duplicate(node, now)
        });
        if is_duplicate {
            self.revision.send_modify(|_| {});
        }
        self.moved.notify_one();
    }

    /// Notes that no other coordinator has any node but these.
    pub(super) fn keep_elsewhere(&self, nodes: &BTreeSet<NodeId>) {
        self.update(|inner| {
            let gone: Vec<NodeId> = inner.presence.elsewhere().difference(nodes).copied().collect();
            gone.into_iter().for_each(|node| inner.presence.leave_elsewhere(node));
        });
    }

    fn update<R>(&self, change: impl FnOnce(&mut HubState) -> R) -> R {
        let mut inner = self.lock();
        let result = change(&mut inner);
        let revision = inner.presence.revision();
        drop(inner);
        if self.revision.send_if_modified(|last| std::mem::replace(last, revision.max(*last)) < revision) {
            self.moved.notify_one();
        }
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

    /// Returns the time since this version was hinted at; `None` if it is not the latest one.
    pub(crate) fn since_announced(&self, version: u64) -> Option<Duration> {
        let at = *self.hub.announced_at.lock().unwrap_or_else(PoisonError::into_inner);
        (self.hub.announced() == version).then(|| at.elapsed())
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
        let (hub, node) = (Arc::new(Hub::new(Arc::default())), NodeId(1));
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

    #[test]
    fn fault_o7_a_channel_that_has_ended_is_not_entered_over_a_later_one_elsewhere() {
        let (hub, node, network) = (Arc::new(Hub::new(Arc::default())), NodeId(1), NetworkId([0; 16]));
        let here = hub.enter(node, 1, 1).unwrap();
        assert_eq!(hub.untold(network).entered.len(), 1);
        drop(here);
        assert!(hub.is_online(node), "for the grace period");
        assert!(hub.untold(network).entered.is_empty(), "the node may have a channel elsewhere by now");
        let again = hub.enter(node, 2, 1).unwrap();
        let untold = hub.untold(network);
        hub.tell_done(&untold, &[7]);
        drop(again);
        assert!(hub.untold(network).left.is_empty(), "what was told holds for the grace period");
    }
}

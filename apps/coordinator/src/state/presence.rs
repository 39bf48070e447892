//! Presence of nodes, by leases. Pure: time is an argument.
//!
//! A node is online while its lease runs. Pings renew the lease, a goodbye ends it at once, and a closed socket leaves a short grace period, so that a node
//! that reconnects stays online. Leases are only in memory: after a restart all nodes are offline until they connect again.
//!
//! Where several coordinators serve one database, a node is online as well while another one has its channel, as the rows say that they tell each other
//! (`replicas`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use taut_base::NodeId;

/// Changes that are remembered, 512. A connection that is further behind sends all nodes that are online again.
const REMEMBERED: usize = 512;

/// Presence of the nodes of one network.
#[derive(Default)]
pub(crate) struct Presence {
    leases: BTreeMap<NodeId, Lease>,
    /// Nodes whose channel another coordinator has.
    elsewhere: BTreeSet<NodeId>,
    /// Number of changes so far; the last ones are in `recent`.
    revision: u64,
    recent: VecDeque<(NodeId, bool)>,
}

struct Lease {
    /// The latest connection of the node. An older one, whose socket is not closed yet, has no effect.
    connection: u64,
    until: Instant,
    /// Number of the start of the node's program.
    run: u64,
}

/// Presence for a node: all, or what changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PresenceNews {
    /// Revision for the next query.
    pub(crate) revision: u64,
    /// True if `nodes` are all nodes that are online; false if they are those that changed.
    pub(crate) whole: bool,
    /// Nodes, each with true if it is online.
    pub(crate) nodes: Vec<(NodeId, bool)>,
}

impl Presence {
    /// Makes a node online, with this connection of a program's run.
    pub(crate) fn enter(&mut self, node: NodeId, connection: u64, run: u64, until: Instant) {
        let was_online = self.is_online(node);
        self.leases.insert(node, Lease { connection, until, run });
        if !was_online {
            self.note(node, true);
        }
    }

    /// Makes a node online because another coordinator has its channel.
    pub(crate) fn enter_elsewhere(&mut self, node: NodeId) {
        let was_online = self.is_online(node);
        self.elsewhere.insert(node);
        if !was_online {
            self.note(node, true);
        }
    }

    /// Notes that no other coordinator has the node's channel.
    pub(crate) fn leave_elsewhere(&mut self, node: NodeId) {
        if self.elsewhere.remove(&node) && !self.leases.contains_key(&node) {
            self.note(node, false);
        }
    }

    /// Ends the lease of a node whose channel another coordinator has.
    pub(crate) fn move_elsewhere(&mut self, node: NodeId) {
        self.enter_elsewhere(node);
        self.leases.remove(&node);
    }

    /// Returns the nodes whose channel another coordinator has.
    pub(crate) fn elsewhere(&self) -> &BTreeSet<NodeId> {
        &self.elsewhere
    }

    /// Returns the nodes with a lease here, each with its connection and the run of its program.
    pub(crate) fn leases(&self) -> impl Iterator<Item = (NodeId, u64, u64)> {
        self.leases.iter().map(|(node, lease)| (*node, lease.connection, lease.run))
    }

    /// Returns the connection of a node with a lease here.
    pub(crate) fn connection(&self, node: NodeId) -> Option<u64> {
        self.leases.get(&node).map(|lease| lease.connection)
    }

    /// Renews the lease of a node.
    pub(crate) fn renew(&mut self, node: NodeId, connection: u64, until: Instant) {
        if let Some(lease) = self.lease(node, connection) {
            lease.until = until;
        }
    }

    /// Shortens the lease to the grace period, because the connection ended.
    pub(crate) fn close(&mut self, node: NodeId, connection: u64, now: Instant, grace: Duration) {
        if let Some(lease) = self.lease(node, connection) {
            lease.until = lease.until.min(now + grace);
        }
    }

    /// Ends the lease of a node at once.
    pub(crate) fn leave(&mut self, node: NodeId, connection: u64) {
        if self.lease(node, connection).is_some() {
            self.end(node);
        }
    }

    /// Ends expired leases, and returns their nodes.
    pub(crate) fn sweep(&mut self, now: Instant) -> Vec<NodeId> {
        let over: Vec<NodeId> =
            self.leases.iter().filter(|(_, lease)| lease.until <= now).map(|(node, _)| *node).collect();
        over.iter().for_each(|node| self.end(*node));
        over
    }

    fn end(&mut self, node: NodeId) {
        self.leases.remove(&node);
        if !self.elsewhere.contains(&node) {
            self.note(node, false);
        }
    }

    /// Returns true if a node is online.
    pub(crate) fn is_online(&self, node: NodeId) -> bool {
        self.leases.contains_key(&node) || self.elsewhere.contains(&node)
    }

    /// Returns all nodes that are online, sorted by number.
    pub(crate) fn online(&self) -> impl Iterator<Item = NodeId> {
        let here: BTreeSet<NodeId> = self.leases.keys().copied().collect();
        here.union(&self.elsewhere).copied().collect::<Vec<_>>().into_iter()
    }

    /// Returns the number of changes so far.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns what changed after `revision`; all nodes that are online if it is `None` or too old.
    pub(crate) fn since(&self, revision: Option<u64>) -> PresenceNews {
        let behind = revision.and_then(|revision| usize::try_from(self.revision.checked_sub(revision)?).ok());
        match behind.filter(|behind| *behind <= self.recent.len()) {
            Some(behind) => {
                let latest: BTreeMap<NodeId, bool> =
                    self.recent.iter().skip(self.recent.len() - behind).copied().collect();
                PresenceNews { revision: self.revision, whole: false, nodes: latest.into_iter().collect() }
            }
            None => PresenceNews {
                revision: self.revision,
                whole: true,
                nodes: self.online().map(|node| (node, true)).collect(),
            },
        }
    }

    fn lease(&mut self, node: NodeId, connection: u64) -> Option<&mut Lease> {
        self.leases.get_mut(&node).filter(|lease| lease.connection == connection)
    }

    fn note(&mut self, node: NodeId, online: bool) {
        self.revision += 1;
        self.recent.push_back((node, online));
        if self.recent.len() > REMEMBERED {
            self.recent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(10);
    const NODE: NodeId = NodeId(1);

    #[test]
    fn a_lease_ends_when_it_is_not_renewed() {
        let (mut presence, now) = (Presence::default(), Instant::now());
        presence.enter(NODE, 1, 1, now + GRACE);
        presence.renew(NODE, 1, now + 2 * GRACE);
        assert_eq!(presence.sweep(now + GRACE), []);
        assert_eq!(presence.sweep(now + 2 * GRACE), [NODE]);
        assert!(!presence.is_online(NODE));
    }

    #[test]
    fn a_closed_socket_leaves_a_grace_and_a_goodbye_does_not() {
        let (mut presence, now) = (Presence::default(), Instant::now());
        presence.enter(NODE, 1, 1, now + 4 * GRACE);
        presence.close(NODE, 1, now, GRACE);
        assert!(presence.is_online(NODE));
        presence.enter(NODE, 2, 1, now + 4 * GRACE);
        assert_eq!(presence.sweep(now + GRACE), [], "the node came back in time");
        assert_eq!(presence.revision(), 1, "nobody was told of a gap");
        presence.leave(NODE, 2);
        assert!(!presence.is_online(NODE));
    }

    #[test]
    fn an_older_connection_does_not_speak_for_the_node() {
        let (mut presence, now) = (Presence::default(), Instant::now());
        presence.enter(NODE, 1, 1, now + GRACE);
        presence.enter(NODE, 2, 1, now + 4 * GRACE);
        presence.close(NODE, 1, now, Duration::ZERO);
        presence.leave(NODE, 1);
        assert_eq!(presence.sweep(now + GRACE), []);
        assert!(presence.is_online(NODE));
    }

    #[test]
    fn news_are_the_latest_of_each_node_or_everybody() {
        let (mut presence, now) = (Presence::default(), Instant::now());
        presence.enter(NODE, 1, 1, now + GRACE);
        let first = presence.since(None);
        assert_eq!((first.whole, first.nodes), (true, vec![(NODE, true)]));
        presence.leave(NODE, 1);
        presence.enter(NODE, 2, 1, now + GRACE);
        presence.enter(NodeId(2), 3, 1, now + GRACE);
        let news = presence.since(Some(first.revision));
        assert_eq!((news.whole, news.nodes), (false, vec![(NODE, true), (NodeId(2), true)]));
        for connection in 0..=REMEMBERED as u64 {
            presence.leave(NodeId(2), connection + 2);
            presence.enter(NodeId(2), connection + 3, 1, now + GRACE);
            presence.leave(NodeId(2), connection + 3);
        }
        let late = presence.since(Some(first.revision));
        assert_eq!((late.whole, late.nodes), (true, vec![(NODE, true)]));
        assert!(presence.since(Some(late.revision + 1)).whole, "a revision of the future is unknown");
    }

    #[test]
    fn a_node_that_another_coordinator_has_is_online_and_moves_without_a_gap() {
        let (mut presence, now) = (Presence::default(), Instant::now());
        presence.enter(NODE, 1, 1, now + GRACE);
        presence.move_elsewhere(NODE);
        assert!(presence.is_online(NODE) && presence.connection(NODE).is_none());
        presence.close(NODE, 1, now, Duration::ZERO);
        presence.leave(NODE, 1);
        assert_eq!((presence.sweep(now + 2 * GRACE), presence.revision()), (vec![], 1), "nobody was told of a gap");
        // Back before the other coordinator has noticed.
        presence.enter(NODE, 2, 1, now + GRACE);
        presence.leave_elsewhere(NODE);
        assert_eq!((presence.online().collect::<Vec<_>>(), presence.revision()), (vec![NODE], 1));
        presence.leave(NODE, 2);
        assert_eq!((presence.is_online(NODE), presence.revision()), (false, 2));
        presence.enter_elsewhere(NODE);
        presence.leave_elsewhere(NODE);
        presence.leave_elsewhere(NODE);
        assert_eq!(presence.revision(), 4);
    }
}

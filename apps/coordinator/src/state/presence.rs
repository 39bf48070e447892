//! Who is connected, by lease. Pure: time is an argument.
//!
//! A node is online while its lease runs. Pings renew it; a goodbye ends it at once; a closed socket leaves a short grace, so that a node
//! that reconnects was never gone. Kept in memory only: after a restart everybody is offline until they are back.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use taut_base::NodeId;

/// Changes remembered for connections that have not told their node yet; who is further behind tells everything again.
const REMEMBERED: usize = 512;

/// Who of one network is online.
#[derive(Default)]
pub(crate) struct Presence {
    leases: BTreeMap<NodeId, Lease>,
    /// How many changes there were; the last ones are in `recent`.
    revision: u64,
    recent: VecDeque<(NodeId, bool)>,
}

struct Lease {
    /// Only the latest connection of a node speaks for it; an older one may linger until its socket notices.
    connection: u64,
    until: Instant,
}

/// What to tell a node.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct News {
    /// Ask from here on next time.
    pub(crate) revision: u64,
    /// Whether `nodes` is everybody who is online or only who changed.
    pub(crate) whole: bool,
    /// Node and whether it is online.
    pub(crate) nodes: Vec<(NodeId, bool)>,
}

impl Presence {
    /// A node is there, by this connection from now on.
    pub(crate) fn enter(&mut self, node: NodeId, connection: u64, until: Instant) {
        if self.leases.insert(node, Lease { connection, until }).is_none() {
            self.note(node, true);
        }
    }

    /// A sign of life.
    pub(crate) fn renew(&mut self, node: NodeId, connection: u64, until: Instant) {
        if let Some(lease) = self.lease(node, connection) {
            lease.until = until;
        }
    }

    /// The connection is gone; the lease ends when the grace does, if it is not renewed.
    pub(crate) fn close(&mut self, node: NodeId, connection: u64, now: Instant, grace: Duration) {
        if let Some(lease) = self.lease(node, connection) {
            lease.until = lease.until.min(now + grace);
        }
    }

    /// The node leaves, or is made to.
    pub(crate) fn leave(&mut self, node: NodeId, connection: u64) {
        if self.lease(node, connection).is_some() {
            self.leases.remove(&node);
            self.note(node, false);
        }
    }

    /// Ends the leases that have run out; who they were of.
    pub(crate) fn sweep(&mut self, now: Instant) -> Vec<NodeId> {
        let over: Vec<NodeId> =
            self.leases.iter().filter(|(_, lease)| lease.until <= now).map(|(node, _)| *node).collect();
        for node in &over {
            self.leases.remove(node);
            self.note(*node, false);
        }
        over
    }

    /// Whether a node is online.
    pub(crate) fn is_online(&self, node: NodeId) -> bool {
        self.leases.contains_key(&node)
    }

    /// Everybody who is online.
    pub(crate) fn online(&self) -> impl Iterator<Item = NodeId> {
        self.leases.keys().copied()
    }

    /// How many changes there were.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// What changed after `revision`; everybody when that is unknown (`None`) or too long ago.
    pub(crate) fn since(&self, revision: Option<u64>) -> News {
        let behind = revision.and_then(|revision| usize::try_from(self.revision.checked_sub(revision)?).ok());
        match behind.filter(|behind| *behind <= self.recent.len()) {
            Some(behind) => {
                let latest: BTreeMap<NodeId, bool> =
                    self.recent.iter().skip(self.recent.len() - behind).copied().collect();
                News { revision: self.revision, whole: false, nodes: latest.into_iter().collect() }
            }
            None => {
                News { revision: self.revision, whole: true, nodes: self.online().map(|node| (node, true)).collect() }
            }
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
        presence.enter(NODE, 1, now + GRACE);
        presence.renew(NODE, 1, now + 2 * GRACE);
        assert_eq!(presence.sweep(now + GRACE), []);
        assert_eq!(presence.sweep(now + 2 * GRACE), [NODE]);
        assert!(!presence.is_online(NODE));
    }

    #[test]
    fn a_closed_socket_leaves_a_grace_and_a_goodbye_does_not() {
        let (mut presence, now) = (Presence::default(), Instant::now());
        presence.enter(NODE, 1, now + 4 * GRACE);
        presence.close(NODE, 1, now, GRACE);
        assert!(presence.is_online(NODE));
        presence.enter(NODE, 2, now + 4 * GRACE);
        assert_eq!(presence.sweep(now + GRACE), [], "the node came back in time");
        assert_eq!(presence.revision(), 1, "nobody was told of a gap");
        presence.leave(NODE, 2);
        assert!(!presence.is_online(NODE));
    }

    #[test]
    fn an_older_connection_does_not_speak_for_the_node() {
        let (mut presence, now) = (Presence::default(), Instant::now());
        presence.enter(NODE, 1, now + GRACE);
        presence.enter(NODE, 2, now + 4 * GRACE);
        presence.close(NODE, 1, now, Duration::ZERO);
        presence.leave(NODE, 1);
        assert_eq!(presence.sweep(now + GRACE), []);
        assert!(presence.is_online(NODE));
    }

    #[test]
    fn news_are_the_latest_of_each_node_or_everybody() {
        let (mut presence, now) = (Presence::default(), Instant::now());
        presence.enter(NODE, 1, now + GRACE);
        let first = presence.since(None);
        assert_eq!((first.whole, first.nodes), (true, vec![(NODE, true)]));
        presence.leave(NODE, 1);
        presence.enter(NODE, 2, now + GRACE);
        presence.enter(NodeId(2), 3, now + GRACE);
        let news = presence.since(Some(first.revision));
        assert_eq!((news.whole, news.nodes), (false, vec![(NODE, true), (NodeId(2), true)]));
        for connection in 0..=REMEMBERED as u64 {
            presence.leave(NodeId(2), connection + 2);
            presence.enter(NodeId(2), connection + 3, now + GRACE);
            presence.leave(NodeId(2), connection + 3);
        }
        let late = presence.since(Some(first.revision));
        assert_eq!((late.whole, late.nodes), (true, vec![(NODE, true)]));
        assert!(presence.since(Some(late.revision + 1)).whole, "a revision of the future is unknown");
    }
}

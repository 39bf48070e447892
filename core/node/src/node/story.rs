//! What the event log tells of peers.

use taut_base::{Entropy, NodeId, PeerId};

use super::Node;
use crate::event::NodeEvent;

impl<E: Entropy> Node<E> {
    /// Returns the next state change.
    pub fn poll_event(&mut self) -> Option<NodeEvent> {
        self.events.pop()
    }

    /// Returns a peer's number and name in the map.
    pub fn peer_name(&self, id: PeerId) -> Option<(NodeId, &str)> {
        self.peers.get(&id).map(|peer| (peer.node, &peer.name[..]))
    }
}

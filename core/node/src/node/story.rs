//! Events of handshakes and sessions, and the names of peers in them.

use taut_base::{Entropy, NodeId, PeerId};
use taut_tunnel::Role;

use super::Node;
use crate::event::{HandshakeFailure, NodeEvent};

impl<E: Entropy> Node<E> {
    /// Returns a peer's number and name in the map.
    pub fn peer_name(&self, id: PeerId) -> Option<(NodeId, &str)> {
        self.peers.get(&id).map(|peer| (peer.node, &peer.name[..]))
    }

    /// Notes that an attempt got no answer.
    pub(super) fn note_failure(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let has_path = peer.handshake_ways().next().is_some();
        let reason = if has_path { HandshakeFailure::NoAnswer } else { HandshakeFailure::NoPath };
        let again = std::mem::replace(&mut peer.is_silent, true);
        let tried = self.now.since(peer.asked);
        self.outputs.note(NodeEvent::HandshakeFailed { peer: id, reason, tried, again });
    }

    /// Notes that a session is in use.
    pub(super) fn note_session(&mut self, id: PeerId, role: Role) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let number = peer.established;
        if std::mem::take(&mut peer.is_silent) {
            self.outputs.note(NodeEvent::PeerAnswers { peer: id });
        }
        self.outputs.note(NodeEvent::SessionBegan { peer: id, role, number });
    }
}

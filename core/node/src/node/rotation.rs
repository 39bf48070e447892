//! Rotation of WireGuard keys: this node's own key, or that of a peer.
//!
//! The keys of a session do not depend on the static keys once its handshake has ended. So sessions go on under the former key, and packets with them, until the
//! next handshake, which is made with the new key, replaces them like any other rekey. No session of the former key lasts longer than WireGuard allows (180 s).

use taut_base::{Entropy, LaneId, PeerId, PresharedKey, PrivateKey, PublicKey};
use taut_tunnel::handshake::{Identity, Remote};

use super::Node;
use crate::contract::{Clocks, ToLane};

impl<E: Entropy> Node<E> {
    /// Replaces this node's key. Handshakes in progress begin again with the new one; sessions go on.
    pub fn rotate_key(&mut self, key: PrivateKey) {
        self.identity = Identity::new(key);
        let mut given_up = Vec::new();
        for peer in self.peers.values_mut() {
            // This cannot fail: whether a peer's key is of low order does not depend on our key, and such peers were refused.
            if let Ok(remote) = Remote::new(&self.identity, peer.key, peer.remote.preshared().clone()) {
                peer.remote = remote;
            }
            given_up.extend(peer.forget_handshakes());
        }
        given_up.into_iter().for_each(|index| self.indices.release(index));
        for lane in 0..self.lanes.count() {
            let checker = Box::new(self.checker());
            self.tell(LaneId(lane), ToLane::SetChecker(checker));
        }
    }

    /// Takes another key of a peer that the map names by the same number. The peer keeps its sessions and paths, and a handshake with the new key begins at once if
    /// it has a session.
    pub(super) fn rotate_peer(&mut self, id: PeerId, key: PublicKey) {
        let Ok(remote) = Remote::new(&self.identity, key, PresharedKey::NONE) else { return };
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let former = std::mem::replace(&mut peer.key, key);
        peer.remote = remote;
        let is_connected = peer.since().is_some();
        let given_up = peer.forget_handshakes();
        given_up.into_iter().for_each(|index| self.indices.release(index));
        self.by_key.remove(&former);
        self.by_key.insert(key, id);
        self.relays.forget_peer(&former);
        if is_connected {
            // The handshake begins even if the session is young, because that session was made with the former key.
            self.begin_handshake(id, Clocks { now: self.now, wall: self.wall });
        }
    }
}

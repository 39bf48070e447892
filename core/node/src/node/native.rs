//! Peers without a map: configured by hand, one by one, stock WireGuard each. A node is driven by maps or by this, not by both. It has one lane then:
//! a stock peer knows no other.

use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{Entropy, LaneId, MAX_PEERS, PeerId, Prefix, PresharedKey, PrivateKey, PublicKey, Time};
use taut_tunnel::handshake::{Identity, Remote};

use super::Node;
use crate::contract::ToLane;
use crate::uapi::{Errno, PeerChange};

/// A peer as it is configured, with what is known of it. It shows a secret, so it has no `Debug`.
pub struct NativePeer<'a> {
    /// Its number in this process.
    pub id: PeerId,
    /// Its WireGuard key.
    pub key: PublicKey,
    /// What is mixed into its handshakes.
    pub preshared: &'a PresharedKey,
    /// Where packets go to it.
    pub endpoint: Option<SocketAddr>,
    /// Interval of unconditional keepalives.
    pub keepalive: Option<Duration>,
    /// When the newest session was made, though it may be gone.
    pub last_handshake: Option<Time>,
    /// Bytes of handshake messages received and sent.
    pub handshake_bytes: (u64, u64),
}

impl<E: Entropy> Node<E> {
    /// Makes the changes in their order, after all peers went if `replace` is set. Sessions of peers that stay go on.
    ///
    /// # Errors
    /// [`Errno::Invalid`] for a key that no handshake can be made with, [`Errno::NoMemory`] beyond [`MAX_PEERS`]; nothing was changed then.
    pub fn configure(&mut self, replace: bool, changes: Vec<PeerChange>) -> Result<(), Errno> {
        let remotes = self.remotes(replace, &changes)?;
        if replace {
            self.allowed.clear();
            for id in self.peers.keys().copied().collect::<Vec<_>>() {
                self.remove_peer(id);
            }
        }
        for (change, remote) in changes.into_iter().zip(remotes) {
            self.change(change, remote);
        }
        self.publish_routes();
        Ok(())
    }

    /// Whether [`Self::configure`] would take these changes, so that others that belong to them can be made first.
    ///
    /// # Errors
    /// The same.
    pub fn would_configure(&self, replace: bool, changes: &[PeerChange]) -> Result<(), Errno> {
        self.remotes(replace, changes).map(|_| ())
    }

    /// Who is new, in the order of the changes.
    fn remotes(&self, replace: bool, changes: &[PeerChange]) -> Result<Vec<Option<Remote>>, Errno> {
        let mut remotes = Vec::with_capacity(changes.len());
        for change in changes {
            let new = (replace || !self.by_key.contains_key(&change.key)) && self.would_add(change);
            let remote = new.then(|| Remote::new(&self.identity, change.key, PresharedKey::NONE)).transpose();
            remotes.push(remote.map_err(|_| Errno::Invalid)?);
        }
        let stay = if replace { 0 } else { self.peers.len() };
        if stay + remotes.iter().flatten().count() > MAX_PEERS {
            return Err(Errno::NoMemory);
        }
        Ok(remotes)
    }

    /// Takes another key. No session of the former one is used any more: start a new lane and [`Self::start_over`].
    pub fn set_private_key(&mut self, key: PrivateKey) {
        self.identity = Identity::new(key);
        if let Some(id) = self.by_key.get(&self.identity.public()).copied() {
            self.forget(id);
        }
        for peer in self.peers.values_mut() {
            // Whether a key is of low order does not depend on ours, and such keys were not let in.
            if let Ok(remote) = Remote::new(&self.identity, peer.key, peer.remote.preshared().clone()) {
                peer.remote = remote;
            }
        }
    }

    /// The lane is gone with its sessions: tells everything to a new one.
    pub fn start_over(&mut self) {
        self.outputs.forget_commands();
        for (id, peer) in &mut self.peers {
            self.indices.release_all(*id);
            peer.start_over();
            let mut tell = |command| self.outputs.tell(LaneId::FIRST, command);
            tell(ToLane::AddPeer { peer: *id, persistent_keepalive: None, roams: true });
            if let Some(endpoint) = peer.candidates.proven() {
                tell(ToLane::SetEndpoint { peer: *id, endpoint });
            }
            if let interval @ Some(_) = peer.keepalive {
                tell(ToLane::SetKeepalive { peer: *id, interval });
            }
        }
        self.publish_routes();
    }

    /// All peers as they are configured, in the order in which they came.
    pub fn native_peers(&self) -> impl Iterator<Item = NativePeer<'_>> {
        self.peers.values().map(|peer| NativePeer {
            id: peer.id,
            key: peer.key,
            preshared: peer.remote.preshared(),
            endpoint: peer.candidates.proven(),
            keepalive: peer.keepalive,
            last_handshake: peer.last_handshake,
            handshake_bytes: peer.handshake_bytes,
        })
    }

    /// Which inner addresses belong to whom.
    pub fn allowed_ips(&self) -> impl Iterator<Item = (Prefix, PeerId)> {
        self.allowed.iter().map(|(prefix, peer)| (*prefix, *peer))
    }

    /// Our own key is nobody's peer: `wg` may list it, and it is passed over.
    fn would_add(&self, change: &PeerChange) -> bool {
        !change.remove && !change.update_only && change.key != self.identity.public()
    }

    fn change(&mut self, change: PeerChange, remote: Option<Remote>) {
        let known = self.by_key.get(&change.key).copied();
        if change.remove {
            return known.into_iter().for_each(|id| self.forget(id));
        }
        let id = match known {
            Some(id) => id,
            None if self.would_add(&change) => {
                // Known when the changes were checked, and removed by an earlier one of them.
                let again = || Remote::new(&self.identity, change.key, PresharedKey::NONE).ok();
                let Some(remote) = remote.or_else(again) else { return };
                self.add_peer(remote, true)
            }
            None => return,
        };
        self.set_allowed(id, change.replace_allowed && known.is_some(), &change.allowed);
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if let Some(preshared) = change.preshared {
            peer.remote.set_preshared(preshared);
        }
        if let Some(endpoint) = change.endpoint {
            peer.candidates.set_proven(endpoint);
            let endpoint = peer.candidates.proven().unwrap_or(endpoint);
            self.outputs.tell(LaneId::FIRST, ToLane::SetEndpoint { peer: id, endpoint });
        }
        if let Some(interval) = change.keepalive.filter(|interval| *interval != peer.keepalive) {
            peer.keepalive = interval;
            self.outputs.tell(LaneId::FIRST, ToLane::SetKeepalive { peer: id, interval });
        }
    }

    /// An allowed IP belongs to one peer: whoever gets it takes it from the former one, as in the kernel's WireGuard.
    fn set_allowed(&mut self, id: PeerId, replace: bool, changes: &[(Prefix, bool)]) {
        if replace {
            self.allowed.retain(|_, owner| *owner != id);
        }
        for (prefix, comes) in changes {
            if *comes {
                self.allowed.insert(*prefix, id);
            } else if self.allowed.get(prefix) == Some(&id) {
                self.allowed.remove(prefix);
            }
        }
    }

    fn forget(&mut self, id: PeerId) {
        self.allowed.retain(|_, owner| *owner != id);
        self.remove_peer(id);
    }
}

#[cfg(test)]
mod tests;

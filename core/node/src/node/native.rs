//! Peers without a map: a user configures each of them, and each is stock WireGuard. A node is driven either by maps or by this module. A stock peer knows only one
//! lane. Without a map, peers may be divided among several lanes ([`Node::divide_peers`]).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use taut_base::{Entropy, LaneId, MAX_PEERS, PeerId, Prefix, PresharedKey, PrivateKey, PublicKey, Time};
use taut_tunnel::handshake::{Identity, Remote};

use super::Node;
use crate::contract::ToLane;
use crate::uapi::{Errno, PeerChange};

/// The configuration and the state of a native peer. It exposes a secret and therefore has no `Debug`.
pub struct NativePeer<'a> {
    /// The peer's number in this process.
    pub id: PeerId,
    /// The peer's WireGuard key.
    pub key: PublicKey,
    /// The preshared key of its handshakes.
    pub preshared: &'a PresharedKey,
    /// The endpoint that packets to it go to.
    pub endpoint: Option<SocketAddr>,
    /// Interval of unconditional keepalives.
    pub keepalive: Option<Duration>,
    /// Time at which the newest session was made, even if the session is gone.
    pub last_handshake: Option<Time>,
    /// Bytes of handshake messages received and sent.
    pub handshake_bytes: (u64, u64),
}

impl<E: Entropy> Node<E> {
    /// Divides peers among this number of lanes, each to one of them ([`PeerId::only_lane`]): the receiver indices of a peer's sessions name its lane. The node
    /// addresses all its commands to the first lane, and the caller takes each to the lane of its peer. Call it before the first peer is added.
    pub fn divide_peers(&mut self, lanes: u8) {
        self.peer_lanes = lanes;
    }

    /// Carries out the changes in order, after removing all peers if `replace` is set. Sessions of peers that stay continue.
    ///
    /// # Errors
    /// [`Errno::Invalid`] for a key of low order, which no handshake is possible with; [`Errno::NoMemory`] for more than [`MAX_PEERS`] peers. On an error
    /// nothing is changed.
    pub fn configure(&mut self, replace: bool, changes: Vec<PeerChange>) -> Result<(), Errno> {
        let remotes = self.remotes(replace, &changes)?;
        if replace {
            self.allowed.clear();
            self.remove_peers(&self.peers.keys().copied().collect::<Vec<_>>());
        }
        for (change, remote) in changes.into_iter().zip(remotes) {
            self.change(change, remote);
        }
        self.tell_routes();
        Ok(())
    }

    /// Verifies that [`Self::configure`] would accept these changes, so that the caller can change other things first.
    ///
    /// # Errors
    /// The errors of [`Self::configure`].
    pub fn would_configure(&self, replace: bool, changes: &[PeerChange]) -> Result<(), Errno> {
        self.remotes(replace, changes).map(|_| ())
    }

    /// Returns the handshake state of each peer that is new, in the order of the changes.
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

    /// Changes the private key. Sessions of the former key are void: start a new lane, and call [`Self::start_over`].
    pub fn set_private_key(&mut self, key: PrivateKey) {
        self.identity = Identity::new(key);
        if let Some(id) = self.by_key.get(&self.identity.public()).copied() {
            self.forget(id);
        }
        for peer in self.peers.values_mut() {
            // This cannot fail: whether a peer's key is of low order does not depend on our key, and such peers were refused.
            if let Ok(remote) = Remote::new(&self.identity, peer.key, peer.remote.preshared().clone()) {
                peer.remote = remote;
            }
        }
    }

    /// Forgets all sessions, because their lane has ended, and tells a new lane about all peers and routes.
    pub fn start_over(&mut self) {
        self.outputs.forget_commands();
        self.indices.clear();
        for (id, peer) in &mut self.peers {
            peer.forget_sessions();
            let mut tell = |command| self.outputs.tell(LaneId::FIRST, command);
            tell(ToLane::AddPeer { peer: *id, roams: true });
            if let Some(endpoint) = peer.candidates.proven() {
                tell(ToLane::SetEndpoint { peer: *id, endpoint });
            }
            if let interval @ Some(_) = peer.keepalive {
                tell(ToLane::SetKeepalive { peer: *id, interval });
            }
        }
        self.tell_routes();
    }

    /// Returns all peers, in the order in which they were added.
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

    /// Returns the peer of each prefix of inner addresses.
    pub fn allowed_ips(&self) -> impl Iterator<Item = (Prefix, PeerId)> {
        self.allowed.iter().map(|(prefix, peer)| (*prefix, *peer))
    }

    /// Returns true if the change adds a peer that does not exist. A change with the node's own key is ignored: `wg` may list it.
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
                // The peer existed when the changes were checked, and an earlier change removed it.
                let again = || Remote::new(&self.identity, change.key, PresharedKey::NONE).ok();
                let Some(remote) = remote.or_else(again) else { return };
                self.choose_number(&change.allowed);
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

    /// Passes over numbers of peers, so that the next peer belongs to the lane that reads the packets to its first address: the one with the last four bytes of the address
    /// modulo the number of lanes. Packets to addresses elsewhere are handed off.
    fn choose_number(&mut self, allowed: &[(Prefix, bool)]) {
        let added = allowed.iter().find(|(_, is_added)| *is_added).map(|(prefix, _)| prefix.address());
        let low = match added {
            Some(IpAddr::V4(address)) => u32::from(address),
            Some(IpAddr::V6(address)) => (u128::from(address) & u128::from(u32::MAX)) as u32,
            None => return,
        };
        let lane = PeerId(low).only_lane(self.peer_lanes);
        while PeerId(self.next_peer).only_lane(self.peer_lanes) != lane {
            self.next_peer += 1;
        }
    }

    /// Changes the allowed IPs of a peer. An allowed IP belongs to one peer: giving it to this peer takes it from another, as in the kernel's WireGuard.
    fn set_allowed(&mut self, id: PeerId, replace: bool, changes: &[(Prefix, bool)]) {
        if replace {
            self.allowed.retain(|_, owner| *owner != id);
        }
        for (prefix, is_added) in changes {
            if *is_added {
                self.allowed.insert(*prefix, id);
            } else if self.allowed.get(prefix) == Some(&id) {
                self.allowed.remove(prefix);
            }
        }
    }

    fn forget(&mut self, id: PeerId) {
        self.allowed.retain(|_, owner| *owner != id);
        self.remove_peers(&[id]);
    }
}

#[cfg(test)]
mod tests;

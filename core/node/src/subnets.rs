//! Subnets behind this node and behind its peers: which prefixes are in use, and which router carries each of them.
//!
//! Several peers may be routers of one prefix. The one with the lowest node number is the first choice of every node, so that all nodes use the same router while it works.

use std::collections::BTreeMap;

use taut_base::{NodeId, PeerId, Prefix};
use taut_netmap::NetworkMap;

/// The routers of a prefix.
#[derive(Debug, Default)]
struct Routers {
    /// By node number: the first choice comes first. Never empty.
    peers: Vec<PeerId>,
    /// Index of the one that carries.
    carrier: usize,
}

/// The subnets that this node uses.
#[derive(Debug, Default)]
pub(crate) struct Subnets {
    /// Prefixes that the user accepts from peers.
    accepted: Vec<Prefix>,
    /// Prefixes behind this node that it forwards to.
    forwarded: Vec<Prefix>,
    /// The accepted prefixes that a peer has.
    routers: BTreeMap<Prefix, Routers>,
}

impl Subnets {
    /// Sets the prefixes that peers' packets are forwarded to, and those that are accepted from peers.
    pub(crate) fn set_wanted(&mut self, forwarded: Vec<Prefix>, accepted: Vec<Prefix>) {
        (self.forwarded, self.accepted) = (forwarded, accepted);
    }

    /// Takes the routes of a map. `peer_of` finds the peer of a node. A prefix keeps its carrier while that is still one of its routers.
    pub(crate) fn set_map(&mut self, map: &NetworkMap, peer_of: impl Fn(NodeId) -> Option<PeerId>) {
        let former: BTreeMap<Prefix, PeerId> = self.carriers().collect();
        self.routers.clear();
        // Peers are in the order of their numbers.
        for listed in map.peers.values().filter(|peer| !peer.routes.is_empty()) {
            let Some(peer) = peer_of(listed.id) else { continue };
            for prefix in listed.usable_routes(&map.network).filter(|prefix| self.accepted.contains(prefix)) {
                let routers = self.routers.entry(prefix).or_default();
                if !routers.peers.contains(&peer) {
                    routers.peers.push(peer);
                }
            }
        }
        for (prefix, routers) in &mut self.routers {
            let carrier = former.get(prefix);
            routers.carrier = routers.peers.iter().position(|peer| Some(peer) == carrier).unwrap_or(0);
        }
    }

    /// Returns the prefixes behind this node.
    pub(crate) fn forwarded(&self) -> &[Prefix] {
        &self.forwarded
    }

    /// Returns the prefixes behind peers, each with the peer that carries it.
    pub(crate) fn carriers(&self) -> impl Iterator<Item = (Prefix, PeerId)> {
        self.routers.iter().filter_map(|(prefix, routers)| Some((*prefix, *routers.peers.get(routers.carrier)?)))
    }

    /// Returns the prefixes behind peers, each with a further router of it.
    pub(crate) fn spares(&self) -> impl Iterator<Item = (Prefix, PeerId)> {
        self.routers.iter().flat_map(|(prefix, routers)| {
            let spare = |(place, _): &(usize, &PeerId)| *place != routers.carrier;
            routers.peers.iter().enumerate().filter(spare).map(|(_, peer)| (*prefix, *peer))
        })
    }
}

//! The map and its deltas.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use taut_base::{MAX_PEERS, NodeId, Prefix, PublicKey, RelayId};

use crate::name::{check_name, is_reserved, placeholder_name};
use crate::relay::{self, MAX_PEER_RELAYS, Relay, RelayFault};

/// Endpoints that are kept per peer; a coordinator that lists more is cut short (fault D10).
const MAX_ENDPOINTS: usize = 32;

/// Everything one node must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkMap {
    /// Rises with every change of the network; the point from which the node resumes.
    pub version: u64,
    /// The network.
    pub network: NetworkInfo,
    /// The node itself.
    pub me: LocalMember,
    /// Everybody else, by id.
    #[serde(with = "by_id")]
    pub peers: BTreeMap<NodeId, Peer>,
    /// The network's relays, at most [`crate::MAX_RELAYS`]; none where the coordinator knows of none, or is too old to say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relays: Vec<Relay>,
}

/// What is common to all members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkInfo {
    /// Its name, for people.
    pub name: String,
    /// IPv4 prefix of the overlay, chosen by the operator.
    pub ipv4: Prefix,
    /// IPv6 prefix of the overlay: a unique local one (RFC 4193), drawn at random when the network was made.
    pub ipv6: Prefix,
}

/// The node that the map is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalMember {
    /// Its number.
    pub id: NodeId,
    /// Its name in the network.
    pub name: String,
    /// Its WireGuard key, as the coordinator knows it.
    pub key: PublicKey,
    /// Its overlay addresses, IPv4 first.
    pub addresses: Vec<IpAddr>,
}

/// Another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its number.
    pub id: NodeId,
    /// Its name in the network.
    pub name: String,
    /// Its WireGuard key.
    pub key: PublicKey,
    /// Its overlay addresses, IPv4 first. What it may send from and what is routed to it.
    pub addresses: Vec<IpAddr>,
    /// Where it may be reached, best first; candidates until proven.
    #[serde(default)]
    pub endpoints: Vec<SocketAddr>,
    /// The relays that it is bound to, the one that it measured as nearest first; at most [`MAX_PEER_RELAYS`]. One that is not in the
    /// map is passed over: the peer has not heard yet that it is gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relays: Vec<RelayId>,
    /// Stock WireGuard, no Taut node: nothing but WireGuard is said to it (law 1).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub native: bool,
}

/// What changed between two versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// Applies only to a map of this version.
    pub from: u64,
    /// The version that the map has afterwards.
    pub to: u64,
    /// The node itself, if it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub me: Option<LocalMember>,
    /// New and changed peers, whole.
    #[serde(default)]
    pub upserts: Vec<Peer>,
    /// Peers that are gone.
    #[serde(default)]
    pub removes: Vec<NodeId>,
    /// All relays of the network, if any of them changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relays: Option<Vec<Relay>>,
}

impl NetworkMap {
    /// The map after `delta`. This one stays as it is, so that a refused delta changes nothing.
    ///
    /// # Errors
    /// When the delta is for another version or would make a map that [`Self::check`] refuses; ask for a whole map then.
    pub fn apply(&self, delta: &Delta) -> Result<Self, MapError> {
        if delta.from != self.version || delta.to < delta.from {
            return Err(MapError::WrongVersion { have: self.version, from: delta.from });
        }
        let mut next = self.clone();
        next.version = delta.to;
        if let Some(me) = &delta.me {
            next.me = me.clone();
        }
        for id in &delta.removes {
            next.peers.remove(id);
        }
        for peer in &delta.upserts {
            next.peers.insert(peer.id, peer.clone());
        }
        if let Some(relays) = &delta.relays {
            next.relays.clone_from(relays);
        }
        next.check()?;
        Ok(next)
    }

    /// The relay of that number.
    pub fn relay(&self, id: RelayId) -> Option<&Relay> {
        self.relays.iter().find(|relay| relay.id == id)
    }

    /// Replaces reserved names ([`is_reserved`]) by placeholders, so that such a name concerns its node alone and never costs the map (faults
    /// E10, E20). A placeholder is `node-<id>`, with a number behind it while another node has that name.
    pub fn replace_reserved_names(&mut self) {
        if !is_reserved(&self.me.name) && !self.peers.values().any(|peer| is_reserved(&peer.name)) {
            return;
        }
        let mut taken: BTreeSet<String> = self.peers.values().map(|peer| peer.name.clone()).collect();
        taken.insert(self.me.name.clone());
        let own = std::iter::once((self.me.id, &mut self.me.name));
        let all = own.chain(self.peers.values_mut().map(|peer| (peer.id, &mut peer.name)));
        for (id, name) in all.filter(|(_, name)| is_reserved(name)) {
            let plain = placeholder_name(id);
            let numbered = (2_u32..).map(|number| format!("{plain}-{number}"));
            let free = std::iter::once(plain.clone()).chain(numbered).find(|free| !taken.contains(free));
            *name = free.unwrap_or(plain);
            taken.insert(name.clone());
        }
    }

    /// Whether a node may act on this map. What the coordinator says of addresses is held against the network's own prefixes, so that a
    /// hostile or broken one cannot draw other traffic into the overlay (fault E17).
    ///
    /// # Errors
    /// The first reason to refuse the whole map; the node keeps its last good one.
    pub fn check(&self) -> Result<(), MapError> {
        if self.peers.len() > MAX_PEERS {
            return Err(MapError::TooManyPeers { peers: self.peers.len() });
        }
        check_name(&self.network.name).map_err(|_| MapError::BadNetworkName)?;
        check_prefixes(&self.network)?;
        check_name(&self.me.name).map_err(|_| MapError::BadName(self.me.id))?;
        let mut keys = BTreeSet::from([self.me.key]);
        let mut addresses = BTreeSet::new();
        self.check_addresses(self.me.id, &self.me.addresses, &mut addresses)?;
        for (id, peer) in &self.peers {
            if *id != peer.id || *id == self.me.id {
                return Err(MapError::SameId(*id));
            }
            if !keys.insert(peer.key) {
                return Err(MapError::SameKey(*id));
            }
            if peer.endpoints.len() > MAX_ENDPOINTS {
                return Err(MapError::TooManyEndpoints(*id));
            }
            if peer.relays.len() > MAX_PEER_RELAYS {
                return Err(MapError::TooManyRelays(*id));
            }
            check_name(&peer.name).map_err(|_| MapError::BadName(*id))?;
            self.check_addresses(*id, &peer.addresses, &mut addresses)?;
        }
        relay::check(&self.relays, &[self.network.ipv4, self.network.ipv6]).map_err(MapError::Relay)
    }

    fn check_addresses(&self, id: NodeId, own: &[IpAddr], taken: &mut BTreeSet<IpAddr>) -> Result<(), MapError> {
        if own.is_empty() {
            return Err(MapError::NoAddress(id));
        }
        for address in own {
            if !self.network.ipv4.contains(*address) && !self.network.ipv6.contains(*address) {
                return Err(MapError::AddressOutside(id, *address));
            }
            if !taken.insert(*address) {
                return Err(MapError::SameAddress(id, *address));
            }
        }
        Ok(())
    }
}

/// Overlay prefixes that leave the rest of the world alone: IPv4 from private or shared space of at most a /8, IPv6 a unique local /48 or smaller.
fn check_prefixes(network: &NetworkInfo) -> Result<(), MapError> {
    const PRIVATE: [&str; 4] = ["10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16"];
    let inside = |outer: &str, inner: Prefix| {
        outer.parse::<Prefix>().is_ok_and(|outer| outer.contains(inner.address()) && outer.length() <= inner.length())
    };
    if !PRIVATE.iter().any(|outer| inside(outer, network.ipv4)) {
        return Err(MapError::BadPrefix(network.ipv4));
    }
    if !inside("fc00::/7", network.ipv6) || network.ipv6.length() < 48 {
        return Err(MapError::BadPrefix(network.ipv6));
    }
    Ok(())
}

/// Why a map or a delta is not acted upon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapError {
    /// The delta is for a map of another version.
    WrongVersion {
        /// The node's version.
        have: u64,
        /// The version that the delta starts from.
        from: u64,
    },
    /// More peers than a node takes.
    TooManyPeers {
        /// How many there are.
        peers: usize,
    },
    /// More endpoints than a peer can have.
    TooManyEndpoints(NodeId),
    /// A peer that is bound to more relays than a node ever is.
    TooManyRelays(NodeId),
    /// Something is wrong with the list of relays.
    Relay(RelayFault),
    /// An overlay prefix that would cover foreign addresses.
    BadPrefix(Prefix),
    /// A node without any address.
    NoAddress(NodeId),
    /// An address outside the network's prefixes.
    AddressOutside(NodeId, IpAddr),
    /// Two nodes with one address.
    SameAddress(NodeId, IpAddr),
    /// Two nodes with one key.
    SameKey(NodeId),
    /// Two nodes with one number, or a peer with the node's own.
    SameId(NodeId),
    /// A name that is no DNS label.
    BadName(NodeId),
    /// The network's name is no DNS label, and would end up in `/etc/hosts`.
    BadNetworkName,
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the network map was refused and the last good one kept: ")?;
        match self {
            Self::WrongVersion { have, from } => {
                write!(f, "the change starts from version {from}, this node has {have}")
            }
            Self::TooManyPeers { peers } => write!(f, "{peers} peers are more than the {MAX_PEERS} that a node takes"),
            Self::TooManyEndpoints(id) => write!(f, "node {id} has more than {MAX_ENDPOINTS} endpoints"),
            Self::TooManyRelays(id) => write!(f, "node {id} is bound to more than {MAX_PEER_RELAYS} relays"),
            Self::Relay(fault) => write!(f, "{fault}"),
            Self::BadPrefix(prefix) => {
                write!(f, "the overlay prefix {prefix} would cover addresses that are not the overlay's")
            }
            Self::NoAddress(id) => write!(f, "node {id} has no address"),
            Self::AddressOutside(id, address) => {
                write!(f, "address {address} of node {id} is outside the overlay's prefixes")
            }
            Self::SameAddress(id, address) => write!(f, "address {address} of node {id} is another node's, too"),
            Self::SameKey(id) => write!(f, "the key of node {id} is another node's, too"),
            Self::SameId(id) => write!(f, "number {id} stands for two nodes"),
            Self::BadName(id) => write!(f, "the name of node {id} is no DNS label"),
            Self::BadNetworkName => f.write_str("the network's name is no DNS label"),
        }
    }
}

impl Error for MapError {}

/// Peers travel as a list (an object's keys would have to be texts); a number that stands for two of them is an error, not a silent loss.
mod by_id {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};
    use taut_base::NodeId;

    use super::Peer;

    pub(super) fn serialize<S: Serializer>(peers: &BTreeMap<NodeId, Peer>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(peers.values())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<NodeId, Peer>, D::Error> {
        let mut peers = BTreeMap::new();
        for peer in Vec::<Peer>::deserialize(deserializer)? {
            let id = peer.id;
            if peers.insert(id, peer).is_some() {
                return Err(serde::de::Error::custom(format_args!("number {id} stands for two nodes")));
            }
        }
        Ok(peers)
    }
}

#[cfg(test)]
mod tests;

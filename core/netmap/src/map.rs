//! The map and its deltas.

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;
use taut_base::{MAX_PEERS, NodeId, Prefix, PublicKey, RelayId, SortedMap, SortedSet};
use taut_filter::{BadFilter, Filter};

use crate::name::{check_name, is_reserved, placeholder_name};
use crate::naming::Naming;
use crate::relay::{self, MAX_PEER_RELAYS, Relay, RelayFault};

/// Limit on the endpoints of one peer, 32; a map with more is refused (fault D10).
const MAX_ENDPOINTS: usize = 32;
/// Limit on the overlay addresses of one node, 8: it has one of each family. Every address is a system call and rules of the firewall on its host.
const MAX_ADDRESSES: usize = 8;

/// Everything that a node must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct NetworkMap {
    /// Version, which rises with every change of the network. A node resumes from it.
    pub version: u64,
    /// The network.
    pub network: NetworkInfo,
    /// The node itself.
    pub me: LocalMember,
    /// All other nodes, by id.
    #[serde(with = "by_id")]
    pub peers: SortedMap<NodeId, Peer>,
    /// The network's relays, at most [`crate::MAX_RELAYS`]; empty if the coordinator has none or is too old to list them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relays: Vec<Relay>,
    /// The filter for packets of the node's peers. `None` from a coordinator that knows no policy (release 0.1.0): the node then accepts every packet of its peers, unless it
    /// had a filter before, which it keeps ([`Self::keep_filter`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filter>,
}

/// The properties of the network, common to all members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct NetworkInfo {
    /// Its name, for people.
    pub name: String,
    /// IPv4 prefix of the overlay, chosen by the operator.
    pub ipv4: Prefix,
    /// IPv6 prefix of the overlay: a unique local prefix (RFC 4193), drawn at random when the network was created.
    pub ipv6: Prefix,
    /// The names that its operator chose; empty from a coordinator that lets no operator choose.
    #[serde(default, skip_serializing_if = "Naming::is_default")]
    pub naming: Naming,
}

impl NetworkInfo {
    /// Returns the domain of the network's names, `NETWORK.BASE`, if the user accepts these domains.
    pub fn zone(&self, accepted: &[String]) -> String {
        self.naming.usable(&self.name, accepted).0.zone
    }
}

/// The node that the map is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct LocalMember {
    /// Its number.
    pub id: NodeId,
    /// Its name in the network.
    pub name: String,
    /// Its WireGuard key, as the coordinator knows it.
    pub key: PublicKey,
    /// Its overlay addresses, IPv4 first.
    pub addresses: Vec<IpAddr>,
    /// Its approved routes: of the prefixes that it advertises, those that its peers may send to it. See [`crate::usable_routes`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Prefix>,
}

/// Another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct Peer {
    /// Its number.
    pub id: NodeId,
    /// Its name in the network.
    pub name: String,
    /// Its WireGuard key.
    pub key: PublicKey,
    /// Its overlay addresses, IPv4 first: the sources that it may use, and the destinations that are routed to it.
    pub addresses: Vec<IpAddr>,
    /// Endpoints at which it may be reachable, best first. They are candidates until proven.
    #[serde(default)]
    pub endpoints: Vec<SocketAddr>,
    /// The relays that it is bound to, nearest first by its own measurement; at most [`MAX_PEER_RELAYS`]. A relay that is not in the map is ignored: the peer
    /// has not learnt of its removal yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relays: Vec<RelayId>,
    /// The peer is stock WireGuard instead of a Taut node, and is sent nothing but WireGuard (law 1).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub native: bool,
    /// Its approved routes: prefixes behind it, which are reached through it and which it may forward packets from. See [`Peer::usable_routes`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Prefix>,
}

/// The difference between two versions of a map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct Delta {
    /// Version of the map that it applies to.
    pub from: u64,
    /// Version of the resulting map.
    pub to: u64,
    /// The node itself, if it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub me: Option<LocalMember>,
    /// New and changed peers, with all their fields.
    #[serde(default)]
    pub upserts: Vec<Peer>,
    /// Removed peers.
    #[serde(default)]
    pub removes: Vec<NodeId>,
    /// All relays of the network, if one of them changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relays: Option<Vec<Relay>>,
    /// The whole filter of the node, if it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filter>,
    /// The names that the operator chose, if one of them changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub naming: Option<Naming>,
}

impl NetworkMap {
    /// Returns the map after `delta`. `self` does not change, so a refused delta has no effect.
    ///
    /// # Errors
    /// If the delta is for another version or results in a map that [`Self::check`] refuses. The caller asks for a full map then.
    pub fn apply(&self, delta: &Delta) -> Result<Self, MapError> {
        if delta.from != self.version || delta.to < delta.from {
            return Err(MapError::WrongVersion { have: self.version, from: delta.from });
        }
        let mut next = self.clone();
        next.version = delta.to;
        if let Some(me) = &delta.me {
            next.me = me.clone();
        }
        // All at once: a delta may concern thousands.
        let removes: SortedSet<NodeId> = delta.removes.iter().copied().collect();
        next.peers.retain(|id, _| !removes.contains(id));
        next.peers.extend(delta.upserts.iter().map(|peer| (peer.id, peer.clone())));
        if let Some(relays) = &delta.relays {
            next.relays.clone_from(relays);
        }
        if let Some(filter) = &delta.filter {
            next.filter = Some(filter.clone());
        }
        if let Some(naming) = &delta.naming {
            next.network.naming.clone_from(naming);
        }
        next.check()?;
        Ok(next)
    }

    /// Keeps the filter of an earlier map of the same network if this one has none: a coordinator that was replaced by an older one must not open every node.
    pub fn keep_filter(&mut self, earlier: &Self) {
        if self.filter.is_none() {
            self.filter.clone_from(&earlier.filter);
        }
    }

    /// Returns the relay with this number.
    pub fn relay(&self, id: RelayId) -> Option<&Relay> {
        self.relays.iter().find(|relay| relay.id == id)
    }

    /// Replaces reserved names ([`is_reserved`]) by placeholders, so that a reserved name affects its own node only and the rest of the map stays usable
    /// (faults E10, E20). A placeholder is `node-<id>`, with a number appended while another node has that name.
    pub fn replace_reserved_names(&mut self) {
        if !is_reserved(&self.me.name) && !self.peers.values().any(|peer| is_reserved(&peer.name)) {
            return;
        }
        let peers = self.peers.values().map(|peer| peer.name.clone());
        let taken: SortedSet<String> = peers.chain([self.me.name.clone()]).collect();
        let own = std::iter::once((self.me.id, &mut self.me.name));
        let all = own.chain(self.peers.values_mut().map(|peer| (peer.id, &mut peer.name)));
        for (id, name) in all.filter(|(_, name)| is_reserved(name)) {
            let plain = placeholder_name(id);
            let numbered = (2_u32..).map(|number| format!("{plain}-{number}"));
            let free = std::iter::once(plain.clone()).chain(numbered).find(|free| !taken.contains(free));
            // Numbers differ, so no other placeholder is the same.
            *name = free.unwrap_or(plain);
        }
    }

    /// Checks that a node may act on this map. All addresses must be inside the network's own prefixes, so that a hostile or broken coordinator cannot route
    /// other traffic into the overlay (fault E17).
    ///
    /// # Errors
    /// The first reason to refuse the map. The node keeps its last good one.
    pub fn check(&self) -> Result<(), MapError> {
        if self.peers.len() > MAX_PEERS {
            return Err(MapError::TooManyPeers { peers: self.peers.len() });
        }
        check_name(&self.network.name).map_err(|_| MapError::BadNetworkName)?;
        check_prefixes(&self.network)?;
        check_name(&self.me.name).map_err(|_| MapError::BadName(self.me.id))?;
        let first_holders = FirstHolders::of(self);
        self.check_addresses(self.me.id, &self.me.addresses, &first_holders)?;
        for (id, peer) in &self.peers {
            if *id != peer.id || *id == self.me.id {
                return Err(MapError::SameId(*id));
            }
            if first_holders.keys.get(&peer.key) != Some(id) {
                return Err(MapError::SameKey(*id));
            }
            if peer.endpoints.len() > MAX_ENDPOINTS {
                return Err(MapError::TooManyEndpoints(*id));
            }
            if peer.relays.len() > MAX_PEER_RELAYS {
                return Err(MapError::TooManyRelays(*id));
            }
            check_name(&peer.name).map_err(|_| MapError::BadName(*id))?;
            self.check_addresses(*id, &peer.addresses, &first_holders)?;
        }
        self.filter.as_ref().map_or(Ok(()), Filter::check).map_err(MapError::Filter)?;
        relay::check(&self.relays, &[self.network.ipv4, self.network.ipv6]).map_err(MapError::Relay)
    }

    fn check_addresses(&self, id: NodeId, own: &[IpAddr], first: &FirstHolders) -> Result<(), MapError> {
        if own.is_empty() {
            return Err(MapError::NoAddress(id));
        }
        if own.len() > MAX_ADDRESSES {
            return Err(MapError::TooManyAddresses(id));
        }
        for (place, address) in own.iter().enumerate() {
            if !self.network.ipv4.contains(*address) && !self.network.ipv6.contains(*address) {
                return Err(MapError::AddressOutside(id, *address));
            }
            if first.addresses.get(address) != Some(&(id, place)) {
                return Err(MapError::SameAddress(id, *address));
            }
        }
        Ok(())
    }
}

/// Which node has a key or an address first: this node itself, then its peers by number.
struct FirstHolders {
    keys: SortedMap<PublicKey, NodeId>,
    /// With the place in the node's list of addresses.
    addresses: SortedMap<IpAddr, (NodeId, usize)>,
}

impl FirstHolders {
    fn of(map: &NetworkMap) -> Self {
        // A map that is collected keeps the last value of a key, so the first holder has to come last.
        let peers = || map.peers.values().rev();
        let own = std::iter::once((map.me.key, map.me.id));
        let members = peers().map(|peer| (peer.id, &peer.addresses)).chain([(map.me.id, &map.me.addresses)]);
        let addresses = members
            .flat_map(|(id, all)| all.iter().enumerate().rev().map(move |(place, address)| (*address, (id, place))));
        Self { keys: peers().map(|peer| (peer.key, peer.id)).chain(own).collect(), addresses: addresses.collect() }
    }
}

/// Checks that the overlay's prefixes cover no public addresses: IPv4 in private or shared space, IPv6 a unique local /48 or longer.
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

/// The reason to refuse a map or a delta.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapError {
    /// The delta is for a map of another version.
    WrongVersion {
        /// Version of the node's map.
        have: u64,
        /// Version that the delta applies to.
        from: u64,
    },
    /// More peers than a node accepts.
    TooManyPeers {
        /// Number of peers in the map.
        peers: usize,
    },
    /// A peer with too many endpoints.
    TooManyEndpoints(NodeId),
    /// A peer with more relays than a node binds to.
    TooManyRelays(NodeId),
    /// The list of relays is invalid.
    Relay(RelayFault),
    /// The filter is too large or invalid.
    Filter(BadFilter),
    /// An overlay prefix that covers addresses outside the overlay.
    BadPrefix(Prefix),
    /// A node without any address.
    NoAddress(NodeId),
    /// A node with too many addresses.
    TooManyAddresses(NodeId),
    /// An address outside the network's prefixes.
    AddressOutside(NodeId, IpAddr),
    /// Two nodes with one address.
    SameAddress(NodeId, IpAddr),
    /// Two nodes with one key.
    SameKey(NodeId),
    /// Two nodes with one number, or a peer with the node's own.
    SameId(NodeId),
    /// A name that is not a DNS label.
    BadName(NodeId),
    /// The network's name is not a DNS label. It would be written into `/etc/hosts`.
    BadNetworkName,
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the network map was refused and the last good one kept: ")?;
        match self {
            Self::WrongVersion { have, from } => {
                write!(f, "the change starts from version {from}, this node has {have}")
            }
            Self::TooManyPeers { peers } => {
                write!(f, "{peers} peers are more than the {MAX_PEERS} that a node accepts")
            }
            Self::TooManyEndpoints(id) => write!(f, "node {id} has more than {MAX_ENDPOINTS} endpoints"),
            Self::TooManyRelays(id) => write!(f, "node {id} is bound to more than {MAX_PEER_RELAYS} relays"),
            Self::Relay(fault) => write!(f, "{fault}"),
            Self::Filter(bad) => write!(f, "{bad}"),
            Self::BadPrefix(prefix) => {
                write!(f, "the overlay prefix {prefix} would cover addresses that are not the overlay's")
            }
            Self::TooManyAddresses(id) => write!(f, "node {id} has more than {MAX_ADDRESSES} addresses"),
            Self::NoAddress(id) => write!(f, "node {id} has no address"),
            Self::AddressOutside(id, address) => {
                write!(f, "address {address} of node {id} is outside the overlay's prefixes")
            }
            Self::SameAddress(id, address) => write!(f, "address {address} of node {id} is also another node's"),
            Self::SameKey(id) => write!(f, "the key of node {id} is also another node's"),
            Self::SameId(id) => write!(f, "two nodes have the number {id}"),
            Self::BadName(id) => write!(f, "the name of node {id} is not a DNS label"),
            Self::BadNetworkName => f.write_str("the network's name is not a DNS label"),
        }
    }
}

impl Error for MapError {}

/// Encodes peers as a list, because the keys of a JSON object are strings. Two peers with one number are an error, not a silent loss.
mod by_id {
    use serde::{Deserialize, Deserializer, Serializer};
    use taut_base::{NodeId, SortedMap};

    use super::Peer;

    pub(super) fn serialize<S: Serializer>(peers: &SortedMap<NodeId, Peer>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(peers.values())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SortedMap<NodeId, Peer>, D::Error> {
        let listed = Vec::<Peer>::deserialize(deserializer)?;
        let ids: Vec<NodeId> = listed.iter().map(|peer| peer.id).collect();
        let peers: SortedMap<NodeId, Peer> = listed.into_iter().map(|peer| (peer.id, peer)).collect();
        if peers.len() == ids.len() {
            return Ok(peers);
        }
        let mut seen: SortedMap<NodeId, bool> = ids.iter().map(|id| (*id, false)).collect();
        let is_second = |id: &&NodeId| seen.get_mut(*id).is_some_and(|seen| std::mem::replace(seen, true));
        let id = ids.iter().find(is_second).copied().unwrap_or(NodeId(0));
        Err(serde::de::Error::custom(format_args!("two nodes have the number {id}")))
    }
}

#[cfg(test)]
mod tests;

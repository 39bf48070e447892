//! Network maps from rows. Pure. The rows come from one complete read (law 6).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use taut_base::{NodeId, PublicKey, SortedMap};
use taut_netmap::{LocalMember, MAX_PEER_RELAYS, NetworkInfo, NetworkMap, Peer, Relay, check_name, is_exit_route};

use super::{StateError, addresses};
use crate::store::{NetworkRow, NodeRow};

/// Returns the full map for node `me`. `members` and `relays` are all of the network.
///
/// A member whose row is damaged, or that is in `isolated`, is missing in the maps of the others, and gets no map itself (faults E10, O9).
pub(super) fn whole(
    network: &NetworkRow,
    me: NodeId,
    members: &[NodeRow],
    isolated: &BTreeSet<NodeId>,
    relays: Vec<Relay>,
) -> Result<NetworkMap, StateError> {
    let own = members.iter().find(|row| row.id == me).ok_or(StateError::NotAMember)?;
    if !is_sound(network, own) {
        return Err(StateError::Unsound(me));
    }
    let is_peer = |row: &&NodeRow| row.id != me && !isolated.contains(&row.id) && is_sound(network, row);
    let peers: SortedMap<NodeId, Peer> = members.iter().filter(is_peer).map(|row| (row.id, peer(row))).collect();
    let map =
        NetworkMap { version: network.version, network: info(network), me: me_of(own), peers, relays, filter: None };
    map.check().map_err(StateError::BadMap)?;
    Ok(map)
}

/// The reason for which nodes would refuse a member in a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberFault {
    Name,
    AddressOutside,
    Endpoints,
    /// An earlier member has its key.
    SameKey,
    /// An earlier member has one of its addresses.
    SameAddress,
}

impl MemberFault {
    /// Returns true if the member is valid without another one.
    pub(super) fn is_double(self) -> bool {
        matches!(self, Self::SameKey | Self::SameAddress)
    }

    /// Returns the fault in words.
    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Name => "its name is not valid for a node",
            Self::AddressOutside => "an address is outside its network",
            Self::Endpoints => "it has too many endpoints",
            Self::SameKey => "an earlier node of the network has its key",
            Self::SameAddress => "an earlier node of the network has one of its addresses",
        }
    }
}

/// Returns true if nodes would accept this row in a map, provided that no other has its key or its addresses.
pub(super) fn is_sound(network: &NetworkRow, row: &NodeRow) -> bool {
    fault(network, row).is_none()
}

/// The defect of a network whose maps every node would refuse.
pub(super) const BAD_NETWORK: &str = "nodes would refuse its name or a prefix";

/// Returns true if nodes would accept a map of this network.
pub(super) fn is_valid(network: &NetworkRow) -> bool {
    let addresses = vec![IpAddr::V4(addresses::ipv4(network.ipv4, 1)), IpAddr::V6(addresses::ipv6(network.ipv6, 1))];
    let me =
        LocalMember { id: NodeId(1), name: String::from("x"), key: PublicKey([1; 32]), addresses, routes: Vec::new() };
    let (peers, relays) = (SortedMap::new(), Vec::new());
    NetworkMap { version: network.version, network: info(network), me, peers, relays, filter: None }.check().is_ok()
}

fn fault(network: &NetworkRow, row: &NodeRow) -> Option<MemberFault> {
    if check_name(&row.name).is_err() {
        return Some(MemberFault::Name);
    }
    let is_inside = network.ipv4.contains(IpAddr::V4(row.ipv4)) && network.ipv6.contains(IpAddr::V6(row.ipv6));
    if !is_inside {
        return Some(MemberFault::AddressOutside);
    }
    (row.endpoints.len() > super::MAX_ENDPOINTS).then_some(MemberFault::Endpoints)
}

/// Returns the members that nodes would refuse. The database ensures that keys and addresses are unique; if somebody removed its rules, the earlier member keeps them.
pub(super) fn faults(network: &NetworkRow, members: &[NodeRow]) -> BTreeMap<NodeId, MemberFault> {
    let (mut keys, mut ipv4, mut ipv6) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let fault = |row: &NodeRow| {
        if let Some(fault) = fault(network, row) {
            return Some((row.id, fault));
        }
        // All three, so that each one counts as taken.
        let [is_key_free, is_ipv4_free, is_ipv6_free] =
            [keys.insert(row.node_key.0), ipv4.insert(row.ipv4), ipv6.insert(row.ipv6)];
        if !is_key_free {
            return Some((row.id, MemberFault::SameKey));
        }
        (!is_ipv4_free || !is_ipv6_free).then_some((row.id, MemberFault::SameAddress))
    };
    members.iter().filter_map(fault).collect()
}

pub(super) fn info(network: &NetworkRow) -> NetworkInfo {
    NetworkInfo { name: network.name.clone(), ipv4: network.ipv4, ipv6: network.ipv6, naming: network.naming.clone() }
}

pub(super) fn me_of(row: &NodeRow) -> LocalMember {
    LocalMember {
        id: row.id,
        name: row.name.clone(),
        key: row.node_key,
        addresses: addresses(row),
        routes: row.routes(),
    }
}

/// Returns an exit node as those of its peers know it that may not use it.
pub(super) fn without_exit(peer: &Peer) -> Peer {
    let routes = peer.routes.iter().copied().filter(|route| !is_exit_route(*route)).collect();
    Peer { routes, ..peer.clone() }
}

pub(super) fn peer(row: &NodeRow) -> Peer {
    let (name, endpoints) = (row.name.clone(), row.endpoints.clone());
    let relays = row.relays.iter().copied().take(MAX_PEER_RELAYS).collect();
    Peer {
        id: row.id,
        name,
        key: row.node_key,
        addresses: addresses(row),
        endpoints,
        relays,
        native: false,
        routes: row.routes(),
    }
}

fn addresses(row: &NodeRow) -> Vec<IpAddr> {
    vec![IpAddr::V4(row.ipv4), IpAddr::V6(row.ipv6)]
}

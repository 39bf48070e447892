//! Network maps from rows. Pure. The rows come from one complete read (law 6).

use std::collections::BTreeMap;
use std::net::IpAddr;

use taut_base::NodeId;
use taut_netmap::{LocalMember, MAX_PEER_RELAYS, NetworkInfo, NetworkMap, Peer, Relay, check_name};

use super::StateError;
use crate::store::{NetworkRow, NodeRow};

/// Returns the full map for node `me`. `members` and `relays` are all of the network.
///
/// A member whose row is damaged is missing in the maps of the others, and gets no map itself (fault E10).
pub(super) fn whole(
    network: &NetworkRow,
    me: NodeId,
    members: &[NodeRow],
    relays: Vec<Relay>,
) -> Result<NetworkMap, StateError> {
    let own = members.iter().find(|row| row.id == me).ok_or(StateError::NotAMember)?;
    if !is_sound(network, own) {
        return Err(StateError::Unsound(me));
    }
    let peers: BTreeMap<NodeId, Peer> =
        members.iter().filter(|row| row.id != me && is_sound(network, row)).map(|row| (row.id, peer(row))).collect();
    let map = NetworkMap { version: network.version, network: info(network), me: me_of(own), peers, relays };
    map.check().map_err(StateError::BadMap)?;
    Ok(map)
}

/// Returns true if nodes would accept this row in a map. The database ensures that keys, names and addresses are unique.
pub(super) fn is_sound(network: &NetworkRow, row: &NodeRow) -> bool {
    check_name(&row.name).is_ok()
        && network.ipv4.contains(IpAddr::V4(row.ipv4))
        && network.ipv6.contains(IpAddr::V6(row.ipv6))
        && row.endpoints.len() <= super::MAX_ENDPOINTS
}

pub(super) fn info(network: &NetworkRow) -> NetworkInfo {
    NetworkInfo { name: network.name.clone(), ipv4: network.ipv4, ipv6: network.ipv6 }
}

pub(super) fn me_of(row: &NodeRow) -> LocalMember {
    LocalMember { id: row.id, name: row.name.clone(), key: row.node_key, addresses: addresses(row) }
}

pub(super) fn peer(row: &NodeRow) -> Peer {
    let (name, endpoints) = (row.name.clone(), row.endpoints.clone());
    let relays = row.relays.iter().copied().take(MAX_PEER_RELAYS).collect();
    Peer { id: row.id, name, key: row.node_key, addresses: addresses(row), endpoints, relays, native: false }
}

fn addresses(row: &NodeRow) -> Vec<IpAddr> {
    vec![IpAddr::V4(row.ipv4), IpAddr::V6(row.ipv6)]
}

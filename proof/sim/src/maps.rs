//! The network maps that a coordinator would give the members of the simulated network.

use std::net::IpAddr;

use taut_base::{Prefix, RelayId};
use taut_netmap::{LocalMember, MAX_PEER_RELAYS, NetworkInfo, NetworkMap, Peer};

use crate::party::Party;
use crate::relay::SimRelay;

/// Returns the map that a coordinator would give to `me` with these peers.
pub fn map_for(me: &Party, peers: &[&Party]) -> NetworkMap {
    let ipv4 = Prefix::new(IpAddr::from([100, 64, 0, 0]), 10);
    let ipv6 = Prefix::new(IpAddr::from([0xfd00, 0x7a07, 0, 0, 0, 0, 0, 0]), 48);
    let (Ok(ipv4), Ok(ipv6)) = (ipv4, ipv6) else { unreachable!("both lengths fit") };
    let listed = |peer: &&Party| {
        let peer = Peer {
            id: peer.id(),
            name: peer.name(),
            key: peer.public(),
            addresses: vec![peer.overlay()],
            endpoints: vec![peer.endpoint],
            relays: Vec::new(),
            native: false,
            routes: Vec::new(),
        };
        (peer.id, peer)
    };
    let map = NetworkMap {
        version: 1,
        network: NetworkInfo { name: "sim".into(), ipv4, ipv6, naming: taut_netmap::Naming::default() },
        me: LocalMember {
            id: me.id(),
            name: me.name(),
            key: me.public(),
            addresses: vec![me.overlay()],
            routes: Vec::new(),
        },
        peers: peers.iter().map(listed).collect(),
        relays: Vec::new(),
        filter: None,
    };
    assert_eq!(map.check(), Ok(()), "the world's own maps are valid");
    map
}

/// Returns the map of a network with these relays. All members are bound to the first two.
pub fn map_with_relays(me: &Party, peers: &[&Party], relays: &[SimRelay]) -> NetworkMap {
    let mut map = map_for(me, peers);
    map.relays = relays.iter().map(SimRelay::listed).collect();
    let bound: Vec<RelayId> = relays.iter().map(SimRelay::id).take(MAX_PEER_RELAYS).collect();
    map.peers.values_mut().for_each(|peer| peer.relays.clone_from(&bound));
    assert_eq!(map.check(), Ok(()), "the world's own maps are valid");
    map
}

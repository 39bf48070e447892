//! Maps for tests: a small network with addresses that follow from the numbers of its nodes.

use std::net::IpAddr;

use taut_base::{NodeId, Prefix, PublicKey};
use taut_netmap::{LocalMember, Naming, NetworkInfo, NetworkMap, Peer};

/// Returns a peer with this number, name and key, an address in 100.64.0.0/16 that ends with its number, and these routes.
pub(crate) fn peer(id: u64, name: &str, key: u8, routes: Vec<Prefix>) -> Peer {
    Peer {
        id: NodeId(id),
        name: String::from(name),
        key: PublicKey([key; 32]),
        addresses: vec![IpAddr::from([100, 64, (id >> 8) as u8, id as u8])],
        endpoints: Vec::new(),
        relays: Vec::new(),
        native: false,
        routes,
    }
}

/// Returns a map of the network `home` with these peers. This node is number 1, `me`, at 100.64.0.1.
pub(crate) fn network(version: u64, peers: impl IntoIterator<Item = Peer>) -> NetworkMap {
    let prefix = |text: &str| text.parse().unwrap();
    NetworkMap {
        version,
        network: NetworkInfo {
            name: String::from("home"),
            ipv4: prefix("100.64.0.0/10"),
            ipv6: prefix("fd00::/48"),
            naming: Naming::default(),
        },
        me: LocalMember {
            id: NodeId(1),
            name: String::from("me"),
            key: PublicKey([1; 32]),
            addresses: vec![IpAddr::from([100, 64, 0, 1])],
            routes: Vec::new(),
        },
        peers: peers.into_iter().map(|peer| (peer.id, peer)).collect(),
        relays: Vec::new(),
        filter: None,
    }
}

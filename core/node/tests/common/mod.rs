//! Shared parts of the tests of whole nodes: seeded randomness, and a network of numbered nodes.

use std::net::{IpAddr, SocketAddr};

use taut_base::{Entropy, NodeId, Prefix, PrivateKey, PublicKey};
use taut_netmap::{LocalMember, NetworkInfo, NetworkMap, Peer};
use taut_node::{Node, Output, ToLane};
use taut_noise::public_key;

pub(crate) use taut_testkit::Seeded;

/// Returns the generator of this seed.
pub(crate) fn seeded(seed: u64) -> Seeded {
    Seeded::new(seed)
}

/// Returns a number below `below`.
pub(crate) fn draw(entropy: &mut Seeded, below: u64) -> u64 {
    entropy.below_u64(below)
}

/// Returns the node's next command to a lane; its other outputs are dropped.
pub(crate) fn lane_command(node: &mut Node<impl Entropy>) -> Option<ToLane> {
    let command = |output| match output {
        Output::Lane(_, command) => Some(command),
        _ => None,
    };
    std::iter::from_fn(|| node.poll_output()).find_map(command)
}

/// Returns the node key of a node.
pub(crate) fn key(number: u8) -> PrivateKey {
    PrivateKey::from_bytes([number + 1; 32])
}

/// Returns the endpoint of a node in the map.
pub(crate) fn endpoint(number: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number + 1], 8288))
}

fn public(number: u8) -> PublicKey {
    public_key(&key(number))
}

/// Returns the map of node `me` with these nodes except itself.
pub(crate) fn map(me: u8, listed: impl Iterator<Item = u8>) -> NetworkMap {
    let address = |number| IpAddr::from([100, 64, 0, number + 1]);
    let peer = |number| Peer {
        id: NodeId(u64::from(number) + 1),
        name: format!("n{number}"),
        key: public(number),
        addresses: vec![address(number)],
        endpoints: vec![endpoint(number), SocketAddr::from(([198, 51, 100, number + 1], 9))],
        relays: Vec::new(),
        native: false,
        routes: Vec::new(),
    };
    NetworkMap {
        version: 1,
        network: NetworkInfo {
            name: String::from("net"),
            ipv4: Prefix::new(IpAddr::from([100, 64, 0, 0]), 10).unwrap(),
            ipv6: Prefix::new(IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 0]), 48).unwrap(),
            naming: taut_netmap::Naming::default(),
        },
        me: LocalMember {
            id: NodeId(u64::from(me) + 1),
            name: String::from("me"),
            key: public(me),
            addresses: vec![address(me)],
            routes: Vec::new(),
        },
        peers: listed
            .filter(|number| *number != me)
            .map(|number| (NodeId(u64::from(number) + 1), peer(number)))
            .collect(),
        relays: Vec::new(),
        filter: None,
    }
}

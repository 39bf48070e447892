//! What the tests of whole nodes share: chance from a seed, and a network of numbered nodes.

use std::net::{IpAddr, SocketAddr};

use taut_base::{Entropy, NodeId, Prefix, PrivateKey, PublicKey};
use taut_netmap::{LocalMember, NetworkInfo, NetworkMap, Peer};
use taut_node::{Node, Output, ToLane};
use taut_noise::public_key;

/// The same bytes for the same seed.
pub(crate) type Dice = Box<dyn FnMut(&mut [u8])>;

/// PCG's multiplier and increment; any generator would do.
pub(crate) fn dice(seed: u64) -> Dice {
    let mut state = seed;
    Box::new(move |bytes| {
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = state.to_be_bytes()[0];
        }
    })
}

/// A number from 0 to `below`, that one excluded.
pub(crate) fn draw(dice: &mut Dice, below: u64) -> u64 {
    let mut bytes = [0; 8];
    dice(&mut bytes);
    u64::from_le_bytes(bytes) % below
}

/// Returns the node's next command to a lane; its other outputs are dropped.
pub(crate) fn lane_command(node: &mut Node<impl Entropy>) -> Option<ToLane> {
    let command = |output| match output {
        Output::Lane(_, command) => Some(command),
        _ => None,
    };
    std::iter::from_fn(|| node.poll_output()).find_map(command)
}

/// The node key of a node.
pub(crate) fn key(number: u8) -> PrivateKey {
    PrivateKey::from_bytes([number + 1; 32])
}

/// Where the map says that a node is.
pub(crate) fn endpoint(number: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number + 1], 8288))
}

fn public(number: u8) -> PublicKey {
    public_key(&key(number))
}

/// The map of node `me` that lists these nodes, itself left out.
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
    };
    NetworkMap {
        version: 1,
        network: NetworkInfo {
            name: String::from("net"),
            ipv4: Prefix::new(IpAddr::from([100, 64, 0, 0]), 10).unwrap(),
            ipv6: Prefix::new(IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 0]), 48).unwrap(),
        },
        me: LocalMember {
            id: NodeId(u64::from(me) + 1),
            name: String::from("me"),
            key: public(me),
            addresses: vec![address(me)],
        },
        peers: listed
            .filter(|number| *number != me)
            .map(|number| (NodeId(u64::from(number) + 1), peer(number)))
            .collect(),
        relays: Vec::new(),
    }
}

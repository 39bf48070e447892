//! Random packets.

use std::net::IpAddr;

use serde::Serialize;
use taut_policy::{NodeFacts, Packet};
use taut_testkit::Seeded;

use crate::left_out;
use crate::words::{self, chance, pick};

/// A packet that a node receives.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Received {
    /// The node, by its place in the list.
    pub(crate) node: usize,
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    pub(crate) proto: u8,
    pub(crate) port: u16,
}

impl Received {
    /// Returns the packet as filters see it.
    pub(crate) fn packet(&self) -> Packet {
        Packet { src: self.src, dst: self.dst, proto: self.proto, port: self.port }
    }
}

/// Returns a packet, mostly between nodes or to what is behind one, and mostly at the node that has the address.
pub(crate) fn received(random: &mut Seeded, nodes: &[NodeFacts], ports: &[u16]) -> Received {
    loop {
        let (src, dst) = (address(random, nodes), address(random, nodes));
        let own = nodes.iter().position(|node| node.addresses.contains(&dst));
        let node = own.filter(|_| random.index(8) > 0).unwrap_or_else(|| random.index(nodes.len()));
        if src.is_ipv4() == dst.is_ipv4() && left_out::is_compared(&nodes[node], dst) {
            let proto = words::PACKET_PROTOCOLS[random.index(words::PACKET_PROTOCOLS.len())];
            return Received { node, src, dst, proto, port: ports[random.index(ports.len())] };
        }
    }
}

fn address(random: &mut Seeded, nodes: &[NodeFacts]) -> IpAddr {
    let addresses = &nodes[random.index(nodes.len())].addresses;
    let own = addresses[random.index(addresses.len())];
    if chance(random, 4) { pick(random, &words::ADDRESSES).parse().unwrap_or(own) } else { own }
}

//! Packets that leave the host although everything else goes to the exit node, or nowhere: rules of nftables that the kill switch and the exit node's own table share. Pure.

use taut_base::Prefix;
use taut_netlink::NftRule;

/// Name of the devices of all Taut networks of a host, as nftables compares it: `taut0`, and `taut-NAME` for further networks.
const TAUT_DEVICES: &str = "taut*";

/// Messages of ICMPv6 by which a network works at all: multicast listeners (130, 131, 132, 143), router solicitation (133), neighbour solicitation and advertisement (135, 136).
const NEIGHBOURS: [u8; 7] = [130, 131, 132, 143, 133, 135, 136];

/// Packets of this host without which a network does not work: those that stay in the host, DHCP, and neighbours.
pub(super) fn upkeep() -> impl Iterator<Item = NftRule> {
    let dhcp = [NftRule::new().udp(true, 68, 67), NftRule::new().udp(false, 546, 547)];
    let neighbours = NEIGHBOURS.map(|kind| NftRule::new().icmpv6(kind));
    let all = [NftRule::new().to_named("lo")].into_iter().chain(dhcp).chain(neighbours);
    all.map(NftRule::accept)
}

/// Packets that come out of an overlay of Taut, to networks behind this node.
pub(super) fn from_overlay(device: &str) -> impl Iterator<Item = NftRule> {
    [TAUT_DEVICES, device].map(|name| NftRule::new().from_named(name).accept()).into_iter()
}

/// Packets into an overlay of Taut.
pub(super) fn into_overlay(device: &str) -> impl Iterator<Item = NftRule> {
    [TAUT_DEVICES, device].map(|name| NftRule::new().to_named(name).accept()).into_iter()
}

/// Packets to networks inside the host. A bridge is open for its own network alone: a packet to any other address on it is one in the clear.
pub(super) fn into_host(inside: &[(String, Prefix)]) -> impl Iterator<Item = NftRule> {
    inside.iter().map(|(name, prefix)| NftRule::new().to_named(name).destination(*prefix).accept())
}

/// Packets to these prefixes.
pub(super) fn to_prefixes(prefixes: &[Prefix]) -> impl Iterator<Item = NftRule> {
    prefixes.iter().map(|prefix| NftRule::new().destination(*prefix).accept())
}

//! Overlay addresses that this host uses for something else (fault J13).
//!
//! | | at the first join | later |
//! |---|---|---|
//! | an overlay address of a member or of this node is in use on this host | refused | warned of |
//! | a network of this host, or another overlay, overlaps the prefix | warned of | warned of |
//!
//! Addresses in use are the host's own, those of its routers, and those of members of other Taut networks. Only an address is a reason to refuse, not an overlap:
//! the default prefix, 100.64.0.0/10, is also the range that carriers give to their customers (RFC 6598), and there a conflict needs that very address. Name servers
//! do not count, because many people run theirs on a member of the overlay. Later nothing is refused, because a running network stays up (law 5).

use std::net::IpAddr;

use taut_base::{Prefix, SortedSet};
use taut_netmap::NetworkMap;

use super::surroundings::{Kind, Own, Surroundings, is_shared};
use crate::api::Failure;

/// Maximum number of warnings of one kind: further ones add nothing.
const SHOWN: usize = 3;

/// The use of an address on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressUse<'a> {
    /// The host's own address, on this interface.
    Own(&'a str),
    /// The address of the router behind this interface.
    Router(&'a str),
    /// The address of a member of another Taut network, reached through this interface.
    Member(&'a str),
}

/// An address that is used twice.
#[derive(Debug, PartialEq, Eq)]
struct Conflict<'a> {
    address: IpAddr,
    here: AddressUse<'a>,
}

/// Returns the reason why this network must not come up on this host for the first time, if there is one.
pub(crate) fn first_join(map: &NetworkMap, surroundings: &Surroundings) -> Result<(), Failure> {
    let conflicts = conflicts(map, surroundings);
    let Some(first) = conflicts.first() else { return Ok(()) };
    let more = match conflicts.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let text = format!("the network was not joined: {}{more}", first.describe(map));
    let hint = "use a network with another prefix (`taut-coordinator networks create NAME --ipv4-prefix PREFIX`), or free the address on this \
                host and run `taut up` again. The coordinator lists this node already; `taut leave` ends that";
    Err(Failure::new(text, hint))
}

/// Returns warnings about overlaps while the network is up.
pub(crate) fn warnings(map: &NetworkMap, surroundings: &Surroundings) -> Vec<Failure> {
    let conflicts = conflicts(map, surroundings);
    let hint = "taut changes neither; use another address for one of the two";
    let mut warnings: Vec<Failure> =
        conflicts.iter().take(SHOWN).map(|conflict| Failure::new(conflict.describe(map), hint)).collect();
    let overlaps = surroundings.own.iter().filter_map(|own| Some((own, overlap(map, own)?)));
    // A warning about an address covers its network.
    let overlaps =
        overlaps.filter(|(own, _)| conflicts.iter().all(|conflict| conflict.here != AddressUse::Own(&own.interface)));
    warnings.extend(overlaps.take(SHOWN).map(|(own, prefix)| {
        let Own { network, interface, kind, .. } = own;
        let what = if *kind == Kind::Overlay { "another overlay" } else { "a network" };
        let text =
            format!("{what} of this host overlaps this one: {interface} has {network}, and the overlay {prefix}");
        Failure::new(
            text,
            "a host there that has a member's address cannot be reached; use another prefix for one of the two",
        )
    }));
    warnings
}

/// Returns the overlay prefix that overlaps with this network of the host.
fn overlap(map: &NetworkMap, own: &Own) -> Option<Prefix> {
    // Customers of a carrier do not use these addresses to reach each other.
    let shared = matches!(own.ip, IpAddr::V4(v4) if is_shared(v4)) && own.kind != Kind::Overlay;
    [map.network.ipv4, map.network.ipv6].into_iter().find(|prefix| !shared && prefix.overlaps(own.network))
}

/// Returns all overlay addresses with another use on this host: its own addresses first, those of members of other networks last.
fn conflicts<'a>(map: &'a NetworkMap, surroundings: &'a Surroundings) -> Vec<Conflict<'a>> {
    let members = surroundings.routes.iter().filter(|route| route.is_member);
    let members = members.map(|route| (route.prefix.address(), AddressUse::Member(&route.interface)));
    let routers = surroundings.routers.iter().map(|(ip, interface)| (*ip, AddressUse::Router(interface)));
    let own = surroundings.own.iter().map(|own| (own.ip, AddressUse::Own(&own.interface)));
    let theirs = map.peers.values().flat_map(|peer| &peer.addresses);
    // The first of several uses of an address counts.
    let mut overlay: SortedSet<IpAddr> = map.me.addresses.iter().chain(theirs).copied().collect();
    let used = own.chain(routers).chain(members).filter(|(address, _)| overlay.remove(address));
    used.map(|(address, here)| Conflict { address, here }).collect()
}

impl Conflict<'_> {
    fn describe(&self, map: &NetworkMap) -> String {
        let (address, network) = (self.address, &map.network.name);
        let member = map.peers.values().find(|peer| peer.addresses.contains(&address));
        let whose =
            member.map_or_else(|| String::from("this node's"), |member| format!("that of member {}", member.name));
        let here = match self.here {
            AddressUse::Own(interface) => format!("this host has it on {interface}"),
            AddressUse::Router(interface) => format!("the router behind {interface} has it"),
            AddressUse::Member(interface) => format!("a member of another network has it, through {interface}"),
        };
        format!("{address} is {whose} in network {network}, and {here}")
    }
}

#[cfg(test)]
mod tests {
    use taut_base::{NodeId, PublicKey, SortedMap};
    use taut_netmap::{LocalMember, NetworkInfo, Peer};

    use super::super::surroundings::TunnelRoute;
    use super::super::surroundings::tests::own;
    use super::*;

    fn map() -> NetworkMap {
        let peer = Peer {
            id: NodeId(2),
            name: String::from("web"),
            key: PublicKey([2; 32]),
            addresses: vec!["100.64.0.2".parse().unwrap(), "fd00::2".parse().unwrap()],
            endpoints: Vec::new(),
            relays: Vec::new(),
            native: false,
            routes: Vec::new(),
        };
        NetworkMap {
            version: 1,
            network: NetworkInfo {
                name: String::from("home"),
                ipv4: "100.64.0.0/10".parse().unwrap(),
                ipv6: "fd00::/64".parse().unwrap(),
                naming: taut_netmap::Naming::default(),
            },
            me: LocalMember {
                id: NodeId(1),
                name: String::from("a"),
                key: PublicKey([1; 32]),
                addresses: vec!["100.64.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
                routes: Vec::new(),
            },
            peers: SortedMap::from([(peer.id, peer)]),
            relays: Vec::new(),
            filter: None,
        }
    }

    fn with(own: Vec<Own>) -> Surroundings {
        Surroundings { own, ..Surroundings::default() }
    }

    #[test]
    fn fault_j13_an_address_in_use_is_refused_at_the_first_join() {
        let refused = |surroundings: &Surroundings| first_join(&map(), surroundings).map_err(|failure| failure.message);
        for (address, whose) in
            [("100.64.0.1/24", "this node's"), ("100.64.0.2/10", "member web"), ("fd00::2/64", "member web")]
        {
            let message = refused(&with(vec![own("eth0", Kind::Network, address)])).unwrap_err();
            assert!(message.contains(whose) && message.contains("on eth0"), "{message}");
        }
        let routers = vec![("100.64.0.2".parse().unwrap(), String::from("wlan0"))];
        let message = refused(&Surroundings { routers, ..Surroundings::default() }).unwrap_err();
        assert!(message.contains("the router behind wlan0"), "{message}");
        let route = |is_member| TunnelRoute {
            prefix: "100.64.0.2/32".parse().unwrap(),
            interface: String::from("taut1"),
            is_member,
            is_subnet: false,
        };
        let routes = |is_member| Surroundings { routes: vec![route(is_member)], ..Surroundings::default() };
        let message = refused(&routes(true)).unwrap_err();
        assert!(message.contains("another network has it, through taut1"), "{message}");
        // What some other VPN routes is not an address in use here.
        assert_eq!(refused(&routes(false)), Ok(()));
    }

    #[test]
    fn fault_d12_a_carriers_address_in_the_default_prefix_is_no_reason_to_refuse() {
        let carrier = with(vec![own("ppp0", Kind::Network, "100.70.1.2/10"), own("eth0", Kind::Network, "10.0.0.7/8")]);
        assert_eq!(first_join(&map(), &carrier), Ok(()));
        assert_eq!(warnings(&map(), &carrier), []);
    }

    #[test]
    fn fault_j13_overlaps_are_warned_of_and_not_refused() {
        let mut map = map();
        map.network.ipv4 = "10.0.0.0/8".parse().unwrap();
        let local = with(vec![own("eth0", Kind::Network, "10.1.2.3/24"), own("taut1", Kind::Overlay, "10.9.0.1/32")]);
        assert_eq!(first_join(&map, &local), Ok(()));
        let told = warnings(&map, &local);
        assert_eq!(told.len(), 2);
        assert!(told[0].message.contains("eth0 has 10.1.2.0/24, and the overlay 10.0.0.0/8"), "{}", told[0].message);
        assert!(told[1].message.starts_with("another overlay"), "{}", told[1].message);
    }

    #[test]
    fn fault_j13_a_conflict_that_appears_later_is_warned_of_once() {
        let told = warnings(&map(), &with(vec![own("eth0", Kind::Network, "100.64.0.2/24")]));
        assert_eq!(told.len(), 1);
        assert!(told[0].message.contains("100.64.0.2 is that of member web in network home"), "{}", told[0].message);
    }
}

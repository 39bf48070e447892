//! The host's other interfaces: the endpoints of this node, and the prefixes of other overlays (fault D17).
//!
//! An address inside another tunnel is not used as an endpoint: that tunnel would carry our packets, its own packets may go through us, and it reduces the MTU. Peers are
//! not told of such addresses, and none that a peer names is probed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use taut_base::{Prefix, SOCKET_MARK, SortedSet};
use taut_netlink::{Address, InterfaceLink, Netlink, NetlinkError, Route, Scope};
use taut_path::{Families, acceptable};

use super::exit::Nearby;
use super::{SUBNET_METRIC, inner_bridges};

/// Maximum number of tunnels whose routes are read, 16.
const MAX_TUNNELS: usize = 16;
/// Maximum number of prefixes of other overlays, 256: each candidate of a peer is compared with each prefix. Addresses in further prefixes are probed if a peer names them.
const MAX_PREFIXES: usize = 256;

/// Shortest prefixes of routes into overlays, for IPv4 and IPv6. A shorter route leads a large part of the Internet into the tunnel, which is therefore an uplink: `0.0.0.0/1`
/// and `128.0.0.0/1`, or everything except the local network.
const SHORTEST: (u8, u8) = (8, 16);

/// Internet addresses whose routes are looked up. They are documentation addresses (RFC 5737, RFC 3849), and nothing is sent to them.
pub(super) const FAR: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

/// The host's interfaces and routes without our own device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Surroundings {
    pub(super) own: Vec<Own>,
    /// Addresses of this host's routers, each with its interface.
    pub(super) routers: Vec<(IpAddr, String)>,
    /// Routes into other overlays.
    pub(super) routes: Vec<TunnelRoute>,
    /// The largest MTU of an interface that is up.
    pub(super) mtu: Option<u16>,
    /// Bridges that lead to containers and virtual machines of this host alone.
    pub(super) bridges: Vec<u32>,
}

/// An address of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Own {
    pub(super) ip: IpAddr,
    /// The network of the address; on most tunnels only the address itself.
    pub(super) network: Prefix,
    pub(super) interface: String,
    pub(super) kind: Kind,
    /// Whether the interface is a bridge that leads to containers and virtual machines of this host alone.
    pub(super) is_inner: bool,
    /// Whether peers may be told of it, apart from the kind of its interface.
    usable: bool,
}

/// A route into another overlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TunnelRoute {
    pub(super) prefix: Prefix,
    pub(super) interface: String,
    /// Whether it is a route of Taut: its address belongs to a member of another network.
    pub(super) is_member: bool,
    /// Whether it is a subnet's route of Taut, behind a member of another network.
    pub(super) is_subnet: bool,
}

/// The kind of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A network, or a provider's line (`ppp`, `wwan`).
    Network,
    /// A tunnel without encryption. It may also be a provider's line (6in4, DS-Lite, a GRE tunnel with public addresses), so its public addresses are used.
    PlainTunnel,
    /// An overlay: a VPN or another Taut network.
    Overlay,
}

impl Kind {
    fn of(link: &InterfaceLink) -> Self {
        match link.kind.as_deref() {
            // TAP devices have the kind `tun`, too.
            Some("tun" | "wireguard" | "amneziawg" | "ovpn" | "ovpn-dco" | "xfrm" | "vti" | "vti6") => Self::Overlay,
            Some(
                "ipip" | "sit" | "ip6tnl" | "gre" | "gretap" | "ip6gre" | "ip6gretap" | "erspan" | "ip6erspan"
                | "vxlan" | "geneve" | "bareudp" | "gtp",
            ) => Self::PlainTunnel,
            _ => Self::Network,
        }
    }
}

impl Surroundings {
    /// Returns the largest MTU of an interface that is up: no packet to a peer can be longer.
    pub(crate) fn mtu(&self) -> Option<u16> {
        self.mtu
    }

    /// Reads all interfaces except our own device `ours`, if it exists yet. The routes into tunnels are copied from `known` if it is given, and read otherwise.
    pub(crate) fn read(netlink: &mut Netlink, ours: Option<u32>, known: Option<&Self>) -> Result<Self, NetlinkError> {
        let mut links = netlink.links()?;
        links.retain(|link| Some(link.index) != ours && !link.loopback);
        let find = |index: u32| links.iter().find(|link| link.index == index);
        let addresses = netlink.addresses()?;
        let bridges = inner_bridges(&links);
        let own = addresses.iter().filter_map(|address| {
            let own = Own::new(address, find(address.index)?)?;
            Some(Own { is_inner: bridges.contains(&address.index), ..own })
        });
        let own = own.collect();
        let mut routers = Vec::new();
        for far in FAR {
            // A kernel without IPv6 cannot look up the IPv6 address.
            let hop = netlink.first_hop(far, SOCKET_MARK).ok().flatten();
            routers.extend(hop.and_then(|hop| Some((hop.gateway, find(hop.interface)?.name.clone()))));
        }
        let routes = match known {
            Some(known) => known.routes.clone(),
            None => {
                let overlays = links.iter().filter(|link| Kind::of(link) == Kind::Overlay);
                let mut routes = Vec::new();
                for link in overlays.take(MAX_TUNNELS) {
                    routes.extend(
                        netlink.routes_by(link.index)?.iter().filter_map(|route| TunnelRoute::new(route, link)),
                    );
                }
                routes
            }
        };
        let largest = links.iter().filter(|link| link.up).map(|link| link.mtu).max();
        let mtu = largest.map(|mtu| u16::try_from(mtu).unwrap_or(u16::MAX));
        Ok(Self { own, routers, routes, mtu, bridges })
    }

    /// Returns the endpoints of this host: its addresses with `port`, best first, without those of overlays.
    pub(crate) fn endpoints(&self, port: u16, avoided: &[Prefix]) -> Vec<SocketAddr> {
        let offered = self.own.iter().filter(|own| own.usable && own.is_offered());
        let endpoints = offered.map(|own| SocketAddr::new(own.ip, port));
        let mut endpoints: Vec<SocketAddr> = endpoints.filter(|endpoint| acceptable(*endpoint, avoided)).collect();
        // IPv4 first, because its header is 20 bytes shorter.
        endpoints.sort_by_key(SocketAddr::is_ipv6);
        endpoints.dedup();
        endpoints
    }

    /// Returns the bridges that lead to containers and virtual machines of this host alone.
    pub(crate) fn inner_bridges(&self) -> &[u32] {
        &self.bridges
    }

    /// Returns the address families of the host's addresses, even of those that peers are not told of: a tunnel may be the only uplink, and a carrier's address may be within
    /// the overlay's prefix (fault D12).
    pub(crate) fn families(&self) -> Families {
        let usable = |own: &&Own| own.usable && acceptable(SocketAddr::new(own.ip, 1), &[]);
        let v4 = self.own.iter().filter(usable).any(|own| own.ip.is_ipv4());
        let v6 = self.own.iter().filter(usable).any(|own| own.ip.is_ipv6());
        // A host without a global address may still have a route. Packets that cannot be sent are lost.
        if v4 || v6 { Families { v4, v6 } } else { Families::default() }
    }

    /// Returns the networks that this host's other interfaces reach without a router. Overlays are left out, because nothing is probed there.
    pub(crate) fn networks(&self) -> Vec<Prefix> {
        self.own.iter().filter(|own| own.usable && own.kind != Kind::Overlay).map(|own| own.network).collect()
    }

    /// Returns the networks that a peer's route must not take a part of: those of all other interfaces, and private prefixes routed into other overlays. A tunnel with a shorter
    /// or a public route is an uplink. Subnets of another Taut network are left out: two daemons would give up their routes for each other's.
    pub(crate) fn taken(&self) -> Vec<Prefix> {
        let own = self.own.iter().filter(|own| own.usable).map(|own| own.network);
        let routed = self.routes.iter().filter(|route| !route.is_subnet && is_private(route.prefix.address()));
        let routed = routed.map(|route| route.prefix).filter(|prefix| is_long(*prefix));
        own.chain(routed.take(MAX_PREFIXES)).collect()
    }

    /// Returns the networks that matter while an exit node is in use. A network counts as local only with private addresses: the operator of a network can claim any other (fault J3). A bridge
    /// without a network card and without a router is inside this host.
    pub(crate) fn nearby(&self) -> Nearby {
        let tunnels: SortedSet<&String> =
            self.own.iter().filter(|own| own.kind == Kind::Overlay).map(|own| &own.interface).collect();
        let tunnels = tunnels.into_iter().cloned().collect();
        let mut nearby = Nearby { overlays: self.overlays(), tunnels, ..Nearby::default() };
        for own in self.own.iter().filter(|own| own.usable && own.kind != Kind::Overlay) {
            let has_router = self.routers.iter().any(|(_, interface)| *interface == own.interface);
            let is_inside = own.is_inner && !has_router;
            match is_inside {
                true if is_local(own.network) => nearby.inside.push((own.interface.clone(), own.network)),
                true => {}
                false => {
                    if is_local(own.network) {
                        nearby.local.push(own.network);
                    }
                    nearby.uplinks.push(own.interface.clone());
                }
            }
        }
        nearby.local.sort_unstable();
        nearby.local.dedup();
        nearby.inside.sort_unstable();
        nearby.inside.dedup();
        nearby.uplinks.sort_unstable();
        nearby.uplinks.dedup();
        nearby
    }

    /// Returns the addresses of this host's routers to the Internet.
    pub(crate) fn gateways(&self) -> impl Iterator<Item = IpAddr> {
        self.routers.iter().map(|(address, _)| *address)
    }

    /// Returns the prefixes of other overlays, in which no endpoint of a peer is probed: networks of tunnels, and prefixes routed into them. Only private prefixes count,
    /// because a tunnel with routes of public ones is an uplink. A prefix that contains a network of the host is left out, because its neighbours are there.
    pub(crate) fn overlays(&self) -> Vec<Prefix> {
        let networks = self.own.iter().filter(|own| own.kind == Kind::Overlay).map(|own| own.network);
        let routed = self.routes.iter().map(|route| route.prefix);
        let near: Vec<Prefix> =
            self.own.iter().filter(|own| own.kind != Kind::Overlay).map(|own| own.network).collect();
        let is_overlay = |prefix: &Prefix| {
            let holds = |near: &Prefix| prefix.contains(near.address()) && prefix.length() <= near.length();
            is_long(*prefix) && is_private(prefix.address()) && !near.iter().any(holds)
        };
        let mut kept: Vec<Prefix> = Vec::new();
        for prefix in networks.chain(routed).filter(is_overlay) {
            let is_within = |wider: &Prefix| wider.length() <= prefix.length() && wider.contains(prefix.address());
            if kept.iter().any(is_within) {
                continue;
            }
            // A wider prefix replaces the narrower ones that it contains.
            kept.retain(|narrower| !prefix.contains(narrower.address()));
            if kept.len() < MAX_PREFIXES {
                kept.push(prefix);
            }
        }
        kept
    }
}

impl Own {
    fn new(address: &Address, link: &InterfaceLink) -> Option<Self> {
        // The kernel keeps the IPv4 addresses of an interface that is switched off.
        let usable = link.up
            && address.scope == Scope::Global
            && !(address.deprecated || address.tentative || address.duplicate || address.temporary);
        Some(Self {
            ip: address.ip,
            network: Prefix::new(address.ip, address.prefix_len).ok()?,
            interface: link.name.clone(),
            kind: Kind::of(link),
            is_inner: false,
            usable,
        })
    }

    /// Returns true if peers are told of addresses of this kind.
    fn is_offered(&self) -> bool {
        match self.kind {
            Kind::Network => true,
            Kind::PlainTunnel => !is_private(self.ip),
            Kind::Overlay => false,
        }
    }
}

impl TunnelRoute {
    fn new(route: &Route, link: &InterfaceLink) -> Option<Self> {
        let prefix = Prefix::new(route.destination, route.prefix_len).ok()?;
        // The rank distinguishes them: a subnet may be a single address, too.
        let is_subnet = route.is_ours() && route.metric == SUBNET_METRIC;
        Some(Self { prefix, interface: link.name.clone(), is_member: route.is_ours() && !is_subnet, is_subnet })
    }
}

/// Returns true if a route of this length does not make its tunnel an uplink.
fn is_long(prefix: Prefix) -> bool {
    prefix.length() >= if prefix.address().is_ipv4() { SHORTEST.0 } else { SHORTEST.1 }
}

/// Returns true for addresses that are not routed on the Internet: private ones (RFC 1918), shared ones of carriers (RFC 6598), and unique local ones (RFC 4193).
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_private() || is_shared(v4),
        IpAddr::V6(v6) => v6.is_unique_local(),
    }
}

/// Returns true if all addresses of a network are private ones (RFC 1918), link-local ones (RFC 3927), or unique local ones (RFC 4193). Shared ones (RFC 6598) are the overlay's, and a carrier's.
fn is_local(network: Prefix) -> bool {
    const LOCAL: [&str; 5] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "fc00::/7"];
    let holds = |wider: Prefix| wider.length() <= network.length() && wider.contains(network.address());
    LOCAL.iter().filter_map(|text| text.parse().ok()).any(holds)
}

/// Returns true for shared addresses between a carrier's NAT and its customers (RFC 6598): 100.64.0.0/10.
pub(super) fn is_shared(v4: Ipv4Addr) -> bool {
    let [first, second, ..] = v4.octets();
    first == 100 && second & 0xc0 == 0x40
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns an address on an interface of this kind. `address` is in the notation of `ip`.
    pub(in super::super) fn own(interface: &str, kind: Kind, address: &str) -> Own {
        let (ip, length) = address.split_once('/').unwrap();
        let ip: IpAddr = ip.parse().unwrap();
        let network = Prefix::new(ip, length.parse().unwrap()).unwrap();
        Own { ip, network, interface: String::from(interface), kind, is_inner: false, usable: true }
    }

    fn into(prefix: &str) -> TunnelRoute {
        TunnelRoute {
            prefix: prefix.parse().unwrap(),
            interface: String::from("wg0"),
            is_member: false,
            is_subnet: false,
        }
    }

    fn link(kind: Option<&str>) -> InterfaceLink {
        let kind = kind.map(String::from);
        let name = String::from("x");
        InterfaceLink {
            index: 7,
            name,
            mtu: 1_500,
            tx_queue_len: 1_000,
            up: true,
            running: true,
            loopback: false,
            kind,
            master: None,
        }
    }

    #[test]
    fn fault_d17_addresses_of_overlays_are_not_offered_and_those_of_providers_are() {
        for (kind, address, offered) in [
            (None, "192.168.1.7", true),
            (Some("veth"), "10.0.0.7", true),
            (Some("bridge"), "10.0.1.7", true),
            (Some("ppp"), "100.70.0.7", true),
            (Some("wwan"), "10.200.0.7", true),
            (Some("tun"), "100.64.0.7", false),
            (Some("tun"), "203.0.113.7", false),
            (Some("wireguard"), "10.9.0.7", false),
            (Some("xfrm"), "10.9.1.7", false),
            (Some("sit"), "2001:470::7", true),
            (Some("sit"), "fd00::7", false),
            (Some("gre"), "203.0.113.8", true),
            (Some("vxlan"), "10.244.0.7", false),
        ] {
            let ip: IpAddr = address.parse().unwrap();
            let read = Address {
                index: 7,
                ip,
                prefix_len: Prefix::host(ip).length(),
                scope: Scope::Global,
                deprecated: false,
                tentative: false,
                duplicate: false,
                temporary: false,
            };
            let own = vec![Own::new(&read, &link(kind)).unwrap()];
            let endpoints = Surroundings { own, ..Surroundings::default() }.endpoints(1, &[]);
            assert_eq!(!endpoints.is_empty(), offered, "{kind:?} {address}");
            // The kernel keeps the address of an interface that was switched off, and nothing arrives there.
            let own = vec![Own::new(&read, &InterfaceLink { up: false, ..link(kind) }).unwrap()];
            assert!(Surroundings { own, ..Surroundings::default() }.endpoints(1, &[]).is_empty());
        }
    }

    #[test]
    fn fault_d17_private_prefixes_behind_tunnels_are_overlays_and_uplinks_are_not() {
        let own = vec![
            own("eth0", Kind::Network, "192.168.1.7/24"),
            own("wg0", Kind::Overlay, "10.9.0.7/24"),
            own("wg0", Kind::Overlay, "203.0.113.7/32"),
            own("taut1", Kind::Overlay, "100.64.0.7/32"),
        ];
        let routes = "0.0.0.0/0 0.0.0.0/1 64.0.0.0/2 10.20.0.0/16 10.20.3.0/24 192.168.0.0/16 192.168.1.0/24 192.168.7.0/24 \
            198.51.100.0/24 100.64.0.9/32 fd00:5::/48 2001:db8::/32 ::/0";
        let routes = routes.split_whitespace().map(into).collect();
        let surroundings = Surroundings { own, routes, ..Surroundings::default() };
        let found: Vec<String> = surroundings.overlays().iter().map(ToString::to_string).collect();
        let expected =
            ["10.20.0.0/16", "10.9.0.0/24", "192.168.7.0/24", "100.64.0.7/32", "100.64.0.9/32", "fd00:5::/48"];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        assert!(expected.iter().all(|prefix| found.contains(&String::from(*prefix))), "{found:?}");
    }

    #[test]
    fn fault_j6_networks_of_other_overlays_are_taken_and_subnets_of_another_taut_network_are_not() {
        let own = vec![own("eth0", Kind::Network, "192.168.1.7/24"), own("wg0", Kind::Overlay, "10.9.0.7/24")];
        let (vpn, uplink, subnet) = (into("10.20.0.0/16"), into("0.0.0.0/1"), into("10.30.0.0/16"));
        let routes = vec![vpn, uplink, TunnelRoute { is_subnet: true, ..subnet }];
        let taken = Surroundings { own, routes, ..Surroundings::default() }.taken();
        assert_eq!(taken, ["192.168.1.0/24", "10.9.0.0/24", "10.20.0.0/16"].map(|text| text.parse().unwrap()));
    }

    #[test]
    fn fault_j3_a_network_of_public_or_shared_addresses_is_never_local() {
        let mut docker = own("docker0", Kind::Network, "172.17.0.1/16");
        docker.is_inner = true;
        let mut bridged = own("br0", Kind::Network, "192.168.7.2/24");
        bridged.is_inner = true;
        let own = vec![
            own("eth0", Kind::Network, "192.168.1.7/24"),
            own("eth0", Kind::Network, "fd00:7::7/64"),
            own("eth1", Kind::Network, "203.0.113.7/24"),
            own("eth1", Kind::Network, "100.70.0.7/16"),
            own("eth1", Kind::Network, "10.0.0.7/7"),
            own("eth1", Kind::Network, "2001:db8::7/64"),
            own("wg0", Kind::Overlay, "10.9.0.7/24"),
            docker,
            bridged,
        ];
        let routers = vec![("192.168.7.1".parse().unwrap(), String::from("br0"))];
        let nearby = Surroundings { own, routers, ..Surroundings::default() }.nearby();
        let shown: Vec<String> = nearby.local.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["192.168.1.0/24", "192.168.7.0/24", "fd00:7::/64"]);
        assert_eq!(nearby.inside, [(String::from("docker0"), "172.17.0.0/16".parse().unwrap())]);
        assert_eq!(nearby.uplinks, ["br0", "eth0", "eth1"]);
        assert_eq!(nearby.tunnels, ["wg0"]);
    }

    #[test]
    fn fault_j13_a_subnets_route_of_another_network_is_no_member() {
        let route = Route::new("100.64.0.2".parse().unwrap(), 32, 7);
        let kind = |metric| {
            let route = TunnelRoute::new(&Route { metric, ..route.clone() }, &link(Some("tun"))).unwrap();
            (route.is_member, route.is_subnet)
        };
        assert_eq!((kind(0), kind(SUBNET_METRIC)), ((true, false), (false, true)));
    }

    #[test]
    fn the_prefixes_of_overlays_have_a_bound() {
        let routes = (0..2_000_u32).map(|number| TunnelRoute {
            prefix: Prefix::host(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number))),
            interface: String::from("wg0"),
            is_member: true,
            is_subnet: false,
        });
        let surroundings = Surroundings { routes: routes.collect(), ..Surroundings::default() };
        assert_eq!(surroundings.overlays().len(), MAX_PREFIXES);
    }

    #[test]
    fn a_tunnel_counts_for_the_families_that_the_host_has() {
        let only = |kind, address| Surroundings { own: vec![own("x", kind, address)], ..Surroundings::default() };
        let families = only(Kind::Overlay, "10.9.0.7/24").families();
        assert!(families.v4 && !families.v6);
        assert_eq!(only(Kind::Network, "fe80::1/64").families(), Families::default());
    }

    #[test]
    fn fault_d12_a_carriers_address_within_the_overlays_prefix_is_an_uplink() {
        let own = vec![own("ppp0", Kind::Network, "100.70.1.2/32"), own("ppp0", Kind::Network, "2001:db8::7/64")];
        let surroundings = Surroundings { own, ..Surroundings::default() };
        assert_eq!(surroundings.families(), Families { v4: true, v6: true });
        // Peers are not told of the carrier's address, which they could not distinguish from a member's.
        let overlay = ["100.64.0.0/10".parse().unwrap()];
        assert_eq!(surroundings.endpoints(1, &overlay).len(), 1);
    }
}

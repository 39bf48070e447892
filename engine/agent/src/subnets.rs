//! Subnet routes of this node: what it advertises, what of it is approved, and what it accepts from peers (docs/internals/routes.md). Pure.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use taut_base::{Prefix, SortedSet};
use taut_netmap::{NetworkMap, exit_routes, has_exit, usable_routes};

use crate::api::Failure;
use crate::exit::ExitChoice;

/// Maximum number of peers' routes that a host uses, 10,000: its kernel and each lane look up each of them.
const MAX_ACCEPTED: usize = 10_000;

/// A prefix behind this node that it offers to its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvertisedRoute {
    /// The prefix of the hosts behind this node.
    pub real: Prefix,
    /// The prefix under which peers know them. It has the same length; another one than `real` is mapped one to one.
    pub published: Prefix,
}

impl AdvertisedRoute {
    /// Returns true if peers know the hosts under other addresses than their own.
    pub fn is_mapped(&self) -> bool {
        self.real != self.published
    }
}

/// A text that is no advertised route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadAdvertisedRoute;

impl fmt::Display for BadAdvertisedRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "write a prefix such as 192.168.10.0/24, or two of the same length such as `10.1.0.0/24 as 10.201.0.0/24`",
        )
    }
}

impl FromStr for AdvertisedRoute {
    type Err = BadAdvertisedRoute;

    fn from_str(text: &str) -> Result<Self, BadAdvertisedRoute> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let prefix = |text: &str| text.parse::<Prefix>().map_err(|_| BadAdvertisedRoute);
        let (real, published) = match words[..] {
            [real] => (prefix(real)?, prefix(real)?),
            [real, "as", published] => (prefix(real)?, prefix(published)?),
            _ => return Err(BadAdvertisedRoute),
        };
        let is_alike = real.length() == published.length() && real.address().is_ipv4() == published.address().is_ipv4();
        // A default route is no subnet.
        if is_alike && real.length() > 0 { Ok(Self { real, published }) } else { Err(BadAdvertisedRoute) }
    }
}

impl fmt::Display for AdvertisedRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_mapped() {
            false => write!(f, "{}", self.real),
            true => write!(f, "{} as {}", self.real, self.published),
        }
    }
}

/// The user's choices about subnet routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteOptions {
    /// Prefixes behind this node that it offers.
    pub advertise: Vec<AdvertisedRoute>,
    /// Whether this host uses the approved routes of its peers.
    pub accept: bool,
    /// Whether packets to the hosts behind this node get its address as their source.
    pub snat: bool,
    /// Whether this node offers to be the way to the internet.
    pub advertise_exit_node: bool,
    /// The exit node that this host uses.
    pub exit_node: ExitChoice,
    /// Whether the local networks stay reachable while it does.
    pub local_networks: bool,
    /// Whether nothing leaves this host in the clear while it does, also without the daemon.
    pub kill_switch: bool,
}

impl Default for RouteOptions {
    fn default() -> Self {
        Self {
            advertise: Vec::new(),
            accept: false,
            snat: true,
            advertise_exit_node: false,
            exit_node: ExitChoice::None,
            local_networks: false,
            kill_switch: false,
        }
    }
}

impl RouteOptions {
    /// Returns the advertised prefixes, as peers see them.
    pub(crate) fn published(&self) -> Vec<Prefix> {
        self.advertise.iter().map(|route| route.published).collect()
    }

    /// Returns everything that this node proposes to the coordinator: as an exit node, the default routes first.
    pub(crate) fn proposed(&self) -> Vec<Prefix> {
        let exit = if self.advertise_exit_node { exit_routes().to_vec() } else { Vec::new() };
        [exit, self.published()].concat()
    }

    /// Returns true if this node is an exit node: its user and the operator want it. One that uses another exit node itself is none, because its clients' packets would go there.
    pub(crate) fn is_exit(&self, map: &NetworkMap) -> bool {
        self.advertise_exit_node && !self.exit_node.is_on() && has_exit(&map.me.routes)
    }

    /// Returns the advertised routes that are approved. What the coordinator approves without having been asked is ignored: the user decides what this host forwards.
    pub(crate) fn in_force(&self, map: &NetworkMap) -> Vec<AdvertisedRoute> {
        let approved: SortedSet<Prefix> = usable_routes(&map.me.routes, &map.network).collect();
        self.advertise.iter().copied().filter(|route| approved.contains(&route.published)).collect()
    }

    /// Returns the peers' routes that this host uses. `local` are the networks of its own interfaces, `vital` the addresses that the overlay itself needs.
    pub(crate) fn accepted(&self, map: &NetworkMap, local: &[Prefix], vital: &[Vital]) -> AcceptedRoutes {
        let mut routes = AcceptedRoutes::default();
        let all: SortedSet<Prefix> = map.peers.values().flat_map(|peer| peer.usable_routes(&map.network)).collect();
        for route in all.into_iter().filter(|_| self.accept) {
            // Another router of a subnet that this node is a router of: it is reached from here.
            let is_own = self.advertise.iter().any(|own| own.published == route || own.real == route);
            let inside = |near: &&Prefix| near.length() <= route.length() && near.contains(route.address());
            match (local.iter().find(inside), vital.iter().find(|vital| vital.is_cut_by(route, local))) {
                _ if is_own => {}
                (Some(near), _) => routes.hidden.push((route, *near)),
                (None, Some(vital)) => routes.cut.push((route, *vital)),
                (None, None) if routes.used.len() < MAX_ACCEPTED => routes.used.push(route),
                (None, None) => routes.left_out += 1,
            }
        }
        routes
    }
}

/// Routes of peers, on a host that accepts them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AcceptedRoutes {
    /// Those in use.
    pub(crate) used: Vec<Prefix>,
    /// Those that are not used, because this network of the host contains them (fault J6).
    pub(crate) hidden: Vec<(Prefix, Prefix)>,
    /// Those that are not used, because they contain this address.
    pub(crate) cut: Vec<(Prefix, Vital)>,
    /// Number of those beyond [`MAX_ACCEPTED`].
    pub(crate) left_out: usize,
}

impl AcceptedRoutes {
    /// Returns warnings for the user.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = Failure> {
        let cut = self.cut.first().map(|(route, vital)| {
            let more = match self.cut.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more for such a reason)"),
            };
            let text =
                format!("the subnet route {route} is not used: it contains {}, {}{more}", vital.address, vital.what);
            Failure::new(
                text,
                "packets to that address would go into the overlay, which needs it; advertise prefixes without it",
            )
        });
        let left_out = (self.left_out > 0).then(|| {
            let text = format!("{} subnet routes of peers are not used: this host takes {MAX_ACCEPTED}", self.left_out);
            Failure::new(text, "advertise fewer and shorter prefixes")
        });
        cut.into_iter().chain(left_out)
    }
}

/// An address that the overlay itself needs: with a route of a peer to it, it would need itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vital {
    pub(crate) address: IpAddr,
    /// Whose it is, for users.
    what: &'static str,
}

impl Vital {
    /// Returns all of them: those of the coordinator and the host's gateways, and the endpoints of the map's relays.
    pub(crate) fn all(coordinator: &[IpAddr], gateways: impl Iterator<Item = IpAddr>, map: &NetworkMap) -> Vec<Self> {
        let of = |what| move |address: IpAddr| Self { address: address.to_canonical(), what };
        let relays = map.relays.iter().flat_map(|relay| &relay.endpoints).map(|endpoint| endpoint.ip());
        let coordinator = coordinator.iter().copied().map(of("an address of the coordinator"));
        coordinator
            .chain(relays.map(of("an address of a relay")))
            .chain(gateways.map(of("this host's gateway")))
            .collect()
    }

    /// Returns true if packets to it would take this route. A network of the host in which it is wins, if it is smaller.
    fn is_cut_by(&self, route: Prefix, local: &[Prefix]) -> bool {
        let is_near = |near: &Prefix| near.length() > route.length() && near.contains(self.address);
        route.contains(self.address) && !local.iter().any(is_near)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{network, peer};

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn a_route_is_a_prefix_or_two_of_the_same_length() {
        let route = |text: &str| text.parse::<AdvertisedRoute>();
        let plain = route("192.168.10.7/24").unwrap();
        assert_eq!((plain.to_string().as_str(), plain.is_mapped()), ("192.168.10.0/24", false));
        let mapped = route(" 10.1.0.0/24  as 10.201.0.0/24").unwrap();
        assert_eq!((mapped.real, mapped.published), (prefix("10.1.0.0/24"), prefix("10.201.0.0/24")));
        assert_eq!(mapped.to_string().parse(), Ok(mapped));
        for bad in [
            "",
            "lan",
            "10.0.0.0",
            "0.0.0.0/0",
            "10.1.0.0/24 as 10.2.0.0/16",
            "10.1.0.0/24 as fd00::/24",
            "10.1.0.0/24 10.2.0.0/24",
        ] {
            assert_eq!(route(bad), Err(BadAdvertisedRoute), "{bad}");
        }
    }

    /// Returns the map of a node whose peers have these routes.
    fn map(routes: impl Iterator<Item = Vec<Prefix>>) -> NetworkMap {
        let router = |(id, routes): (u64, Vec<Prefix>)| peer(id, &format!("r{id}"), id as u8, routes);
        network(1, (2..).zip(routes).map(router))
    }

    fn accepted(routes: &[&str], local: &[&str], coordinator: &str) -> AcceptedRoutes {
        let map = map(std::iter::once(routes.iter().map(|text| prefix(text)).collect()));
        let local: Vec<Prefix> = local.iter().map(|text| prefix(text)).collect();
        let gateway = "192.168.1.1".parse().unwrap();
        let vital = Vital::all(&[coordinator.parse().unwrap()], std::iter::once(gateway), &map);
        RouteOptions { accept: true, ..RouteOptions::default() }.accepted(&map, &local, &vital)
    }

    #[test]
    fn fault_i8_a_route_to_the_coordinator_or_the_gateway_is_not_used() {
        let found = accepted(&["203.0.113.0/24", "192.168.0.0/16", "10.0.0.0/8"], &[], "::ffff:203.0.113.5");
        assert_eq!(found.used, [prefix("10.0.0.0/8")]);
        let cut: Vec<String> = found.cut.iter().map(|(route, vital)| format!("{route} {}", vital.address)).collect();
        assert_eq!(cut, ["192.168.0.0/16 192.168.1.1", "203.0.113.0/24 203.0.113.5"]);
        let warning = found.warnings().next().unwrap().message;
        assert!(
            warning.contains("192.168.0.0/16") && warning.contains("192.168.1.1, this host's gateway"),
            "{warning}"
        );
    }

    #[test]
    fn what_is_in_a_smaller_network_of_the_host_is_reached_all_the_same() {
        let found = accepted(&["192.168.0.0/16"], &["192.168.1.0/24"], "192.168.1.5");
        assert_eq!((found.used.len(), found.cut.len()), (1, 0));
    }

    #[test]
    fn a_host_takes_a_bounded_number_of_routes() {
        let route = |number: u32| Prefix::host(IpAddr::V4((0x0a00_0000 + number).into()));
        let routers = (0..200_u32).map(|router| (0..64).map(|number| route(router * 64 + number)).collect());
        let accepts = RouteOptions { accept: true, ..RouteOptions::default() };
        let found = accepts.accepted(&map(routers), &[], &[]);
        assert_eq!((found.used.len(), found.left_out), (MAX_ACCEPTED, 2_800));
        assert!(found.warnings().next().unwrap().message.starts_with("2800 subnet routes"));
    }
}

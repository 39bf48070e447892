//! Subnet routes: prefixes behind a node, which its peers reach through it; and default routes, which make a node an exit node.

use std::fmt;

use taut_base::Prefix;

use crate::map::{NetworkInfo, Peer};

/// Limit on the routes of one node, 64, default routes included. A node ignores further ones.
pub const MAX_ROUTES: usize = 64;

/// Length of the shortest subnet routes of IPv4 and IPv6, in bits: 10.0.0.0/8 is the widest private network, and no organisation has more of the internet than a /16 of IPv6. Shorter ones would
/// make a router an exit node that the user did not choose (fault E17).
const SHORTEST: (u8, u8) = (8, 16);

/// The reason why a prefix cannot be a subnet route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRoute {
    /// It contains every address.
    Everything,
    /// It is shorter than `SHORTEST`: a few of these are a default route in parts.
    TooWide,
    /// It contains addresses of the overlay.
    Overlay(Prefix),
    /// Its addresses are not those of hosts behind a router: loopback, link-local, multicast, unspecified.
    Special,
}

impl fmt::Display for BadRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => f.write_str("a default route is no subnet route"),
            Self::TooWide => f.write_str(
                "a subnet route is at least a /8 (IPv4) or a /16 (IPv6), because shorter ones are a default route in parts; the way to the internet is an exit node (`taut set --advertise-exit-node`, `taut up --exit-node`)",
            ),
            Self::Overlay(overlay) => write!(f, "it overlaps the network's own prefix {overlay}"),
            Self::Special => f.write_str("loopback, link-local and multicast addresses are never routed"),
        }
    }
}

/// Checks that a prefix may be a subnet route of a network with these prefixes.
///
/// # Errors
/// The reason why it may not.
pub fn check_route(route: Prefix, overlay: &[Prefix]) -> Result<(), BadRoute> {
    const SPECIAL: [&str; 7] =
        ["0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3", "::/8", "fe80::/10", "ff00::/8"];
    if route.length() == 0 {
        return Err(BadRoute::Everything);
    }
    let shortest = if route.address().is_ipv4() { SHORTEST.0 } else { SHORTEST.1 };
    if route.length() < shortest {
        return Err(BadRoute::TooWide);
    }
    if SPECIAL.iter().any(|special| special.parse::<Prefix>().is_ok_and(|special| special.overlaps(route))) {
        return Err(BadRoute::Special);
    }
    match overlay.iter().find(|overlay| overlay.overlaps(route)) {
        Some(overlay) => Err(BadRoute::Overlay(*overlay)),
        None => Ok(()),
    }
}

/// Returns the default routes, `0.0.0.0/0` and `::/0`: a node that has them is an exit node, the way to the public internet (`taut_base::is_internet`). An exit node has both: one
/// that reaches the internet by one family alone refuses packets of the other one, so that nothing leaves by another way.
pub fn exit_routes() -> [Prefix; 2] {
    [Prefix::everything(false), Prefix::everything(true)]
}

/// Returns true for a default route.
pub fn is_exit_route(route: Prefix) -> bool {
    route.length() == 0
}

/// Returns true if these are routes of an exit node.
pub fn has_exit(routes: &[Prefix]) -> bool {
    routes.iter().copied().any(is_exit_route)
}

/// Returns the routes to subnets that a node may use. Others are ignored, and the rest of the map stays usable: a newer coordinator may list routes of other kinds.
pub fn usable_routes(routes: &[Prefix], network: &NetworkInfo) -> impl Iterator<Item = Prefix> {
    let overlay = [network.ipv4, network.ipv6];
    routes
        .iter()
        .copied()
        .filter(|route| !is_exit_route(*route))
        .take(MAX_ROUTES)
        .filter(move |route| check_route(*route, &overlay).is_ok())
}

impl Peer {
    /// Returns the peer's routes that a node may use.
    pub fn usable_routes(&self, network: &NetworkInfo) -> impl Iterator<Item = Prefix> {
        usable_routes(&self.routes, network)
    }

    /// Returns true if the peer is an exit node that the policy lets this node use. Nothing follows from it alone: a node uses an exit node that its user chose (fault E17).
    pub fn is_exit(&self) -> bool {
        !self.native && has_exit(&self.routes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_a_part_of_the_world_outside_the_overlay() {
        let overlay = ["100.64.0.0/10", "fd01::/48"].map(|text| text.parse().unwrap());
        let check = |text: &str| check_route(text.parse().unwrap(), &overlay);
        for good in ["192.168.10.0/24", "10.0.0.0/8", "172.16.0.1/32", "fd02::/48", "2001:db8::/32", "8.8.8.0/24"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        assert_eq!([check("0.0.0.0/0"), check("::/0")], [Err(BadRoute::Everything); 2]);
        for wide in ["0.0.0.0/1", "128.0.0.0/1", "2.0.0.0/7", "64.0.0.0/2", "2000::/3", "fc00::/7", "2000::/15"] {
            assert_eq!(check(wide), Err(BadRoute::TooWide), "{wide}");
        }
        for special in ["127.0.0.1/32", "0.0.0.0/8", "224.0.0.0/8", "255.255.255.255/32", "fe80::/64", "::1/128"] {
            assert_eq!(check(special), Err(BadRoute::Special), "{special}");
        }
        assert_eq!(check("100.64.3.0/24"), Err(BadRoute::Overlay(overlay[0])));
        assert_eq!(check("100.0.0.0/8"), Err(BadRoute::Overlay(overlay[0])));
        assert_eq!(check("fd01:0:0:1::/64"), Err(BadRoute::Overlay(overlay[1])));
    }

    /// Nodes of release 0.1 use the routes that `check_route` accepts, and ignore all others.
    #[test]
    fn default_routes_are_no_subnets_and_take_none_of_their_places() {
        let network = NetworkInfo {
            name: String::from("a"),
            ipv4: "100.64.0.0/10".parse().unwrap(),
            ipv6: "fd01::/48".parse().unwrap(),
            naming: crate::Naming::default(),
        };
        let subnets: Vec<Prefix> =
            (0..MAX_ROUTES).map(|number| format!("10.{number}.0.0/16").parse().unwrap()).collect();
        assert!(!has_exit(&subnets));
        let routes = [exit_routes().to_vec(), subnets.clone()].concat();
        assert!(has_exit(&routes) && has_exit(&routes[..1]));
        assert_eq!(usable_routes(&routes, &network).collect::<Vec<_>>(), subnets);
        assert!(routes.iter().filter(|route| is_exit_route(**route)).all(|route| check_route(*route, &[]).is_err()));
    }
}

//! Subnet routes of this node: what it advertises, what of it is approved, and what it accepts from peers (docs/internals/routes.md). Pure.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use taut_base::Prefix;
use taut_netmap::{NetworkMap, usable_routes};

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
}

impl Default for RouteOptions {
    fn default() -> Self {
        Self { advertise: Vec::new(), accept: false, snat: true }
    }
}

impl RouteOptions {
    /// Returns the advertised prefixes, as peers see them.
    pub(crate) fn published(&self) -> Vec<Prefix> {
        self.advertise.iter().map(|route| route.published).collect()
    }

    /// Returns the advertised routes that are approved. What the coordinator approves without having been asked is ignored: the user decides what this host forwards.
    pub(crate) fn in_force(&self, map: &NetworkMap) -> Vec<AdvertisedRoute> {
        let approved: BTreeSet<Prefix> = usable_routes(&map.me.routes, &map.network).collect();
        self.advertise.iter().copied().filter(|route| approved.contains(&route.published)).collect()
    }

    /// Returns the peers' routes that this host uses. `local` are the networks of its own interfaces.
    pub(crate) fn accepted(&self, map: &NetworkMap, local: &[Prefix]) -> AcceptedRoutes {
        let mut routes = AcceptedRoutes::default();
        let all: BTreeSet<Prefix> = map.peers.values().flat_map(|peer| peer.usable_routes(&map.network)).collect();
        for route in all.into_iter().filter(|_| self.accept) {
            // Another router of a subnet that this node is a router of: it is reached from here.
            let is_own = self.advertise.iter().any(|own| own.published == route || own.real == route);
            let inside = |near: &&Prefix| near.length() <= route.length() && near.contains(route.address());
            match local.iter().find(inside) {
                _ if is_own => {}
                Some(near) => routes.hidden.push((route, *near)),
                None => routes.used.push(route),
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
}

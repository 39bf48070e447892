//! The rules of nftables for forwarded packets. Pure.
//!
//! The lanes have decided before that a peer may send to a destination (policy, approved routes). These rules decide what goes the other way, and change addresses.
//! TCP's segment sizes are lowered by the lanes, in both directions.

use taut_netlink::{NftChain, NftHook, NftRule};

use crate::subnets::AdvertisedRoute;

/// What the rules depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Index of the TUN device.
    pub(super) index: u32,
    /// Whether packets to the hosts behind this node get its address as their source.
    pub(super) snat: bool,
    pub(super) routes: Vec<AdvertisedRoute>,
    /// Interfaces for which forwarding is on because of the overlay alone.
    pub(super) guarded: Vec<u32>,
}

impl Plan {
    /// Returns the chains.
    pub(super) fn chains(&self) -> Vec<NftChain> {
        vec![
            NftChain { name: "forward", hook: NftHook::Forward, rules: self.forward() },
            NftChain { name: "prerouting", hook: NftHook::Prerouting, rules: self.prerouting() },
            NftChain { name: "postrouting", hook: NftHook::Postrouting, rules: self.postrouting() },
        ]
    }

    /// Returns the rules for packets into the overlay: answers, and with `--snat=off` what hosts behind this node begin (fault G9). An interface that forwards because of
    /// the overlay alone does not become a way to other networks.
    fn forward(&self) -> Vec<NftRule> {
        let answers = NftRule::new().to_interface(self.index).of_known_connection().accept();
        let begun = self.routes.iter().map(|route| {
            let rule = NftRule::new().to_interface(self.index).source(route.real);
            if self.snat { rule.drop() } else { rule.accept() }
        });
        // No packet has that source before it is mapped, unless a host took the address. It may be the real prefix of another route, which comes first.
        let mapped = self.routes.iter().filter(|route| route.is_mapped());
        let taken = mapped.map(|route| NftRule::new().to_interface(self.index).source(route.published).drop());
        // The switches are those of IPv4. With br_netfilter, a packet that a bridge passes on comes and leaves by the bridge.
        let guard = |index: &u32| NftRule::new().of_ipv4().from_interface(*index).not_to_interface(*index).drop();
        std::iter::once(answers).chain(begun).chain(taken).chain(self.guarded.iter().map(guard)).collect()
    }

    fn prerouting(&self) -> Vec<NftRule> {
        let mapped = self.routes.iter().filter(|route| route.is_mapped());
        let rule = |route: &AdvertisedRoute| {
            NftRule::new().from_interface(self.index).destination(route.published).map_destination(route.real)
        };
        mapped.map(rule).collect()
    }

    fn postrouting(&self) -> Vec<NftRule> {
        let hidden = self.routes.iter().filter(|_| self.snat).map(|route| {
            let rule = NftRule::new().from_interface(self.index).not_to_interface(self.index);
            rule.destination(route.real).masquerade()
        });
        let mapped = self
            .routes
            .iter()
            .filter(|route| route.is_mapped())
            .map(|route| NftRule::new().to_interface(self.index).source(route.real).map_source(route.published));
        hidden.chain(mapped).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(snat: bool, guarded: &[u32]) -> Plan {
        let routes = vec!["10.1.0.0/24 as 10.201.0.0/24".parse().unwrap()];
        Plan { index: 7, snat, routes, guarded: guarded.to_vec() }
    }

    fn from(prefix: &str) -> NftRule {
        NftRule::new().to_interface(7).source(prefix.parse().unwrap())
    }

    #[test]
    fn fault_g9_no_host_takes_an_address_of_the_published_prefix() {
        let (real, published) = ("10.1.0.0/24", "10.201.0.0/24");
        assert_eq!(plan(true, &[]).forward()[1..], [from(real).drop(), from(published).drop()]);
        assert_eq!(plan(false, &[]).forward()[1..], [from(real).accept(), from(published).drop()]);
    }

    #[test]
    fn two_networks_that_are_published_under_each_others_addresses_both_send() {
        let routes = ["10.1.0.0/24 as 10.2.0.0/24", "10.2.0.0/24 as 10.1.0.0/24"].map(|text| text.parse().unwrap());
        let rules = Plan { routes: routes.to_vec(), ..plan(false, &[]) }.forward();
        assert_eq!(rules[1..3], [from("10.1.0.0/24").accept(), from("10.2.0.0/24").accept()]);
    }

    #[test]
    fn a_guard_is_for_ipv4_between_two_interfaces_alone() {
        let guard = NftRule::new().of_ipv4().from_interface(3).not_to_interface(3).drop();
        assert_eq!(plan(true, &[3]).forward().last(), Some(&guard));
    }
}

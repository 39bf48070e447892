//! The rules of nftables for forwarded packets. Pure.
//!
//! The lanes have decided before that a peer may send to a destination (policy, approved routes). These rules decide what goes the other way, and change addresses.
//! TCP's segment sizes are lowered by the lanes, in both directions.

use taut_base::Prefix;
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
    /// What an exit node needs; `None` if this node is none.
    pub(super) exit: Option<ExitPlan>,
}

/// What the rules of an exit node depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExitPlan {
    /// The prefixes of the overlay: the only sources that are sent to the internet, where nobody else has them.
    pub(super) overlay: [Prefix; 2],
    /// First and last port of the connections to the internet.
    pub(super) ports: (u16, u16),
    /// Whether IPv6 packets to the internet are answered by an error, because this host does not forward them.
    pub(super) refuses_ipv6: bool,
    /// The networks of this host's interfaces, which are not the internet although their addresses may be public.
    pub(super) own: Vec<Prefix>,
}

/// Addresses that look public and belong to services inside a cloud's network: Azure's platform server, and the special block of RFC 6890, in which another cloud has its instance data.
const CLOUD_SERVICES: [&str; 2] = ["168.63.129.16/32", "192.0.0.0/24"];

/// Prefixes that are not the internet, and from which hosts behind this node (containers, a site without masquerading) may send into the overlay as before.
const INSIDE: [&str; 7] =
    ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "fc00::/7", "fe80::/10"];

/// The public addresses of IPv6 (`taut_base::is_internet`).
const INTERNET_V6: &str = "2000::/3";

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
        std::iter::once(answers)
            .chain(begun)
            .chain(taken)
            .chain(self.guarded.iter().map(guard))
            .chain(self.around_exit())
            .chain(self.against_internet())
            .collect()
    }

    /// Returns the rules of an exit node against packets of its users to the networks that this host is in, except for approved subnets. The host's own addresses are not forwarded to.
    fn around_exit(&self) -> Vec<NftRule> {
        let Some(exit) = &self.exit else { return Vec::new() };
        let to = |prefix| NftRule::new().from_interface(self.index).not_to_interface(self.index).destination(prefix);
        let places = CLOUD_SERVICES.iter().filter_map(|prefix| prefix.parse().ok());
        let subnets = self.routes.iter().map(|route| to(route.real).accept());
        subnets.chain(exit.own.iter().copied().chain(places).map(|prefix| to(prefix).drop())).collect()
    }

    /// Returns the rules of an exit node for what the internet begins: its clients accept public sources from it, so nothing but answers may have them (fault G9).
    fn against_internet(&self) -> Vec<NftRule> {
        if self.exit.is_none() {
            return Vec::new();
        }
        let inside = INSIDE.iter().filter_map(|prefix| prefix.parse().ok());
        let passes = inside.map(|prefix| NftRule::new().to_interface(self.index).source(prefix).accept());
        passes.chain([NftRule::new().to_interface(self.index).drop()]).collect()
    }

    fn prerouting(&self) -> Vec<NftRule> {
        let mapped = self.routes.iter().filter(|route| route.is_mapped());
        let rule = |route: &AdvertisedRoute| {
            NftRule::new().from_interface(self.index).destination(route.published).map_destination(route.real)
        };
        mapped.map(rule).chain(self.without_ipv6()).collect()
    }

    /// Returns the rule of an exit node that forwards no IPv6: without an answer, programs would wait before they try IPv4. The kernel drops such packets before they reach the chain for forwarded
    /// ones.
    fn without_ipv6(&self) -> Option<NftRule> {
        let internet = INTERNET_V6.parse().ok()?;
        let exit = self.exit.as_ref().filter(|exit| exit.refuses_ipv6)?;
        let [_, overlay] = exit.overlay;
        Some(NftRule::new().from_interface(self.index).source(overlay).destination(internet).answer_no_route())
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
        hidden.chain(mapped).chain(self.to_internet()).collect()
    }

    /// Returns the rules of an exit node for what goes to the internet: it gets this host's address, and a port that no server of this host has (fault G12). Networks behind this node see
    /// the overlay's addresses with `--snat=off`, as without an exit node.
    fn to_internet(&self) -> Vec<NftRule> {
        let Some(exit) = &self.exit else { return Vec::new() };
        let out = || NftRule::new().from_interface(self.index).not_to_interface(self.index);
        let plain = self.routes.iter().filter(|_| !self.snat).map(|route| out().destination(route.real).accept());
        plain.chain(exit.overlay.iter().map(|overlay| out().source(*overlay).masquerade_to(exit.ports))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(snat: bool, guarded: &[u32]) -> Plan {
        let routes = vec!["10.1.0.0/24 as 10.201.0.0/24".parse().unwrap()];
        Plan { index: 7, snat, routes, guarded: guarded.to_vec(), exit: None }
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
    fn fault_g12_an_exit_node_gives_connections_ports_of_their_own_and_lets_answers_in() {
        let overlay = ["100.64.0.0/10", "fd00::/48"].map(|text| text.parse().unwrap());
        let own = ["198.51.100.0/24", "2001:db8:51::/64"].map(|text| text.parse().unwrap());
        let exit_plan = ExitPlan { overlay, ports: (61_000, 65_535), refuses_ipv6: true, own: own.to_vec() };
        let exit = Plan { exit: Some(exit_plan), ..plan(false, &[]) };
        let out = || NftRule::new().from_interface(7).not_to_interface(7);
        let last = exit.postrouting();
        assert_eq!(last[1], out().destination("10.1.0.0/24".parse().unwrap()).accept(), "a subnet is not the internet");
        assert_eq!(last[2..], overlay.map(|overlay| out().source(overlay).masquerade_to((61_000, 65_535))));
        let from = NftRule::new().from_interface(7).source(overlay[1]);
        assert_eq!(exit.prerouting()[1..], [from.destination("2000::/3".parse().unwrap()).answer_no_route()]);
        let forward = exit.forward();
        assert_eq!(forward[0], NftRule::new().to_interface(7).of_known_connection().accept());
        assert_eq!(forward.last(), Some(&NftRule::new().to_interface(7).drop()));
        let place = |rule: NftRule| forward.iter().position(|found| *found == rule).unwrap();
        let subnet = place(out().destination("10.1.0.0/24".parse().unwrap()).accept());
        let [azure, special] = ["168.63.129.16/32", "192.0.0.0/24"].map(|text| text.parse().unwrap());
        for network in [own[0], own[1], azure, special] {
            assert!(place(out().destination(network).drop()) > subnet, "{network}: an approved subnet comes first");
        }
        assert!(plan(false, &[]).forward().last() != forward.last(), "another node drops by no interface alone");
    }

    #[test]
    fn a_guard_is_for_ipv4_between_two_interfaces_alone() {
        let guard = NftRule::new().of_ipv4().from_interface(3).not_to_interface(3).drop();
        assert_eq!(plan(true, &[3]).forward().last(), Some(&guard));
    }
}

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
        let guards = self.guarded.iter().map(|index| NftRule::new().from_interface(*index).drop());
        std::iter::once(answers).chain(begun).chain(guards).collect()
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

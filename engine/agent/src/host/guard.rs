//! Rules of nftables that keep overlay addresses off the host's other networks (fault G11), on every node.
//!
//! Linux accepts a packet for any of its addresses on any interface, and answers packets whose source is a peer's address through the tunnel. A neighbour in the local network could so
//! learn whether a port of an overlay address is open, and guess its way into connections of the overlay (CVE-2019-14899). The rules drop such packets before anything answers, so that all
//! of them look the same from outside: unanswered.
//!
//! - A source in the overlay, where the host's way back to it is another one. IPv4 overlays often share their prefix with providers (100.64.0.0/10), so the host's routes decide; the IPv6
//!   prefix is random and nobody else's.
//! - A destination that is this node's own overlay address, except from containers and virtual machines on a bridge of their own, and from the networks of a router with `--snat off`.
//!
//! TUN devices and the loopback interface are left alone: they are the overlay itself, other overlays, and this host. Without nf_tables nothing is dropped here, and `guard-failed` is in the
//! log: then `net.ipv4.conf.all.rp_filter=1` protects the sources, and a firewall of the host the destinations.

use std::net::IpAddr;
use std::time::Duration;

use taut_base::{Prefix, Time};
use taut_netlink::{InterfaceLink, NftChain, NftHook, NftRule, NftTable};

/// Interval of checks whether the rules are still there, 10 s, and of another attempt after a failure.
const CHECKS: Duration = Duration::from_secs(10);

/// Types of interfaces (if_arp.h): a TUN device and WireGuard, and the loopback interface.
const NO_LINK_LAYER: u16 = 65_534;
const LOOPBACK: u16 = 772;

/// What the rules depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GuardPlan {
    /// The overlay's prefixes.
    pub(crate) overlay: Vec<Prefix>,
    /// This node's overlay addresses.
    pub(crate) own: Vec<IpAddr>,
    /// Bridges that lead to containers and virtual machines of this host alone.
    pub(crate) bridges: Vec<u32>,
    /// Networks behind this node whose hosts send into the overlay with their own addresses.
    pub(crate) behind: Vec<Prefix>,
}

impl GuardPlan {
    fn chains(&self) -> Vec<NftChain> {
        let outside = |rule: NftRule| rule.not_from_type(NO_LINK_LAYER).not_from_type(LOOPBACK);
        let to_own = || self.own.iter().map(|own| NftRule::new().destination(Prefix::host(*own)));
        let forged = self.overlay.iter().map(|overlay| {
            let rule = outside(NftRule::new().source(*overlay));
            if overlay.address().is_ipv4() { rule.way_back_is_another().drop() } else { rule.drop() }
        });
        let bridges = self.bridges.iter().flat_map(|bridge| to_own().map(|rule| rule.from_interface(*bridge).accept()));
        let is_alike = |own: &IpAddr, behind: &Prefix| own.is_ipv4() == behind.address().is_ipv4();
        let behind = self.behind.iter().flat_map(|behind| {
            let own = self.own.iter().filter(|own| is_alike(own, behind));
            own.map(|own| NftRule::new().source(*behind).destination(Prefix::host(*own)).accept())
        });
        let probes = to_own().map(|rule| outside(rule).drop());
        let rules = forged.chain(bridges).chain(behind).chain(probes).collect();
        vec![NftChain { name: "prerouting", hook: NftHook::Raw, rules }]
    }
}

/// Returns the bridges without a port that leads out of this host: all their ports are ends of virtual cables or devices of virtual machines.
pub(crate) fn inner_bridges(links: &[InterfaceLink]) -> Vec<u32> {
    let is_virtual = |link: &&InterfaceLink| matches!(link.kind.as_deref(), Some("veth" | "tun"));
    let is_inner = |bridge: &&InterfaceLink| {
        let mut ports = links.iter().filter(|link| link.master == Some(bridge.index));
        bridge.kind.as_deref() == Some("bridge") && ports.all(|port| is_virtual(&port))
    };
    links.iter().filter(is_inner).map(|bridge| bridge.index).collect()
}

/// The rules of one overlay.
pub(crate) struct Guard {
    name: String,
    wanted: GuardPlan,
    /// The rules in force.
    plan: Option<GuardPlan>,
    table: Option<NftTable>,
    due: Option<Time>,
    /// The reason why the rules could not be made.
    error: Option<String>,
    /// True until the reason was told.
    is_news: bool,
}

impl Guard {
    /// Creates the rules of the overlay with this device; none are in force yet.
    pub(crate) fn new(device: &str) -> Self {
        let (wanted, name) = (GuardPlan::default(), format!("{device}_guard"));
        Self { name, wanted, plan: None, table: None, due: None, error: None, is_news: false }
    }

    /// Sets what the rules depend on.
    pub(crate) fn set(&mut self, plan: GuardPlan, now: Time) {
        if plan != self.wanted {
            self.wanted = plan;
            self.due = Some(now);
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.due
    }

    /// Makes the rules, or makes them again, if that is due.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        self.due = Some(now + CHECKS);
        let error = self.update().err();
        self.is_news |= error.is_some() && self.error.is_none();
        self.error = error;
    }

    fn update(&mut self) -> Result<(), String> {
        let table = match &mut self.table {
            Some(table) => table,
            none => none.insert(NftTable::open(&self.name).map_err(|error| error.to_string())?),
        };
        let is_same = self.plan.as_ref() == Some(&self.wanted);
        if !is_same || !table.is_complete().unwrap_or(false) {
            self.plan = None;
            table.replace(&self.wanted.chains()).map_err(|error| error.to_string())?;
            self.plan = Some(self.wanted.clone());
        }
        Ok(())
    }

    /// Returns the reason why the rules could not be made, once.
    pub(crate) fn take_error(&mut self) -> Option<String> {
        std::mem::take(&mut self.is_news).then(|| self.error.clone()).flatten()
    }

    /// Removes the rules.
    pub(crate) fn stop(&mut self) {
        if let Some(mut table) = self.table.take() {
            // The kernel removes a protected table with its socket.
            let _ = table.remove();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_g11_a_bridge_with_a_network_card_is_no_bridge_of_containers() {
        let link = |index: u32, kind: Option<&str>, master: Option<u32>| InterfaceLink {
            index,
            name: index.to_string(),
            mtu: 1_500,
            tx_queue_len: 0,
            up: true,
            running: true,
            loopback: false,
            kind: kind.map(String::from),
            master,
        };
        let links = [
            link(1, None, Some(10)),
            link(2, Some("veth"), Some(10)),
            link(3, Some("veth"), Some(11)),
            link(4, Some("veth"), None),
            link(10, Some("bridge"), None),
            link(11, Some("bridge"), None),
            link(12, Some("bridge"), None),
        ];
        assert_eq!(inner_bridges(&links), [11, 12]);
    }

    #[test]
    fn fault_g11_exceptions_come_before_the_rule_that_drops() {
        let [v4, v6, lan] = ["100.64.0.0/10", "fd00::/48", "192.168.1.0/24"].map(|text| text.parse().unwrap());
        let own: Vec<IpAddr> = ["100.64.0.1", "fd00::1"].iter().map(|text| text.parse().unwrap()).collect();
        let plan = GuardPlan { overlay: vec![v4, v6], own: own.clone(), bridges: vec![5], behind: vec![lan] };
        let rules = plan.chains().remove(0).rules;
        let to = |own: IpAddr| NftRule::new().destination(Prefix::host(own));
        let outside = |rule: NftRule| rule.not_from_type(NO_LINK_LAYER).not_from_type(LOOPBACK);
        assert_eq!(
            rules,
            [
                outside(NftRule::new().source(v4)).way_back_is_another().drop(),
                outside(NftRule::new().source(v6)).drop(),
                to(own[0]).from_interface(5).accept(),
                to(own[1]).from_interface(5).accept(),
                NftRule::new().source(lan).destination(Prefix::host(own[0])).accept(),
                outside(to(own[0])).drop(),
                outside(to(own[1])).drop(),
            ]
        );
    }
}

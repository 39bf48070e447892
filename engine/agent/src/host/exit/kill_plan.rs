//! What the kill switch lets through, as rules of nftables. Pure (docs/internals/exit.md).

use taut_base::{MARK_MASK, Prefix, SOCKET_MARK};
use taut_netlink::{NftChain, NftHook, NftRule};

use super::passes::{from_overlay, into_host, into_overlay, to_prefixes, upkeep};
use super::plan::{ExitRouting, MOST_RULES, Nearby};

/// What the kill switch lets through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KillSwitchPlan {
    /// Name of the TUN device.
    pub(crate) device: String,
    /// Local networks that stay reachable.
    pub(crate) local: Vec<Prefix>,
    /// Networks inside the host, with the names of their bridges.
    pub(crate) inside: Vec<(String, Prefix)>,
}

/// Name of the set of address families for which the kill switch is paused.
pub(super) const PAUSED: &str = "paused";

impl KillSwitchPlan {
    /// Returns the plan of a network with these choices.
    pub(crate) fn new(device: &str, routing: ExitRouting, nearby: &Nearby) -> Self {
        let local = nearby.local.iter().copied().filter(|_| routing.local_networks).take(MOST_RULES).collect();
        let inside = nearby.inside.iter().take(MOST_RULES).cloned().collect();
        Self { device: String::from(device), local, inside }
    }

    /// Returns the chains: out go packets into the overlay, our own sealed ones, and those without which a network does not work. The last chain decides; the others have programs fail at once,
    /// and count. In `output` the kernel still shows the interface that it chose before a packet was marked.
    pub(super) fn chains(&self) -> Vec<NftChain> {
        let drop = || NftRule::new().count().drop();
        let reject = NftRule::new().count().reject_tcp();
        let (device, needed) = (&*self.device, || upkeep().chain([sealed()]));
        let output = needed().chain(self.allowed()).chain([reject, drop()]).collect();
        let forward = from_overlay(device).chain(self.allowed()).chain([drop()]).collect();
        let leaving = needed().chain(from_overlay(device)).chain(self.allowed()).chain([drop()]).collect();
        vec![
            NftChain { name: "output", hook: NftHook::Output, rules: output },
            NftChain { name: "forward", hook: NftHook::Forward, rules: forward },
            NftChain { name: "leaving", hook: NftHook::Leaving, rules: leaving },
        ]
    }

    /// Packets into the overlay, to networks inside the host, and to local networks.
    fn allowed(&self) -> impl Iterator<Item = NftRule> {
        let link_local = ["fe80::/10", "ff02::/16"].iter().filter_map(|text| text.parse().ok());
        let link_local: Vec<Prefix> = link_local.filter(|_| !self.local.is_empty()).collect();
        let link_local: Vec<NftRule> = to_prefixes(&link_local).collect();
        into_overlay(&self.device)
            .chain(into_host(&self.inside))
            .chain(to_prefixes(&self.local))
            .chain(link_local)
            .chain([NftRule::new().family_in(PAUSED).accept()])
    }
}

/// The daemon's own packets.
fn sealed() -> NftRule {
    NftRule::new().marked(SOCKET_MARK, MARK_MASK).accept()
}

#[cfg(test)]
mod tests {
    use taut_base::REPLY_MARK;

    use super::*;

    fn plan(local_networks: bool) -> KillSwitchPlan {
        let nearby = Nearby {
            local: vec!["192.168.1.0/24".parse().unwrap()],
            inside: vec![(String::from("docker0"), "172.17.0.0/16".parse().unwrap())],
            ..Nearby::default()
        };
        KillSwitchPlan::new("taut0", ExitRouting { wanted: true, local_networks, kill_switch: true }, &nearby)
    }

    #[test]
    fn fault_j1_the_kill_switch_ends_with_a_drop_in_each_chain() {
        let chains = plan(true).chains();
        for chain in &chains {
            assert_eq!(chain.rules.last(), Some(&NftRule::new().count().drop()), "{}", chain.name);
        }
        let lan = NftRule::new().destination("192.168.1.0/24".parse().unwrap()).accept();
        assert!(chains.iter().all(|chain| chain.rules.contains(&lan)));
        // A bridge is open for its own network alone: a packet to any other address on it is one in the clear.
        let docker = NftRule::new().to_named("docker0");
        let inside = docker.clone().destination("172.17.0.0/16".parse().unwrap()).accept();
        assert!(
            chains.iter().all(|chain| chain.rules.contains(&inside) && !chain.rules.contains(&docker.clone().accept()))
        );
        assert!(plan(false).chains().iter().all(|chain| !chain.rules.contains(&lan)));
        // Answers to connections from outside do not pass by their mark.
        let reply = NftRule::new().marked(REPLY_MARK, MARK_MASK).accept();
        assert!(chains.iter().all(|chain| !chain.rules.contains(&reply)));
    }
}

//! The rules of nftables while an exit node is in use: they mark connections from outside, and hold back what would leave by another way than the exit node's. Pure (docs/internals/exit.md).

use taut_base::{BOTH_MASK, MARK_MASK, Prefix, REPLY_MARK, SOCKET_MARK};
use taut_netlink::{NftChain, NftHook, NftRule, OtherRule};

use super::passes::{from_overlay, into_host, into_overlay, to_prefixes, upkeep};
use super::plan::{ExitRouting, MOST_RULES, Nearby};

/// Most listening ports whose connections are kept when an exit node is chosen, 64.
pub(super) const MOST_PORTS: usize = 64;

/// Destinations that are no hosts of the internet, or that routers do not forward to: multicast, broadcast and link-local addresses. Programs send to them on the interface that they name, also while
/// an exit node is in use.
const ON_LINK: [&str; 4] = ["224.0.0.0/4", "255.255.255.255/32", "ff00::/8", "fe80::/10"];

/// Name of the set of address families that are held back where the kernel does not remove the table with the daemon ([`MarkPlan::expires`]).
pub(super) const ALIVE: &str = "alive";

/// What the table of nftables depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MarkPlan {
    /// Index of the loopback interface.
    pub(super) loopback: u32,
    /// Name of the TUN device.
    pub(super) device: String,
    /// Networks inside the host, with the names of their bridges.
    pub(super) inside: Vec<(String, Prefix)>,
    /// Ports of TCP on which the host listened when the exit node was chosen: the kernel may not know their connections yet.
    pub(super) listening: Vec<u16>,
    /// Local networks that stay reachable, and prefixes of other overlays.
    pub(super) reachable: Vec<Prefix>,
    /// Interfaces of other overlays: what a program sends by such an interface is not in the clear.
    pub(super) tunnels: Vec<String>,
    /// Rules of other programs that are asked before ours.
    pub(super) others: Vec<OtherRule>,
    /// Whether packets are held back only while their families are in the set [`ALIVE`], which the daemon renews: before Linux 5.12 the table outlives a crash.
    pub(super) expires: bool,
}

impl MarkPlan {
    /// Returns the plan of a network. `has_device`: without its device, what other tunnels would carry is held back, too.
    pub(super) fn new(loopback: u32, device: &str, routing: ExitRouting, nearby: &Nearby, has_device: bool) -> Self {
        let local = nearby.local.iter().filter(|_| routing.local_networks).take(MOST_RULES);
        Self {
            loopback,
            device: String::from(device),
            inside: nearby.inside.iter().take(MOST_RULES).cloned().collect(),
            listening: Vec::new(),
            reachable: local.chain(nearby.overlays.iter().take(MOST_RULES)).copied().collect(),
            tunnels: nearby.tunnels.iter().filter(|_| has_device).take(MOST_RULES).cloned().collect(),
            others: Vec::new(),
            expires: false,
        }
    }

    /// Returns the chains. In `output` the kernel still shows the interface that it chose before a packet was marked; marked packets pass first. Those that hold packets back come behind the kill
    /// switch's, which tells its user how many it dropped.
    pub(super) fn chains(&self) -> Vec<NftChain> {
        let end = || match self.expires {
            true => NftRule::new().family_in(ALIVE).count(),
            false => NftRule::new().count(),
        };
        let output = self.passing().chain([end().reject_tcp(), end().drop()]).collect();
        let leaving = from_overlay(&self.device).chain(self.passing()).chain([end().drop()]).collect();
        vec![
            NftChain { name: "incoming", hook: NftHook::MarkIncoming, rules: self.incoming() },
            NftChain { name: "outgoing", hook: NftHook::MarkOutgoing, rules: self.outgoing() },
            NftChain { name: "output", hook: NftHook::LateOutput, rules: output },
            NftChain { name: "leaving", hook: NftHook::LateLeaving, rules: leaving },
        ]
    }

    /// A connection that comes from outside to this host is marked, so that its packets ask the main table in both directions (fault J10).
    fn incoming(&self) -> Vec<NftRule> {
        let mut rules = vec![NftRule::new().from_interface(self.loopback).accept()];
        rules.extend(from_overlay(&self.device));
        let mut bridges: Vec<&String> = self.inside.iter().map(|(name, _)| name).collect();
        bridges.dedup();
        for bridge in bridges {
            let from = NftRule::new().from_named(bridge);
            rules.push(of_reply(from.clone()).set_mark(REPLY_MARK, MARK_MASK));
            rules.push(from.accept());
        }
        // Not the first packet alone: the kernel may know a connection from before the exit node was chosen.
        let from_outside = NftRule::new().to_host().in_first_direction();
        rules.push(from_outside.set_connection_mark(REPLY_MARK, MARK_MASK));
        rules.push(of_reply(NftRule::new()).set_mark(REPLY_MARK, MARK_MASK));
        rules
    }

    fn outgoing(&self) -> Vec<NftRule> {
        let mut rules = vec![NftRule::new().marked(SOCKET_MARK, MARK_MASK).accept()];
        // A packet from the middle of a connection, from a port on which this host listens: it came from outside, before the kernel kept track.
        rules.extend(self.listening.iter().take(MOST_PORTS).map(|port| {
            NftRule::new().of_new_connection().tcp_within(*port).set_connection_mark(REPLY_MARK, MARK_MASK)
        }));
        rules.push(of_reply(NftRule::new()).set_mark(REPLY_MARK, MARK_MASK));
        rules
    }

    /// Packets that are not held back: into overlays, the daemon's own, answers to connections from outside, and what the routing rules lead past the exit node. All others leave by an interface that
    /// their program named, or because there is no way into the overlay (fault J5).
    fn passing(&self) -> impl Iterator<Item = NftRule> {
        let ours = NftRule::new().marked(SOCKET_MARK, BOTH_MASK).accept();
        let on_link: Vec<Prefix> = ON_LINK.iter().filter_map(|text| text.parse().ok()).collect();
        let on_link: Vec<NftRule> = to_prefixes(&on_link).collect();
        let tunnels = self.tunnels.iter().map(|name| NftRule::new().to_named(name).accept());
        into_overlay(&self.device)
            .chain([ours])
            .chain(upkeep())
            .chain(on_link)
            .chain(into_host(&self.inside))
            .chain(to_prefixes(&self.reachable))
            .chain(tunnels)
            .chain(self.others.iter().take(MOST_RULES).map(|rule| of_other(rule).accept()))
    }
}

/// Condition: the connection came from outside.
fn of_reply(rule: NftRule) -> NftRule {
    rule.of_marked_connection(REPLY_MARK, MARK_MASK)
}

/// Condition: another program's rule leads the packet.
fn of_other(other: &OtherRule) -> NftRule {
    let rule = if other.ipv4 { NftRule::new().of_ipv4() } else { NftRule::new().of_ipv6() };
    let rule = other.mark.into_iter().fold(rule, |rule, (mark, mask)| rule.marked(mark & mask, mask));
    let rule = other.source.into_iter().fold(rule, NftRule::source);
    let rule = other.destination.into_iter().fold(rule, NftRule::destination);
    let rule = other.from.iter().fold(rule, |rule, name| rule.from_named(name));
    other.to.iter().fold(rule, |rule, name| rule.to_named(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(local_networks: bool, has_device: bool) -> MarkPlan {
        let nearby = Nearby {
            local: vec!["192.168.1.0/24".parse().unwrap()],
            inside: vec![(String::from("docker0"), "172.17.0.0/16".parse().unwrap())],
            overlays: vec!["100.80.0.2/32".parse().unwrap()],
            tunnels: vec![String::from("wg0")],
            ..Nearby::default()
        };
        let routing = ExitRouting { wanted: true, local_networks, kill_switch: false };
        MarkPlan::new(1, "taut0", routing, &nearby, has_device)
    }

    /// Returns the rules of the chains that hold packets back.
    fn ends(plan: &MarkPlan) -> [Vec<NftRule>; 2] {
        let chains = plan.chains();
        ["output", "leaving"].map(|name| chains.iter().find(|chain| chain.name == name).unwrap().rules.clone())
    }

    fn to(prefix: &str) -> NftRule {
        NftRule::new().destination(prefix.parse().unwrap())
    }

    #[test]
    fn fault_j5_what_has_no_way_into_the_overlay_ends() {
        let [output, leaving] = ends(&plan(false, true));
        assert_eq!(output[output.len() - 2..], [NftRule::new().count().reject_tcp(), NftRule::new().count().drop()]);
        assert_eq!(leaving.last(), Some(&NftRule::new().count().drop()));
        let (reply, tunnel) = (NftRule::new().marked(REPLY_MARK, BOTH_MASK), NftRule::new().to_named("wg0"));
        for rules in [&output, &leaving] {
            // The mask takes answers to connections from outside, too.
            assert!(
                rules.contains(&NftRule::new().marked(SOCKET_MARK, BOTH_MASK).accept())
                    && REPLY_MARK & BOTH_MASK == SOCKET_MARK
            );
            assert!(!rules.contains(&reply.clone().accept()) && rules.contains(&tunnel.clone().accept()));
            assert!(rules.contains(&to("224.0.0.0/4").accept()) && rules.contains(&to("100.80.0.2/32").accept()));
        }
        // Without the device nothing may take another way.
        assert!(ends(&plan(false, false)).iter().all(|rules| !rules.contains(&tunnel.clone().accept())));
    }

    #[test]
    fn fault_j3_a_local_network_passes_only_if_the_user_wants_it() {
        let lan = to("192.168.1.0/24").accept();
        assert!(ends(&plan(false, true)).iter().all(|rules| !rules.contains(&lan)));
        assert!(ends(&plan(true, true)).iter().all(|rules| rules.contains(&lan)));
        let docker = NftRule::new().to_named("docker0");
        let inside = docker.clone().destination("172.17.0.0/16".parse().unwrap()).accept();
        assert!(
            ends(&plan(false, true))
                .iter()
                .all(|rules| rules.contains(&inside) && !rules.contains(&docker.clone().accept()))
        );
    }

    #[test]
    fn packets_that_another_programs_rule_leads_pass() {
        let other = OtherRule {
            ipv4: true,
            mark: Some((0x8_0000, 0xff_0000)),
            source: "192.0.2.0/24".parse().ok(),
            ..OtherRule::default()
        };
        let plan = MarkPlan { others: vec![other], ..plan(false, true) };
        let rule =
            NftRule::new().of_ipv4().marked(0x8_0000, 0xff_0000).source("192.0.2.0/24".parse().unwrap()).accept();
        assert!(ends(&plan).iter().all(|rules| rules.contains(&rule)));
    }

    #[test]
    fn fault_j9_a_table_that_outlives_a_crash_holds_nothing_back_then() {
        let plan = MarkPlan { expires: true, ..plan(false, true) };
        for rules in ends(&plan) {
            assert_eq!(rules.last(), Some(&NftRule::new().family_in(ALIVE).count().drop()));
            assert!(
                !rules.contains(&NftRule::new().count().drop())
                    && !rules.contains(&NftRule::new().count().reject_tcp())
            );
        }
    }
}

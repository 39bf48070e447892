//! What the host needs while an exit node is in use: routing rules, and rules of nftables. Pure (docs/internals/exit.md).

use taut_base::{BOTH_MASK, MARK_MASK, Prefix, REPLY_MARK, SOCKET_MARK};
use taut_netlink::{MAIN_TABLE, NO_WAY, NftChain, NftHook, NftRule, RoutingRule, Selector};

/// Name of the devices of all Taut networks of a host, as nftables compares it: `taut0`, and `taut-NAME` for further networks.
pub(super) const TAUT_DEVICES: &str = "taut*";

/// First number of the tables with the routes to exit nodes, 29,696 (0x7400): beyond the 256 tables that people number by hand, and of no other program that we know.
const FIRST_TABLE: u32 = 0x7400;

/// First priority of the rules, 5,300: behind Tailscale's (5,210 to 5,270) and those of VRF (1,000), and before those that wg-quick and NetworkManager let the kernel choose
/// (from 32,765 down). What stands before them wins: docs/routes.md.
const FIRST_PRIORITY: u32 = 5_300;

/// First priority of the rules that end the search for IPv6, 5,400: behind those of all networks that ask tables. A program that is bound to another interface than the device finds no route in
/// the table, and would get the host's own way from the main one.
const FIRST_END: u32 = 5_400;

/// First priority of the rule that leads our own packets to the main table, 32,700. The kernel's own rule for it (32,766) usually does; ours stays when another program flushes all rules.
const FIRST_LATE_PRIORITY: u32 = 32_700;

/// Number of tables and of places among the rules, 32: the first for the usual device, the others for further networks, by their names.
const SLOTS: u32 = 32;

/// Maximum number of rules for each kind of exception (other overlays, local networks, networks inside the host), 64: the kernel compares every new route lookup with all of them.
const MOST_RULES: usize = 64;

/// Most listening ports whose connections are kept when an exit node is chosen, 64.
pub(super) const MOST_PORTS: usize = 64;

/// The user's choices about what goes beside the exit node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExitRouting {
    /// Whether packets of this host go to an exit node, or nowhere.
    pub(crate) wanted: bool,
    /// Whether the local networks stay reachable.
    pub(crate) local_networks: bool,
    /// Whether nothing may leave in the clear, also without the daemon.
    pub(crate) kill_switch: bool,
}

/// The networks around this host that matter to an exit node's rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Nearby {
    /// Private networks that interfaces reach without a router.
    pub(crate) local: Vec<Prefix>,
    /// Networks inside the host, as of containers, with the names of their bridges.
    pub(crate) inside: Vec<(String, Prefix)>,
    /// Prefixes of other overlays of this host.
    pub(crate) overlays: Vec<Prefix>,
    /// Interfaces by which packets come in from outside.
    pub(crate) uplinks: Vec<String>,
}

/// The place of a network's rules and routes among those of the host's other networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

impl Slot {
    /// Returns the place of the network with this device. It is the same after a restart, so that what a crash left is found.
    pub(crate) fn of(device: &str) -> Self {
        if device == "taut0" {
            return Self(0);
        }
        // FNV-1a: any function that spreads names does.
        let hash =
            device.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        Self(1 + hash % (SLOTS - 1))
    }

    /// Returns the table with the routes to the exit node.
    pub(crate) fn table(self) -> u32 {
        FIRST_TABLE + self.0
    }

    /// Returns the priorities of its rules: exceptions, the exit node, the end of the search, our own packets.
    pub(crate) fn priorities(self) -> [u32; 4] {
        let first = FIRST_PRIORITY + 2 * self.0;
        [first, first + 1, FIRST_END + self.0, FIRST_LATE_PRIORITY + self.0]
    }
}

/// Returns the routing rules.
pub(super) fn routing_rules(slot: Slot, routing: ExitRouting, nearby: &Nearby) -> Vec<RoutingRule> {
    let [exceptions, exit, end, own] = slot.priorities();
    let to = |prefix: Prefix| {
        let ipv4 = prefix.address().is_ipv4();
        RoutingRule { ipv4, priority: exceptions, selector: Selector::To(prefix), table: MAIN_TABLE }
    };
    let local = nearby.local.iter().copied().filter(|_| routing.local_networks).take(MOST_RULES);
    let inside = nearby.inside.iter().map(|(_, prefix)| *prefix).take(MOST_RULES);
    let overlays = nearby.overlays.iter().copied().take(MOST_RULES);
    // They never leave the link. A program names the interface with such an address, so the exit node has no route for it, and the search must not end.
    let link_local = "fe80::/10".parse().ok();
    let mut rules: Vec<RoutingRule> = local.chain(inside).chain(overlays).chain(link_local).map(to).collect();
    // DHCP renews an address by a datagram to the server, which only the local network has.
    let selector = Selector::Udp { from: 68, to: 67 };
    rules.push(RoutingRule { ipv4: true, priority: exceptions, selector, table: MAIN_TABLE });
    let (mark, mask) = (SOCKET_MARK, BOTH_MASK);
    for ipv4 in [true, false] {
        let selector = Selector::NotMarked { mark, mask };
        rules.push(RoutingRule { ipv4, priority: exit, selector, table: slot.table() });
        // Not for IPv4: the kernel looks up the gateway of a new route by the same rules, so that no DHCP client could add one.
        if !ipv4 {
            rules.push(RoutingRule { ipv4, priority: end, selector, table: NO_WAY });
        }
        let selector = Selector::Marked { mark, mask };
        rules.push(RoutingRule { ipv4, priority: own, selector, table: MAIN_TABLE });
    }
    rules.sort_unstable();
    rules.dedup();
    rules
}

/// What the table of nftables depends on that keeps connections from outside on their way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MarkPlan {
    /// Index of the loopback interface.
    pub(super) loopback: u32,
    /// Name of the TUN device.
    pub(super) device: String,
    /// Names of the bridges inside the host.
    pub(super) inside: Vec<String>,
    /// Ports of TCP on which the host listened when the exit node was chosen: the kernel may not know their connections yet.
    pub(super) listening: Vec<u16>,
}

impl MarkPlan {
    /// Returns the chains.
    pub(super) fn chains(&self) -> Vec<NftChain> {
        vec![
            NftChain { name: "incoming", hook: NftHook::MarkIncoming, rules: self.incoming() },
            NftChain { name: "outgoing", hook: NftHook::MarkOutgoing, rules: self.outgoing() },
            NftChain { name: "output", hook: NftHook::Output, rules: self.without_way() },
            NftChain { name: "forward", hook: NftHook::Forward, rules: vec![self.to_loopback().count().drop()] },
        ]
    }

    /// A connection that comes from outside to this host is marked, so that its packets ask the main table in both directions (fault J10).
    fn incoming(&self) -> Vec<NftRule> {
        let from = |name: &str| NftRule::new().from_named(name);
        let mut rules = vec![NftRule::new().from_interface(self.loopback).accept()];
        rules.extend([from(TAUT_DEVICES).accept(), from(&self.device).accept()]);
        for bridge in &self.inside {
            rules.push(of_reply(from(bridge)).set_mark(REPLY_MARK, MARK_MASK));
            rules.push(from(bridge).accept());
        }
        let new = NftRule::new().to_host().of_new_connection();
        rules.push(new.set_connection_mark(REPLY_MARK, MARK_MASK));
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

    /// Without the device, or without IPv6 in it, the table's last route leads to the loopback interface: answers to connections from outside are marked on their way, and take the main table. All
    /// others end here (fault J5).
    fn without_way(&self) -> Vec<NftRule> {
        let multicast = ["224.0.0.0/4", "ff00::/8"].iter().filter_map(|text| text.parse().ok());
        let mut rules = vec![NftRule::new().marked(SOCKET_MARK, BOTH_MASK).accept()];
        rules.push(self.to_loopback().to_host().accept());
        rules.extend(multicast.map(|all| self.to_loopback().destination(all).accept()));
        rules.extend([self.to_loopback().count().reject_tcp(), self.to_loopback().count().drop()]);
        rules
    }

    fn to_loopback(&self) -> NftRule {
        NftRule::new().to_interface(self.loopback)
    }
}

/// Condition: the connection came from outside.
fn of_reply(rule: NftRule) -> NftRule {
    rule.of_marked_connection(REPLY_MARK, MARK_MASK)
}

/// Messages of ICMPv6 by which a network works at all: multicast listeners (130, 131, 132, 143), router solicitation (133), neighbour solicitation and advertisement (135, 136).
const NEIGHBOURS: [u8; 7] = [130, 131, 132, 143, 133, 135, 136];

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
        let output = self.needed().chain(self.allowed()).chain([reject, drop()]).collect();
        let forward = self.forwarded().chain(self.allowed()).chain([drop()]).collect();
        let leaving = self.needed().chain(self.forwarded()).chain(self.allowed()).chain([drop()]).collect();
        vec![
            NftChain { name: "output", hook: NftHook::Output, rules: output },
            NftChain { name: "forward", hook: NftHook::Forward, rules: forward },
            NftChain { name: "leaving", hook: NftHook::Leaving, rules: leaving },
        ]
    }

    /// Packets of this host without which neither the overlay nor a network works.
    fn needed(&self) -> impl Iterator<Item = NftRule> {
        let sealed = NftRule::new().marked(SOCKET_MARK, MARK_MASK);
        let dhcp = [NftRule::new().udp(true, 68, 67), NftRule::new().udp(false, 546, 547)];
        let neighbours = NEIGHBOURS.map(|kind| NftRule::new().icmpv6(kind));
        let all = [NftRule::new().to_named("lo"), sealed].into_iter().chain(dhcp).chain(neighbours);
        all.map(NftRule::accept)
    }

    /// Packets that come out of the overlay, to networks behind this node.
    fn forwarded(&self) -> impl Iterator<Item = NftRule> {
        [TAUT_DEVICES, &self.device].map(|name| NftRule::new().from_named(name).accept()).into_iter()
    }

    /// Packets into the overlay, to networks inside the host, and to local networks.
    fn allowed(&self) -> impl Iterator<Item = NftRule> {
        let devices = [TAUT_DEVICES, &self.device].into_iter();
        let inside = self.inside.iter().map(|(name, prefix)| NftRule::new().to_named(name).destination(*prefix));
        let link_local = ["fe80::/10", "ff02::/16"].iter().filter_map(|text| text.parse().ok());
        let link_local = link_local.filter(|_: &Prefix| !self.local.is_empty());
        let local = self.local.iter().copied().chain(link_local);
        let to = devices.map(|name| NftRule::new().to_named(name).accept());
        to.chain(inside.map(NftRule::accept))
            .chain(local.map(|prefix| NftRule::new().destination(prefix).accept()))
            .chain([NftRule::new().family_in(PAUSED).accept()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearby() -> Nearby {
        Nearby {
            local: vec!["192.168.1.0/24".parse().unwrap()],
            inside: vec![(String::from("docker0"), "172.17.0.0/16".parse().unwrap())],
            overlays: vec!["100.80.0.2/32".parse().unwrap()],
            uplinks: vec![String::from("eth0")],
        }
    }

    fn on(local_networks: bool) -> ExitRouting {
        ExitRouting { wanted: true, local_networks, kill_switch: true }
    }

    fn shown(local: bool) -> Vec<String> {
        routing_rules(Slot::of("taut0"), on(local), &nearby()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn fault_j7_our_own_packets_never_ask_the_table_of_the_exit_node() {
        let rules = shown(false);
        for family in ["IPv4", "IPv6"] {
            assert!(rules.contains(&format!("{family} rule 5301 not fwmark 0x74000000/0xfe000000 lookup 29696")));
            assert!(rules.contains(&format!("{family} rule 32700 fwmark 0x74000000/0xfe000000 lookup 254")));
        }
    }

    #[test]
    fn fault_j3_a_local_network_has_a_rule_only_if_the_user_wants_it() {
        let lan = String::from("IPv4 rule 5300 to 192.168.1.0/24 lookup 254");
        assert!(!shown(false).contains(&lan) && shown(true).contains(&lan));
        // Containers and other overlays are inside the host.
        for always in ["172.17.0.0/16", "100.80.0.2/32"] {
            assert!(shown(false).contains(&format!("IPv4 rule 5300 to {always} lookup 254")), "{always}");
        }
    }

    #[test]
    fn networks_of_one_host_have_places_of_their_own() {
        let places = ["taut0", "taut-work", "taut-home", "taut-lab"].map(|name| Slot::of(name).priorities());
        assert_eq!(places[0], [5_300, 5_301, 5_400, 32_700]);
        for place in &places[1..] {
            assert!(place[0] > 5_301 && place[1] < 5_400 && place[2] > 5_400 && place[3] < 32_766);
        }
    }

    #[test]
    fn fault_j1_the_kill_switch_ends_with_a_drop_in_each_chain() {
        let plan = KillSwitchPlan::new("taut0", on(true), &nearby());
        let chains = plan.chains();
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
        let strict = KillSwitchPlan::new("taut0", on(false), &nearby());
        assert!(strict.chains().iter().all(|chain| !chain.rules.contains(&lan)));
        // Answers to connections from outside do not pass by their mark.
        let reply = NftRule::new().marked(REPLY_MARK, MARK_MASK).accept();
        assert!(chains.iter().all(|chain| !chain.rules.contains(&reply)));
    }

    #[test]
    fn fault_j5_what_has_no_way_into_the_overlay_ends() {
        let end = |family| format!("{family} rule 5400 not fwmark 0x74000000/0xfe000000 unreachable");
        assert!(shown(false).contains(&end("IPv6")) && shown(true).contains(&end("IPv6")));
        assert!(!shown(false).contains(&end("IPv4")), "the kernel would refuse the gateway of a new route");
        let plan = MarkPlan { loopback: 1, device: String::from("taut0"), ..MarkPlan::default() };
        for chain in plan.chains().split_off(2) {
            assert_eq!(chain.rules.last(), Some(&NftRule::new().to_interface(1).count().drop()), "{}", chain.name);
        }
    }
}

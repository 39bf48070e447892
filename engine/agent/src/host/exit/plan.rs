//! The routing rules that the host needs while an exit node is in use, and what they depend on. Pure (docs/internals/exit.md).

use taut_base::{BOTH_MASK, Prefix, SOCKET_MARK};
use taut_netlink::{MAIN_TABLE, RoutingRule, Selector};

/// First number of the tables with the routes to exit nodes, 29,696 (0x7400): beyond the 256 tables that people number by hand, and of no other program that we know.
const FIRST_TABLE: u32 = 0x7400;

/// First priority of the rules, 5,300: behind Tailscale's (5,210 to 5,270) and those of VRF (1,000), and before those that wg-quick and NetworkManager let the kernel choose
/// (from 32,765 down). What stands before them wins: docs/routes.md.
const FIRST_PRIORITY: u32 = 5_300;

/// First priority of the rule that leads our own packets to the main table, 32,200. The kernel's own rule for it (32,766) usually does; ours stays when another program flushes all rules.
const FIRST_LATE_PRIORITY: u32 = 32_200;

/// Number of tables and of places among the rules, 512: the first for the usual device, the others for further networks, by their names. Of 4 networks, two have the same place on 6 hosts of 1,000. Such
/// networks undo each other's rules at a start or an end, and the network that uses an exit node restores its own within a second.
const SLOTS: u32 = 512;

/// Maximum number of rules for each kind of exception (other overlays, local networks, networks inside the host), 64: the kernel compares every new route lookup with all of them.
pub(super) const MOST_RULES: usize = 64;

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
    /// Interfaces of other overlays.
    pub(crate) tunnels: Vec<String>,
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

    /// Returns the priorities of its rules: exceptions, the exit node, our own packets.
    pub(crate) fn priorities(self) -> [u32; 3] {
        let first = FIRST_PRIORITY + 2 * self.0;
        [first, first + 1, FIRST_LATE_PRIORITY + self.0]
    }
}

/// Returns the routing rules. None ends the search: the kernel looks up the gateway of a new route by the same rules, so that no DHCP client could add one, and a program that names an interface would
/// get through all the same, because Linux takes an IPv4 address without a route there for a neighbour (`MarkPlan` holds such packets back).
pub(super) fn routing_rules(slot: Slot, routing: ExitRouting, nearby: &Nearby) -> Vec<RoutingRule> {
    let [exceptions, exit, own] = slot.priorities();
    let to = |prefix: Prefix| {
        let ipv4 = prefix.address().is_ipv4();
        RoutingRule { ipv4, priority: exceptions, selector: Selector::To(prefix), table: MAIN_TABLE }
    };
    let local = nearby.local.iter().copied().filter(|_| routing.local_networks).take(MOST_RULES);
    let inside = nearby.inside.iter().map(|(_, prefix)| *prefix).take(MOST_RULES);
    let overlays = nearby.overlays.iter().copied().take(MOST_RULES);
    let mut rules: Vec<RoutingRule> = local.chain(inside).chain(overlays).map(to).collect();
    // DHCP renews an address by a datagram to the server, which only the local network has.
    let selector = Selector::Udp { from: 68, to: 67 };
    rules.push(RoutingRule { ipv4: true, priority: exceptions, selector, table: MAIN_TABLE });
    let (mark, mask) = (SOCKET_MARK, BOTH_MASK);
    for ipv4 in [true, false] {
        let selector = Selector::NotMarked { mark, mask };
        rules.push(RoutingRule { ipv4, priority: exit, selector, table: slot.table() });
        let selector = Selector::Marked { mark, mask };
        rules.push(RoutingRule { ipv4, priority: own, selector, table: MAIN_TABLE });
    }
    rules.sort_unstable();
    rules.dedup();
    rules
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
            tunnels: Vec::new(),
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
            assert!(rules.contains(&format!("{family} rule 32200 fwmark 0x74000000/0xfe000000 lookup 254")));
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
        assert_eq!(places[0], [5_300, 5_301, 32_200]);
        for place in &places[1..] {
            assert!(place[0] > 5_301 && place[1] < 6_400 && place[2] > 32_200 && place[2] < 32_732);
        }
    }

    #[test]
    fn no_rule_ends_the_search_for_a_route() {
        // The kernel would refuse the gateway of a new route.
        let tables: Vec<String> =
            shown(true).iter().filter_map(|rule| Some(rule.split_once(" lookup ")?.1.into())).collect();
        assert_eq!(tables.len(), shown(true).len());
        assert!(tables.iter().all(|table| table == "254" || table == "29696"), "{tables:?}");
    }
}

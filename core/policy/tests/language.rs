//! The meaning of each part of the language for a small network, read from the filters that its nodes get.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests may stop at the first surprise")]

use std::net::IpAddr;

use taut_policy::{Compiled, Inventory, Packet, Policy, compile, oracle};

/// Two people with two nodes each, a web server that is a router, a database, an exit node.
const NETWORK: &str = r#"{
  "nodes": [
    {"name": "ann1", "addresses": ["100.64.0.1", "fd00::1"], "user": "ann@example.com"},
    {"name": "ann2", "addresses": ["100.64.0.2", "fd00::2"], "user": "ann@example.com"},
    {"name": "bob1", "addresses": ["100.64.0.3", "fd00::3"], "user": "bob@other.org"},
    {"name": "eve", "addresses": ["100.64.0.4"], "user": "eve"},
    {"name": "web", "addresses": ["100.64.0.5", "fd00::5"], "user": "ann@example.com", "tags": ["tag:web"], "routes": ["10.33.0.0/16", "fd33::/48"]},
    {"name": "db", "addresses": ["100.64.0.6", "fd00::6"], "tags": ["tag:db", "tag:web"]},
    {"name": "exit", "addresses": ["100.64.0.7", "fd00::7"], "tags": ["tag:exit"], "routes": ["0.0.0.0/0", "::/0"]},
    {"name": "lost", "addresses": ["100.64.0.8"]}
  ],
  "users": [
    {"name": "ann@example.com", "role": "owner", "groups": ["it"]},
    {"name": "bob@other.org", "role": "auditor", "groups": ["it", "ops@example.com"]},
    {"name": "eve"}
  ]
}"#;

const NAMES: &str = r#""groups": {"group:dev": ["ann@example.com", "eve@"], "group:none": []},
"tagOwners": {"tag:web": [], "tag:db": [], "tag:exit": [], "tag:none": []},
"hosts": {"bobs": "100.64.0.3", "lan": "10.33.0.0/16"},
"ipsets": {"ipset:lan": ["add 10.33.0.0/16", "remove 10.33.7.0/24", "remove host:bobs", "fd33::5-fd33::9"],
           "ipset:some": ["autogroup:internet", "remove 8.0.0.0/8"]},"#;

struct World {
    inventory: Inventory,
    policy: Policy,
    compiled: Compiled,
}

impl World {
    fn new(rules: &str) -> Self {
        let inventory: Inventory = serde_json::from_str(NETWORK).unwrap();
        let policy = Policy::parse(&format!("{{{NAMES}\n{rules}}}")).unwrap_or_else(|error| panic!("{error}: {rules}"));
        let compiled = compile(&policy, &inventory);
        Self { inventory, policy, compiled }
    }

    /// Returns the world under a policy with one grant.
    fn grant(src: &str, dst: &str, ip: &str) -> Self {
        Self::new(&format!("\"grants\": [{{\"src\": [{src}], \"dst\": [{dst}], \"ip\": [{ip}]}}]"))
    }

    fn node(&self, name: &str) -> usize {
        self.inventory.nodes.iter().position(|node| node.name == name).unwrap()
    }

    fn address(&self, name: &str, four: bool) -> Option<IpAddr> {
        match name.parse::<IpAddr>() {
            Ok(address) => Some(address).filter(|address| address.is_ipv4() == four),
            Err(_) => {
                let addresses = &self.inventory.nodes[self.node(name)].addresses;
                addresses.iter().copied().find(|address| address.is_ipv4() == four)
            }
        }
    }

    /// Returns true if the node lets the packet in. Filter, deciding rule and oracle must agree.
    fn at(&self, node: &str, packet: &Packet) -> bool {
        let node = self.node(node);
        let verdict = self.compiled.filter(node).allows(packet);
        assert_eq!(verdict, self.compiled.deciding_rule(node, packet).is_some(), "{packet:?}");
        assert_eq!(verdict, oracle::allows(&self.policy, &self.inventory, node, packet), "{packet:?}");
        verdict
    }

    fn tcp(&self, src: &str, dst: &str, at: &str, port: u16, four: bool) -> Option<bool> {
        let (src, dst) = (self.address(src, four)?, self.address(dst, four)?);
        Some(self.at(at, &Packet { src, dst, proto: 6, port }))
    }

    /// Returns the pairs `from>to` of nodes that may open TCP port 22, in any family.
    fn pairs(&self) -> String {
        let names: Vec<&str> = self.inventory.nodes.iter().map(|node| node.name.as_str()).collect();
        let mut pairs = Vec::new();
        for from in &names {
            for to in names.iter().filter(|to| *to != from) {
                let verdicts = [self.tcp(from, to, to, 22, true), self.tcp(from, to, to, 22, false)];
                if verdicts.contains(&Some(true)) {
                    assert!(self.compiled.are_peers(self.node(from), self.node(to)));
                    pairs.push(format!("{from}>{to}"));
                }
            }
        }
        pairs.join(" ")
    }
}

/// Returns the nodes that reach the database if a selector is the only source of the rule.
fn sources(selector: &str) -> String {
    let pairs = World::grant(&format!("\"{selector}\""), "\"tag:db\"", "\"22\"").pairs();
    pairs.replace(">db", "")
}

#[test]
fn fault_g1_without_rules_nothing_passes() {
    for rules in ["\"acls\": []", "\"grants\": []", "\"grants\": [{\"src\": [], \"dst\": [\"*\"], \"ip\": [\"*\"]}]"] {
        let world = World::new(rules);
        assert_eq!(world.pairs(), "");
        assert!(
            (0..8).all(|node| world.compiled.filter(node).rules.is_empty() && world.compiled.peers(node).count() == 0)
        );
    }
}

#[test]
fn each_selector_as_a_source() {
    for (selector, nodes) in [
        ("*", "ann1 ann2 bob1 eve web exit lost"),
        ("ann@example.com", "ann1 ann2"),
        ("eve@", "eve"),
        ("nobody@example.com", ""),
        ("user:*@other.org", "bob1"),
        ("user:*@EXAMPLE.com", "ann1 ann2"),
        ("group:dev", "ann1 ann2 eve"),
        ("group:none", ""),
        ("group:it@example.com", "ann1 ann2"),
        ("group:it@other.org", "bob1"),
        ("group:ops@example.com", "bob1"),
        ("tag:web", "web"),
        ("tag:none", ""),
        ("autogroup:member", "ann1 ann2 bob1 eve"),
        ("autogroup:tagged", "web exit"),
        ("autogroup:owner", "ann1 ann2"),
        ("autogroup:auditor", "bob1"),
        ("autogroup:admin", ""),
        ("autogroup:shared", ""),
        ("autogroup:danger-all", "ann1 ann2 bob1 eve web exit lost"),
        ("100.64.0.3", "bob1"),
        ("fd00::1", "ann1"),
        ("100.64.0.0/30", "ann1 ann2 bob1"),
        ("bobs", "bob1"),
        ("ipset:lan", ""),
    ] {
        assert_eq!(sources(selector), nodes, "{selector}");
    }
}

#[test]
fn each_selector_as_a_destination() {
    for (selector, nodes) in [
        ("*", "ann2 bob1 eve web db exit lost"),
        ("ann@example.com", "ann2"),
        ("group:dev", "ann2 eve"),
        ("tag:web", "web db"),
        ("autogroup:member", "ann2 bob1 eve"),
        ("autogroup:tagged", "web db exit"),
        ("autogroup:self", "ann2"),
        ("autogroup:internet", ""),
        ("bobs", "bob1"),
        ("fd00::6", "db"),
        ("100.64.0.0/29", "ann2 bob1 eve web db exit"),
        ("lan", ""),
    ] {
        let world = World::grant("\"ann@example.com\"", &format!("\"{selector}\""), "\"22\"");
        let from_ann1: Vec<String> =
            world.pairs().split_whitespace().filter_map(|pair| pair.strip_prefix("ann1>").map(String::from)).collect();
        assert_eq!(from_ann1.join(" "), nodes, "{selector}");
    }
}

#[test]
fn acls_and_grants_mean_the_same() {
    let acls = World::new(
        "\"acls\": [{\"action\": \"accept\", \"src\": [\"group:dev\"], \"dst\": [\"tag:web:22\", \"bobs:22\"]}]",
    );
    let grants = World::grant("\"group:dev\"", "\"tag:web\", \"bobs\"", "\"22\"");
    assert_eq!(acls.pairs(), grants.pairs());
    for node in 0..8 {
        assert_eq!(acls.compiled.filter(node), grants.compiled.filter(node));
    }
}

#[test]
fn an_address_is_only_that_address() {
    let world = World::grant("\"100.64.0.1\"", "\"100.64.0.6\"", "\"22\"");
    assert_eq!(world.tcp("ann1", "db", "db", 22, true), Some(true));
    assert_eq!(world.tcp("ann1", "db", "db", 22, false), Some(false), "the same nodes by IPv6");
    assert_eq!(world.compiled.filter(world.node("db")).parts(), 3);
}

#[test]
fn self_joins_the_nodes_of_one_person() {
    for (src, pairs) in [
        ("\"autogroup:member\"", "ann1>ann2 ann2>ann1"),
        ("\"ann@example.com\", \"bob@other.org\"", "ann1>ann2 ann2>ann1"),
        ("\"bob@other.org\"", ""),
        ("\"autogroup:owner\"", "ann1>ann2 ann2>ann1"),
    ] {
        assert_eq!(World::grant(src, "\"autogroup:self\"", "\"22\"").pairs(), pairs, "{src}");
    }
    let any = World::new("\"acls\": [{\"action\": \"accept\", \"src\": [\"*\"], \"dst\": [\"autogroup:self:22\"]}]");
    assert_eq!(any.pairs(), "ann1>ann2 ann2>ann1");
    let both = World::grant("\"ann@example.com\"", "\"autogroup:self\", \"tag:db\"", "\"22\"");
    assert_eq!(both.pairs(), "ann1>ann2 ann1>db ann2>ann1 ann2>db");
}

#[test]
fn subnets_are_reached_through_their_router() {
    let world = World::grant("\"bob@other.org\"", "\"lan\"", "\"22\"");
    assert_eq!(world.tcp("bob1", "10.33.1.1", "web", 22, true), Some(true));
    assert_eq!(world.tcp("bob1", "10.33.1.1", "db", 22, true), Some(false), "no route of this node");
    assert_eq!(world.tcp("bob1", "10.34.0.1", "web", 22, true), Some(false));
    assert_eq!(world.tcp("bob1", "web", "web", 22, true), Some(false), "the router itself is another matter");
    assert!(world.compiled.are_peers(world.node("bob1"), world.node("web")));
    assert!(!world.compiled.are_peers(world.node("bob1"), world.node("db")));
    let rules = world.compiled.filter(world.node("web")).rules;
    assert_eq!(rules[0].dst[0].prefix.to_string(), "10.33.0.0/16");
    // A prefix wider than the router's route is cut to the route, and a narrower one stays.
    let wide = World::grant("\"bob@other.org\"", "\"10.0.0.0/8\"", "\"22\"");
    assert_eq!(wide.compiled.filter(wide.node("web")), world.compiled.filter(world.node("web")));
    let narrow = World::grant("\"bob@other.org\"", "\"10.33.1.0/24\"", "\"22\"");
    assert_eq!(narrow.compiled.filter(narrow.node("web")).rules[0].dst[0].prefix.to_string(), "10.33.1.0/24");
}

#[test]
fn hosts_in_subnets_are_sources_of_any_and_of_their_prefix() {
    for (src, wanted) in [
        ("*", true),
        ("lan", true),
        ("10.0.0.0/8", true),
        ("autogroup:danger-all", true),
        ("tag:web", false),
        ("autogroup:tagged", false),
    ] {
        let world = World::grant(&format!("\"{src}\""), "\"tag:db\"", "\"22\"");
        assert_eq!(world.tcp("10.33.1.1", "db", "db", 22, true), Some(wanted), "{src}");
        assert!(!wanted || world.compiled.are_peers(world.node("web"), world.node("db")), "{src}");
    }
    let any = World::grant("\"*\"", "\"tag:db\"", "\"22\"");
    assert_eq!(any.tcp("10.34.1.1", "db", "db", 22, true), Some(false), "no approved subnet");
    assert_eq!(any.tcp("8.8.8.8", "db", "db", 22, true), Some(false), "an exit node is not a subnet router");
    let all = World::grant("\"autogroup:danger-all\"", "\"tag:db\"", "\"22\"");
    assert_eq!(all.tcp("8.8.8.8", "db", "db", 22, true), Some(true));
}

#[test]
fn the_internet_is_reached_through_exit_nodes() {
    let world = World::grant("\"group:dev\"", "\"autogroup:internet\"", "\"443\"");
    assert_eq!(world.tcp("ann1", "8.8.8.8", "exit", 443, true), Some(true));
    assert_eq!(world.tcp("ann1", "2606:4700::1", "exit", 443, false), Some(true));
    assert_eq!(world.tcp("ann1", "8.8.8.8", "web", 443, true), Some(false), "not an exit node");
    for private in ["10.1.1.1", "192.168.1.1", "172.16.0.1", "100.64.0.99", "169.254.1.1"] {
        assert_eq!(world.tcp("ann1", private, "exit", 443, true), Some(false), "{private}");
    }
    let any = World::grant("\"group:dev\"", "\"*\"", "\"443\"");
    assert_eq!(any.tcp("ann1", "8.8.8.8", "exit", 443, true), Some(true), "`*` includes the internet");
    assert_eq!(any.tcp("ann1", "10.1.1.1", "exit", 443, true), Some(false), "a default route is the internet alone");
    let some = World::grant("\"group:dev\"", "\"ipset:some\"", "\"443\"");
    assert_eq!(some.tcp("ann1", "9.9.9.9", "exit", 443, true), Some(true));
    assert_eq!(some.tcp("ann1", "8.8.8.8", "exit", 443, true), Some(false));
}

#[test]
fn ip_sets_are_taken_in_order() {
    let world = World::grant("\"bob@other.org\"", "\"ipset:lan\"", "\"22\"");
    for (dst, wanted) in [("10.33.6.255", true), ("10.33.7.0", false), ("10.33.7.255", false), ("10.33.8.0", true)] {
        assert_eq!(world.tcp("bob1", dst, "web", 22, true), Some(wanted), "{dst}");
    }
    for (dst, wanted) in [("fd33::4", false), ("fd33::5", true), ("fd33::9", true), ("fd33::a", false)] {
        assert_eq!(world.tcp("bob1", dst, "web", 22, false), Some(wanted), "{dst}");
    }
}

#[test]
fn protocols_and_ports() {
    let world = World::grant("\"bob@other.org\"", "\"tag:db\"", "\"tcp:22\", \"udp:50-60\", \"gre:*\", \"8080\"");
    let (src, dst) = (world.address("bob1", true).unwrap(), world.address("db", true).unwrap());
    let allows = |proto: u8, port: u16| world.at("db", &Packet { src, dst, proto, port });
    assert!(allows(6, 22) && !allows(17, 22) && allows(17, 50) && allows(17, 60) && !allows(17, 61) && !allows(17, 49));
    assert!(allows(6, 8080) && allows(17, 8080) && !allows(132, 8080));
    assert!(allows(47, 0) && !allows(50, 0));
    assert!(allows(1, 0), "ICMP passes where anything does");
    let rules = world.compiled.filter(world.node("db")).rules;
    let protos: Vec<&[u8]> = rules.iter().map(|rule| rule.proto.as_slice()).collect();
    assert_eq!(protos.len(), 4);
    assert!(protos.contains(&&[][..]) && protos.contains(&&[47][..]));
}

#[test]
fn equal_rules_are_joined() {
    let world = World::new(
        r#""acls": [
            {"action": "accept", "src": ["ann@example.com"], "dst": ["tag:db:22"], "proto": "tcp"},
            {"action": "accept", "src": ["ann@example.com"], "dst": ["tag:db:22"], "proto": "udp"},
            {"action": "accept", "src": ["bob@other.org"], "dst": ["tag:db:22"], "proto": "tcp"},
            {"action": "accept", "src": ["bob@other.org"], "dst": ["tag:db:22", "tag:web:22"], "proto": "udp"},
            {"action": "accept", "src": ["eve@"], "dst": ["tag:db:80", "tag:db:81-90", "tag:db:85"]}
        ]"#,
    );
    let (filter, rules) = world.compiled.filter_with_rules(world.node("db"));
    assert_eq!(filter.rules.len(), 2, "{filter:?}");
    let joined = &filter.rules[0];
    assert_eq!((joined.src.len(), &joined.proto), (4, &vec![6, 17]), "{joined:?}");
    assert_eq!(filter.rules[1].dst[0].ports, [(80, 90)]);
    assert_eq!(rules, [vec![0, 1, 2, 3], vec![4]]);
    assert_eq!(world.compiled.origin(3).unwrap().line, 10);
    assert_eq!(world.compiled.origin(5), None);
}

#[test]
fn a_filter_names_no_other_node() {
    let world = World::grant("\"ann@example.com\"", "\"*\"", "\"*\"");
    for (node, facts) in world.inventory.nodes.iter().enumerate() {
        for rule in world.compiled.filter(node).rules {
            for target in &rule.dst {
                let own = facts.addresses.iter().any(|address| target.prefix.contains(*address));
                let behind = facts.routes.iter().any(|route| route.length() == 0 || route.overlaps(target.prefix));
                assert!(own || behind, "{}: {}", facts.name, target.prefix);
            }
        }
    }
}

#[test]
fn peers_are_pairs_in_either_direction() {
    let world = World::grant("\"bob@other.org\"", "\"tag:db\"", "\"22\"");
    let (bob, db) = (world.node("bob1"), world.node("db"));
    assert!(world.compiled.peers(bob).eq([db]) && world.compiled.peers(db).eq([bob]));
    assert!(
        world.compiled.are_peers(bob, db) && world.compiled.are_peers(db, bob) && !world.compiled.are_peers(db, db)
    );
    assert_eq!(world.compiled.peers(99).count(), 0);
}

#[test]
fn the_networks_prefixes_stand_for_any_source() {
    let mut inventory: Inventory = serde_json::from_str(NETWORK).unwrap();
    inventory.prefixes = vec!["100.64.0.0/10".parse().unwrap(), "fd00::/64".parse().unwrap()];
    let policy = Policy::parse(r#"{"grants": [{"src": ["*"], "dst": ["*"], "ip": ["*"]}]}"#).unwrap();
    let filter = compile(&policy, &inventory).filter(0);
    let sources: Vec<String> = filter.rules[0].src.iter().map(ToString::to_string).collect();
    assert_eq!(sources, ["10.33.0.0/16", "100.64.0.0/10", "fd00::/64", "fd33::/48"]);
    assert_eq!(filter.rules.len(), 1);
}

#[test]
fn explanations_name_rule_and_line() {
    let world = World::new(
        "\"grants\": [\n{\"src\": [\"ann@example.com\"], \"dst\": [\"tag:db\"], \"ip\": [\"22\"]},\n{\"src\": [\"group:dev\"], \"dst\": [\"tag:web\"], \"ip\": [\"22\", \"80\"]}]",
    );
    let packet = |src: &str, dst: &str, port: u16| Packet {
        src: src.parse().unwrap(),
        dst: dst.parse().unwrap(),
        proto: 6,
        port,
    };
    let explain = |src: &str, dst: &str, port: u16| world.compiled.explain(&packet(src, dst, port));
    let lines = |origins: &[taut_policy::Origin]| origins.iter().map(|origin| origin.line).collect::<Vec<_>>();
    let found = explain("100.64.0.1", "100.64.0.6", 22);
    assert_eq!(
        (found.sender, found.receiver, found.rule.map(|rule| (rule.line, rule.number))),
        (Some(0), Some(5), Some((7, 1)))
    );
    assert_eq!(explain("100.64.0.1", "100.64.0.6", 80).rule.map(|rule| rule.line), Some(8));
    let denied = explain("100.64.0.1", "100.64.0.6", 443);
    assert_eq!((denied.rule, lines(&denied.near)), (None, vec![7, 8]));
    let denied = explain("100.64.0.3", "100.64.0.6", 443);
    assert_eq!((denied.sender, denied.rule, denied.near), (Some(2), None, Vec::new()));
    let nowhere = explain("100.64.0.1", "100.99.0.1", 22);
    assert_eq!((nowhere.receiver, nowhere.rule), (None, None));
    let behind = explain("10.33.0.9", "8.8.8.8", 22);
    assert_eq!((behind.sender, behind.receiver), (Some(4), Some(6)));
}

#[test]
fn the_router_that_allows_is_explained() {
    let mut inventory: Inventory = serde_json::from_str(NETWORK).unwrap();
    inventory.nodes[5].routes = vec!["10.33.0.0/16".parse().unwrap()];
    let policy =
        Policy::parse(r#"{"grants": [{"src": ["100.64.0.1"], "dst": ["10.33.0.0/16"], "ip": ["22"]}]}"#).unwrap();
    let compiled = compile(&policy, &inventory);
    let packet = Packet { src: "100.64.0.1".parse().unwrap(), dst: "10.33.0.1".parse().unwrap(), proto: 6, port: 22 };
    assert_eq!(compiled.receivers(packet.dst), [4, 5]);
    assert_eq!(compiled.explain(&packet).receiver, Some(4));
}

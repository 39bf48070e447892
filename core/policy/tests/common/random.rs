//! Random policies, inventories and packets: small, so that names meet, and with all parts of the language.

use std::fmt::Write;
use std::net::IpAddr;

use taut_policy::{Inventory, NodeFacts, Packet, Role, UserFacts};
use taut_testkit::Seeded;

const USERS: [&str; 6] =
    ["ann@example.com", "bob@example.com", "cat@other.org", "dan@other.org", "eve", "fay@example.com"];
const GROUPS: [&str; 5] = ["group:a", "group:b", "group:none", "group:it@example.com", "group:x@other.org"];
const TAGS: [&str; 4] = ["tag:web", "tag:db", "tag:exit", "tag:none"];
const SETS: [&str; 3] = ["ipset:one", "ipset:two", "ipset:three"];
const ROUTES: [&str; 8] = [
    "10.0.0.0/8",
    "10.33.0.0/16",
    "192.168.1.0/24",
    "0.0.0.0/0",
    "::/0",
    "fd12::/48",
    "100.64.0.8/29",
    "172.16.0.0/12",
];
const HOSTS: [(&str, &str); 4] =
    [("one", "100.64.0.1"), ("lan", "10.33.0.0/16"), ("six", "fd00::2"), ("wide", "fd00::/64")];
const PREFIXES: [&str; 14] = [
    "100.64.0.1",
    "100.64.0.3",
    "100.64.0.0/30",
    "10.0.0.0/8",
    "10.33.1.0/24",
    "192.168.0.0/16",
    "8.8.8.0/24",
    "fd00::1",
    "fd00::/126",
    "fd12::/64",
    "2001:db8::/32",
    "0.0.0.0/1",
    "8000::/1",
    "fd00::3",
];
const RANGES: [&str; 4] =
    ["10.33.0.9-10.33.1.20", "100.64.0.2-100.64.0.5", "fd00::2-fd00::4", "0.0.0.0-255.255.255.255"];
const PORTS: [&str; 10] =
    ["*", "*", "22", "80,443", "1000-2000", "0-65535", "1-65535", "0-79,80-65535", "443", "20-30,25-90"];
const SERVICES: [&str; 14] = [
    "*",
    "*",
    "22",
    "80-443",
    "tcp:22",
    "tcp:*",
    "udp:53",
    "icmp:*",
    "sctp:5-10",
    "gre:*",
    "ipv6-icmp:*",
    "udp:0-65534",
    "132:*",
    "80,443",
];
const PROTOCOLS: [u8; 9] = [6, 6, 17, 17, 1, 58, 132, 47, 2];
const PACKET_PORTS: [u16; 12] = [0, 22, 25, 53, 79, 80, 443, 1000, 1500, 2001, 65_534, 65_535];
const ADDRESSES: [&str; 17] = [
    "10.33.0.1",
    "10.33.1.5",
    "10.33.1.20",
    "10.33.1.21",
    "10.200.0.1",
    "192.168.1.7",
    "8.8.8.8",
    "1.1.1.1",
    "100.64.0.9",
    "172.20.0.1",
    "fd12::1",
    "fd12:0:0:1::1",
    "2001:db8::1",
    "2606:4700::1",
    "fd00::77",
    "100.127.0.1",
    "224.0.0.9",
];

fn pick<'a, T: ?Sized>(random: &mut Seeded, from: &[&'a T]) -> &'a T {
    from[random.index(from.len())]
}

fn chance(random: &mut Seeded, one_in: usize) -> bool {
    random.index(one_in) == 0
}

/// Returns a random inventory of up to eight nodes.
pub(crate) fn inventory(random: &mut Seeded) -> Inventory {
    let nodes = (1..=1 + random.index(8)).map(|number| node(random, number)).collect();
    let roles = [Role::Owner, Role::Admin, Role::Auditor, Role::Member, Role::Member, Role::ItAdmin];
    let mut users = Vec::new();
    for name in USERS {
        if !chance(random, 4) {
            let all = ["it", "it@example.com", "x", "x@other.org", "IT"];
            let groups = (0..random.index(3)).map(|_| String::from(pick(random, &all))).collect();
            users.push(UserFacts { name: String::from(name), role: roles[random.index(roles.len())], groups });
        }
    }
    let prefixes = ["100.64.0.0/24", "fd00::/64"].iter().map(|prefix| prefix.parse().unwrap());
    let prefixes = if chance(random, 2) { prefixes.collect() } else { Vec::new() };
    Inventory { nodes, users, prefixes, ..Inventory::default() }
}

fn node(random: &mut Seeded, number: usize) -> NodeFacts {
    let mut addresses: Vec<IpAddr> =
        vec![format!("100.64.0.{number}").parse().unwrap(), format!("fd00::{number:x}").parse().unwrap()];
    if chance(random, 6) {
        addresses.remove(random.index(2));
    }
    let mut tags = Vec::new();
    while chance(random, 3) {
        tags.push(String::from(pick(random, &TAGS)));
    }
    let user = (!chance(random, 4)).then(|| String::from(pick(random, &USERS)));
    let mut routes = Vec::new();
    while chance(random, 2) {
        routes.push(pick(random, &ROUTES).parse().unwrap());
    }
    NodeFacts { name: format!("n{number}"), addresses, user, tags, routes }
}

/// Returns the text of a random policy.
pub(crate) fn policy(random: &mut Seeded) -> String {
    let mut text = String::from("{ // random\n\"groups\": {");
    for group in &GROUPS[..3] {
        let members = if *group == "group:none" { 0 } else { random.index(4) };
        let members: Vec<String> = (0..members).map(|_| user(random)).collect();
        let _ = write!(text, "\"{group}\": {members:?},");
    }
    text.push_str("},\n\"tagOwners\": {");
    TAGS.iter().for_each(|tag| text.push_str(&format!("\"{tag}\": [],")));
    text.push_str("},\n\"hosts\": {");
    HOSTS.iter().for_each(|(name, address)| text.push_str(&format!("\"{name}\": \"{address}\",")));
    text.push_str("},\n\"ipsets\": {");
    for (place, set) in SETS.iter().enumerate() {
        let steps: Vec<String> = (0..random.index(5)).map(|_| step(random, &SETS[..place])).collect();
        let _ = write!(text, "\"{set}\": {steps:?},");
    }
    text.push_str("},\n\"acls\": [");
    (0..random.index(8)).for_each(|_| text.push_str(&acl(random)));
    text.push_str("],\n\"grants\": [");
    (0..random.index(8)).for_each(|_| text.push_str(&grant(random)));
    text.push_str("]}");
    text
}

fn user(random: &mut Seeded) -> String {
    let user = pick(random, &USERS);
    if user.contains('@') { String::from(user) } else { format!("{user}@") }
}

fn step(random: &mut Seeded, sets: &[&str]) -> String {
    let target = match random.index(6) {
        0 => String::from("autogroup:internet"),
        1 => format!("host:{}", HOSTS[random.index(HOSTS.len())].0),
        2 if !sets.is_empty() => String::from(pick(random, sets)),
        3 => String::from(pick(random, &RANGES)),
        _ => String::from(pick(random, &PREFIXES)),
    };
    let step = pick(random, &["add ", "", "add ", "remove "]);
    format!("{step}{target}")
}

/// Returns a selector that both sides may have.
fn selector(random: &mut Seeded) -> String {
    let autogroups = ["member", "tagged", "owner", "admin", "auditor", "it-admin", "network-admin", "members"];
    match random.index(11) {
        0 | 1 => user(random),
        2 | 3 => String::from(pick(random, &GROUPS)),
        4 | 5 => String::from(pick(random, &TAGS)),
        6 => format!("autogroup:{}", pick(random, &autogroups)),
        7 => String::from(HOSTS[random.index(HOSTS.len())].0),
        8 => String::from(pick(random, &SETS)),
        9 => String::from(pick(random, &PREFIXES)),
        _ => String::from(pick(random, &["*", "user:*@example.com", "user:*@other.org"])),
    }
}

fn source(random: &mut Seeded) -> String {
    match random.index(12) {
        0 => String::from(pick(random, &["autogroup:danger-all", "autogroup:shared", "*"])),
        _ => selector(random),
    }
}

fn person(random: &mut Seeded, any: bool) -> String {
    let more = if any { "*" } else { "autogroup:member" };
    match random.index(3) {
        0 => user(random),
        1 => String::from(pick(random, &GROUPS)),
        _ => String::from(pick(random, &["autogroup:member", "autogroup:admin", "user:*@example.com", more])),
    }
}

fn many(random: &mut Seeded, mut one: impl FnMut(&mut Seeded) -> String) -> Vec<String> {
    (0..1 + random.index(3)).map(|_| one(random)).collect()
}

fn acl(random: &mut Seeded) -> String {
    let to_self = chance(random, 4);
    let src = many(random, |random| if to_self { person(random, true) } else { source(random) });
    let proto = pick(random, &["", "", "", "tcp", "udp", "sctp", "icmp", "47"]);
    let has_ports = !matches!(proto, "icmp" | "47");
    let dst = many(random, |random| {
        let host = match random.index(4) {
            0 if to_self => String::from("autogroup:self"),
            1 => String::from(pick(random, &["autogroup:internet", "*", "*"])),
            _ => selector(random),
        };
        let host = if host.parse::<std::net::Ipv6Addr>().is_ok() { format!("[{host}]") } else { host };
        format!("{host}:{}", if has_ports { pick(random, &PORTS) } else { "*" })
    });
    format!("{{\"action\": \"accept\", \"src\": {src:?}, \"dst\": {dst:?}, \"proto\": {proto:?}}},\n")
}

fn grant(random: &mut Seeded) -> String {
    let to_self = chance(random, 4);
    let src = many(random, |random| if to_self { person(random, false) } else { source(random) });
    let dst = many(random, |random| match random.index(4) {
        0 if to_self => String::from("autogroup:self"),
        1 => String::from(pick(random, &["autogroup:internet", "*"])),
        _ => selector(random),
    });
    let ip = many(random, |random| String::from(pick(random, &SERVICES)));
    format!("{{\"src\": {src:?}, \"dst\": {dst:?}, \"ip\": {ip:?}}},\n")
}

/// Returns a packet whose addresses are mostly those of nodes, or behind nodes.
pub(crate) fn packet(random: &mut Seeded, inventory: &Inventory) -> Packet {
    let src = address(random, inventory, None);
    Packet {
        src,
        dst: address(random, inventory, Some(src)),
        proto: PROTOCOLS[random.index(PROTOCOLS.len())],
        port: PACKET_PORTS[random.index(PACKET_PORTS.len())],
    }
}

/// Returns an address, of the family of the other if there is one.
fn address(random: &mut Seeded, inventory: &Inventory, other: Option<IpAddr>) -> IpAddr {
    loop {
        let node = &inventory.nodes[random.index(inventory.nodes.len())];
        let address = match random.index(4) {
            0 => pick(random, &ADDRESSES).parse().unwrap(),
            _ => node.addresses[random.index(node.addresses.len())],
        };
        if other.is_none_or(|other: IpAddr| other.is_ipv4() == address.is_ipv4()) {
            return address;
        }
    }
}

/// Compares the compiler with the oracle for one random policy and this many packets. Returns the number of packets that are allowed.
pub(crate) fn compare(seed: u64, packets: usize) -> Result<usize, String> {
    let random = &mut Seeded::new(seed);
    let (inventory, text) = (inventory(random), policy(random));
    let policy = taut_policy::Policy::parse(&text).map_err(|error| format!("seed {seed}: {error}\n{text}"))?;
    let compiled = taut_policy::compile(&policy, &inventory);
    let filters: Vec<_> = (0..inventory.nodes.len()).map(|node| compiled.filter(node)).collect();
    let mut allowed = 0;
    for _ in 0..packets {
        let packet = packet(random, &inventory);
        // Mostly the node that has the address: others refuse almost everything.
        let own = inventory.nodes.iter().position(|node| node.addresses.contains(&packet.dst));
        let node = own.filter(|_| random.index(8) > 0).unwrap_or_else(|| random.index(inventory.nodes.len()));
        let wanted = taut_policy::oracle::allows(&policy, &inventory, node, &packet);
        let by_filter = filters[node].allows(&packet);
        let by_rule = compiled.deciding_rule(node, &packet).is_some();
        if by_filter != wanted || by_rule != wanted {
            return Err(format!(
                "seed {seed}: {packet:?} at n{}: oracle {wanted}, filter {by_filter}, rule {by_rule}\n{text}\n{inventory:?}\n{:?}",
                node + 1,
                filters[node]
            ));
        }
        let sender = inventory.nodes.iter().position(|node| node.addresses.contains(&packet.src));
        let knows = |sender: usize| compiled.are_peers(sender, node) && compiled.are_peers(node, sender);
        if wanted && sender.is_some_and(|sender| sender != node && !knows(sender)) {
            return Err(format!(
                "seed {seed}: {packet:?} reaches n{} from a node that is not its peer\n{text}",
                node + 1
            ));
        }
        allowed += usize::from(wanted);
    }
    Ok(allowed)
}

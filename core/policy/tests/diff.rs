//! The difference between two policies.
#![expect(clippy::unwrap_used, reason = "tests may stop at the first surprise")]

use taut_policy::{Change, End, Inventory, Packet, Policy, Service, compile, diff};
use taut_testkit::Seeded;

#[allow(dead_code, reason = "the comparison with the oracle is another test's")]
#[path = "common/random.rs"]
mod random;

const NETWORK: &str = r#"{"nodes": [
    {"name": "ann1", "addresses": ["100.64.0.1", "fd00::1"], "user": "ann@example.com"},
    {"name": "bob1", "addresses": ["100.64.0.2", "fd00::2"], "user": "bob@example.com"},
    {"name": "web", "addresses": ["100.64.0.3", "fd00::3"], "tags": ["tag:web"], "routes": ["10.33.0.0/16"]},
    {"name": "exit", "addresses": ["100.64.0.4"], "tags": ["tag:exit"], "routes": ["0.0.0.0/0"]}
]}"#;

fn inventory() -> Inventory {
    serde_json::from_str(NETWORK).unwrap()
}

fn policy(rules: &str) -> Policy {
    Policy::parse(&format!("{{\"tagOwners\": {{\"tag:web\": [], \"tag:exit\": []}}, \"grants\": [{rules}]}}")).unwrap()
}

fn grant(src: &str, dst: &str, ip: &str) -> String {
    format!("{{\"src\": [\"{src}\"], \"dst\": [\"{dst}\"], \"ip\": [\"{ip}\"]}},")
}

/// Returns the changes as lines.
fn lines(old: &str, new: &str) -> Vec<String> {
    let inventory = inventory();
    diff(&policy(old), &policy(new), &inventory, 100).changes.iter().map(|change| line(change, &inventory)).collect()
}

fn line(change: &Change, inventory: &Inventory) -> String {
    let end = |end: &End| {
        let name = end.node.map_or("outside", |node| inventory.nodes[node].name.as_str());
        let addresses: Vec<String> = end.addresses.iter().map(ToString::to_string).collect();
        format!("{name}[{}]", addresses.join(" "))
    };
    let services = |services: &[Service]| services.iter().map(Service::to_string).collect::<Vec<_>>().join(" ");
    format!("{}>{} +{} -{}", end(&change.from), end(&change.to), services(&change.gained), services(&change.lost))
}

#[test]
fn equal_policies_change_nothing() {
    let rules = grant("*", "*", "*");
    assert_eq!(lines(&rules, &rules), Vec::<String>::new());
    let twice = format!("{rules}{rules}");
    assert_eq!(lines(&rules, &twice), Vec::<String>::new());
    let split = grant("ann@example.com", "*", "*") + &grant("bob@example.com", "*", "*") + &grant("*", "*", "*");
    assert_eq!(lines(&rules, &split), Vec::<String>::new());
}

#[test]
fn pairs_gain_and_lose() {
    let old = grant("ann@example.com", "tag:web", "tcp:22") + &grant("ann@example.com", "tag:web", "80");
    let new = grant("ann@example.com", "tag:web", "80-81") + &grant("bob@example.com", "tag:web", "443");
    assert_eq!(lines(&old, &new), ["ann1[]>web[] +81 -tcp:22", "bob1[]>web[] +443 -"]);
    assert_eq!(lines(&new, &old), ["ann1[]>web[] +tcp:22 -81", "bob1[]>web[] + -443"]);
}

#[test]
fn one_family_is_named() {
    let changes = lines("", &grant("100.64.0.1", "fd00::3", "22"));
    assert_eq!(changes, Vec::<String>::new(), "no packet has both families");
    assert_eq!(lines("", &grant("ann@example.com", "fd00::3", "22")), ["ann1[]>web[fd00::3/128] +22 -"]);
}

#[test]
fn subnets_and_the_internet_are_named() {
    assert_eq!(lines("", &grant("bob@example.com", "10.33.8.0/24", "22")), ["bob1[]>web[10.33.8.0/24] +22 -"]);
    let (old, new) = (grant("bob@example.com", "10.33.0.0/16", "22"), grant("bob@example.com", "10.33.128.0/17", "22"));
    assert_eq!(lines(&old, &new), ["bob1[]>web[10.33.0.0/17] + -22"]);
    let changes = lines(&grant("bob@example.com", "8.0.0.0/8", "22"), "");
    assert_eq!(changes, ["bob1[]>exit[8.0.0.0/8] + -22"]);
}

#[test]
fn sources_outside_are_named() {
    assert_eq!(lines("", &grant("10.33.0.0/24", "bob@example.com", "22")), ["outside[10.33.0.0/24]>bob1[] +22 -"]);
    let any = lines("", &grant("*", "bob@example.com", "22"));
    assert!(any.contains(&String::from("outside[10.33.0.0/16]>bob1[] +22 -")) && any.len() == 4, "{any:?}");
}

#[test]
fn changes_are_limited_and_counted() {
    let found = diff(&policy(""), &policy(&grant("*", "*", "*")), &inventory(), 3);
    assert_eq!(found.changes.len(), 3);
    let all = diff(&policy(""), &policy(&grant("*", "*", "*")), &inventory(), 1000);
    assert_eq!((found.changes.len() + found.more, all.more), (all.changes.len(), 0));
}

/// Returns true if the changes say that this packet is newly allowed, or newly denied.
fn named(
    changes: &[Change],
    node: usize,
    sender: Option<usize>,
    packet: &Packet,
    inventory: &Inventory,
) -> (bool, bool) {
    let has = |end: &End, node: Option<usize>, address| {
        let own = |node: usize| inventory.nodes[node].addresses.contains(&address);
        end.node == node
            && (end.addresses.iter().any(|prefix| prefix.contains(address))
                || (end.addresses.is_empty() && node.is_some_and(own)))
    };
    let open = |services: &[Service]| {
        services.iter().any(|service| {
            service.proto.map_or([1, 6, 17, 58].contains(&packet.proto), |proto| proto == packet.proto)
                && service.ports.iter().any(|(first, last)| (*first..=*last).contains(&packet.port))
        })
    };
    let of_pair = changes
        .iter()
        .filter(|change| has(&change.to, Some(node), packet.dst) && has(&change.from, sender, packet.src));
    let (mut gained, mut lost) = (false, false);
    for change in of_pair {
        gained |= open(&change.gained);
        lost |= open(&change.lost);
    }
    (gained, lost)
}

#[test]
fn differences_are_those_of_the_verdicts() {
    let mut changed = 0;
    for seed in taut_testkit::seeds(150, 3_000) {
        let random = &mut Seeded::new(seed);
        let mut inventory = random::inventory(random);
        inventory.prefixes.clear();
        let (old, new) =
            (Policy::parse(&random::policy(random)).unwrap(), Policy::parse(&random::policy(random)).unwrap());
        let changes = diff(&old, &new, &inventory, usize::MAX).changes;
        let (old, new) = (compile(&old, &inventory), compile(&new, &inventory));
        for _ in 0..100 {
            let packet = random::packet(random, &inventory);
            // ICMP is allowed wherever another service is, so it is not listed as a service of its own.
            if ![6, 17].contains(&packet.proto) {
                continue;
            }
            let sender = inventory.nodes.iter().position(|node| node.addresses.contains(&packet.src));
            for node in (0..inventory.nodes.len()).filter(|node| Some(*node) != sender) {
                let (before, after) =
                    (old.deciding_rule(node, &packet).is_some(), new.deciding_rule(node, &packet).is_some());
                let wanted = (!before && after, before && !after);
                assert_eq!(
                    named(&changes, node, sender, &packet, &inventory),
                    wanted,
                    "seed {seed}: {packet:?} at {node}"
                );
                changed += usize::from(before != after);
            }
        }
    }
    assert!(changed > 100, "{changed}");
}

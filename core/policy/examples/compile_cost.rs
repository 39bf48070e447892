//! Prints what it costs to compile a policy of 2,000 rules for 2,000 nodes: time and memory, for a policy as a company has it and for the worst case that was
//! found.
//!
//!     cargo run --release -p taut-policy --example compile_cost
#![expect(clippy::unwrap_used, reason = "the policies are well-formed")]

use std::fmt::Write;
use std::time::Instant;

use taut_policy::{Inventory, NodeFacts, Policy, compile};

const RULES: usize = 2_000;
const NODES: usize = 2_000;
const USERS: usize = 400;
const GROUPS: usize = 200;
const TAGS: usize = 100;

fn main() {
    let inventory = inventory();
    println!(
        "policy, parse ms, compile ms, all filters ms, rules in filters, parts of the largest filter, pairs, peak MB"
    );
    for (name, text) in [("company", company()), ("worst", worst())] {
        measure(name, &text, &inventory);
    }
}

fn measure(name: &str, text: &str, inventory: &Inventory) {
    let start = Instant::now();
    let policy = Policy::parse(text).unwrap();
    let parsed = start.elapsed();
    let compiled = compile(&policy, inventory);
    let compiled_after = start.elapsed();
    let (mut rules, mut largest) = (0, 0);
    for node in 0..NODES {
        let filter = compiled.filter(node);
        rules += filter.rules.len();
        largest = largest.max(filter.parts());
    }
    let all = start.elapsed();
    let pairs: usize = (0..NODES).map(|node| compiled.peers(node).count()).sum();
    let ms = |duration: std::time::Duration| duration.as_secs_f64() * 1e3;
    println!(
        "{name}, {:.0}, {:.0}, {:.0}, {rules}, {largest}, {}, {}",
        ms(parsed),
        ms(compiled_after - parsed),
        ms(all - compiled_after),
        pairs / 2,
        peak_megabytes()
    );
}

/// Returns the largest resident size of this process so far, in MB.
fn peak_megabytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok())
        .map_or(0, |kilobytes| kilobytes / 1024)
}

fn inventory() -> Inventory {
    // Addresses are not in the order of the nodes, as after years of joining and leaving.
    let shuffled = |number: usize| (number * 1_237) % NODES;
    let node = |number: usize| {
        let place = shuffled(number);
        NodeFacts {
            name: format!("n{number}"),
            addresses: vec![
                format!("100.64.{}.{}", place / 250, place % 250 + 1).parse().unwrap(),
                format!("fd00::{place:x}").parse().unwrap(),
            ],
            user: (!number.is_multiple_of(4)).then(|| format!("user{}@example.com", number % USERS)),
            tags: if number.is_multiple_of(4) { vec![format!("tag:t{}", number / 4 % TAGS)] } else { Vec::new() },
            routes: if number.is_multiple_of(100) {
                vec![format!("10.{}.0.0/16", number / 100).parse().unwrap()]
            } else {
                Vec::new()
            },
        }
    };
    Inventory { nodes: (0..NODES).map(node).collect(), ..Inventory::default() }
}

fn names(text: &mut String) {
    text.push_str("{\"groups\": {");
    for group in 0..GROUPS {
        let members: Vec<String> =
            (0..10).map(|member| format!("user{}@example.com", (group * 7 + member * 13) % USERS)).collect();
        let _ = write!(text, "\"group:g{group}\": {members:?},");
    }
    text.push_str("}, \"tagOwners\": {");
    (0..TAGS).for_each(|tag| text.push_str(&format!("\"tag:t{tag}\": [],")));
    text.push_str("}, \"grants\": [");
}

/// Rules from groups to tags, some for everyone, some for subnets, some for people's own nodes.
fn company() -> String {
    let mut text = String::new();
    names(&mut text);
    for rule in 0..RULES {
        let (group, tag, port) = (rule % GROUPS, rule * 3 % TAGS, 1_000 + rule);
        let _ = match rule % 20 {
            0 => {
                writeln!(text, "{{\"src\": [\"autogroup:member\"], \"dst\": [\"tag:t{tag}\"], \"ip\": [\"{port}\"]}},")
            }
            1 => writeln!(
                text,
                "{{\"src\": [\"group:g{group}\"], \"dst\": [\"10.{}.0.0/16\"], \"ip\": [\"tcp:{port}\"]}},",
                rule % 20
            ),
            2 => writeln!(text, "{{\"src\": [\"group:g{group}\"], \"dst\": [\"autogroup:self\"], \"ip\": [\"*\"]}},"),
            3 => writeln!(text, "{{\"src\": [\"tag:t{tag}\"], \"dst\": [\"*\"], \"ip\": [\"{port}\"]}},"),
            _ => writeln!(
                text,
                "{{\"src\": [\"group:g{group}\", \"tag:t{}\"], \"dst\": [\"tag:t{tag}\"], \"ip\": [\"tcp:{port}\", \"udp:{port}\"]}},",
                (tag + 1) % TAGS
            ),
        };
    }
    text.push_str("]}");
    text
}

/// Every rule is for every node, from its own set of people, with its own port.
fn worst() -> String {
    let mut text = String::new();
    names(&mut text);
    for rule in 0..RULES {
        let users: Vec<String> =
            (0..4).map(|user| format!("user{}@example.com", (rule * (user + 1) + user) % USERS)).collect();
        let _ = writeln!(text, "{{\"src\": {users:?}, \"dst\": [\"*\"], \"ip\": [\"{}\"]}},", 1_000 + rule);
    }
    text.push_str("]}");
    text
}

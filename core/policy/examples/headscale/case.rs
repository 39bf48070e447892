//! Random cases in the part of the language that headscale knows too: a policy, the nodes of a network, and packets.

use std::fmt::{self, Write};

use taut_base::Prefix;
use taut_policy::{Compiled, Inventory, NodeFacts};
use taut_testkit::Seeded;

use crate::left_out;
use crate::packets::{self, Received};
use crate::words::{self, chance, pick};

/// Prefixes of the network: those that headscale gives addresses from, and means by `*` as a source.
const NETWORK: [&str; 2] = ["100.64.0.0/10", "fd7a:115c:a1e0::/48"];

/// Limit on the nodes of a case.
const NODES: usize = 8;

/// Limit on the rules of each section.
const RULES: usize = 6;

/// One policy of so many has a mistake.
const MISTAKES: usize = 20;

/// A policy, the nodes that it is applied to, and packets. The lists are separate so that a difference can be made smaller.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) groups: Vec<(&'static str, Vec<String>)>,
    pub(crate) acls: Vec<Acl>,
    pub(crate) grants: Vec<Grant>,
    pub(crate) nodes: Vec<NodeFacts>,
    pub(crate) packets: Vec<Received>,
}

/// A rule of `acls`.
#[derive(Clone, Debug)]
pub(crate) struct Acl {
    pub(crate) src: Vec<String>,
    pub(crate) dst: Vec<String>,
    pub(crate) proto: &'static str,
}

/// A rule of `grants`.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) src: Vec<String>,
    pub(crate) dst: Vec<String>,
    pub(crate) ip: Vec<String>,
}

impl Case {
    /// Returns the case of this seed, with this many packets.
    pub(crate) fn random(seed: u64, packets: usize) -> Self {
        let random = &mut Seeded::new(seed);
        let groups = words::GROUPS.iter().map(|group| (*group, words::members(random))).collect();
        let mut acls: Vec<Acl> = (0..random.index(RULES + 1)).map(|_| acl(random)).collect();
        let mut grants: Vec<Grant> = (0..random.index(RULES + 1)).map(|_| grant(random)).collect();
        if chance(random, MISTAKES) {
            mistake(random, &mut acls, &mut grants);
        }
        let nodes: Vec<NodeFacts> = (1..=1 + random.index(NODES)).map(|number| node(random, number)).collect();
        let packets = (0..packets).map(|_| packets::received(random, &nodes, &words::PACKET_PORTS)).collect();
        Self { groups, acls, grants, nodes, packets }
    }

    /// Returns the text of the policy.
    pub(crate) fn policy(&self) -> String {
        let mut text = String::from("{ // groups and names\n  \"groups\": {");
        self.groups.iter().for_each(|(group, members)| text.push_str(&format!("\"{group}\": {members:?}, ")));
        text.push_str("},\n  \"tagOwners\": {");
        words::TAGS.iter().for_each(|tag| text.push_str(&format!("\"{tag}\": [], ")));
        text.push_str("},\n  \"hosts\": {");
        words::HOSTS.iter().for_each(|(name, address)| text.push_str(&format!("\"{name}\": \"{address}\", ")));
        text.push_str("},\n  \"acls\": [\n");
        for Acl { src, dst, proto } in &self.acls {
            let proto = if proto.is_empty() { String::new() } else { format!(", \"proto\": \"{proto}\"") };
            let _ = writeln!(text, "    {{\"action\": \"accept\", \"src\": {src:?}, \"dst\": {dst:?}{proto}}},");
        }
        text.push_str("  ],\n  \"grants\": [\n");
        for Grant { src, dst, ip } in &self.grants {
            let _ = writeln!(text, "    {{\"src\": {src:?}, \"dst\": {dst:?}, \"ip\": {ip:?}}},");
        }
        text.push_str("  ],\n}\n");
        text
    }

    /// Returns Taut's answer.
    pub(crate) fn answer(&self) -> Answer {
        let policy = taut_policy::Policy::parse(&self.policy()).map_err(|error| error.to_string())?;
        let compiled = taut_policy::compile(&policy, &inventory(&self.nodes));
        Ok(self.compared(Judged::of(&compiled, self.nodes.len(), &self.packets)))
    }

    /// Returns the part of an answer that is compared.
    pub(crate) fn compared(&self, all: Judged) -> Judged {
        if left_out::compares_peers(self) { all } else { Judged { peers: Vec::new(), ..all } }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.policy())?;
        for NodeFacts { name, addresses, user, tags, routes } in &self.nodes {
            writeln!(f, "  {name} {addresses:?} of {user:?}, tags {tags:?}, routes {routes:?}")?;
        }
        for Received { node, src, dst, proto, port } in &self.packets {
            writeln!(f, "  at n{}: {src} to {dst}, protocol {proto}, port {port}", node + 1)?;
        }
        Ok(())
    }
}

/// The answer of one side: its verdicts, or the reason for which it refuses the policy.
pub(crate) type Answer = Result<Judged, String>;

/// The verdicts of one compiler about a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    /// For each packet, true if it passes.
    pub(crate) verdicts: Vec<bool>,
    /// For each node, the places of the nodes that it knows.
    pub(crate) peers: Vec<Vec<usize>>,
}

impl Judged {
    /// Returns what a compiled policy says to packets, and of so many nodes.
    pub(crate) fn of(compiled: &Compiled, nodes: usize, packets: &[Received]) -> Self {
        let filters: Vec<_> = (0..nodes).map(|node| compiled.filter(node)).collect();
        Self {
            verdicts: packets.iter().map(|of| filters[of.node].allows(&of.packet())).collect(),
            peers: (0..nodes).map(|node| compiled.peers(node).collect()).collect(),
        }
    }
}

/// Returns the inventory with these nodes.
pub(crate) fn inventory(nodes: &[NodeFacts]) -> Inventory {
    let prefixes = NETWORK.iter().filter_map(|prefix| prefix.parse().ok()).collect();
    Inventory { nodes: nodes.to_vec(), prefixes, ..Inventory::default() }
}

fn acl(random: &mut Seeded) -> Acl {
    let to_self = chance(random, 4);
    let src =
        words::several(random, |random| if to_self { words::person(random, true) } else { words::source(random) });
    let proto = pick(random, &words::PROTOCOLS);
    let dst = words::several(random, |random| {
        let host = words::destination(random, to_self);
        let host = words::bracketed(random, &host);
        format!("{host}:{}", if words::has_ports(proto) { pick(random, &words::PORTS) } else { "*" })
    });
    Acl { src, dst, proto }
}

fn grant(random: &mut Seeded) -> Grant {
    let to_self = chance(random, 4);
    let src =
        words::several(random, |random| if to_self { words::person(random, false) } else { words::source(random) });
    let dst = words::several(random, |random| {
        loop {
            let host = words::destination(random, to_self);
            // Both refuse a default route here, and name `*` instead.
            if !host.ends_with("/0") {
                break host;
            }
        }
    });
    let mut ip = words::several(random, |random| String::from(pick(random, &words::SERVICES)));
    if ip.is_empty() {
        ip.push(String::from("*"));
    }
    Grant { src, dst, ip }
}

/// Adds a rule that both refuse.
fn mistake(random: &mut Seeded, acls: &mut Vec<Acl>, grants: &mut Vec<Grant>) {
    let one = |word: &str| vec![String::from(word)];
    let place = random.index(words::ACL_MISTAKES.len() + words::GRANT_MISTAKES.len());
    if let Some((src, dst, proto)) = words::ACL_MISTAKES.get(place) {
        acls.push(Acl { src: one(src), dst: one(dst), proto });
    } else {
        let (src, dst, ip) = words::GRANT_MISTAKES[place - words::ACL_MISTAKES.len()];
        grants.push(Grant { src: one(src), dst: one(dst), ip: one(ip) });
    }
}

/// Returns a node: with an owner or tags, as every node of headscale has.
fn node(random: &mut Seeded, number: usize) -> NodeFacts {
    let mut addresses = vec![format!("100.64.0.{number}"), format!("fd7a:115c:a1e0::{number:x}")];
    if chance(random, 6) {
        addresses.remove(random.index(2));
    }
    let mut tags = Vec::new();
    while chance(random, 3) {
        tags.push(String::from(pick(random, &words::NODE_TAGS)));
    }
    let mut routes: Vec<Prefix> = Vec::new();
    while chance(random, 2) {
        routes.extend(pick(random, &words::ROUTES).parse::<Prefix>());
    }
    NodeFacts {
        name: format!("n{number}"),
        addresses: addresses.iter().filter_map(|address| address.parse().ok()).collect(),
        user: Some(String::from(pick(random, &words::USERS))),
        tags,
        routes,
    }
}

//! Runs the tests that a policy contains.
//!
//! A test is about identities, and needs a node for each: the nodes of the inventory, or, if an identity has none, a node that is made up for the test. So a
//! policy can be tested before its nodes exist. `accept` holds if every node of the source reaches every node of the destination; `deny` holds if no node of
//! the source reaches any.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use taut_base::Prefix;

use crate::compile::{Compiled, compile};
use crate::filter::Packet;
use crate::inventory::{Inventory, NodeFacts, UserFacts, is_login};
use crate::policy::{Policy, PolicyTest, TestTarget};
use crate::protocol::{TCP, UDP, protocol_name};
use crate::resolve::Resolver;
use crate::selector::Selector;

/// Limit on the pairs of nodes that the tests of one policy compare, 250,000: some seconds of work with the largest policy. Without a limit, a thousand tests between groups of a
/// thousand nodes would take hours.
pub(crate) const MAX_PAIRS: u32 = 250_000;

/// The first addresses of made-up nodes. Further ones count down from here, because real nodes rarely have addresses at the end of the range.
const LAST_FOUR: Ipv4Addr = Ipv4Addr::new(100, 127, 255, 254);
const LAST_SIX: Ipv6Addr = Ipv6Addr::new(0xfd7a, 0x115c, 0xa1e0, 0xffff, 0, 0, 0xffff, 0xffff);

/// The outcome of one `accept` or `deny` entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestOutcome {
    /// The line of the entry.
    pub line: u32,
    /// The connection, such as `ann@example.com -> tag:web:22`.
    pub connection: String,
    /// True for an entry of `accept`.
    pub accept: bool,
    /// The reason for which the entry failed, or `None` if it passed.
    pub failure: Option<String>,
}

/// Runs all tests of a policy.
pub fn run_tests(policy: &Policy, inventory: &Inventory) -> Vec<TestOutcome> {
    if policy.tests.is_empty() {
        return Vec::new();
    }
    let mut stage = Stage::new(inventory);
    let ends = stage.cast(policy);
    let compiled = compile(policy, &stage.inventory);
    let run = Run { ends, compiled, inventory: &stage.inventory, pairs_left: Cell::new(MAX_PAIRS) };
    policy.tests.iter().flat_map(|test| run.test(test)).collect()
}

/// The nodes that stand for a selector, or why there are none. A source address that no node has is an address alone.
#[derive(Clone)]
enum Cast {
    Nodes(Vec<usize>),
    Address(IpAddr),
    Nobody(String),
}

/// The inventory with made-up nodes.
struct Stage<'a> {
    given: &'a Inventory,
    inventory: Inventory,
    used: BTreeSet<IpAddr>,
    four: u32,
    six: u128,
}

/// The nodes or the address that stand for each selector. The key's second part is true for a source.
type Ends = HashMap<(Selector, bool), Cast>;

impl<'a> Stage<'a> {
    fn new(given: &'a Inventory) -> Self {
        let used = given.nodes.iter().flat_map(|node| node.addresses.iter().copied()).collect();
        Self { given, inventory: given.clone(), used, four: LAST_FOUR.to_bits(), six: LAST_SIX.to_bits() }
    }

    fn cast(&mut self, policy: &Policy) -> Ends {
        let resolver = Resolver::new(policy, self.given);
        let mut ends = Ends::new();
        for test in &policy.tests {
            let targets = test.accept.iter().chain(&test.deny).map(|target| (&target.dst, false));
            for (selector, is_source) in [(&test.src, true)].into_iter().chain(targets) {
                // An identity resolves to the same node as a source and as a destination, an address does not.
                let is_source = is_source || !matches!(selector, Selector::Prefix(_) | Selector::Host(_));
                ends.entry((selector.clone(), is_source))
                    .or_insert_with(|| self.one(selector, is_source, policy, &resolver));
            }
        }
        ends
    }

    fn one(&mut self, selector: &Selector, is_source: bool, policy: &Policy, resolver: &Resolver<'_>) -> Cast {
        let address = match selector {
            Selector::Prefix(prefix) => Some(prefix.address()),
            Selector::Host(name) => policy.hosts.get(name).map(|prefix| prefix.address()),
            _ => None,
        };
        if let Some(address) = address {
            return self.address(address, is_source);
        }
        if let Selector::User(word) = selector
            && !self.knows(word)
        {
            return Cast::Nobody(format!("there is no user `{word}`"));
        }
        let real: Vec<usize> = resolver.sources(std::slice::from_ref(selector)).nodes.iter().collect();
        if !real.is_empty() {
            return Cast::Nodes(real);
        }
        self.make_up(selector, policy)
    }

    /// Returns true if a user may exist: one of the inventory, or any if the inventory does not list all users.
    fn knows(&self, word: &str) -> bool {
        let mut owners = self.given.nodes.iter().filter_map(NodeFacts::owner);
        self.given.more_users
            || self.given.users.is_empty()
            || self.given.users.iter().any(|user| is_login(word, &user.name))
            || owners.any(|login| is_login(word, login))
    }

    fn make_up(&mut self, selector: &Selector, policy: &Policy) -> Cast {
        let person = |login: String| (Some(login), Vec::new());
        let (user, tags) = match selector {
            Selector::User(word) => person(word.clone()),
            Selector::Tag(tag) => (None, vec![tag.clone()]),
            Selector::Tagged => (None, vec![String::from("tag:test")]),
            Selector::Group(group) => match policy.groups.get(group).map(|members| members.first()) {
                Some(Some(member)) => person(member.clone()),
                Some(None) => return Cast::Nobody(format!("`{group}` has no members")),
                None => {
                    let name = group.strip_prefix("group:").unwrap_or(group);
                    let login = format!("member-of-{name}");
                    self.add_user(UserFacts {
                        name: login.clone(),
                        groups: vec![String::from(name)],
                        ..UserFacts::default()
                    });
                    person(login)
                }
            },
            Selector::Role(role) => {
                let login = format!("{selector}@test");
                self.add_user(UserFacts { name: login.clone(), role: *role, groups: Vec::new() });
                person(login)
            }
            _ => person(String::from("member@test")),
        };
        let addresses = vec![self.free_four(), self.free_six()];
        Cast::Nodes(vec![self.add(NodeFacts { name: selector.to_string(), addresses, user, tags, routes: Vec::new() })])
    }

    fn add_user(&mut self, user: UserFacts) {
        self.inventory.users.push(user);
    }

    fn add(&mut self, node: NodeFacts) -> usize {
        self.used.extend(node.addresses.iter().copied());
        self.inventory.nodes.push(node);
        self.inventory.nodes.len() - 1
    }

    /// Returns the node that has an address. A destination that no node has is put behind a made-up node. A source that no node has becomes a made-up node
    /// if it is an address of the network, or if there are no nodes at all.
    fn address(&mut self, address: IpAddr, is_source: bool) -> Cast {
        let node = NodeFacts { name: address.to_string(), ..NodeFacts::default() };
        if let Some(owner) = self.inventory.nodes.iter().position(|node| node.addresses.contains(&address)) {
            return Cast::Nodes(vec![owner]);
        }
        let ours = self.given.nodes.is_empty() || self.given.prefixes.iter().any(|prefix| prefix.contains(address));
        if ours {
            return Cast::Nodes(vec![self.add(NodeFacts { addresses: vec![address], ..node })]);
        }
        if !is_source
            && !self.inventory.nodes.iter().any(|node| node.routes.iter().any(|route| route.contains(address)))
        {
            self.add(NodeFacts { routes: vec![Prefix::host(address)], ..node });
        }
        Cast::Address(address)
    }

    fn free_four(&mut self) -> IpAddr {
        loop {
            let address = IpAddr::V4(self.four.into());
            self.four -= 1;
            if !self.used.contains(&address) {
                return address;
            }
        }
    }

    fn free_six(&mut self) -> IpAddr {
        loop {
            let address = IpAddr::V6(self.six.into());
            self.six -= 1;
            if !self.used.contains(&address) {
                return address;
            }
        }
    }
}

/// A run of the tests on a stage.
struct Run<'a> {
    ends: Ends,
    compiled: Compiled,
    inventory: &'a Inventory,
    /// Pairs that may still be compared.
    pairs_left: Cell<u32>,
}

impl Run<'_> {
    fn test(&self, test: &PolicyTest) -> Vec<TestOutcome> {
        let accept = test.accept.iter().map(|target| self.entry(test, target, true));
        accept.chain(test.deny.iter().map(|target| self.entry(test, target, false))).collect()
    }

    fn entry(&self, test: &PolicyTest, target: &TestTarget, accept: bool) -> TestOutcome {
        let proto = test.proto.map_or_else(String::new, |proto| format!(" ({})", protocol_name(proto)));
        let connection = format!("{} -> {}{proto}", test.src, host_and_port(&target.dst, target.port));
        let is_source = !matches!(target.dst, Selector::Prefix(_) | Selector::Host(_));
        let failure = match (self.ends.get(&(test.src.clone(), true)), self.ends.get(&(target.dst.clone(), is_source)))
        {
            (Some(Cast::Nobody(why)), _) | (_, Some(Cast::Nobody(why))) => Some(why.clone()),
            (Some(from), Some(to)) => self.failure(test, target, accept, from, to),
            _ => None,
        };
        TestOutcome { line: target.line, connection, accept, failure }
    }

    /// Returns the reason for which an entry fails: the first pair of nodes with the wrong result. `None` if the entry holds.
    fn failure(&self, test: &PolicyTest, target: &TestTarget, accept: bool, from: &Cast, to: &Cast) -> Option<String> {
        for (from_name, sources) in self.parties(from) {
            for (to_name, destinations) in self.parties(to) {
                let Some(left) = self.pairs_left.get().checked_sub(1) else {
                    return Some(format!(
                        "the tests of one policy compare up to {MAX_PAIRS} pairs of nodes; test smaller groups"
                    ));
                };
                self.pairs_left.set(left);
                let rule = self.rule(test, target, &sources, &destinations);
                let pair = format!("{from_name} to {to_name}");
                match (accept, rule) {
                    (true, None) => return Some(format!("denied from {pair}: no rule allows it")),
                    (false, Some(line)) => return Some(format!("allowed from {pair} by the rule at line {line}")),
                    _ => {}
                }
            }
        }
        None
    }

    /// Returns the name and the addresses of each node.
    fn parties(&self, cast: &Cast) -> Vec<(String, Vec<IpAddr>)> {
        let node = |node: &usize| {
            let node = &self.inventory.nodes[*node];
            (node.name.clone(), node.addresses.clone())
        };
        match cast {
            Cast::Nodes(nodes) => nodes.iter().map(node).collect(),
            Cast::Address(address) => vec![(address.to_string(), vec![*address])],
            Cast::Nobody(_) => Vec::new(),
        }
    }

    /// Returns the line of the rule that allows the connection between some of these addresses.
    fn rule(&self, test: &PolicyTest, target: &TestTarget, sources: &[IpAddr], destinations: &[IpAddr]) -> Option<u32> {
        let protos = test.proto.map_or(vec![TCP, UDP], |proto| vec![proto]);
        for (src, dst) in sources.iter().flat_map(|src| destinations.iter().map(move |dst| (*src, *dst))) {
            for proto in protos.iter().filter(|_| src.is_ipv4() == dst.is_ipv4()) {
                // ICMP of IPv4 in a test means ICMP of either family.
                let proto =
                    if *proto == crate::protocol::ICMP && dst.is_ipv6() { crate::protocol::ICMPV6 } else { *proto };
                let packet = Packet { src, dst, proto, port: target.port };
                if let Some(rule) = self.compiled.explain(&packet).rule {
                    return Some(rule.line);
                }
            }
        }
        None
    }
}

/// Returns a destination as tests write it.
fn host_and_port(dst: &Selector, port: u16) -> String {
    match dst {
        Selector::Prefix(prefix) if prefix.address().is_ipv6() => format!("[{}]:{port}", prefix.address()),
        dst => format!("{dst}:{port}"),
    }
}

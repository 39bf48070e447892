//! Compiles a policy and an inventory into the rules that each node enforces.
//!
//! Sources, services and destinations are resolved once and shared. A node keeps only numbers of them ([`Entry`]), because a filter with all its prefixes is
//! large: [`Compiled::filter`] builds one node's filter when it is asked for.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use taut_base::Prefix;

use crate::addresses::AddressSet;
use crate::filter::{Packet, allows_port};
use crate::internet::internet;
use crate::inventory::{Inventory, NodeFacts};
use crate::node_set::NodeSet;
use crate::policy::{Origin, Policy, Service};
use crate::protocol::{DEFAULT_PROTOCOLS, is_icmp_of};
use crate::resolve::{Resolved, Resolver};
use crate::selector::Selector;

/// The target of an [`Entry`] that stands for the node's own addresses.
pub(crate) const OWN: u32 = u32::MAX;

/// A policy, applied to an inventory.
pub struct Compiled {
    pub(crate) origins: Vec<Origin>,
    pub(crate) sources: Vec<Source>,
    pub(crate) services: Vec<Vec<Service>>,
    pub(crate) targets: Vec<AddressSet>,
    pub(crate) nodes: Vec<NodeRules>,
    /// The nodes that own an address.
    pub(crate) owners: HashMap<IpAddr, usize>,
    seen: Vec<NodeSet>,
}

/// The sources of rules.
pub(crate) struct Source {
    /// Nodes that the selectors stand for.
    pub(crate) nodes: NodeSet,
    /// Addresses that the selectors name directly, without regard to the node that has them.
    pub(crate) addresses: AddressSet,
    /// All addresses, of the nodes as well.
    pub(crate) prefixes: Vec<Prefix>,
    /// All nodes that send from one of the addresses, their own or one behind them.
    senders: NodeSet,
}

/// The rules that one node enforces.
pub(crate) struct NodeRules {
    /// The node's own addresses.
    pub(crate) own: AddressSet,
    /// All addresses for which the node receives packets: its own, and those behind it. A default route stands for the internet.
    pub(crate) reach: AddressSet,
    /// True if it has a default route.
    is_exit: bool,
    pub(crate) entries: Vec<Entry>,
}

/// A part of a rule that matters to a node, as numbers of shared lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) source: u32,
    pub(crate) services: u32,
    /// A list of addresses of which the node has some, or [`OWN`].
    pub(crate) target: u32,
    pub(crate) rule: u32,
}

/// Applies a policy to an inventory.
pub fn compile(policy: &Policy, inventory: &Inventory) -> Compiled {
    let resolver = Resolver::new(policy, inventory);
    let mut work = Work::new(inventory);
    for (rule, text) in policy.rules.iter().enumerate() {
        let rule = number(rule);
        let source = work.source(&text.src, &resolver);
        for access in &text.access {
            let services = work.services(&access.services);
            let found = resolver.destinations(&access.dst);
            for node in found.nodes.iter() {
                work.nodes[node].entries.push(Entry { source, services, target: OWN, rule });
            }
            if !found.addresses.is_empty() {
                work.add_target(&found.addresses, |target| Entry { source, services, target, rule });
            }
            if access.dst.contains(&Selector::Myself) {
                for owned in resolver.owned() {
                    work.add_self(owned, Entry { source, services, target: OWN, rule });
                }
            }
        }
    }
    work.finish(policy)
}

/// Converts an index in a shared list for an [`Entry`]. It always fits, because no list is longer than the policy's text in bytes.
fn number(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(OWN)
}

/// The state of a compilation: the shared lists while they grow.
struct Work<'a> {
    inventory: &'a Inventory,
    sources: Vec<Source>,
    by_words: HashMap<Vec<Selector>, u32>,
    by_nodes: HashMap<NodeSet, u32>,
    services: Vec<Vec<Service>>,
    by_services: HashMap<Vec<Service>, u32>,
    targets: Vec<AddressSet>,
    by_target: HashMap<AddressSet, (u32, Vec<usize>)>,
    nodes: Vec<NodeRules>,
    /// Nodes with addresses behind them.
    routers: Vec<usize>,
    owners: HashMap<IpAddr, usize>,
    /// All addresses of nodes, sorted, for lookups by range.
    addresses: BTreeMap<IpAddr, usize>,
}

impl<'a> Work<'a> {
    fn new(inventory: &'a Inventory) -> Self {
        let mut addresses = BTreeMap::new();
        for (index, node) in inventory.nodes.iter().enumerate() {
            for address in &node.addresses {
                addresses.entry(*address).or_insert(index);
            }
        }
        let routers = (0..inventory.nodes.len()).filter(|node| !inventory.nodes[*node].routes.is_empty()).collect();
        Self {
            inventory,
            sources: Vec::new(),
            by_words: HashMap::new(),
            by_nodes: HashMap::new(),
            services: Vec::new(),
            by_services: HashMap::new(),
            targets: Vec::new(),
            by_target: HashMap::new(),
            nodes: inventory.nodes.iter().map(NodeRules::new).collect(),
            routers,
            owners: addresses.iter().map(|(address, node)| (*address, *node)).collect(),
            addresses,
        }
    }

    /// Returns the number of these sources.
    fn source(&mut self, words: &[Selector], resolver: &Resolver<'_>) -> u32 {
        let mut key = words.to_vec();
        key.sort_unstable();
        key.dedup();
        if let Some(source) = self.by_words.get(&key) {
            return *source;
        }
        let source = self.add_source(resolver.sources(&key));
        self.by_words.insert(key, source);
        source
    }

    fn add_source(&mut self, Resolved { nodes, addresses }: Resolved) -> u32 {
        let of_nodes = nodes.iter().flat_map(|node| self.inventory.nodes[node].addresses.iter().copied());
        let all = AddressSet::of_addresses(of_nodes).union(&addresses);
        let mut senders = nodes.clone();
        senders.add(&self.at(&addresses));
        self.sources.push(Source { nodes, addresses, prefixes: all.prefixes(), senders });
        number(self.sources.len() - 1)
    }

    /// Returns the nodes that have one of these addresses, or some behind them.
    fn at(&self, addresses: &AddressSet) -> NodeSet {
        let mut found = NodeSet::new(self.nodes.len());
        for (first, last) in addresses.ranges() {
            self.addresses.range(first..=last).for_each(|(_, node)| found.insert(*node));
        }
        for router in &self.routers {
            if self.nodes[*router].reach.overlaps(addresses) {
                found.insert(*router);
            }
        }
        found
    }

    fn services(&mut self, services: &[Service]) -> u32 {
        if let Some(number) = self.by_services.get(services) {
            return *number;
        }
        self.services.push(services.to_vec());
        let added = number(self.services.len() - 1);
        self.by_services.insert(services.to_vec(), added);
        added
    }

    /// Gives an entry to each node that has some of these addresses.
    fn add_target(&mut self, addresses: &AddressSet, entry: impl Fn(u32) -> Entry) {
        if !self.by_target.contains_key(addresses) {
            let nodes = self.at(addresses).iter().collect();
            self.targets.push(addresses.clone());
            self.by_target.insert(addresses.clone(), (number(self.targets.len() - 1), nodes));
        }
        if let Some((target, nodes)) = self.by_target.get(addresses) {
            for node in nodes {
                self.nodes[*node].entries.push(entry(*target));
            }
        }
    }

    /// Gives an entry to each node of one person, for those of its sources that are nodes of the same person.
    fn add_self(&mut self, owned: &[usize], entry: Entry) {
        let mut nodes = NodeSet::new(self.nodes.len());
        owned.iter().for_each(|node| nodes.insert(*node));
        nodes.keep(&self.sources[entry.source as usize].nodes);
        if nodes.is_empty() {
            return;
        }
        let source = match self.by_nodes.get(&nodes) {
            Some(source) => *source,
            None => {
                let source = self.add_source(Resolved { nodes: nodes.clone(), addresses: AddressSet::default() });
                self.by_nodes.insert(nodes, source);
                source
            }
        };
        for node in owned {
            self.nodes[*node].entries.push(Entry { source, ..entry });
        }
    }

    fn finish(mut self, policy: &Policy) -> Compiled {
        for node in &mut self.nodes {
            node.entries.sort_unstable();
            node.entries.dedup();
        }
        let seen = self.seen();
        Compiled {
            origins: policy.rules.iter().map(|rule| rule.origin).collect(),
            sources: self.sources,
            services: self.services,
            targets: self.targets,
            nodes: self.nodes,
            owners: self.owners,
            seen,
        }
    }

    /// Returns for each node the nodes that it may reach or that may reach it.
    fn seen(&self) -> Vec<NodeSet> {
        let count = self.nodes.len();
        let mut seen: Vec<NodeSet> = Vec::with_capacity(count);
        for node in &self.nodes {
            let mut set = NodeSet::new(count);
            let mut last = None;
            // Entries are sorted by source, so each source is added once.
            for entry in node.entries.iter().filter(|entry| last.replace(entry.source) != Some(entry.source)) {
                set.add(&self.sources[entry.source as usize].senders);
            }
            seen.push(set);
        }
        let receives: Vec<Vec<usize>> = seen.iter().map(|set| set.iter().collect()).collect();
        for (node, senders) in receives.into_iter().enumerate() {
            for sender in senders {
                seen[sender].insert(node);
            }
        }
        seen
    }
}

impl NodeRules {
    fn new(node: &NodeFacts) -> Self {
        let own = AddressSet::of_addresses(node.addresses.iter().copied());
        let mut reach = own.union(&AddressSet::of_prefixes(node.subnets()));
        for exit in node.routes.iter().filter(|route| route.length() == 0) {
            reach = reach.union(&internet().intersection(&AddressSet::of_prefixes([*exit])));
        }
        let is_exit = node.routes.iter().any(|route| route.length() == 0);
        Self { own, reach, is_exit, entries: Vec::new() }
    }
}

impl Compiled {
    /// Returns where the rule of this number stands in the policy.
    pub fn origin(&self, rule: u32) -> Option<Origin> {
        self.origins.get(rule as usize).copied()
    }

    /// Returns the nodes that this node must know: those that it may reach, and those that may reach it, in order. The node itself is not among them.
    pub fn peers(&self, node: usize) -> impl Iterator<Item = usize> {
        self.seen.get(node).into_iter().flat_map(NodeSet::iter).filter(move |other| *other != node)
    }

    /// Returns true if one of these nodes may reach the other, so that each must know the other.
    pub fn are_peers(&self, one: usize, other: usize) -> bool {
        one != other && self.seen.get(one).is_some_and(|set| set.contains(other))
    }

    /// Returns true if a rule lets this node send something to the internet through the other one, which is an exit node.
    pub fn may_use_exit(&self, node: usize, exit: usize) -> bool {
        let Some(rules) = self.nodes.get(exit).filter(|rules| rules.is_exit) else { return false };
        let public = rules.reach.intersection(&internet());
        let is_public = |target: u32| self.targets.get(target as usize).is_some_and(|target| target.overlaps(&public));
        let allows = |entry: &Entry| {
            entry.target != OWN
                && self.sources.get(entry.source as usize).is_some_and(|source| source.senders.contains(node))
                && is_public(entry.target)
        };
        node != exit && rules.entries.iter().any(allows)
    }

    /// Returns the number of the first rule that lets this packet open a flow at a node, or `None` if no rule does.
    pub fn deciding_rule(&self, node: usize, packet: &Packet) -> Option<u32> {
        let rules = self.nodes.get(node).filter(|rules| rules.reach.contains(packet.dst))?;
        let sender = self.owners.get(&packet.src).copied();
        let allows = |entry: &&Entry| self.allows(rules, entry, sender, packet);
        rules.entries.iter().filter(allows).map(|entry| entry.rule).min()
    }

    fn allows(&self, rules: &NodeRules, entry: &Entry, sender: Option<usize>, packet: &Packet) -> bool {
        let source = &self.sources[entry.source as usize];
        let from = sender.is_some_and(|node| source.nodes.contains(node)) || source.addresses.contains(packet.src);
        from && self.has_target(rules, entry, packet.dst)
            && self.services[entry.services as usize].iter().any(|service| service.allows(packet))
    }

    /// Returns true if the entry is about this destination.
    pub(crate) fn has_target(&self, rules: &NodeRules, entry: &Entry, dst: IpAddr) -> bool {
        match entry.target {
            OWN => rules.own.contains(dst),
            target => self.targets[target as usize].contains(dst),
        }
    }
}

impl Service {
    /// Returns true if the service is open for this packet's protocol and port.
    pub(crate) fn allows(&self, packet: &Packet) -> bool {
        if is_icmp_of(packet.proto, packet.dst) {
            return !self.ports.is_empty();
        }
        let named = self.proto.map_or(DEFAULT_PROTOCOLS.contains(&packet.proto), |proto| proto == packet.proto);
        named && allows_port(&self.ports, packet.proto, packet.port)
    }
}

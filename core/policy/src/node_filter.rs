//! Builds the filter of one node.

use std::collections::BTreeMap;

use taut_base::Prefix;

use crate::addresses::AddressSet;
use crate::compile::{Compiled, Entry, NodeRules, OWN};
use crate::filter::{Filter, Rule, Target};
use crate::node_set::NodeSet;
use crate::services::join_ports;

/// Port ranges, sorted and joined.
type Ports = Vec<(u16, u16)>;

/// What is open at each prefix.
type Targets = BTreeMap<Prefix, Ports>;

/// The parts of a filter rule before the sources are prefixes.
struct Draft {
    sources: Vec<u32>,
    protos: Vec<u8>,
    rules: Vec<u32>,
}

impl Compiled {
    /// Returns the filter of a node. It has only prefixes of the node itself or behind it as destinations.
    pub fn filter(&self, node: usize) -> Filter {
        self.filter_with_rules(node).0
    }

    /// Returns the filter of a node, and for each of its rules the numbers of the policy's rules that it comes from (see [`Compiled::origin`]).
    pub fn filter_with_rules(&self, node: usize) -> (Filter, Vec<Vec<u32>>) {
        let Some(rules) = self.nodes.get(node) else { return (Filter::default(), Vec::new()) };
        let mut drafts: Vec<(Draft, Targets)> = self.join_protocols(self.by_source(rules));
        drafts.sort_by(|(one, _), (other, _)| (&one.rules, &one.sources).cmp(&(&other.rules, &other.sources)));
        let (mut filter, mut origins) = (Filter::default(), Vec::new());
        for (draft, targets) in drafts {
            let dst = targets.into_iter().map(|(prefix, ports)| Target { prefix, ports }).collect();
            filter.rules.push(Rule { src: self.prefixes(&draft.sources), proto: draft.protos, dst });
            origins.push(draft.rules);
        }
        (filter, origins)
    }

    /// Joins the entries of a node that have the same sources and protocol.
    fn by_source(&self, rules: &NodeRules) -> BTreeMap<(u32, Option<u8>), (Vec<u32>, Targets)> {
        let mut groups: BTreeMap<(u32, Option<u8>), (Vec<u32>, Targets)> = BTreeMap::new();
        let mut known: BTreeMap<u32, Vec<Prefix>> = BTreeMap::new();
        for entry in &rules.entries {
            if self.sources[entry.source as usize].prefixes.is_empty() {
                continue;
            }
            let prefixes = known.entry(entry.target).or_insert_with(|| self.prefixes_of(rules, entry));
            for service in &self.services[entry.services as usize] {
                let (origins, targets) = groups.entry((entry.source, service.proto)).or_default();
                origins.push(entry.rule);
                for prefix in &*prefixes {
                    targets.entry(*prefix).or_default().extend(&service.ports);
                }
            }
        }
        for (origins, targets) in groups.values_mut() {
            origins.sort_unstable();
            origins.dedup();
            targets.values_mut().for_each(join_ports);
        }
        groups.retain(|_, (_, targets)| !targets.is_empty());
        groups
    }

    /// Returns the addresses of an entry's target that the node has.
    fn prefixes_of(&self, rules: &NodeRules, entry: &Entry) -> Vec<Prefix> {
        match entry.target {
            OWN => rules.own.prefixes(),
            target => rules.reach.intersection(&self.targets[target as usize]).prefixes(),
        }
    }

    /// Joins groups that differ only in their protocol, then groups that differ only in their sources.
    fn join_protocols(&self, groups: BTreeMap<(u32, Option<u8>), (Vec<u32>, Targets)>) -> Vec<(Draft, Targets)> {
        let mut by_targets: BTreeMap<(u32, bool, Targets), (Vec<u8>, Vec<u32>)> = BTreeMap::new();
        for ((source, proto), (rules, targets)) in groups {
            let (protos, origins) = by_targets.entry((source, proto.is_some(), targets)).or_default();
            protos.extend(proto);
            origins.extend(rules);
        }
        let mut by_protos: BTreeMap<(Vec<u8>, Targets), (Vec<u32>, Vec<u32>)> = BTreeMap::new();
        for ((source, _, targets), (protos, rules)) in by_targets {
            let (sources, origins) = by_protos.entry((protos, targets)).or_default();
            sources.push(source);
            origins.extend(rules);
        }
        let draft = |((protos, targets), (sources, mut rules)): ((Vec<u8>, Targets), (Vec<u32>, Vec<u32>))| {
            rules.sort_unstable();
            rules.dedup();
            (Draft { sources, protos, rules }, targets)
        };
        by_protos.into_iter().map(draft).collect()
    }

    /// Returns all addresses of these sources.
    fn prefixes(&self, sources: &[u32]) -> Vec<Prefix> {
        if let [source] = sources {
            return self.sources[*source as usize].prefixes.clone();
        }
        let mut nodes = NodeSet::new(self.nodes.len());
        let mut ranges = Vec::new();
        for source in sources {
            let source = &self.sources[*source as usize];
            nodes.add(&source.nodes);
            ranges.extend(source.addresses.ranges());
        }
        ranges.extend(nodes.iter().flat_map(|node| self.nodes[node].own.ranges()));
        AddressSet::of_ranges(ranges).prefixes()
    }
}

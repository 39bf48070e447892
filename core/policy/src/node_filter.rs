//! Builds the filter of one node.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use taut_base::Prefix;

use crate::addresses::AddressSet;
use crate::compile::{Compiled, Entry, NodeRules, OWN};
use crate::filter::{Filter, Rule, Target};
use crate::node_set::NodeSet;
use crate::services::join_ports;

/// Open ports by the number of a [`Place`], in order.
type Open = Vec<(u32, Vec<(u16, u16)>)>;

/// The addresses of a node that entries are about. Entries that are about the same addresses have the same place.
type Place = Vec<Prefix>;

/// A rule of the filter before its parts are prefixes.
struct Draft {
    sources: Vec<u32>,
    /// Empty for the default protocols.
    protos: Vec<u8>,
    open: Open,
    /// Numbers of the policy's rules that it comes from.
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
        let (places, drafts) = self.drafts(rules);
        // Rules that differ only in their protocol become one, and then those that differ only in their sources.
        let by_source = |one: &Draft, other: &Draft| {
            (&one.sources, one.protos.is_empty(), &one.open).cmp(&(
                &other.sources,
                other.protos.is_empty(),
                &other.open,
            ))
        };
        let drafts = joined(drafts, by_source, |one, other| one.protos.extend(&other.protos));
        let by_proto = |one: &Draft, other: &Draft| (&one.protos, &one.open).cmp(&(&other.protos, &other.open));
        let mut drafts = joined(drafts, by_proto, |one, other| one.sources.extend(&other.sources));
        for draft in &mut drafts {
            draft.rules.sort_unstable();
            draft.rules.dedup();
        }
        drafts.sort_by(|one, other| {
            (&one.rules, &one.sources, &one.protos).cmp(&(&other.rules, &other.sources, &other.protos))
        });
        let (mut filter, mut origins) = (Filter::default(), Vec::new());
        for draft in drafts {
            filter.rules.push(Rule {
                src: self.prefixes(&draft.sources),
                proto: draft.protos,
                dst: targets(&draft.open, &places),
            });
            origins.push(draft.rules);
        }
        (filter, origins)
    }

    /// Returns the places of a node's entries, and a draft for each pair of sources and protocol.
    fn drafts(&self, rules: &NodeRules) -> (Vec<Place>, Vec<Draft>) {
        let (mut places, mut by_target) = (Vec::new(), HashMap::new());
        let mut parts = Vec::new();
        for entry in &rules.entries {
            let place =
                *by_target.entry(entry.target).or_insert_with(|| place(&mut places, self.prefixes_of(rules, entry)));
            if places[place].is_empty() || self.sources[entry.source as usize].prefixes.is_empty() {
                continue;
            }
            let place = u32::try_from(place).unwrap_or(u32::MAX);
            for service in &self.services[entry.services as usize] {
                parts.push((entry.source, service.proto, place, service.ports.as_slice(), entry.rule));
            }
        }
        parts.sort_unstable();
        let drafts = parts.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1)).map(|parts| {
            let mut open = Open::new();
            for (_, _, place, ports, _) in parts {
                match open.last_mut() {
                    Some((last, all)) if last == place => all.extend(*ports),
                    _ => open.push((*place, ports.to_vec())),
                }
            }
            open.iter_mut().for_each(|(_, ports)| join_ports(ports));
            let rules = parts.iter().map(|part| part.4).collect();
            Draft { sources: vec![parts[0].0], protos: parts[0].1.into_iter().collect(), open, rules }
        });
        (places, drafts.collect())
    }

    /// Returns the addresses of an entry's target that the node has.
    fn prefixes_of(&self, rules: &NodeRules, entry: &Entry) -> Vec<Prefix> {
        match entry.target {
            OWN => rules.own.prefixes(),
            target => rules.reach.intersection(&self.targets[target as usize]).prefixes(),
        }
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

/// Returns the number of a place, which is added if it is new.
fn place(places: &mut Vec<Place>, prefixes: Vec<Prefix>) -> usize {
    places.iter().position(|known| *known == prefixes).unwrap_or_else(|| {
        places.push(prefixes);
        places.len() - 1
    })
}

/// Joins drafts that are equal in this order. `add` extends the one part that the order does not look at.
fn joined(
    mut drafts: Vec<Draft>,
    order: impl Fn(&Draft, &Draft) -> Ordering,
    add: impl Fn(&mut Draft, &Draft),
) -> Vec<Draft> {
    drafts.sort_by(&order);
    drafts.dedup_by(|next, before| {
        let same = order(next, before).is_eq();
        if same {
            add(before, next);
            before.rules.append(&mut next.rules);
        }
        same
    });
    drafts
}

/// Returns the open ports of each prefix.
fn targets(open: &Open, places: &[Place]) -> Vec<Target> {
    let mut by_prefix: BTreeMap<Prefix, Vec<(u16, u16)>> = BTreeMap::new();
    for (place, ports) in open {
        for prefix in &places[*place as usize] {
            by_prefix.entry(*prefix).or_default().extend(ports);
        }
    }
    let target = |(prefix, mut ports): (Prefix, Vec<(u16, u16)>)| {
        join_ports(&mut ports);
        Target { prefix, ports }
    };
    by_prefix.into_iter().map(target).collect()
}

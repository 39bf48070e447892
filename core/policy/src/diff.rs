//! Compares two policies: which pairs of nodes gain or lose which services.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use taut_base::Prefix;

use crate::addresses::AddressSet;
use crate::compile::{Compiled, OWN, Source, compile};
use crate::inventory::Inventory;
use crate::policy::{Policy, Service};
use crate::services::{Open, add_service, minus, services};

/// The differences between two policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// The changes, ordered by destination and source, up to the limit of the caller.
    pub changes: Vec<Change>,
    /// Number of further changes.
    pub more: usize,
}

/// The services that one pair gains and loses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The source.
    pub from: End,
    /// The destination.
    pub to: End,
    /// Services that open.
    pub gained: Vec<Service>,
    /// Services that close.
    pub lost: Vec<Service>,
}

/// One end of a pair.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// The node. For a source, `None` means addresses that are not named as a node's. For a destination, it is the node that receives the packets.
    pub node: Option<usize>,
    /// The addresses; empty for all of the node's own addresses.
    pub addresses: Vec<Prefix>,
}

/// Returns the differences for an inventory when the new policy replaces the old one. At most `limit` changes are returned; all are counted.
pub fn diff(old: &Policy, new: &Policy, inventory: &Inventory, limit: usize) -> Diff {
    let (old, new) = (compile(old, inventory), compile(new, inventory));
    let mut found = Diff::default();
    for node in 0..inventory.nodes.len() {
        for change in Receiver::new(&old, &new, node).changes(inventory) {
            if found.changes.len() < limit {
                found.changes.push(change);
            } else {
                found.more += 1;
            }
        }
    }
    found
}

/// An entry of one receiver, resolved to its source, services and addresses.
struct View<'a> {
    source: &'a Source,
    services: &'a [Service],
    target: AddressSet,
}

/// The parts of a view that decide its meaning: views with equal keys mean the same.
type Key<'a> = (&'a [Prefix], &'a [Service], &'a AddressSet);

/// The entries of one node under the old and the new policy.
struct Receiver<'a> {
    node: usize,
    own: &'a AddressSet,
    old: Vec<View<'a>>,
    new: Vec<View<'a>>,
}

/// Addresses that all views of a receiver treat alike.
#[derive(Clone, Copy)]
struct Atom {
    /// The node that has them, if they are the address of a source.
    node: Option<usize>,
    first: IpAddr,
    last: IpAddr,
}

/// Services that open, and services that close.
type Effect = (Vec<Service>, Vec<Service>);

/// The effects on one source, by the node that it is. Each source has the places of the targets that it has this effect on.
type Effects = BTreeMap<(Option<usize>, Effect), Vec<(Atom, Vec<usize>)>>;

impl<'a> Receiver<'a> {
    fn new(old: &'a Compiled, new: &'a Compiled, node: usize) -> Self {
        Self { node, own: &old.nodes[node].own, old: views(old, node), new: views(new, node) }
    }

    fn changes(&self, inventory: &Inventory) -> Vec<Change> {
        let differing = self.differing();
        if differing.is_empty() {
            return Vec::new();
        }
        let targets = differing.iter().fold(AddressSet::default(), |all, view| all.union(&view.target));
        let targets = self.targets(&targets);
        let mut memo: HashMap<(Vec<usize>, Vec<usize>, usize), Effect> = HashMap::new();
        let mut by_effect = Effects::new();
        for source in self.sources(&differing, inventory) {
            let (old, new) = (matching(&self.old, &source), matching(&self.new, &source));
            let mut reached: BTreeMap<Effect, Vec<usize>> = BTreeMap::new();
            for (index, target) in targets.iter().enumerate() {
                if target.first.is_ipv4() == source.first.is_ipv4() {
                    let key = (old.clone(), new.clone(), index);
                    let effect = memo.entry(key).or_insert_with(|| self.effect(&old, &new, target.first));
                    if *effect != Effect::default() {
                        reached.entry(effect.clone()).or_default().push(index);
                    }
                }
            }
            for (effect, indexes) in reached {
                by_effect.entry((source.node, effect)).or_default().push((source, indexes));
            }
        }
        let own = |node: usize| AddressSet::of_addresses(inventory.nodes[node].addresses.iter().copied());
        let joined = |((node, effect), pairs): ((Option<usize>, Effect), Vec<_>)| {
            self.joined((node, node.map(own)), &effect, &pairs, &targets)
        };
        by_effect.into_iter().flat_map(joined).collect()
    }

    /// Returns the views that are only on one side.
    fn differing(&self) -> Vec<&View<'a>> {
        let (old, new): (HashSet<Key<'_>>, HashSet<Key<'_>>) =
            (self.old.iter().map(View::key).collect(), self.new.iter().map(View::key).collect());
        let gone = self.old.iter().filter(|view| !new.contains(&view.key()));
        gone.chain(self.new.iter().filter(|view| !old.contains(&view.key()))).collect()
    }

    /// Returns the receiver's own addresses, then what is behind it, in parts that all views treat alike.
    fn targets(&self, affected: &AddressSet) -> Vec<Atom> {
        let own = self.own.intersection(affected);
        let single = own.ranges().flat_map(|(first, last)| singles(first, last));
        let mut atoms: Vec<Atom> =
            single.map(|address| Atom { node: Some(self.node), first: address, last: address }).collect();
        let all = self.old.iter().chain(&self.new).map(|view| &view.target);
        let behind = split(&affected.difference(self.own), all);
        atoms.extend(behind.into_iter().map(|(first, last)| Atom { node: None, first, last }));
        atoms
    }

    /// Returns the sources whose access may differ: addresses of nodes, and addresses outside of the network in parts that all views treat alike.
    fn sources(&self, differing: &[&View<'_>], inventory: &Inventory) -> Vec<Atom> {
        let mut atoms = Vec::new();
        // A node's packets to itself do not pass through the network.
        for (node, facts) in inventory.nodes.iter().enumerate().filter(|(node, _)| *node != self.node) {
            for address in &facts.addresses {
                let atom = Atom { node: Some(node), first: *address, last: *address };
                if differing.iter().any(|view| view.has(&atom)) {
                    atoms.push(atom);
                }
            }
        }
        let named = differing.iter().fold(AddressSet::default(), |all, view| all.union(&view.source.addresses));
        let known: HashSet<IpAddr> = inventory.nodes.iter().flat_map(|node| node.addresses.iter().copied()).collect();
        let outside = named.difference(&AddressSet::of_prefixes(inventory.prefixes.iter().copied()));
        let all = self.old.iter().chain(&self.new).map(|view| &view.source.addresses);
        let parts = split(&outside, all).into_iter().filter(|(first, last)| first != last || !known.contains(first));
        atoms.extend(parts.map(|(first, last)| Atom { node: None, first, last }));
        atoms
    }

    /// Returns the services that open and those that close at one address for a source that these views match.
    fn effect(&self, old: &[usize], new: &[usize], target: IpAddr) -> Effect {
        let open = |views: &[View<'_>], matching: &[usize]| {
            let mut open = Open::new();
            for view in matching.iter().map(|index| &views[*index]).filter(|view| view.target.contains(target)) {
                view.services.iter().for_each(|service| add_service(&mut open, service));
            }
            open
        };
        let (before, after) = (open(&self.old, old), open(&self.new, new));
        (services(&minus(&after, &before)), services(&minus(&before, &after)))
    }

    /// Returns the changes of one source with one effect. Addresses with the same destinations are one change, and so are both families of two nodes.
    fn joined(
        &self,
        (node, of_node): (Option<usize>, Option<AddressSet>),
        (gained, lost): &Effect,
        pairs: &[(Atom, Vec<usize>)],
        targets: &[Atom],
    ) -> Vec<Change> {
        let mut by_targets: BTreeMap<(bool, Vec<usize>), Vec<Atom>> = BTreeMap::new();
        for (source, reached) in pairs {
            let (own, behind) = reached.iter().partition(|index| targets[**index].node.is_some());
            for (is_own, indexes) in [(true, own), (false, behind)] {
                let indexes: Vec<usize> = indexes;
                if !indexes.is_empty() {
                    by_targets.entry((is_own, indexes)).or_default().push(*source);
                }
            }
        }
        let mut ends: Vec<(bool, AddressSet, AddressSet)> = Vec::new();
        for ((is_own, indexes), sources) in by_targets {
            let (from, to) = (set(sources.iter()), set(indexes.iter().map(|index| &targets[*index])));
            match ends.iter_mut().find(|(own, before, _)| *own == is_own && is_other_family(before, &from)) {
                Some((_, before, reached)) => (*before, *reached) = (before.union(&from), reached.union(&to)),
                None => ends.push((is_own, from, to)),
            }
        }
        let change = |(is_own, from, to): (bool, AddressSet, AddressSet)| {
            let whole_from = of_node.as_ref().is_some_and(|own| of_families(own, &to) == from);
            let whole_to = is_own && of_families(self.own, of_node.as_ref().unwrap_or(&from)) == to;
            Change {
                from: end(node, &from, whole_from),
                to: end(Some(self.node), &to, whole_to),
                gained: gained.clone(),
                lost: lost.clone(),
            }
        };
        ends.into_iter().map(change).collect()
    }
}

/// Returns an end with these addresses, or without them if they are the whole node.
fn end(node: Option<usize>, addresses: &AddressSet, is_whole: bool) -> End {
    End { node, addresses: if is_whole { Vec::new() } else { addresses.prefixes() } }
}

fn set<'b>(atoms: impl Iterator<Item = &'b Atom>) -> AddressSet {
    AddressSet::of_ranges(atoms.map(|atom| (atom.first, atom.last)))
}

/// Returns the addresses of a set that are of a family of the other set.
fn of_families(set: &AddressSet, other: &AddressSet) -> AddressSet {
    let is_in = |four: bool| other.ranges().any(|(first, _)| first.is_ipv4() == four);
    let (four, six) = (is_in(true), is_in(false));
    AddressSet::of_ranges(set.ranges().filter(|(first, _)| if first.is_ipv4() { four } else { six }))
}

/// Returns true if one set has only IPv4 addresses and the other only IPv6 addresses.
fn is_other_family(one: &AddressSet, other: &AddressSet) -> bool {
    let four = |set: &AddressSet| set.ranges().any(|(first, _)| first.is_ipv4());
    let six = |set: &AddressSet| set.ranges().any(|(first, _)| first.is_ipv6());
    (four(one) != four(other)) && (six(one) != six(other))
}

impl View<'_> {
    fn key(&self) -> Key<'_> {
        (&self.source.prefixes, self.services, &self.target)
    }

    fn has(&self, atom: &Atom) -> bool {
        atom.node.is_some_and(|node| self.source.nodes.contains(node)) || self.source.addresses.contains(atom.first)
    }
}

fn views(compiled: &Compiled, node: usize) -> Vec<View<'_>> {
    let rules = &compiled.nodes[node];
    let view = |entry: &crate::compile::Entry| View {
        source: &compiled.sources[entry.source as usize],
        services: &compiled.services[entry.services as usize],
        target: match entry.target {
            OWN => rules.own.clone(),
            target => rules.reach.intersection(&compiled.targets[target as usize]),
        },
    };
    rules.entries.iter().map(view).collect()
}

/// Returns the places of the views that match a source.
fn matching(views: &[View<'_>], source: &Atom) -> Vec<usize> {
    (0..views.len()).filter(|index| views[*index].has(source)).collect()
}

/// Returns all addresses of a range. Used for a node's own addresses, which are few.
fn singles(first: IpAddr, last: IpAddr) -> Vec<IpAddr> {
    match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => {
            (first.to_bits()..=last.to_bits()).map(|bits| IpAddr::V4(bits.into())).collect()
        }
        (IpAddr::V6(first), IpAddr::V6(last)) => {
            (first.to_bits()..=last.to_bits()).map(|bits| IpAddr::V6(bits.into())).collect()
        }
        _ => Vec::new(),
    }
}

/// Splits a set into ranges that are wholly inside or wholly outside of each of the other sets.
fn split<'b>(set: &AddressSet, others: impl Iterator<Item = &'b AddressSet>) -> Vec<(IpAddr, IpAddr)> {
    let mut parts = vec![set.clone()];
    let mut seen = HashSet::new();
    for other in others.filter(|other| seen.insert(*other)) {
        let both = |part: &AddressSet| [part.intersection(other), part.difference(other)];
        parts = parts.iter().flat_map(both).filter(|part| !part.is_empty()).collect();
    }
    parts.iter().flat_map(AddressSet::ranges).collect()
}

//! A network's policy, applied to its members: which members see each other, and the filter of each node.
//!
//! The policy is applied again when it changes, or when a member's addresses, owner or tags change, or when a member begins or ceases to take part. Endpoints and presence
//! have no influence. Each result is compared with the previous one. A node is told of a new filter only if its own filter changed. It gets a full map only if it
//! sees other peers than before among the members whose rows did not change, because a delta contains only the members whose rows changed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::value::{RawValue, to_raw_value};
use taut_base::{NodeId, Prefix};
use taut_policy::filter::ALL_PORTS;
use taut_policy::{Compiled, Filter, Inventory, NodeFacts, Policy, Rule, Selector, Target, compile};

use super::StateError;
use crate::store::{NetworkRow, NodeRow, Part, PolicyRow};

/// The policy in force, with the filter and the visible peers of each member.
pub(super) struct Enforced {
    /// Number of the policy's version.
    number: i64,
    policy: Arc<Policy>,
    prefixes: [Prefix; 2],
    /// Properties of each member that takes part, as the policy sees them.
    facts: BTreeMap<NodeId, NodeFacts>,
    meaning: Meaning,
    /// Cache of members' filters as JSON. A filter is added when it is first requested.
    filters: Mutex<HashMap<NodeId, Arc<RawValue>>>,
    /// Hash of each member's filter; empty for an open policy.
    hashes: HashMap<NodeId, u64>,
    /// Version of the network since which a node has its present filter. A node that is not listed has it since `base`. `peers_changed`: the same for its visible peers.
    filter_changed: HashMap<NodeId, u64>,
    peers_changed: HashMap<NodeId, u64>,
    base: u64,
}

/// The policy's meaning for the members.
enum Meaning {
    /// Every member may reach every other. Nothing is compiled, so that a network of ten thousand nodes costs no more than one without a policy.
    Open,
    Compiled {
        compiled: Box<Compiled>,
        /// The place of each node in the inventory.
        places: HashMap<NodeId, usize>,
    },
}

impl Enforced {
    /// Applies the policy in force at a version of the network to its members. `before` is the result at an earlier version, and `changed` the members whose rows changed since.
    ///
    /// # Errors
    /// If the stored policy cannot be read: nodes keep the maps that they have (law 6).
    pub(super) fn at<'a>(
        network: &NetworkRow,
        row: &PolicyRow,
        members: impl Iterator<Item = &'a NodeRow>,
        before: Option<(&Arc<Self>, &BTreeSet<NodeId>)>,
    ) -> Result<Arc<Self>, StateError> {
        let facts: BTreeMap<NodeId, NodeFacts> =
            members.filter(|row| row.device.part() == Part::Takes).map(|row| (row.id, facts_of(row))).collect();
        let earlier = before.map(|(earlier, _)| earlier);
        if let Some(earlier) = earlier.filter(|earlier| earlier.number == row.number && earlier.facts == facts) {
            return Ok(Arc::clone(earlier));
        }
        let policy = match earlier.filter(|earlier| earlier.number == row.number) {
            Some(earlier) => Arc::clone(&earlier.policy),
            None => Arc::new(Policy::parse(&row.text).map_err(|error| StateError::StoredPolicy(Box::new(error)))?),
        };
        let prefixes = [network.ipv4, network.ipv6];
        let is_open = is_open(&policy);
        let mut next = Self {
            number: row.number,
            meaning: if is_open { Meaning::Open } else { meaning(&policy, &facts, prefixes) },
            policy,
            prefixes,
            facts,
            filters: Mutex::default(),
            hashes: HashMap::new(),
            filter_changed: HashMap::new(),
            peers_changed: HashMap::new(),
            // The results from before the start of this program are unknown. If the policy is compiled, every node with an older map therefore gets its filter and peers again.
            base: if is_open { row.version } else { network.version },
        };
        if !is_open {
            next.hashes = next.facts.keys().map(|id| (*id, hash_of(&next.plain_filter(*id)))).collect();
        }
        if let Some((before, changed)) = before {
            next.compare(before, changed, network.version);
        }
        Ok(Arc::new(next))
    }

    /// Notes which nodes have another filter or see other peers than in the former result.
    fn compare(&mut self, before: &Self, changed: &BTreeSet<NodeId>, version: u64) {
        self.base = before.base;
        for id in self.facts.keys() {
            let is_known = before.facts.contains_key(id);
            let filter = match is_known && self.has_same_filter(before, *id) {
                true => before.filter_changed.get(id).copied(),
                false => Some(version),
            };
            let peers = match is_known && self.sees_as(before, *id, changed) {
                true => before.peers_changed.get(id).copied(),
                false => Some(version),
            };
            self.filter_changed.extend(filter.map(|version| (*id, version)));
            self.peers_changed.extend(peers.map(|version| (*id, version)));
        }
    }

    fn has_same_filter(&self, before: &Self, id: NodeId) -> bool {
        match (self.hashes.get(&id), before.hashes.get(&id)) {
            (None, None) => {
                self.facts.get(&id).map(|facts| &facts.addresses) == before.facts.get(&id).map(|facts| &facts.addresses)
            }
            (now, then) => now == then,
        }
    }

    /// Returns true if a node sees the same members as before. Members whose rows changed are not compared, because deltas contain them anyway.
    fn sees_as(&self, before: &Self, id: NodeId, changed: &BTreeSet<NodeId>) -> bool {
        if matches!((&self.meaning, &before.meaning), (Meaning::Open, Meaning::Open)) {
            return true;
        }
        let others = self.facts.keys().chain(before.facts.keys());
        let mut others = others.filter(|other| **other != id && !changed.contains(other));
        others.all(|other| self.shows(id, *other) == before.shows(id, *other))
    }

    /// Returns true if a member sees another one, because one of them may reach the other.
    pub(super) fn shows(&self, to: NodeId, peer: NodeId) -> bool {
        match &self.meaning {
            Meaning::Open => true,
            Meaning::Compiled { compiled, places } => match (places.get(&to), places.get(&peer)) {
                (Some(one), Some(other)) => compiled.are_peers(*one, *other),
                _ => false,
            },
        }
    }

    /// Returns true if every member may reach every other, so that all members see the same peers.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.meaning, Meaning::Open)
    }

    /// Returns the filter of a member as JSON. A node that takes no part accepts nothing.
    pub(super) fn filter(&self, id: NodeId) -> Option<Arc<RawValue>> {
        let mut filters = self.filters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = filters.get(&id) {
            return Some(Arc::clone(known));
        }
        let made: Arc<RawValue> = to_raw_value(&self.plain_filter(id)).ok()?.into();
        filters.insert(id, Arc::clone(&made));
        Some(made)
    }

    fn plain_filter(&self, id: NodeId) -> Filter {
        let Some(facts) = self.facts.get(&id) else { return Filter::default() };
        match &self.meaning {
            Meaning::Open => {
                let own =
                    |address: &std::net::IpAddr| Target { prefix: Prefix::host(*address), ports: vec![ALL_PORTS] };
                let dst = facts.addresses.iter().map(own).collect();
                Filter { rules: vec![Rule { src: self.prefixes.to_vec(), proto: Vec::new(), dst }] }
            }
            Meaning::Compiled { compiled, places } => {
                places.get(&id).map(|place| compiled.filter(*place)).unwrap_or_default()
            }
        }
    }

    /// Returns true if a node with a map of version `have` has another filter now.
    pub(super) fn has_new_filter(&self, id: NodeId, have: u64) -> bool {
        have < self.filter_changed.get(&id).copied().unwrap_or(self.base)
    }

    /// Returns true if a node with a map of version `have` now sees other peers, and a delta would not contain the difference.
    pub(super) fn has_other_peers(&self, id: NodeId, have: u64) -> bool {
        have < self.peers_changed.get(&id).copied().unwrap_or(self.base)
    }
}

fn meaning(policy: &Policy, facts: &BTreeMap<NodeId, NodeFacts>, prefixes: [Prefix; 2]) -> Meaning {
    let inventory =
        Inventory { nodes: facts.values().cloned().collect(), users: Vec::new(), prefixes: prefixes.to_vec() };
    let places = facts.keys().enumerate().map(|(place, id)| (*id, place)).collect();
    Meaning::Compiled { compiled: Box::new(compile(policy, &inventory)), places }
}

/// Returns true if one rule lets everything pass.
pub(super) fn is_open(policy: &Policy) -> bool {
    policy.rules.iter().any(|rule| {
        rule.src.contains(&Selector::Any)
            && rule.access.iter().any(|access| {
                let all = |service: &taut_policy::Service| service.proto.is_none() && service.ports == [ALL_PORTS];
                access.dst.contains(&Selector::Any) && access.services.iter().any(all)
            })
    })
}

fn hash_of(filter: &Filter) -> u64 {
    let mut hasher = DefaultHasher::new();
    filter.hash(&mut hasher);
    hasher.finish()
}

/// Returns the properties of a node that a policy can refer to.
pub(super) fn facts_of(row: &NodeRow) -> NodeFacts {
    NodeFacts {
        name: row.name.clone(),
        addresses: vec![row.ipv4.into(), row.ipv6.into()],
        user: row.device.owner.clone(),
        tags: row.device.tags.clone(),
        routes: Vec::new(),
    }
}

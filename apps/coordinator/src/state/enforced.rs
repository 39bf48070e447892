//! A network's policy, applied to its members: which members see each other, and the filter of each node.
//!
//! The policy is applied again when it changes, or when a member's addresses, owner or tags or an owner's groups change, or when a member begins or ceases to take part. Endpoints and presence
//! have no influence. Each result is compared with the previous one. A node is told of a new filter only if its own filter changed. It gets a full map only if it
//! sees other peers than before among the members whose rows did not change, because a delta contains only the members whose rows changed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::resume_unwind;
use std::sync::Arc;

use taut_base::{NodeId, Prefix};
use taut_netmap::MapError;
use taut_policy::filter::ALL_PORTS;
use taut_policy::{Compiled, Filter, Inventory, NodeFacts, Policy, Rule, Selector, Target, UserFacts, compile};
use tokio::task::spawn_blocking;

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
        /// The nodes in the order of the inventory, which is that of their numbers.
        nodes: Vec<NodeId>,
    },
}

/// A policy that is to be applied. Applying it may take seconds, so it happens on a thread of its own, and one network's policy delays no other network.
pub(super) struct ToEnforce {
    /// The network's version, at which the members are as `facts` says.
    version: u64,
    prefixes: [Prefix; 2],
    row: PolicyRow,
    facts: BTreeMap<NodeId, NodeFacts>,
    /// Owners of nodes whom an identity provider gives groups.
    users: Vec<UserFacts>,
    /// The result at an earlier version, and the members whose rows changed since.
    before: Option<(Arc<Enforced>, BTreeSet<NodeId>)>,
}

impl ToEnforce {
    /// Collects what is needed to apply a policy to the members of a network.
    pub(super) fn new<'a>(
        network: &NetworkRow,
        row: PolicyRow,
        members: impl Iterator<Item = &'a NodeRow>,
        users: Vec<UserFacts>,
        before: Option<(Arc<Enforced>, BTreeSet<NodeId>)>,
    ) -> Self {
        let facts = members.filter_map(|row| Some((row.id, facts_of(row)?))).collect();
        Self { version: network.version, prefixes: [network.ipv4, network.ipv6], row, facts, users, before }
    }

    /// Applies the policy.
    ///
    /// # Errors
    /// If the stored policy cannot be read: nodes keep the maps that they have (law 6).
    pub(super) async fn done(self) -> Result<Arc<Enforced>, StateError> {
        // A panic goes on here, where the reader of the network catches it (fault N7).
        let made =
            spawn_blocking(move || self.enforced()).await.unwrap_or_else(|error| resume_unwind(error.into_panic()));
        made.map(Arc::new)
    }

    fn enforced(self) -> Result<Enforced, StateError> {
        let Self { version, prefixes, row, facts, users, before } = self;
        let policy = match before.as_ref().filter(|(earlier, _)| earlier.number == row.number) {
            Some((earlier, _)) => Arc::clone(&earlier.policy),
            None => Arc::new(Policy::parse(&row.text).map_err(|error| StateError::StoredPolicy(Box::new(error)))?),
        };
        let is_open = is_open(&policy);
        let mut next = Enforced {
            number: row.number,
            meaning: if is_open { Meaning::Open } else { meaning(&policy, &facts, users, prefixes) },
            policy,
            prefixes,
            facts,
            hashes: HashMap::new(),
            filter_changed: HashMap::new(),
            peers_changed: HashMap::new(),
            // The results from before the start of this program are unknown. If the policy is compiled, every node with an older map therefore gets its filter and peers again.
            base: if is_open { row.version } else { version },
        };
        if let Meaning::Compiled { compiled, nodes } = &next.meaning {
            let filters = nodes.iter().enumerate().map(|(place, id)| (*id, hash_of(&compiled.filter(place))));
            next.hashes = filters.collect();
        }
        if let Some((earlier, changed)) = before {
            next.compare(&earlier, &changed, version);
        }
        Ok(next)
    }
}

impl Enforced {
    /// Returns the number of the policy's version.
    pub(super) fn number(&self) -> i64 {
        self.number
    }

    /// Returns true if the policy knows this member as it is now. `row` is `None` if the node is no member.
    pub(super) fn knows(&self, id: NodeId, row: Option<&NodeRow>) -> bool {
        self.facts.get(&id) == row.and_then(facts_of).as_ref()
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
        let addresses = |enforced: &Self| enforced.facts.get(&id).map(|facts| facts.addresses.clone());
        match (self.hashes.get(&id), before.hashes.get(&id)) {
            (None, None) => addresses(self) == addresses(before),
            (now, then) => now == then,
        }
    }

    /// Returns true if a node sees the same members as before. Members whose rows changed are not compared, because deltas contain them anyway.
    fn sees_as(&self, before: &Self, id: NodeId, changed: &BTreeSet<NodeId>) -> bool {
        if self.is_open() && before.is_open() {
            return true;
        }
        let unchanged = |enforced: &Self| -> Vec<NodeId> {
            enforced.seen_by(id).into_iter().filter(|other| !changed.contains(other)).collect()
        };
        unchanged(self) == unchanged(before)
    }

    /// Returns the members that this member sees, by number.
    fn seen_by(&self, id: NodeId) -> Vec<NodeId> {
        match &self.meaning {
            Meaning::Open => self.facts.keys().filter(|other| **other != id).copied().collect(),
            Meaning::Compiled { compiled, nodes } => match nodes.binary_search(&id) {
                Ok(place) => compiled.peers(place).filter_map(|peer| nodes.get(peer).copied()).collect(),
                Err(_) => Vec::new(),
            },
        }
    }

    /// Returns true if a member sees another one, because one of them may reach the other.
    pub(super) fn shows(&self, to: NodeId, peer: NodeId) -> bool {
        match &self.meaning {
            Meaning::Open => true,
            Meaning::Compiled { compiled, nodes } => match (nodes.binary_search(&to), nodes.binary_search(&peer)) {
                (Ok(one), Ok(other)) => compiled.are_peers(one, other),
                _ => false,
            },
        }
    }

    /// Returns true if every member may reach every other, so that all members see the same peers.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.meaning, Meaning::Open)
    }

    /// Returns the filter of a member. A node that takes no part accepts nothing.
    ///
    /// # Errors
    /// If the filter is larger than a node accepts: this node keeps the map that it has.
    pub(super) fn filter(&self, id: NodeId) -> Result<Filter, StateError> {
        let Some(facts) = self.facts.get(&id) else { return Ok(Filter::default()) };
        let filter = match &self.meaning {
            Meaning::Open => {
                let own = |address: &_| Target { prefix: Prefix::host(*address), ports: vec![ALL_PORTS] };
                let dst = facts.addresses.iter().map(own).collect();
                Filter { rules: vec![Rule { src: self.prefixes.to_vec(), proto: Vec::new(), dst }] }
            }
            Meaning::Compiled { compiled, nodes } => {
                nodes.binary_search(&id).map(|place| compiled.filter(place)).unwrap_or_default()
            }
        };
        filter.check().map_err(|bad| StateError::BadMap(MapError::Filter(bad)))?;
        Ok(filter)
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

fn meaning(
    policy: &Policy,
    facts: &BTreeMap<NodeId, NodeFacts>,
    users: Vec<UserFacts>,
    prefixes: [Prefix; 2],
) -> Meaning {
    let nodes = facts.values().cloned().collect();
    let inventory = Inventory { nodes, users, more_users: true, prefixes: prefixes.to_vec() };
    Meaning::Compiled { compiled: Box::new(compile(policy, &inventory)), nodes: facts.keys().copied().collect() }
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

/// Returns the properties of a node that a policy can refer to; `None` if the node takes no part.
pub(super) fn facts_of(row: &NodeRow) -> Option<NodeFacts> {
    (row.device.part() == Part::Takes).then(|| NodeFacts {
        name: row.name.clone(),
        addresses: vec![row.ipv4.into(), row.ipv6.into()],
        user: row.device.owner.clone(),
        tags: row.device.tags.clone(),
        routes: Vec::new(),
    })
}

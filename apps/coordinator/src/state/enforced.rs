//! A network's policy, applied to its members: which members see each other, and the filter of each node.
//!
//! The policy is applied again when it changes, or when a member's addresses, owner or tags or an owner's groups change, or when a member begins or ceases to take part. Endpoints and presence
//! have no influence. Each result is compared with the previous one. A node is told of a new filter only if its own filter changed. It gets a full map only if it
//! sees other peers than before among the members whose rows did not change, because a delta contains only the members whose rows changed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use taut_base::{NodeId, Prefix, is_internet};
use taut_netmap::has_exit;
use taut_policy::filter::ALL_PORTS;
use taut_policy::{
    Access, Compiled, DEFAULT_PROTOCOLS, Explanation, Filter, Inventory, NodeFacts, Packet, Policy, PolicyRule, Rule,
    Selector, Service, Target, UserFacts, compile,
};

use super::StateError;
use super::decisions::Reason;
use crate::log;
use crate::store::{NetworkId, NetworkRow, NodeRow, Part, PolicyRow};

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
    /// Version of the network at which a node's filter changed last, as far as it changed since the first of these results. `peers_changed`: the same for its visible
    /// peers. Both are empty for an open policy.
    filter_changed: HashMap<NodeId, u64>,
    peers_changed: HashMap<NodeId, u64>,
    /// Members whose filter is larger than a node accepts. They accept nothing.
    too_large: BTreeSet<NodeId>,
}

/// The policy's meaning for the members.
enum Meaning {
    /// Every member may reach every other, since this version of the network. Nothing is compiled, so that a network of ten thousand nodes costs no more than one
    /// without a policy.
    Open { since: u64 },
    Compiled {
        compiled: Box<Compiled>,
        /// The nodes in the order of the inventory, which is that of their numbers.
        nodes: Vec<NodeId>,
    },
}

/// A policy to apply. Applying it may take seconds, so it happens on a thread of its own (`PolicyThreads`).
pub(super) struct ToEnforce {
    network: NetworkId,
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
        let prefixes = [network.ipv4, network.ipv6];
        Self { network: network.id, version: network.version, prefixes, row, facts, users, before }
    }

    /// Applies the policy.
    ///
    /// # Errors
    /// If the stored policy cannot be read: nodes keep the maps that they have (law 6).
    pub(super) fn done(self) -> Result<Enforced, StateError> {
        let Self { network, version, prefixes, row, facts, users, before } = self;
        let policy = match before.as_ref().filter(|(earlier, _)| earlier.number == row.number) {
            Some((earlier, _)) => Arc::clone(&earlier.policy),
            None => Arc::new(Policy::parse(&row.text).map_err(|error| StateError::StoredPolicy(Box::new(error)))?),
        };
        // Filters that name subnets are compiled, so that a change of the subnets is noticed.
        let is_open = is_open(&policy) && facts.values().all(|facts| facts.routes.is_empty());
        let since = before.as_ref().map_or(row.version, |(earlier, _)| earlier.open_since(row.version, version));
        let mut next = Enforced {
            number: row.number,
            meaning: match is_open {
                true => Meaning::Open { since },
                false => meaning(&policy, &facts, users, prefixes),
            },
            policy,
            prefixes,
            facts,
            hashes: HashMap::new(),
            filter_changed: HashMap::new(),
            peers_changed: HashMap::new(),
            too_large: BTreeSet::new(),
        };
        if let Meaning::Compiled { compiled, nodes } = &next.meaning {
            for (place, id) in nodes.iter().enumerate() {
                let mut filter = compiled.filter(place);
                if let Err(bad) = filter.check() {
                    tracing::error!(target: log::CONTROL, limited = id.0, event = "filter-too-large", %network, node = id.0, reason = %bad);
                    next.too_large.insert(*id);
                    filter = Filter::default();
                }
                next.hashes.insert(*id, filter.fingerprint());
            }
            if let Some((earlier, changed)) = before {
                next.compare(&earlier, &changed, version);
            }
        }
        Ok(next)
    }
}

impl Enforced {
    /// Returns the number of the policy's version.
    pub(super) fn number(&self) -> i64 {
        self.number
    }

    /// Returns the version since which an open policy is in force that follows this result at `version`. `applied` is the version at which the policy was applied.
    fn open_since(&self, applied: u64, version: u64) -> u64 {
        match self.meaning {
            Meaning::Open { since } => since.max(applied),
            Meaning::Compiled { .. } => version,
        }
    }

    /// Returns true if the policy knows this member as it is now. `row` is `None` if the node is no member.
    pub(super) fn knows(&self, id: NodeId, row: Option<&NodeRow>) -> bool {
        self.facts.get(&id) == row.and_then(facts_of).as_ref()
    }

    /// Notes which nodes have another filter or see other peers than in the former result.
    fn compare(&mut self, before: &Self, changed: &BTreeSet<NodeId>, version: u64) {
        for id in self.facts.keys() {
            let is_known = before.facts.contains_key(id);
            let filter = match self.hashes.get(id) == before.hashes.get(id) {
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

    /// Returns true if a node sees the same members as before, and may use the same of them as exit nodes. Members whose rows changed are not compared, because deltas contain them anyway.
    fn sees_as(&self, before: &Self, id: NodeId, changed: &BTreeSet<NodeId>) -> bool {
        let unchanged = |enforced: &Self| -> Vec<(NodeId, bool)> {
            let others = enforced.seen_by(id).into_iter().filter(|other| !changed.contains(other));
            others.map(|other| (other, enforced.may_use_exit(id, other))).collect()
        };
        unchanged(self) == unchanged(before)
    }

    /// Returns the members that this member sees, by number.
    fn seen_by(&self, id: NodeId) -> Vec<NodeId> {
        match &self.meaning {
            Meaning::Open { .. } => self.facts.keys().filter(|other| **other != id).copied().collect(),
            Meaning::Compiled { compiled, nodes } => match nodes.binary_search(&id) {
                Ok(place) => compiled.peers(place).filter_map(|peer| nodes.get(peer).copied()).collect(),
                Err(_) => Vec::new(),
            },
        }
    }

    /// Returns true if a member sees another one, because one of them may reach the other.
    pub(super) fn shows(&self, to: NodeId, peer: NodeId) -> bool {
        match &self.meaning {
            Meaning::Open { .. } => self.facts.contains_key(&to) && self.facts.contains_key(&peer),
            Meaning::Compiled { compiled, nodes } => match (nodes.binary_search(&to), nodes.binary_search(&peer)) {
                (Ok(one), Ok(other)) => compiled.are_peers(one, other),
                _ => false,
            },
        }
    }

    /// Returns true if a member may send something to the internet through another one, which is an exit node.
    pub(super) fn may_use_exit(&self, node: NodeId, exit: NodeId) -> bool {
        // Most nodes are none, which is known without the rules. A network with an exit node is never open.
        let is_exit = self.facts.get(&exit).is_some_and(|facts| has_exit(&facts.routes));
        match &self.meaning {
            Meaning::Compiled { compiled, nodes } if is_exit => {
                match (nodes.binary_search(&node), nodes.binary_search(&exit)) {
                    (Ok(node), Ok(exit)) => compiled.may_use_exit(node, exit),
                    _ => false,
                }
            }
            _ => false,
        }
    }

    /// Returns true if a member is told of another one that leads to an address outside of the network: a subnet router that it sees, or an exit node that it may use.
    pub(super) fn leads(&self, node: NodeId, address: IpAddr) -> bool {
        // A network with routes is never open.
        let Meaning::Compiled { compiled, nodes } = &self.meaning else { return false };
        let routers = compiled.receivers(address).into_iter().filter_map(|place| nodes.get(place).copied());
        let is_exit = |router| self.facts.get(&router).is_some_and(|facts| has_exit(&facts.routes));
        let is_told = |router| match is_internet(address) && is_exit(router) {
            true => self.may_use_exit(node, router),
            false => self.shows(node, router),
        };
        routers.filter(|router| *router != node).any(is_told)
    }

    /// Returns why the policy allows or denies a packet.
    pub(super) fn reason(&self, packet: &Packet) -> Reason {
        let Meaning::Compiled { compiled, .. } = &self.meaning else {
            // Nodes get one rule, which allows the usual protocols.
            let has_default = DEFAULT_PROTOCOLS.contains(&packet.proto);
            let found = self.policy.rules.iter().find(|rule| has_default && is_open_rule(rule));
            return found.map_or_else(|| Reason::NoRule(Vec::new()), |rule| Reason::Rule(rule.origin));
        };
        let Explanation { rule, near, .. } = compiled.explain(packet);
        rule.map_or(Reason::NoRule(near), Reason::Rule)
    }

    /// Returns true if every member may reach every other, so that all members see the same peers.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.meaning, Meaning::Open { .. })
    }

    /// Returns the filter of a member. A node that takes no part accepts nothing, and neither does one whose filter is larger than it would accept: the filter that it
    /// has may be wider than its policy.
    pub(super) fn filter(&self, id: NodeId) -> Filter {
        let Some(facts) = self.facts.get(&id).filter(|_| !self.too_large.contains(&id)) else {
            return Filter::default();
        };
        match &self.meaning {
            Meaning::Open { .. } => {
                let own = |address: &_| Target { prefix: Prefix::host(*address), ports: vec![ALL_PORTS] };
                let dst = facts.addresses.iter().map(own).collect();
                Filter { rules: vec![Rule { src: self.prefixes.to_vec(), proto: Vec::new(), dst }] }
            }
            Meaning::Compiled { compiled, nodes } => {
                nodes.binary_search(&id).map(|place| compiled.filter(place)).unwrap_or_default()
            }
        }
    }

    /// Returns true if a node with a map of version `have` has another filter now. For a compiled policy, `have` must be the version of one of the earlier results.
    pub(super) fn has_new_filter(&self, id: NodeId, have: u64) -> bool {
        self.is_newer(&self.filter_changed, id, have)
    }

    /// Returns true if a node with a map of version `have` now sees other peers, and a delta would not contain the difference. For a compiled policy, `have` must be the
    /// version of one of the earlier results.
    pub(super) fn has_other_peers(&self, id: NodeId, have: u64) -> bool {
        self.is_newer(&self.peers_changed, id, have)
    }

    fn is_newer(&self, changed: &HashMap<NodeId, u64>, id: NodeId, have: u64) -> bool {
        match self.meaning {
            Meaning::Open { since } => have < since,
            Meaning::Compiled { .. } => changed.get(&id).is_some_and(|version| have < *version),
        }
    }
}

/// Returns the nodes and people that a policy is applied to.
pub(super) fn inventory(
    nodes: impl Iterator<Item = NodeFacts>,
    users: Vec<UserFacts>,
    prefixes: [Prefix; 2],
) -> Inventory {
    // Without those who have no groups, and those who never signed in.
    Inventory { nodes: nodes.collect(), users, more_users: true, prefixes: prefixes.to_vec() }
}

fn meaning(
    policy: &Policy,
    facts: &BTreeMap<NodeId, NodeFacts>,
    users: Vec<UserFacts>,
    prefixes: [Prefix; 2],
) -> Meaning {
    let inventory = inventory(facts.values().cloned(), users, prefixes);
    Meaning::Compiled { compiled: Box::new(compile(policy, &inventory)), nodes: facts.keys().copied().collect() }
}

/// Returns true if everybody reaches everybody by the usual protocols, and nobody by others.
pub(super) fn is_open(policy: &Policy) -> bool {
    let mut services = policy.rules.iter().flat_map(|rule| &rule.access).flat_map(|access| &access.services);
    // A rule for another protocol needs a filter that is made from it.
    let has_other = services.any(|service| service.proto.is_some_and(|proto| !DEFAULT_PROTOCOLS.contains(&proto)));
    !has_other && policy.rules.iter().any(is_open_rule)
}

fn is_open_rule(rule: &PolicyRule) -> bool {
    let all = |service: &Service| service.proto.is_none() && service.ports == [ALL_PORTS];
    let is_open = |access: &Access| access.dst.contains(&Selector::Any) && access.services.iter().any(all);
    rule.src.contains(&Selector::Any) && rule.access.iter().any(is_open)
}

/// Returns the properties of a node that a policy can refer to; `None` if the node takes no part.
pub(super) fn facts_of(row: &NodeRow) -> Option<NodeFacts> {
    (row.device.part() == Part::Takes).then(|| NodeFacts {
        name: row.name.clone(),
        addresses: vec![row.ipv4.into(), row.ipv6.into()],
        user: row.device.owner.clone(),
        tags: row.device.tags.clone(),
        routes: row.routes(),
    })
}

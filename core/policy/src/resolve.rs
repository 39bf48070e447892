//! Resolves selectors to nodes and addresses.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use crate::addresses::AddressSet;
use crate::internet::internet;
use crate::inventory::{Inventory, Role, is_login};
use crate::ipset::resolve_sets;
use crate::node_set::NodeSet;
use crate::policy::Policy;
use crate::selector::Selector;

/// Resolves selectors in one inventory.
pub(crate) struct Resolver<'a> {
    policy: &'a Policy,
    inventory: &'a Inventory,
    /// Untagged nodes by their owner.
    owned: BTreeMap<&'a str, Vec<usize>>,
    /// Nodes by tag.
    tagged: HashMap<&'a str, Vec<usize>>,
    ipsets: BTreeMap<&'a str, AddressSet>,
    /// Addresses that `*` as a source includes besides the nodes: the network's prefixes and all approved subnets.
    any: AddressSet,
}

/// Nodes, and addresses that are named without regard to who has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) nodes: NodeSet,
    pub(crate) addresses: AddressSet,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(policy: &'a Policy, inventory: &'a Inventory) -> Self {
        let (mut owned, mut tagged) = (BTreeMap::<_, Vec<_>>::new(), HashMap::<_, Vec<_>>::new());
        for (index, node) in inventory.nodes.iter().enumerate() {
            if let Some(owner) = node.owner() {
                owned.entry(owner).or_default().push(index);
            }
            for tag in &node.tags {
                tagged.entry(tag.as_str()).or_default().push(index);
            }
        }
        let subnets = inventory.nodes.iter().flat_map(|node| node.subnets());
        let any = AddressSet::of_prefixes(inventory.prefixes.iter().copied().chain(subnets));
        // This cannot fail: the parser refuses a policy whose IP sets cannot be resolved.
        let ipsets = resolve_sets(policy).unwrap_or_default();
        Self { policy, inventory, owned, tagged, ipsets, any }
    }

    /// Returns the untagged nodes of each person.
    pub(crate) fn owned(&self) -> impl Iterator<Item = &[usize]> {
        self.owned.values().map(Vec::as_slice)
    }

    /// Returns the nodes and addresses that selectors stand for as sources.
    pub(crate) fn sources(&self, selectors: &[Selector]) -> Resolved {
        let mut found = self.names(selectors);
        if selectors.contains(&Selector::Any) {
            found.nodes = self.all_nodes();
            found.addresses = found.addresses.union(&self.any);
        }
        if selectors.contains(&Selector::Everywhere) {
            found.addresses = AddressSet::all();
        }
        found
    }

    /// Returns the nodes and addresses that selectors stand for as destinations, except `autogroup:self`, which depends on the source.
    pub(crate) fn destinations(&self, selectors: &[Selector]) -> Resolved {
        let mut found = self.names(selectors);
        if selectors.contains(&Selector::Any) {
            found.addresses = AddressSet::all();
        }
        found
    }

    fn all_nodes(&self) -> NodeSet {
        NodeSet::of(self.inventory.nodes.len(), |_| true)
    }

    /// Resolves the selectors that mean the same on both sides.
    fn names(&self, selectors: &[Selector]) -> Resolved {
        let mut nodes = NodeSet::new(self.inventory.nodes.len());
        let mut ranges: Vec<(IpAddr, IpAddr)> = Vec::new();
        for selector in selectors {
            match selector {
                Selector::User(word) => self.add_owned(&mut nodes, |login| is_login(word, login)),
                Selector::Domain(domain) => self.add_owned(&mut nodes, |login| has_domain(login, domain)),
                Selector::Group(group) => self.add_group(&mut nodes, group),
                Selector::Tag(tag) => {
                    self.tagged.get(tag.as_str()).into_iter().flatten().for_each(|node| nodes.insert(*node));
                }
                Selector::Role(role) => self.add_role(&mut nodes, *role),
                Selector::Member => self.add_owned(&mut nodes, |_| true),
                Selector::Tagged => self.tagged.values().flatten().for_each(|node| nodes.insert(*node)),
                Selector::Internet => ranges.extend(internet().ranges()),
                Selector::Prefix(prefix) => ranges.extend(AddressSet::of_prefixes([*prefix]).ranges()),
                Selector::Host(name) => {
                    ranges.extend(AddressSet::of_prefixes(self.policy.hosts.get(name).copied()).ranges());
                }
                Selector::IpSet(name) => {
                    ranges.extend(self.ipsets.get(name.as_str()).iter().flat_map(|set| set.ranges()));
                }
                Selector::Any | Selector::Everywhere | Selector::Myself | Selector::Shared => {}
            }
        }
        Resolved { nodes, addresses: AddressSet::of_ranges(ranges) }
    }

    fn add_owned(&self, nodes: &mut NodeSet, is: impl Fn(&str) -> bool) {
        for owned in self.owned.iter().filter(|(login, _)| is(login)).map(|(_, owned)| owned) {
            owned.iter().for_each(|node| nodes.insert(*node));
        }
    }

    fn add_login(&self, nodes: &mut NodeSet, word: &str) {
        let bare = word.strip_suffix('@');
        for login in [Some(word), bare].into_iter().flatten() {
            self.owned.get(login).into_iter().flatten().for_each(|node| nodes.insert(*node));
        }
    }

    fn add_group(&self, nodes: &mut NodeSet, group: &str) {
        if let Some(members) = self.policy.groups.get(group) {
            members.iter().for_each(|member| self.add_login(nodes, member));
            return;
        }
        let name = group.strip_prefix("group:").unwrap_or(group);
        for user in self.inventory.users.iter().filter(|user| provides(&user.groups, &user.name, name)) {
            self.add_login(nodes, &user.name);
        }
    }

    fn add_role(&self, nodes: &mut NodeSet, role: Role) {
        for user in self.inventory.users.iter().filter(|user| user.role == role) {
            self.owned.get(user.name.as_str()).into_iter().flatten().for_each(|node| nodes.insert(*node));
        }
    }
}

/// Returns true if a login is in a domain, which is in lower case.
pub(crate) fn has_domain(login: &str, domain: &str) -> bool {
    login.rsplit_once('@').is_some_and(|(_, of)| of.eq_ignore_ascii_case(domain))
}

/// Returns true if a person whose identity provider names these groups is in the group `NAME@DOMAIN`: if the provider names it so, or names `NAME` and the
/// login is in the domain.
pub(crate) fn provides(groups: &[String], login: &str, name: &str) -> bool {
    let Some((bare, domain)) = name.rsplit_once('@') else { return false };
    groups.iter().any(|group| group == name || (group == bare && has_domain(login, &domain.to_ascii_lowercase())))
}

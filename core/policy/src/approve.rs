//! Decides what needs no administrator: giving a tag to a node, and advertising a route.

use taut_base::Prefix;

use crate::addresses::AddressSet;
use crate::inventory::{Inventory, NodeFacts, Role, is_login};
use crate::policy::Policy;
use crate::resolve::{has_domain, provides};
use crate::selector::Selector;

impl Policy {
    /// Returns true if this person may give a tag to a node. Owners and administrators of the network may give every tag that the policy defines.
    pub fn may_assign_tag(&self, tag: &str, login: &str, inventory: &Inventory) -> bool {
        let Some(owners) = self.tag_owners.get(tag) else { return false };
        let role = inventory.role(login);
        matches!(role, Role::Owner | Role::Admin | Role::NetworkAdmin)
            || owners.iter().any(|owner| self.names_person(owner, login, inventory))
    }

    /// Returns true if a node with these tags may give a tag to another node.
    pub fn tags_may_assign_tag(&self, tag: &str, tags: &[String]) -> bool {
        let owns = |owner: &Selector| match owner {
            Selector::Tag(owner) => tags.contains(owner),
            Selector::Tagged => !tags.is_empty(),
            _ => false,
        };
        self.tag_owners.get(tag).is_some_and(|owners| owners.iter().any(owns))
    }

    /// Returns true if a route that this node advertises needs no approval. A default route is a matter of `exitNode` alone.
    pub fn approves_route(&self, route: Prefix, node: &NodeFacts, inventory: &Inventory) -> bool {
        let named = |who: &[Selector]| who.iter().any(|selector| self.names_node(selector, node, inventory));
        if route.length() == 0 {
            return named(&self.exit_approvers);
        }
        let inside = |outer: Prefix| {
            let inner = AddressSet::of_prefixes([route]);
            inner.difference(&AddressSet::of_prefixes([outer])).is_empty()
        };
        self.route_approvers.iter().any(|(prefix, who)| inside(*prefix) && named(who))
    }

    fn names_node(&self, selector: &Selector, node: &NodeFacts, inventory: &Inventory) -> bool {
        match selector {
            Selector::Tag(tag) => node.tags.contains(tag),
            Selector::Tagged => !node.tags.is_empty(),
            person => node.owner().is_some_and(|login| self.names_person(person, login, inventory)),
        }
    }

    fn names_person(&self, selector: &Selector, login: &str, inventory: &Inventory) -> bool {
        match selector {
            Selector::User(word) => is_login(word, login),
            Selector::Domain(domain) => has_domain(login, domain),
            Selector::Member => true,
            Selector::Role(role) => inventory.role(login) == *role,
            Selector::Group(group) => match self.groups.get(group) {
                Some(members) => members.iter().any(|member| is_login(member, login)),
                None => {
                    let name = group.strip_prefix("group:").unwrap_or(group);
                    let user = inventory.users.iter().find(|user| user.name == login);
                    user.is_some_and(|user| provides(&user.groups, login, name))
                }
            },
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::UserFacts;

    fn policy() -> Policy {
        Policy::parse(
            r#"{
                "groups": {"group:ops": ["ann@example.com", "zoe@"]},
                "tagOwners": {"tag:web": ["group:ops", "user:*@corp.example"], "tag:ci": ["tag:web"], "tag:any": ["autogroup:tagged", "autogroup:member"],
                              "tag:none": [], "tag:sec": ["group:security@example.com", "autogroup:auditor"]},
                "autoApprovers": {
                    "routes": {"10.0.0.0/8": ["ann@example.com", "tag:web"], "fd00::/48": ["group:ops"], "0.0.0.0/0": ["autogroup:tagged"]},
                    "exitNode": ["tag:ci"],
                },
                "grants": [],
            }"#,
        )
        .unwrap()
    }

    fn inventory() -> Inventory {
        let user = |name: &str, role, groups: &[&str]| UserFacts {
            name: String::from(name),
            role,
            groups: groups.iter().map(|group| String::from(*group)).collect(),
        };
        let users = vec![
            user("boss@example.com", Role::Owner, &[]),
            user("adm@example.com", Role::Admin, &[]),
            user("sec@example.com", Role::Member, &["security"]),
            user("sec@other.org", Role::Member, &["security"]),
            user("full@other.org", Role::Member, &["security@example.com"]),
            user("audit@other.org", Role::Auditor, &[]),
        ];
        Inventory { users, ..Inventory::default() }
    }

    #[test]
    fn owners_give_tags() {
        let may = |tag: &str, login: &str| policy().may_assign_tag(tag, login, &inventory());
        assert!(may("tag:web", "ann@example.com") && may("tag:web", "zoe") && may("tag:web", "x@CORP.example"));
        assert!(
            !may("tag:web", "bob@example.com")
                && !may("tag:ci", "ann@example.com")
                && !may("tag:none", "ann@example.com")
        );
        assert!(may("tag:none", "boss@example.com") && may("tag:none", "adm@example.com"));
        assert!(!may("tag:unknown", "boss@example.com"));
        assert!(may("tag:any", "anyone@example.com"));
        assert!(
            may("tag:sec", "sec@example.com") && may("tag:sec", "full@other.org") && may("tag:sec", "audit@other.org")
        );
        assert!(!may("tag:sec", "sec@other.org"));
    }

    #[test]
    fn tags_give_tags() {
        let may = |tag: &str, tags: &[&str]| {
            let tags: Vec<String> = tags.iter().map(|tag| String::from(*tag)).collect();
            policy().tags_may_assign_tag(tag, &tags)
        };
        assert!(may("tag:ci", &["tag:x", "tag:web"]) && !may("tag:ci", &["tag:ci"]) && !may("tag:ci", &[]));
        assert!(may("tag:any", &["tag:x"]) && !may("tag:any", &[]) && !may("tag:web", &["tag:web"]));
    }

    #[test]
    fn approvers_approve_routes_and_parts_of_them() {
        let node = |user: Option<&str>, tags: &[&str]| NodeFacts {
            user: user.map(String::from),
            tags: tags.iter().map(|tag| String::from(*tag)).collect(),
            ..NodeFacts::default()
        };
        let approves =
            |route: &str, node: &NodeFacts| policy().approves_route(route.parse().unwrap(), node, &inventory());
        let ann = node(Some("ann@example.com"), &[]);
        assert!(approves("10.0.0.0/8", &ann) && approves("10.1.0.0/16", &ann) && approves("fd00::/64", &ann));
        assert!(!approves("11.0.0.0/8", &ann) && !approves("8.0.0.0/5", &ann) && !approves("fd00::/47", &ann));
        assert!(!approves("10.0.0.0/8", &node(Some("bob@example.com"), &[])));
        let tagged = node(Some("ann@example.com"), &["tag:web"]);
        assert!(approves("10.0.0.0/8", &tagged) && !approves("fd00::/64", &tagged), "a tagged node has no owner");
        assert!(approves("192.0.2.0/24", &tagged), "a part of 0.0.0.0/0");
        assert!(!approves("0.0.0.0/0", &tagged) && !approves("::/0", &ann));
        let exit = node(None, &["tag:ci"]);
        assert!(approves("0.0.0.0/0", &exit) && approves("::/0", &exit));
    }
}

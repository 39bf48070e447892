//! The nodes and people that a policy is applied to. The caller supplies them.

use std::collections::HashMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use taut_base::Prefix;

/// The nodes and people of a network.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Inventory {
    /// The nodes. Everything that the policy becomes counts nodes by their place in this list.
    pub nodes: Vec<NodeFacts>,
    /// The people. A person who only owns nodes may be absent, and then is a member without groups.
    #[serde(default)]
    pub users: Vec<UserFacts>,
    /// True if there may be people who are not in `users`: a test of a policy may then name them.
    #[serde(default)]
    pub more_users: bool,
    /// The network's prefixes, which `*` stands for as a source. If absent, `*` stands for the addresses of the nodes.
    #[serde(default)]
    pub prefixes: Vec<Prefix>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// Name of the node.
    pub name: String,
    /// Addresses of the node in the network.
    pub addresses: Vec<IpAddr>,
    /// The login of its owner. A tagged node has no owner: the login is then ignored.
    #[serde(default)]
    pub user: Option<String>,
    /// Tags of the node, each with `tag:`.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Approved routes of the node. `0.0.0.0/0` or `::/0` makes it an exit node.
    #[serde(default)]
    pub routes: Vec<Prefix>,
}

/// A person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserFacts {
    /// The login, as it stands in policies.
    pub name: String,
    /// The role in this network.
    #[serde(default)]
    pub role: Role,
    /// Groups of the identity provider, without `group:`.
    #[serde(default)]
    pub groups: Vec<String>,
}

/// A person's role, and the autogroup of that name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// `autogroup:owner`
    Owner,
    /// `autogroup:admin`
    Admin,
    /// `autogroup:network-admin`: known to the language, given to nobody.
    NetworkAdmin,
    /// `autogroup:it-admin`: known to the language, given to nobody.
    ItAdmin,
    /// `autogroup:billing-admin`: known to the language, given to nobody.
    BillingAdmin,
    /// `autogroup:auditor`
    Auditor,
    /// Every person is a member; this one has no further role.
    #[default]
    Member,
}

impl NodeFacts {
    /// Returns the owner's login, or `None` for a tagged node.
    pub fn owner(&self) -> Option<&str> {
        self.user.as_deref().filter(|_| self.tags.is_empty())
    }

    /// Returns the approved routes that are not default routes.
    pub fn subnets(&self) -> impl Iterator<Item = Prefix> {
        self.routes.iter().copied().filter(|route| route.length() > 0)
    }
}

impl Inventory {
    /// Checks that no name and no address belongs to two nodes.
    ///
    /// # Errors
    /// Names the first name or address that does.
    pub fn check(&self) -> Result<(), String> {
        let (mut names, mut addresses) = (HashMap::new(), HashMap::new());
        for node in &self.nodes {
            if names.insert(node.name.as_str(), ()).is_some() {
                return Err(format!("two nodes are named `{}`", node.name));
            }
            for address in &node.addresses {
                if let Some(other) = addresses.insert(*address, node.name.as_str()) {
                    return Err(format!("`{other}` and `{}` have the address {address}", node.name));
                }
            }
        }
        Ok(())
    }

    /// Returns the role of a person; a person who is not listed is a member.
    pub(crate) fn role(&self, login: &str) -> Role {
        self.users.iter().find(|user| user.name == login).map_or(Role::Member, |user| user.role)
    }
}

/// Returns true if this login is the one that a policy writes like this. A login without `@` is written with one at its end.
pub(crate) fn is_login(written: &str, login: &str) -> bool {
    written == login || written.strip_suffix('@') == Some(login)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tagged_node_has_no_owner() {
        let mut node = NodeFacts { user: Some(String::from("ann@example.com")), ..NodeFacts::default() };
        assert_eq!(node.owner(), Some("ann@example.com"));
        node.tags.push(String::from("tag:web"));
        assert_eq!(node.owner(), None);
    }

    #[test]
    fn names_and_addresses_belong_to_one_node() {
        let node = |name: &str, address: &str| NodeFacts {
            name: String::from(name),
            addresses: vec![address.parse().unwrap()],
            ..NodeFacts::default()
        };
        let check = |nodes: Vec<NodeFacts>| Inventory { nodes, ..Inventory::default() }.check();
        assert_eq!(check(vec![node("a", "10.0.0.1"), node("b", "10.0.0.2")]), Ok(()));
        assert_eq!(check(vec![node("a", "10.0.0.1"), node("a", "10.0.0.2")]).unwrap_err(), "two nodes are named `a`");
        let error = check(vec![node("a", "10.0.0.1"), node("b", "10.0.0.1")]).unwrap_err();
        assert_eq!(error, "`a` and `b` have the address 10.0.0.1");
    }

    #[test]
    fn a_login_without_at_is_written_with_one() {
        assert!(is_login("ann@example.com", "ann@example.com") && is_login("ann@", "ann") && is_login("ann@", "ann@"));
        assert!(!is_login("ann@", "ann@example.com") && !is_login("ann@example.com", "ann"));
    }

    #[test]
    fn json_needs_only_names_and_addresses() {
        let inventory: Inventory = serde_json::from_str(
            r#"{"nodes":[{"name":"web1","addresses":["100.64.0.1","fd00::1"],"routes":["10.0.0.0/8","0.0.0.0/0"],"more":1}],
                "users":[{"name":"ann@example.com","role":"network-admin"},{"name":"bob@example.com"}]}"#,
        )
        .unwrap();
        let subnets: Vec<String> = inventory.nodes[0].subnets().map(|route| route.to_string()).collect();
        assert_eq!(subnets, ["10.0.0.0/8"]);
        assert_eq!(inventory.role("ann@example.com"), Role::NetworkAdmin);
        assert_eq!(
            (inventory.role("bob@example.com"), inventory.role("eve@example.com")),
            (Role::Member, Role::Member)
        );
    }
}

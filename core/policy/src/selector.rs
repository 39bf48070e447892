//! The words that stand for nodes and addresses: `*`, users, groups, tags, autogroups, hosts, IP sets, addresses.

use std::fmt;
use std::net::IpAddr;

use taut_base::Prefix;

use crate::inventory::Role;

/// A word that stands for nodes or addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selector {
    /// `*`: as a source, all nodes and approved subnets; as a destination, everything.
    Any,
    /// `ann@example.com`: the untagged nodes of a person.
    User(String),
    /// `user:*@example.com`: the untagged nodes of all people of a domain. Contains the domain.
    Domain(String),
    /// `group:NAME`: the untagged nodes of the group's members. Contains the whole word.
    Group(String),
    /// `tag:NAME`: the nodes with this tag. Contains the whole word.
    Tag(String),
    /// `autogroup:owner` and the other roles: the untagged nodes of the people with this role.
    Role(Role),
    /// `autogroup:member`: all untagged nodes that have an owner.
    Member,
    /// `autogroup:tagged`: all nodes with a tag.
    Tagged,
    /// `autogroup:shared`: nodes of other networks; there are none.
    Shared,
    /// `autogroup:self`: as a destination, the untagged nodes whose owner also owns the source.
    Myself,
    /// `autogroup:internet`: as a destination, public addresses behind exit nodes.
    Internet,
    /// `autogroup:danger-all`: as a source, every address, known or not.
    Everywhere,
    /// An address or a prefix.
    Prefix(Prefix),
    /// A name of `hosts`.
    Host(String),
    /// `ipset:NAME`. Contains the whole word.
    IpSet(String),
}

/// Autogroups, and what they select.
pub(crate) const AUTOGROUPS: [(&str, Selector); 13] = [
    ("member", Selector::Member),
    ("members", Selector::Member),
    ("tagged", Selector::Tagged),
    ("self", Selector::Myself),
    ("internet", Selector::Internet),
    ("owner", Selector::Role(Role::Owner)),
    ("admin", Selector::Role(Role::Admin)),
    ("network-admin", Selector::Role(Role::NetworkAdmin)),
    ("it-admin", Selector::Role(Role::ItAdmin)),
    ("billing-admin", Selector::Role(Role::BillingAdmin)),
    ("auditor", Selector::Role(Role::Auditor)),
    ("shared", Selector::Shared),
    ("danger-all", Selector::Everywhere),
];

/// Returns the prefix that a text is: a prefix, or an address as a prefix of its full length.
pub(crate) fn prefix(text: &str) -> Option<Prefix> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(Prefix::host))
}

/// Returns true if a prefix has one address.
pub(crate) fn is_single(prefix: Prefix) -> bool {
    Prefix::host(prefix.address()) == prefix
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::User(word) | Self::Group(word) | Self::Tag(word) | Self::Host(word) | Self::IpSet(word) => {
                f.write_str(word)
            }
            Self::Domain(domain) => write!(f, "user:*@{domain}"),
            Self::Prefix(prefix) if is_single(*prefix) => write!(f, "{}", prefix.address()),
            Self::Prefix(prefix) => write!(f, "{prefix}"),
            other => {
                let name = AUTOGROUPS.iter().find(|(_, known)| known == other).map_or("", |(name, _)| *name);
                write!(f, "autogroup:{name}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_print_as_they_are_written() {
        for (selector, text) in [
            (Selector::Any, "*"),
            (Selector::User(String::from("ann@example.com")), "ann@example.com"),
            (Selector::Domain(String::from("example.com")), "user:*@example.com"),
            (Selector::Group(String::from("group:dev")), "group:dev"),
            (Selector::Role(Role::ItAdmin), "autogroup:it-admin"),
            (Selector::Member, "autogroup:member"),
            (Selector::Shared, "autogroup:shared"),
            (Selector::Myself, "autogroup:self"),
            (Selector::Everywhere, "autogroup:danger-all"),
            (Selector::Prefix(prefix("10.0.0.1").unwrap()), "10.0.0.1"),
            (Selector::Prefix(prefix("fd00::/64").unwrap()), "fd00::/64"),
        ] {
            assert_eq!(selector.to_string(), text);
        }
    }

    #[test]
    fn addresses_are_prefixes() {
        assert_eq!(prefix("fd00::1"), "fd00::1/128".parse().ok());
        assert_eq!(prefix("10.1.2.3/8"), "10.0.0.0/8".parse().ok());
        assert!(prefix("10.0.0").is_none() && prefix("10.0.0.0/33").is_none() && prefix("web").is_none());
        assert!(is_single(prefix("10.0.0.1/32").unwrap()) && !is_single(prefix("10.0.0.1/31").unwrap()));
    }
}

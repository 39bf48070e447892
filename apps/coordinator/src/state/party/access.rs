//! Roles and scopes of tokens, and the rights that they give. Pure: no input or output.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::store::NetworkId;

/// The role of a person, in one network or in all. Each role includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// A member sees its own account, and manages its own devices.
    Member,
    /// An auditor reads everything, and changes nothing.
    Auditor,
    /// An administrator changes nodes, enrolment keys, relays and the policy.
    Admin,
    /// An owner changes everything, people and their roles included.
    Owner,
}

impl Role {
    /// Returns the role as it is spelled in the database and in answers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Auditor => "auditor",
            Self::Admin => "admin",
            Self::Owner => "owner",
        }
    }
}

impl FromStr for Role {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Member, Self::Auditor, Self::Admin, Self::Owner].into_iter().find(|role| role.name() == text).ok_or(())
    }
}

/// Part of the coordinator that a request reads or changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Area {
    /// The caller's own account and session.
    Own,
    /// The description of the API.
    Description,
    Networks,
    Nodes,
    Keys,
    Relays,
    /// Policies, which decide which nodes may reach which services.
    Policy,
    /// People, their roles and sessions.
    Users,
    /// API tokens of other parties, and operator tokens.
    Tokens,
    Audit,
}

impl Area {
    /// The areas that a scope can name.
    pub(crate) const SCOPED: [Self; 8] =
        [Self::Networks, Self::Nodes, Self::Keys, Self::Relays, Self::Policy, Self::Users, Self::Tokens, Self::Audit];

    /// Returns the area as it is spelled in scopes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Description => "description",
            Self::Networks => "networks",
            Self::Nodes => "nodes",
            Self::Keys => "keys",
            Self::Relays => "relays",
            Self::Policy => "policy",
            Self::Users => "users",
            Self::Tokens => "tokens",
            Self::Audit => "audit",
        }
    }
}

/// Kind of access of a request: reading or changing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Rights that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) area: Area,
    pub(crate) access: Access,
    /// True if a role in one network is not enough.
    pub(crate) everywhere: bool,
    /// True if only a person with a session may make the request, and no token.
    pub(crate) by_session: bool,
    /// True if a member of a network may make the request for devices of its own.
    pub(crate) or_own: bool,
}

impl Need {
    /// Default for requests that set no rights of their own: the caller must be an owner of the coordinator.
    pub(crate) const OWNER: Self =
        Self { area: Area::Users, access: Access::Write, everywhere: true, by_session: false, or_own: false };

    /// Returns the lowest role that has these rights.
    fn role(self) -> Role {
        match (self.area, self.access) {
            (Area::Own | Area::Description, _) => Role::Member,
            (_, Access::Read) => Role::Auditor,
            (Area::Nodes | Area::Keys | Area::Relays | Area::Policy, Access::Write) => Role::Admin,
            (Area::Networks | Area::Users | Area::Tokens | Area::Audit, Access::Write) => Role::Owner,
        }
    }

    /// Returns true if every caller with a valid credential has these rights.
    fn is_open(self) -> bool {
        matches!(self.area, Area::Own | Area::Description)
    }
}

/// The scopes of an API token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scopes {
    /// Everything that the token's person may do.
    All,
    /// Only these areas and kinds of access; writing includes reading.
    Some(Vec<(Area, Access)>),
}

impl Scopes {
    fn allow(&self, need: Need) -> bool {
        match self {
            Self::All => true,
            Self::Some(_) if need.is_open() => true,
            Self::Some(some) => some.iter().any(|(area, access)| *area == need.area && *access >= need.access),
        }
    }
}

impl FromStr for Scopes {
    type Err = String;

    /// Parses scopes that are separated by spaces: `all`, `read`, `nodes:read`, `keys:write`, …. The error is the first that is not a scope.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut some = Vec::new();
        for word in text.split_ascii_whitespace() {
            if word == "all" {
                return Ok(Self::All);
            }
            if word == "read" {
                some.extend(Area::SCOPED.map(|area| (area, Access::Read)));
                continue;
            }
            let unknown = || String::from(word);
            let (area, access) = word.split_once(':').ok_or_else(unknown)?;
            let area = Area::SCOPED.into_iter().find(|known| known.name() == area).ok_or_else(unknown)?;
            let access = match access {
                "read" => Access::Read,
                "write" => Access::Write,
                _ => return Err(unknown()),
            };
            some.push((area, access));
        }
        some.sort_unstable();
        some.dedup();
        if some.is_empty() { Err(String::new()) } else { Ok(Self::Some(some)) }
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Some(some) = self else { return f.write_str("all") };
        for (place, (area, access)) in some.iter().enumerate() {
            let space = if place == 0 { "" } else { " " };
            let access = if *access == Access::Read { "read" } else { "write" };
            write!(f, "{space}{}:{access}", area.name())?;
        }
        Ok(())
    }
}

/// Rights of a caller: its roles, and the scopes of its token.
#[derive(Clone, Debug)]
pub(crate) struct Grants {
    /// The role in all networks and in the coordinator itself.
    pub(crate) everywhere: Option<Role>,
    /// Roles in single networks.
    pub(crate) networks: BTreeMap<NetworkId, Role>,
    pub(crate) scopes: Scopes,
    /// The login of the person, as it stands at devices that it owns; `None` if there is no person, or another one has the same login.
    pub(crate) login: Option<String>,
}

impl Grants {
    /// Returns the grants of an operator token.
    pub(crate) fn all() -> Self {
        Self { everywhere: Some(Role::Owner), networks: BTreeMap::new(), scopes: Scopes::All, login: None }
    }

    /// Returns the grants of an unauthenticated client.
    pub(crate) fn none() -> Self {
        Self { everywhere: None, ..Self::all() }
    }

    /// Returns the role in a network; `None` stands for the coordinator itself.
    pub(crate) fn role(&self, network: Option<NetworkId>) -> Option<Role> {
        let here = network.and_then(|network| self.networks.get(&network).copied());
        self.everywhere.max(here)
    }

    /// Returns true if these grants include the rights in a network; `None` stands for the coordinator itself.
    pub(crate) fn allow(&self, need: Need, network: Option<NetworkId>) -> bool {
        self.scopes.allow(need) && (need.is_open() || self.role(network).is_some_and(|role| role >= need.role()))
    }

    /// Returns true if these grants include the rights in the coordinator itself, or in at least one network if a role in one is enough.
    pub(crate) fn allow_somewhere(&self, need: Need) -> bool {
        let in_one = || self.networks.keys().any(|network| self.allow(need, Some(*network)));
        let has_role = self.everywhere.is_some() || !self.networks.is_empty();
        let owns = need.or_own && has_role && self.login.is_some() && self.scopes.allow(need);
        self.allow(need, None) || (!need.everywhere && in_one()) || owns
    }

    /// Returns the login of the person if it may make the request in this network for devices of its own.
    pub(crate) fn own_login(&self, need: Need, network: NetworkId) -> Option<&str> {
        let is_member = self.role(Some(network)).is_some();
        self.login.as_deref().filter(|_| need.or_own && is_member && self.scopes.allow(need))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(area: Area, access: Access) -> Need {
        Need { area, access, everywhere: false, by_session: false, or_own: false }
    }

    #[test]
    fn scopes_are_read_as_they_are_written() {
        for (text, written) in [
            ("all", "all"),
            ("nodes:read all", "all"),
            ("nodes:write  keys:read", "nodes:write keys:read"),
            ("keys:read keys:read", "keys:read"),
        ] {
            assert_eq!(text.parse::<Scopes>().unwrap().to_string(), written);
        }
        assert_eq!("read".parse::<Scopes>().unwrap().to_string().split(' ').count(), Area::SCOPED.len());
        for wrong in ["", " ", "nodes", "nodes:all", "own:write", "description:read", "nodes:read,keys:read", "ALL"] {
            assert!(wrong.parse::<Scopes>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn fault_e2_a_role_in_one_network_is_worth_nothing_in_another() {
        let [own, other] = [NetworkId([1; 16]), NetworkId([2; 16])];
        let networks = BTreeMap::from([(own, Role::Admin)]);
        let grants = Grants { everywhere: None, networks, ..Grants::all() };
        let write = need(Area::Nodes, Access::Write);
        assert!(grants.allow(write, Some(own)) && grants.allow_somewhere(write));
        assert!(!grants.allow(write, Some(other)) && !grants.allow(write, None));
        assert!(!grants.allow_somewhere(Need { everywhere: true, ..write }));
        assert!(!grants.allow(need(Area::Networks, Access::Write), Some(own)), "an admin is no owner");
        assert!(!grants.allow_somewhere(Need::OWNER));
    }

    #[test]
    fn fault_e2_a_token_is_at_most_its_scopes_and_at_most_its_person() {
        let grants =
            |role, scopes: &str| Grants { everywhere: Some(role), scopes: scopes.parse().unwrap(), ..Grants::all() };
        assert!(grants(Role::Owner, "nodes:write").allow(need(Area::Nodes, Access::Read), None), "includes reading");
        assert!(!grants(Role::Owner, "nodes:read").allow(need(Area::Nodes, Access::Write), None));
        assert!(!grants(Role::Owner, "nodes:write").allow(need(Area::Keys, Access::Read), None));
        assert!(!grants(Role::Owner, "read").allow(Need::OWNER, None));
        assert!(!grants(Role::Auditor, "all").allow(need(Area::Nodes, Access::Write), None));
        assert!(!grants(Role::Member, "all").allow(need(Area::Nodes, Access::Read), None));
        assert!(grants(Role::Member, "audit:read").allow(need(Area::Own, Access::Write), None));
    }

    #[test]
    fn fault_e2_a_member_reaches_devices_of_its_own_in_its_networks_and_no_others() {
        let [here, there] = [NetworkId([1; 16]), NetworkId([2; 16])];
        let networks = BTreeMap::from([(here, Role::Member)]);
        let member = Grants { everywhere: None, networks, login: Some(String::from("ann")), ..Grants::all() };
        let own = Need { or_own: true, ..need(Area::Nodes, Access::Write) };
        assert!(member.allow_somewhere(own) && !member.allow(own, Some(here)));
        assert_eq!((member.own_login(own, here), member.own_login(own, there)), (Some("ann"), None));
        let other = need(Area::Nodes, Access::Write);
        assert!(!member.allow_somewhere(other) && member.own_login(other, here).is_none());
        let read_only = Grants { scopes: "nodes:read".parse().unwrap(), ..member.clone() };
        assert!(!read_only.allow_somewhere(own) && read_only.own_login(own, here).is_none());
        let nameless = Grants { login: None, ..member };
        assert!(!nameless.allow_somewhere(own), "a login that two people have belongs to neither");
    }
}

//! Groups and roles of people in policies: who has them, and which networks must apply their policies again when they change (docs/policy.md).

use std::collections::BTreeMap;

use taut_policy::{Role, UserFacts};

use super::super::{State, StateError, random_bits};
use crate::store::{GroupsRow, LOCAL, NetworkId, PersonRow, Reading, Writing};

/// Networks whose policies must be applied again, each with its new version. They are announced after the commit.
#[must_use = "nodes wait until this is announced"]
#[derive(Default)]
pub(super) struct Regrouped(Vec<(NetworkId, u64)>);

impl State {
    /// Tells the channels of networks that groups of owners changed.
    pub(super) fn announce_groups(&self, regrouped: Regrouped) {
        for (network, version) in regrouped.0 {
            self.hub(network).announce(version);
        }
    }
}

/// The people whose groups are read from the database.
#[derive(Clone, Copy)]
pub(in crate::state) enum GroupsOf<'a> {
    Everybody,
    /// Owners of the network's nodes.
    Owners,
    Login(&'a str),
}

/// Returns people with groups or a role in a network, as policies see them.
pub(in crate::state) async fn users(
    tx: &mut Reading,
    network: NetworkId,
    whose: GroupsOf<'_>,
) -> Result<Vec<UserFacts>, StateError> {
    let mut users: BTreeMap<String, UserFacts> = BTreeMap::new();
    let groups = match whose {
        GroupsOf::Everybody => tx.groups_of_people(None).await?,
        GroupsOf::Owners => tx.groups_of_people(Some(network)).await?,
        GroupsOf::Login(login) => tx.groups_of_login(login).await?,
    };
    for GroupsRow { login, groups } in groups {
        let name = login.clone();
        users.insert(login, UserFacts { name, groups, ..UserFacts::default() });
    }
    for (login, role) in tx.roles_for_policy(network).await? {
        let name = login.clone();
        let user = users.entry(login).or_insert_with(|| UserFacts { name, ..UserFacts::default() });
        // The roles are in the order of their rights: the highest of a person counts.
        user.role = user.role.min(of_policy(&role));
    }
    Ok(users.into_values().collect())
}

/// Returns a role as policies name it.
fn of_policy(role: &str) -> Role {
    match role {
        "owner" => Role::Owner,
        "admin" => Role::Admin,
        "auditor" => Role::Auditor,
        _ => Role::Member,
    }
}

/// Deletes a removed person as the owner of devices and enrolment keys, so that a later person with the same login does not own them.
pub(super) async fn free_devices(tx: &mut Writing, person: &PersonRow) -> Result<Regrouped, StateError> {
    let mut freed = Regrouped::default();
    let Some(login) = login(person) else { return Ok(freed) };
    // Another person with the same login may be the one that owns them.
    if tx.has_login(login).await? {
        return Ok(freed);
    }
    for network in tx.networks_of_owner(login).await? {
        let version = tx.next_version(network, random_bits()).await?;
        tx.free_nodes(network, login, version).await?;
        freed.0.push((network, version));
    }
    Ok(freed)
}

/// Gives a new version to each network in which a change of a person changes groups of an owner. `after` is `None` for a person that is removed.
pub(super) async fn regroup(
    tx: &mut Writing,
    before: &PersonRow,
    after: Option<&PersonRow>,
) -> Result<Regrouped, StateError> {
    let (was, is) = (standing(before), after.and_then(standing));
    if was == is {
        return Ok(Regrouped::default());
    }
    let logins: Vec<&str> = [was, is].into_iter().flatten().map(|(login, _)| login).collect();
    regroup_logins(tx, &logins, None).await
}

/// Gives a new version to each network, or to this one alone, in which a person that is new, or whose role changed, owns a node.
pub(super) async fn regroup_role(
    tx: &mut Writing,
    person: &PersonRow,
    network: Option<NetworkId>,
) -> Result<Regrouped, StateError> {
    let login = standing(person).map(|(login, _)| login);
    regroup_logins(tx, login.as_slice(), network).await
}

async fn regroup_logins(tx: &mut Writing, logins: &[&str], only: Option<NetworkId>) -> Result<Regrouped, StateError> {
    let mut networks = Vec::new();
    for login in logins {
        networks.extend(tx.networks_of_owner(login).await?);
    }
    networks.retain(|network| only.is_none_or(|only| only == *network));
    networks.sort();
    networks.dedup();
    let mut regrouped = Regrouped::default();
    for network in networks {
        let version = tx.next_version(network, random_bits()).await?;
        tx.set_groups_version(network, version).await?;
        regrouped.0.push((network, version));
    }
    Ok(regrouped)
}

/// Returns login and groups of a person that counts in policies, also without groups: another person of the same login then has none either.
fn standing(person: &PersonRow) -> Option<(&str, &[String])> {
    let counts = person.disabled_at.is_none() && person.lapsed_at.is_none();
    login(person).filter(|_| counts).map(|login| (login, person.member_of.as_slice()))
}

/// Returns the login of a person, as it stands at its devices.
fn login(person: &PersonRow) -> Option<&str> {
    if person.issuer == LOCAL { Some(&person.subject) } else { person.login.as_deref() }
}

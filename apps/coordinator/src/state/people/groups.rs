//! Groups of an OpenID provider in policies: which people have them, and which networks must apply their policies again when they change (docs/policy.md).

use taut_policy::UserFacts;

use super::super::{State, StateError, random_bits};
use crate::store::{GroupsRow, NetworkId, PersonRow, Reading, Writing};

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

/// Returns the people with groups, as policies see them; with a network, only owners of its nodes.
pub(in crate::state) async fn users(
    tx: &mut Reading,
    network: Option<NetworkId>,
) -> Result<Vec<UserFacts>, StateError> {
    let facts = |row: GroupsRow| UserFacts { name: row.login, groups: row.groups, ..UserFacts::default() };
    Ok(tx.groups_of_people(network).await?.into_iter().map(facts).collect())
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
    let mut networks = Vec::new();
    for (login, _) in [was, is].into_iter().flatten() {
        networks.extend(tx.networks_of_owner(login).await?);
    }
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
    person.login.as_deref().filter(|_| counts).map(|login| (login, person.member_of.as_slice()))
}

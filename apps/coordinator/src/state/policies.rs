//! Policies of networks: applying one, and their history.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use serde_json::json;
use taut_policy::{Inventory, MAX_TEXT, Policy, run_tests};

use super::enforced::{facts_of, is_open};
use super::first_policy::KEPT;
use super::party::{Actor, Caller, Change, record};
use super::{State, StateError, networks, random_bits};
use crate::clock::unix_now;
use crate::log;
use crate::store::{NetworkRow, NodeRow, Part, Party, PolicyRow, Reading};

/// Longest comment of a version, 500 characters.
const MAX_COMMENT: usize = 500;

/// A policy to apply.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewPolicy {
    pub(crate) text: String,
    pub(crate) comment: String,
    /// The number of the version that the author changed; `None` replaces whatever is in force.
    pub(crate) based_on: Option<i64>,
    /// True to apply it although some nodes are too old to enforce it.
    pub(crate) force: bool,
}

/// A policy, its network, and the members that it applies to.
pub(crate) struct PolicyView {
    pub(crate) network: NetworkRow,
    pub(crate) row: PolicyRow,
    pub(crate) inventory: Inventory,
    /// Names of members that are too old to enforce a policy.
    pub(crate) too_old: Vec<String>,
}

impl State {
    /// Returns the policy in force.
    pub(crate) async fn policy(&self, network: Option<&str>) -> Result<PolicyView, StateError> {
        let mut tx = self.store.read(Party::Operators).await?;
        let network = networks::named(&mut tx, network).await?;
        let row = tx.policy(network.id).await?.ok_or(StateError::NoPolicy(0))?;
        self.policy_view(&mut tx, network, row).await
    }

    /// Returns a version of the policy.
    pub(crate) async fn policy_version(&self, network: Option<&str>, number: i64) -> Result<PolicyView, StateError> {
        let mut tx = self.store.read(Party::Operators).await?;
        let network = networks::named(&mut tx, network).await?;
        let row = tx.policy_version(network.id, number).await?.ok_or(StateError::NoPolicy(number))?;
        self.policy_view(&mut tx, network, row).await
    }

    /// Returns up to 100 versions before this one, newest first, without their texts.
    pub(crate) async fn policy_versions(
        &self,
        network: Option<&str>,
        before: Option<i64>,
    ) -> Result<Vec<PolicyRow>, StateError> {
        let mut tx = self.store.read(Party::Operators).await?;
        let network = networks::named(&mut tx, network).await?;
        Ok(tx.policy_versions(network.id, before.unwrap_or(i64::MAX), 100).await?)
    }

    /// Applies a policy: it is read, its tests are run against the members, and it becomes the next version. On an error the one in force stays.
    pub(crate) async fn apply_policy(&self, network: Option<&str>, new: NewPolicy) -> Result<PolicyView, StateError> {
        if new.text.len() > MAX_TEXT || new.comment.chars().count() > MAX_COMMENT {
            return Err(StateError::LongPolicy);
        }
        let policy = Policy::parse(&new.text).map_err(|error| StateError::BadPolicy(Box::new(error)))?;
        let mut tx = self.store.write(Party::Operators).await?;
        let network = networks::named(&mut tx, network).await?;
        let number = tx.policy_number(network.id).await?;
        if new.based_on.is_some_and(|based_on| based_on != number) {
            return Err(StateError::PolicyChanged(number));
        }
        let members = tx.members(network.id).await?.valid;
        let failures = failures(&policy, &inventory(&network, &members));
        if !failures.is_empty() {
            return Err(StateError::PolicyTests(failures));
        }
        let too_old = self.too_old(&members);
        if !too_old.is_empty() && !new.force && !is_open(&policy) {
            return Err(StateError::TooOld(too_old));
        }
        let version = tx.next_version(network.id, random_bits()).await?;
        let row = PolicyRow {
            number: 0,
            version,
            text: new.text,
            author: author(&Caller::current().actor),
            comment: new.comment,
            created_at: unix_now(),
        };
        let number = tx.insert_policy(network.id, &row, KEPT).await?;
        let (before, after) =
            (Some(json!({ "version": number - 1 })), Some(json!({ "version": number, "comment": row.comment })));
        let object = format!("policy version {number}");
        record(&mut tx, Change { network: Some(network.id), action: "policy-applied", object, before, after }).await?;
        tx.commit().await?;
        self.hub(network.id).announce(version);
        tracing::info!(target: log::MEMBERS, event = "policy-applied", network = network.name, number, author = row.author);
        let inventory = inventory(&network, &members);
        let network = NetworkRow { version, ..network };
        Ok(PolicyView { network, row: PolicyRow { number, ..row }, inventory, too_old })
    }

    async fn policy_view(
        &self,
        tx: &mut Reading,
        network: NetworkRow,
        row: PolicyRow,
    ) -> Result<PolicyView, StateError> {
        let members = tx.members(network.id).await?.valid;
        Ok(PolicyView { inventory: inventory(&network, &members), too_old: self.too_old(&members), network, row })
    }

    /// Returns the names of members whose last known program does not enforce filters: release 0.1.
    fn too_old(&self, members: &[NodeRow]) -> Vec<String> {
        let programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        let program = |row: &NodeRow| programs.get(&row.id).unwrap_or(&row.program).starts_with("0.1.");
        let names: BTreeSet<&str> = members.iter().filter(|row| program(row)).map(|row| row.name.as_str()).collect();
        names.into_iter().map(String::from).collect()
    }

    #[cfg(test)]
    pub(crate) fn set_program(&self, node: taut_base::NodeId, program: &str) {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner).insert(node, String::from(program));
    }
}

/// Returns the name of the party that applies a policy, as the list of versions shows it.
fn author(actor: &Actor) -> String {
    match actor {
        Actor::Person { name, .. } => name.clone(),
        Actor::Token { name, .. } => format!("token {name}"),
        Actor::OperatorToken(id) => format!("operator token {id}"),
        Actor::Command | Actor::Coordinator | Actor::Nobody => String::from(actor.kind()),
    }
}

/// Returns the nodes and people that a network's policy is applied to.
fn inventory(network: &NetworkRow, members: &[NodeRow]) -> Inventory {
    let nodes = members.iter().filter(|row| row.device.part() == Part::Takes).map(facts_of).collect();
    Inventory { nodes, users: Vec::new(), prefixes: vec![network.ipv4, network.ipv6] }
}

/// Returns the tests of a policy that fail, each with its line and the reason.
fn failures(policy: &Policy, inventory: &Inventory) -> Vec<String> {
    let failed = run_tests(policy, inventory).into_iter().filter_map(|outcome| {
        let wanted = if outcome.accept { "accept" } else { "deny" };
        outcome.failure.map(|why| format!("line {}: {wanted} {}: {why}", outcome.line, outcome.connection))
    });
    failed.collect()
}

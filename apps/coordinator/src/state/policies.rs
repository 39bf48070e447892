//! Policies of networks: applying one, and their history.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use serde_json::json;
use taut_policy::{Inventory, Policy, compile, run_tests};

use super::enforced::{facts_of, inventory, is_open};
use super::first_policy::KEPT;
use super::party::{Actor, Caller, Change, record};
use super::people::{GroupsOf, users_of_policy};
use super::{State, StateError, networks, random_bits, routes};
use crate::clock::unix_now;
use crate::log;
use crate::store::{NetworkRow, NodeRow, Party, PolicyRow, Reading};

/// Longest policy, 512 KiB: some thousand rules. A request of this length arrives within seconds at the rate that a connection may read at.
const MAX_LENGTH: usize = 512 * 1024;

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

impl NewPolicy {
    /// Returns an error if the author changed another version than the one in force.
    fn check_base(&self, in_force: i64) -> Result<(), StateError> {
        match self.based_on {
            Some(based_on) if based_on != in_force => Err(StateError::PolicyChanged(in_force)),
            _ => Ok(()),
        }
    }
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

    /// Applies a policy: it is read, tried on the members, and becomes the next version. On an error the one in force stays.
    pub(crate) async fn apply_policy(&self, network: Option<&str>, new: NewPolicy) -> Result<PolicyView, StateError> {
        if new.text.len() > MAX_LENGTH || new.comment.chars().count() > MAX_COMMENT {
            return Err(StateError::LongPolicy);
        }
        let current = self.policy(network).await?;
        new.check_base(current.row.number)?;
        let turn = self.hub(current.network.id).try_policy().ok_or(StateError::PolicyBusy)?;
        // Nobody waits for the database meanwhile.
        let (text, inventory) = (new.text.clone(), current.inventory.clone());
        let is_open = self.policy_threads.for_try(turn, move || try_on(&text, &inventory)).await?;
        if !current.too_old.is_empty() && !new.force && !is_open {
            return Err(StateError::TooOld(current.too_old));
        }
        let mut tx = self.store.write(Party::Operators).await?;
        let network = networks::named(&mut tx, Some(&current.network.id.to_string())).await?;
        new.check_base(tx.policy_number(network.id).await?)?;
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
        routes::approve_by_policy(&mut tx, &network, &row.text, version).await?;
        let (before, after) =
            (Some(json!({ "version": number - 1 })), Some(json!({ "version": number, "comment": row.comment })));
        let object = format!("policy version {number}");
        record(&mut tx, Change { network: Some(network.id), action: "policy-applied", object, before, after }).await?;
        tx.commit().await?;
        self.hub(network.id).announce(version);
        tracing::info!(target: log::MEMBERS, event = "policy-applied", network = network.name, number, author = row.author);
        Ok(PolicyView { network: NetworkRow { version, ..network }, row: PolicyRow { number, ..row }, ..current })
    }

    async fn policy_view(
        &self,
        tx: &mut Reading,
        network: NetworkRow,
        row: PolicyRow,
    ) -> Result<PolicyView, StateError> {
        let members = tx.members(network.id).await?.valid;
        let users = users_of_policy(tx, network.id, GroupsOf::Everybody).await?;
        let inventory = inventory(members.iter().filter_map(facts_of), users, [network.ipv4, network.ipv6]);
        Ok(PolicyView { inventory, too_old: self.too_old(&members), network, row })
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

/// Tries a policy on the members: it is read, its tests are run, and each node's filter is made. Returns true if everybody reaches everybody.
fn try_on(text: &str, inventory: &Inventory) -> Result<bool, StateError> {
    let policy = Policy::parse(text).map_err(|error| StateError::BadPolicy(Box::new(error)))?;
    let failures = failures(&policy, inventory);
    if !failures.is_empty() {
        return Err(StateError::PolicyTests(failures));
    }
    let compiled = compile(&policy, inventory);
    for (place, node) in inventory.nodes.iter().enumerate() {
        compiled.filter(place).check().map_err(|bad| StateError::LargeFilter(node.name.clone(), bad))?;
    }
    Ok(is_open(&policy))
}

/// Returns the tests of a policy that fail, each with its line and the reason.
fn failures(policy: &Policy, inventory: &Inventory) -> Vec<String> {
    let failed = run_tests(policy, inventory).into_iter().filter_map(|outcome| {
        let wanted = if outcome.accept { "accept" } else { "deny" };
        outcome.failure.map(|why| format!("line {}: {wanted} {}: {why}", outcome.line, outcome.connection))
    });
    failed.collect()
}

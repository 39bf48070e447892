//! Subnet routes and exit nodes: what nodes advertise, and who approves it (docs/internals/routes.md). The default routes that make a node an exit node are one thing: both are advertised,
//! approved and revoked together.
//!
//! A route is in maps while its node advertises it and it is approved. An approval stays when the node no longer advertises the route: a router needs no new approval
//! after a restart.

use serde_json::json;
use taut_base::{NodeId, Prefix};
use taut_netmap::{MAX_ROUTES, check_route, exit_routes, has_exit, is_exit_route};
use taut_policy::{Inventory, Policy};

use super::enforced::{facts_of, inventory};
use super::members::member;
use super::party::{Change, record};
use super::people::{GroupsOf, users_of_policy};
use super::{State, StateError, random_bits};
use crate::clock::unix_now;
use crate::log;
use crate::store::{Device, NetworkId, NetworkRow, NodeRow, Reading, StoreError, Writing};

/// Limit on the approved routes of a node, 128, twice as many as it may advertise: a node whose routes the policy approves could otherwise have its row, and the audit log with each
/// change of it, grow for ever.
const MOST_APPROVED: usize = 2 * MAX_ROUTES;

/// The word for both default routes, as in `taut-coordinator routes approve NODE exit-node`.
pub(crate) const EXIT_NODE: &str = "exit-node";

impl State {
    /// Stores the prefixes that a node advertises, and approves those that the policy's `autoApprovers` allow it. The map changes only if the routes in force do.
    pub(crate) async fn set_advertised(
        &self,
        network: NetworkId,
        node: NodeId,
        wanted: &[Prefix],
    ) -> Result<(), StateError> {
        // Each node says on each channel what it advertises, most of them nothing: that costs no transaction.
        let view = self.remembered_view(network);
        let known = view.as_ref().and_then(|view| view.row(node));
        if known.is_some_and(|row| row.advertised == wanted) {
            return Ok(());
        }
        let mut tx = self.store.write(self.party(network)).await?;
        let (network, row) = member(&mut tx, node).await?;
        let advertised = usable(&network, wanted);
        if advertised == row.advertised {
            return Ok(());
        }
        tx.set_advertised(node, &advertised).await?;
        let mut next = NodeRow { advertised, ..row.clone() };
        let new = automatic(&mut tx, &network, &next).await?;
        let version = tx.next_version(network.id, random_bits()).await?;
        approve(&mut tx, &mut next, new, version).await?;
        tx.commit().await?;
        self.hub(network.id).announce(version);
        let (routes, approved) = (words(&next.advertised), words(&next.routes()));
        tracing::info!(target: log::MEMBERS, limited = node.0, event = "routes-advertised", network = network.name, node = node.0, name = row.name, routes, approved);
        Ok(())
    }
}

/// Approves the advertised routes of all members that a new policy approves.
pub(super) async fn approve_by_policy(
    tx: &mut Writing,
    network: &NetworkRow,
    text: &str,
    version: u64,
) -> Result<(), StateError> {
    let rows = tx.members(network.id).await?.valid;
    let waiting = |row: &NodeRow| row.advertised.iter().any(|route| !row.device.routes.contains(route));
    if !rows.iter().any(waiting) {
        return Ok(());
    }
    let (policy, inventory) = read(tx, network, text).await?;
    for mut row in rows.into_iter().filter(waiting) {
        let new = approved_by(&policy, &inventory, &row);
        approve(tx, &mut row, new, version).await?;
    }
    Ok(())
}

/// Returns a node's approved routes after an operator's change. Only advertised routes are approved, because a route that nobody named is likely a slip of the pen.
pub(super) fn changed(row: &NodeRow, approve: &[Prefix], revoke: &[Prefix]) -> Result<Vec<Prefix>, StateError> {
    let (approve, revoke) = (&with_both(approve), &with_both(revoke));
    if let Some(other) =
        approve.iter().find(|route| !row.advertised.contains(route) && !row.device.routes.contains(route))
    {
        return Err(StateError::NotAdvertised {
            node: row.name.clone(),
            route: word(*other),
            advertised: words(&row.advertised),
        });
    }
    if let Some(other) = revoke.iter().find(|route| !row.device.routes.contains(route)) {
        return Err(StateError::NotApproved { node: row.name.clone(), route: word(*other) });
    }
    let mut routes = row.device.routes.clone();
    routes.extend(approve.iter().copied());
    routes.retain(|route| !revoke.contains(route));
    routes.sort_unstable();
    routes.dedup();
    if routes.len() > MOST_APPROVED {
        Err(StateError::ManyRoutes { node: row.name.clone(), most: MOST_APPROVED })
    } else {
        Ok(routes)
    }
}

/// Returns the prefixes as text, with spaces between them. Those of an exit node are one word.
pub(super) fn words(routes: &[Prefix]) -> String {
    let exit = has_exit(routes).then(|| String::from(EXIT_NODE));
    let subnets = routes.iter().filter(|route| !is_exit_route(**route)).map(Prefix::to_string);
    exit.into_iter().chain(subnets).collect::<Vec<_>>().join(" ")
}

/// Returns a route as operators know it.
fn word(route: Prefix) -> String {
    words(&[route])
}

/// Adds the other default route to a list that has one of them.
fn with_both(routes: &[Prefix]) -> Vec<Prefix> {
    let mut all = routes.to_vec();
    if has_exit(routes) {
        all.extend(exit_routes());
        all.sort_unstable();
        all.dedup();
    }
    all
}

/// Returns the prefixes that may be routes of this network, sorted and each once.
fn usable(network: &NetworkRow, wanted: &[Prefix]) -> Vec<Prefix> {
    let overlay = [network.ipv4, network.ipv6];
    let is_usable = |route: &Prefix| is_exit_route(*route) || check_route(*route, &overlay).is_ok();
    let mut good: Vec<Prefix> = with_both(wanted).into_iter().take(MAX_ROUTES).filter(is_usable).collect();
    good.sort_unstable();
    good.dedup();
    good
}

/// Returns the advertised routes that the policy in force approves for this node, as far as they are not approved yet.
pub(super) async fn automatic(
    tx: &mut Reading,
    network: &NetworkRow,
    row: &NodeRow,
) -> Result<Vec<Prefix>, StateError> {
    if row.advertised.iter().all(|route| row.device.routes.contains(route)) {
        return Ok(Vec::new());
    }
    let text = tx.policy(network.id).await?.ok_or(StoreError::Damaged("a network without a policy"))?.text;
    // Most policies approve no routes, and reading a large one takes a while.
    if !text.contains("autoApprovers") {
        return Ok(Vec::new());
    }
    let (policy, inventory) = read(tx, network, &text).await?;
    Ok(approved_by(&policy, &inventory, row))
}

async fn read(tx: &mut Reading, network: &NetworkRow, text: &str) -> Result<(Policy, Inventory), StateError> {
    let policy = Policy::parse(text).map_err(|error| StateError::StoredPolicy(Box::new(error)))?;
    let users = users_of_policy(tx, network.id, GroupsOf::Owners).await?;
    Ok((policy, inventory(std::iter::empty(), users, [network.ipv4, network.ipv6])))
}

fn approved_by(policy: &Policy, inventory: &Inventory, row: &NodeRow) -> Vec<Prefix> {
    let Some(facts) = facts_of(row) else { return Vec::new() };
    let is_new =
        |route: &Prefix| !row.device.routes.contains(route) && policy.approves_route(*route, &facts, inventory);
    // Beyond the limit, routes wait for an operator, who can revoke others.
    let room = MOST_APPROVED.saturating_sub(row.device.routes.len());
    row.advertised.iter().copied().filter(is_new).take(room).collect()
}

/// Stores approvals of the policy, with an entry in the audit log.
async fn approve(tx: &mut Writing, row: &mut NodeRow, new: Vec<Prefix>, version: u64) -> Result<(), StateError> {
    let before = row.device.clone();
    let mut after = Device { routes: [before.routes.as_slice(), &new].concat(), ..before.clone() };
    after.routes.sort_unstable();
    tx.set_device(row.id, (&before, &after), version, unix_now()).await?;
    if !new.is_empty() {
        let (was, is) = (json!({ "routes": before.routes }), json!({ "routes": after.routes, "by": "autoApprovers" }));
        let (of, object) = (Some(row.network), format!("node {}", row.id));
        record(tx, Change { network: of, action: "node-changed", object, before: Some(was), after: Some(is) }).await?;
    }
    row.device = after;
    Ok(())
}

//! The operator's requests about nodes: list, rename, remove.

use std::net::IpAddr;
use std::sync::PoisonError;

use serde_json::{Value, json};
use taut_base::NodeId;
use taut_relay_server::log::MEMBERSHIP;

use super::members::member;
use super::names::is_number;
use super::party::{Caller, Change, PeopleError, record};
use super::{State, StateError, networks, random_bits};
use crate::clock::unix_now;
use crate::log;
use crate::store::{DamagedRow, NetworkId, NetworkRow, NodeRow, Party, Reading, StoreError, Writing};

/// A node as the operator sees it. No field of it is a secret (fault E4): the coordinator has none of a node's.
pub(crate) struct NodeView {
    pub(crate) network: String,
    pub(crate) row: NodeRow,
    pub(crate) online: bool,
    /// True if two hosts used its keys recently.
    pub(crate) twin: bool,
}

impl State {
    /// Returns the nodes of one network or of all.
    pub(crate) async fn nodes(&self, network: Option<&str>) -> Result<Vec<NodeView>, StateError> {
        let mut tx = self.store.read(Party::Operators).await?;
        let mut views = Vec::new();
        let caller = Caller::current();
        for network in networks::listed(&mut tx, network).await? {
            for row in tx.nodes(network.id).await?.into_iter().filter(|row| caller.may_touch(row)) {
                views.push(self.view(&network, row));
            }
        }
        Ok(views)
    }

    /// Removes a node. It may join again with a join token, as a new node.
    pub(crate) async fn remove_node(&self, network: Option<&str>, name: &str) -> Result<NodeView, StateError> {
        let mut tx = self.store.write(Party::Operators).await?;
        let (network, row) = match find(&mut tx, network, name).await {
            Err(StateError::Store(StoreError::DamagedRow(DamagedRow { table: "nodes", key, .. }))) => {
                return self.remove_damaged(tx, &key).await;
            }
            found => found?,
        };
        if row.device.disabled && Caller::current().only_own(network.id).is_some() {
            // The same machine could be approved again as a new node.
            return Err(PeopleError::Forbidden.into());
        }
        record(&mut tx, Change { before: Some(value(&row)), ..change("node-removed", &row) }).await?;
        self.remove(tx, &network, &row).await?;
        tracing::info!(target: log::MEMBERS, event = "removed", network = network.name, node = row.id.0, name = row.name);
        Ok(self.view(&network, row))
    }

    /// Removes a member whose row is damaged (fault O9). All nodes of its network get a whole map, because a delta may be unable to name it.
    async fn remove_damaged(&self, mut tx: Writing, id: &str) -> Result<NodeView, StateError> {
        let unknown = || StateError::NoNode(String::from(id));
        let number = id.parse().map_err(|_| unknown())?;
        let row = tx.damaged_node(NodeId(number)).await?.ok_or_else(unknown)?;
        let (caller, network) = (Caller::current(), tx.network(row.network).await?);
        if !caller.is_allowed(network.as_ref().map(|network| network.id)) {
            return Err(unknown());
        }
        let of = network.as_ref().map(|network| network.id);
        record(&mut tx, Change { network: of, before: Some(value(&row)), ..change("node-removed", &row) }).await?;
        let Some(network) = network else {
            tx.delete_node(row.id).await?;
            tx.commit().await?;
            tracing::info!(target: log::MEMBERS, event = "removed", network = "", node = number, name = row.name);
            return Ok(NodeView { network: String::new(), online: false, twin: false, row });
        };
        let version = tx.next_version(network.id, random_bits()).await?;
        tx.remove_node(row.id, version, unix_now()).await?;
        tx.forget_before(network.id, version).await?;
        tx.commit().await?;
        self.forget_members(network.id, std::slice::from_ref(&row), |_| {});
        self.hub(network.id).announce(version);
        tracing::info!(target: log::MEMBERS, event = "removed", network = network.name, node = number, name = row.name);
        Ok(self.view(&network, row))
    }

    /// Removes a node that asked for it. Succeeds if the node is not a member.
    pub(crate) async fn leave(&self, network: NetworkId, node: NodeId, from: IpAddr) -> Result<(), StateError> {
        let mut tx = self.store.write(self.party(network)).await?;
        let (network, row) = match member(&mut tx, node).await {
            Err(StateError::NotAMember) => return Ok(()),
            found => found?,
        };
        self.remove(tx, &network, &row).await?;
        let (network, node) = (&network.name, row.id.0);
        tracing::info!(target: log::MEMBERS, limited = MEMBERSHIP, event = "left", network, node, name = row.name, address = %from);
        Ok(())
    }

    /// Removes a node.
    async fn remove(&self, mut tx: Writing, network: &NetworkRow, row: &NodeRow) -> Result<(), StateError> {
        let version = tx.next_version(network.id, random_bits()).await?;
        tx.remove_node(row.id, version, unix_now()).await?;
        tx.commit().await?;
        self.forget_members(network.id, std::slice::from_ref(row), |_| {});
        self.hub(network.id).announce(version);
        Ok(())
    }

    pub(super) fn view(&self, network: &NetworkRow, mut row: NodeRow) -> NodeView {
        if let Some(program) = self.programs.lock().unwrap_or_else(PoisonError::into_inner).get(&row.id) {
            row.program.clone_from(program);
        }
        let hub = self.hub(network.id);
        NodeView { network: network.name.clone(), online: hub.is_online(row.id), twin: hub.has_duplicate(row.id), row }
    }
}

fn change(action: &'static str, row: &NodeRow) -> Change {
    Change { network: Some(row.network), action, object: format!("node {}", row.id), before: None, after: None }
}

/// Returns a node for the audit log.
fn value(row: &NodeRow) -> Value {
    json!({ "name": row.name, "key": row.node_key, "ipv4": row.ipv4, "ipv6": row.ipv6 })
}

/// Returns a node by number (digits only) or by name. Numbers are unique in all networks. A name needs a network if several networks have a node of that name.
pub(super) async fn find(
    tx: &mut Reading,
    network: Option<&str>,
    name: &str,
) -> Result<(NetworkRow, NodeRow), StateError> {
    let unknown = || StateError::NoNode(String::from(name));
    if is_number(name) {
        let id = name.parse().map_err(|_| unknown())?;
        let row = tx.node(NodeId(id)).await?.ok_or_else(unknown)?;
        let Some(own) = tx.network(row.network).await? else {
            let what = "its network does not exist";
            return Err(StoreError::DamagedRow(DamagedRow { table: "nodes", key: row.id.to_string(), what }).into());
        };
        let is_other = network.is_some() && networks::named(tx, network).await?.id != own.id;
        if is_other || !Caller::current().may_touch(&row) {
            return Err(unknown());
        }
        return Ok((own, row));
    }
    let mut found = Vec::new();
    for network in networks::listed(tx, network).await? {
        if let Some(row) = tx.node_by_name(network.id, name).await?.filter(|row| Caller::current().may_touch(row)) {
            found.push((network, row));
        }
    }
    networks::only(found, "node", name)?.ok_or_else(unknown)
}

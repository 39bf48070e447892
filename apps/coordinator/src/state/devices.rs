//! Changes of devices by operators: approval, owner, tags, disabling, and the life of a membership (docs/internals/devices.md).
//!
//! A node takes part in its network if it is approved, not disabled and not expired ([`Part`]). A change of that is a change of the network's version like any
//! other, so that peers drop the node, or get it, with the next delta.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use taut_base::NodeId;
use taut_netmap::{BadName, check_new_name};

use super::device_rules::{DeviceChange, LIFE, approved, checked_owner, checked_tags, end};
use super::names::is_number;
use super::nodes::find;
use super::party::{Caller, Change, record};
use super::{NodeView, State, StateError, own_devices, random_bits, routes};
use crate::clock::unix_now;
use crate::log;
use crate::store::{Device, NetworkId, NetworkRow, NodeRow, Part, Party, undamaged};

impl State {
    /// Changes a device in one transaction: on an error nothing is changed.
    pub(crate) async fn change_device(
        &self,
        network: Option<&str>,
        name: &str,
        change: DeviceChange,
    ) -> Result<NodeView, StateError> {
        if let Some(new) = &change.name {
            check_new_name(new).map_err(StateError::bad_name(new))?;
            if is_number(new) {
                return Err(StateError::BadName(new.clone(), BadName::NoLabel));
            }
        }
        let now = unix_now();
        let mut tx = self.store.write(Party::Operators).await?;
        let (network, row) = find(&mut tx, network, name).await?;
        if let Some(login) = Caller::current().only_own(network.id) {
            own_devices::check(&mut tx, &row, login, &change).await?;
        }
        let mut after = changed(&network, &row.device, &change, now)?;
        after.routes = routes::changed(&row, &change.approve_routes, &change.revoke_routes)?;
        if after.tags != row.device.tags || after.owner != row.device.owner {
            let next = NodeRow { device: after.clone(), ..row.clone() };
            after.routes.extend(routes::automatic(&mut tx, &network, &next).await?);
            after.routes.sort_unstable();
        }
        let mut row = row;
        let former = row.name.clone();
        let new_name = change.name.filter(|new| *new != row.name);
        if new_name.is_none() && after == row.device {
            return Ok(self.view(&network, row));
        }
        let version = tx.next_version(network.id, random_bits()).await?;
        row.version = version;
        if let Some(new) = new_name {
            if tx.is_name_taken(network.id, &new).await? {
                return Err(StateError::NameTaken(new));
            }
            tx.set_name(row.id, &new, version).await?;
            row.name = new;
        }
        tx.set_device(row.id, (&row.device, &after), version, now).await?;
        let (was, is) = differing(value(&former, &row.device), value(&row.name, &after));
        let action = if is.keys().eq(["name"]) { "node-renamed" } else { "node-changed" };
        let (before, after_value) = (Some(was.into()), Some(is.into()));
        let object = format!("node {}", row.id);
        record(&mut tx, Change { network: Some(network.id), action, object, before, after: after_value }).await?;
        tx.commit().await?;
        let before = std::mem::replace(&mut row.device, after);
        self.announce_device(&network, &row, &before, version);
        if row.name != former {
            let (node, from, to) = (row.id.0, &former, &row.name);
            tracing::info!(target: log::MEMBERS, event = "renamed", network = network.name, node, from, to);
        }
        Ok(self.view(&network, row))
    }

    /// Renames a node.
    #[cfg(test)]
    pub(crate) async fn rename_node(
        &self,
        network: Option<&str>,
        name: &str,
        new: &str,
    ) -> Result<NodeView, StateError> {
        let change = DeviceChange { name: Some(String::from(new)), ..DeviceChange::default() };
        self.change_device(network, name, change).await
    }

    /// Tells relays and channels about a committed change of a device, and logs it.
    pub(super) fn announce_device(&self, network: &NetworkRow, row: &NodeRow, before: &Device, version: u64) {
        let part = row.device.part();
        if before.part() == Part::Takes && part != Part::Takes {
            self.cut_members_off(network.id, std::slice::from_ref(row));
        }
        self.hub(network.id).announce(version);
        let (event, tags) = (event(before.part(), part), row.device.tags.join(" "));
        tracing::info!(target: log::MEMBERS, event, network = network.name, node = row.id.0, name = row.name, tags);
    }

    /// Sets whether new nodes of a network wait for approval, and the life of a membership of nodes that join or are approved from now on.
    pub(crate) async fn set_admission(
        &self,
        network: Option<&str>,
        approval: Option<bool>,
        key_life: Option<Option<i64>>,
    ) -> Result<NetworkRow, StateError> {
        if key_life.flatten().is_some_and(|life| !LIFE.contains(&life)) {
            return Err(StateError::BadLife);
        }
        let mut tx = self.store.write(Party::Operators).await?;
        let mut row = super::networks::named(&mut tx, network).await?;
        let before = admission_value(&row);
        row.approval = approval.unwrap_or(row.approval);
        row.key_life = key_life.unwrap_or(row.key_life);
        let (was, is) = differing(before, admission_value(&row));
        if is.is_empty() {
            return Ok(row);
        }
        // The network keeps its version: maps do not contain these settings, and admissions read them from the database.
        tx.set_admission(row.id, row.approval, row.key_life).await?;
        let (of, object) = (Some(row.id), format!("network {}", row.id));
        let (before, after) = (Some(was.into()), Some(is.into()));
        record(&mut tx, Change { network: of, action: "network-changed", object, before, after }).await?;
        tx.commit().await?;
        let (approval, life) = (row.approval, row.key_life.unwrap_or(0));
        tracing::info!(target: log::MEMBERS, event = "network-changed", network = row.name, approval, life);
        Ok(row)
    }

    /// Ends the memberships that expire at `now` or earlier. `now` must come from a clock that was not set recently. Damaged rows, and nodes of networks that do not
    /// exist, are left out (fault O9).
    pub(crate) async fn end_memberships(&self, now: i64) -> Result<usize, StateError> {
        let (mut ended, mut after) = (0, NodeId(0));
        loop {
            let (due, last) = self.store.read(Party::Coordinator).await?.ended_memberships(now, after, PIECE).await?;
            let mut networks: BTreeMap<NetworkId, Vec<NodeId>> = BTreeMap::new();
            due.into_iter().for_each(|(node, network)| networks.entry(network).or_default().push(node));
            for (network, nodes) in networks {
                ended += self.end_memberships_in(network, &nodes, now).await?;
            }
            match last {
                Some(last) => after = last,
                None => return Ok(ended),
            }
        }
    }

    async fn end_memberships_in(&self, network: NetworkId, nodes: &[NodeId], now: i64) -> Result<usize, StateError> {
        let mut tx = self.store.write(Party::Coordinator).await?;
        let Some(network) = undamaged(tx.network(network).await)? else { return Ok(0) };
        let version = tx.next_version(network.id, random_bits()).await?;
        let mut rows = Vec::new();
        for node in nodes {
            // The row is read again, because the node may have been approved again meanwhile.
            let Some(mut row) = undamaged(tx.node(*node).await)? else { continue };
            let is_due = row.device.expires_at.is_some_and(|end| end <= now) && !row.device.expired;
            if is_due {
                let after = Device { expired: true, ..row.device.clone() };
                tx.set_device(row.id, (&row.device, &after), version, now).await?;
                let before = std::mem::replace(&mut row.device, after);
                rows.push((row, before));
            }
        }
        if rows.is_empty() {
            return Ok(0);
        }
        tx.commit().await?;
        rows.iter().for_each(|(row, before)| self.announce_device(&network, row, before, version));
        Ok(rows.len())
    }
}

/// Memberships that are ended in one transaction, 256: that takes some milliseconds.
const PIECE: u32 = 256;

/// Returns the device after a change.
fn changed(network: &NetworkRow, device: &Device, change: &DeviceChange, now: i64) -> Result<Device, StateError> {
    let mut after = device.clone();
    if let Some(tags) = &change.tags {
        after.tags = checked_tags(tags.clone())?;
    }
    if let Some(owner) = &change.owner {
        after.owner = checked_owner(owner.clone())?;
    }
    after.disabled = change.disabled.unwrap_or(after.disabled);
    if let Some(life) = change.key_life {
        if life.is_some_and(|life| life != 0 && !LIFE.contains(&life)) {
            return Err(StateError::BadLife);
        }
        after.key_life = life;
        after.expires_at = end(network, &after, now);
    }
    if change.approve {
        after = approved(network, &after, now);
    }
    if change.expire {
        (after.expired, after.expires_at) = (true, Some(now));
    }
    Ok(after)
}

/// Returns the name of the log event for a change from one state to another.
fn event(before: Part, after: Part) -> &'static str {
    match (before, after) {
        (before, after) if before == after => "device-changed",
        (Part::Unapproved, _) => "approved",
        (_, Part::Disabled) => "disabled",
        (Part::Disabled, _) => "enabled",
        (_, Part::Expired) => "expired",
        (Part::Expired, _) => "renewed",
        _ => "device-changed",
    }
}

/// Returns a network's settings for admissions, as JSON for the audit log.
fn admission_value(network: &NetworkRow) -> Value {
    json!({ "approval": network.approval, "key_expiry": network.key_life })
}

/// Returns a device's fields that operators set, as JSON for the audit log.
pub(super) fn value(name: &str, device: &Device) -> Value {
    json!({
        "name": name,
        "tags": device.tags,
        "owner": device.owner,
        "disabled": device.disabled,
        "approved": device.approved,
        "expired": device.expired,
        "expires_at": device.expires_at,
        "routes": device.routes,
    })
}

/// Returns the fields that differ, before and after.
fn differing(before: Value, after: Value) -> (Map<String, Value>, Map<String, Value>) {
    let (Value::Object(before), Value::Object(after)) = (before, after) else { return (Map::new(), Map::new()) };
    let differs = |(field, value): &(String, Value)| after.get(field) != Some(value);
    let was: Map<String, Value> = before.into_iter().filter(differs).collect();
    let is =
        after.iter().filter(|(field, _)| was.contains_key(*field)).map(|(field, value)| (field.clone(), value.clone()));
    let is = is.collect();
    (was, is)
}

//! Removal of networks, and of the marks that removed nodes and networks leave.

use std::sync::PoisonError;

use serde_json::json;

use super::party::{Change, record};
use super::{NetworkView, State, StateError, networks, random_bits};
use crate::clock::unix_now;
use crate::log;
use crate::store::{MARKED, NetworkId, NodeRow, Party};

/// Time by which a mark may be ahead of the clock, 300 s, as at the relay.
const AHEAD: i64 = 300;

/// Members that are removed without moving the other tasks of the thread to another thread, 64: that takes about a millisecond.
const FEW: usize = 64;

/// Marks that are deleted in one transaction, 1,024: that takes some milliseconds.
const PIECE: u32 = 1_024;

impl State {
    /// Removes a network with its enrolment keys and relays. A network with members is removed only if `with_members` is true; each member is told.
    pub(crate) async fn remove_network(&self, name: &str, with_members: bool) -> Result<NetworkView, StateError> {
        let mut tx = self.store.write(Party::Operators).await?;
        let row = networks::named(&mut tx, Some(name)).await?;
        let members = tx.nodes(row.id).await?;
        if !members.is_empty() && !with_members {
            return Err(StateError::HasMembers { network: row.name, nodes: members.len() });
        }
        let version = tx.next_version(row.id, random_bits()).await?;
        tx.remove_network(row.id, version, unix_now()).await?;
        tx.delete_roles_in(row.id).await?;
        let before = Some(json!({ "name": row.name, "ipv4": row.ipv4, "ipv6": row.ipv6, "nodes": members.len() }));
        let (network, object) = (Some(row.id), format!("network {}", row.id));
        record(&mut tx, Change { network, action: "network-removed", object, before, after: None }).await?;
        tx.commit().await?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&row.id);
        let online = self.hub(row.id).online().len();
        self.forget_members(row.id, &members, |member| {
            tracing::info!(target: log::MEMBERS, event = "removed", network = row.name, node = member.id.0, name = member.name);
        });
        self.hub(row.id).announce(version);
        self.hubs.lock().unwrap_or_else(PoisonError::into_inner).remove(&row.id);
        tracing::info!(target: log::MEMBERS, event = "network-removed", network = row.name, nodes = members.len());
        Ok(NetworkView { row, nodes: members.len() as u64, online })
    }

    /// Disconnects removed members from the coordinator's own relay, removes them from memory, and calls `log` for each. Call it after the commit. It
    /// takes a second for a large network, so the other tasks of this thread move to another thread.
    pub(super) fn forget_members(&self, network: NetworkId, rows: &[NodeRow], log: impl Fn(&NodeRow)) {
        let forget = || {
            self.cut_members_off(network, rows);
            let hub = self.hub(network);
            for row in rows {
                hub.forget(row.id);
                log(row);
            }
        };
        if rows.len() > FEW { tokio::task::block_in_place(forget) } else { forget() }
    }

    /// Deletes the marks of nodes and networks that were removed long ago, and expired requests to join. `now` must come from a clock that nobody has set recently: by a clock that is years
    /// ahead all marks look old, and relays would serve removed nodes again after the next start. A mark with a time in the future was made while the clock was
    /// ahead; its time is set to now.
    pub(crate) async fn forget_marks(&self, now: i64) -> Result<(), StateError> {
        let before = now - MARKED;
        let mut tx = self.store.write(Party::Coordinator).await?;
        tx.correct_marks(now, now + AHEAD).await?;
        tx.forget_requests(now, now + AHEAD).await?;
        for network in tx.networks_removed_before(before).await? {
            tx.delete_network(network).await?;
        }
        tx.commit().await?;
        loop {
            let mut tx = self.store.write(Party::Coordinator).await?;
            let forgotten = tx.forget_nodes(before, PIECE).await?;
            tx.commit().await?;
            if forgotten < u64::from(PIECE) {
                break;
            }
        }
        loop {
            let mut tx = self.store.write(Party::Coordinator).await?;
            let forgotten = tx.forget_revocations(before, PIECE).await?;
            tx.commit().await?;
            if forgotten < u64::from(PIECE) {
                return Ok(());
            }
        }
    }
}

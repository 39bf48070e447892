//! The end of a network: its members are none any more, its keys open nothing, its relays are forgotten.

use std::sync::PoisonError;

use super::{NetworkView, State, StateError, networks, random_bits};
use crate::clock::unix_now;
use crate::log;
use crate::store::{MARKED, NetworkId, NodeRow, Party};

impl State {
    /// Removes a network. One that has members is removed only `with_members`: each of them is told that it is none.
    pub(crate) async fn remove_network(&self, name: &str, with_members: bool) -> Result<NetworkView, StateError> {
        let mut tx = self.store.write(Party::Operators).await?;
        let row = networks::named(&mut tx, Some(name)).await?;
        let members = tx.nodes(row.id).await?;
        if !members.is_empty() && !with_members {
            return Err(StateError::HasMembers { network: row.name, nodes: members.len() });
        }
        let version = tx.next_version(row.id, random_bits()).await?;
        tx.remove_network(row.id, version, unix_now()).await?;
        tx.commit().await?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&row.id);
        let online = self.hub(row.id).online().len();
        self.cut_members_off(row.id, &members);
        for member in &members {
            self.forget_member("removed", row.id, &row.name, member);
        }
        self.hub(row.id).announce(version);
        self.hubs.lock().unwrap_or_else(PoisonError::into_inner).remove(&row.id);
        log::event("network-removed", &[("network", &row.name), ("nodes", &members.len())]);
        Ok(NetworkView { row, nodes: members.len() as u64, online })
    }

    /// Forgets what is kept in memory of a member that was removed, and logs the removal as `event`.
    pub(super) fn forget_member(&self, event: &str, network: NetworkId, name: &str, row: &NodeRow) {
        self.hub(network).forget(row.id);
        log::event(event, &[("network", &name), ("node", &row.id), ("name", &row.name)]);
    }

    /// Deletes the marks of networks that were removed long ago.
    pub(crate) async fn forget_networks(&self) -> Result<(), StateError> {
        let before = unix_now() - MARKED;
        if self.store.read(Party::House).await?.networks_removed_before(before).await?.is_empty() {
            return Ok(());
        }
        let mut tx = self.store.write(Party::House).await?;
        for network in tx.networks_removed_before(before).await? {
            tx.delete_network(network).await?;
        }
        tx.commit().await?;
        Ok(())
    }
}

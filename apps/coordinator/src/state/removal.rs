//! Removal of a network: its members, enrolment keys and relays end with it.

use std::sync::PoisonError;

use super::{NetworkView, State, StateError, networks, random_bits};
use crate::clock::unix_now;
use crate::log;
use crate::store::{MARKED, NetworkId, NodeRow, Party};

/// Seconds by which a mark may be ahead of the clock, 300: as the relay tolerates.
const AHEAD: i64 = 300;

/// Members that are removed without giving the thread's other tasks to another one, 64: about a millisecond.
const FEW: usize = 64;

/// Marks that are deleted in one turn at the database, 1,024: some milliseconds.
const PIECE: u32 = 1_024;

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
        self.forget_members("removed", row.id, &row.name, &members);
        self.hub(row.id).announce(version);
        self.hubs.lock().unwrap_or_else(PoisonError::into_inner).remove(&row.id);
        tracing::info!(target: log::MEMBERS, event = "network-removed", network = row.name, nodes = members.len());
        Ok(NetworkView { row, nodes: members.len() as u64, online })
    }

    /// Cuts members that were removed off, forgets what is kept of them in memory and logs each removal as `event`. Call it after the change was committed. It
    /// takes a second for a large network, so the other tasks of this thread go on in another one.
    pub(super) fn forget_members(&self, event: &str, network: NetworkId, name: &str, rows: &[NodeRow]) {
        let forget = || {
            self.cut_members_off(network, rows);
            let hub = self.hub(network);
            for row in rows {
                hub.forget(row.id);
                tracing::info!(target: log::MEMBERS, event, network = name, node = row.id.0, name = row.name);
            }
        };
        if rows.len() > FEW { tokio::task::block_in_place(forget) } else { forget() }
    }

    /// Deletes the marks of nodes and networks that were removed long ago. `now` is the time by a clock that nobody has set lately: a clock that is years ahead
    /// would make all marks look old, and removed nodes would be served again at the next start. A mark from a time that has not come yet was made while the
    /// clock was ahead, and counts from now on.
    pub(crate) async fn forget_marks(&self, now: i64) -> Result<(), StateError> {
        let before = now - MARKED;
        let mut tx = self.store.write(Party::House).await?;
        tx.correct_marks(now, now + AHEAD).await?;
        for network in tx.networks_removed_before(before).await? {
            tx.delete_network(network).await?;
        }
        tx.commit().await?;
        loop {
            let mut tx = self.store.write(Party::House).await?;
            let forgotten = tx.forget_nodes(before, PIECE).await?;
            tx.commit().await?;
            if forgotten < u64::from(PIECE) {
                return Ok(());
            }
        }
    }
}

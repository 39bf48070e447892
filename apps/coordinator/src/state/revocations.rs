//! Revocations: removed members, and former keys of members. Relays refuse their tickets.
//!
//! ```text
//! commit: row of `revocations` ─┬─▶ own relay, at once (`Removals`)
//!                               └─▶ `revoked` ──▶ each relay's channel here: the rows of its networks after the last one that it was told of
//! commit at another coordinator ──▶ hint ──▶ a newer row? ──▶ `revoked`
//! ```
//! Rows are the truth. A relay that was away is told of everything that is kept, which is longer than any ticket lasts.

use std::time::Duration;

use taut_base::{NodeId, PublicKey};
use taut_netmap::{MAX_REVOCATIONS, Revocation};
use taut_relay::{NetworkTag, Removal};
use taut_relay_server::Removals;
use tokio::sync::watch;

use super::{State, StateError};
use crate::clock::unix_now;
use crate::store::{NetworkId, NodeRow, Party, RevocationRow};

/// Time added to a revocation that was read from the database, 5 s: tickets of the member that were signed up to then are refused. A ticket may have been signed
/// while the revocation was being written to disk.
pub(super) const WRITTEN: i64 = 5;

/// Revocations that are read at once, [`MAX_REVOCATIONS`]: that takes some milliseconds and 100 KB.
const PAGE: u32 = MAX_REVOCATIONS as u32;

impl State {
    /// Tells the coordinator's own relay of all revocations, and of every later one. Those of any age are included, because the clock may be wrong; an expired
    /// ticket is refused in any case.
    pub(crate) async fn watch_relay(&self, relay: Removals) -> Result<(), StateError> {
        // Set before the rows are read, so that the relay also learns of a revocation in between.
        let relay = self.relay.get_or_init(|| relay);
        let mut last = 0;
        loop {
            let page = self.store.read(Party::Coordinator).await?.revocations(last, PAGE).await?;
            let Some(read) = page.last else { return Ok(()) };
            last = read;
            let removals = page
                .rows
                .iter()
                .map(|row| removal(row.network, row.node, row.node_key, row.revoked_at.saturating_add(WRITTEN)));
            relay.cut_off(&self.ticket_key(), &removals.collect::<Vec<_>>());
        }
    }

    /// Returns the revocations of a network after the one with this number, in the form in which relays are told of them, with the last number that was
    /// read. `None`: there are no others.
    pub(crate) async fn revocations(
        &self,
        network: NetworkId,
        after: i64,
    ) -> Result<Option<(Vec<Revocation>, i64)>, StateError> {
        // A relay that connects again and again takes the turns of the network that lists it (law 15).
        let page = self.store.read(self.party(network)).await?.revocations_of(network, after, PAGE).await?;
        Ok(page.last.map(|last| (page.rows.iter().map(told).collect(), last)))
    }

    /// Returns a receiver that changes whenever there may be new revocations.
    pub(crate) fn revoked(&self) -> watch::Receiver<i64> {
        self.revoked.subscribe()
    }

    /// Looks for revocations of other coordinators.
    pub(super) async fn compare_revocations(&self) -> Result<(), StateError> {
        if self.revoked.receiver_count() == 0 {
            return Ok(());
        }
        let last = self.store.read(Party::Coordinator).await?.last_revocation().await?;
        self.revoked.send_if_modified(|known| std::mem::replace(known, last.max(*known)) < last);
        Ok(())
    }

    /// Tells relays to end the binding of a former key of a member, and to refuse the tickets for it. Call it after the change was committed.
    pub(super) fn cut_key_off(&self, network: NetworkId, key: PublicKey) {
        self.cut_off(&[removal(network, None, key, unix_now())]);
    }

    /// Tells relays to end the bindings of members that were removed, and to refuse the tickets that they have. Call it after the change was committed.
    pub(super) fn cut_members_off(&self, network: NetworkId, members: &[NodeRow]) {
        let now = unix_now();
        let removals: Vec<_> = members.iter().map(|row| removal(network, Some(row.id), row.node_key, now)).collect();
        self.cut_off(&removals);
    }

    fn cut_off(&self, removals: &[Removal]) {
        self.revoked.send_modify(|_| {});
        if let Some(relay) = self.relay.get() {
            relay.cut_off(&self.ticket_key(), removals);
        }
    }
}

fn removal(network: NetworkId, id: Option<NodeId>, key: PublicKey, at: i64) -> Removal {
    let at = Duration::from_secs(u64::try_from(at).unwrap_or(0));
    Removal { network: NetworkTag(network.0), id, key, at }
}

fn told(row: &RevocationRow) -> Revocation {
    let at = u64::try_from(row.revoked_at.saturating_add(WRITTEN)).unwrap_or(0);
    Revocation { network: row.network.0, node: row.node, key: row.node_key, at }
}

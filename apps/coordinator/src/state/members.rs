//! Requests of members: storing their endpoints, and reading the map.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError};

use taut_base::NodeId;

use super::endpoints::{self, ReportedEndpoints};
use super::feed::{Draft, Update, View};
use super::{State, StateError, random_bits};
use crate::log;
use crate::panics::{caught, caught_call};
use crate::store::{NetworkId, NetworkRow, NodeRow, Reading};

impl State {
    /// Stores the endpoints that a node reports. The map changes only if they differ.
    pub(crate) async fn set_endpoints(
        &self,
        network: NetworkId,
        node: NodeId,
        reported: &ReportedEndpoints,
        seen: IpAddr,
    ) -> Result<(), StateError> {
        let mut tx = self.store.write(self.party(network)).await?;
        let row = tx.node(node).await?.ok_or(StateError::NotAMember)?;
        let network = tx.network(row.network).await?.ok_or(StateError::NotAMember)?;
        let endpoints = endpoints::select(&network, reported, seen);
        if endpoints == row.endpoints {
            return Ok(());
        }
        let version = tx.next_version(network.id, random_bits()).await?;
        tx.set_endpoints(node, &endpoints, version).await?;
        tx.commit().await?;
        self.hub(network.id).announce(version);
        Ok(())
    }

    /// Returns what a node with version `have` is missing: the changes, or the full map if the history does not contain that version (a node without a map, a
    /// node that was away too long, or a coordinator restored from a backup). Both come from one complete read, and a full map has passed the check that the
    /// node will make (law 6).
    pub(crate) async fn update_for(&self, network: NetworkId, node: NodeId, have: u64) -> Result<Update, StateError> {
        let view = self.latest_view(network).await?;
        if !view.is_behind(node, have) {
            return updated(&view, network, node, have);
        }
        self.hub(network).feed().distrust();
        match self.read_latest(network).await {
            Ok(view) => updated(&view, network, node, have),
            // The node keeps what it has, because what is in memory may be older.
            Err(error) => Err(error),
        }
    }

    /// Returns a network as the last announced change left it, or later; as it is in memory if the database does not answer (fault O6).
    pub(super) async fn latest_view(&self, network: NetworkId) -> Result<Arc<View>, StateError> {
        match self.read_latest(network).await {
            Err(StateError::Store(error)) if self.may_remember(&error) => {
                self.remembered_view(network).ok_or(StateError::Store(error))
            }
            other => other,
        }
    }

    /// Returns a network as the last announced change left it, or later. Only the first of those who ask at the same time reads the database.
    async fn read_latest(&self, network: NetworkId) -> Result<Arc<View>, StateError> {
        let hub = self.hub(network);
        let (feed, version) = (hub.feed(), hub.announced());
        if let Some(view) = feed.recent(version) {
            return Ok(view);
        }
        let _turn = feed.turn().await;
        if let Some(view) = feed.recent(version) {
            return Ok(view);
        }
        if feed.is_pausing() {
            return Err(StateError::Panicked);
        }
        let read = feed.begin_read();
        match caught(self.read_view(network, feed.latest())).await {
            Ok(Ok(view)) => {
                feed.set(&view, read);
                Ok(view)
            }
            // The next read fails as well until an operator changes something, and each channel tries again.
            Ok(Err(error @ (StateError::StoredPolicy(_) | StateError::BadMap(_)))) => {
                feed.pause();
                Err(error)
            }
            Ok(Err(error)) => Err(error),
            Err(reason) => {
                feed.pause();
                tracing::error!(target: log::CONTROL, event = "map-panicked", %network, reason);
                Err(StateError::Panicked)
            }
        }
    }

    async fn read_view(&self, network: NetworkId, latest: Option<Arc<View>>) -> Result<Arc<View>, StateError> {
        let mut tx = self.store.read(self.party(network)).await?;
        let draft = match latest {
            Some(latest) => match latest.next(&mut tx).await? {
                Some(draft) => draft,
                None => return Ok(latest),
            },
            None => Draft::load(&mut tx, network).await?,
        };
        // Other networks get the connection while the policy is applied.
        drop(tx);
        draft.finished(&self.policy_threads).await.map(Arc::new)
    }

    /// Returns the network's rows in memory, if all changes of this coordinator are in them.
    pub(super) fn remembered_view(&self, network: NetworkId) -> Option<Arc<View>> {
        let hub = self.hubs.lock().unwrap_or_else(PoisonError::into_inner).get(&network).map(Arc::clone)?;
        hub.feed().latest().filter(|view| view.version() >= hub.announced())
    }
}

/// Returns what a node is missing. A panic is this node's alone (fault N7).
fn updated(view: &View, network: NetworkId, node: NodeId, have: u64) -> Result<Update, StateError> {
    caught_call(|| view.update(node, have)).unwrap_or_else(|reason| {
        tracing::error!(target: log::CONTROL, limited = node.0, event = "map-panicked", %network, node = node.0, reason);
        Err(StateError::Panicked)
    })
}

pub(super) async fn member(tx: &mut Reading, node: NodeId) -> Result<(NetworkRow, NodeRow), StateError> {
    let row = tx.node(node).await?.ok_or(StateError::NotAMember)?;
    let network = tx.network(row.network).await?.ok_or(StateError::NotAMember)?;
    Ok((network, row))
}

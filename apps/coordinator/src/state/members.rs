//! Requests of members: storing their endpoints, and reading the map.

use std::net::IpAddr;

use taut_base::NodeId;
use taut_netmap::{Delta, NetworkMap};

use super::endpoints::{self, ReportedEndpoints};
use super::{State, StateError, maps, random_bits, relays};
use crate::store::{NetworkId, NetworkRow, NodeRow, Reading};

/// A message with the map, or its changes, for a node.
#[derive(Debug)]
pub(crate) enum Update {
    Map(NetworkMap),
    /// The changes; empty if there are none.
    Delta(Delta),
}

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
        let mut tx = self.store.read(self.party(network)).await?;
        let (network, own) = member(&mut tx, node).await?;
        if !tx.knows_version(network.id, have).await? {
            let relays = relays::of(&mut tx, &network).await?;
            return maps::whole(&network, node, &tx.nodes(network.id).await?, relays).map(Update::Map);
        }
        let changed = tx.nodes_since(network.id, have).await?;
        let relays = match network.relays_version > have {
            true => Some(relays::of(&mut tx, &network).await?),
            false => None,
        };
        maps::delta(&network, &own, have, &changed, relays).map(Update::Delta)
    }
}

pub(super) async fn member(tx: &mut Reading, node: NodeId) -> Result<(NetworkRow, NodeRow), StateError> {
    let row = tx.node(node).await?.ok_or(StateError::NotAMember)?;
    let network = tx.network(row.network).await?.ok_or(StateError::NotAMember)?;
    Ok((network, row))
}

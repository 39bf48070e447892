//! Members with reserved names. Release 0.1.0 allowed a node to be called `localhost` (fault E20).

use taut_netmap::{is_reserved, placeholder_name};

use super::names::unique_name;
use super::{StateError, random_bits};
use crate::log;
use crate::store::{NetworkRow, NodeRow, Party, Store};

/// Renames each of them to `node-<number>` at the start of the coordinator.
pub(super) async fn rename(store: &Store) -> Result<(), StateError> {
    let found = find(store).await?;
    if found.is_empty() {
        return Ok(());
    }
    let mut tx = store.write(Party::Coordinator).await?;
    let mut renamed = Vec::new();
    for (network, rows) in found {
        let version = tx.next_version(network.id, random_bits()).await?;
        for row in rows {
            let name = unique_name(&mut tx, network.id, &placeholder_name(row.id)).await?;
            tx.set_name(row.id, &name, version).await?;
            renamed.push((network.name.clone(), row, name));
        }
    }
    tx.commit().await?;
    for (network, row, name) in renamed {
        let reason = "programs look the old name up for a purpose of their own";
        let (node, from) = (row.id.0, row.name);
        tracing::info!(target: log::MEMBERS, event = "renamed", network, node, from, to = name, reason);
    }
    Ok(())
}

async fn find(store: &Store) -> Result<Vec<(NetworkRow, Vec<NodeRow>)>, StateError> {
    let mut tx = store.read(Party::Coordinator).await?;
    let mut found = Vec::new();
    for network in tx.networks().await? {
        let mut rows = tx.nodes(network.id).await?;
        rows.retain(|row| is_reserved(&row.name));
        if !rows.is_empty() {
            found.push((network, rows));
        }
    }
    Ok(found)
}

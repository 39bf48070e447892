//! Members with names that no node may have any more: release 0.1.0 let a node call itself `localhost` (fault E20).

use taut_netmap::{is_reserved, placeholder_name};

use super::names::unique_name;
use super::{StateError, random_bits};
use crate::log;
use crate::store::{NetworkRow, NodeRow, Party, Store};

/// Gives each of them the name `node-<number>` at the start; nodes hear of it as of every change.
pub(super) async fn rename(store: &Store) -> Result<(), StateError> {
    let found = find(store).await?;
    if found.is_empty() {
        return Ok(());
    }
    let mut tx = store.write(Party::House).await?;
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
        let why = "programs look the old name up for a purpose of their own";
        let fields: [(&str, &dyn std::fmt::Display); 5] =
            [("network", &network), ("node", &row.id), ("from", &row.name), ("to", &name), ("why", &why)];
        log::event("renamed", &fields);
    }
    Ok(())
}

async fn find(store: &Store) -> Result<Vec<(NetworkRow, Vec<NodeRow>)>, StateError> {
    let mut tx = store.read(Party::House).await?;
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

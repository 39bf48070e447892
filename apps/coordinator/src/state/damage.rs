//! Damaged rows of a database, each with the command that helps (fault O9).

use super::names::is_number;
use super::start::StateDirectoryError;
use super::{maps, relays};
use crate::store::{DamagedRow, Location, Reading, StoreError, view};

/// Rows of each table that belong to a network that does not exist.
const ORPHANS: &str = "its network does not exist";

/// Returns the damaged rows of a database, on which coordinators may be running. Each harms only itself. Empty if the tables are those of another release.
pub(crate) async fn damaged_rows(database: &Location) -> Result<Vec<String>, StateDirectoryError> {
    match view(database).await? {
        Some(mut tx) => Ok(find(&mut tx).await?.iter().map(told).collect()),
        None => Ok(Vec::new()),
    }
}

async fn find(tx: &mut Reading) -> Result<Vec<DamagedRow>, StoreError> {
    for network in tx.networks().await? {
        let rows = tx.nodes(network.id).await?;
        for (node, fault) in maps::faults(&network, &rows) {
            tx.note_damaged("nodes", &node, fault.what());
        }
        // Notes the relays that are in no map.
        let _ = relays::of(tx, &network).await;
        if !maps::is_valid(&network) {
            tx.note_damaged("networks", &network.id, maps::BAD_NETWORK);
        }
    }
    tx.keys().await?;
    tx.operators().await?;
    for (table, key) in tx.orphans().await? {
        tx.note_damaged(table, &key, ORPHANS);
    }
    Ok(tx.damaged_rows())
}

/// Returns a damaged row in an operator's words.
fn told(row: &DamagedRow) -> String {
    let DamagedRow { table, key, what } = row;
    let help = match *table {
        "networks" => String::from("restore the last good backup"),
        _ if !is_number(key) => format!("delete it (in SQL: `DELETE FROM {table} WHERE id = {key}`)"),
        "nodes" if *what == maps::MemberFault::Name.what() => {
            format!("give it a name (`taut-coordinator nodes rename {key} NAME`)")
        }
        "nodes" => format!("remove it, and join the node again (`taut-coordinator nodes remove {key}`)"),
        "relays" => format!("remove it, and add the relay again (`taut-coordinator relays remove {key}`)"),
        "keys" => format!("revoke it (`taut-coordinator keys revoke {key}`)"),
        "operators" => format!("revoke it (`taut-coordinator operator-token revoke {key}`)"),
        _ => String::from("restore the last good backup"),
    };
    format!("the row {key} of the table `{table}` is damaged, and is left out: {what}; {help}")
}

//! Changes of a database that was restored.

use super::database::Table;
use super::networks::RANDOM_BITS;
use super::{NetworkId, StoreError, Writing};

impl Writing {
    /// Deletes a network's history, and skips `changes` versions, so that every node gets a full map. `random` is new.
    pub(crate) async fn leap(&mut self, id: NetworkId, changes: u32, random: u32) -> Result<u64, StoreError> {
        let skipped = i64::from(changes) << RANDOM_BITS;
        self.execute("UPDATE networks SET version = version + $1 WHERE id = $2", &[skipped.into(), (&id.0).into()])
            .await?;
        let version = self.next_version(id, random).await?;
        self.forget_before(id, version).await?;
        Ok(version)
    }

    /// Skips the next `nodes` numbers of nodes, `keys` numbers of keys and `relays` numbers of relays.
    pub(crate) async fn skip_numbers(&mut self, nodes: u32, keys: u32, relays: u32) -> Result<(), StoreError> {
        for (table, count) in [(Table::Nodes, nodes), (Table::Keys, keys), (Table::Relays, relays)] {
            let last = self.tx.last_number(table).await?;
            self.tx.set_last_number(table, last + i64::from(count)).await?;
        }
        Ok(())
    }
}

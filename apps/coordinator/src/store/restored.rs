//! Changes of a database that was restored.

use super::database::Table;
use super::networks::RANDOM_BITS;
use super::{NetworkId, StoreError, Writing};

/// What the database that a restore replaces assigned last: its last numbers, and each network's last host number and version. Zeros and nothing if there is none,
/// or it cannot be read.
#[derive(Debug, Default)]
pub(crate) struct LastKnown {
    pub(crate) nodes: i64,
    pub(crate) keys: i64,
    pub(crate) relays: i64,
    pub(crate) networks: Vec<(NetworkId, u32, i64)>,
}

impl LastKnown {
    /// Returns the host number that a network assigned last, and its version.
    pub(crate) fn network(&self, id: NetworkId) -> Option<(u32, i64)> {
        let (_, cursor, version) = self.networks.iter().find(|(known, _, _)| *known == id)?;
        Some((*cursor, *version))
    }
}

impl Writing {
    /// Deletes a network's history, and skips `changes` versions after the restored one and after `known`, so that every node gets a full map. `random` is new.
    pub(crate) async fn leap(
        &mut self,
        id: NetworkId,
        known: i64,
        changes: u32,
        random: u32,
    ) -> Result<u64, StoreError> {
        let skipped = i64::from(changes) << RANDOM_BITS;
        let leap = "UPDATE networks SET version = (CASE WHEN version > $1 THEN version ELSE $1 END) + $2 WHERE id = $3";
        self.execute(leap, &[known.into(), skipped.into(), (&id.0).into()]).await?;
        let version = self.next_version(id, random).await?;
        self.forget_before(id, version).await?;
        Ok(version)
    }

    /// Skips the next `nodes` numbers of nodes, `keys` numbers of keys and `relays` numbers of relays, after the restored ones and after those that are known.
    pub(crate) async fn skip_numbers(
        &mut self,
        known: &LastKnown,
        nodes: u32,
        keys: u32,
        relays: u32,
    ) -> Result<(), StoreError> {
        for (table, known, count) in
            [(Table::Nodes, known.nodes, nodes), (Table::Keys, known.keys, keys), (Table::Relays, known.relays, relays)]
        {
            let last = self.tx.last_number(table).await?.max(known);
            self.tx.set_last_number(table, last + i64::from(count)).await?;
        }
        Ok(())
    }
}

//! Copies of a database, and changes of a restored one.

use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, query};

use super::networks::RANDOM_BITS;
use super::rows::signed;
use super::{BUSY, FILE, NetworkId, StoreError, Writing};

/// Writes a consistent copy of the database in `directory` to the empty file `file`. A coordinator may be running.
pub(crate) async fn copy(directory: &Path, file: &str) -> Result<(), StoreError> {
    let options = SqliteConnectOptions::new().filename(directory.join(FILE)).busy_timeout(BUSY);
    let mut connection = options.connect().await?;
    query("VACUUM INTO ?").bind(file).execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

impl Writing {
    /// Deletes a network's history, and skips `changes` versions, so that every node gets a full map. `random` is new.
    pub(crate) async fn leap(&mut self, id: NetworkId, changes: u32, random: u32) -> Result<u64, StoreError> {
        query("UPDATE networks SET version = version + (? << ?) WHERE id = ?")
            .bind(i64::from(changes))
            .bind(i64::from(RANDOM_BITS))
            .bind(id.0.as_slice())
            .execute(&mut *self.tx)
            .await?;
        let version = self.next_version(id, random).await?;
        self.forget_before(id, version).await?;
        Ok(version)
    }

    /// Skips the next `nodes` numbers of nodes, `keys` numbers of keys and `relays` numbers of relays.
    pub(crate) async fn skip_numbers(&mut self, nodes: u32, keys: u32, relays: u32) -> Result<(), StoreError> {
        for (table, count) in [("nodes", nodes), ("keys", keys), ("relays", relays)] {
            // A table that never had a row has no entry in `sqlite_sequence`.
            query("INSERT INTO sqlite_sequence (name, seq) SELECT ?1, 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)")
                .bind(table)
                .execute(&mut *self.tx)
                .await?;
            query("UPDATE sqlite_sequence SET seq = seq + ? WHERE name = ?")
                .bind(signed(u64::from(count)))
                .bind(table)
                .execute(&mut *self.tx)
                .await?;
        }
        Ok(())
    }
}

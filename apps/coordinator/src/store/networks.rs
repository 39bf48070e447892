//! Networks and their versions.
//!
//! A version has a counter in its high bits and [`RANDOM_BITS`] random bits below. A database that was restored from a backup continues at an older counter.
//! The random bits distinguish its versions from those that nodes remember from before, so that such a node gets a full map instead of changes that do not fit.
//! Versions are below 2^53, which every JSON parser reads exactly.

use sqlx::{Row, query};

use super::rows::{bytes, network, signed, unsigned};
use super::{NetworkId, NetworkRow, Reading, StoreError, Writing};

/// Random bits of a version, 20: two different histories have the same version once in a million.
pub(super) const RANDOM_BITS: u32 = 20;

/// Versions in the history, 4,096. A node with an older version gets a full map. Marks of removed nodes are kept for as many versions, and for [`MARKED`].
const KEPT: u32 = 4096;

/// Least time for which the mark of a removed node is kept, 73 hours in seconds. No relay ticket is valid longer, and a coordinator that starts tells its own
/// relay which members were removed.
pub(crate) const MARKED: i64 = 73 * 3600;

/// Number of changes after which old versions are deleted.
const SWEEP_EVERY: u64 = 256;

impl Reading {
    /// Returns all networks, sorted by name.
    pub(crate) async fn networks(&mut self) -> Result<Vec<NetworkRow>, StoreError> {
        let rows =
            query("SELECT * FROM networks WHERE removed_at IS NULL ORDER BY name").fetch_all(&mut *self.tx).await?;
        rows.iter().map(network).collect()
    }

    /// Returns a network by its number.
    pub(crate) async fn network(&mut self, id: NetworkId) -> Result<Option<NetworkRow>, StoreError> {
        let row = query("SELECT * FROM networks WHERE id = ? AND removed_at IS NULL")
            .bind(id.0.as_slice())
            .fetch_optional(&mut *self.tx)
            .await?;
        row.as_ref().map(network).transpose()
    }

    /// Returns a network by its name.
    pub(crate) async fn network_by_name(&mut self, name: &str) -> Result<Option<NetworkRow>, StoreError> {
        let row = query("SELECT * FROM networks WHERE name = ? AND removed_at IS NULL")
            .bind(name)
            .fetch_optional(&mut *self.tx)
            .await?;
        row.as_ref().map(network).transpose()
    }

    /// Returns the networks that were removed before `time`.
    pub(crate) async fn networks_removed_before(&mut self, time: i64) -> Result<Vec<NetworkId>, StoreError> {
        let rows = query("SELECT id FROM networks WHERE removed_at < ?").bind(time).fetch_all(&mut *self.tx).await?;
        rows.iter().map(|row| Ok(NetworkId(bytes(row, "id")?))).collect()
    }

    /// Returns the versions of the history from `version` on, in rising order.
    pub(crate) async fn history_since(&mut self, id: NetworkId, version: u64) -> Result<Vec<u64>, StoreError> {
        let rows = query("SELECT version FROM history WHERE network = ? AND version >= ? ORDER BY version")
            .bind(id.0.as_slice())
            .bind(signed(version))
            .fetch_all(&mut *self.tx)
            .await?;
        rows.iter().map(|row| unsigned(row.try_get(0)?)).collect()
    }
}

impl Writing {
    /// Inserts a network. Its counter starts at 1, because version 0 means "no map". `random` must be fresh randomness.
    pub(crate) async fn insert_network(&mut self, row: &NetworkRow, random: u32) -> Result<(), StoreError> {
        query("INSERT INTO networks (id, name, ipv4, ipv6, version, cursor, created_at) VALUES (?, ?, ?, ?, 0, 0, ?)")
            .bind(row.id.0.as_slice())
            .bind(&row.name)
            .bind(row.ipv4.to_string())
            .bind(row.ipv6.to_string())
            .bind(row.created_at)
            .execute(&mut *self.tx)
            .await?;
        self.next_version(row.id, random).await?;
        Ok(())
    }

    /// Turns a network and its members into marks of removed ones, revokes its keys, and deletes its relays.
    pub(crate) async fn remove_network(&mut self, id: NetworkId, version: u64, now: i64) -> Result<(), StoreError> {
        let id = id.0.as_slice();
        query(
            "UPDATE nodes SET removed_at = ?1, version = ?2, endpoints = '[]', relays = '[]' \
             WHERE network = ?3 AND removed_at IS NULL",
        )
        .bind(now)
        .bind(signed(version))
        .bind(id)
        .execute(&mut *self.tx)
        .await?;
        query("UPDATE keys SET revoked_at = coalesce(revoked_at, ?) WHERE network = ?")
            .bind(now)
            .bind(id)
            .execute(&mut *self.tx)
            .await?;
        query("DELETE FROM relays WHERE network = ?").bind(id).execute(&mut *self.tx).await?;
        query("UPDATE networks SET removed_at = ?, name = '#' || hex(id) WHERE id = ?")
            .bind(now)
            .bind(id)
            .execute(&mut *self.tx)
            .await?;
        Ok(())
    }

    /// Sets the time of marks later than `latest` to `now`.
    pub(crate) async fn correct_marks(&mut self, now: i64, latest: i64) -> Result<(), StoreError> {
        for table in [
            "UPDATE nodes SET removed_at = ? WHERE removed_at > ?",
            "UPDATE networks SET removed_at = ? WHERE removed_at > ?",
        ] {
            query(table).bind(now).bind(latest).execute(&mut *self.tx).await?;
        }
        Ok(())
    }

    /// Deletes a network with all its rows.
    pub(crate) async fn delete_network(&mut self, id: NetworkId) -> Result<(), StoreError> {
        let tables = [
            "DELETE FROM history WHERE network = ?",
            "DELETE FROM nodes WHERE network = ?",
            "DELETE FROM keys WHERE network = ?",
            "DELETE FROM relays WHERE network = ?",
            "DELETE FROM networks WHERE id = ?",
        ];
        for delete in tables {
            query(delete).bind(id.0.as_slice()).execute(&mut *self.tx).await?;
        }
        Ok(())
    }

    /// Stores the host number that was assigned last.
    pub(crate) async fn set_cursor(&mut self, id: NetworkId, cursor: u32) -> Result<(), StoreError> {
        query("UPDATE networks SET cursor = ? WHERE id = ?")
            .bind(i64::from(cursor))
            .bind(id.0.as_slice())
            .execute(&mut *self.tx)
            .await?;
        Ok(())
    }

    /// Returns a new version for the changes of this transaction. `random` must be fresh randomness.
    pub(crate) async fn next_version(&mut self, id: NetworkId, random: u32) -> Result<u64, StoreError> {
        let low = i64::from(random) & ((1 << RANDOM_BITS) - 1);
        let row =
            query("UPDATE networks SET version = (((version >> ?2) + 1) << ?2) + ?3 WHERE id = ?1 RETURNING version")
                .bind(id.0.as_slice())
                .bind(i64::from(RANDOM_BITS))
                .bind(low)
                .fetch_one(&mut *self.tx)
                .await?;
        let version = unsigned(row.try_get("version")?)?;
        query("INSERT INTO history (network, version) VALUES (?, ?)")
            .bind(id.0.as_slice())
            .bind(signed(version))
            .execute(&mut *self.tx)
            .await?;
        let counter = version >> RANDOM_BITS;
        if counter.is_multiple_of(SWEEP_EVERY) {
            self.forget_before(id, counter.saturating_sub(u64::from(KEPT)) << RANDOM_BITS).await?;
        }
        Ok(version)
    }

    pub(super) async fn forget_before(&mut self, id: NetworkId, version: u64) -> Result<(), StoreError> {
        query("DELETE FROM history WHERE network = ? AND version < ?")
            .bind(id.0.as_slice())
            .bind(signed(version))
            .execute(&mut *self.tx)
            .await?;
        Ok(())
    }
}

//! Networks and their versions.
//!
//! A version has a counter in its high bits and [`RANDOM_BITS`] random bits below. A database that was restored from a backup continues at an older counter.
//! The random bits distinguish its versions from those that nodes remember from before, so that such a node gets a full map instead of changes that do not fit.
//! Versions are below 2^53, which every JSON parser reads exactly.

use taut_netmap::Naming;

use super::damage::parsed;
use super::rows::{bytes, network, unsigned};
use super::{NetworkId, NetworkRow, REMOVED, Reading, StoreError, Writing};

/// Random bits of a version, 20: two different histories have the same version once in a million. Statements name the number as well.
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
        let rows = self
            .all(concat!("SELECT ", network_columns!(), " FROM networks WHERE removed_at IS NULL ORDER BY name"), &[])
            .await?;
        Ok(self.valid("networks", &rows, network))
    }

    /// Returns a network by its number.
    pub(crate) async fn network(&mut self, id: NetworkId) -> Result<Option<NetworkRow>, StoreError> {
        let row = self
            .optional(
                concat!("SELECT ", network_columns!(), " FROM networks WHERE id = $1 AND removed_at IS NULL"),
                &[(&id.0).into()],
            )
            .await?;
        row.as_ref().map(|row| parsed("networks", row, network)).transpose()
    }

    /// Returns a network by its name.
    pub(crate) async fn network_by_name(&mut self, name: &str) -> Result<Option<NetworkRow>, StoreError> {
        let row = self
            .optional(
                concat!("SELECT ", network_columns!(), " FROM networks WHERE name = $1 AND removed_at IS NULL"),
                &[name.into()],
            )
            .await?;
        row.as_ref().map(|row| parsed("networks", row, network)).transpose()
    }

    /// Returns the networks that were removed before `time`.
    pub(crate) async fn networks_removed_before(&mut self, time: i64) -> Result<Vec<NetworkId>, StoreError> {
        let rows = self.all("SELECT id FROM networks WHERE removed_at < $1", &[time.into()]).await?;
        Ok(rows.iter().filter_map(|row| bytes(row, "id").ok().map(NetworkId)).collect())
    }

    /// Returns the versions of the history from `version` on, in rising order.
    pub(crate) async fn history_since(&mut self, id: NetworkId, version: u64) -> Result<Vec<u64>, StoreError> {
        let rows = self
            .all(
                "SELECT version FROM history WHERE network = $1 AND version >= $2 ORDER BY version",
                &[(&id.0).into(), version.into()],
            )
            .await?;
        // A version that is missing costs a whole map.
        Ok(rows.iter().filter_map(|row| unsigned(row.first().ok()?).ok()).collect())
    }
}

impl Writing {
    /// Inserts a network. Its counter starts at 1, because version 0 means "no map". `random` must be fresh randomness.
    pub(crate) async fn insert_network(&mut self, row: &NetworkRow, random: u32) -> Result<(), StoreError> {
        self.execute("INSERT INTO networks (id, name, ipv4, ipv6, version, cursor, created_at) VALUES ($1, $2, $3, $4, 0, 0, $5)", &[(&row.id.0).into(), (&row.name).into(), (&row.ipv4.to_string()).into(), (&row.ipv6.to_string()).into(), row.created_at.into()])
            .await?;
        self.next_version(row.id, random).await?;
        Ok(())
    }

    /// Turns a network and its members into marks of removed ones, revokes its keys, and deletes its relays.
    pub(crate) async fn remove_network(&mut self, id: NetworkId, version: u64, now: i64) -> Result<(), StoreError> {
        // No network can have this name.
        let mark = format!("#{id}");
        self.revoke_members(id, now).await?;
        let (network, id) = (id, id.0.as_slice());
        self.execute(
            "UPDATE nodes SET removed_at = $1, version = $2, endpoints = '[]', relays = '[]' \
             WHERE network = $3 AND removed_at IS NULL",
            &[now.into(), version.into(), id.into()],
        )
        .await?;
        self.execute(
            "UPDATE keys SET revoked_at = coalesce(revoked_at, $1) WHERE network = $2",
            &[now.into(), id.into()],
        )
        .await?;
        self.execute("DELETE FROM webhooks WHERE network = $1", &[id.into()]).await?;
        // The removed network's relays stay listed until the marks of its removed nodes are deleted, so that a relay that was away learns that the members are removed.
        self.execute(
            "UPDATE networks SET removed_at = $1, name = $2 WHERE id = $3",
            &[now.into(), (&mark).into(), id.into()],
        )
        .await?;
        self.tx.hint(network, REMOVED).await
    }

    /// Sets the time of marks later than `latest` to `now`.
    pub(crate) async fn correct_marks(&mut self, now: i64, latest: i64) -> Result<(), StoreError> {
        for table in [
            "UPDATE nodes SET removed_at = $1 WHERE removed_at > $2",
            "UPDATE networks SET removed_at = $1 WHERE removed_at > $2",
            "UPDATE revocations SET revoked_at = $1 WHERE revoked_at > $2",
        ] {
            self.execute(table, &[now.into(), latest.into()]).await?;
        }
        Ok(())
    }

    /// Deletes a network with all its rows.
    pub(crate) async fn delete_network(&mut self, id: NetworkId) -> Result<(), StoreError> {
        let tables = [
            "DELETE FROM history WHERE network = $1",
            "DELETE FROM revocations WHERE network = $1",
            "DELETE FROM requests WHERE network = $1",
            "DELETE FROM policies WHERE network = $1",
            "DELETE FROM nodes WHERE network = $1",
            "DELETE FROM keys WHERE network = $1",
            "DELETE FROM relays WHERE network = $1",
            "DELETE FROM networks WHERE id = $1",
        ];
        for delete in tables {
            self.execute(delete, &[(&id.0).into()]).await?;
        }
        Ok(())
    }

    /// Stores the host number that was assigned last.
    pub(crate) async fn set_cursor(&mut self, id: NetworkId, cursor: u32) -> Result<(), StoreError> {
        self.execute("UPDATE networks SET cursor = $1 WHERE id = $2", &[cursor.into(), (&id.0).into()]).await?;
        Ok(())
    }

    /// Stores the names that an operator chose, and the version at which they changed.
    pub(crate) async fn set_names(&mut self, id: NetworkId, names: &Naming, version: u64) -> Result<(), StoreError> {
        let text = serde_json::to_string(names).map_err(|_| StoreError::Damaged("names"))?;
        self.execute(
            "UPDATE networks SET names = $1, names_version = $2 WHERE id = $3",
            &[(&text).into(), version.into(), (&id.0).into()],
        )
        .await?;
        Ok(())
    }

    /// Returns a new version for the changes of this transaction. `random` must be fresh randomness.
    pub(crate) async fn next_version(&mut self, id: NetworkId, random: u32) -> Result<u64, StoreError> {
        let low = i64::from(random) & ((1 << RANDOM_BITS) - 1);
        let row = self
            .one(
                "UPDATE networks SET version = (((version >> 20) + 1) << 20) + $1 WHERE id = $2 RETURNING version",
                &[low.into(), (&id.0).into()],
            )
            .await?;
        let version = unsigned(row.get("version")?)?;
        self.execute("INSERT INTO history (network, version) VALUES ($1, $2)", &[(&id.0).into(), version.into()])
            .await?;
        self.tx.hint(id, version).await?;
        let counter = version >> RANDOM_BITS;
        if counter.is_multiple_of(SWEEP_EVERY) {
            self.forget_before(id, counter.saturating_sub(u64::from(KEPT)) << RANDOM_BITS).await?;
        }
        Ok(version)
    }

    /// Deletes the versions of the history before `version`: a node with one of them gets a whole map.
    pub(crate) async fn forget_before(&mut self, id: NetworkId, version: u64) -> Result<(), StoreError> {
        self.execute("DELETE FROM history WHERE network = $1 AND version < $2", &[(&id.0).into(), version.into()])
            .await?;
        Ok(())
    }
}

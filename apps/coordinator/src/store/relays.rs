//! Relays.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, query};
use taut_base::{PublicKey, RelayId};

use super::rows::{bytes, signed};
use super::{NetworkId, NewRelay, Reading, RelayRow, StoreError, Writing};

impl Reading {
    /// Returns a network's relays, oldest first, without the coordinator's own.
    pub(crate) async fn relays(&mut self, network: NetworkId) -> Result<Vec<RelayRow>, StoreError> {
        let rows = query("SELECT * FROM relays WHERE network = ? ORDER BY id")
            .bind(network.0.as_slice())
            .fetch_all(&mut *self.tx)
            .await?;
        rows.iter().map(relay).collect()
    }
}

impl Writing {
    /// Inserts a relay.
    pub(crate) async fn insert_relay(&mut self, new: &NewRelay, now: i64) -> Result<RelayRow, StoreError> {
        let endpoints = serde_json::to_string(&new.endpoints).map_err(|_| StoreError::Damaged("endpoints"))?;
        let row = query(
            "INSERT INTO relays (network, name, key, endpoints, stun_port, web, created_at) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING *",
        )
        .bind(new.network.0.as_slice())
        .bind(&new.name)
        .bind(new.key.0.as_slice())
        .bind(endpoints)
        .bind(i64::from(new.stun_port))
        .bind(new.web.as_deref())
        .bind(now)
        .fetch_one(&mut *self.tx)
        .await?;
        relay(&row)
    }

    /// Deletes a relay.
    pub(crate) async fn delete_relay(&mut self, id: RelayId) -> Result<(), StoreError> {
        query("DELETE FROM relays WHERE id = ?").bind(i64::from(id.0)).execute(&mut *self.tx).await?;
        Ok(())
    }

    /// Stores the version at which a network's relays changed.
    pub(crate) async fn set_relays_version(&mut self, network: NetworkId, version: u64) -> Result<(), StoreError> {
        query("UPDATE networks SET relays_version = ? WHERE id = ?")
            .bind(signed(version))
            .bind(network.0.as_slice())
            .execute(&mut *self.tx)
            .await?;
        Ok(())
    }
}

fn relay(row: &SqliteRow) -> Result<RelayRow, StoreError> {
    let number = |column| -> Result<i64, StoreError> { Ok(row.try_get(column)?) };
    Ok(RelayRow {
        id: RelayId(u32::try_from(number("id")?).map_err(|_| StoreError::Damaged("a relay's number"))?),
        name: row.try_get("name")?,
        key: PublicKey(bytes(row, "key")?),
        endpoints: serde_json::from_str(&row.try_get::<String, _>("endpoints")?).unwrap_or_default(),
        stun_port: u16::try_from(number("stun_port")?).unwrap_or(0),
        web: row.try_get("web")?,
        created_at: number("created_at")?,
    })
}

//! Relays.

use taut_base::{PublicKey, RelayId};

use super::damage::parsed;
use super::rows::bytes;
use super::{NetworkId, NewRelay, Reading, RelayRow, Row, StoreError, Writing};

impl Reading {
    /// Returns a network's relays, oldest first, without the coordinator's own.
    pub(crate) async fn relays(&mut self, network: NetworkId) -> Result<Vec<RelayRow>, StoreError> {
        let rows = self
            .all(
                concat!("SELECT ", relay_columns!(), " FROM relays WHERE network = $1 ORDER BY id"),
                &[(&network.0).into()],
            )
            .await?;
        Ok(self.valid("relays", &rows, relay))
    }

    /// Returns the networks that list the relay with this key.
    pub(crate) async fn networks_of_relay(&mut self, key: PublicKey) -> Result<Vec<NetworkId>, StoreError> {
        let rows = self.all("SELECT network FROM relays WHERE key = $1 ORDER BY network", &[(&key.0).into()]).await?;
        rows.iter().map(|row| Ok(NetworkId(bytes(row, "network")?))).collect()
    }
}

impl Writing {
    /// Inserts a relay.
    pub(crate) async fn insert_relay(&mut self, new: &NewRelay, now: i64) -> Result<RelayRow, StoreError> {
        let endpoints = serde_json::to_string(&new.endpoints).map_err(|_| StoreError::Damaged("endpoints"))?;
        let row = self.one(concat!("INSERT INTO relays (network, name, key, endpoints, stun_port, web, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING ", relay_columns!()), &[(&new.network.0).into(), (&new.name).into(), (&new.key.0).into(), (&endpoints).into(), u32::from(new.stun_port).into(), new.web.as_deref().into(), now.into()])
        .await?;
        parsed("relays", &row, relay)
    }

    /// Deletes a relay.
    pub(crate) async fn delete_relay(&mut self, id: RelayId) -> Result<(), StoreError> {
        self.execute("DELETE FROM relays WHERE id = $1", &[id.0.into()]).await?;
        Ok(())
    }

    /// Stores whether a relay can hardly take more nodes, in all networks that list it. Returns those in which that is new.
    pub(crate) async fn set_relay_busy(&mut self, key: PublicKey, busy: bool) -> Result<Vec<NetworkId>, StoreError> {
        let sql = "UPDATE relays SET busy = $1 WHERE key = $2 AND busy <> $1 \
                   AND network IN (SELECT id FROM networks WHERE removed_at IS NULL) RETURNING network";
        let rows = self.all(sql, &[i64::from(busy).into(), (&key.0).into()]).await?;
        rows.iter().map(|row| Ok(NetworkId(bytes(row, "network")?))).collect()
    }

    /// Deletes a relay whose row is damaged. Returns false if neither this network nor a network that
    /// does not exist has one of this number.
    pub(crate) async fn delete_damaged_relay(&mut self, network: NetworkId, id: i64) -> Result<bool, StoreError> {
        let delete = "DELETE FROM relays WHERE id = $2 AND (network = $1 OR network IS NULL \
             OR NOT EXISTS (SELECT 1 FROM networks n WHERE n.id = relays.network))";
        Ok(self.execute(delete, &[(&network.0).into(), id.into()]).await? > 0)
    }

    /// Stores the version at which a network's relays changed.
    pub(crate) async fn set_relays_version(&mut self, network: NetworkId, version: u64) -> Result<(), StoreError> {
        self.execute("UPDATE networks SET relays_version = $1 WHERE id = $2", &[version.into(), (&network.0).into()])
            .await?;
        Ok(())
    }
}

fn relay(row: &Row) -> Result<RelayRow, StoreError> {
    let number = |column| row.get::<i64>(column);
    Ok(RelayRow {
        id: RelayId(u32::try_from(number("id")?).map_err(|_| StoreError::Damaged("a relay's number"))?),
        name: row.get("name")?,
        key: PublicKey(bytes(row, "key")?),
        endpoints: serde_json::from_str(&row.get::<String>("endpoints")?).unwrap_or_default(),
        stun_port: u16::try_from(number("stun_port")?).unwrap_or(0),
        web: row.get("web")?,
        created_at: number("created_at")?,
        busy: row.get("busy")?,
    })
}

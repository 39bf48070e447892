//! Statements that read and change the decisions of operators about devices.

use taut_base::{NodeId, Prefix};

use super::cells::{bytes, unsigned};
use super::device_rows::{Device, Part, text_of, text_of_routes};
use super::value::Row;
use super::{NetworkId, Reading, StoreError, Writing};

/// A node whose absence is counted.
pub(crate) struct EphemeralRow {
    pub(crate) id: NodeId,
    pub(crate) network: NetworkId,
    /// Seconds of absence after which the node is removed.
    pub(crate) limit: i64,
    /// Seconds of absence that were counted.
    pub(crate) absent: Option<i64>,
}

impl Reading {
    /// Returns up to `most` nodes with numbers above `after` whose absence is counted, and the number after which the next ones begin; `None` at the end.
    pub(crate) async fn ephemeral_nodes(
        &mut self,
        after: NodeId,
        most: u32,
    ) -> Result<(Vec<EphemeralRow>, Option<NodeId>), StoreError> {
        let rows = self
            .all(
                "SELECT id, network, ephemeral, absent FROM nodes WHERE ephemeral IS NOT NULL AND removed_at IS NULL AND id > $1 \
                 ORDER BY id LIMIT $2",
                &[after.0.into(), most.into()],
            )
            .await?;
        let ephemeral = |row: &Row| {
            Ok(EphemeralRow {
                id: NodeId(unsigned(row.get("id")?)?),
                network: NetworkId(bytes(row, "network")?),
                limit: row.get("ephemeral")?,
                absent: row.get("absent")?,
            })
        };
        Ok((self.valid("nodes", &rows, ephemeral), next_after(&rows, most)?))
    }

    /// Returns up to `most` nodes with numbers above `after` whose membership ends at `now` or earlier and has not been ended yet, with their networks, and the number
    /// after which the next ones begin; `None` at the end.
    pub(crate) async fn ended_memberships(
        &mut self,
        now: i64,
        after: NodeId,
        most: u32,
    ) -> Result<(Vec<(NodeId, NetworkId)>, Option<NodeId>), StoreError> {
        let rows = self
            .all(
                "SELECT id, network FROM nodes WHERE expires_at IS NOT NULL AND expires_at <= $1 AND expired = 0 AND removed_at IS NULL \
                 AND id > $2 ORDER BY id LIMIT $3",
                &[now.into(), after.0.into(), most.into()],
            )
            .await?;
        let ended = |row: &Row| Ok((NodeId(unsigned(row.get("id")?)?), NetworkId(bytes(row, "network")?)));
        Ok((self.valid("nodes", &rows, ended), next_after(&rows, most)?))
    }

    /// Returns the time in the table `meta` up to which absence was counted, in seconds since 1970.
    pub(crate) async fn counted_until(&mut self) -> Result<Option<i64>, StoreError> {
        let bytes = self.meta(COUNTED).await?;
        Ok(bytes.and_then(|bytes| bytes.try_into().ok()).map(i64::from_be_bytes))
    }
}

/// Row of the time up to which absence was counted.
const COUNTED: &str = "absence-counted";

/// Returns the number after which the next piece begins; `None` at the end. Damaged rows count.
fn next_after(rows: &[Row], most: u32) -> Result<Option<NodeId>, StoreError> {
    let last = rows.last().filter(|_| rows.len() >= most as usize);
    last.map(|row| Ok(NodeId(unsigned(row.get("id")?)?))).transpose()
}

impl Writing {
    /// Stores the time up to which absence was counted.
    pub(crate) async fn set_counted_until(&mut self, time: i64) -> Result<(), StoreError> {
        let (name, value) = (COUNTED, time.to_be_bytes());
        let update = "UPDATE meta SET value = $1 WHERE name = $2";
        if self.execute(update, &[(&value).into(), name.into()]).await? == 0 {
            self.insert_meta(name, &value).await?;
        }
        Ok(())
    }

    /// Stores the seconds of absence of a node; `None` if it is present.
    pub(crate) async fn set_absent(&mut self, id: NodeId, absent: Option<i64>) -> Result<(), StoreError> {
        self.execute("UPDATE nodes SET absent = $1 WHERE id = $2", &[absent.into(), id.0.into()]).await?;
        Ok(())
    }

    /// Stores the enrolment key that renewed a membership.
    pub(crate) async fn set_joined_key(&mut self, id: NodeId, key: i64) -> Result<(), StoreError> {
        self.execute("UPDATE nodes SET joined_key = $1 WHERE id = $2", &[key.into(), id.0.into()]).await?;
        Ok(())
    }

    /// Stores the decisions about a node. `version` is the network's version for this change.
    ///
    /// If the node ceases to take part, its relay tickets are revoked.
    pub(crate) async fn set_device(
        &mut self,
        id: NodeId,
        (before, after): (&Device, &Device),
        version: u64,
        now: i64,
    ) -> Result<(), StoreError> {
        if before.part() == Part::Takes && after.part() != Part::Takes {
            self.revoke(id, true, now).await?;
        }
        let part_version = if before.part() == after.part() { before.part_version } else { version };
        let (tags, routes) = (text_of(&after.tags)?, text_of_routes(&after.routes)?);
        self.execute(
            "UPDATE nodes SET owner = $1, tags = $2, approved = $3, disabled = $4, expires_at = $5, expired = $6, key_life = $7, \
             ephemeral = $8, routes = $9, part_version = $10, version = $11 WHERE id = $12",
            &[
                after.owner.as_deref().into(),
                (&tags).into(),
                after.approved.into(),
                after.disabled.into(),
                after.expires_at.into(),
                after.expired.into(),
                after.key_life.into(),
                after.ephemeral.into(),
                (&routes).into(),
                part_version.into(),
                version.into(),
                id.0.into(),
            ],
        )
        .await?;
        Ok(())
    }

    /// Stores the prefixes that a node advertises. The caller decides whether that is a new version of the network.
    pub(crate) async fn set_advertised(&mut self, id: NodeId, routes: &[Prefix]) -> Result<(), StoreError> {
        let text = text_of_routes(routes)?;
        self.execute("UPDATE nodes SET advertised = $1 WHERE id = $2", &[(&text).into(), id.0.into()]).await?;
        Ok(())
    }

    /// Stores whether new nodes of a network wait for approval, and the life of a membership.
    pub(crate) async fn set_admission(
        &mut self,
        id: NetworkId,
        approval: bool,
        key_life: Option<i64>,
    ) -> Result<(), StoreError> {
        self.execute(
            "UPDATE networks SET approval = $1, key_life = $2 WHERE id = $3",
            &[approval.into(), key_life.into(), (&id.0).into()],
        )
        .await?;
        Ok(())
    }
}

//! What operators decide about devices (docs/internals/devices.md): columns of nodes and keys, and the statements that change them.

use taut_base::NodeId;

use super::rows::{unsigned, version};
use super::value::Row;
use super::{NetworkId, Reading, StoreError, Writing};

/// Longest text with tags that is read, 8 KiB: 32 tags have 2 KiB.
const LONGEST_TAGS: usize = 8 * 1024;

/// What an enrolment key gives to the nodes that join with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grants {
    /// Number of nodes that may join with it; `None` for any number.
    pub(crate) most_uses: Option<i64>,
    /// Seconds of absence after which the nodes are removed; `None` for never.
    pub(crate) ephemeral: Option<i64>,
    /// Their tags.
    pub(crate) tags: Vec<String>,
    /// True if they need no further approval.
    pub(crate) approves: bool,
    /// Their owner.
    pub(crate) owner: Option<String>,
}

/// What operators decided about a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Device {
    /// The person that it belongs to.
    pub(crate) owner: Option<String>,
    pub(crate) tags: Vec<String>,
    /// False while it waits for its approval.
    pub(crate) approved: bool,
    /// True while an operator keeps it out of the network.
    pub(crate) disabled: bool,
    /// Time at which its membership expires, in seconds since 1970; `None` for never.
    pub(crate) expires_at: Option<i64>,
    /// True once the coordinator has ended its membership because of that time.
    pub(crate) expired: bool,
    /// Its own life of a membership in seconds, 0 for ever; `None` for that of the network.
    pub(crate) key_life: Option<i64>,
    /// Seconds of absence after which it is removed; `None` for never.
    pub(crate) ephemeral: Option<i64>,
    /// Seconds of absence that were counted; `None` if it was present, or was not counted yet.
    pub(crate) absent: Option<i64>,
    /// The network's version at which it last came to take part in the network, or ceased to.
    pub(crate) part_version: u64,
}

/// Whether a node takes part in its network. A node that does not is in nobody's map, and its own map has no peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It takes part.
    Takes,
    /// It waits for its approval.
    Unapproved,
    /// An operator keeps it out.
    Disabled,
    /// Its membership has expired.
    Expired,
}

impl Device {
    /// Returns whether the node takes part. An approval that is missing comes first, then the operator's decision.
    pub(crate) fn part(&self) -> Part {
        match self {
            Self { approved: false, .. } => Part::Unapproved,
            Self { disabled: true, .. } => Part::Disabled,
            Self { expired: true, .. } => Part::Expired,
            _ => Part::Takes,
        }
    }
}

/// A node whose absence is counted.
pub(crate) struct EphemeralRow {
    pub(crate) id: NodeId,
    pub(crate) network: NetworkId,
    /// Seconds of absence after which it is removed.
    pub(crate) limit: i64,
    /// Seconds that were counted.
    pub(crate) absent: Option<i64>,
}

pub(super) fn device(row: &Row) -> Result<Device, StoreError> {
    Ok(Device {
        owner: row.get("owner")?,
        tags: tags(row)?,
        approved: flag(row, "approved")?,
        disabled: flag(row, "disabled")?,
        expires_at: row.get("expires_at")?,
        expired: flag(row, "expired")?,
        key_life: row.get("key_life")?,
        ephemeral: row.get("ephemeral")?,
        absent: row.get("absent")?,
        part_version: version(row, "part_version")?,
    })
}

pub(super) fn grants(row: &Row) -> Result<Grants, StoreError> {
    Ok(Grants {
        most_uses: row.get("most_uses")?,
        ephemeral: row.get("ephemeral")?,
        tags: tags(row)?,
        approves: flag(row, "approves")?,
        owner: row.get("owner")?,
    })
}

/// Returns a truth value. Another number damages the row: these values decide who is let in.
fn flag(row: &Row, column: &str) -> Result<bool, StoreError> {
    match row.get::<i64>(column)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(StoreError::Damaged("a truth value that is neither 0 nor 1")),
    }
}

/// Returns the tags of a row. Damaged tags damage the row: without them a policy would mean something else.
fn tags(row: &Row) -> Result<Vec<String>, StoreError> {
    let text: String = row.get("tags")?;
    let tags = (text.len() <= LONGEST_TAGS).then(|| serde_json::from_str(&text).ok()).flatten();
    tags.ok_or(StoreError::Damaged("tags that are no list"))
}

/// Returns tags as they are stored.
pub(super) fn text_of(tags: &[String]) -> Result<String, StoreError> {
    serde_json::to_string(tags).map_err(|_| StoreError::Damaged("tags"))
}

impl Reading {
    /// Returns the nodes whose absence is counted.
    pub(crate) async fn ephemeral_nodes(&mut self) -> Result<Vec<EphemeralRow>, StoreError> {
        let rows = self
            .all(
                "SELECT id, network, ephemeral, absent FROM nodes WHERE ephemeral IS NOT NULL AND removed_at IS NULL ORDER BY id",
                &[],
            )
            .await?;
        let ephemeral = |row: &Row| {
            Ok(EphemeralRow {
                id: NodeId(unsigned(row.get("id")?)?),
                network: NetworkId(super::rows::bytes(row, "network")?),
                limit: row.get("ephemeral")?,
                absent: row.get("absent")?,
            })
        };
        Ok(self.valid("nodes", &rows, ephemeral))
    }

    /// Returns up to `most` nodes whose membership ends at `now` or earlier and has not been ended yet, with their networks.
    pub(crate) async fn ended_memberships(
        &mut self,
        now: i64,
        most: u32,
    ) -> Result<Vec<(NodeId, NetworkId)>, StoreError> {
        let rows = self
            .all(
                "SELECT id, network FROM nodes WHERE expires_at IS NOT NULL AND expires_at <= $1 AND expired = 0 AND removed_at IS NULL \
                 ORDER BY id LIMIT $2",
                &[now.into(), most.into()],
            )
            .await?;
        let ended = |row: &Row| Ok((NodeId(unsigned(row.get("id")?)?), NetworkId(super::rows::bytes(row, "network")?)));
        Ok(self.valid("nodes", &rows, ended))
    }

    /// Returns the time in the table `meta` up to which absence was counted, in seconds since 1970.
    pub(crate) async fn counted_until(&mut self) -> Result<Option<i64>, StoreError> {
        let bytes = self.meta(COUNTED).await?;
        Ok(bytes.and_then(|bytes| bytes.try_into().ok()).map(i64::from_be_bytes))
    }
}

/// Row of the time up to which absence was counted.
const COUNTED: &str = "absence-counted";

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

    /// Stores what was decided about a node. `version` is the network's for this change.
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
        let tags = text_of(&after.tags)?;
        self.execute(
            "UPDATE nodes SET owner = $1, tags = $2, approved = $3, disabled = $4, expires_at = $5, expired = $6, key_life = $7, \
             ephemeral = $8, part_version = $9, version = $10 WHERE id = $11",
            &[
                after.owner.as_deref().into(),
                (&tags).into(),
                after.approved.into(),
                after.disabled.into(),
                after.expires_at.into(),
                after.expired.into(),
                after.key_life.into(),
                after.ephemeral.into(),
                part_version.into(),
                version.into(),
                id.0.into(),
            ],
        )
        .await?;
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

//! What operators decide about devices (docs/internals/devices.md): columns of nodes and keys.

use super::StoreError;
use super::cells::version;
use super::value::Row;

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

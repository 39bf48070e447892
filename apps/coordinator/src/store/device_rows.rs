//! The columns of nodes and keys that hold the decisions of operators about devices (docs/internals/devices.md).

use taut_base::Prefix;

use super::StoreError;
use super::cells::version;
use super::value::Row;

/// Longest text with routes that is read, 8 KiB: 128 routes have 6 KiB.
const LONGEST_ROUTES: usize = 8 * 1024;

/// Longest text with tags that is read, 8 KiB: 32 tags have 2 KiB.
const LONGEST_TAGS: usize = 8 * 1024;

/// Properties that an enrolment key gives to the nodes that join with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grants {
    /// Number of nodes that may join with it; `None` for any number.
    pub(crate) most_uses: Option<i64>,
    /// Seconds of absence after which the nodes are removed; `None` for never.
    pub(crate) ephemeral: Option<i64>,
    /// Tags of the nodes.
    pub(crate) tags: Vec<String>,
    /// True if the nodes need no further approval.
    pub(crate) approves: bool,
    /// Owner of the nodes.
    pub(crate) owner: Option<String>,
}

/// Decisions of operators about a node, and the state that follows from them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Device {
    /// The person that the node belongs to.
    pub(crate) owner: Option<String>,
    pub(crate) tags: Vec<String>,
    /// False while the node waits for its approval.
    pub(crate) approved: bool,
    /// True while an operator keeps the node out of the network.
    pub(crate) disabled: bool,
    /// Time at which the node's membership expires, in seconds since 1970; `None` for never.
    pub(crate) expires_at: Option<i64>,
    /// True once the coordinator has ended the membership because it expired.
    pub(crate) expired: bool,
    /// Life of this node's membership in seconds, 0 for ever; `None` for the network's default.
    pub(crate) key_life: Option<i64>,
    /// Seconds of absence after which the node is removed; `None` for never.
    pub(crate) ephemeral: Option<i64>,
    /// Seconds of absence that were counted; `None` if the node was present at the last count, or was not counted yet.
    pub(crate) absent: Option<i64>,
    /// Approved routes, sorted. Those that the node advertises are in maps.
    pub(crate) routes: Vec<Prefix>,
    /// Version of the network at which the node last began or ceased to take part.
    pub(crate) part_version: u64,
}

/// A node's part in its network. A node that does not take part is in no other node's map, and its own map has no peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The node takes part.
    Takes,
    /// The node waits for its approval.
    Unapproved,
    /// An operator keeps the node out.
    Disabled,
    /// The node's membership has expired.
    Expired,
}

impl Device {
    /// Returns the node's part. If several reasons keep it out, a missing approval comes first, then disabling, then expiry.
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
        routes: routes(row, "routes")?,
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

/// Returns a boolean column. A number other than 0 and 1 makes the row damaged, because these columns decide which nodes are let in.
fn flag(row: &Row, column: &str) -> Result<bool, StoreError> {
    match row.get::<i64>(column)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(StoreError::Damaged("a truth value that is neither 0 nor 1")),
    }
}

/// Returns the tags of a row. Tags that cannot be read make the row damaged, because a policy would treat a node without them differently.
fn tags(row: &Row) -> Result<Vec<String>, StoreError> {
    let text: String = row.get("tags")?;
    let tags = (text.len() <= LONGEST_TAGS).then(|| serde_json::from_str(&text).ok()).flatten();
    tags.ok_or(StoreError::Damaged("tags that are no list"))
}

/// Returns the prefixes in a column of a row.
pub(super) fn routes(row: &Row, column: &str) -> Result<Vec<Prefix>, StoreError> {
    let text: String = row.get(column)?;
    let routes = (text.len() <= LONGEST_ROUTES).then(|| serde_json::from_str(&text).ok()).flatten();
    routes.ok_or(StoreError::Damaged("routes that are no list"))
}

/// Returns prefixes as they are stored.
pub(super) fn text_of_routes(routes: &[Prefix]) -> Result<String, StoreError> {
    serde_json::to_string(routes).map_err(|_| StoreError::Damaged("routes"))
}

/// Returns tags as they are stored.
pub(super) fn text_of(tags: &[String]) -> Result<String, StoreError> {
    serde_json::to_string(tags).map_err(|_| StoreError::Damaged("tags"))
}

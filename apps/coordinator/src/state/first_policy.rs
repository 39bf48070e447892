//! The policy that a new network begins with.

use super::StateError;
use crate::store::{NetworkId, PolicyRow, Writing};

/// Versions of a policy that are kept, 100: months of changes, of 512 KiB each at most.
pub(super) const KEPT: u32 = 100;

/// The policy of a new network: one visible rule.
const FIRST: &str = r#"// Who may reach whom in this network. What no rule allows is denied.
// The language: docs/policy.md. Try a change with `taut-coordinator policy check FILE`, and apply it with `taut-coordinator policy apply FILE`.
{
  "acls": [
    // All members reach all members. Replace this rule to allow less.
    {"action": "accept", "src": ["*"], "dst": ["*:*"]},
  ],
}
"#;

/// Gives a new network its first policy.
pub(super) async fn insert_first(tx: &mut Writing, network: NetworkId, now: i64) -> Result<(), StateError> {
    let first = PolicyRow {
        number: 0,
        version: 0,
        text: String::from(FIRST),
        author: String::from("taut-coordinator"),
        comment: String::from("a new network"),
        created_at: now,
    };
    tx.insert_policy(network, &first, KEPT).await?;
    Ok(())
}

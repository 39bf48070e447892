//! Policies, in versions.

use super::rows::unsigned;
use super::value::Row;
use super::{NetworkId, Reading, StoreError, Writing};

/// A version of a network's policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicyRow {
    /// Number of the version, from 1 on.
    pub(crate) number: i64,
    /// Version of the network since which the policy is in force.
    pub(crate) version: u64,
    /// Text of the policy, as its author wrote it.
    pub(crate) text: String,
    /// Name of the party that applied the policy.
    pub(crate) author: String,
    /// Comment of the author, such as the reason for the change.
    pub(crate) comment: String,
    /// Time at which the policy was applied, in seconds since 1970.
    pub(crate) created_at: i64,
}

fn policy(row: &Row) -> Result<PolicyRow, StoreError> {
    Ok(PolicyRow {
        number: row.get("number")?,
        version: unsigned(row.get("version")?)?,
        text: row.get("text")?,
        author: row.get("author")?,
        comment: row.get("comment")?,
        created_at: row.get("created_at")?,
    })
}

impl Reading {
    /// Returns the policy in force; `None` if the network has none.
    pub(crate) async fn policy(&mut self, network: NetworkId) -> Result<Option<PolicyRow>, StoreError> {
        let sql = "SELECT number, version, text, author, comment, created_at FROM policies WHERE network = $1 ORDER BY number DESC LIMIT 1";
        self.optional(sql, &[(&network.0).into()]).await?.as_ref().map(policy).transpose()
    }

    /// Returns the number of the policy in force; 0 if the network has none.
    pub(crate) async fn policy_number(&mut self, network: NetworkId) -> Result<i64, StoreError> {
        let sql = "SELECT coalesce(max(number), 0) AS number FROM policies WHERE network = $1";
        self.one(sql, &[(&network.0).into()]).await?.get("number")
    }

    /// Returns a version of the policy.
    pub(crate) async fn policy_version(
        &mut self,
        network: NetworkId,
        number: i64,
    ) -> Result<Option<PolicyRow>, StoreError> {
        let sql = "SELECT number, version, text, author, comment, created_at FROM policies WHERE network = $1 AND number = $2";
        self.optional(sql, &[(&network.0).into(), number.into()]).await?.as_ref().map(policy).transpose()
    }

    /// Returns up to `most` versions with numbers below `before`, newest first, without their texts.
    pub(crate) async fn policy_versions(
        &mut self,
        network: NetworkId,
        before: i64,
        most: u32,
    ) -> Result<Vec<PolicyRow>, StoreError> {
        let sql = "SELECT number, version, '' AS text, author, comment, created_at FROM policies WHERE network = $1 AND number < $2 \
                   ORDER BY number DESC LIMIT $3";
        let rows = self.all(sql, &[(&network.0).into(), before.into(), most.into()]).await?;
        rows.iter().map(policy).collect()
    }
}

impl Writing {
    /// Inserts the next version of a policy, and deletes the oldest ones beyond `kept`. Returns its number.
    pub(crate) async fn insert_policy(
        &mut self,
        network: NetworkId,
        new: &PolicyRow,
        kept: u32,
    ) -> Result<i64, StoreError> {
        let number = self.policy_number(network).await? + 1;
        self.execute(
            "INSERT INTO policies (network, number, version, text, author, comment, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)",
            &[
                (&network.0).into(),
                number.into(),
                new.version.into(),
                (&new.text).into(),
                (&new.author).into(),
                (&new.comment).into(),
                new.created_at.into(),
            ],
        )
        .await?;
        self.execute(
            "DELETE FROM policies WHERE network = $1 AND number <= $2",
            &[(&network.0).into(), (number - i64::from(kept)).into()],
        )
        .await?;
        Ok(number)
    }
}

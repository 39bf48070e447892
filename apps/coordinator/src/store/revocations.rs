//! Revocations: members that were removed, and former keys of members, of which relays are told.

use taut_base::{NodeId, PublicKey};

use super::rows::{bytes, unsigned};
use super::{NetworkId, Reading, Row, StoreError, Writing};

/// A revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RevocationRow {
    /// Its number, in the order of commits.
    pub(crate) number: i64,
    pub(crate) network: NetworkId,
    /// The removed node; `None` if only a member's former key is revoked.
    pub(crate) node: Option<NodeId>,
    pub(crate) node_key: PublicKey,
    /// Time in seconds since 1970, by the clock at that time.
    pub(crate) revoked_at: i64,
}

/// A page of revocations.
pub(crate) struct RevocationPage {
    pub(crate) rows: Vec<RevocationRow>,
    /// The last number that was read; `None` if there are no more.
    pub(crate) last: Option<i64>,
}

/// The columns of a [`RevocationRow`].
macro_rules! columns {
    () => {
        "id, network, node, node_key, revoked_at"
    };
}

impl Reading {
    fn page(&self, rows: &[Row]) -> RevocationPage {
        let last = rows.last().and_then(|row| row.get("id").ok());
        // Each row is marked as over, so a damaged one is left out without a line: its ticket ends on the third day.
        RevocationPage { rows: self.valid("revocations", rows, row), last }
    }

    /// Returns up to `most` revocations of all networks with numbers above `after`, sorted by number.
    ///
    /// A row that is damaged is left out; the numbers that were read are returned in any case, so that a page of damaged rows is not the end.
    pub(crate) async fn revocations(&mut self, after: i64, most: u32) -> Result<RevocationPage, StoreError> {
        let sql = concat!("SELECT ", columns!(), " FROM revocations WHERE id > $1 ORDER BY id LIMIT $2");
        let rows = self.all(sql, &[after.into(), most.into()]).await?;
        Ok(self.page(&rows))
    }

    /// Returns up to `most` revocations of one network with numbers above `after`, sorted by number.
    pub(crate) async fn revocations_of(
        &mut self,
        network: NetworkId,
        after: i64,
        most: u32,
    ) -> Result<RevocationPage, StoreError> {
        let sql =
            concat!("SELECT ", columns!(), " FROM revocations WHERE network = $1 AND id > $2 ORDER BY id LIMIT $3");
        let rows = self.all(sql, &[(&network.0).into(), after.into(), most.into()]).await?;
        Ok(self.page(&rows))
    }

    /// Returns the number of the last revocation; 0 if there is none.
    pub(crate) async fn last_revocation(&mut self) -> Result<i64, StoreError> {
        self.one("SELECT coalesce(max(id), 0) AS id FROM revocations", &[]).await?.get("id")
    }

    /// Returns true if this is the former key of a machine that has another one now.
    pub(crate) async fn is_former_key(&mut self, network: NetworkId, key: PublicKey) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM revocations WHERE node_key = $1 AND network = $2 AND node IS NULL)";
        self.one(sql, &[(&key.0).into(), (&network.0).into()]).await?.first()
    }

    /// Returns the time at which this key was last revoked in this network, in seconds since 1970.
    pub(crate) async fn revoked_at(&mut self, network: NetworkId, key: PublicKey) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT max(revoked_at) AS revoked_at FROM revocations WHERE node_key = $1 AND network = $2";
        self.one(sql, &[(&key.0).into(), (&network.0).into()]).await?.get("revoked_at")
    }
}

impl Writing {
    /// Revokes the present key of a node. The node is named if it `is_removed`.
    pub(super) async fn revoke(&mut self, node: NodeId, is_removed: bool, now: i64) -> Result<(), StoreError> {
        let sql = if is_removed {
            "INSERT INTO revocations (network, node, node_key, revoked_at) SELECT network, id, node_key, $1 FROM nodes \
             WHERE id = $2 AND length(node_key) = 32 AND network IN (SELECT id FROM networks)"
        } else {
            "INSERT INTO revocations (network, node, node_key, revoked_at) SELECT network, NULL, node_key, $1 FROM nodes \
             WHERE id = $2 AND length(node_key) = 32 AND network IN (SELECT id FROM networks)"
        };
        self.execute(sql, &[now.into(), node.0.into()]).await?;
        Ok(())
    }

    /// Revokes all members of a network.
    pub(super) async fn revoke_members(&mut self, network: NetworkId, now: i64) -> Result<(), StoreError> {
        let sql = "INSERT INTO revocations (network, node, node_key, revoked_at) \
                   SELECT network, id, node_key, $1 FROM nodes WHERE network = $2 AND removed_at IS NULL AND length(node_key) = 32 ORDER BY id";
        self.execute(sql, &[now.into(), (&network.0).into()]).await?;
        Ok(())
    }

    /// Deletes up to `most` revocations that were made before `time`. Returns their number.
    pub(crate) async fn forget_revocations(&mut self, time: i64, most: u32) -> Result<u64, StoreError> {
        let sql = "DELETE FROM revocations WHERE id IN (SELECT id FROM revocations WHERE revoked_at < $1 LIMIT $2)";
        self.execute(sql, &[time.into(), most.into()]).await
    }
}

fn row(row: &Row) -> Result<RevocationRow, StoreError> {
    Ok(RevocationRow {
        number: row.get("id")?,
        network: NetworkId(bytes(row, "network")?),
        node: row.get::<Option<i64>>("node")?.map(unsigned).transpose()?.map(NodeId),
        node_key: PublicKey(bytes(row, "node_key")?),
        revoked_at: row.get("revoked_at")?,
    })
}

//! Enrolment keys.

use super::damage::parsed;
use super::device_rows::text_of;
use super::rows::key;
use super::{KeyRow, NetworkId, NewKey, Reading, StoreError, Writing};

impl Reading {
    /// Returns all keys of all networks, oldest first.
    pub(crate) async fn keys(&mut self) -> Result<Vec<KeyRow>, StoreError> {
        let rows = self.all(concat!("SELECT ", key_columns!(), " FROM keys ORDER BY id"), &[]).await?;
        Ok(self.valid("keys", &rows, key))
    }

    /// Returns a key by the hash of its secret.
    pub(crate) async fn key_by_hash(
        &mut self,
        network: NetworkId,
        hash: &[u8; 32],
    ) -> Result<Option<KeyRow>, StoreError> {
        let row = self
            .optional(
                concat!("SELECT ", key_columns!(), " FROM keys WHERE hash = $1 AND network = $2"),
                &[hash.into(), (&network.0).into()],
            )
            .await?;
        row.as_ref().map(|row| parsed("keys", row, key)).transpose()
    }
}

impl Writing {
    /// Inserts a key.
    pub(crate) async fn insert_key(&mut self, new: &NewKey, now: i64) -> Result<KeyRow, StoreError> {
        let grants = &new.grants;
        let tags = text_of(&grants.tags)?;
        let row = self.one(concat!("INSERT INTO keys (network, hash, reusable, expires_at, created_at, most_uses, ephemeral, tags, approves, owner) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING ", key_columns!()), &[(&new.network.0).into(), (&new.hash).into(), new.reusable.into(), new.expires_at.into(), now.into(), grants.most_uses.into(), grants.ephemeral.into(), (&tags).into(), grants.approves.into(), grants.owner.as_deref().into()])
        .await?;
        key(&row)
    }

    /// Uses a key once if it is valid. One statement checks and counts, so that concurrent joins cannot exceed what the key allows (fault E5, TS-2025-007).
    pub(crate) async fn consume_key(
        &mut self,
        network: NetworkId,
        hash: &[u8; 32],
        now: i64,
    ) -> Result<Option<KeyRow>, StoreError> {
        let row = self
            .optional(
                concat!(
                    "UPDATE keys SET used = used + 1 WHERE hash = $1 AND network = $2 AND revoked_at IS NULL \
             AND (expires_at IS NULL OR expires_at > $3) AND (reusable = 1 OR used = 0) \
             AND (most_uses IS NULL OR used < most_uses) RETURNING ",
                    key_columns!()
                ),
                &[hash.into(), (&network.0).into(), now.into()],
            )
            .await?;
        row.as_ref().map(|row| parsed("keys", row, key)).transpose()
    }

    /// Counts a use of a key that was made for one node.
    pub(crate) async fn use_key(&mut self, id: i64) -> Result<(), StoreError> {
        self.execute("UPDATE keys SET used = used + 1 WHERE id = $1", &[id.into()]).await?;
        Ok(())
    }

    /// Revokes a key, and keeps the time of an earlier revocation. Returns false if there is no key of this number.
    pub(crate) async fn revoke_key(&mut self, id: i64, now: i64) -> Result<bool, StoreError> {
        let revoke = "UPDATE keys SET revoked_at = coalesce(revoked_at, $1) WHERE id = $2";
        Ok(self.execute(revoke, &[now.into(), id.into()]).await? > 0)
    }
}

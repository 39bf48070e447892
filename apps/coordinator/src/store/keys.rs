//! Enrolment keys.

use sqlx::query;

use super::rows::key;
use super::{KeyRow, NetworkId, NewKey, Reading, StoreError, Writing};

impl Reading {
    /// Returns all keys of all networks, oldest first.
    pub(crate) async fn keys(&mut self) -> Result<Vec<KeyRow>, StoreError> {
        let rows = query("SELECT * FROM keys ORDER BY id").fetch_all(&mut *self.tx).await?;
        rows.iter().map(key).collect()
    }

    /// Returns a key by the hash of its secret.
    pub(crate) async fn key_by_hash(
        &mut self,
        network: NetworkId,
        hash: &[u8; 32],
    ) -> Result<Option<KeyRow>, StoreError> {
        let row = query("SELECT * FROM keys WHERE hash = ? AND network = ?")
            .bind(hash.as_slice())
            .bind(network.0.as_slice())
            .fetch_optional(&mut *self.tx)
            .await?;
        row.as_ref().map(key).transpose()
    }
}

impl Writing {
    /// Inserts a key.
    pub(crate) async fn insert_key(&mut self, new: &NewKey, now: i64) -> Result<KeyRow, StoreError> {
        let row = query(
            "INSERT INTO keys (network, hash, reusable, expires_at, created_at) VALUES (?, ?, ?, ?, ?) RETURNING *",
        )
        .bind(new.network.0.as_slice())
        .bind(new.hash.as_slice())
        .bind(new.reusable)
        .bind(new.expires_at)
        .bind(now)
        .fetch_one(&mut *self.tx)
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
        let row = query(
            "UPDATE keys SET used = used + 1 WHERE hash = ? AND network = ? AND revoked_at IS NULL \
             AND (expires_at IS NULL OR expires_at > ?) AND (reusable = 1 OR used = 0) RETURNING *",
        )
        .bind(hash.as_slice())
        .bind(network.0.as_slice())
        .bind(now)
        .fetch_optional(&mut *self.tx)
        .await?;
        row.as_ref().map(key).transpose()
    }

    /// Revokes a key, and keeps the time of an earlier revocation. Returns `None` if there is no key of this number.
    pub(crate) async fn revoke_key(&mut self, id: i64, now: i64) -> Result<Option<KeyRow>, StoreError> {
        let row = query("UPDATE keys SET revoked_at = coalesce(revoked_at, ?) WHERE id = ? RETURNING *")
            .bind(now)
            .bind(id)
            .fetch_optional(&mut *self.tx)
            .await?;
        row.as_ref().map(key).transpose()
    }
}

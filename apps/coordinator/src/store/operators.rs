//! Operators' tokens, and the coordinator's own small values.

use sqlx::{Row, query};

use super::rows::bytes;
use super::{OperatorRow, Reading, StoreError, Writing};

impl Reading {
    /// All operators' tokens, oldest first, those that were revoked included.
    pub(crate) async fn operators(&mut self) -> Result<Vec<OperatorRow>, StoreError> {
        let rows = query("SELECT * FROM operators ORDER BY id").fetch_all(&mut *self.tx).await?;
        let operator = |row| {
            Ok(OperatorRow {
                id: Row::try_get(row, "id")?,
                hash: bytes(row, "hash")?,
                created_at: Row::try_get(row, "created_at")?,
                revoked_at: Row::try_get(row, "revoked_at")?,
            })
        };
        rows.iter().map(operator).collect()
    }

    /// A value of the coordinator's own.
    pub(crate) async fn meta(&mut self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let row = query("SELECT value FROM meta WHERE name = ?").bind(name).fetch_optional(&mut *self.tx).await?;
        Ok(row.map(|row| row.try_get("value")).transpose()?)
    }
}

impl Writing {
    /// Another operator's token.
    pub(crate) async fn insert_operator(&mut self, hash: &[u8; 32], now: i64) -> Result<(), StoreError> {
        query("INSERT INTO operators (hash, created_at) VALUES (?, ?)")
            .bind(hash.as_slice())
            .bind(now)
            .execute(&mut *self.tx)
            .await?;
        Ok(())
    }

    /// Ends a token. The first time that it was revoked stands.
    pub(crate) async fn revoke_operator(&mut self, id: i64, now: i64) -> Result<(), StoreError> {
        query("UPDATE operators SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?")
            .bind(now)
            .bind(id)
            .execute(&mut *self.tx)
            .await?;
        Ok(())
    }

    /// Sets a value, whatever it was before.
    pub(crate) async fn replace_meta(&mut self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        query("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)")
            .bind(name)
            .bind(value)
            .execute(&mut *self.tx)
            .await?;
        Ok(())
    }

    /// Sets a value that was not there.
    pub(crate) async fn insert_meta(&mut self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        query("INSERT INTO meta (name, value) VALUES (?, ?)").bind(name).bind(value).execute(&mut *self.tx).await?;
        Ok(())
    }
}

//! Operator tokens, and single values of the coordinator.

use sqlx::{Row, query};

use super::rows::bytes;
use super::{OperatorRow, Reading, StoreError, Writing};

impl Reading {
    /// Returns all operator tokens, oldest first, revoked ones included.
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

    /// Returns a single value of the coordinator.
    pub(crate) async fn meta(&mut self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let row = query("SELECT value FROM meta WHERE name = ?").bind(name).fetch_optional(&mut *self.tx).await?;
        Ok(row.map(|row| row.try_get("value")).transpose()?)
    }
}

impl Writing {
    /// Inserts an operator token.
    pub(crate) async fn insert_operator(&mut self, hash: &[u8; 32], now: i64) -> Result<(), StoreError> {
        query("INSERT INTO operators (hash, created_at) VALUES (?, ?)")
            .bind(hash.as_slice())
            .bind(now)
            .execute(&mut *self.tx)
            .await?;
        Ok(())
    }

    /// Revokes a token, and keeps the time of an earlier revocation.
    pub(crate) async fn revoke_operator(&mut self, id: i64, now: i64) -> Result<(), StoreError> {
        query("UPDATE operators SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?")
            .bind(now)
            .bind(id)
            .execute(&mut *self.tx)
            .await?;
        Ok(())
    }

    /// Sets a single value.
    pub(crate) async fn replace_meta(&mut self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        query("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)")
            .bind(name)
            .bind(value)
            .execute(&mut *self.tx)
            .await?;
        Ok(())
    }

    /// Inserts a single value that does not exist yet.
    pub(crate) async fn insert_meta(&mut self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        query("INSERT INTO meta (name, value) VALUES (?, ?)").bind(name).bind(value).execute(&mut *self.tx).await?;
        Ok(())
    }
}

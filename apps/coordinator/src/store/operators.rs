//! Operators' tokens, and the coordinator's own small values.

use sqlx::{Row, query};

use super::rows::bytes;
use super::{Reading, StoreError, Writing};

impl Reading {
    /// Hashes of all operators' tokens.
    pub(crate) async fn operator_hashes(&mut self) -> Result<Vec<[u8; 32]>, StoreError> {
        let rows = query("SELECT hash FROM operators").fetch_all(&mut *self.tx).await?;
        rows.iter().map(|row| bytes(row, "hash")).collect()
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

    /// Sets a value that was not there.
    pub(crate) async fn insert_meta(&mut self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        query("INSERT INTO meta (name, value) VALUES (?, ?)").bind(name).bind(value).execute(&mut *self.tx).await?;
        Ok(())
    }
}

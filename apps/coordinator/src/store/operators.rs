//! Operator tokens, and single values of the coordinator.

use super::rows::bytes;
use super::{OperatorRow, Reading, Row, StoreError, Writing};

impl Reading {
    /// Returns all operator tokens, oldest first, revoked ones included.
    pub(crate) async fn operators(&mut self) -> Result<Vec<OperatorRow>, StoreError> {
        let rows = self.all(concat!("SELECT ", operator_columns!(), " FROM operators ORDER BY id"), &[]).await?;
        let operator = |row: &Row| {
            Ok(OperatorRow {
                id: row.get("id")?,
                hash: bytes(row, "hash")?,
                created_at: row.get("created_at")?,
                revoked_at: row.get("revoked_at")?,
            })
        };
        Ok(self.valid("operators", &rows, operator))
    }

    /// Returns a single value of the coordinator.
    pub(crate) async fn meta(&mut self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let row = self.optional("SELECT value FROM meta WHERE name = $1", &[name.into()]).await?;
        row.map(|row| row.get("value")).transpose()
    }
}

impl Writing {
    /// Inserts an operator token.
    pub(crate) async fn insert_operator(&mut self, hash: &[u8; 32], now: i64) -> Result<(), StoreError> {
        self.execute("INSERT INTO operators (hash, created_at) VALUES ($1, $2)", &[hash.into(), now.into()]).await?;
        Ok(())
    }

    /// Revokes a token, and keeps the time of an earlier revocation. Returns false if there is no token of this number.
    pub(crate) async fn revoke_operator(&mut self, id: i64, now: i64) -> Result<bool, StoreError> {
        let changed = self
            .execute(
                "UPDATE operators SET revoked_at = coalesce(revoked_at, $1) WHERE id = $2",
                &[now.into(), id.into()],
            )
            .await?;
        Ok(changed > 0)
    }

    /// Sets a single value.
    pub(crate) async fn replace_meta(&mut self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        self.execute(
            "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            &[name.into(), value.into()],
        )
        .await?;
        Ok(())
    }

    /// Inserts a single value that does not exist yet.
    pub(crate) async fn insert_meta(&mut self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        self.execute("INSERT INTO meta (name, value) VALUES ($1, $2)", &[name.into(), value.into()]).await?;
        Ok(())
    }
}

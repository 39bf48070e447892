//! Operator tokens, which give access to the operator's API.

use super::party::{Change, record};
use super::{Secret, State, StateError};
use crate::clock::unix_now;
use crate::log;
use crate::store::{OperatorRow, Party};

impl State {
    /// Returns the number of a valid operator token; `None` if `token` is unknown or revoked.
    pub(crate) async fn operator(&self, token: &str) -> Result<Option<i64>, StateError> {
        let Some(secret) = Secret::from_operator_token(token) else { return Ok(None) };
        let mut rows = self.store.read(Party::Unauthenticated).await?.operators().await?;
        rows.retain(is_valid);
        Ok(secret.which(rows.iter().map(|row| (row.id, &row.hash))))
    }

    /// Returns all operator tokens, oldest first, as hashes.
    pub(crate) async fn operators(&self) -> Result<Vec<OperatorRow>, StateError> {
        Ok(self.store.read(Party::Operators).await?.operators().await?)
    }

    /// Revokes an operator token: the next request with it is refused. The last valid token cannot be revoked, because nobody could use the API any more.
    pub(crate) async fn revoke_operator(&self, id: i64) -> Result<(), StateError> {
        let mut tx = self.store.write(Party::Operators).await?;
        let rows = tx.operators().await?;
        // One whose row is damaged is not among them, and can be revoked all the same (fault O9).
        let row = rows.iter().find(|row| row.id == id);
        if row.is_some_and(is_valid) && rows.iter().filter(|row| is_valid(row)).count() == 1 {
            return Err(StateError::LastOperator);
        }
        if !tx.revoke_operator(id, unix_now()).await? {
            return Err(StateError::NoOperator(id));
        }
        let object = format!("operator token {id}");
        record(&mut tx, Change { network: None, action: "operator-token-revoked", object, before: None, after: None })
            .await?;
        tx.commit().await?;
        tracing::info!(target: log::MEMBERS, event = "operator-token-revoked", token = id);
        Ok(())
    }
}

fn is_valid(row: &OperatorRow) -> bool {
    row.revoked_at.is_none()
}

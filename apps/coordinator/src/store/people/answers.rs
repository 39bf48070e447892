//! Answers to creations with an idempotency key.

use super::super::rows::bytes;
use super::super::{Reading, StoreError, Writing};

/// A request with an idempotency key that was made before.
pub(crate) struct KeptAnswer {
    /// Hash of its method, path and body.
    pub(crate) content: [u8; 32],
    /// Status and sealed body of the answer; `None` while the request is carried out, or if its coordinator stopped meanwhile.
    pub(crate) answer: Option<(u16, Vec<u8>)>,
}

impl Reading {
    /// Returns an earlier request with this key.
    pub(crate) async fn kept_answer(
        &mut self,
        party: &[u8; 32],
        request: &[u8; 32],
    ) -> Result<Option<KeptAnswer>, StoreError> {
        let sql = "SELECT content, status, sealed FROM answers WHERE party = $1 AND request = $2";
        let Some(row) = self.optional(sql, &[party.into(), request.into()]).await? else { return Ok(None) };
        let status = row.get::<Option<i64>>("status")?.and_then(|status| u16::try_from(status).ok());
        let answer = status.zip(row.get::<Option<Vec<u8>>>("sealed")?);
        Ok(Some(KeptAnswer { content: bytes(&row, "content")?, answer }))
    }

    /// Returns the number of kept answers of a party.
    pub(crate) async fn count_answers(&mut self, party: &[u8; 32]) -> Result<i64, StoreError> {
        self.one("SELECT count(*) FROM answers WHERE party = $1", &[party.into()]).await?.first()
    }
}

impl Writing {
    /// Notes that a request is carried out.
    pub(crate) async fn begin_answer(
        &mut self,
        party: &[u8; 32],
        request: &[u8; 32],
        content: &[u8; 32],
        now: i64,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO answers (party, request, content, created_at) VALUES ($1, $2, $3, $4)";
        self.execute(sql, &[party.into(), request.into(), content.into(), now.into()]).await?;
        Ok(())
    }

    /// Keeps the answer of a request.
    pub(crate) async fn keep_answer(
        &mut self,
        party: &[u8; 32],
        request: &[u8; 32],
        status: u16,
        sealed: &[u8],
    ) -> Result<(), StoreError> {
        let sql = "UPDATE answers SET status = $1, sealed = $2 WHERE party = $3 AND request = $4";
        self.execute(sql, &[u32::from(status).into(), sealed.into(), party.into(), request.into()]).await?;
        Ok(())
    }

    /// Deletes a request that changed nothing.
    pub(crate) async fn drop_answer(&mut self, party: &[u8; 32], request: &[u8; 32]) -> Result<(), StoreError> {
        let sql = "DELETE FROM answers WHERE party = $1 AND request = $2";
        self.execute(sql, &[party.into(), request.into()]).await?;
        Ok(())
    }

    /// Deletes answers that were kept before `time`.
    pub(crate) async fn forget_answers(&mut self, time: i64) -> Result<(), StoreError> {
        self.execute("DELETE FROM answers WHERE created_at < $1", &[time.into()]).await?;
        Ok(())
    }
}

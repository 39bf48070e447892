//! Passwords, secrets of one-time codes, and recovery codes.

use super::super::rows::bytes;
use super::super::{Reading, StoreError, Writing};

/// The one-time codes of a person (RFC 6238).
pub(crate) struct TotpRow {
    pub(crate) secret: [u8; 20],
    /// Time at which the person confirmed the secret with a first code; `None` until then.
    pub(crate) confirmed_at: Option<i64>,
    /// The last used step: codes of this step and earlier ones are refused.
    pub(crate) step: i64,
}

impl Reading {
    /// Returns the hash of a person's password, in the PHC form.
    pub(crate) async fn password_hash(&mut self, person: i64) -> Result<Option<String>, StoreError> {
        let row = self.optional("SELECT hash FROM credentials WHERE person = $1", &[person.into()]).await?;
        row.map(|row| row.get("hash")).transpose()
    }

    /// Returns the one-time codes of a person.
    pub(crate) async fn totp(&mut self, person: i64) -> Result<Option<TotpRow>, StoreError> {
        let sql = "SELECT secret, confirmed_at, step FROM totp WHERE person = $1";
        let Some(row) = self.optional(sql, &[person.into()]).await? else { return Ok(None) };
        let (secret, confirmed_at, step) = (bytes(&row, "secret")?, row.get("confirmed_at")?, row.get("step")?);
        Ok(Some(TotpRow { secret, confirmed_at, step }))
    }

    /// Returns the number of recovery codes that a person has left.
    pub(crate) async fn count_recovery_codes(&mut self, person: i64) -> Result<i64, StoreError> {
        self.one("SELECT count(*) FROM recovery_codes WHERE person = $1", &[person.into()]).await?.first()
    }
}

impl Writing {
    /// Stores the hash of a person's password.
    pub(crate) async fn set_password_hash(&mut self, person: i64, hash: &str, now: i64) -> Result<(), StoreError> {
        let sql = "INSERT INTO credentials (person, hash, changed_at) VALUES ($1, $2, $3) \
                   ON CONFLICT (person) DO UPDATE SET hash = excluded.hash, changed_at = excluded.changed_at";
        self.execute(sql, &[person.into(), hash.into(), now.into()]).await?;
        Ok(())
    }

    /// Stores a new secret of one-time codes that is not confirmed yet.
    pub(crate) async fn set_totp(&mut self, person: i64, secret: &[u8; 20]) -> Result<(), StoreError> {
        let sql = "INSERT INTO totp (person, secret) VALUES ($1, $2) \
                   ON CONFLICT (person) DO UPDATE SET secret = excluded.secret, confirmed_at = NULL, step = 0";
        self.execute(sql, &[person.into(), secret.into()]).await?;
        Ok(())
    }

    /// Confirms the secret of one-time codes.
    pub(crate) async fn confirm_totp(&mut self, person: i64, now: i64) -> Result<(), StoreError> {
        self.execute("UPDATE totp SET confirmed_at = $1 WHERE person = $2", &[now.into(), person.into()]).await?;
        Ok(())
    }

    /// Uses up the one-time codes up to this step. Returns false if that of the step was used already.
    pub(crate) async fn use_totp(&mut self, person: i64, step: i64) -> Result<bool, StoreError> {
        let sql = "UPDATE totp SET step = $1 WHERE person = $2 AND step < $1";
        Ok(self.execute(sql, &[step.into(), person.into()]).await? > 0)
    }

    /// Deletes a person's one-time codes and recovery codes.
    pub(crate) async fn delete_totp(&mut self, person: i64) -> Result<(), StoreError> {
        self.execute("DELETE FROM totp WHERE person = $1", &[person.into()]).await?;
        self.execute("DELETE FROM recovery_codes WHERE person = $1", &[person.into()]).await?;
        Ok(())
    }

    /// Replaces a person's recovery codes.
    pub(crate) async fn set_recovery_codes(&mut self, person: i64, hashes: &[[u8; 32]]) -> Result<(), StoreError> {
        self.execute("DELETE FROM recovery_codes WHERE person = $1", &[person.into()]).await?;
        for hash in hashes {
            let sql = "INSERT INTO recovery_codes (person, hash) VALUES ($1, $2)";
            self.execute(sql, &[person.into(), hash.into()]).await?;
        }
        Ok(())
    }

    /// Uses up a recovery code. Returns false if the person has no such code.
    pub(crate) async fn use_recovery_code(&mut self, person: i64, hash: &[u8; 32]) -> Result<bool, StoreError> {
        let sql = "DELETE FROM recovery_codes WHERE person = $1 AND hash = $2";
        Ok(self.execute(sql, &[person.into(), hash.into()]).await? > 0)
    }
}

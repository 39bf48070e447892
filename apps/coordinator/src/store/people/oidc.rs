//! People of an OpenID provider: what it said last, refresh tokens, and sign-ins that were finished.

use super::super::damage::parsed;
use super::super::{Reading, StoreError, Writing};
use super::{LOCAL, PersonRow, person};

/// The refresh token of a person.
#[derive(Clone, Debug)]
pub(crate) struct RefreshRow {
    /// Sealed.
    pub(crate) token: Vec<u8>,
    /// The last attempt to use it.
    pub(crate) tried_at: i64,
}

impl Reading {
    /// Returns up to `most` people of an issuer that it has not confirmed since `before`, that have access, and whose last attempt was before `tried`; those first that
    /// have waited longest.
    pub(crate) async fn unconfirmed(
        &mut self,
        issuer: &str,
        before: i64,
        tried: i64,
        most: u32,
    ) -> Result<Vec<PersonRow>, StoreError> {
        let sql = concat!(
            "SELECT ",
            columns!(),
            " FROM people WHERE issuer = $1 AND disabled_at IS NULL AND lapsed_at IS NULL AND coalesce(checked_at, 0) <= $2 \
             AND NOT EXISTS (SELECT 1 FROM oidc_refreshes r WHERE r.person = people.id AND r.tried_at > $3) \
             ORDER BY coalesce(checked_at, 0), id LIMIT $4"
        );
        let rows = self.all(sql, &[issuer.into(), before.into(), tried.into(), most.into()]).await?;
        Ok(self.valid("people", &rows, person))
    }

    /// Returns up to `most` people of providers other than this issuer who are not marked as lapsed.
    pub(crate) async fn of_other_providers(&mut self, issuer: &str, most: u32) -> Result<Vec<PersonRow>, StoreError> {
        let sql = concat!(
            "SELECT ",
            columns!(),
            " FROM people WHERE issuer <> $1 AND issuer <> $2 AND lapsed_at IS NULL ORDER BY id LIMIT $3"
        );
        let rows = self.all(sql, &[LOCAL.into(), issuer.into(), most.into()]).await?;
        Ok(self.valid("people", &rows, person))
    }

    /// Returns true if a sign-in was finished.
    pub(crate) async fn is_sign_in_finished(&mut self, hash: &[u8; 32]) -> Result<bool, StoreError> {
        Ok(self.optional("SELECT expires_at FROM oidc_finished WHERE hash = $1", &[hash.into()]).await?.is_some())
    }

    /// Returns the refresh token of a person.
    pub(crate) async fn refresh_token(&mut self, id: i64) -> Result<Option<RefreshRow>, StoreError> {
        let sql = "SELECT token, tried_at FROM oidc_refreshes WHERE person = $1";
        let Some(row) = self.optional(sql, &[id.into()]).await? else { return Ok(None) };
        Ok(Some(RefreshRow { token: row.get("token")?, tried_at: row.get("tried_at")? }))
    }
}

impl Writing {
    /// Stores what a provider said about a person, and that it confirms the person.
    pub(crate) async fn confirm_person(&mut self, row: &PersonRow, now: i64) -> Result<PersonRow, StoreError> {
        let sql = concat!(
            "UPDATE people SET name = $1, email = $2, member_of = $3, login = $4, checked_at = $5, lapsed_at = NULL, version = version + $6 WHERE id = $7 RETURNING ",
            columns!()
        );
        let member_of = serde_json::to_string(&row.member_of).unwrap_or_default();
        let before = self.person(row.id).await?;
        let is_same = before.is_some_and(|before| {
            (before.name, before.email, before.member_of, before.login, before.lapsed_at)
                == (row.name.clone(), row.email.clone(), row.member_of.clone(), row.login.clone(), None)
        });
        let values = [
            (&row.name).into(),
            row.email.as_deref().into(),
            (&member_of).into(),
            row.login.as_deref().into(),
            now.into(),
            i64::from(!is_same).into(),
            row.id.into(),
        ];
        let row = self.one(sql, &values).await?;
        parsed("people", &row, person)
    }

    /// Takes access from a person whom the provider does not confirm any more: ends its sessions, and deletes the refresh token.
    pub(crate) async fn lapse_person(&mut self, id: i64, now: i64) -> Result<(), StoreError> {
        let sql = "UPDATE people SET lapsed_at = $1, version = version + 1 WHERE id = $2";
        self.execute(sql, &[now.into(), id.into()]).await?;
        self.execute("DELETE FROM sessions WHERE person = $1", &[id.into()]).await?;
        self.execute("DELETE FROM oidc_refreshes WHERE person = $1", &[id.into()]).await?;
        Ok(())
    }

    /// Stores a sealed refresh token; deletes the former one if there is none.
    pub(crate) async fn set_refresh_token(
        &mut self,
        id: i64,
        token: Option<&[u8]>,
        now: i64,
    ) -> Result<(), StoreError> {
        match token {
            Some(token) => {
                let sql = "INSERT INTO oidc_refreshes (person, token, tried_at) VALUES ($1, $2, $3) \
                           ON CONFLICT (person) DO UPDATE SET token = excluded.token, tried_at = excluded.tried_at";
                self.execute(sql, &[id.into(), token.into(), now.into()]).await?;
            }
            None => _ = self.execute("DELETE FROM oidc_refreshes WHERE person = $1", &[id.into()]).await?,
        }
        Ok(())
    }

    /// Begins to use a refresh token. Returns false if another coordinator was faster: a provider may take a second use for theft.
    pub(crate) async fn claim_refresh(&mut self, id: i64, last: i64, now: i64) -> Result<bool, StoreError> {
        let sql = "UPDATE oidc_refreshes SET tried_at = $1 WHERE person = $2 AND tried_at = $3";
        Ok(self.execute(sql, &[now.into(), id.into(), last.into()]).await? == 1)
    }

    /// Notes that a sign-in was finished. Returns false if it was finished before.
    pub(crate) async fn finish_sign_in(&mut self, hash: &[u8; 32], expires_at: i64) -> Result<bool, StoreError> {
        let sql = "INSERT INTO oidc_finished (hash, expires_at) VALUES ($1, $2) ON CONFLICT (hash) DO NOTHING";
        Ok(self.execute(sql, &[hash.into(), expires_at.into()]).await? == 1)
    }

    /// Forgets sign-ins that have expired.
    pub(crate) async fn forget_finished_sign_ins(&mut self, now: i64) -> Result<(), StoreError> {
        self.execute("DELETE FROM oidc_finished WHERE expires_at <= $1", &[now.into()]).await?;
        Ok(())
    }
}

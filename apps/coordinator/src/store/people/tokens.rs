//! API tokens.

use super::super::damage::parsed;
use super::super::{Reading, Row, StoreError, Writing};

/// An API token. Only a hash of it is stored.
#[derive(Clone, Debug)]
pub(crate) struct TokenRow {
    pub(crate) id: i64,
    /// The person that owns the token; `None` for a token of the operator.
    pub(crate) person: Option<i64>,
    pub(crate) name: String,
    /// Scopes, separated by spaces.
    pub(crate) scopes: String,
    pub(crate) created_at: i64,
    pub(crate) expires_at: Option<i64>,
    pub(crate) revoked_at: Option<i64>,
}

/// An API token to insert.
pub(crate) struct NewToken<'a> {
    pub(crate) hash: &'a [u8; 32],
    pub(crate) person: Option<i64>,
    pub(crate) name: &'a str,
    pub(crate) scopes: &'a str,
    pub(crate) expires_at: Option<i64>,
}

/// The columns of a [`TokenRow`].
macro_rules! columns {
    () => {
        "id, person, name, scopes, created_at, expires_at, revoked_at"
    };
}

impl Reading {
    /// Returns the API token of this hash.
    pub(crate) async fn api_token(&mut self, hash: &[u8; 32]) -> Result<Option<TokenRow>, StoreError> {
        let sql = concat!("SELECT ", columns!(), " FROM tokens WHERE hash = $1");
        let row = self.optional(sql, &[hash.into()]).await?;
        row.as_ref().map(|row| parsed("tokens", row, token)).transpose()
    }

    /// Returns an API token by number.
    pub(crate) async fn api_token_by_id(&mut self, id: i64) -> Result<Option<TokenRow>, StoreError> {
        let row = self.optional(concat!("SELECT ", columns!(), " FROM tokens WHERE id = $1"), &[id.into()]).await?;
        row.as_ref().map(|row| parsed("tokens", row, token)).transpose()
    }

    /// Returns up to `most` API tokens with numbers above `after`, sorted by number.
    pub(crate) async fn api_tokens(&mut self, after: i64, most: u32) -> Result<Vec<TokenRow>, StoreError> {
        let sql = concat!("SELECT ", columns!(), " FROM tokens WHERE id > $1 ORDER BY id LIMIT $2");
        let rows = self.all(sql, &[after.into(), most.into()]).await?;
        Ok(self.valid("tokens", &rows, token))
    }

    /// Returns the API tokens of a person, oldest first.
    pub(crate) async fn api_tokens_of(&mut self, person: i64) -> Result<Vec<TokenRow>, StoreError> {
        let sql = concat!("SELECT ", columns!(), " FROM tokens WHERE person = $1 ORDER BY id");
        let rows = self.all(sql, &[person.into()]).await?;
        Ok(self.valid("tokens", &rows, token))
    }

    /// Returns the number of valid API tokens of a person, or of the operator.
    pub(crate) async fn count_api_tokens(&mut self, person: Option<i64>) -> Result<i64, StoreError> {
        let sql = "SELECT count(*) FROM tokens WHERE coalesce(person, 0) = $1 AND revoked_at IS NULL";
        self.one(sql, &[person.unwrap_or(0).into()]).await?.first()
    }
}

impl Writing {
    /// Inserts an API token.
    pub(crate) async fn insert_api_token(&mut self, new: &NewToken<'_>, now: i64) -> Result<TokenRow, StoreError> {
        let sql = concat!(
            "INSERT INTO tokens (hash, person, name, scopes, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6) RETURNING ",
            columns!()
        );
        let (hash, person, expires_at) = (new.hash.into(), new.person.into(), new.expires_at.into());
        let row = self.one(sql, &[hash, person, new.name.into(), new.scopes.into(), now.into(), expires_at]).await?;
        parsed("tokens", &row, token)
    }

    /// Revokes an API token, and keeps the time of an earlier revocation.
    pub(crate) async fn revoke_api_token(&mut self, id: i64, now: i64) -> Result<(), StoreError> {
        let sql = "UPDATE tokens SET revoked_at = coalesce(revoked_at, $1) WHERE id = $2";
        self.execute(sql, &[now.into(), id.into()]).await?;
        Ok(())
    }
}

fn token(row: &Row) -> Result<TokenRow, StoreError> {
    Ok(TokenRow {
        id: row.get("id")?,
        person: row.get("person")?,
        name: row.get("name")?,
        scopes: row.get("scopes")?,
        created_at: row.get("created_at")?,
        expires_at: row.get("expires_at")?,
        revoked_at: row.get("revoked_at")?,
    })
}

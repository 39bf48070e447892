//! Sessions, and links that work once.

use super::super::damage::parsed;
use super::super::{Reading, Row, StoreError, Writing};

/// A session. Times are seconds since 1970.
#[derive(Clone, Debug)]
pub(crate) struct SessionRow {
    pub(crate) id: i64,
    pub(crate) person: i64,
    pub(crate) created_at: i64,
    pub(crate) used_at: i64,
    pub(crate) expires_at: i64,
    /// Address of the client that signed in.
    pub(crate) source: String,
}

/// A session to insert.
pub(crate) struct NewSession<'a> {
    pub(crate) hash: &'a [u8; 32],
    pub(crate) person: i64,
    pub(crate) expires_at: i64,
    pub(crate) source: &'a str,
}

/// A link that works once.
#[derive(Clone, Debug)]
pub(crate) struct LinkRow {
    /// The person that sets a new password; `None` for the link that sets the coordinator up.
    pub(crate) person: Option<i64>,
    pub(crate) expires_at: i64,
}

/// The columns of a [`SessionRow`].
macro_rules! columns {
    () => {
        "id, person, created_at, used_at, expires_at, source"
    };
}

impl Reading {
    /// Returns the session of this secret's hash.
    pub(crate) async fn session(&mut self, hash: &[u8; 32]) -> Result<Option<SessionRow>, StoreError> {
        let sql = concat!("SELECT ", columns!(), " FROM sessions WHERE hash = $1");
        let row = self.optional(sql, &[hash.into()]).await?;
        row.as_ref().map(|row| parsed("sessions", row, session)).transpose()
    }

    /// Returns the sessions of a person, oldest first.
    pub(crate) async fn sessions(&mut self, person: i64) -> Result<Vec<SessionRow>, StoreError> {
        let sql = concat!("SELECT ", columns!(), " FROM sessions WHERE person = $1 ORDER BY id");
        let rows = self.all(sql, &[person.into()]).await?;
        Ok(self.valid("sessions", &rows, session))
    }

    /// Returns the link of this secret's hash.
    pub(crate) async fn link(&mut self, hash: &[u8; 32], purpose: &str) -> Result<Option<LinkRow>, StoreError> {
        let sql = "SELECT person, expires_at FROM links WHERE hash = $1 AND purpose = $2";
        let row = self.optional(sql, &[hash.into(), purpose.into()]).await?;
        row.as_ref().map(|row| parsed("links", row, link)).transpose()
    }
}

impl Writing {
    /// Inserts a session.
    pub(crate) async fn insert_session(&mut self, new: &NewSession<'_>, now: i64) -> Result<SessionRow, StoreError> {
        let sql = concat!(
            "INSERT INTO sessions (hash, person, created_at, used_at, expires_at, source) VALUES ($1, $2, $3, $3, $4, $5) RETURNING ",
            columns!()
        );
        let values = [new.hash.into(), new.person.into(), now.into(), new.expires_at.into(), new.source.into()];
        let row = self.one(sql, &values).await?;
        parsed("sessions", &row, session)
    }

    /// Stores the time at which a session was used.
    pub(crate) async fn set_session_used(&mut self, id: i64, now: i64) -> Result<(), StoreError> {
        self.execute("UPDATE sessions SET used_at = $1 WHERE id = $2", &[now.into(), id.into()]).await?;
        Ok(())
    }

    /// Ends a session.
    pub(crate) async fn delete_session(&mut self, id: i64) -> Result<(), StoreError> {
        self.execute("DELETE FROM sessions WHERE id = $1", &[id.into()]).await?;
        Ok(())
    }

    /// Ends the sessions of a person, except one. Returns their number.
    pub(crate) async fn delete_sessions(&mut self, person: i64, except: Option<i64>) -> Result<u64, StoreError> {
        let sql = "DELETE FROM sessions WHERE person = $1 AND id <> $2";
        self.execute(sql, &[person.into(), except.unwrap_or(0).into()]).await
    }

    /// Deletes sessions and links that have expired, and sessions that were not used since `unused`.
    pub(crate) async fn forget_sessions(&mut self, now: i64, unused: i64) -> Result<(), StoreError> {
        let sql = "DELETE FROM sessions WHERE expires_at <= $1 OR used_at < $2";
        self.execute(sql, &[now.into(), unused.into()]).await?;
        self.execute("DELETE FROM links WHERE expires_at <= $1", &[now.into()]).await?;
        Ok(())
    }

    /// Ends all sessions and links, for a database that was restored: they may have been ended after the backup.
    pub(crate) async fn delete_all_sessions(&mut self) -> Result<(), StoreError> {
        self.execute("DELETE FROM sessions", &[]).await?;
        self.execute("DELETE FROM links", &[]).await?;
        Ok(())
    }

    /// Inserts a link, which replaces earlier ones for the same purpose and person.
    pub(crate) async fn insert_link(
        &mut self,
        hash: &[u8; 32],
        purpose: &str,
        person: Option<i64>,
        expires_at: i64,
        now: i64,
    ) -> Result<(), StoreError> {
        let sql = "DELETE FROM links WHERE purpose = $1 AND coalesce(person, 0) = $2";
        self.execute(sql, &[purpose.into(), person.unwrap_or(0).into()]).await?;
        let sql = "INSERT INTO links (hash, purpose, person, created_at, expires_at) VALUES ($1, $2, $3, $4, $5)";
        self.execute(sql, &[hash.into(), purpose.into(), person.into(), now.into(), expires_at.into()]).await?;
        Ok(())
    }

    /// Uses up the link of this secret's hash. Returns `None` if there is none.
    pub(crate) async fn take_link(&mut self, hash: &[u8; 32], purpose: &str) -> Result<Option<LinkRow>, StoreError> {
        let sql = "DELETE FROM links WHERE hash = $1 AND purpose = $2 RETURNING person, expires_at";
        let row = self.optional(sql, &[hash.into(), purpose.into()]).await?;
        row.as_ref().map(|row| parsed("links", row, link)).transpose()
    }
}

fn session(row: &Row) -> Result<SessionRow, StoreError> {
    Ok(SessionRow {
        id: row.get("id")?,
        person: row.get("person")?,
        created_at: row.get("created_at")?,
        used_at: row.get("used_at")?,
        expires_at: row.get("expires_at")?,
        source: row.get("source")?,
    })
}

fn link(row: &Row) -> Result<LinkRow, StoreError> {
    Ok(LinkRow { person: row.get("person")?, expires_at: row.get("expires_at")? })
}

//! Statements about people: accounts, roles, credentials, sessions, links, API tokens and the audit log. Rules: `state/people`.

/// The columns of a [`PersonRow`].
macro_rules! columns {
    () => {
        "id, issuer, subject, name, email, disabled_at, created_at, seen_at, checked_at, member_of, lapsed_at, login, version"
    };
}

mod answers;
mod audit;
mod credentials;
mod groups;
mod oidc;
mod roles;
mod sessions;
mod tokens;

pub(crate) use audit::{AuditFilter, AuditRow, NewAudit};
pub(crate) use credentials::TotpRow;
pub(crate) use groups::GroupsRow;
pub(crate) use sessions::{NewSession, SessionRow};
pub(crate) use tokens::{NewToken, TokenRow};

use super::damage::parsed;
use super::rows::unsigned;
use super::{Reading, Row, StoreError, Writing};

/// Issuer of people with a password of this coordinator.
pub(crate) const LOCAL: &str = "local";

/// A person. It is identified by issuer and subject, never by its email address.
#[derive(Clone, Debug)]
pub(crate) struct PersonRow {
    pub(crate) id: i64,
    pub(crate) issuer: String,
    /// Name with which a local person signs in, or the identifier that an OpenID provider gives a person.
    pub(crate) subject: String,
    pub(crate) name: String,
    /// Email address. It is only displayed, and never identifies the person.
    pub(crate) email: Option<String>,
    pub(crate) disabled_at: Option<i64>,
    pub(crate) created_at: i64,
    pub(crate) seen_at: Option<i64>,
    /// The last time that an OpenID provider confirmed the person.
    pub(crate) checked_at: Option<i64>,
    /// Groups of the provider, sorted.
    pub(crate) member_of: Vec<String>,
    /// Since when the provider does not confirm the person any more.
    pub(crate) lapsed_at: Option<i64>,
    /// The name by which owners of nodes and policies know a person of a provider: the address that the provider has confirmed, in lower case.
    pub(crate) login: Option<String>,
    /// Counts the changes of this person and its roles.
    pub(crate) version: u64,
}

/// A person to insert.
pub(crate) struct NewPerson<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) subject: &'a str,
    pub(crate) name: &'a str,
    pub(crate) email: Option<&'a str>,
}

impl Reading {
    /// Returns up to `most` people with numbers above `after`, sorted by number.
    pub(crate) async fn people(&mut self, after: i64, most: u32) -> Result<Vec<PersonRow>, StoreError> {
        let sql = concat!("SELECT ", columns!(), " FROM people WHERE id > $1 ORDER BY id LIMIT $2");
        let rows = self.all(sql, &[after.into(), most.into()]).await?;
        Ok(self.valid("people", &rows, person))
    }

    /// Returns a person by number.
    pub(crate) async fn person(&mut self, id: i64) -> Result<Option<PersonRow>, StoreError> {
        let row = self.optional(concat!("SELECT ", columns!(), " FROM people WHERE id = $1"), &[id.into()]).await?;
        row.as_ref().map(|row| parsed("people", row, person)).transpose()
    }

    /// Returns a person by issuer and subject.
    pub(crate) async fn person_of(&mut self, issuer: &str, subject: &str) -> Result<Option<PersonRow>, StoreError> {
        let sql = concat!("SELECT ", columns!(), " FROM people WHERE issuer = $1 AND subject = $2");
        let row = self.optional(sql, &[issuer.into(), subject.into()]).await?;
        row.as_ref().map(|row| parsed("people", row, person)).transpose()
    }

    /// Returns the number of people.
    pub(crate) async fn count_people(&mut self) -> Result<i64, StoreError> {
        self.one("SELECT count(*) FROM people", &[]).await?.first()
    }
}

impl Writing {
    /// Inserts a person.
    pub(crate) async fn insert_person(&mut self, new: &NewPerson<'_>, now: i64) -> Result<PersonRow, StoreError> {
        let sql = concat!(
            "INSERT INTO people (issuer, subject, name, email, created_at) VALUES ($1, $2, $3, $4, $5) RETURNING ",
            columns!()
        );
        let values = [new.issuer.into(), new.subject.into(), new.name.into(), new.email.into(), now.into()];
        let row = self.one(sql, &values).await?;
        parsed("people", &row, person)
    }

    /// Stores the editable fields of a person, as a new version.
    pub(crate) async fn update_person(&mut self, row: &PersonRow) -> Result<PersonRow, StoreError> {
        let sql = concat!(
            "UPDATE people SET name = $1, email = $2, disabled_at = $3, version = version + 1 WHERE id = $4 RETURNING ",
            columns!()
        );
        let values = [(&row.name).into(), row.email.as_deref().into(), row.disabled_at.into(), row.id.into()];
        let row = self.one(sql, &values).await?;
        parsed("people", &row, person)
    }

    /// Stores the time at which a person signed in.
    pub(crate) async fn set_person_seen(&mut self, id: i64, now: i64) -> Result<(), StoreError> {
        self.execute("UPDATE people SET seen_at = $1 WHERE id = $2", &[now.into(), id.into()]).await?;
        Ok(())
    }

    /// Deletes a person with everything that belongs to it. Its name in the audit log and at policies is replaced by `mark`.
    pub(crate) async fn delete_person(&mut self, id: i64, mark: &str) -> Result<(), StoreError> {
        self.erase_from_audit(id, mark).await?;
        let sql = "UPDATE policies SET author = $1 WHERE author IN (SELECT subject FROM people WHERE id = $2) \
                   OR author IN (SELECT 'token ' || name FROM tokens WHERE person = $2) \
                   OR author IN (SELECT 'token ' || t.name || ' of ' || p.subject FROM tokens t JOIN people p ON p.id = t.person WHERE p.id = $2)";
        self.execute(sql, &[mark.into(), id.into()]).await?;
        for delete in [
            "DELETE FROM oidc_refreshes WHERE person = $1",
            "DELETE FROM sessions WHERE person = $1",
            "DELETE FROM links WHERE person = $1",
            "DELETE FROM tokens WHERE person = $1",
            "DELETE FROM roles WHERE person = $1",
            "DELETE FROM recovery_codes WHERE person = $1",
            "DELETE FROM totp WHERE person = $1",
            "DELETE FROM credentials WHERE person = $1",
            "DELETE FROM people WHERE id = $1",
        ] {
            self.execute(delete, &[id.into()]).await?;
        }
        Ok(())
    }
}

fn person(row: &Row) -> Result<PersonRow, StoreError> {
    Ok(PersonRow {
        id: row.get("id")?,
        issuer: row.get("issuer")?,
        subject: row.get("subject")?,
        name: row.get("name")?,
        email: row.get("email")?,
        disabled_at: row.get("disabled_at")?,
        created_at: row.get("created_at")?,
        seen_at: row.get("seen_at")?,
        checked_at: row.get("checked_at")?,
        member_of: serde_json::from_str(&row.get::<String>("member_of")?)
            .map_err(|_| StoreError::Damaged("groups that are no list of texts"))?,
        lapsed_at: row.get("lapsed_at")?,
        login: row.get("login")?,
        version: unsigned(row.get("version")?)?,
    })
}

//! The audit log.

use super::super::rows::bytes;
use super::super::{NetworkId, Reading, Row, StoreError, Writing};

/// An entry of the audit log.
#[derive(Clone, Debug)]
pub(crate) struct AuditRow {
    pub(crate) id: i64,
    /// Seconds since 1970.
    pub(crate) at: i64,
    /// Kind of the party that made the change.
    pub(crate) actor: String,
    pub(crate) actor_id: Option<i64>,
    pub(crate) actor_name: String,
    /// Address of its client.
    pub(crate) source: String,
    /// Id of the request.
    pub(crate) request: String,
    pub(crate) network: Option<NetworkId>,
    pub(crate) action: String,
    pub(crate) object: String,
    /// JSON.
    pub(crate) before: Option<String>,
    /// JSON.
    pub(crate) after: Option<String>,
}

/// An entry to insert.
pub(crate) struct NewAudit<'a> {
    pub(crate) actor: &'a str,
    pub(crate) actor_id: Option<i64>,
    pub(crate) actor_name: &'a str,
    pub(crate) source: &'a str,
    pub(crate) request: &'a str,
    pub(crate) network: Option<NetworkId>,
    pub(crate) action: &'a str,
    pub(crate) object: &'a str,
    pub(crate) before: Option<&'a str>,
    pub(crate) after: Option<&'a str>,
}

/// The entries to read. Times are seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuditFilter {
    /// Entries with larger numbers only.
    pub(crate) after: i64,
    /// Entries of this time and later.
    pub(crate) since: i64,
    /// Entries before this time.
    pub(crate) until: i64,
    /// The largest number of entries.
    pub(crate) most: u32,
}

impl Reading {
    /// Returns entries, sorted by number.
    pub(crate) async fn audit(&mut self, filter: &AuditFilter) -> Result<Vec<AuditRow>, StoreError> {
        let sql = "SELECT id, at, actor, actor_id, actor_name, source, request, network, action, object, old_value, new_value \
                   FROM audit WHERE id > $1 AND at >= $2 AND at < $3 ORDER BY id LIMIT $4";
        let values = [filter.after.into(), filter.since.into(), filter.until.into(), filter.most.into()];
        let rows = self.all(sql, &values).await?;
        Ok(self.valid("audit", &rows, entry))
    }

    /// Returns the number of the last of the `most` entries after this number; `None` if there is none.
    pub(crate) async fn audit_bound(&mut self, after: i64, most: u32) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT max(id) AS id FROM (SELECT id FROM audit WHERE id > $1 ORDER BY id LIMIT $2) AS part";
        self.one(sql, &[after.into(), most.into()]).await?.get("id")
    }

    /// Returns the entries of a network, or of all, with numbers above `after` and up to `until`.
    pub(crate) async fn audit_between(
        &mut self,
        network: Option<NetworkId>,
        after: i64,
        until: i64,
    ) -> Result<Vec<AuditRow>, StoreError> {
        let rows = match &network {
            None => {
                let sql = "SELECT id, at, actor, actor_id, actor_name, source, request, network, action, object, old_value, new_value \
                           FROM audit WHERE id > $1 AND id <= $2 ORDER BY id";
                self.all(sql, &[after.into(), until.into()]).await?
            }
            Some(network) => {
                let sql = "SELECT id, at, actor, actor_id, actor_name, source, request, network, action, object, old_value, new_value \
                           FROM audit WHERE id > $1 AND id <= $2 AND network = $3 ORDER BY id";
                self.all(sql, &[after.into(), until.into(), (&network.0).into()]).await?
            }
        };
        Ok(self.valid("audit", &rows, entry))
    }

    /// Returns up to `most` entries of changes that a person made.
    pub(crate) async fn audit_of(&mut self, person: i64, most: u32) -> Result<Vec<AuditRow>, StoreError> {
        let sql = "SELECT id, at, actor, actor_id, actor_name, source, request, network, action, object, old_value, new_value \
                   FROM audit WHERE actor = 'person' AND actor_id = $1 ORDER BY id DESC LIMIT $2";
        let rows = self.all(sql, &[person.into(), most.into()]).await?;
        Ok(self.valid("audit", &rows, entry))
    }
}

impl Writing {
    /// Inserts an entry.
    pub(crate) async fn insert_audit(&mut self, new: &NewAudit<'_>, now: i64) -> Result<(), StoreError> {
        let sql = "INSERT INTO audit (at, actor, actor_id, actor_name, source, request, network, action, object, old_value, new_value) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
        let network = new.network.as_ref().map(|network| &network.0[..]);
        let values = [
            now.into(),
            new.actor.into(),
            new.actor_id.into(),
            new.actor_name.into(),
            new.source.into(),
            new.request.into(),
            network.into(),
            new.action.into(),
            new.object.into(),
            new.before.into(),
            new.after.into(),
        ];
        self.execute(sql, &values).await?;
        Ok(())
    }

    /// Replaces the name and the addresses of a person and of its tokens in all entries, and the values of entries about them. Call it while the tokens still exist.
    pub(super) async fn erase_from_audit(&mut self, person: i64, mark: &str) -> Result<(), StoreError> {
        let sql = "UPDATE audit SET actor_name = $1, source = '' WHERE actor = 'person' AND actor_id = $2";
        self.execute(sql, &[mark.into(), person.into()]).await?;
        let sql = "UPDATE audit SET actor_name = $1, source = '' WHERE actor = 'token' \
                   AND actor_id IN (SELECT id FROM tokens WHERE person = $2)";
        self.execute(sql, &[mark.into(), person.into()]).await?;
        // The tokens of these entries may be forgotten. The value of such an entry ends with the number of the person.
        let end = format!("%\"user\":{person}}}");
        let sql = "UPDATE audit SET old_value = NULL, new_value = NULL WHERE action IN ('token-created', 'token-revoked') \
                   AND (old_value LIKE $1 OR new_value LIKE $1)";
        self.execute(sql, &[(&end).into()]).await?;
        let object = format!("user {person}");
        let sql = "UPDATE audit SET old_value = NULL, new_value = NULL WHERE object = $1";
        self.execute(sql, &[(&object).into()]).await?;
        Ok(())
    }

    /// Deletes up to `most` entries that were made before `time`. Returns their number.
    pub(crate) async fn forget_audit(&mut self, time: i64, most: u32) -> Result<u64, StoreError> {
        let sql = "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < $1 LIMIT $2)";
        self.execute(sql, &[time.into(), most.into()]).await
    }

    /// Deletes up to `most` entries of failed sign-ins that were made before `time`. Returns their number.
    pub(crate) async fn forget_failed_sign_ins(&mut self, time: i64, most: u32) -> Result<u64, StoreError> {
        let sql = "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < $1 AND actor = 'nobody' LIMIT $2)";
        self.execute(sql, &[time.into(), most.into()]).await
    }
}

fn entry(row: &Row) -> Result<AuditRow, StoreError> {
    let network = row.get::<Option<Vec<u8>>>("network")?.map(|_| bytes(row, "network")).transpose()?;
    Ok(AuditRow {
        id: row.get("id")?,
        at: row.get("at")?,
        actor: row.get("actor")?,
        actor_id: row.get("actor_id")?,
        actor_name: row.get("actor_name")?,
        source: row.get("source")?,
        request: row.get("request")?,
        network: network.map(NetworkId),
        action: row.get("action")?,
        object: row.get("object")?,
        before: row.get("old_value")?,
        after: row.get("new_value")?,
    })
}

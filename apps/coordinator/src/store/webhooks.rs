//! Webhooks. Rules: `state/webhooks`.

use super::damage::parsed;
use super::rows::bytes;
use super::{NetworkId, Reading, Row, StoreError, Writing};

/// A webhook. Times are seconds since 1970.
#[derive(Clone)]
pub(crate) struct WebhookRow {
    pub(crate) id: i64,
    /// `None` for all networks and the coordinator itself.
    pub(crate) network: Option<NetworkId>,
    pub(crate) url: String,
    /// Key of the signatures.
    pub(crate) secret: String,
    /// Actions of the audit log, or `*`.
    pub(crate) events: Vec<String>,
    pub(crate) created_at: i64,
    pub(crate) disabled_at: Option<i64>,
    /// Number of the last entry that was delivered, or that the webhook does not want.
    pub(crate) cursor: i64,
    /// Failures since the last delivery.
    pub(crate) failures: i64,
    /// Time of the first of these failures.
    pub(crate) failing_since: Option<i64>,
    /// Time of the next attempt, or the end of the claim of the coordinator that makes one now.
    pub(crate) next_try_at: i64,
    pub(crate) last_error: Option<String>,
}

/// A webhook to insert. It gets the entries that are made later.
pub(crate) struct NewWebhook<'a> {
    pub(crate) network: Option<NetworkId>,
    pub(crate) url: &'a str,
    pub(crate) secret: &'a str,
    pub(crate) events: &'a [String],
}

/// The state of a webhook after an attempt.
pub(crate) struct Attempted<'a> {
    pub(crate) cursor: i64,
    pub(crate) failures: i64,
    pub(crate) failing_since: Option<i64>,
    pub(crate) next_try_at: i64,
    pub(crate) last_error: Option<&'a str>,
    pub(crate) disabled_at: Option<i64>,
}

/// The columns of a [`WebhookRow`].
macro_rules! columns {
    () => {
        "id, network, url, secret, events, created_at, disabled_at, cursor, failures, failing_since, next_try_at, last_error"
    };
}

impl Reading {
    /// Returns all webhooks, oldest first.
    pub(crate) async fn webhooks(&mut self) -> Result<Vec<WebhookRow>, StoreError> {
        let rows = self.all(concat!("SELECT ", columns!(), " FROM webhooks ORDER BY id"), &[]).await?;
        Ok(self.valid("webhooks", &rows, webhook))
    }

    /// Returns a webhook by number.
    pub(crate) async fn webhook(&mut self, id: i64) -> Result<Option<WebhookRow>, StoreError> {
        let row = self.optional(concat!("SELECT ", columns!(), " FROM webhooks WHERE id = $1"), &[id.into()]).await?;
        row.as_ref().map(|row| parsed("webhooks", row, webhook)).transpose()
    }

    /// Returns the number of webhooks of a network, or of those of all networks.
    pub(crate) async fn count_webhooks(&mut self, network: Option<NetworkId>) -> Result<i64, StoreError> {
        let row = match &network {
            None => self.one("SELECT count(*) FROM webhooks WHERE network IS NULL", &[]).await?,
            Some(id) => self.one("SELECT count(*) FROM webhooks WHERE network = $1", &[(&id.0).into()]).await?,
        };
        row.first()
    }

    /// Returns up to `most` webhooks with unread entries whose next attempt is due, longest due first. A time of `latest` or later comes from a clock that was ahead.
    pub(crate) async fn due_webhooks(
        &mut self,
        now: i64,
        latest: i64,
        most: u32,
    ) -> Result<Vec<WebhookRow>, StoreError> {
        let sql = concat!(
            "SELECT ",
            columns!(),
            " FROM webhooks WHERE disabled_at IS NULL AND (next_try_at <= $1 OR next_try_at >= $2) \
             AND cursor < (SELECT coalesce(max(id), 0) FROM audit) ORDER BY next_try_at, id LIMIT $3"
        );
        let rows = self.all(sql, &[now.into(), latest.into(), most.into()]).await?;
        Ok(self.valid("webhooks", &rows, webhook))
    }
}

impl Writing {
    /// Inserts a webhook.
    pub(crate) async fn insert_webhook(&mut self, new: &NewWebhook<'_>, now: i64) -> Result<WebhookRow, StoreError> {
        let sql = concat!(
            "INSERT INTO webhooks (network, url, secret, events, created_at, cursor, next_try_at) \
             VALUES ($1, $2, $3, $4, $5, (SELECT coalesce(max(id), 0) FROM audit), $5) RETURNING ",
            columns!()
        );
        let network = new.network.as_ref().map(|network| &network.0[..]);
        let events = serde_json::to_string(new.events).unwrap_or_default();
        let values = [network.into(), new.url.into(), new.secret.into(), (&events).into(), now.into()];
        let row = self.one(sql, &values).await?;
        parsed("webhooks", &row, webhook)
    }

    /// Deletes a webhook.
    pub(crate) async fn delete_webhook(&mut self, id: i64) -> Result<(), StoreError> {
        self.execute("DELETE FROM webhooks WHERE id = $1", &[id.into()]).await?;
        Ok(())
    }

    /// Passes over entries that a webhook does not want.
    pub(crate) async fn pass_over(&mut self, row: &WebhookRow, until: i64) -> Result<(), StoreError> {
        let sql = "UPDATE webhooks SET cursor = $1 WHERE id = $2 AND cursor = $3 AND next_try_at = $4";
        self.execute(sql, &[until.into(), row.id.into(), row.cursor.into(), row.next_try_at.into()]).await?;
        Ok(())
    }

    /// Claims the next attempt until a time. Returns false if another coordinator was faster.
    pub(crate) async fn claim_webhook(&mut self, row: &WebhookRow, claim: i64) -> Result<bool, StoreError> {
        let sql = "UPDATE webhooks SET next_try_at = $1 WHERE id = $2 AND cursor = $3 AND next_try_at = $4 AND disabled_at IS NULL";
        let values = [claim.into(), row.id.into(), row.cursor.into(), row.next_try_at.into()];
        Ok(self.execute(sql, &values).await? == 1)
    }

    /// Stores the result of an attempt. Returns false if the claim has ended: another coordinator delivers, or the webhook was removed.
    pub(crate) async fn set_attempted(
        &mut self,
        id: i64,
        claim: i64,
        result: &Attempted<'_>,
    ) -> Result<bool, StoreError> {
        let sql = "UPDATE webhooks SET cursor = $1, failures = $2, failing_since = $3, next_try_at = $4, last_error = $5, disabled_at = $6 \
                   WHERE id = $7 AND next_try_at = $8";
        let values = [
            result.cursor.into(),
            result.failures.into(),
            result.failing_since.into(),
            result.next_try_at.into(),
            result.last_error.into(),
            result.disabled_at.into(),
            id.into(),
            claim.into(),
        ];
        Ok(self.execute(sql, &values).await? == 1)
    }
}

fn webhook(row: &Row) -> Result<WebhookRow, StoreError> {
    let network = row.get::<Option<Vec<u8>>>("network")?.map(|_| bytes(row, "network")).transpose()?;
    Ok(WebhookRow {
        id: row.get("id")?,
        network: network.map(NetworkId),
        url: row.get("url")?,
        secret: row.get("secret")?,
        events: serde_json::from_str(&row.get::<String>("events")?)
            .map_err(|_| StoreError::Damaged("events that are no list of texts"))?,
        created_at: row.get("created_at")?,
        disabled_at: row.get("disabled_at")?,
        cursor: row.get("cursor")?,
        failures: row.get("failures")?,
        failing_since: row.get("failing_since")?,
        next_try_at: row.get("next_try_at")?,
        last_error: row.get("last_error")?,
    })
}

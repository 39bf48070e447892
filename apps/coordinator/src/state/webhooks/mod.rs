//! Webhooks: URLs to which entries of the audit log are sent. `delivery.rs` says which entries are due.

mod delivery;

pub(crate) use delivery::Delivery;

use std::sync::Arc;

use serde_json::json;
use taut_base::encode_base64url;

use super::party::{Caller, Change, PeopleError, record};
use super::{Secret, State, StateError, networks};
use crate::clock::unix_now;
use crate::store::{NetworkId, NewWebhook, Party, Reading, WebhookRow};
use crate::webhooks::Sender;

/// Start of the secret of a webhook.
const PREFIX: &str = "tautwh-";

/// Most webhooks of a network, and of all networks together, 16.
const MOST: i64 = 16;

/// Most events that a webhook can name.
const MOST_EVENTS: usize = 64;

/// The event that stands for all.
const ANY: &str = "*";

/// A webhook, with the name of its network.
pub(crate) struct WebhookView {
    pub(crate) row: WebhookRow,
    pub(crate) network: Option<String>,
}

impl State {
    /// Returns what sends to webhooks.
    pub(crate) fn sender(&self) -> &Arc<Sender> {
        &self.sender
    }

    /// Returns the webhooks of the networks in which the caller has the rights, oldest first.
    pub(crate) async fn webhooks(&self) -> Result<Vec<WebhookView>, StateError> {
        let mut tx = self.store.read(Party::Operators).await?;
        let (caller, rows) = (Caller::current(), tx.webhooks().await?);
        let mut views = Vec::new();
        for row in rows.into_iter().filter(|row| caller.is_allowed(row.network)) {
            views.push(view(&mut tx, row).await?);
        }
        Ok(views)
    }

    /// Returns a webhook.
    pub(crate) async fn webhook(&self, id: i64) -> Result<WebhookView, StateError> {
        let mut tx = self.store.read(Party::Operators).await?;
        let row = allowed(&mut tx, id).await?;
        view(&mut tx, row).await
    }

    /// Creates a webhook of a network, or of all. Returns it with its secret in its row.
    pub(crate) async fn create_webhook(
        &self,
        url: &str,
        network: Option<&str>,
        events: &[String],
    ) -> Result<WebhookView, StateError> {
        self.sender.check(url).map_err(StateError::BadWebhook)?;
        if events.is_empty() || events.len() > MOST_EVENTS || !events.iter().all(|event| is_event(event)) {
            return Err(StateError::BadEvents);
        }
        let mut tx = self.store.write(Party::Operators).await?;
        let network = match network {
            Some(name) => Some(networks::named(&mut tx, Some(name)).await?.id),
            None if Caller::current().is_allowed(None) => None,
            None => return Err(PeopleError::Forbidden.into()),
        };
        if tx.count_webhooks(network).await? >= MOST {
            return Err(StateError::ManyWebhooks);
        }
        let secret = format!("{PREFIX}{}", encode_base64url(Secret::new().expose()));
        let row = tx.insert_webhook(&NewWebhook { network, url, secret: &secret, events }, unix_now()).await?;
        record(&mut tx, Change { after: Some(facts(&row)), ..change(network, "webhook-created", row.id) }).await?;
        let view = view(&mut tx, row).await?;
        tx.commit().await?;
        Ok(view)
    }

    /// Removes a webhook.
    pub(crate) async fn remove_webhook(&self, id: i64) -> Result<(), StateError> {
        let mut tx = self.store.write(Party::Operators).await?;
        let row = allowed(&mut tx, id).await?;
        tx.delete_webhook(id).await?;
        record(&mut tx, Change { before: Some(facts(&row)), ..change(row.network, "webhook-removed", id) }).await?;
        tx.commit().await?;
        Ok(())
    }
}

/// Returns an entry of the audit log about a webhook, without values.
fn change(network: Option<NetworkId>, action: &'static str, id: i64) -> Change {
    Change { network, action, object: format!("webhook {id}"), before: None, after: None }
}

/// Returns what the audit log says of a webhook: the rest of its URL may be a secret of the server there.
fn facts(row: &WebhookRow) -> serde_json::Value {
    let host = row.url.split('/').nth(2).and_then(|host| host.split('?').next());
    json!({ "host": host, "events": row.events })
}

/// Returns the webhook of this number. One in whose network the caller lacks the rights is reported as unknown.
async fn allowed(tx: &mut Reading, id: i64) -> Result<WebhookRow, StateError> {
    let row = tx.webhook(id).await?;
    row.filter(|row| Caller::current().is_allowed(row.network)).ok_or(StateError::NoWebhook(id))
}

async fn view(tx: &mut Reading, row: WebhookRow) -> Result<WebhookView, StateError> {
    let network = match row.network {
        Some(id) => tx.network(id).await?.map(|network| network.name),
        None => None,
    };
    Ok(WebhookView { row, network })
}

/// Returns true if this can be an action of the audit log, of this release or a later one.
fn is_event(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text == ANY || (1..=64).contains(&text.len()) && text.bytes().all(is_plain)
}

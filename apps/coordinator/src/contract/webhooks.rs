//! Webhooks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{AuditEntry, SchemaVersion};

/// A webhook, without its secret.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Webhook)]
pub(crate) struct WebhookEntry {
    /// its number
    pub(crate) id: i64,
    /// name of the network whose changes it gets; null for all changes
    #[schema(required = true)]
    pub(crate) network: Option<String>,
    /// URL to which changes are sent
    pub(crate) url: String,
    /// actions of the audit log that it gets; `*` for all
    pub(crate) events: Vec<String>,
    #[schema(inline)]
    pub(crate) state: WebhookState,
    /// time of its creation, in seconds since 1970
    pub(crate) created_at: i64,
    /// number of the last entry of the audit log that it has got, or does not want
    pub(crate) cursor: i64,
    /// failures since the last delivery
    pub(crate) failures: i64,
    /// reason of the last failure; null after a delivery
    #[schema(required = true)]
    pub(crate) last_error: Option<String>,
    /// time of the next attempt after a failure, in seconds since 1970; null without a failure
    #[schema(required = true)]
    pub(crate) next_try_at: Option<i64>,
    /// time at which it was disabled after three days of failures, in seconds since 1970; null while it is enabled
    #[schema(required = true)]
    pub(crate) disabled_at: Option<i64>,
}

/// State of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WebhookState {
    Active,
    Failing,
    Disabled,
}

impl WebhookState {
    /// Returns the state as it is spelled in answers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Failing => "failing",
            Self::Disabled => "disabled",
        }
    }
}

/// `GET /api/v1/webhooks`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct WebhookList {
    pub(crate) schema: SchemaVersion,
    pub(crate) webhooks: Vec<WebhookEntry>,
}

/// `POST /api/v1/webhooks`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct CreateWebhook {
    /// https URL at a public address, up to 1,024 characters
    #[schema(min_length = 1, max_length = 1024)]
    pub(crate) url: String,
    /// name or number of the network whose changes it gets; without it all changes
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) network: Option<String>,
    /// up to 64 actions of the audit log, such as node-renamed; all without it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) events: Option<Vec<String>>,
}

/// Answer to the creation of a webhook.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct CreatedWebhook {
    pub(crate) schema: SchemaVersion,
    pub(crate) webhook: WebhookEntry,
    /// key of the signatures; no other answer contains it
    pub(crate) secret: String,
}

/// Answer to the removal of a webhook.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RemovedWebhook {
    pub(crate) schema: SchemaVersion,
    /// its number
    pub(crate) removed: i64,
}

/// Result of a test.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct TestedWebhook {
    pub(crate) schema: SchemaVersion,
    /// its number
    pub(crate) tested: i64,
    /// HTTP status of the server's answer if the event was delivered; null otherwise
    #[schema(required = true)]
    pub(crate) status: Option<u16>,
    /// reason for which the event was not delivered; null if it was
    #[schema(required = true)]
    pub(crate) error: Option<String>,
}

/// The body of a request that the coordinator sends to a webhook.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WebhookBody {
    pub(crate) schema: SchemaVersion,
    /// number of the webhook
    pub(crate) webhook: i64,
    /// entries of the audit log, oldest first
    pub(crate) events: Vec<AuditEntry>,
}

//! `/api/v1/webhooks`.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, State as Shared};
use axum::response::Response;
use serde_json::Value;
use taut_base::format_time;

use super::people::actor_entry;
use super::route::Route;
use super::{Failure, answer, created, parse};
use crate::api::Context;
use crate::clock::unix_now;
use crate::contract::{
    AuditEntry, CreateWebhook, CreatedWebhook, ErrorCode, RemovedWebhook, SchemaVersion, TestedWebhook, WebhookBody,
    WebhookEntry, WebhookList, WebhookState,
};
use crate::state::{Access, Area, Caller, State, WebhookView};
use crate::store::WebhookRow;

/// Returns this part of the table of requests. Webhooks are for owners: a URL may contain a secret of the server there, and what is sent leaves the coordinator.
pub(super) fn routes() -> Vec<Route> {
    let write = (Area::Audit, Access::Write);
    vec![
        Route::get("/api/v1/webhooks", "listWebhooks", "Lists the webhooks, without their secrets.", list)
            .needs(write)
            .answers::<WebhookList>(),
        Route::post(
            "/api/v1/webhooks",
            "createWebhook",
            "Creates a webhook; only this answer contains the secret of its signatures.",
            create,
        )
        .needs(write)
        .body::<CreateWebhook>()
        .answers::<CreatedWebhook>()
        .fails(&[ErrorCode::BadWebhook, ErrorCode::NoSuchNetwork, ErrorCode::Full]),
        Route::delete("/api/v1/webhooks/{id}", "removeWebhook", "Removes a webhook.", remove)
            .numbered_by("id")
            .needs(write)
            .answers::<RemovedWebhook>()
            .fails(&[ErrorCode::NoSuchWebhook]),
        Route::post(
            "/api/v1/webhooks/{id}/test",
            "testWebhook",
            "Sends one event `test` now, and returns the result; a success enables a webhook that was disabled.",
            test,
        )
        .numbered_by("id")
        .needs(write)
        .answers::<TestedWebhook>()
        .fails(&[ErrorCode::NoSuchWebhook, ErrorCode::Busy]),
    ]
}

/// `GET`: lists webhooks.
async fn list(Shared(context): Shared<Context>) -> Result<Response, Failure> {
    let webhooks = context.state.webhooks().await?.into_iter().map(entry).collect();
    Ok(answer(WebhookList { schema: SchemaVersion, webhooks }))
}

/// `POST`: creates a webhook. The answer has its secret, which no later answer has.
async fn create(Shared(context): Shared<Context>, body: Bytes) -> Result<Response, Failure> {
    let CreateWebhook { url, network, events } = parse(&body)?;
    let events = events.unwrap_or_else(|| vec![String::from("*")]);
    let view = context.state.create_webhook(&url, network.as_deref(), &events).await?;
    let secret = view.row.secret.clone();
    Ok(created(CreatedWebhook { schema: SchemaVersion, webhook: entry(view), secret }))
}

/// `DELETE …/{id}`: removes a webhook.
async fn remove(Shared(context): Shared<Context>, Path(id): Path<String>) -> Result<Response, Failure> {
    let id = number(&id)?;
    context.state.remove_webhook(id).await?;
    Ok(answer(RemovedWebhook { schema: SchemaVersion, removed: id }))
}

/// `POST …/{id}/test`: sends an event that is no change.
async fn test(Shared(context): Shared<Context>, Path(id): Path<String>) -> Result<Response, Failure> {
    let WebhookView { row, network } = context.state.webhook(number(&id)?).await?;
    let Ok(_place) = context.tests.try_acquire() else {
        return Err(Failure::busy("another webhook is being tested", "try again in a few seconds"));
    };
    let (caller, now) = (Caller::current(), unix_now());
    let event = AuditEntry {
        id: 0,
        time: format_time(Duration::from_secs(now.try_into().unwrap_or(0))),
        actor: actor_entry(&caller.actor),
        source: caller.source.clone(),
        request_id: caller.request.clone(),
        network,
        action: String::from("test"),
        object: format!("webhook {}", row.id),
        before: Value::Null,
        after: Value::Null,
    };
    let body = WebhookBody { schema: SchemaVersion, webhook: row.id, events: vec![event] };
    let result = post(&context.state, &row, &body).await;
    if result.is_ok() {
        context.state.enable_webhook(row.id).await?;
    }
    let (status, error) = result.map_or_else(|error| (None, Some(error)), |status| (Some(status), None));
    Ok(created(TestedWebhook { schema: SchemaVersion, tested: row.id, status, error }))
}

/// Sends a body to a webhook. Returns the status of the answer, or why it was not delivered.
pub(in crate::api) async fn post(state: &State, webhook: &WebhookRow, body: &WebhookBody) -> Result<u16, String> {
    let body = serde_json::to_vec(body).map_err(|error| error.to_string())?;
    let (sender, url, secret) = (Arc::clone(state.sender()), webhook.url.clone(), webhook.secret.clone());
    // A thread of its own, because the client blocks.
    let sent = tokio::task::spawn_blocking(move || sender.send(&url, &secret, &body, unix_now())).await;
    sent.unwrap_or_else(|_| Err(String::from("the coordinator failed while it sent")))
}

fn number(id: &str) -> Result<i64, Failure> {
    id.parse().map_err(|_| {
        Failure::bad_request("a webhook is named by its number", "`taut-coordinator webhooks list` shows the numbers")
    })
}

fn entry(WebhookView { row, network }: WebhookView) -> WebhookEntry {
    let state = match (row.disabled_at, row.failures) {
        (Some(_), _) => WebhookState::Disabled,
        (None, 0) => WebhookState::Active,
        (None, _) => WebhookState::Failing,
    };
    WebhookEntry {
        id: row.id,
        network: network.or_else(|| row.network.map(|network| network.to_string())),
        url: row.url,
        events: row.events,
        state,
        created_at: row.created_at,
        cursor: row.cursor,
        failures: row.failures,
        last_error: row.last_error,
        next_try_at: Some(row.next_try_at).filter(|_| state == WebhookState::Failing),
        disabled_at: row.disabled_at,
    }
}

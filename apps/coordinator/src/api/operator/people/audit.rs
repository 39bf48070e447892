//! `/api/v1/audit`.

use std::time::Duration;

use axum::extract::{Query, State as Shared};
use axum::response::Response;
use serde_json::Value;
use taut_base::format_time;

use super::super::{Failure, answer, page};
use super::PAGE;
use crate::api::Context;
use crate::contract::{ActorEntry, AuditEntry, AuditList, AuditQuery, SchemaVersion};
use crate::state::AuditView;

/// `GET`: lists entries, a page at a time, oldest first.
pub(super) async fn list(
    Shared(context): Shared<Context>,
    Query(query): Query<AuditQuery>,
) -> Result<Response, Failure> {
    let AuditQuery { after, limit, since, until } = query;
    let page = context.state.audit(after.unwrap_or(0), since, until, page(limit, PAGE)?).await?;
    let entries = page.entries.into_iter().map(entry).collect();
    Ok(answer(AuditList { schema: SchemaVersion, entries, next: page.next }))
}

pub(in crate::api) fn entry(view: AuditView) -> AuditEntry {
    let AuditView { row, network } = view;
    let value = |text: Option<String>| text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null);
    AuditEntry {
        id: row.id,
        time: format_time(Duration::from_secs(row.at.try_into().unwrap_or(0))),
        actor: ActorEntry { kind: row.actor, id: row.actor_id, name: row.actor_name },
        source: row.source,
        request_id: row.request,
        network: network.or_else(|| row.network.map(|network| network.to_string())),
        action: row.action,
        object: row.object,
        before: value(row.before),
        after: value(row.after),
    }
}

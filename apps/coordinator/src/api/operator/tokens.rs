//! `/api/v1/operator-tokens`: who may use this API. Tokens are made on the state directory only (`taut-coordinator operator-token create`),
//! so that one that was stolen makes no others.

use axum::Extension;
use axum::extract::{Path, State as Shared};
use axum::response::Response;
use serde_json::{Value, json};

use super::schema::{boolean, number, object, one_of, or_null, time};
use super::{Failure, Operator, answer};
use crate::api::Context;
use crate::store::OperatorRow;

/// `GET`: all tokens. What they are cannot be shown: only hashes are stored.
pub(super) async fn list(
    Shared(context): Shared<Context>,
    Extension(operator): Extension<Operator>,
) -> Result<Response, Failure> {
    let tokens = context.state.operators().await?;
    let tokens: Vec<Value> = tokens.iter().map(|row| value(row, operator)).collect();
    Ok(answer(json!({ "operator_tokens": tokens })))
}

/// `DELETE …/{id}`: the token opens nothing any more.
pub(super) async fn revoke(
    Shared(context): Shared<Context>,
    Extension(operator): Extension<Operator>,
    Path(id): Path<String>,
) -> Result<Response, Failure> {
    let id = id.parse().map_err(|_| {
        Failure::bad_request("a token is named by its number", "`taut-coordinator operator-token list` shows them")
    })?;
    context.state.revoke_operator(id).await?;
    Ok(answer(json!({ "revoked": id, "current": operator == Operator(id) })))
}

/// What [`value`] looks like.
pub(super) fn schema() -> Value {
    object(&[
        ("id", number()),
        ("state", one_of(&["valid", "revoked"])),
        ("current", boolean("whether it is the token of this request")),
        ("created_at", time("when it was made")),
        ("revoked_at", or_null(time("when it was revoked"))),
    ])
}

fn value(row: &OperatorRow, operator: Operator) -> Value {
    json!({
        "id": row.id,
        "state": if row.revoked_at.is_some() { "revoked" } else { "valid" },
        "current": operator == Operator(row.id),
        "created_at": row.created_at,
        "revoked_at": row.revoked_at,
    })
}

//! `/api/v1/operator-tokens`. Tokens are created only in the state directory (`taut-coordinator operator-token create`), so that a stolen token cannot create
//! others.

use axum::Extension;
use axum::extract::{Path, State as Shared};
use axum::response::Response;

use super::{Failure, Operator, answer};
use crate::api::Context;
use crate::contract::{OperatorTokenEntry, OperatorTokenList, OperatorTokenState, RevokedOperatorToken, SchemaVersion};
use crate::store::OperatorRow;

/// `GET`: lists the tokens, without their secrets, of which only hashes are stored.
pub(super) async fn list(
    Shared(context): Shared<Context>,
    Extension(operator): Extension<Operator>,
) -> Result<Response, Failure> {
    let tokens = context.state.operators().await?;
    let operator_tokens = tokens.iter().map(|row| entry(row, operator)).collect();
    Ok(answer(OperatorTokenList { schema: SchemaVersion, operator_tokens }))
}

/// `DELETE …/{id}`: revokes a token.
pub(super) async fn revoke(
    Shared(context): Shared<Context>,
    Extension(operator): Extension<Operator>,
    Path(id): Path<String>,
) -> Result<Response, Failure> {
    let id = id.parse().map_err(|_| {
        Failure::bad_request("a token is named by its number", "`taut-coordinator operator-token list` shows them")
    })?;
    context.state.revoke_operator(id).await?;
    Ok(answer(RevokedOperatorToken { schema: SchemaVersion, revoked: id, current: operator == Operator(Some(id)) }))
}

fn entry(row: &OperatorRow, operator: Operator) -> OperatorTokenEntry {
    let is_revoked = row.revoked_at.is_some();
    OperatorTokenEntry {
        id: row.id,
        state: if is_revoked { OperatorTokenState::Revoked } else { OperatorTokenState::Valid },
        current: operator == Operator(Some(row.id)),
        created_at: row.created_at,
        revoked_at: row.revoked_at,
    }
}

//! `/api/v1/tokens`: API tokens.

use axum::body::Bytes;
use axum::extract::{Path, Query, State as Shared};
use axum::response::Response;

use super::super::{Failure, answer, created, page, parse};
use super::PAGE;
use crate::api::Context;
use crate::clock::unix_now;
use crate::contract::{
    ApiTokenEntry, ApiTokenList, ApiTokenState, CreateApiToken, CreatedApiToken, PageQuery, RevokedApiToken,
    SchemaVersion,
};
use crate::state::{LONGEST_TOKEN_LIFE, TokenView};

const _: () = assert!(LONGEST_TOKEN_LIFE == 315_360_000, "the contract states this maximum");

/// `GET`: lists tokens, without their secrets, of which only hashes are stored.
pub(super) async fn list(
    Shared(context): Shared<Context>,
    Query(query): Query<PageQuery>,
) -> Result<Response, Failure> {
    let (views, next) = context.state.api_tokens(query.after.unwrap_or(0), page(query.limit, PAGE)?).await?;
    Ok(answer(ApiTokenList { schema: SchemaVersion, tokens: views.iter().map(entry).collect(), next }))
}

/// `POST`: creates a token of the caller. The answer has the token, which no later answer can have.
pub(super) async fn create(Shared(context): Shared<Context>, body: Bytes) -> Result<Response, Failure> {
    let CreateApiToken { name, scopes, expires_in } = parse(&body)?;
    let (view, secret) = context.state.create_api_token(&name, &scopes, expires_in).await?;
    Ok(created(CreatedApiToken { schema: SchemaVersion, token: entry(&view), secret }))
}

/// `DELETE …/{id}`: revokes a token.
pub(super) async fn revoke(Shared(context): Shared<Context>, Path(id): Path<String>) -> Result<Response, Failure> {
    let id = id.parse().map_err(|_| {
        Failure::bad_request("an API token is named by its number", "`taut-coordinator tokens list` shows them")
    })?;
    context.state.revoke_api_token(id).await?;
    Ok(answer(RevokedApiToken { schema: SchemaVersion, revoked: id }))
}

pub(super) fn entry(view: &TokenView) -> ApiTokenEntry {
    let row = &view.row;
    let state = if row.revoked_at.is_some() {
        ApiTokenState::Revoked
    } else if row.expires_at.is_some_and(|end| end <= unix_now()) {
        ApiTokenState::Expired
    } else {
        ApiTokenState::Valid
    };
    ApiTokenEntry {
        id: row.id,
        name: row.name.clone(),
        user: view.user.clone(),
        scopes: row.scopes.clone(),
        state,
        created_at: row.created_at,
        expires_at: row.expires_at,
        revoked_at: row.revoked_at,
    }
}

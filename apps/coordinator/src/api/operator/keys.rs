//! `/api/v1/keys`: enrolment keys.

use axum::body::Bytes;
use axum::extract::{Path, Query, State as Shared};
use axum::response::Response;

use super::{Failure, answer, created, parse};
use crate::api::Context;
use crate::clock::unix_now;
use crate::contract::{CreateKey, CreatedKey, KeyEntry, KeyList, KeyState, NetworkQuery, RevokedKey, SchemaVersion};
use crate::state::{Expiry, LONGEST_EXPIRY, is_used_up};
use crate::store::{Grants, KeyRow};

const _: () = assert!(LONGEST_EXPIRY == 315_360_000, "the contract states this maximum");

/// `GET`: lists the keys, without their secrets, of which only hashes are stored.
pub(super) async fn list(
    Shared(context): Shared<Context>,
    Query(query): Query<NetworkQuery>,
) -> Result<Response, Failure> {
    let keys = context.state.keys(query.network.as_deref()).await?;
    let keys = keys.iter().map(|(network, row)| entry(network, row)).collect();
    Ok(answer(KeyList { schema: SchemaVersion, keys }))
}

/// `POST`: creates a key. The answer has the join token, which no later answer can have.
pub(super) async fn create(Shared(context): Shared<Context>, body: Bytes) -> Result<Response, Failure> {
    let create: CreateKey = parse(&body)?;
    let expiry = match create.expires_in {
        None => Expiry::Default,
        Some(None) => Expiry::Never,
        Some(Some(seconds)) => Expiry::Seconds(seconds),
    };
    let grants = Grants {
        most_uses: create.most_uses,
        ephemeral: create.ephemeral_after,
        tags: create.tags,
        approves: create.pre_approved,
        owner: create.owner,
    };
    let (network, row, join_token) =
        context.state.create_key_with(create.network.as_deref(), !create.one_off, expiry, grants).await?;
    Ok(created(CreatedKey { schema: SchemaVersion, key: entry(&network, &row), join_token }))
}

/// `DELETE …/{id}`: revokes a key.
pub(super) async fn revoke(Shared(context): Shared<Context>, Path(id): Path<String>) -> Result<Response, Failure> {
    let id = id
        .parse()
        .map_err(|_| Failure::bad_request("a key is named by its number", "`taut-coordinator keys list` shows them"))?;
    context.state.revoke_key(id).await?;
    Ok(answer(RevokedKey { schema: SchemaVersion, revoked: id }))
}

fn entry(network: &str, row: &KeyRow) -> KeyEntry {
    KeyEntry {
        id: row.id,
        network: String::from(network),
        one_off: !row.reusable,
        most_uses: row.grants.most_uses,
        ephemeral_after: row.grants.ephemeral,
        tags: row.grants.tags.clone(),
        owner: row.grants.owner.clone(),
        pre_approved: row.grants.approves,
        used: row.used,
        state: state(row),
        expires_at: row.expires_at,
        created_at: row.created_at,
    }
}

fn state(row: &KeyRow) -> KeyState {
    if row.revoked_at.is_some() {
        KeyState::Revoked
    } else if is_used_up(row) {
        KeyState::Used
    } else if row.expires_at.is_some_and(|end| end <= unix_now()) {
        KeyState::Expired
    } else {
        KeyState::Valid
    }
}

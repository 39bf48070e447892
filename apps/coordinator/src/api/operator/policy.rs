//! `/api/v1/policy`: the policy of a network, which decides which nodes may reach which services.

use axum::body::Bytes;
use axum::extract::{Path, Query, State as Shared};
use axum::response::Response;

use super::{Failure, answer, created, parse};
use crate::api::Context;
use crate::contract::{
    ApplyPolicy, NetworkQuery, PolicyAnswer, PolicyEntry, PolicyList, PolicyVersionsQuery, SchemaVersion,
};
use crate::state::{NewPolicy, PolicyView};
use crate::store::PolicyRow;

/// Limit on the body of a request with a policy, 1 MiB: a text of 512 KiB, as JSON.
pub(super) const MAX_POLICY_BODY: usize = 1 << 20;

/// `GET`: returns the policy in force.
pub(super) async fn show(
    Shared(context): Shared<Context>,
    Query(query): Query<NetworkQuery>,
) -> Result<Response, Failure> {
    Ok(answer(whole(context.state.policy(query.network.as_deref()).await?)))
}

/// `GET …/versions`: lists the versions, newest first.
pub(super) async fn versions(
    Shared(context): Shared<Context>,
    Query(query): Query<PolicyVersionsQuery>,
) -> Result<Response, Failure> {
    let versions = context.state.policy_versions(query.network.as_deref(), query.before).await?;
    Ok(answer(PolicyList { schema: SchemaVersion, versions: versions.into_iter().map(entry).collect() }))
}

/// `GET …/versions/{version}`: returns a version.
pub(super) async fn version(
    Shared(context): Shared<Context>,
    Path(version): Path<i64>,
    Query(query): Query<NetworkQuery>,
) -> Result<Response, Failure> {
    Ok(answer(whole(context.state.policy_version(query.network.as_deref(), version).await?)))
}

/// `POST`: applies a policy.
pub(super) async fn apply(
    Shared(context): Shared<Context>,
    Query(query): Query<NetworkQuery>,
    body: Bytes,
) -> Result<Response, Failure> {
    let ApplyPolicy { text, comment, based_on, force } = parse(&body)?;
    let new = NewPolicy { text, comment, based_on, force };
    Ok(created(whole(context.state.apply_policy(query.network.as_deref(), new).await?)))
}

fn whole(view: PolicyView) -> PolicyAnswer {
    let PolicyView { network, row, inventory, too_old } = view;
    let text = row.text.clone();
    PolicyAnswer { schema: SchemaVersion, network: network.name, policy: entry(row), text, too_old, inventory }
}

fn entry(row: PolicyRow) -> PolicyEntry {
    PolicyEntry { version: row.number, author: row.author, comment: row.comment, created_at: row.created_at }
}

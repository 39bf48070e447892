//! `/api/v1/requests`: machines that wait until a person approves them.

use axum::body::Bytes;
use axum::extract::{Path, State as Shared};
use axum::response::Response;
use taut_netmap::fingerprint;

use super::{Failure, answer, created, nodes, parse};
use crate::api::Context;
use crate::contract::{
    ApproveRequest, DeniedRequest, NodeAnswer, RequestAnswer, RequestEntry, RequestList, SchemaVersion,
};
use crate::state::{Approval, RequestView};

/// `GET`: lists the machines that wait, oldest first.
pub(super) async fn list(Shared(context): Shared<Context>) -> Result<Response, Failure> {
    let requests = context.state.requests().await?.into_iter().map(entry).collect();
    Ok(answer(RequestList { schema: SchemaVersion, requests }))
}

/// `GET …/{code}`: returns the request with this code, and the networks in which the caller may approve it.
pub(super) async fn show(Shared(context): Shared<Context>, Path(code): Path<String>) -> Result<Response, Failure> {
    let (view, networks) = context.state.request(&code).await?;
    Ok(answer(RequestAnswer { schema: SchemaVersion, request: entry(view), networks }))
}

/// `POST …/{code}/approve`: makes the machine a member, or renews its membership.
pub(super) async fn approve(
    Shared(context): Shared<Context>,
    Path(code): Path<String>,
    body: Bytes,
) -> Result<Response, Failure> {
    let ApproveRequest { network, name, tags, owner } = parse(&body)?;
    let node = context.state.approve_request(&code, Approval { network, name, tags, owner }).await?;
    Ok(created(NodeAnswer { schema: SchemaVersion, node: nodes::entry(node) }))
}

/// `DELETE …/{code}`: denies the request.
pub(super) async fn deny(Shared(context): Shared<Context>, Path(code): Path<String>) -> Result<Response, Failure> {
    let denied = context.state.deny_request(&code).await?.code;
    Ok(answer(DeniedRequest { schema: SchemaVersion, denied }))
}

fn entry(view: RequestView) -> RequestEntry {
    let RequestView { row, member } = view;
    let (network, node) = member.unzip();
    RequestEntry {
        code: row.code,
        name: row.name,
        address: row.address,
        machine: fingerprint(&row.machine_key),
        program: row.program,
        network,
        node,
        created_at: row.created_at,
        expires_at: row.expires_at,
    }
}

//! `/api/v1/nodes`.

use std::net::IpAddr;

use axum::body::Bytes;
use axum::extract::{Path, Query, State as Shared};
use axum::response::Response;
use taut_netmap::fingerprint;

use super::{Failure, answer, parse};
use crate::api::Context;
use crate::contract::{
    ChangeNode, NetworkQuery, NodeAnswer, NodeEntry, NodeList, NodeState, RemovedNode, SchemaVersion,
};
use crate::state::{DeviceChange, NodeView};
use crate::store::Part;

/// `GET`: lists the nodes of all networks or of one.
pub(super) async fn list(
    Shared(context): Shared<Context>,
    Query(query): Query<NetworkQuery>,
) -> Result<Response, Failure> {
    let nodes = context.state.nodes(query.network.as_deref()).await?.into_iter().map(entry).collect();
    Ok(answer(NodeList { schema: SchemaVersion, nodes }))
}

/// `DELETE …/{name or number}`: removes a node.
pub(super) async fn remove(
    Shared(context): Shared<Context>,
    Path(name): Path<String>,
    Query(query): Query<NetworkQuery>,
) -> Result<Response, Failure> {
    let node = context.state.remove_node(query.network.as_deref(), &name).await?;
    Ok(answer(RemovedNode { schema: SchemaVersion, removed: entry(node) }))
}

/// `PATCH …/{name or number}`: changes a node: its name, tags, owner, and whether it takes part.
pub(super) async fn change(
    Shared(context): Shared<Context>,
    Path(name): Path<String>,
    Query(query): Query<NetworkQuery>,
    body: Bytes,
) -> Result<Response, Failure> {
    let wanted: ChangeNode = parse(&body)?;
    if wanted.approved == Some(false) || wanted.expired == Some(false) {
        return Err(Failure::bad_request(
            "an approval is not taken back, and an expiry not undone",
            "use `disabled` to keep a node out, and `approved` to renew its membership",
        ));
    }
    let change = DeviceChange {
        name: wanted.name,
        tags: wanted.tags,
        owner: wanted.owner,
        disabled: wanted.disabled,
        approve: wanted.approved.is_some(),
        expire: wanted.expired.is_some(),
        key_life: wanted.key_expiry,
        approve_routes: wanted.approve_routes,
        revoke_routes: wanted.revoke_routes,
    };
    let node = context.state.change_device(query.network.as_deref(), &name, change).await?;
    Ok(answer(NodeAnswer { schema: SchemaVersion, node: entry(node) }))
}

pub(super) fn entry(view: NodeView) -> NodeEntry {
    let NodeView { network, row, online, twin } = view;
    NodeEntry {
        id: row.id,
        network,
        name: row.name,
        addresses: vec![IpAddr::V4(row.ipv4), IpAddr::V6(row.ipv6)],
        key: row.node_key,
        endpoints: row.endpoints,
        relays: row.relays,
        advertised_routes: row.advertised,
        approved_routes: row.device.routes.clone(),
        online,
        twin,
        state: match row.device.part() {
            Part::Takes => NodeState::Active,
            Part::Unapproved => NodeState::Unapproved,
            Part::Disabled => NodeState::Disabled,
            Part::Expired => NodeState::Expired,
        },
        owner: row.device.owner,
        tags: row.device.tags,
        expires_at: row.device.expires_at,
        ephemeral_after: row.device.ephemeral,
        machine: fingerprint(&row.machine_key),
        program: row.program,
        created_at: row.created_at,
        last_seen_at: row.last_seen_at,
    }
}

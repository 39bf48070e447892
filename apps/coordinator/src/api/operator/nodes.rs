//! `/api/v1/nodes`.

use std::net::IpAddr;

use axum::body::Bytes;
use axum::extract::{Path, Query, State as Shared};
use axum::response::Response;

use super::{Failure, answer, parse};
use crate::api::Context;
use crate::contract::{NetworkQuery, NodeAnswer, NodeEntry, NodeList, RemovedNode, RenameNode, SchemaVersion};
use crate::state::NodeView;

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

/// `PATCH …/{name or number}`: renames a node.
pub(super) async fn rename(
    Shared(context): Shared<Context>,
    Path(name): Path<String>,
    Query(query): Query<NetworkQuery>,
    body: Bytes,
) -> Result<Response, Failure> {
    let rename: RenameNode = parse(&body)?;
    let node = context.state.rename_node(query.network.as_deref(), &name, &rename.name).await?;
    Ok(answer(NodeAnswer { schema: SchemaVersion, node: entry(node) }))
}

fn entry(view: NodeView) -> NodeEntry {
    let NodeView { network, row, online, twin } = view;
    NodeEntry {
        id: row.id,
        network,
        name: row.name,
        addresses: vec![IpAddr::V4(row.ipv4), IpAddr::V6(row.ipv6)],
        key: row.node_key,
        endpoints: row.endpoints,
        relays: row.relays,
        online,
        twin,
        program: row.program,
        created_at: row.created_at,
        last_seen_at: row.last_seen_at,
    }
}

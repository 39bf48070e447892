//! `/api/v1/nodes`.

use axum::body::Bytes;
use axum::extract::{Path, Query, State as Shared};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::schema::{boolean, label, list as list_of, number, object, text, time};
use super::{Failure, InNetwork, answer, parse};
use crate::api::Context;
use crate::state::NodeView;

#[derive(Deserialize)]
pub(super) struct Rename {
    name: String,
}

/// `GET`: the nodes of all networks, or of the one that is named.
pub(super) async fn list(
    Shared(context): Shared<Context>,
    Query(wanted): Query<InNetwork>,
) -> Result<Response, Failure> {
    let nodes: Vec<Value> = context.state.nodes(wanted.network.as_deref()).await?.iter().map(value).collect();
    Ok(answer(json!({ "nodes": nodes })))
}

/// `DELETE …/{name or number}`: the node is no member any more.
pub(super) async fn remove(
    Shared(context): Shared<Context>,
    Path(name): Path<String>,
    Query(wanted): Query<InNetwork>,
) -> Result<Response, Failure> {
    let node = context.state.remove_node(wanted.network.as_deref(), &name).await?;
    Ok(answer(json!({ "removed": value(&node) })))
}

/// `PATCH …/{name or number}` with `{"name": …}`.
pub(super) async fn rename(
    Shared(context): Shared<Context>,
    Path(name): Path<String>,
    Query(wanted): Query<InNetwork>,
    body: Bytes,
) -> Result<Response, Failure> {
    let rename: Rename = parse(&body)?;
    let node = context.state.rename_node(wanted.network.as_deref(), &name, &rename.name).await?;
    Ok(answer(json!({ "node": value(&node) })))
}

/// What [`rename`] takes.
pub(super) fn rename_schema() -> Value {
    let mut name = label();
    // Not digits only: those are numbers of nodes.
    name["pattern"] = json!("^(?![0-9]+$)[a-z0-9]([a-z0-9-]*[a-z0-9])?$");
    object(&[("name", name)])
}

/// What [`value`] looks like.
pub(super) fn schema() -> Value {
    object(&[
        ("id", number()),
        ("network", text("its network's name")),
        ("name", text("one label")),
        ("addresses", list_of(&text("an address in the overlay"))),
        ("key", text("its WireGuard key, base64")),
        ("endpoints", list_of(&text("address and port where it may be reached"))),
        ("relays", list_of(&number())),
        ("online", boolean("whether it is connected to the coordinator")),
        (
            "twin",
            boolean("whether two hosts were seen with its keys in the last five minutes; the later one is connected"),
        ),
        ("program", text("the version of `taut` that it runs, as it says")),
        ("created_at", time("when it joined")),
        ("last_seen_at", time("when it was online last, to the minute")),
    ])
}

fn value(view: &NodeView) -> Value {
    json!({
        "id": view.row.id,
        "network": view.network,
        "name": view.row.name,
        "addresses": [view.row.ipv4.to_string(), view.row.ipv6.to_string()],
        "key": view.row.node_key,
        "endpoints": view.row.endpoints,
        "relays": view.row.relays,
        "online": view.online,
        "twin": view.twin,
        "program": view.row.program,
        "created_at": view.row.created_at,
        "last_seen_at": view.row.last_seen_at,
    })
}

//! `/api/v1/networks`.

use axum::body::Bytes;
use axum::extract::{Path, Query, State as Shared};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use taut_base::Prefix;

use super::schema::{count, label, object, or_null, text, time, with_optional};
use super::{Failure, answer, created, parse};
use crate::api::Context;
use crate::state::{NetworkView, StateError};

/// IPv4 prefix of a network unless told otherwise: shared address space (RFC 6598), which home and office networks do not use.
pub(crate) const DEFAULT_IPV4: &str = "100.64.0.0/10";

#[derive(Deserialize)]
pub(super) struct Create {
    name: String,
    ipv4_prefix: Option<String>,
}

/// `GET`: all networks.
pub(super) async fn list(Shared(context): Shared<Context>) -> Result<Response, Failure> {
    let networks: Vec<Value> = context.state.networks().await?.iter().map(value).collect();
    Ok(answer(json!({ "networks": networks })))
}

/// `GET …/{name}`: one network, by name or number.
pub(super) async fn show(Shared(context): Shared<Context>, Path(name): Path<String>) -> Result<Response, Failure> {
    let networks = context.state.networks().await?;
    let network = networks.iter().find(|view| view.row.name == name || view.row.id.to_string() == name);
    let network = network.ok_or(StateError::NoNetwork(name))?;
    Ok(answer(json!({ "network": value(network) })))
}

/// `POST`: a new network.
pub(super) async fn create(Shared(context): Shared<Context>, body: Bytes) -> Result<Response, Failure> {
    let create: Create = parse(&body)?;
    let prefix = create.ipv4_prefix.as_deref().unwrap_or(DEFAULT_IPV4);
    let prefix: Prefix = prefix.parse().map_err(|error| {
        Failure::bad_request(&format!("`{prefix}` is {error}"), "give `ipv4_prefix` such as 100.64.0.0/10")
    })?;
    let network = context.state.create_network(&create.name, prefix).await?;
    Ok(created(json!({ "network": value(&network) })))
}

/// `?force=true`: with its members.
#[derive(Deserialize)]
pub(super) struct Removal {
    #[serde(default)]
    force: bool,
}

/// `DELETE …/{name}`: the network is gone.
pub(super) async fn remove(
    Shared(context): Shared<Context>,
    Path(name): Path<String>,
    Query(removal): Query<Removal>,
) -> Result<Response, Failure> {
    let network = context.state.remove_network(&name, removal.force).await?;
    Ok(answer(json!({ "removed": value(&network) })))
}

/// What [`create`] takes.
pub(super) fn create_schema() -> Value {
    let prefix = text("such as 100.64.0.0/10, which it is unless told otherwise");
    with_optional(object(&[("name", label())]), &[("ipv4_prefix", or_null(prefix))])
}

/// What [`value`] looks like.
pub(super) fn schema() -> Value {
    object(&[
        ("id", text("32 hex digits")),
        ("name", text("one label")),
        ("ipv4", text("prefix")),
        ("ipv6", text("prefix")),
        ("version", count("rises with every change")),
        ("nodes", count("members")),
        ("online", count("members that are online")),
        ("created_at", time("when it was made")),
    ])
}

fn value(view: &NetworkView) -> Value {
    json!({
        "id": view.row.id.to_string(),
        "name": view.row.name,
        "ipv4": view.row.ipv4,
        "ipv6": view.row.ipv6,
        "version": view.row.version,
        "nodes": view.nodes,
        "online": view.online,
        "created_at": view.row.created_at,
    })
}

//! `/api/v1/networks`.

use axum::body::Bytes;
use axum::extract::{Path, Query, State as Shared};
use axum::response::Response;
use taut_base::Prefix;

use super::{Failure, answer, created, parse};
use crate::api::Context;
use crate::contract::{
    ChangeNetwork, CreateNetwork, NetworkAnswer, NetworkEntry, NetworkList, RemoveNetworkQuery, RemovedNetwork,
    SchemaVersion,
};
use crate::state::{NetworkView, StateError};

/// Default IPv4 prefix of a network: shared address space (RFC 6598), which home and office networks do not use.
pub(crate) const DEFAULT_IPV4: &str = "100.64.0.0/10";

/// `GET`: lists the networks.
pub(super) async fn list(Shared(context): Shared<Context>) -> Result<Response, Failure> {
    let networks = context.state.networks().await?.iter().map(entry).collect();
    Ok(answer(NetworkList { schema: SchemaVersion, networks }))
}

/// `GET …/{name}`: returns a network by name or number.
pub(super) async fn show(Shared(context): Shared<Context>, Path(name): Path<String>) -> Result<Response, Failure> {
    let networks = context.state.networks().await?;
    let network = networks.iter().find(|view| view.row.name == name || view.row.id.to_string() == name);
    let network = network.ok_or(StateError::NoNetwork(name))?;
    Ok(answer(NetworkAnswer { schema: SchemaVersion, network: entry(network) }))
}

/// `POST`: creates a network.
pub(super) async fn create(Shared(context): Shared<Context>, body: Bytes) -> Result<Response, Failure> {
    let create: CreateNetwork = parse(&body)?;
    let prefix = create.ipv4_prefix.as_deref().unwrap_or(DEFAULT_IPV4);
    let prefix: Prefix = prefix.parse().map_err(|error| {
        Failure::bad_request(&format!("`{prefix}` is {error}"), "give `ipv4_prefix` such as 100.64.0.0/10")
    })?;
    let network = context.state.create_network(&create.name, prefix).await?;
    Ok(created(NetworkAnswer { schema: SchemaVersion, network: entry(&network) }))
}

/// `PATCH …/{name}`: changes how nodes are admitted to a network.
pub(super) async fn change(
    Shared(context): Shared<Context>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Response, Failure> {
    let ChangeNetwork { approval, key_expiry } = parse(&body)?;
    let row = context.state.set_admission(Some(&name), approval, key_expiry).await?;
    show(Shared(context), Path(row.id.to_string())).await
}

/// `DELETE …/{name}`: removes a network.
pub(super) async fn remove(
    Shared(context): Shared<Context>,
    Path(name): Path<String>,
    Query(query): Query<RemoveNetworkQuery>,
) -> Result<Response, Failure> {
    let network = context.state.remove_network(&name, query.force).await?;
    Ok(answer(RemovedNetwork { schema: SchemaVersion, removed: entry(&network) }))
}

fn entry(view: &NetworkView) -> NetworkEntry {
    NetworkEntry {
        id: view.row.id.to_string(),
        name: view.row.name.clone(),
        ipv4: view.row.ipv4,
        ipv6: view.row.ipv6,
        version: view.row.version,
        nodes: view.nodes,
        online: view.online as u64,
        created_at: view.row.created_at,
        approval: view.row.approval,
        key_expiry: view.row.key_life,
    }
}

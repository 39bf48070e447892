//! `/api/v1/relays` and the key that relays trust.

use std::net::SocketAddr;

use axum::body::Bytes;
use axum::extract::{Path, Query, State as Shared};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use taut_base::PublicKey;

use super::schema::{boolean, count, label, list as list_of, object, or_null, text, time, with_optional};
use super::{Failure, InNetwork, answer, created, parse};
use crate::api::Context;
use crate::state::{Named, OWN, RelayView};

#[derive(Deserialize)]
pub(super) struct Add {
    network: Option<String>,
    name: String,
    key: String,
    #[serde(default)]
    endpoints: Vec<String>,
    stun_port: Option<u16>,
    web: Option<String>,
}

/// `GET`: the relays of all networks, or of the one that is named.
pub(super) async fn list(
    Shared(context): Shared<Context>,
    Query(wanted): Query<InNetwork>,
) -> Result<Response, Failure> {
    let relays: Vec<Value> = context.state.relays(wanted.network.as_deref()).await?.iter().map(value).collect();
    Ok(answer(json!({ "relays": relays })))
}

/// `POST`: names a relay to the members of a network.
pub(super) async fn add(Shared(context): Shared<Context>, body: Bytes) -> Result<Response, Failure> {
    let add: Add = parse(&body)?;
    let key: PublicKey = add.key.parse().map_err(|_| {
        Failure::bad_request("the relay's key is none", "copy what `taut-relay` prints: 44 characters of base64")
    })?;
    let mut endpoints: Vec<SocketAddr> = Vec::with_capacity(add.endpoints.len());
    for text in &add.endpoints {
        endpoints.push(text.parse().map_err(|_| {
            Failure::bad_request("an endpoint is no address and port", "write 203.0.113.7:3478 or [2001:db8::7]:3478")
        })?);
    }
    let named = Named { name: add.name, key, endpoints, stun_port: add.stun_port.unwrap_or(0), web: add.web };
    let relay = context.state.add_relay(add.network.as_deref(), named).await?;
    Ok(created(json!({ "relay": value(&relay) })))
}

/// `DELETE …/{name or number}`: members are told of it no more.
pub(super) async fn remove(
    Shared(context): Shared<Context>,
    Path(name): Path<String>,
    Query(wanted): Query<InNetwork>,
) -> Result<Response, Failure> {
    let relay = context.state.remove_relay(wanted.network.as_deref(), &name).await?;
    Ok(answer(json!({ "removed": value(&relay) })))
}

/// `GET /ticket-key`.
pub(super) async fn ticket_key(Shared(context): Shared<Context>) -> Response {
    answer(json!({ "ticket_key": context.state.ticket_key().to_string() }))
}

/// What [`add`] takes.
pub(super) fn add_schema() -> Value {
    let port = json!({ "type": "integer", "minimum": 0, "maximum": 65_535,
        "description": "a second UDP port that answers STUN; 0, which it is unless told otherwise, for none" });
    let fields = [
        ("network", or_null(text("name or number; may be left out while there is one network"))),
        ("endpoints", list_of(&text("address and UDP port, such as 203.0.113.7:3478"))),
        ("stun_port", or_null(port)),
        ("web", or_null(text("wss:// or ws:// URL for where UDP is blocked"))),
    ];
    with_optional(object(&[("name", label()), ("key", text("its X25519 key, base64"))]), &fields)
}

/// What [`value`] looks like.
pub(super) fn schema() -> Value {
    object(&[
        ("id", count("its number in maps; 0 is the coordinator's own")),
        ("network", text("its network's name")),
        ("name", text("one label")),
        ("key", text("its X25519 key, base64")),
        (
            "endpoints",
            list_of(&text("address and UDP port; an unspecified address is where nodes reach the coordinator")),
        ),
        ("stun_port", count("a second UDP port that answers STUN, 0 for none")),
        ("web", or_null(text("URL for where UDP is blocked"))),
        ("own", boolean("whether it runs inside the coordinator")),
        ("bound", count("nodes that say that they are bound to it")),
        ("created_at", or_null(time("when it was named; null for the coordinator's own"))),
    ])
}

fn value(view: &RelayView) -> Value {
    json!({
        "id": view.relay.id,
        "network": view.network,
        "name": view.relay.name,
        "key": view.relay.key,
        "endpoints": view.relay.endpoints,
        "stun_port": view.relay.stun_port,
        "web": view.relay.web,
        "own": view.relay.id == OWN,
        "bound": view.bound,
        "created_at": view.created_at,
    })
}

//! `/api/v1/relays`, `/api/v1/relay-token` and `/api/v1/ticket-key`.

use std::net::SocketAddr;

use axum::body::Bytes;
use axum::extract::{Path, Query, State as Shared};
use axum::response::Response;
use taut_base::PublicKey;

use super::{Failure, answer, created, parse};
use crate::api::Context;
use crate::contract::{
    AddRelay, NetworkQuery, RelayAnswer, RelayChannel, RelayEntry, RelayList, RelayLoadEntry, RelayTokenAnswer,
    RemovedRelay, SchemaVersion, TicketKeyAnswer,
};
use crate::state::{OWN, RelayReport, RelayToAdd, RelayView};

/// `GET`: lists the relays of all networks or of one.
pub(super) async fn list(
    Shared(context): Shared<Context>,
    Query(query): Query<NetworkQuery>,
) -> Result<Response, Failure> {
    let relays = context.state.relays(query.network.as_deref()).await?.into_iter().map(entry).collect();
    Ok(answer(RelayList { schema: SchemaVersion, relays }))
}

/// `POST`: adds a relay to a network.
pub(super) async fn add(Shared(context): Shared<Context>, body: Bytes) -> Result<Response, Failure> {
    let add: AddRelay = parse(&body)?;
    let key: PublicKey = add.key.parse().map_err(|_| {
        Failure::bad_request("the relay's key is not valid", "copy what `taut-relay` prints: 44 characters of base64")
    })?;
    let mut endpoints: Vec<SocketAddr> = Vec::with_capacity(add.endpoints.len());
    for text in &add.endpoints {
        endpoints.push(text.parse().map_err(|_| {
            Failure::bad_request(
                "an endpoint is not an address and port",
                "write 203.0.113.7:3478 or [2001:db8::7]:3478",
            )
        })?);
    }
    let named = RelayToAdd { name: add.name, key, endpoints, stun_port: add.stun_port.unwrap_or(0), web: add.web };
    let relay = context.state.add_relay(add.network.as_deref(), named).await?;
    Ok(created(RelayAnswer { schema: SchemaVersion, relay: entry(relay) }))
}

/// `DELETE …/{name or number}`: removes a relay from a network.
pub(super) async fn remove(
    Shared(context): Shared<Context>,
    Path(name): Path<String>,
    Query(query): Query<NetworkQuery>,
) -> Result<Response, Failure> {
    let relay = context.state.remove_relay(query.network.as_deref(), &name).await?;
    Ok(answer(RemovedRelay { schema: SchemaVersion, removed: entry(relay) }))
}

/// `GET /ticket-key`: returns the key that relays need to verify tickets.
pub(super) async fn ticket_key(Shared(context): Shared<Context>) -> Response {
    answer(TicketKeyAnswer { schema: SchemaVersion, ticket_key: context.state.ticket_key().to_string() })
}

/// `GET /relay-token`: returns the line that a relay needs to serve this coordinator's nodes.
pub(super) async fn relay_token(Shared(context): Shared<Context>) -> Response {
    answer(RelayTokenAnswer { schema: SchemaVersion, relay_token: context.state.relay_token().encode() })
}

fn channel(report: RelayReport) -> RelayChannel {
    let load = report.load.map(|load| RelayLoadEntry {
        thousandths: load.thousandths(),
        clients: load.clients,
        clients_max: load.clients_max,
        bits_per_second: load.bits_per_second,
        capacity: load.capacity,
        processor: load.processor,
        dropped: load.dropped,
        uptime: load.uptime,
    });
    RelayChannel { version: report.version, told_at: report.told_at, load }
}

fn entry(view: RelayView) -> RelayEntry {
    let RelayView { network, relay, created_at, bound, report } = view;
    RelayEntry {
        id: relay.id,
        network,
        name: relay.name,
        key: relay.key,
        endpoints: relay.endpoints,
        stun_port: relay.stun_port,
        web: relay.web,
        own: relay.id == OWN,
        bound: bound as u64,
        created_at,
        busy: relay.busy,
        channel: report.map(channel),
    }
}

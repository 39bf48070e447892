//! The control channel: one WebSocket per node (`taut_netmap::message`, protocol.md 8).

mod channel;
mod refusal;
mod session;

use std::sync::Arc;

use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::ws::{WebSocketUpgrade, rejection::WebSocketUpgradeRejection};
use axum::extract::{Query, State as Shared};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use taut_relay_server::Source;
use tracing::{Instrument, Span};

use super::Context;
use super::door::Guest;
use super::operator::Failure;
use crate::store::NetworkId;
use session::Session;

/// Largest message from a node, in bytes: a list of endpoints, with a wide margin.
const MAX_INBOUND: usize = 64 * 1024;

/// What is read at once, in bytes: it is there for every channel, and most messages are short.
const READ_AHEAD: usize = 4 * 1024;

#[derive(Deserialize)]
pub(super) struct Wanted {
    #[serde(default)]
    network: String,
}

/// Takes a control channel. Which networks exist is not told before the handshake.
pub(super) async fn open(
    Shared(context): Shared<Context>,
    wanted: Result<Query<Wanted>, QueryRejection>,
    Extension(source): Extension<Source>,
    Extension(guest): Extension<Arc<Guest>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let Some(network) = wanted.ok().and_then(|wanted| wanted.network.parse::<NetworkId>().ok()) else {
        return Failure::bad_request(
            "the control channel needs ?network= and 32 hex digits",
            "this path is for `taut`, not for people",
        )
        .into_response();
    };
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade.max_message_size(MAX_INBOUND).max_frame_size(MAX_INBOUND).read_buffer_size(READ_AHEAD),
        Err(_) => {
            return Failure::bad_request(
                "the control channel is a WebSocket, and this request is not one",
                "if a proxy is in between, let it pass `Upgrade: websocket`",
            )
            .into_response();
        }
    };
    // The channel's lines have the id of the request that opened it.
    let span = Span::current();
    upgrade.on_upgrade(move |socket| Session::run(context, guest, source, socket, network).instrument(span))
}

//! The control channel: one WebSocket per node (`taut_netmap::message`, protocol.md 8).

mod asking;
mod refusal;
mod session;
mod waiting;

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
use super::operator::Failure;
use super::pending_connection::PendingConnection;
use crate::store::NetworkId;
pub(super) use refusal::{problem, too_new};
use session::Session;

/// Largest message from a node, 64 KiB: a list of endpoints has a few KiB.
const MAX_INBOUND: usize = 64 * 1024;

/// Read buffer of a channel, 4 KiB: every channel has one, and most messages are short.
const READ_AHEAD: usize = 4 * 1024;

#[derive(Deserialize)]
pub(super) struct ChannelQuery {
    #[serde(default)]
    network: String,
}

/// Opens a control channel. The answer is the same for every network number, so that it does not tell which networks exist.
pub(super) async fn open(
    Shared(context): Shared<Context>,
    wanted: Result<Query<ChannelQuery>, QueryRejection>,
    Extension(source): Extension<Source>,
    Extension(guest): Extension<Arc<PendingConnection>>,
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

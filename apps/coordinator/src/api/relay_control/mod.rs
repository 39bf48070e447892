//! The channel of a relay: one WebSocket per relay (`taut_netmap::relay_channel`, docs/spec/relay.md).

mod session;

use std::sync::Arc;

use axum::Extension;
use axum::extract::State as Shared;
use axum::extract::ws::{WebSocketUpgrade, rejection::WebSocketUpgradeRejection};
use axum::response::{IntoResponse, Response};
use taut_relay_server::Source;
use tracing::{Instrument, Span};

use super::Context;
use super::operator::Failure;
use super::pending_connection::PendingConnection;
use session::RelaySession;

/// Largest message from a relay, 4 KiB: a report of its load has 200 bytes.
const MAX_INBOUND: usize = 4 * 1024;

/// Opens a relay's channel.
pub(super) async fn open(
    Shared(context): Shared<Context>,
    Extension(source): Extension<Source>,
    Extension(guest): Extension<Arc<PendingConnection>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let Ok(upgrade) = upgrade else {
        return Failure::bad_request(
            "a relay's channel is a WebSocket, and this request is not one",
            "this path is for `taut-relay`; if a proxy is in between, let it pass `Upgrade: websocket`",
        )
        .into_response();
    };
    let upgrade = upgrade.max_message_size(MAX_INBOUND).max_frame_size(MAX_INBOUND).read_buffer_size(MAX_INBOUND);
    let span = Span::current();
    upgrade.on_upgrade(move |socket| RelaySession::run(context, guest, source, socket).instrument(span))
}

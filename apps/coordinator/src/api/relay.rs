//! The WebSocket entrance of the coordinator's own relay, for nodes whose UDP is blocked (docs/spec/relay.md). This module answers the handshake of RFC 6455
//! and then passes the connection, with its TLS session if there is one, to the relay's thread, which has limits of its own. No frame passes through this server.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use taut_relay_server::{Arrival, Entrance, Pass, accept_key};

use super::Context;
use super::client_stream::ClientStream;
use super::operator::Failure;
use super::pending_connection::PendingConnection;

/// Answers the handshake, and passes the connection to the relay.
pub(super) async fn open(
    Shared(context): Shared<Context>,
    Extension(guest): Extension<Arc<PendingConnection>>,
    mut request: Request,
) -> Response {
    let Some(relay) = context.front.relay else {
        return Failure::no_such_path().into_response();
    };
    let Some(key) = websocket_key(request.headers()) else {
        return Failure::bad_request(
            "the relay is reached by a WebSocket here, and this request is not one",
            "if a proxy is in between, let it pass `Upgrade: websocket`",
        )
        .into_response();
    };
    let answer = accept_key(key.as_bytes());
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(give(upgrade, relay, guest));
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(answer) = HeaderValue::from_str(&answer) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, answer);
    }
    response
}

/// Returns the `Sec-WebSocket-Key` of a request that asks for a WebSocket (RFC 6455 section 4.2.1).
fn websocket_key(headers: &HeaderMap) -> Option<&HeaderValue> {
    let says = |name: header::HeaderName, word: &str| {
        let text = headers.get(name).and_then(|value| value.to_str().ok());
        text.is_some_and(|text| text.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)))
    };
    let wants = says(header::CONNECTION, "upgrade")
        && says(header::UPGRADE, "websocket")
        && says(header::SEC_WEBSOCKET_VERSION, "13");
    headers.get(header::SEC_WEBSOCKET_KEY).filter(|_| wants)
}

/// Waits until the answer is sent, then passes the connection to the relay. The connection stays unauthenticated until a client is bound on it (fault F13).
async fn give(upgrade: OnUpgrade, relay: Entrance, guest: Arc<PendingConnection>) {
    // The client closed the connection.
    let Ok(upgraded) = upgrade.await else { return };
    relay_arrival(upgraded, Arc::clone(guest.pass())).into_iter().for_each(|arrival| relay.take(arrival));
}

/// Takes a connection apart for the relay. Returns `None` if the runtime does not give it up.
fn relay_arrival(upgraded: Upgraded, pass: Arc<Pass>) -> Option<Arrival> {
    let parts = upgraded.downcast::<TokioIo<ClientStream>>().ok()?;
    let (tcp, tls, unread) = parts.io.into_inner().into_parts();
    Some(Arrival { tcp: tcp.into_std().ok()?, tls, unread, read: parts.read_buf.to_vec(), pass })
}

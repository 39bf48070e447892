//! The door to the relay inside, for nodes whose UDP is blocked (docs/spec/relay.md): the handshake of RFC 6455 is done here, and then the connection
//! itself is the relay's thread's, which has bounds of its own. So no frame passes through this server.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use taut_relay_server::{Entrance, accept_key};

use super::Context;
use super::door::Guest;
use super::operator::Failure;
use super::patient::Patient;

/// Gives a connection to the relay.
pub(super) async fn open(
    Shared(context): Shared<Context>,
    Extension(guest): Extension<Arc<Guest>>,
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

/// The key of a request that wants a WebSocket (RFC 6455 section 4.2.1).
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

/// Waits for the answer to have left. The connection stays a guest of the house until a client is bound on it (fault F13).
async fn give(upgrade: OnUpgrade, relay: Entrance, guest: Arc<Guest>) {
    // Who goes away meanwhile wants nothing any more.
    let Ok(upgraded) = upgrade.await else { return };
    if let Some((tcp, read)) = parts(upgraded) {
        relay.take(tcp, read, Arc::clone(guest.pass()));
    }
}

/// The connection, and what was read of it behind the request.
fn parts(upgraded: Upgraded) -> Option<(std::net::TcpStream, Vec<u8>)> {
    let parts = upgraded.downcast::<TokioIo<Patient>>().ok()?;
    let (tcp, ahead) = parts.io.into_inner().into_parts();
    Some((tcp.into_std().ok()?, [&parts.read_buf[..], &ahead].concat()))
}

//! The room of the contract: what nodes and operators may say over the network, and how they are answered. It decides nothing that
//! [`crate::state`] could decide.

mod control;
mod door;
mod operator;
mod patient;
mod relay;
mod server;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State as Shared};
use axum::response::Response;
use axum::routing::get;
use serde_json::json;
use taut_netmap::{CONTROL_PATH, RELAY_PATH};
use taut_relay_server::Entrance;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::state::State;
use door::{Door, room};
pub(crate) use operator::DEFAULT_IPV4;
pub(crate) use operator::document;
use operator::{Failure, answer, routes as table};

/// Version of the operator's API; part of every answer.
const SCHEMA: u32 = 1;

/// Largest body of a request, in bytes; the largest honest one is a name (fault E11).
const MAX_BODY: usize = 64 * 1024;

/// How long requests that are running may take after the stop was asked for.
const LAST_REQUESTS: Duration = Duration::from_secs(3);

/// What every handler has.
#[derive(Clone)]
struct Context {
    state: Arc<State>,
    /// Where connections of the relay inside go.
    relay: Option<Entrance>,
    stop: watch::Receiver<bool>,
}

/// Serves on all `listeners` until `stop` says so; control channels are closed then, and running requests get a moment to end.
pub(crate) async fn serve(
    state: Arc<State>,
    relay: Option<Entrance>,
    listeners: Vec<TcpListener>,
    stop: watch::Receiver<bool>,
) {
    let context = Context { state: Arc::clone(&state), relay, stop: stop.clone() };
    let mut servers = JoinSet::new();
    let door = Door::new(room());
    for listener in listeners {
        servers.spawn(server::serve(listener, router(context.clone()), Arc::clone(&door), stop.clone()));
    }
    let house = tokio::spawn({
        let state = Arc::clone(&state);
        async move { state.keep_house().await }
    });
    stopped(stop).await;
    let _ = tokio::time::timeout(LAST_REQUESTS, servers.join_all()).await;
    house.abort();
    state.close().await;
}

/// All routes as they are served, for one request at a time. For tests.
#[cfg(test)]
pub(crate) fn routes(state: Arc<State>, stop: watch::Receiver<bool>) -> Router {
    let guest = Door::new(1).enter([192, 0, 2, 9].into()).expect("an empty house");
    router(Context { state, relay: None, stop }).layer(axum::Extension(guest))
}

/// Waits until the stop is asked for (or can be asked for no more).
async fn stopped(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

fn router(context: Context) -> Router {
    let open = table().into_iter().filter(|route| route.open);
    open.fold(Router::new(), |router, route| router.route(route.path, route.handler))
        .route(CONTROL_PATH, get(control::open))
        .route(RELAY_PATH, get(relay::open))
        .nest("/api", operator::router(context.clone()))
        .fallback(no_such_path)
        .method_not_allowed_fallback(async || Failure::no_such_method())
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(context)
}

async fn healthz(Shared(context): Shared<Context>) -> Result<Response, Failure> {
    let warnings = context.state.check_health().await?;
    Ok(answer(json!({ "status": "ok", "warnings": warnings })))
}

async fn no_such_path() -> Failure {
    Failure::no_such_path()
}

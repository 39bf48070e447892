//! Liveness and readiness, for load balancers and supervisors.
//!
//! `/healthz` says that the process lives, and asks nothing else: a supervisor that restarted all coordinators because their database is away would take from nodes the
//! maps that are still in memory. `/readyz` says whether new connections should come here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use taut_relay_server::ConnectionAdmission;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

use super::Context;
use super::operator::{Failure, answer};
use super::server::{self, ServerContext};
use crate::contract::{HealthAnswer, HealthStatus, ReadyAnswer, ReadyStatus, SchemaVersion};
use crate::state::State;

/// Time for which the result of a check is reused, 1 s: unauthenticated clients may ask, and each check reads the database.
const REUSE: Duration = Duration::from_secs(1);

/// Time that a check has, 1 s: load balancers wait for 2 to 5 s, and a database that is slow is a warning.
const CHECK: Duration = Duration::from_secs(1);

/// Time after which connections are answered although the database is not open yet, 1 s. Usually it is open sooner, and connections wait for it.
const OPENING: Duration = Duration::from_secs(1);

/// Connections while the database is being opened, 256: health checks, and nodes that are told to try again.
const STARTING_CONNECTIONS: usize = 256;

/// Result of a check.
#[derive(Clone)]
pub(super) struct Checked {
    at: Instant,
    outcome: Result<Vec<String>, Failure>,
}

/// `GET /healthz`.
pub(super) async fn healthz(Shared(context): Shared<Context>) -> Response {
    alive(context.state.warnings())
}

fn alive(warnings: Vec<String>) -> Response {
    answer(HealthAnswer { schema: SchemaVersion, status: HealthStatus::Ok, warnings })
}

/// `GET /readyz`.
pub(super) async fn readyz(Shared(context): Shared<Context>) -> Result<Response, Failure> {
    if *context.front.leaving.borrow() || *context.stop.borrow() {
        return Err(Failure::not_ready("this coordinator stops"));
    }
    // Requests that arrive during a check wait for its result.
    let mut checked = context.checked.lock().await;
    let checked = match &*checked {
        Some(checked) if checked.at.elapsed() < REUSE => checked,
        _ => {
            let outcome = check(&context.state).await;
            checked.insert(Checked { at: Instant::now(), outcome })
        }
    };
    let warnings = checked.outcome.clone()?;
    Ok(answer(ReadyAnswer { schema: SchemaVersion, status: ReadyStatus::Ready, warnings }))
}

/// Returns warnings, or why nodes cannot be answered any more.
async fn check(state: &State) -> Result<Vec<String>, Failure> {
    match timeout(CHECK, state.check_health()).await {
        Ok(outcome) => outcome.map_err(Failure::from),
        Err(_) => state.check_memory().map_err(Failure::from),
    }
}

/// Waits for `opening`. If it takes long, `listeners` are answered meanwhile: the process lives, and is not ready.
pub(crate) async fn while_starting<T>(listeners: &[Arc<TcpListener>], opening: impl Future<Output = T>) -> T {
    let mut opening = std::pin::pin!(opening);
    if let Ok(opened) = timeout(OPENING, opening.as_mut()).await {
        return opened;
    }
    let (stop, stopped) = watch::channel(false);
    let admission = ConnectionAdmission::new(STARTING_CONNECTIONS, Vec::new());
    let server = ServerContext::new(starting(), admission, stopped);
    let servers: Vec<_> =
        listeners.iter().map(|listener| tokio::spawn(server::serve(Arc::clone(listener), server.clone()))).collect();
    let opened = opening.await;
    stop.send_replace(true);
    for server in servers {
        let _ = server.await;
    }
    opened
}

/// Returns the routes while the database is being opened.
fn starting() -> Router {
    let not_ready =
        async || Failure::not_ready("this coordinator starts: its database is not open yet").into_response();
    Router::new().route("/healthz", get(async || alive(Vec::new()))).fallback(not_ready)
}

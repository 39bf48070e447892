//! Liveness and readiness, for load balancers and supervisors.
//!
//! `/healthz` says that the process lives, and asks nothing else: a supervisor that restarted all coordinators because their database is away would take from nodes the
//! maps that are still in memory. `/readyz` says whether new connections should come here.

use std::time::{Duration, Instant};

use axum::extract::State as Shared;
use axum::response::Response;
use tokio::time::timeout;

use super::{Failure, answer};
use crate::api::Context;
use crate::contract::{HealthAnswer, HealthStatus, ReadyAnswer, ReadyStatus, SchemaVersion};
use crate::log;
use crate::state::{Health, State};

/// Time for which the result of a check is reused, 1 s: unauthenticated clients may ask, and each check reads the database.
const REUSE: Duration = Duration::from_secs(1);

/// Time that a check has, 1 s: load balancers wait for 2 to 5 s, and a database that is slow is a warning.
const CHECK: Duration = Duration::from_secs(1);

/// Least time between two lines of the log about failed checks, 60 s: a balancer asks every few seconds.
const LOG_AGAIN: Duration = Duration::from_secs(60);

/// Result of a check.
#[derive(Clone)]
pub(in crate::api) struct Checked {
    at: Instant,
    /// Warnings, or the reason for which the coordinator is not ready.
    outcome: Result<Vec<String>, &'static str>,
    /// Time at which a failure was last logged.
    logged: Option<Instant>,
}

/// `GET /healthz`.
pub(super) async fn healthz(Shared(context): Shared<Context>) -> Response {
    alive(context.state.warnings())
}

/// Returns the answer that the process lives.
pub(in crate::api) fn alive(warnings: Vec<String>) -> Response {
    answer(HealthAnswer { schema: SchemaVersion, status: HealthStatus::Ok, warnings })
}

/// `GET /readyz`.
pub(super) async fn readyz(Shared(context): Shared<Context>) -> Result<Response, Failure> {
    if *context.front.leaving.borrow() || *context.stop.borrow() {
        return Err(Failure::stopping());
    }
    // Requests that arrive during a check wait for its result.
    let mut checked = context.checked.lock().await;
    let checked = match &*checked {
        Some(checked) if checked.at.elapsed() < REUSE => checked,
        last => {
            let logged = last.as_ref().and_then(|last| last.logged);
            let Health { warnings, trouble } = check(&context.state).await;
            let logged = trouble.map_or(logged, |trouble| log_trouble(&trouble, warnings.is_ok(), logged));
            checked.insert(Checked { at: Instant::now(), outcome: warnings, logged })
        }
    };
    let warnings = checked.outcome.clone().map_err(Failure::not_ready)?;
    Ok(answer(ReadyAnswer { schema: SchemaVersion, status: ReadyStatus::Ready, warnings }))
}

/// Returns the health of the coordinator, of its memory alone if the database takes long to answer.
async fn check(state: &State) -> Health {
    match timeout(CHECK, state.check_health()).await {
        Ok(health) => health,
        Err(_) => state.check_memory(),
    }
}

/// Logs the cause of a failed check, which the answer only summarizes. Logs nothing if a failure was `logged` a moment ago. Returns the time of the last log line.
fn log_trouble(reason: &str, is_ready: bool, logged: Option<Instant>) -> Option<Instant> {
    if logged.is_some_and(|at| at.elapsed() < LOG_AGAIN) {
        return logged;
    }
    tracing::warn!(target: log::DATABASE, event = "health-check-failed", ready = is_ready, reason);
    Some(Instant::now())
}

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
use crate::state::State;

/// Time for which the result of a check is reused, 1 s: unauthenticated clients may ask, and each check reads the database.
const REUSE: Duration = Duration::from_secs(1);

/// Time that a check has, 1 s: load balancers wait for 2 to 5 s, and a database that is slow is a warning.
const CHECK: Duration = Duration::from_secs(1);

/// Result of a check.
#[derive(Clone)]
pub(in crate::api) struct Checked {
    at: Instant,
    outcome: Result<Vec<String>, Failure>,
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

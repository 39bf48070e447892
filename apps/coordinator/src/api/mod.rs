//! The room of the contract: what nodes and operators may say over the network, and how they are answered. It decides nothing that
//! [`crate::state`] could decide.

mod control;
mod door;
mod operator;
mod patient;
mod relay;
mod requests;
mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{DefaultBodyLimit, State as Shared};
use axum::response::Response;
use axum::routing::get;
use taut_base::NodeId;
use taut_netmap::{CONTROL_PATH, RELAY_PATH};
use taut_relay_server::{Admission, Entrance, Places};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use crate::contract::{HealthAnswer, HealthStatus, SchemaVersion};
use crate::state::State;
use crate::store::NetworkId;
pub(crate) use operator::DEFAULT_IPV4;
pub(crate) use operator::document;
use operator::{Failure, answer, routes as table};
use requests::Requests;
use server::Server;

/// Largest body of a request, in bytes; the largest honest one is a name (fault E11).
const MAX_BODY: usize = 64 * 1024;

/// How long requests that are running may take after the stop was asked for.
const LAST_REQUESTS: Duration = Duration::from_secs(3);

/// How long a result of the health check is used again, 1 s: anyone may ask, and each check reads the database.
const HEALTH: Duration = Duration::from_secs(1);

/// Places of members' control channels, by network and node.
pub(crate) type Channels = Places<NetworkId, NodeId>;

/// Limits on connections, and the way to the relay inside.
#[derive(Clone)]
pub(crate) struct Front {
    /// Takes connections of relay clients; `None` without a relay.
    pub(crate) relay: Option<Entrance>,
    /// Unauthenticated connections.
    pub(crate) admission: Arc<Admission>,
    /// Control channels.
    pub(crate) channels: Arc<Channels>,
}

/// What every handler has.
#[derive(Clone)]
struct Context {
    state: Arc<State>,
    front: Front,
    health: Arc<Mutex<Option<Health>>>,
    stop: watch::Receiver<bool>,
}

/// A result of the health check.
#[derive(Clone)]
struct Health {
    at: Instant,
    outcome: Result<Vec<String>, Failure>,
}

/// Serves on all `listeners` until `stop` says so; control channels are closed then, and running requests get a moment to end.
pub(crate) async fn serve(state: Arc<State>, front: Front, listeners: Vec<TcpListener>, stop: watch::Receiver<bool>) {
    let admission = Arc::clone(&front.admission);
    let router = router(Context::new(Arc::clone(&state), front, stop.clone()));
    let server = Server { router, admission, requests: Arc::new(Requests::new()), stop: stop.clone() };
    let mut servers = JoinSet::new();
    for listener in listeners {
        servers.spawn(server::serve(listener, server.clone()));
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
    let client = [192, 0, 2, 9].into();
    let admission = Admission::new(1, Vec::new());
    let guest = door::Guest::new(admission.enter(client).expect("an empty house"));
    let source = taut_relay_server::Source { address: client, proxy: None, is_hidden: false };
    let front = Front { relay: None, admission, channels: Channels::new(1, taut_base::WhenFull::Balance) };
    router(Context::new(state, front, stop)).layer(axum::Extension(guest)).layer(axum::Extension(source))
}

impl Context {
    fn new(state: Arc<State>, front: Front, stop: watch::Receiver<bool>) -> Self {
        Self { state, front, health: Arc::default(), stop }
    }
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
    // Requests that come meanwhile wait for the same answer.
    let mut health = context.health.lock().await;
    let health = match &*health {
        Some(health) if health.at.elapsed() < HEALTH => health,
        _ => {
            let outcome = context.state.check_health().await;
            let outcome =
                outcome.map(|warnings| warnings.into_iter().map(String::from).collect()).map_err(Failure::from);
            health.insert(Health { at: Instant::now(), outcome })
        }
    };
    let warnings = health.outcome.clone()?;
    Ok(answer(HealthAnswer { schema: SchemaVersion, status: HealthStatus::Ok, warnings }))
}

async fn no_such_path() -> Failure {
    Failure::no_such_path()
}

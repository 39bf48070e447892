//! The HTTP server: control channels of nodes, the operator's API, and WebSockets of the relay. All rules are in [`crate::state`].

mod control;
mod operator;
mod paced_stream;
mod pending_connection;
mod relay;
mod request_id;
mod requests;
mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{DefaultBodyLimit, State as Shared};
use axum::http::header;
use axum::response::Response;
use axum::routing::get;
use taut_base::NodeId;
use taut_netmap::{CONTROL_PATH, RELAY_PATH};
use taut_relay_server::{AdmissionTable, ConnectionAdmission, Entrance};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use crate::contract::{HealthAnswer, HealthStatus, SchemaVersion};
use crate::panics::restarted;
use crate::state::State;
use crate::store::NetworkId;
pub(crate) use operator::DEFAULT_IPV4;
pub(crate) use operator::document;
use operator::{Failure, answer, routes as table};
use requests::RequestLimits;
use server::ServerContext;

/// Largest body of a request, 64 KiB (fault E11). Valid bodies have a few hundred bytes.
const MAX_BODY: usize = 64 * 1024;

/// Time for which connections wait at the start until it is known which nodes other coordinators have, 5 s. It takes some milliseconds unless the database fails.
const PRESENCE_WITHIN: Duration = Duration::from_secs(5);

/// Time that running requests have to end when the coordinator stops, 3 s.
const LAST_REQUESTS: Duration = Duration::from_secs(3);

/// Connections at the address of the figures, 16: a few programs ask for them.
const FIGURE_CONNECTIONS: usize = 16;

/// Time for which the result of a health check is reused, 1 s: unauthenticated clients may ask, and each check reads the database.
const HEALTH: Duration = Duration::from_secs(1);

/// Places of members' control channels, by network and node.
pub(crate) type Channels = AdmissionTable<NetworkId, NodeId>;

/// Limits on connections, and the entrance of the coordinator's own relay.
#[derive(Clone)]
pub(crate) struct Front {
    /// Entrance for WebSockets of relay clients; `None` without a relay.
    pub(crate) relay: Option<Entrance>,
    /// Unauthenticated connections.
    pub(crate) admission: Arc<ConnectionAdmission>,
    /// Control channels.
    pub(crate) channels: Arc<Channels>,
}

/// Context of all handlers.
#[derive(Clone)]
struct Context {
    state: Arc<State>,
    front: Front,
    health: Arc<Mutex<Option<Health>>>,
    stop: watch::Receiver<bool>,
}

/// Result of a health check.
#[derive(Clone)]
struct Health {
    at: Instant,
    outcome: Result<Vec<String>, Failure>,
}

/// Serves on all `listeners` until `stop` is true. Then it closes the control channels and gives running requests [`LAST_REQUESTS`] to end.
pub(crate) async fn serve(state: Arc<State>, front: Front, listeners: Vec<TcpListener>, stop: watch::Receiver<bool>) {
    let admission = Arc::clone(&front.admission);
    let router = router(Context::new(Arc::clone(&state), front, stop.clone()));
    let server = ServerContext { router, admission, requests: Arc::new(RequestLimits::new()), stop: stop.clone() };
    let maintenance = tokio::spawn({
        let state = Arc::clone(&state);
        async move { restarted("maintenance", || state.run_maintenance()).await }
    });
    let replica = tokio::spawn({
        let state = Arc::clone(&state);
        async move { restarted("replica", || state.run_replica()).await }
    });
    // A node that connected earlier would be told that all nodes of other coordinators are offline (fault L4).
    tokio::select! {
        _ = tokio::time::timeout(PRESENCE_WITHIN, state.presence_known()) => {}
        () = stopped(stop.clone()) => {}
    }
    let mut servers = JoinSet::new();
    for listener in listeners {
        servers.spawn(server::serve(listener, server.clone()));
    }
    stopped(stop).await;
    let _ = tokio::time::timeout(LAST_REQUESTS, servers.join_all()).await;
    maintenance.abort();
    replica.abort();
    // Waited for, because it shows signs of life.
    let _ = replica.await;
    state.close().await;
}

/// Serves the figures for Prometheus on an address of their own, until `stop` is true. They name no node and no network.
pub(crate) async fn serve_figures(state: Arc<State>, listener: TcpListener, stop: watch::Receiver<bool>) {
    let text = move || async move { ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], state.render_figures()) };
    let router = Router::new().route("/metrics", get(text)).fallback(no_such_path);
    let admission = ConnectionAdmission::new(FIGURE_CONNECTIONS, Vec::new());
    server::serve(listener, ServerContext { router, admission, requests: Arc::new(RequestLimits::new()), stop }).await;
}

/// Returns all routes, for tests that make one request at a time without a server.
#[cfg(test)]
pub(crate) fn routes(state: Arc<State>, stop: watch::Receiver<bool>) -> Router {
    let client = [192, 0, 2, 9].into();
    let admission = ConnectionAdmission::new(1, Vec::new());
    let guest = pending_connection::PendingConnection::new(admission.enter(client).expect("an empty house"));
    let source = taut_relay_server::Source { address: client, proxy: None, is_hidden: false };
    let front = Front { relay: None, admission, channels: Channels::new(1, taut_base::WhenFull::Balance) };
    router(Context::new(state, front, stop)).layer(axum::Extension(guest)).layer(axum::Extension(source))
}

impl Context {
    fn new(state: Arc<State>, front: Front, stop: watch::Receiver<bool>) -> Self {
        Self { state, front, health: Arc::default(), stop }
    }
}

/// Waits until `stop` is true, or its sender is gone.
pub(crate) async fn stopped(mut stop: watch::Receiver<bool>) {
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
    // Requests that arrive during a check wait for its result.
    let mut health = context.health.lock().await;
    let health = match &*health {
        Some(health) if health.at.elapsed() < HEALTH => health,
        _ => {
            let outcome = context.state.check_health().await;
            let outcome = outcome.map_err(Failure::from);
            health.insert(Health { at: Instant::now(), outcome })
        }
    };
    let warnings = health.outcome.clone()?;
    Ok(answer(HealthAnswer { schema: SchemaVersion, status: HealthStatus::Ok, warnings }))
}

async fn no_such_path() -> Failure {
    Failure::no_such_path()
}

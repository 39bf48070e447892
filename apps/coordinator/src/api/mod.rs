//! The HTTP server: control channels of nodes, the operator's API, and WebSockets of the relay. All rules are in [`crate::state`].

mod approve;
mod channel;
mod client_stream;
mod control;
mod deliveries;
mod link_page;
mod operator;
mod paced_stream;
mod pending_connection;
mod relay;
mod relay_control;
mod request_id;
mod requests;
mod security_headers;
mod server;
mod starting;
mod work;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path};
use axum::http::{StatusCode, header};
use axum::middleware::{from_fn, map_response};
use axum::response::IntoResponse;
use axum::routing::{any, get};
use taut_base::NodeId;
use taut_netmap::{CONTROL_PATH, KEY_PATH, RELAY_CONTROL_PATH, RELAY_PATH};
use taut_relay_server::{AdmissionTable, ConnectionAdmission, Entrance};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::figures::Present;
use crate::panics::restarted;
use crate::state::State;
use crate::store::NetworkId;
use crate::tls::ServerTls;
use crate::tls::acme::Shown;
pub(crate) use operator::DEFAULT_IPV4;
pub(crate) use operator::document;
use operator::{Checked, Failure, Route, routes as table};
use server::ServerContext;
pub(crate) use starting::while_starting;

/// Path of the page behind links that work once.
const LINK_PATH: &str = "/link";

/// Largest body of a request, 64 KiB (fault E11). Valid bodies have a few hundred bytes.
const MAX_BODY: usize = 64 * 1024;

/// Time for which connections wait at the start until it is known which nodes other coordinators have, 5 s. It takes some milliseconds unless the database fails.
const PRESENCE_WITHIN: Duration = Duration::from_secs(5);

/// Time that the last answers and the closing messages of channels have to reach their clients when the coordinator stops, 3 s. It begins when no work is in
/// progress any more; each request ends within 30 s.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// Time that the refresh of one person has to end when the coordinator stops, 10 s: two requests to the provider.
const REFRESH_ENDS: Duration = Duration::from_secs(10);

/// Time that deliveries to webhooks have to end when the coordinator stops, 10 s: a request takes up to 5 s.
const DELIVERIES_END: Duration = Duration::from_secs(10);

/// Time between two looks at how many channels are still open when the coordinator stops, 5 ms.
const CHANNELS_EVERY: Duration = Duration::from_millis(5);

/// Connections at the address of the figures, 16: a few programs ask for them.
const FIGURE_CONNECTIONS: usize = 16;

/// Connections at the address of checks by HTTP, 64: an ACME server checks from a few places, and others may come by chance.
const CHECK_CONNECTIONS: usize = 64;

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
    /// Accepts TLS connections; `None` for plain HTTP.
    pub(crate) tls: Option<TlsAcceptor>,
    /// True once the coordinator is about to stop: it still serves, and is not ready for new connections.
    pub(crate) leaving: watch::Receiver<bool>,
}

/// Context of all handlers.
#[derive(Clone)]
struct Context {
    state: Arc<State>,
    front: Front,
    checked: Arc<Mutex<Option<Checked>>>,
    /// Places for tests of webhooks.
    tests: Arc<Semaphore>,
    stop: watch::Receiver<bool>,
}

/// Serves on all `listeners` until `stop` is true. Then it accepts nothing more, closes the control channels, and waits until work in progress has ended and its
/// answers were sent.
pub(crate) async fn serve(
    state: Arc<State>,
    front: Front,
    listeners: Vec<Arc<TcpListener>>,
    stop: watch::Receiver<bool>,
) {
    let (admission, channels) = (Arc::clone(&front.admission), Arc::clone(&front.channels));
    let tls = front.tls.clone();
    let router = router(Context::new(Arc::clone(&state), front, stop.clone()));
    let figures = Arc::clone(state.figures());
    let server = ServerContext { figures, ..ServerContext::new(router, admission, stop.clone()).over(tls) };
    let work = Arc::clone(&server.work);
    let maintenance = tokio::spawn({
        let state = Arc::clone(&state);
        async move { restarted("maintenance", || state.run_maintenance()).await }
    });
    let replica = tokio::spawn({
        let state = Arc::clone(&state);
        async move { restarted("replica", || state.run_replica()).await }
    });
    let refreshes = tokio::spawn({
        let state = Arc::clone(&state);
        let stop = stop.clone();
        async move { restarted("refreshes of people", || state.run_refreshes(stop.clone())).await }
    });
    let ports = listeners.iter().filter_map(|listener| Some(listener.local_addr().ok()?.port()));
    state.sender().set_own_ports(ports.collect());
    let deliveries = tokio::spawn({
        let (state, stop) = (Arc::clone(&state), stop.clone());
        async move { restarted("webhooks", || deliveries::run(Arc::clone(&state), stop.clone())).await }
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
    // They hold the listeners, which are closed when the servers end.
    drop(server);
    stopped(stop).await;
    work.until_done(LAST_ANSWERS, async {
        servers.join_all().await;
        // The tasks of channels are not the servers'. Each keeps its place until its last message was sent.
        while channels.count() > 0 || state.relay_channels() > 0 {
            tokio::time::sleep(CHANNELS_EVERY).await;
        }
    })
    .await;
    maintenance.abort();
    // Waited for, because a refresh token that the provider has replaced is worth nothing.
    let _ = tokio::time::timeout(REFRESH_ENDS, refreshes).await;
    let _ = tokio::time::timeout(DELIVERIES_END, deliveries).await;
    replica.abort();
    // Waited for, because it shows signs of life.
    let _ = replica.await;
    state.close().await;
}

/// Serves the figures for Prometheus on an address of their own, until `stop` is true. They name no node and no network.
pub(crate) async fn serve_figures(
    state: Arc<State>,
    figures: ConnectionFigures,
    listener: TcpListener,
    stop: watch::Receiver<bool>,
) {
    let text = move || async move {
        ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], state.render_figures(&figures.present()))
    };
    let router = Router::new().route("/metrics", get(text)).fallback(no_such_path);
    let admission = ConnectionAdmission::new(FIGURE_CONNECTIONS, Vec::new());
    server::serve(Arc::new(listener), ServerContext::new(router, admission, stop)).await;
}

/// Answers checks of an ACME server by HTTP (RFC 8555 section 8.3) on an address of their own, until `stop` is true.
pub(crate) async fn serve_checks(shown: Shown<String>, listener: TcpListener, stop: watch::Receiver<bool>) {
    let text = move |Path(token): Path<String>| async move {
        shown.find(&token).map_or_else(|| StatusCode::NOT_FOUND.into_response(), IntoResponse::into_response)
    };
    let router = Router::new().route("/.well-known/acme-challenge/{token}", get(text)).fallback(no_such_path);
    let admission = ConnectionAdmission::new(CHECK_CONNECTIONS, Vec::new());
    server::serve(Arc::new(listener), ServerContext::new(router, admission, stop)).await;
}

/// The connections, for the figures.
#[derive(Clone)]
pub(crate) struct ConnectionFigures {
    pub(crate) admission: Arc<ConnectionAdmission>,
    /// Most unauthenticated connections.
    pub(crate) unauthenticated: usize,
    /// Most control channels.
    pub(crate) channels: usize,
    /// `None` for plain HTTP.
    pub(crate) tls: Option<Arc<ServerTls>>,
}

impl ConnectionFigures {
    fn present(&self) -> Present {
        Present {
            channels_limit: self.channels as u64,
            unauthenticated: self.admission.count() as u64,
            unauthenticated_limit: self.unauthenticated as u64,
            certificate_end: self.tls.as_ref().map_or(0, |tls| tls.facts().not_after.as_secs()),
            ..Present::default()
        }
    }
}

/// Returns all routes, for tests that make one request at a time without a server.
#[cfg(test)]
pub(crate) fn routes(state: Arc<State>, stop: watch::Receiver<bool>) -> Router {
    let client = [192, 0, 2, 9].into();
    let admission = ConnectionAdmission::new(1, Vec::new());
    let pass = admission.enter(client).expect("an empty house");
    let guest = pending_connection::PendingConnection::new(pass, Arc::default());
    let source = taut_relay_server::Source { address: client, proxy: None, is_hidden: false };
    let channels = Channels::new(1, taut_base::WhenFull::Balance);
    let front = Front { relay: None, admission, channels, tls: None, leaving: stop.clone() };
    router(Context::new(state, front, stop)).layer(axum::Extension(guest)).layer(axum::Extension(source))
}

impl Context {
    fn new(state: Arc<State>, front: Front, stop: watch::Receiver<bool>) -> Self {
        Self { state, front, checked: Arc::default(), tests: Arc::new(Semaphore::new(deliveries::TESTS_AT_ONCE)), stop }
    }
}

/// Waits until `stop` is true, or its sender is gone.
pub(crate) async fn stopped(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

fn router(context: Context) -> Router {
    let is_https = context.front.tls.is_some();
    let open = table().into_iter().filter(|route| route.open);
    let handler = |route: Route| match route.is_front {
        true => route.handler.route_layer(from_fn(operator::front)),
        false => route.handler,
    };
    let router = open
        .fold(Router::new(), |router, route| router.route(route.path, handler(route)))
        .route(CONTROL_PATH, get(control::open))
        .route(KEY_PATH, get(approve::key))
        .route("/approve/{code}", get(approve::page))
        .route("/approve.js", get(approve::script))
        .route("/pages.css", get(approve::style))
        .route(RELAY_PATH, get(relay::open))
        .route(RELAY_CONTROL_PATH, get(relay_control::open))
        .route("/metrics", any(async || Failure::no_metrics()))
        .nest("/api", operator::router(context.clone()))
        .route(LINK_PATH, get(link_page::page))
        .route("/link.js", get(link_page::script))
        .merge(operator::oidc_pages())
        .fallback(no_such_path)
        .method_not_allowed_fallback(async || Failure::no_such_method())
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(map_response(security_headers::add))
        .with_state(context);
    if is_https { router.layer(map_response(security_headers::only_https)) } else { router }
}

async fn no_such_path() -> Failure {
    Failure::no_such_path()
}

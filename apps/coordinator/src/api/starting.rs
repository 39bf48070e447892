//! Answers while the database is being opened: the process lives, and is not ready.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use taut_relay_server::ConnectionAdmission;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::operator::{Failure, alive};
use super::server::{self, ServerContext};

/// Time after which connections are answered although the database is not open yet, 1 s. Usually it is open sooner, and connections wait for it.
const OPENING: Duration = Duration::from_secs(1);

/// Time that answers under way have once the database is open, 100 ms.
const LAST_ANSWERS: Duration = Duration::from_millis(100);

/// Connections while the database is being opened, 256: health checks, and nodes that are told to try again.
const STARTING_CONNECTIONS: usize = 256;

/// Waits for `opening`. If it takes long, `listeners` are answered meanwhile: the process lives, and is not ready.
pub(crate) async fn while_starting<T>(
    listeners: &[Arc<TcpListener>],
    tls: Option<TlsAcceptor>,
    opening: impl Future<Output = T>,
) -> T {
    let mut opening = pin!(opening);
    if let Ok(opened) = timeout(OPENING, opening.as_mut()).await {
        return opened;
    }
    let (stop, stopped) = watch::channel(false);
    let admission = ConnectionAdmission::new(STARTING_CONNECTIONS, Vec::new());
    let server = ServerContext::new(starting(), admission, stopped).over(tls);
    let servers: Vec<_> =
        listeners.iter().map(|listener| tokio::spawn(server::serve(Arc::clone(listener), server.clone()))).collect();
    let opened = opening.await;
    stop.send_replace(true);
    for mut server in servers {
        // A client that does not finish its request, or reads no answer, must not delay the start.
        if timeout(LAST_ANSWERS, &mut server).await.is_err() {
            server.abort();
        }
    }
    opened
}

/// Returns the routes while the database is being opened.
fn starting() -> Router {
    let not_ready = async || Failure::starting().into_response();
    Router::new().route("/healthz", get(async || alive(Vec::new()))).fallback(not_ready)
}

//! The HTTP server: HTTP/1.1 and the WebSockets that begin in it, nothing else. Who is slow, large or many costs a bounded amount of time
//! and memory (fault E11); HTTP/2 is not spoken, so there are none of its faults (fault E12).

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::ServiceExt;

use super::door::{Door, Pass};
use super::patient::Patient;
use super::stopped;
use crate::log;

/// From the first byte of a request, or from the end of the one before, to the end of its headers.
const HEADERS: Duration = Duration::from_secs(10);

/// Largest headers of a request, and what is read ahead of a body, in bytes. Browsers and proxies send up to 8 KiB.
const BUFFER: usize = 16 * 1024;

/// When to try again after the system has no room for another connection.
const NO_ROOM: Duration = Duration::from_millis(100);

/// Serves one listener until `stop` says so; then what is running may end.
pub(super) async fn serve(listener: TcpListener, router: Router, door: Arc<Door>, stop: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    let mut stopping = pin!(stopped(stop.clone()));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            () = &mut stopping => break,
        };
        match accepted {
            // Whoever finds no room is hung up on.
            Ok((stream, address)) => {
                if let Some(pass) = door.enter(address.ip()) {
                    connections.spawn(connection(stream, address, router.clone(), pass, stop.clone()));
                }
            }
            Err(error) => {
                log::stranger("not-accepted", &[("error", &error)]);
                tokio::time::sleep(NO_ROOM).await;
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(
    stream: TcpStream,
    address: SocketAddr,
    router: Router,
    pass: Arc<Pass>,
    stop: watch::Receiver<bool>,
) {
    // Small messages that wait for each other are what a control channel consists of.
    let _ = stream.set_nodelay(true);
    let guest = Arc::clone(&pass);
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(address));
        request.extensions_mut().insert(Arc::clone(&guest));
        let router = router.clone();
        async move { Ok::<_, Infallible>(router.oneshot(request).await.unwrap_or_else(|never| match never {})) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(BUFFER);
    let mut connection = pin!(http.serve_connection(TokioIo::new(Patient::new(stream)), service).with_upgrades());
    // What goes wrong in a connection is its other side's to know.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = pass.asked_to_leave() => return,
        () = stopped(stop) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

//! The HTTP server: HTTP/1.1 and the WebSockets that begin in it, nothing else. Who is slow, large or many costs a bounded amount of time
//! and memory (fault E11); HTTP/2 is not spoken, so there are none of its faults (fault E12).

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use taut_base::AdmissionDenied;
use taut_relay_server::{ACCEPT_PAUSE, Admission, Pass, Source, is_of_one_connection};
use taut_wire::forwarded;
use taut_wire::proxy::{self, ProxyHeader};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::ServiceExt;

use super::door::Guest;
use super::operator::{Failure, Operator};
use super::patient::Patient;
use super::requests::Requests;
use super::stopped;
use crate::log;

/// From the first byte of a request, or from the end of the one before, to the end of its headers.
const HEADERS: Duration = Duration::from_secs(10);

/// Largest headers of a request, and what is read ahead of a body, in bytes. Browsers and proxies send up to 8 KiB.
const BUFFER: usize = 16 * 1024;

/// Context of one connection.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) router: Router,
    pub(super) admission: Arc<Admission>,
    pub(super) requests: Arc<Requests>,
    pub(super) stop: watch::Receiver<bool>,
}

/// Serves one listener until the stop is asked for; then what is running may end.
pub(super) async fn serve(listener: TcpListener, server: Server) {
    let mut connections = JoinSet::new();
    let mut stopping = pin!(stopped(server.stop.clone()));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            () = &mut stopping => break,
        };
        match accepted {
            // A connection that finds no room is closed.
            Ok((stream, address)) => {
                if let Some(pass) = server.admission.enter(address.ip()) {
                    connections.spawn(connection(stream, address, Guest::new(pass), server.clone()));
                }
            }
            Err(error) if is_of_one_connection(&error) => {}
            // The connection stays in the kernel's queue, so an immediate retry would fail, too (fault P6).
            Err(error) => {
                log::stranger("not-accepted", &[("error", &error)]);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(mut stream: TcpStream, address: SocketAddr, guest: Arc<Guest>, server: Server) {
    // Small messages that wait for each other are what a control channel consists of.
    let _ = stream.set_nodelay(true);
    let ahead = tokio::select! {
        ahead = proxied(&mut stream, address, guest.pass()) => ahead,
        () = guest.asked_to_leave() => return,
        () = tokio::time::sleep(HEADERS) => return,
        () = stopped(server.stop.clone()) => return,
    };
    let Some(ahead) = ahead else { return };
    let (stop, held) = (server.stop.clone(), Arc::clone(&guest));
    let is_first = AtomicBool::new(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let is_first = is_first.swap(false, Ordering::Relaxed);
        let (guest, server) = (Arc::clone(&held), server.clone());
        async move { Ok::<_, Infallible>(answer(request.map(Body::new), is_first, guest, server).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(BUFFER);
    let mut connection =
        pin!(http.serve_connection(TokioIo::new(Patient::new(stream, ahead)), service).with_upgrades());
    // What goes wrong in a connection is its other side's to know.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = guest.asked_to_leave() => return,
        () = stopped(stop) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Reads what a trusted proxy says in front of a connection, and returns what was read behind that. `None` when the connection is of no use.
async fn proxied(stream: &mut TcpStream, address: SocketAddr, pass: &Pass) -> Option<Vec<u8>> {
    let mut got = Vec::new();
    while pass.believes() {
        let start = proxy::parse(&got).inspect_err(|error| {
            log::stranger("bad-proxy-header", &[("from", &address.ip()), ("why", error)]);
        });
        match start.ok()? {
            ProxyHeader::Absent => break,
            ProxyHeader::Complete { length, source } => {
                if let Some(source) = source {
                    pass.take_source(source).ok()?;
                }
                got.drain(..length);
                break;
            }
            ProxyHeader::Partial => {}
        }
        if stream.read_buf(&mut got).await.ok()? == 0 {
            return None;
        }
    }
    Some(got)
}

/// Answers one request.
async fn answer(mut request: Request, is_first: bool, guest: Arc<Guest>, server: Server) -> Response {
    if !is_first {
        guest.pass().renew();
    }
    let Ok(source) = source(guest.pass(), request.headers()) else {
        return Failure::crowded().into_response();
    };
    let is_counted = !server.admission.is_favoured(source.address);
    if is_counted {
        tokio::time::sleep(server.requests.delay(source.address, Instant::now())).await;
    }
    request.extensions_mut().insert(source);
    request.extensions_mut().insert(Arc::clone(&guest));
    let response = server.router.oneshot(request).await.unwrap_or_else(|never| match never {});
    if is_counted && response.extensions().get::<Operator>().is_none() {
        server.requests.count(source.address, Instant::now());
    }
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        // The proxy may send another client's request next. If the proxy's share is full, the connection is evicted.
        let _ = guest.pass().forget_claim();
    }
    response
}

/// Counts the connection for the client that a trusted proxy names.
fn source(pass: &Pass, headers: &HeaderMap) -> Result<Source, AdmissionDenied> {
    let lines = |name| headers.get_all(name).iter().map(|line| line.as_bytes());
    pass.take_claim(forwarded::client(lines("forwarded"), lines("x-forwarded-for"), |address| pass.trusts(address)))
}

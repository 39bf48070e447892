//! The HTTP/1.1 server. Slow clients, large requests and many connections cost a bounded amount of time and memory (fault E11). HTTP/2 is not supported, so
//! its attacks do not apply (fault E12).

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use taut_base::AdmissionDenied;
use taut_relay_server::log::UNAUTHENTICATED;
use taut_relay_server::{ACCEPT_PAUSE, ConnectionAdmission, Pass, Source, is_of_one_connection};
use taut_wire::forwarded;
use taut_wire::proxy::{self, ProxyHeader};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;
use tracing::Instrument;

use super::client_stream::ClientStream;
use super::operator::{Failure, Operator};
use super::paced_stream::PacedStream;
use super::pending_connection::PendingConnection;
use super::request_id::{self, RequestId};
use super::requests::RequestLimits;
use super::stopped;
use super::work::Work;
use crate::contract::ErrorCode;
use crate::figures::Figures;
use crate::log;

/// Timeout of a request's headers, 10 s: from the start of the connection, or from the last answer, to the end of the headers. Also the timeout of what comes
/// before the first request: a PROXY header and the handshake of TLS.
const HEADERS: Duration = Duration::from_secs(10);

/// Size of the read buffer, and so of the largest headers of a request, 16 KiB. Browsers and proxies send up to 8 KiB.
const BUFFER: usize = 16 * 1024;

/// Limit on what a connection holds in the kernel without having sent it, 128 KiB. Without a limit, a client that reads nothing would have megabytes of answers
/// there, which the coordinator would compute first. What is on its way does not count, so that a client far away gets its answers as fast as before.
const UNSENT: u32 = 128 * 1024;

/// Context of a connection.
#[derive(Clone)]
pub(super) struct ServerContext {
    pub(super) router: Router,
    pub(super) admission: Arc<ConnectionAdmission>,
    pub(super) requests: Arc<RequestLimits>,
    pub(super) work: Arc<Work>,
    pub(super) figures: Arc<Figures>,
    /// `None` for plain HTTP.
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) stop: watch::Receiver<bool>,
}

impl ServerContext {
    pub(super) fn new(router: Router, admission: Arc<ConnectionAdmission>, stop: watch::Receiver<bool>) -> Self {
        let requests = Arc::new(RequestLimits::new());
        Self { router, admission, requests, work: Arc::default(), figures: Arc::default(), tls: None, stop }
    }

    /// Makes the server speak https.
    pub(super) fn over(mut self, tls: Option<TlsAcceptor>) -> Self {
        self.tls = tls;
        self
    }
}

/// Serves one listener until `stop` is true. Running connections may end on their own.
pub(super) async fn serve(listener: Arc<TcpListener>, server: ServerContext) {
    let mut connections = JoinSet::new();
    let mut stopping = pin!(stopped(server.stop.clone()));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            () = &mut stopping => break,
        };
        match accepted {
            Ok((stream, address)) => match server.admission.enter(address.ip()) {
                Some(pass) => {
                    let guest = PendingConnection::new(pass, Arc::clone(&server.work));
                    connections.spawn(connection(stream, address, guest, server.clone()));
                }
                // A connection beyond the limits is closed.
                None => server.figures.requests.turned_away.add(1),
            },
            Err(error) if is_of_one_connection(&error) => {}
            // The connection stays in the kernel's queue, so an immediate retry would fail, too (fault P6).
            Err(error) => {
                tracing::warn!(target: log::API, limited = UNAUTHENTICATED, event = "not-accepted", reason = %error);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(stream: TcpStream, address: SocketAddr, guest: Arc<PendingConnection>, server: ServerContext) {
    // A control channel consists of small messages; Nagle's algorithm would delay them.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT);
    let stream = tokio::select! {
        stream = opened(stream, address, guest.pass(), server.tls.as_ref()) => stream,
        () = guest.evicted() => return,
        () = tokio::time::sleep(HEADERS) => return,
        () = stopped(server.stop.clone()) => return,
    };
    let Some(stream) = stream else { return };
    let (stop, held) = (server.stop.clone(), Arc::clone(&guest));
    let is_first = AtomicBool::new(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let is_first = is_first.swap(false, Ordering::Relaxed);
        let (guest, server) = (Arc::clone(&held), server.clone());
        async move { Ok::<_, Infallible>(answer(request.map(Body::new), is_first, guest, server).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(BUFFER);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service).with_upgrades());
    // The other side notices a failure of its connection.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = guest.evicted() => return,
        () = stopped(stop) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Does what comes before the first request. Returns `None` if the connection has to be closed.
async fn opened(
    mut stream: TcpStream,
    address: SocketAddr,
    pass: &Pass,
    tls: Option<&TlsAcceptor>,
) -> Option<ClientStream> {
    let ahead = proxied(&mut stream, address, pass).await?;
    let stream = PacedStream::new(stream, ahead);
    let stream = if pass.believes() { stream } else { stream.distrust(pass.client()) };
    ClientStream::open(stream, tls, pass).await
}

/// Reads the PROXY header of a trusted proxy, and returns the bytes after it that were read already. Returns `None` if the header is malformed, the connection
/// ended, or the client has too many connections.
async fn proxied(stream: &mut TcpStream, address: SocketAddr, pass: &Pass) -> Option<Vec<u8>> {
    let mut got = Vec::new();
    while pass.believes() {
        let start = proxy::parse(&got).inspect_err(|error| {
            let address = address.ip();
            tracing::warn!(target: log::API, limited = UNAUTHENTICATED, event = "bad-proxy-header", %address, reason = %error);
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

/// Answers one request. Its id is in the answer and in all lines of the log about it.
async fn answer(request: Request, is_first: bool, guest: Arc<PendingConnection>, server: ServerContext) -> Response {
    let id = RequestId::of(request.headers(), guest.pass());
    let span = tracing::error_span!(target: log::API, "request", request_id = %id);
    let (method, path, start) = (request.method().clone(), request.uri().path().to_owned(), Instant::now());
    let figures = Arc::clone(&server.figures);
    let answer = id.clone().scope(respond(request, is_first, guest, server));
    let mut response = answer.instrument(span.clone()).await;
    figures.requests.note(response.status().as_u16(), response.extensions().get::<ErrorCode>().copied());
    span.in_scope(|| log_request(name_of(&method), &path, start, &response));
    if let Some(id) = id.header() {
        response.headers_mut().insert(request_id::HEADER, id);
    }
    response
}

/// Returns a method's name for the log; `other` for a method that HTTP does not define, because its text is the client's and may be a token.
fn name_of(method: &Method) -> &'static str {
    const KNOWN: [(Method, &str); 9] = [
        (Method::GET, "GET"),
        (Method::POST, "POST"),
        (Method::PATCH, "PATCH"),
        (Method::DELETE, "DELETE"),
        (Method::PUT, "PUT"),
        (Method::HEAD, "HEAD"),
        (Method::OPTIONS, "OPTIONS"),
        (Method::CONNECT, "CONNECT"),
        (Method::TRACE, "TRACE"),
    ];
    KNOWN.iter().find(|(known, _)| known == method).map_or("other", |(_, name)| name)
}

/// Logs an answered request. The path of a refused one is left out, because it may contain a token that was typed in the wrong place.
fn log_request(method: &str, path: &str, start: Instant, response: &Response) {
    let (status, took_ms) =
        (response.status().as_u16(), u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX));
    let reason = response.extensions().get::<ErrorCode>().map(|code| code.name());
    let path = Some(path).filter(|_| status < 400);
    let address = response.extensions().get::<Source>().map(ToString::to_string);
    if response.extensions().get::<Operator>().is_some() {
        tracing::debug!(target: log::API, event = "request", method, path, status, reason, took_ms, address);
    } else {
        tracing::debug!(target: log::API, limited = UNAUTHENTICATED, event = "request", method, path, status, reason, took_ms, address);
    }
}

async fn respond(
    mut request: Request,
    is_first: bool,
    guest: Arc<PendingConnection>,
    server: ServerContext,
) -> Response {
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
    let mut response = server.router.oneshot(request).await.unwrap_or_else(|never| match never {});
    response.extensions_mut().insert(source);
    if is_counted && response.extensions().get::<Operator>().is_none() {
        server.requests.count(source.address, Instant::now());
    }
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        // The proxy may send another client's request next. If the proxy's share is full, the connection is evicted.
        let _ = guest.pass().forget_claim();
    }
    response
}

/// Returns the client that a trusted proxy names in a request, and counts the connection for it.
fn source(pass: &Pass, headers: &HeaderMap) -> Result<Source, AdmissionDenied> {
    let lines = |name| headers.get_all(name).iter().map(|line| line.as_bytes());
    pass.take_claim(forwarded::client(lines("forwarded"), lines("x-forwarded-for"), |address| pass.trusts(address)))
}

//! The opening of a connection: PROXY header of a trusted proxy, TLS, request, answer, WebSocket.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};
use taut_base::MAX_DATAGRAM;
use taut_wire::forwarded;
use taut_wire::proxy::{self, ProxyHeader};
use tungstenite::accept_hdr_with_config;
use tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response, ServerHandshake};
use tungstenite::handshake::{HandshakeError, MidHandshake};
use tungstenite::http::StatusCode;
use tungstenite::protocol::{Role, WebSocket, WebSocketConfig};

use super::stream::{Socket, Stream};
use crate::admission::{Pass, Source};
use crate::log::{self, UNAUTHENTICATED};

/// Bytes of one read of a PROXY header, 128: a header without extensions is shorter.
const PIECE: usize = 128;

/// The state of a connection.
pub(super) enum WebState {
    /// A trusted proxy may send a PROXY header. Has the bytes of it so far.
    Proxied(Socket, Vec<u8>),
    /// The TLS and HTTP handshakes.
    Opening(Box<MidHandshake<ServerHandshake<Stream, RequestHandler>>>),
    /// The open WebSocket.
    Open(Box<WebSocket<Stream>>),
}

impl WebState {
    /// Returns the state of an accepted connection.
    pub(super) fn accepted(tcp: TcpStream) -> io::Result<Self> {
        Ok(Self::Proxied(Socket::new(tcp)?, Vec::new()))
    }

    /// Returns the state of a connection from a web server after the handshake.
    pub(super) fn adopted(
        tcp: TcpStream,
        tls: Option<Box<ServerConnection>>,
        unread: &[u8],
        read: Vec<u8>,
    ) -> io::Result<Self> {
        let mut socket = Socket::new(tcp)?;
        socket.unread(unread);
        let stream = Stream::adopted(socket, tls);
        Ok(Self::Open(Box::new(WebSocket::from_partially_read(stream, read, Role::Server, Some(config())))))
    }

    /// Goes on as far as possible without waiting. Returns `None` if the connection has to be closed.
    pub(super) fn go_on(self, pass: &Arc<Pass>, tls: Option<&Arc<ServerConfig>>) -> Option<Self> {
        match self {
            Self::Proxied(socket, got) => proxied(socket, got, pass, tls),
            Self::Opening(middle) => opened(middle.handshake()),
            Self::Open(_) => Some(self),
        }
    }

    pub(super) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Proxied(socket, _) => socket.tcp(),
            Self::Opening(middle) => middle.get_ref().get_ref().tcp(),
            Self::Open(socket) => socket.get_ref().tcp(),
        }
    }

    /// Returns the socket, which counts what is read.
    pub(super) fn socket(&mut self) -> &mut Socket {
        match self {
            Self::Proxied(socket, _) => socket,
            Self::Opening(middle) => middle.get_mut().get_mut().socket(),
            Self::Open(socket) => socket.get_mut().socket(),
        }
    }
}

/// Reads a PROXY header if the peer is a trusted proxy, and begins the handshakes.
fn proxied(
    mut socket: Socket,
    mut got: Vec<u8>,
    pass: &Arc<Pass>,
    tls: Option<&Arc<ServerConfig>>,
) -> Option<WebState> {
    while pass.believes() {
        let start = proxy::parse(&got).inspect_err(|error| {
            let address = pass.client();
            tracing::warn!(target: log::RELAY, limited = UNAUTHENTICATED, event = "bad-proxy-header", %address, reason = %error);
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
        let mut piece = [0; PIECE];
        match socket.read(&mut piece) {
            Ok(0) => return None,
            Ok(length) => got.extend(piece.iter().take(length)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(WebState::Proxied(socket, got)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    if !pass.believes() {
        socket.distrust(pass.client());
    }
    socket.unread(&got);
    let stream = Stream::new(socket, tls).ok()?;
    opened(accept_hdr_with_config(stream, RequestHandler(Arc::clone(pass)), Some(config())))
}

fn opened(
    outcome: Result<WebSocket<Stream>, HandshakeError<ServerHandshake<Stream, RequestHandler>>>,
) -> Option<WebState> {
    match outcome {
        Ok(socket) => Some(WebState::Open(Box::new(socket))),
        Err(HandshakeError::Interrupted(middle)) => Some(WebState::Opening(Box::new(middle))),
        Err(HandshakeError::Failure(_)) => None,
    }
}

/// Handles the request, in which a trusted proxy names the client.
pub(super) struct RequestHandler(Arc<Pass>);

impl Callback for RequestHandler {
    fn on_request(self, request: &Request, response: Response) -> Result<Response, ErrorResponse> {
        let lines = |name| request.headers().get_all(name).iter().map(|line| line.as_bytes());
        let trusted = |address| self.0.trusts(address);
        let claim = forwarded::client(lines("forwarded"), lines("x-forwarded-for"), trusted);
        let admitted = self.0.take_claim(claim).and_then(|source: Source| {
            // A client that was named by a PROXY header was counted there.
            if self.0.believes() && !source.is_hidden { self.0.open() } else { Ok(()) }
        });
        admitted.map(|()| response).map_err(|error| {
            let mut refusal = ErrorResponse::new(Some(error.to_string()));
            *refusal.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            refusal
        })
    }
}

pub(super) fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(16 * 1024)
        .max_message_size(Some(MAX_DATAGRAM))
        .max_frame_size(Some(MAX_DATAGRAM))
        .write_buffer_size(0)
        .max_write_buffer_size(4 * MAX_DATAGRAM)
}

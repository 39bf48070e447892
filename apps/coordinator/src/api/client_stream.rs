//! The stream of a client: TCP, or TLS over it where the coordinator speaks https itself.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustls::ServerConnection;
use taut_relay_server::Pass;
use taut_relay_server::log::UNAUTHENTICATED;
use taut_wire::proxy;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::paced_stream::PacedStream;
use crate::log;
use crate::tls::is_check;

/// Answer to a request in plain HTTP where https is spoken.
const HTTPS_ONLY: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n\
    this port speaks https: write https:// in the URL\n";

/// The stream.
pub(super) enum ClientStream {
    Plain(PacedStream),
    Tls(Box<TlsStream<PacedStream>>),
}

impl ClientStream {
    /// Begins a connection, with the handshake of TLS if the coordinator speaks https. Returns `None` if the handshake fails.
    pub(super) async fn open(mut stream: PacedStream, tls: Option<&TlsAcceptor>, pass: &Pass) -> Option<Self> {
        let Some(tls) = tls else { return Some(Self::Plain(stream)) };
        let mut first = [0; 16];
        let first = stream.peek(&mut first).await.ok()?;
        // A TLS connection begins with the byte 22. An untrusted PROXY header is reported when the handshake reads it.
        if first.first().is_some_and(u8::is_ascii_uppercase) && !proxy::is_header(first) {
            // A socket that is closed with unread bytes is reset, and the answer could be lost with it. The client may have left.
            let _ = stream.read(&mut [0; 16 * 1024]).await;
            let _ = stream.write_all(HTTPS_ONLY).await;
            let _ = stream.shutdown().await;
            return None;
        }
        let opened = tls.accept(stream).await.inspect_err(|error| {
            let (address, reason) = (pass.client(), error);
            tracing::debug!(target: log::API, limited = UNAUTHENTICATED, event = "tls-failed", %address, %reason);
        });
        let mut opened = opened.ok()?;
        if is_check(opened.get_ref().1) {
            let _ = opened.shutdown().await;
            return None;
        }
        Some(Self::Tls(Box::new(opened)))
    }

    /// Returns the TCP stream, the TLS session in it, and bytes that were read from TCP and not returned yet.
    pub(super) fn into_parts(self) -> (TcpStream, Option<Box<ServerConnection>>, Vec<u8>) {
        let (stream, session) = match self {
            Self::Plain(stream) => (stream, None),
            Self::Tls(stream) => {
                let (stream, session) = stream.into_inner();
                (stream, Some(Box::new(session)))
            }
        };
        let (tcp, ahead) = stream.into_parts();
        (tcp, session, ahead)
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, to),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, to),
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, from),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, from),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, from),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, from),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

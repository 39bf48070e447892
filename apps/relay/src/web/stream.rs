//! A connection with or without TLS.

use std::io::{self, BufReader, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use taut_event::open_regular;
use taut_wire::proxy;

use crate::UNTRUSTED_PROXY;
use crate::log::{self, UNAUTHENTICATED};

/// A TCP connection with a read budget per turn, to which bytes can be returned that were read too early.
///
/// TLS and WebSocket read until a record or a message is complete, however many bytes come meanwhile. The budget limits this: a read beyond it fails with
/// `WouldBlock`, as if the kernel had no bytes. Both libraries keep what they have read and continue in the next turn.
pub(crate) struct Socket {
    tcp: TcpStream,
    /// The returned bytes, which are read first.
    ahead: Vec<u8>,
    /// Bytes that this turn may still read.
    left: usize,
    /// Whether a read failed because the budget was used up.
    is_spent: bool,
    /// Bytes read so far, TLS included.
    total: u64,
    /// Address of a client that is no trusted proxy, until its first bytes are read; otherwise `None`.
    distrusted: Option<IpAddr>,
}

impl Socket {
    /// Takes a connection, and makes it non-blocking.
    pub(crate) fn new(tcp: TcpStream) -> io::Result<Self> {
        tcp.set_nonblocking(true)?;
        // Frames are small and must not wait for each other (Nagle's algorithm).
        tcp.set_nodelay(true)?;
        Ok(Self { tcp, ahead: Vec::new(), left: 0, is_spent: false, total: 0, distrusted: None })
    }

    /// Makes the stream log a PROXY header at its beginning, because this client is no trusted proxy.
    pub(crate) fn distrust(&mut self, client: IpAddr) {
        self.distrusted = Some(client);
    }

    /// Returns bytes that were read too early.
    pub(crate) fn unread(&mut self, bytes: &[u8]) {
        self.ahead.splice(..0, bytes.iter().copied());
        self.total = self.total.saturating_sub(bytes.len() as u64);
    }

    /// Starts a turn, which reads `budget` bytes at most. Before the first turn nothing is read.
    pub(crate) fn begin_turn(&mut self, budget: usize) {
        (self.left, self.is_spent) = (budget, false);
    }

    /// Returns true if the turn's budget ended a read. Bytes may wait for the next turn, here or in the kernel.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_spent
    }

    /// Returns the number of bytes read so far, TLS included.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        &self.tcp
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            self.is_spent = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let most = self.left.min(buffer.len());
        let buffer = &mut buffer[..most];
        let length = if self.ahead.is_empty() {
            let length = self.tcp.read(buffer)?;
            if let Some(address) = self.distrusted.take_if(|_| proxy::is_header(&buffer[..length])) {
                let hint = UNTRUSTED_PROXY;
                tracing::warn!(target: log::RELAY, limited = UNAUTHENTICATED, event = "untrusted-proxy-header", %address, hint);
            }
            self.distrusted = None;
            length
        } else {
            let length = self.ahead.len().min(buffer.len());
            let read: Vec<u8> = self.ahead.drain(..length).collect();
            buffer[..length].copy_from_slice(&read);
            length
        };
        self.left -= length;
        self.total += length as u64;
        Ok(length)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tcp.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tcp.flush()
    }
}

/// The stream below WebSocket: TCP or TLS.
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Box<StreamOwned<ServerConnection, Socket>>),
}

impl Stream {
    pub(crate) fn new(socket: Socket, tls: Option<&Arc<ServerConfig>>) -> io::Result<Self> {
        Ok(match tls {
            None => Self::Plain(socket),
            Some(config) => {
                let session = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
                Self::Tls(Box::new(StreamOwned::new(session, socket)))
            }
        })
    }

    /// Returns the stream of a connection whose TLS session is open already.
    pub(crate) fn adopted(socket: Socket, session: Option<Box<ServerConnection>>) -> Self {
        match session {
            None => Self::Plain(socket),
            Some(session) => Self::Tls(Box::new(StreamOwned::new(*session, socket))),
        }
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket.tcp(),
            Self::Tls(stream) => stream.get_ref().tcp(),
        }
    }

    /// Returns the socket below TLS.
    pub(crate) fn socket(&mut self) -> &mut Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.get_mut(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// Returns the TLS settings of a relay: a certificate chain and its key, from PEM files.
pub(crate) fn server_config(certificates: &Path, key: &Path) -> io::Result<Arc<ServerConfig>> {
    let open = |path: &Path| {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        open_regular(path).map(BufReader::new).map_err(named)
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_reader_iter(open(certificates)?).collect();
    let key = PrivateKeyDer::from_pem_reader(open(key)?).map_err(io::Error::other)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain.map_err(io::Error::other)?, key)
        .map_err(io::Error::other)?;
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Reads pieces of this size until no bytes are left.
    fn read_all(socket: &mut Socket, piece: usize) -> Vec<u8> {
        let (mut all, mut buffer) = (Vec::new(), vec![0; piece]);
        loop {
            match socket.read(&mut buffer) {
                Ok(length) => all.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return all,
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn fault_f13_a_turn_reads_no_more_than_its_budget_and_loses_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut socket = Socket::new(listener.accept().unwrap().0).unwrap();
        socket.unread(b"ahead");
        peer.write_all(b" and behind").unwrap();
        socket.tcp.set_nonblocking(false).unwrap();
        assert_eq!(read_all(&mut socket, 8), b"", "no turn has begun");
        for (budget, read) in [(3, "ahe"), (6, "ad and"), (2, " b"), (5, "ehind")] {
            socket.begin_turn(budget);
            assert!(!socket.is_spent());
            assert_eq!(String::from_utf8_lossy(&read_all(&mut socket, 4)), read);
            assert!(socket.is_spent());
        }
        assert_eq!(socket.total(), 16);
        socket.tcp.set_nonblocking(true).unwrap();
        socket.begin_turn(100);
        assert!(read_all(&mut socket, 4).is_empty() && !socket.is_spent(), "the kernel has no more");
    }
}

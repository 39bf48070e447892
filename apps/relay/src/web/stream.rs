//! A connection with or without TLS.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A TCP connection of which some bytes were read before it was known what they are.
pub(crate) struct Socket {
    tcp: TcpStream,
    /// Those bytes; they come first.
    ahead: Vec<u8>,
}

impl Socket {
    /// Takes a connection, and has it not block.
    pub(crate) fn new(tcp: TcpStream) -> io::Result<Self> {
        tcp.set_nonblocking(true)?;
        // Frames are small and should not wait for each other.
        tcp.set_nodelay(true)?;
        Ok(Self { tcp, ahead: Vec::new() })
    }

    /// Gives back what was read too much.
    pub(crate) fn unread(&mut self, bytes: &[u8]) {
        self.ahead.splice(..0, bytes.iter().copied());
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        &self.tcp
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ahead.is_empty() {
            return self.tcp.read(buffer);
        }
        let length = self.ahead.len().min(buffer.len());
        let read: Vec<u8> = self.ahead.drain(..length).collect();
        buffer[..length].copy_from_slice(&read);
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

/// What WebSocket runs over.
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

    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket.tcp(),
            Self::Tls(stream) => stream.get_ref().tcp(),
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

/// The TLS side of a relay: a chain of certificates and its key, both as PEM files.
pub(crate) fn server_config(certificates: &Path, key: &Path) -> io::Result<Arc<ServerConfig>> {
    let open = |path: &Path| {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        File::open(path).map(BufReader::new).map_err(named)
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

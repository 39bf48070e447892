//! The byte stream below the channel: TCP, with TLS for https URLs.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use taut_base::SOCKET_MARK;

use crate::tls::{self, Authorities, Secured};
use crate::url::Url;

/// Time limit for one step of the handshakes.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for the handshakes together, 30 s: each read has a timeout of its own, which a server could use up for every byte.
const HANDSHAKES_TIMEOUT: Duration = Duration::from_secs(30);
/// Limit on the bytes received during the handshakes of TLS, HTTP and the channel, 256 KiB. Their largest messages are a chain of certificates and an HTTP
/// answer, with at most 64 KiB each.
const HANDSHAKES: usize = 256 * 1024;
/// Limit on the bytes read in one turn, 64 KiB. In the worst case they are empty WebSocket frames of 2 bytes, which take a few milliseconds. Commands and
/// deadlines are delayed by at most that time.
const TURN: usize = 64 * 1024;

/// A connected stream. It counts received bytes, so that a large message that arrives slowly does not count as silence.
pub struct Stream {
    kind: StreamKind,
    /// True if the server's certificate is checked.
    verified: bool,
    received: u64,
}

enum StreamKind {
    Plain(Socket),
    Secure(Box<Secured<Socket>>),
}

/// A socket with a read budget per turn.
///
/// TLS and WebSocket read until a record or a message is complete, regardless of the number of bytes. A read beyond the budget fails with `WouldBlock`, as if
/// the kernel had no bytes; both keep what they have read, and the poller reports the rest. Before the first turn the budget is that of the
/// handshakes, and a read beyond it fails for good.
struct Socket {
    tcp: TcpStream,
    /// Number of bytes that may still be read in this turn.
    left: usize,
    /// True if the handshakes are complete.
    has_turns: bool,
    /// Bytes read so far, TLS included.
    total: u64,
    /// The moment after which nothing is read, however little is missing.
    deadline: Option<Instant>,
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = self.left.min(buffer.len());
        match buffer.get_mut(..most) {
            Some(room) if most > 0 => {
                if let Some(deadline) = self.deadline {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(io::Error::new(io::ErrorKind::TimedOut, "it takes too long"));
                    }
                    self.tcp.set_read_timeout(Some(left.min(ANSWER_TIMEOUT)))?;
                }
                let length = self.tcp.read(room)?;
                self.left = self.left.saturating_sub(length);
                self.total = self.total.saturating_add(length as u64);
                Ok(length)
            }
            _ if self.has_turns => Err(io::ErrorKind::WouldBlock.into()),
            _ => Err(io::Error::other("it sent more bytes than handshakes have")),
        }
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

impl Stream {
    /// Wraps a connected socket, with TLS if the URL requires it. The TLS handshake begins with the first write.
    pub fn new(tcp: TcpStream, url: &Url) -> io::Result<Self> {
        Self::with_trust(tcp, url, None)
    }

    /// Wraps a connected socket. With `authorities`, the server's certificate has to be valid for the URL's host; see [`crate::fetch()`].
    pub(crate) fn with_trust(tcp: TcpStream, url: &Url, authorities: Option<Authorities>) -> io::Result<Self> {
        let deadline = Some(Instant::now() + HANDSHAKES_TIMEOUT);
        let socket = Socket { tcp, left: HANDSHAKES, has_turns: false, total: 0, deadline };
        let verified = authorities.is_some();
        let kind = match url.secure {
            true => StreamKind::Secure(Box::new(tls::secure(socket, &url.host, authorities)?)),
            false => StreamKind::Plain(socket),
        };
        Ok(Self { kind, verified, received: 0 })
    }

    /// Returns the TCP socket.
    pub fn socket(&self) -> &TcpStream {
        match &self.kind {
            StreamKind::Plain(socket) => &socket.tcp,
            StreamKind::Secure(stream) => &stream.get_ref().tcp,
        }
    }

    /// Starts a turn, which reads 64 KiB at most. The socket does not block from the first turn on, and the time limit of the handshakes is over.
    pub fn begin_turn(&mut self) {
        let socket = self.limits();
        (socket.left, socket.has_turns, socket.deadline) = (TURN, true, None);
    }

    /// Allows 64 KiB more than the handshakes have, on a stream that blocks. The time limit stays.
    pub(crate) fn allow_more(&mut self) {
        self.limits().left = TURN;
    }

    /// Sets another time limit of reading than that of the handshakes.
    pub(crate) fn set_deadline(&mut self, deadline: Instant) {
        self.limits().deadline = Some(deadline);
    }

    fn limits(&mut self) -> &mut Socket {
        match &mut self.kind {
            StreamKind::Plain(socket) => socket,
            StreamKind::Secure(stream) => stream.get_mut(),
        }
    }

    /// Returns true if reading has a time limit.
    #[cfg(test)]
    pub(crate) fn has_deadline(&self) -> bool {
        match &self.kind {
            StreamKind::Plain(socket) => socket.deadline.is_some(),
            StreamKind::Secure(stream) => stream.get_ref().deadline.is_some(),
        }
    }

    /// Returns the number of bytes read so far, TLS included.
    pub fn total(&self) -> u64 {
        match &self.kind {
            StreamKind::Plain(socket) => socket.total,
            StreamKind::Secure(stream) => stream.get_ref().total,
        }
    }

    /// Returns true if a new connection would have another source address, or is impossible because no route exists. The test connects a UDP socket, which
    /// sends no packet.
    pub fn is_stale(&self) -> bool {
        let moved = || Ok::<_, io::Error>(self.source_address()? != self.socket().local_addr()?.ip());
        moved().unwrap_or(true)
    }

    /// Returns the source address that this host would use for a new connection to the same peer.
    pub fn source_address(&self) -> io::Result<IpAddr> {
        let peer = self.socket().peer_addr()?;
        let any: SocketAddr =
            if peer.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
        let socket = UdpSocket::bind(any)?;
        // The route of this connection's packets, which are marked.
        let _ = taut_event::set_mark(&socket, SOCKET_MARK);
        socket.connect(peer)?;
        Ok(socket.local_addr()?.ip())
    }

    /// Returns the number of bytes received so far, without TLS.
    pub fn received(&self) -> u64 {
        self.received
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = match &mut self.kind {
            StreamKind::Plain(socket) => socket.read(buffer),
            StreamKind::Secure(stream) => {
                stream.read(buffer).map_err(|error| tls::name_plain(stream, self.verified, error))
            }
        }?;
        self.received = self.received.saturating_add(length as u64);
        Ok(length)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.kind {
            StreamKind::Plain(socket) => socket.write(bytes),
            StreamKind::Secure(stream) => {
                stream.write(bytes).map_err(|error| tls::name_plain(stream, self.verified, error))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.kind {
            StreamKind::Plain(socket) => socket.flush(),
            StreamKind::Secure(stream) => stream.flush().map_err(|error| tls::name_plain(stream, self.verified, error)),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}

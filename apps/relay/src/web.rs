//! The same frames over WebSocket, for nodes that cannot use UDP: one frame per binary message, in both directions.
//!
//! One thread has all connections, and a table of its own like every worker. What is for a client waits in that client's queue ([`crate::streams`]), so that one that
//! does not read is nobody else's trouble; what it sends leaves by a UDP socket of the relay's, or waits in another client's queue.
//!
//! ```text
//! accept ──▶ Opening (TLS, HTTP) ──▶ Open       Entrance (somebody else's web server has shaken hands) ──▶ Open
//!                                     Open ──▶ gone: closed by either side, or nothing came for a while
//!                 10 s at most          100 s of silence at most: four of a client's signs of life
//! ```
//! The WebSocket handshake proves nothing: who connects is a stranger until its `bind` was confirmed, as by UDP.

mod entrance;
mod stream;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use taut_base::{MAX_DATAGRAM, Time};
use taut_event::{Events, Interest, Poller, Waker};
use taut_relay::{Forward, NoForward, Place, Reply, frame};
use taut_udp::UdpSocket;
use tungstenite::handshake::server::{NoCallback, ServerHandshake};
use tungstenite::handshake::{HandshakeError, MidHandshake};
use tungstenite::protocol::{Message, Role, WebSocket, WebSocketConfig};
use tungstenite::{Error, accept_with_config};

use crate::shared::{OsEntropy, Shared, clocks};
pub use entrance::{Entrance, accept_key};
use stream::Stream;

/// Where to listen, and whether with TLS.
#[derive(Clone, Debug)]
pub struct WebConfig {
    /// TCP address; none where all connections come by the [`Entrance`].
    pub address: Option<SocketAddr>,
    /// PEM files of the certificate's chain and of its key; none for plain `ws://`, behind a front that does TLS.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// Connections at the same time: each has two buffers of the kernel's, and some KiB of ours.
const MOST: usize = 4096;
/// How long TLS and HTTP may take before the first frame.
const OPENING: Duration = Duration::from_secs(10);
/// How long a connection may be silent: four of a client's signs of life.
const SILENCE: Duration = Duration::from_secs(100);
/// Messages taken from one connection before the others have their turn.
const TURN: u32 = 64;

const LISTENER: u64 = 0;
const WOKEN: u64 = 1;
/// The first connection's number; numbers are never used again.
const FIRST: u64 = 2;

enum State {
    Opening(Box<MidHandshake<ServerHandshake<Stream, NoCallback>>>),
    Open(Box<WebSocket<Stream>>),
}

struct Connection {
    /// `None` only while it is being turned into the next one.
    state: Option<State>,
    heard: Time,
    /// Its socket was full: wake when it is not.
    blocked: bool,
    /// There may be more in the library's buffer, of which the kernel knows nothing: come back at once.
    more: bool,
    /// The kernel was asked to say when there is room, because of either.
    awaits_room: bool,
}

impl Connection {
    fn new(state: State) -> Self {
        Self { state: Some(state), heard: clocks().now, blocked: false, more: false, awaits_room: false }
    }
}

/// The thread's whole state.
pub(crate) struct Web {
    number: usize,
    listener: Option<TcpListener>,
    tls: Option<Arc<ServerConfig>>,
    udp: UdpSocket,
    waker: Waker,
    poller: Poller,
    connections: BTreeMap<u64, Connection>,
    next: u64,
    forward: Forward,
    shared: Arc<Shared>,
    entropy: OsEntropy,
    replies: Vec<Reply>,
}

impl Web {
    pub(crate) fn new(
        number: usize,
        config: &WebConfig,
        udp: UdpSocket,
        waker: Waker,
        forward: Forward,
        shared: Arc<Shared>,
        entropy: OsEntropy,
    ) -> io::Result<Self> {
        let tls = match &config.certificate {
            Some((chain, key)) => Some(stream::server_config(chain, key)?),
            None => None,
        };
        let listener = config.address.map(TcpListener::bind).transpose()?;
        let poller = Poller::new()?;
        if let Some(listener) = &listener {
            listener.set_nonblocking(true)?;
            poller.add(listener.as_fd(), LISTENER, Interest::READ)?;
        }
        poller.add(waker.as_fd(), WOKEN, Interest::READ)?;
        let (connections, replies) = (BTreeMap::new(), Vec::new());
        Ok(Self {
            number,
            listener,
            tls,
            udp,
            waker,
            poller,
            connections,
            next: FIRST,
            forward,
            shared,
            entropy,
            replies,
        })
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref()?.local_addr().ok()
    }

    /// Runs until the relay is stopped.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(64);
        while !self.shared.is_stopping() {
            if self.poller.wait(&mut events, Some(Duration::from_secs(1))).is_err() {
                return;
            }
            self.waker.drain();
            self.shared.take_changes(self.number, &mut self.forward);
            for (tcp, read) in self.shared.streams.arrivals() {
                // One that fails at once is gone; nobody is told.
                let _ = self.adopt(tcp, read);
            }
            for event in events.iter() {
                match event.token {
                    LISTENER => self.accept(),
                    WOKEN => {}
                    number => self.turn(number, event.readable),
                }
            }
            self.deliver();
            self.end_silent();
            if let Some(published) = self.shared.published.get(self.number) {
                published.show(&self.forward.counts());
            }
        }
        // The first worker said goodbye for all; what it left here goes out as far as it can.
        self.deliver();
    }

    fn accept(&mut self) {
        while let Some(Ok((tcp, _))) = self.listener.as_ref().map(TcpListener::accept) {
            if self.connections.len() < MOST {
                // One that fails at once is gone; nobody is told.
                let _ = self.begin(tcp);
            }
        }
    }

    fn begin(&mut self, tcp: TcpStream) -> io::Result<()> {
        let stream = Stream::new(tcp, self.tls.as_ref())?;
        let number = self.watch(&stream)?;
        let state = match accept_with_config(stream, Some(config())) {
            Ok(socket) => State::Open(Box::new(socket)),
            Err(HandshakeError::Interrupted(middle)) => State::Opening(Box::new(middle)),
            Err(HandshakeError::Failure(error)) => return Err(io::Error::other(error)),
        };
        self.insert(number, Connection::new(state));
        Ok(())
    }

    /// Takes a connection on which a web server has shaken hands already; `read` came behind that.
    fn adopt(&mut self, tcp: TcpStream, read: Vec<u8>) -> io::Result<()> {
        if self.connections.len() >= MOST {
            return Ok(());
        }
        let stream = Stream::new(tcp, None)?;
        let number = self.watch(&stream)?;
        let more = !read.is_empty();
        let socket = WebSocket::from_partially_read(stream, read, Role::Server, Some(config()));
        self.insert(number, Connection { more, ..Connection::new(State::Open(Box::new(socket))) });
        Ok(())
    }

    fn watch(&mut self, stream: &Stream) -> io::Result<u64> {
        let number = self.next;
        self.next += 1;
        self.poller.add(stream.tcp().as_fd(), number, Interest::READ)?;
        Ok(number)
    }

    fn insert(&mut self, number: u64, connection: Connection) {
        self.shared.streams.set(number, true);
        self.connections.insert(number, connection);
    }

    /// A connection has something to say, or room for something.
    fn turn(&mut self, number: u64, readable: bool) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if let Some(State::Opening(middle)) = connection.state.take_if(|state| matches!(state, State::Opening(_))) {
            match middle.handshake() {
                Ok(socket) => connection.state = Some(State::Open(Box::new(socket))),
                Err(HandshakeError::Interrupted(middle)) => {
                    connection.state = Some(State::Opening(Box::new(middle)));
                    return;
                }
                Err(HandshakeError::Failure(_)) => return self.end(number),
            }
        }
        connection.blocked = false;
        if (std::mem::take(&mut connection.more) || readable) && !self.read(number) {
            self.end(number);
        }
    }

    /// Takes messages; false when the connection is of no use any more.
    fn read(&mut self, number: u64) -> bool {
        for _ in 0..TURN {
            let Some(connection) = self.connections.get_mut(&number) else { return false };
            let Some(State::Open(socket)) = &mut connection.state else { return true };
            match socket.read() {
                Ok(Message::Binary(message)) => {
                    connection.heard = clocks().now;
                    let mut frame = message.to_vec();
                    self.handle(number, &mut frame);
                }
                // Pings are answered by the library; text and pongs mean nothing here.
                Ok(Message::Close(_)) => return false,
                Ok(_) => {}
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.more = true;
        }
        true
    }

    fn handle(&mut self, number: u64, bytes: &mut [u8]) {
        let place = Place::Stream(number);
        if frame::data(bytes).is_some()
            && let Some(slot) = self.forward.client_at(&place)
        {
            let now = clocks().now;
            let mut outcome = self.forward.forward(slot, bytes, now);
            if outcome == Err(NoForward::UnknownId) && self.shared.take_changes(self.number, &mut self.forward) {
                outcome = self.forward.forward(slot, bytes, now);
            }
            if let Ok(to) = outcome {
                self.shared.send(&self.udp, to, bytes);
            }
            return;
        }
        if !frame::is_frame(bytes) {
            self.forward.count_not_wireguard();
            return;
        }
        let (clocks, entropy) = (clocks(), &mut self.entropy);
        let _refused_and_counted =
            self.shared.with_server(self.number, &mut self.forward, &mut self.replies, |server| {
                server.handle_frame(place, bytes, clocks, entropy)
            });
        self.reply();
    }

    fn reply(&mut self) {
        for reply in self.replies.drain(..) {
            self.shared.send(&self.udp, reply.place, reply.as_bytes());
        }
    }

    /// Sends what waits, to whom there is room.
    fn deliver(&mut self) {
        let Self { connections, shared, poller, .. } = self;
        let mut broken = Vec::new();
        for (number, connection) in connections {
            let Some(State::Open(socket)) = &mut connection.state else { continue };
            if !connection.blocked {
                let outcome = write(socket, || shared.streams.pop(*number));
                connection.blocked = outcome.is_err();
                if outcome.is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock) {
                    broken.push(*number);
                }
            }
            let awaits_room = connection.blocked || connection.more;
            if std::mem::replace(&mut connection.awaits_room, awaits_room) != awaits_room {
                let interest = if awaits_room { Interest::READ_WRITE } else { Interest::READ };
                // Only a connection that is gone is not watched any more, and its next read says so.
                let _ = poller.modify(socket.get_ref().tcp().as_fd(), *number, interest);
            }
        }
        broken.into_iter().for_each(|number| self.end(number));
    }

    fn end_silent(&mut self) {
        let now = clocks().now;
        let is_silent = |connection: &Connection| {
            let most = if matches!(connection.state, Some(State::Open(_))) { SILENCE } else { OPENING };
            now.since(connection.heard) > most
        };
        let silent: Vec<_> =
            self.connections.iter().filter(|(_, it)| is_silent(it)).map(|(number, _)| *number).collect();
        silent.into_iter().for_each(|number| self.end(number));
    }

    fn end(&mut self, number: u64) {
        if let Some(Connection { state: Some(State::Open(socket)), .. }) = self.connections.remove(&number) {
            self.poller.remove(socket.get_ref().tcp().as_fd());
        }
        self.shared.streams.set(number, false);
        self.shared.with_server(self.number, &mut self.forward, &mut self.replies, |server| {
            server.handle_hangup(Place::Stream(number));
        });
        self.reply();
    }
}

fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(16 * 1024)
        .max_message_size(Some(MAX_DATAGRAM))
        .max_frame_size(Some(MAX_DATAGRAM))
        .write_buffer_size(0)
        .max_write_buffer_size(4 * MAX_DATAGRAM)
}

/// Writes until there is nothing more or no room (`WouldBlock`).
fn write(socket: &mut WebSocket<Stream>, mut next: impl FnMut() -> Option<Vec<u8>>) -> io::Result<()> {
    let kept = |error| match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    };
    socket.flush().map_err(kept)?;
    while let Some(frame) = next() {
        socket.send(Message::binary(frame)).map_err(kept)?;
    }
    Ok(())
}

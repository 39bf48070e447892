//! The same frames over WebSocket, for nodes that cannot use UDP: one frame per binary message, in both directions.
//!
//! One thread owns all connections, and a forwarding table like every worker. Frames for a client wait in that client's queue ([`crate::streams`]), so that a
//! client that does not read harms only itself. Frames from a client leave by a UDP socket of the relay, or wait in another client's queue.
//!
//! ```text
//!              unauthenticated: 10 s in all, a share per address ([`ConnectionAdmission`])            bound: as long as the binding lasts
//! accept ──▶ PROXY header, TLS, HTTP ──▶ open, bind ─────────────────── first control frame ──▶ one per member, a share per network
//! Entrance (a web server has shaken hands) ──▶ ▲ │                                                                │
//!                                              │ └──▶ closed: late, or evicted for another one                    │
//!                                              └────────── the client moved elsewhere, or its binding ended ◀─────┘
//! ```
//! The WebSocket handshake proves nothing: a connection counts as unauthenticated until a client's binding is confirmed on it (fault F13).
//!
//! **Cost.** The cost of an event does not depend on the number of connections: connections with data to send are in a queue, deadlines are ordered by time. One turn
//! serves at most [`UNBOUND_PER_TURN`] unbound connections, in rotation, so that their handshakes do not delay members' frames.
//!
//! A turn of one connection ends after [`TURN`] messages or [`TURN_BYTES`] in each direction, whatever the peer sends: a WebSocket message may have endless frames,
//! and the library reads until the message is complete. Between turns the thread checks deadlines, serves other connections, and takes the changes of other
//! threads, so that their queue ([`crate::shared`]) holds only the changes of one turn.

mod entrance;
mod opening;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustls::ServerConfig;
use taut_base::{Bounds, MAX_DATAGRAM, Time, WhenFull};
use taut_event::{Events, Interest, Poller, Waker};
use taut_relay::{ClientAddress, Forward, ForwardOutput, NoForward, Reply, Shares, frame};
use taut_udp::UdpSocket;
use tungstenite::Error;
use tungstenite::protocol::{Message, WebSocket};

use crate::admission::{ConnectionAdmission, Pass};
use crate::listener::Listener;
use crate::shared::Shared;
use crate::streams::Arrival;
use crate::system::{OsEntropy, clocks};
pub use entrance::{Entrance, accept_key};
use opening::WebState;
use stream::Stream;

/// The settings for WebSocket.
#[derive(Clone, Debug)]
pub struct WebConfig {
    /// TCP address to listen on; `None` if all connections come through the [`Entrance`].
    pub address: Option<SocketAddr>,
    /// PEM files of the certificate chain and of its key; `None` for plain `ws://` behind a reverse proxy that does TLS.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The admission of connections that are not bound.
    pub admission: Arc<ConnectionAdmission>,
    /// Maximum number of connections of bound clients.
    pub streams: usize,
}

/// Messages read from one connection, and frames sent to it, in one turn: 64.
const TURN: u32 = 64;
/// Bytes read from one connection in one turn, TLS included: 64 KiB, about [`TURN`] Ethernet packets. Read as empty WebSocket frames of 6 bytes they take about
/// a millisecond, as long as a TLS handshake.
const TURN_BYTES: usize = 64 * 1024;
/// Unbound connections served in one turn, 8. Each takes at most a millisecond ([`TURN_BYTES`]), so they delay a member's frame by at most 8 ms.
const UNBOUND_PER_TURN: usize = 8;
/// Messages on a connection without a bound client, after which it is closed: 64. A client binds with at most three, and sends no more until it is bound.
const UNBOUND_MESSAGES: u32 = 64;
/// Bytes on a connection without a bound client, after which it is closed: 256 KiB. A request has at most 64 KiB, the peer's part of TLS a few KiB, and
/// [`UNBOUND_MESSAGES`] messages as long as an Ethernet packet 96 KiB. A `bind`, the longest frame that such a client has to send, has 328 bytes.
const UNBOUND_BYTES: u64 = 256 * 1024;
/// Bytes on a connection since its last complete message, after which it is closed: four times the largest message. The excess is for TLS, pings between two
/// messages and fragmenting proxies. Without a limit, a message of empty frames would never end.
const UNFINISHED_BYTES: u64 = 4 * MAX_DATAGRAM as u64;
/// Connections accepted in one turn, 16, so that accepting does not delay members' frames.
const ACCEPTS: u32 = 16;
/// Maximum number of connections that one wait reports, 1,024: as many as may be unauthenticated, so that members' events are among them.
const EVENTS: usize = 1_024;
/// Turns of sending when the relay stops, 128: enough for a full queue of a client ([`crate::streams`]) of the shortest frames.
const LAST_TURNS: usize = 128;
/// Longest sleep, 1 s, after which the counters are published again.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

const LISTENER: u64 = 0;
const WOKEN: u64 = 1;
/// Number of the first connection. Numbers are not reused.
const FIRST: u64 = 2;

/// A connection with its state.
struct WebConnection {
    /// `None` only during a change of state.
    state: Option<WebState>,
    pass: Arc<Pass>,
    /// Slot of the client that is bound on the connection.
    bound: Option<u32>,
    /// Time at which the connection is closed unless a client is bound by then.
    due: Option<Time>,
    /// Number of messages that are still accepted before a client is bound; `None` after one was bound.
    messages_left: Option<u32>,
    /// Number of bytes read up to the last complete message.
    told: u64,
    /// Whether the socket is full.
    blocked: bool,
    /// Whether the poller waits for the socket to have room.
    awaits_room: bool,
}

/// The state of the WebSocket thread.
pub(crate) struct Web {
    number: usize,
    listener: Option<Listener>,
    tls: Option<Arc<ServerConfig>>,
    admission: Arc<ConnectionAdmission>,
    udp: UdpSocket,
    waker: Waker,
    poller: Poller,
    connections: BTreeMap<u64, WebConnection>,
    next: u64,
    /// Deadlines of connections without a bound client: one entry for each [`WebConnection::due`].
    deadlines: BTreeSet<(Time, u64)>,
    /// Connections of bound clients, by network and client.
    bound: taut_base::Admission<[u8; 16], u32>,
    /// Connections that get another turn without an event of the kernel: a library may have buffered data, or a budget ended the last turn.
    more: Vec<u64>,
    /// The unbound connection that was served last. The next turn begins with the one after it.
    last_unbound: u64,
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
        shares: Arc<Shares>,
        shared: Arc<Shared>,
        entropy: OsEntropy,
    ) -> io::Result<Self> {
        let tls = match &config.certificate {
            Some((chain, key)) => Some(stream::server_config(chain, key)?),
            None => None,
        };
        let poller = Poller::new()?;
        let listener = config.address.map(|address| Listener::bind(address, &poller, LISTENER)).transpose()?;
        poller.add(waker.as_fd(), WOKEN, Interest::READ)?;
        Ok(Self {
            number,
            listener,
            tls,
            admission: Arc::clone(&config.admission),
            udp,
            waker,
            poller,
            connections: BTreeMap::new(),
            next: FIRST,
            deadlines: BTreeSet::new(),
            bound: taut_base::Admission::new(config.streams, WhenFull::Balance),
            more: Vec::new(),
            last_unbound: 0,
            forward: Forward::with_streams(shares),
            shared,
            entropy,
            replies: Vec::new(),
        })
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref()?.address().ok()
    }

    /// Runs until the relay is stopped.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS);
        while !self.shared.is_stopping() {
            if self.poller.wait(&mut events, Some(self.sleep())).is_err() {
                return;
            }
            self.waker.drain();
            self.shared.take_changes(self.number, &mut self.forward);
            for number in self.shared.streams.lost() {
                self.crowd_out(number);
            }
            for arrival in self.shared.streams.arrivals() {
                // A connection that fails at once is gone, and is not reported.
                let _ = self.adopt(arrival);
            }
            self.handle(&events);
            self.follow();
            self.deliver();
            self.handle_timeout();
            if let Some(published) = self.shared.published.get(self.number) {
                published.show(&self.forward.counts());
            }
        }
        // The first worker told all clients that the relay stops; the queued frames are sent as far as possible.
        for _ in 0..LAST_TURNS {
            self.deliver();
            let more = std::mem::take(&mut self.more);
            if more.is_empty() {
                return;
            }
            more.into_iter().for_each(|number| self.write(number));
        }
    }

    fn sleep(&self) -> Duration {
        if !self.more.is_empty() {
            return Duration::ZERO;
        }
        let paused = self.listener.as_ref().and_then(Listener::poll_timeout);
        let due = self.deadlines.first().map(|(due, _)| *due).into_iter().chain(paused).min();
        due.map_or(LONGEST_SLEEP, |due| due.since(clocks().now)).min(LONGEST_SLEEP)
    }

    fn handle(&mut self, events: &Events) {
        let mut due: BTreeSet<u64> = std::mem::take(&mut self.more).into_iter().collect();
        for event in events.iter() {
            match event.token {
                LISTENER => self.accept(),
                WOKEN => {}
                number => _ = due.insert(number),
            }
        }
        let is_bound = |number: &u64| self.connections.get(number).is_some_and(|it| it.bound.is_some());
        let (members, mut unbound): (Vec<u64>, Vec<u64>) = due.into_iter().partition(is_bound);
        members.into_iter().for_each(|number| self.turn(number));
        // In rotation: connections that always have data come first in the kernel's order.
        let next = unbound.partition_point(|number| *number <= self.last_unbound);
        unbound.rotate_left(next);
        self.more.extend(unbound.drain(UNBOUND_PER_TURN.min(unbound.len())..));
        for number in unbound {
            self.last_unbound = number;
            self.turn(number);
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS {
            let Some(listener) = &mut self.listener else { return };
            let Some((tcp, address)) = listener.accept(&self.poller, clocks().now) else { return };
            match self.admission.enter(address.ip()) {
                // A connection that fails at once is gone, and is not reported.
                Some(pass) => _ = self.begin(tcp, pass),
                None => _ = self.shared.streams.crowded.fetch_add(1, Ordering::Relaxed),
            }
        }
    }

    fn begin(&mut self, tcp: TcpStream, pass: Pass) -> io::Result<()> {
        let number = self.insert(WebState::accepted(tcp)?, Arc::new(pass))?;
        self.more.push(number);
        Ok(())
    }

    /// Takes a connection from a web server after the WebSocket handshake.
    fn adopt(&mut self, arrival: Arrival) -> io::Result<()> {
        let Arrival { tcp, tls, unread, read, pass } = arrival;
        // A TLS session may hold decrypted frames.
        let has_read = !read.is_empty() || !unread.is_empty() || tls.is_some();
        let number = self.insert(WebState::adopted(tcp, tls, &unread, read)?, pass)?;
        self.more.extend(Some(number).filter(|_| has_read));
        Ok(())
    }

    fn insert(&mut self, state: WebState, pass: Arc<Pass>) -> io::Result<u64> {
        let number = self.next;
        self.next += 1;
        let shared = Arc::clone(&self.shared);
        if !pass.on_loss(move || shared.streams.lose(number)) {
            return Err(io::Error::other("the connection was evicted already"));
        }
        self.poller.add(state.tcp().as_fd(), number, Interest::READ)?;
        self.shared.streams.set(number, true);
        let mut connection = WebConnection {
            state: Some(state),
            pass,
            bound: None,
            due: None,
            messages_left: Some(UNBOUND_MESSAGES),
            told: 0,
            blocked: false,
            awaits_room: false,
        };
        Self::expect_by(&mut self.deadlines, &mut connection, number);
        self.connections.insert(number, connection);
        Ok(number)
    }

    /// Sets the deadline of a connection, at which its pass expires.
    fn expect_by(deadlines: &mut BTreeSet<(Time, u64)>, connection: &mut WebConnection, number: u64) {
        let due = clocks().now + connection.pass.remaining();
        connection.due = Some(due);
        deadlines.insert((due, number));
    }

    /// Serves a connection that can be read or written. Both are tried, because TLS may have read while it wrote.
    fn turn(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        connection.blocked = false;
        let Some(mut state) = connection.state.take() else { return };
        state.socket().begin_turn(TURN_BYTES);
        connection.state = state.go_on(&connection.pass, self.tls.as_ref());
        if !self.read(number) || !self.account(number) {
            return self.end(number);
        }
        self.write(number);
    }

    /// Gives a connection another turn if the budget ended this one. Returns false if it sent too many bytes for its messages.
    fn account(&mut self, number: u64) -> bool {
        let Some(connection) = self.connections.get_mut(&number) else { return false };
        let Some(state) = &mut connection.state else { return false };
        let socket = state.socket();
        if socket.is_spent() {
            self.more.push(number);
        }
        match connection.messages_left {
            Some(_) => socket.total() <= UNBOUND_BYTES,
            None => socket.total().saturating_sub(connection.told) <= UNFINISHED_BYTES,
        }
    }

    /// Reads messages. Returns false if the connection has to be closed.
    fn read(&mut self, number: u64) -> bool {
        for _ in 0..TURN {
            let Some(connection) = self.connections.get_mut(&number) else { return false };
            let Some(WebState::Open(socket)) = &mut connection.state else { return true };
            let read = socket.read();
            if read.is_ok()
                && let Some(left) = &mut connection.messages_left
            {
                let Some(fewer) = left.checked_sub(1) else { return false };
                *left = fewer;
            }
            if let Ok(Message::Binary(_) | Message::Text(_)) = read {
                connection.told = socket.get_mut().socket().total();
            }
            match read {
                Ok(Message::Binary(message)) => {
                    let mut frame = message.to_vec();
                    self.take(number, &mut frame);
                }
                // The library answers pings; text and pongs are ignored.
                Ok(Message::Close(_)) => return false,
                Ok(_) => {}
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
        self.more.push(number);
        true
    }

    /// Takes one frame.
    fn take(&mut self, number: u64, bytes: &mut [u8]) {
        let place = ClientAddress::Stream(number);
        let client = self.forward.client_at(&place);
        if let Some(slot) = client.filter(|_| frame::data(bytes).is_some()) {
            self.carry(slot, bytes);
            return;
        }
        if !frame::is_frame(bytes) {
            self.forward.count_not_wireguard();
            return;
        }
        let from = self.connections.get(&number).map(|connection| connection.pass.client());
        let (clocks, entropy) = (clocks(), &mut self.entropy);
        let pass = self.connections.get(&number).map(|connection| &connection.pass);
        if client.is_none() && !pass.is_some_and(|pass| pass.may_send(clocks.now)) {
            self.shared.streams.hurried.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let _refused_and_counted =
            self.shared.with_server(self.number, &mut self.forward, &mut self.replies, |server| {
                server.handle_frame(place, from, bytes, clocks, entropy)
            });
        self.reply();
        // The connection that the client left comes first: a client has one address at a time.
        self.follow();
        self.look_at(number);
    }

    fn carry(&mut self, slot: u32, bytes: &mut [u8]) {
        let now = clocks().now;
        let mut outcome = self.forward.forward(slot, bytes, now);
        if outcome == Err(NoForward::UnknownId) && self.shared.take_changes(self.number, &mut self.forward) {
            outcome = self.forward.forward(slot, bytes, now);
        }
        if let Ok(to) = outcome {
            self.shared.send(&self.udp, to, bytes);
        }
    }

    fn reply(&mut self) {
        for reply in self.replies.drain(..) {
            self.shared.send(&self.udp, reply.address, reply.as_bytes());
        }
    }

    /// Updates a connection on which a client may have been bound, or which its client may have left.
    fn look_at(&mut self, number: u64) {
        let client = self.forward.client_at(&ClientAddress::Stream(number));
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if connection.bound == client {
            return;
        }
        if connection.bound.take().is_some() {
            self.bound.remove(number);
        }
        match client {
            Some(slot) => self.bind(number, slot),
            None => self.demote(number),
        }
    }

    /// Counts the connection as a member's. If there are too many, one of the network with the most connections is evicted.
    fn bind(&mut self, number: u64, slot: u32) {
        let network = self.shared.ask(|server| server.network_of(slot)).unwrap_or_default();
        // A client has one connection; its network may have all that no other network needs.
        let bounds = Bounds { host: 1, group: usize::MAX };
        let displaced = self.bound.enter(number, network, slot, bounds);
        let Some(connection) = self.connections.get_mut(&number) else { return };
        match displaced {
            Ok(displaced) => {
                (connection.bound, connection.messages_left) = (Some(slot), None);
                connection.pass.admit();
                if let Some(due) = connection.due.take() {
                    self.deadlines.remove(&(due, number));
                }
                displaced.into_iter().for_each(|displaced| self.crowd_out(displaced));
            }
            Err(_) => self.crowd_out(number),
        }
    }

    /// Counts the connection as a new one, because its client has moved.
    fn demote(&mut self, number: u64) {
        let shared = Arc::clone(&self.shared);
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if connection.pass.demote(move || shared.streams.lose(number)) {
            Self::expect_by(&mut self.deadlines, connection, number);
        } else {
            self.crowd_out(number);
        }
    }

    /// Drains the outputs of the forwarding table: connections that their clients left.
    fn follow(&mut self) {
        while let Some(ForwardOutput::StreamLeft(number)) = self.forward.poll_output() {
            self.look_at(number);
        }
    }

    fn crowd_out(&mut self, number: u64) {
        if self.connections.contains_key(&number) {
            self.shared.streams.crowded.fetch_add(1, Ordering::Relaxed);
            self.end(number);
        }
    }

    /// Sends the queued frames of connections with room.
    fn deliver(&mut self) {
        for number in self.shared.streams.ready() {
            self.write(number);
        }
    }

    fn write(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let Some(WebState::Open(socket)) = &mut connection.state else { return };
        if connection.blocked {
            return;
        }
        let outcome = write(socket, || self.shared.streams.pop(number));
        connection.blocked = outcome.is_err();
        if matches!(outcome, Ok(true)) {
            self.more.push(number);
        }
        if std::mem::replace(&mut connection.awaits_room, connection.blocked) != connection.blocked {
            let interest = if connection.blocked { Interest::READ_WRITE } else { Interest::READ };
            // The poller refuses only a connection that is gone, and its next read fails.
            let _ = self.poller.modify(socket.get_ref().tcp().as_fd(), number, interest);
        }
        if outcome.is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock) {
            self.end(number);
        }
    }

    fn handle_timeout(&mut self) {
        let now = clocks().now;
        if let Some(listener) = &mut self.listener {
            listener.handle_timeout(&self.poller, now);
        }
        while let Some((_, number)) = self.deadlines.first().copied().filter(|(due, _)| *due <= now) {
            self.shared.streams.late.fetch_add(1, Ordering::Relaxed);
            self.end(number);
        }
    }

    fn end(&mut self, number: u64) {
        let Some(connection) = self.connections.remove(&number) else { return };
        if let Some(due) = connection.due {
            self.deadlines.remove(&(due, number));
        }
        if connection.bound.is_some() {
            self.bound.remove(number);
        }
        self.shared.streams.set(number, false);
        let place = ClientAddress::Stream(number);
        if self.forward.client_at(&place).is_some() {
            self.shared.with_server(self.number, &mut self.forward, &mut self.replies, |server| {
                server.handle_hangup(place);
            });
            self.reply();
        }
    }
}

/// Writes at most [`TURN`] frames, until the socket is full (`WouldBlock`). Returns true if more may wait: another thread may add frames as fast as they are sent.
fn write(socket: &mut WebSocket<Stream>, mut next: impl FnMut() -> Option<Vec<u8>>) -> io::Result<bool> {
    let kept = |error| match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    };
    socket.flush().map_err(kept)?;
    for _ in 0..TURN {
        let Some(frame) = next() else { return Ok(false) };
        socket.send(Message::binary(frame)).map_err(kept)?;
    }
    Ok(true)
}

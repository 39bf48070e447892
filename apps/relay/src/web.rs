//! The same frames over WebSocket, for nodes that cannot use UDP: one frame per binary message, in both directions.
//!
//! One thread has all connections, and a table of its own like every worker. What is for a client waits in that client's queue ([`crate::streams`]), so that one that
//! does not read is nobody else's trouble; what it sends leaves by a UDP socket of the relay's, or waits in another client's queue.
//!
//! ```text
//!              unauthenticated: 10 s in all, a share per address ([`Admission`])                      bound: as long as the binding lasts
//! accept ──▶ PROXY header, TLS, HTTP ──▶ open, bind ─────────────────── first control frame ──▶ one per member, a share per network
//! Entrance (a web server has shaken hands) ──▶ ▲ │                                                                │
//!                                              │ └──▶ closed: late, or another one needs the place                │
//!                                              └────────── the client moved elsewhere, or its binding ended ◀─────┘
//! ```
//! The WebSocket handshake proves nothing: a connection counts as unauthenticated until a client's binding is confirmed on it (fault F13).
//!
//! **Cost.** An event costs the same whatever the number of connections: those with something to send are a queue, deadlines are ordered by time. In one
//! turn at most [`STRANGERS`] connections that are not bound are served, in rotation, so that their handshakes do not hold up members' frames.
//!
//! A turn of one connection ends after [`TURN`] messages or [`TURN_BYTES`] in each direction, whatever the peer sends: a WebSocket message may have frames without
//! end, and the library reads until it is complete. Between turns deadlines are checked, other connections are served, and changes of other threads are
//! taken, so that the queue of those ([`crate::shared`]) holds no more than what happens in one turn of all.

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
use taut_relay::{ClientAddress, Forward, ForwardOutput, ForwardRate, NoForward, Reply, frame};
use taut_udp::UdpSocket;
use tungstenite::Error;
use tungstenite::protocol::{Message, WebSocket};

use crate::admission::{Admission, Pass};
use crate::listener::Listener;
use crate::shared::Shared;
use crate::system::{OsEntropy, clocks};
pub use entrance::{Entrance, accept_key};
use opening::State;
use stream::Stream;

/// Where to listen, whether with TLS, and how many connections there may be.
#[derive(Clone, Debug)]
pub struct WebConfig {
    /// TCP address; none where all connections come by the [`Entrance`].
    pub address: Option<SocketAddr>,
    /// PEM files of the certificate's chain and of its key; none for plain `ws://`, behind a front that does TLS.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The table of connections that are not bound.
    pub admission: Arc<Admission>,
    /// Most connections of bound clients.
    pub streams: usize,
}

/// Messages taken from one connection, and frames sent to it, before the others have their turn.
const TURN: u32 = 64;
/// Bytes read from one connection, TLS included, before the others have their turn: 64 KiB, about [`TURN`] packets of Ethernet. As empty WebSocket frames of 6 bytes
/// they take about a millisecond, as long as a TLS handshake.
const TURN_BYTES: usize = 64 * 1024;
/// Connections that are not bound and are served in one turn. Each takes a millisecond at most ([`TURN_BYTES`]), so a member's frame waits 8 ms for them at most.
const STRANGERS: usize = 8;
/// Messages on a connection on which no client was ever bound, before it is closed. A client binds with three at most, and says no more until it is bound.
const WORDS: u32 = 64;
/// Bytes on a connection on which no client was ever bound, before it is closed: 256 KiB. A request has 64 KiB at most, the peer's part of TLS a few KiB, and [`WORDS`]
/// messages as long as an Ethernet packet 96 KiB. A `bind`, the longest frame that such a client has to send, has 328 bytes.
const UNBOUND_BYTES: u64 = 256 * 1024;
/// Bytes on a connection since its last complete message, before it is closed: four times the largest message. The rest is room for TLS, pings between two
/// messages and proxies that fragment; a message of empty frames would never end.
const UNFINISHED_BYTES: u64 = 4 * MAX_DATAGRAM as u64;
/// Connections accepted in one turn, for the same reason.
const ACCEPTS: u32 = 16;
/// Connections that one wait reports: as many as may be unauthenticated, so that members are seen among them.
const EVENTS: usize = 1_024;
/// Turns of sending at the end: enough for all that waits for a client ([`crate::streams`]), as the shortest frames.
const LAST_TURNS: usize = 128;
/// The longest sleep, after which counters are published again.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

const LISTENER: u64 = 0;
const WOKEN: u64 = 1;
/// The first connection's number; numbers are never used again.
const FIRST: u64 = 2;

struct Connection {
    /// `None` only while it is being turned into the next one.
    state: Option<State>,
    pass: Arc<Pass>,
    /// The client that is bound here, as the server names it.
    bound: Option<u32>,
    /// When it is closed unless a client was bound by then.
    due: Option<Time>,
    /// How many messages may still come before a client is bound; `None` once one was.
    words: Option<u32>,
    /// Bytes that had been read at its last complete message.
    told: u64,
    /// Its socket was full.
    blocked: bool,
    /// The kernel was asked to say when it is not.
    awaits_room: bool,
}

/// The thread's whole state.
pub(crate) struct Web {
    number: usize,
    listener: Option<Listener>,
    tls: Option<Arc<ServerConfig>>,
    admission: Arc<Admission>,
    udp: UdpSocket,
    waker: Waker,
    poller: Poller,
    connections: BTreeMap<u64, Connection>,
    next: u64,
    /// When connections are closed unless a client was bound by then: one entry for each [`Connection::due`].
    deadlines: BTreeSet<(Time, u64)>,
    /// Connections of bound clients, by network and client.
    bound: taut_base::Admission<[u8; 16], u32>,
    /// Connections that have another turn without an event of the kernel: the libraries may have read more than was taken, or a budget ended the last turn.
    more: Vec<u64>,
    /// The connection that was served last among those that are not bound; the next turn begins behind it.
    last_stranger: u64,
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
        share: ForwardRate,
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
            last_stranger: 0,
            forward: Forward::with_streams(share),
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
            for (tcp, read, pass) in self.shared.streams.arrivals() {
                // One that fails at once is gone; nobody is told.
                let _ = self.adopt(tcp, read, pass);
            }
            self.handle(&events);
            self.follow();
            self.deliver();
            self.handle_timeout();
            if let Some(published) = self.shared.published.get(self.number) {
                published.show(&self.forward.counts());
            }
        }
        // The first worker said goodbye for all; what it left here goes out as far as it can.
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
        let (members, mut strangers): (Vec<u64>, Vec<u64>) = due.into_iter().partition(is_bound);
        members.into_iter().for_each(|number| self.turn(number));
        // In rotation: those that always have something to say come first in the kernel's order.
        let next = strangers.partition_point(|number| *number <= self.last_stranger);
        strangers.rotate_left(next);
        self.more.extend(strangers.drain(STRANGERS.min(strangers.len())..));
        for number in strangers {
            self.last_stranger = number;
            self.turn(number);
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS {
            let Some(listener) = &mut self.listener else { return };
            let Some((tcp, address)) = listener.accept(&self.poller, clocks().now) else { return };
            match self.admission.enter(address.ip()) {
                // One that fails at once is gone; nobody is told.
                Some(pass) => _ = self.begin(tcp, pass),
                None => _ = self.shared.streams.crowded.fetch_add(1, Ordering::Relaxed),
            }
        }
    }

    fn begin(&mut self, tcp: TcpStream, pass: Pass) -> io::Result<()> {
        let number = self.insert(State::accepted(tcp)?, Arc::new(pass))?;
        self.more.push(number);
        Ok(())
    }

    /// Takes a connection on which a web server has shaken hands already; `read` came behind that.
    fn adopt(&mut self, tcp: TcpStream, read: Vec<u8>, pass: Arc<Pass>) -> io::Result<()> {
        let has_read = !read.is_empty();
        let number = self.insert(State::adopted(tcp, read)?, pass)?;
        self.more.extend(Some(number).filter(|_| has_read));
        Ok(())
    }

    fn insert(&mut self, state: State, pass: Arc<Pass>) -> io::Result<u64> {
        let number = self.next;
        self.next += 1;
        let shared = Arc::clone(&self.shared);
        if !pass.on_loss(move || shared.streams.lose(number)) {
            return Err(io::Error::other("another connection has its place already"));
        }
        self.poller.add(state.tcp().as_fd(), number, Interest::READ)?;
        self.shared.streams.set(number, true);
        let mut connection = Connection {
            state: Some(state),
            pass,
            bound: None,
            due: None,
            words: Some(WORDS),
            told: 0,
            blocked: false,
            awaits_room: false,
        };
        Self::expect_by(&mut self.deadlines, &mut connection, number);
        self.connections.insert(number, connection);
        Ok(number)
    }

    /// The connection is closed when the time is over that its pass leaves it.
    fn expect_by(deadlines: &mut BTreeSet<(Time, u64)>, connection: &mut Connection, number: u64) {
        let due = clocks().now + connection.pass.remaining();
        connection.due = Some(due);
        deadlines.insert((due, number));
    }

    /// A connection has something to say, or room for something. Both are looked at: TLS may have read while it wrote.
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

    /// Gives a connection another turn if the budget ended this one; false if it sent too many bytes for what they said.
    fn account(&mut self, number: u64) -> bool {
        let Some(connection) = self.connections.get_mut(&number) else { return false };
        let Some(state) = &mut connection.state else { return false };
        let socket = state.socket();
        if socket.is_spent() {
            self.more.push(number);
        }
        match connection.words {
            Some(_) => socket.total() <= UNBOUND_BYTES,
            None => socket.total().saturating_sub(connection.told) <= UNFINISHED_BYTES,
        }
    }

    /// Takes messages; false when the connection is of no use any more.
    fn read(&mut self, number: u64) -> bool {
        for _ in 0..TURN {
            let Some(connection) = self.connections.get_mut(&number) else { return false };
            let Some(State::Open(socket)) = &mut connection.state else { return true };
            let read = socket.read();
            if read.is_ok()
                && let Some(words) = &mut connection.words
            {
                let Some(fewer) = words.checked_sub(1) else { return false };
                *words = fewer;
            }
            if let Ok(Message::Binary(_) | Message::Text(_)) = read {
                connection.told = socket.get_mut().socket().total();
            }
            match read {
                Ok(Message::Binary(message)) => {
                    let mut frame = message.to_vec();
                    self.take(number, &mut frame);
                }
                // Pings are answered by the library; text and pongs mean nothing here.
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
        // A connection that the client left first: a client is at one place at a time.
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

    /// A client was bound on this connection, or left it.
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

    /// The connection is a member's. It makes room for a member of a network with fewer connections where there are too many.
    fn bind(&mut self, number: u64, slot: u32) {
        let network = self.shared.ask(|server| server.network_of(slot)).unwrap_or_default();
        // A client is at one place at a time; its network may have all places that no other network needs.
        let bounds = Bounds { host: 1, group: usize::MAX };
        let displaced = self.bound.enter(number, network, slot, bounds);
        let Some(connection) = self.connections.get_mut(&number) else { return };
        match displaced {
            Ok(displaced) => {
                (connection.bound, connection.words) = (Some(slot), None);
                connection.pass.admit();
                if let Some(due) = connection.due.take() {
                    self.deadlines.remove(&(due, number));
                }
                displaced.into_iter().for_each(|displaced| self.crowd_out(displaced));
            }
            Err(_) => self.crowd_out(number),
        }
    }

    /// The client is elsewhere: the connection is as good as a new one.
    fn demote(&mut self, number: u64) {
        let shared = Arc::clone(&self.shared);
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if connection.pass.demote(move || shared.streams.lose(number)) {
            Self::expect_by(&mut self.deadlines, connection, number);
        } else {
            self.crowd_out(number);
        }
    }

    /// Counts connections again that their clients left.
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

    /// Sends what waits, to clients with room for it.
    fn deliver(&mut self) {
        for number in self.shared.streams.ready() {
            self.write(number);
        }
    }

    fn write(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let Some(State::Open(socket)) = &mut connection.state else { return };
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
            // Only a connection that is gone is not watched any more, and its next read says so.
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

/// Writes [`TURN`] frames at most, until there is no room (`WouldBlock`). Returns true if more may wait: another thread may add frames as fast as they leave.
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

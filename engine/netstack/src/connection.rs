//! One connection, between a socket of this host and one of the stack.
//!
//! ```text
//! out:  Handshake ─▶ Naming ─▶ Connecting ─▶ Relay        in:  Reaching (the local program) ─▶ Relay
//!           └──────────┴───────────┴─▶ Ending (the client reads why)
//! ```

use std::io::Read;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::State;
use socket2::SockRef;
use taut_base::{Prefix, Time};
use taut_event::Interest;
use taut_proxy::{Host, Refusal, Target};

use crate::handshake::{MAX_HANDSHAKE, Protocol, Step};
use crate::names::{Names, QuestionId};
use crate::relay::{End, Flow};
use crate::shares::Client;
use crate::stack::Stack;

/// Time that a client has to say where it wants to go, 10 s.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time until a peer has to answer, and a program of this host, 10 s: a SYN is repeated three times in it, and a path through a relay stands in the first second.
const ANSWER: Duration = Duration::from_secs(10);
/// Time without a byte in either direction after which a connection ends, 2 h. Peers that vanished are noticed long before that; this is for programs that forgot one.
const IDLE: Duration = Duration::from_secs(7_200);
/// Time that a client has to read why there is no connection, 2 s.
const ENDING: Duration = Duration::from_secs(2);

/// What connections work with.
pub(crate) struct Context<'a> {
    pub(crate) stack: &'a mut Stack,
    pub(crate) names: &'a mut Names,
    pub(crate) reachable: &'a [Prefix],
    pub(crate) name_servers: &'a [IpAddr],
    pub(crate) zone: &'a str,
    pub(crate) now: Time,
}

/// A connection.
pub(crate) struct Connection {
    /// The client whose share it counts in.
    pub(crate) client: Client,
    pub(crate) local: TcpStream,
    remote: Option<SocketHandle>,
    protocol: Protocol,
    phase: Phase,
    pub(crate) flow: Flow,
    deadline: Time,
    /// What the poller watches; `None` after a hang-up, which it would report without end.
    pub(crate) watched: Option<Interest>,
}

enum Phase {
    Handshake,
    Naming(QuestionId, u16),
    Connecting,
    Reaching,
    Relay,
    Ending,
    /// Nothing is left to do.
    Over,
}

impl Connection {
    /// Begins a connection of a program to a service of this host.
    pub(crate) fn outgoing(local: TcpStream, client: Client, protocol: Protocol, now: Time) -> Self {
        let flow = Flow { writable: true, ..Flow::default() };
        let (phase, deadline) = (Phase::Handshake, now + HANDSHAKE);
        Self { client, local, remote: None, protocol, phase, flow, deadline, watched: Some(Interest::READ) }
    }

    /// Begins a connection of a peer to a published port; `local` is being connected.
    pub(crate) fn incoming(local: TcpStream, client: Client, remote: SocketHandle, now: Time) -> Self {
        let (phase, deadline) = (Phase::Reaching, now + ANSWER);
        let watched = Some(Interest::WRITE);
        Self {
            client,
            local,
            remote: Some(remote),
            protocol: Protocol::None,
            phase,
            flow: Flow::default(),
            deadline,
            watched,
        }
    }

    /// Goes to a destination that the client need not say.
    pub(crate) fn go(&mut self, target: &Target, c: &mut Context<'_>) {
        self.seek(target, c);
    }

    /// Returns the time at which something is due, whatever happens.
    pub(crate) fn deadline(&self) -> Time {
        self.deadline
    }

    /// Does what can be done. Returns false if the connection is over; both of its sockets are closed or closing then.
    pub(crate) fn turn(&mut self, c: &mut Context<'_>) -> bool {
        if c.now >= self.deadline {
            self.expire(c);
        }
        match self.phase {
            Phase::Handshake => self.hear(c),
            Phase::Naming(id, port) => match c.names.take(id) {
                None => {}
                Some(Ok(addresses)) => self.connect(&addresses, port, c),
                Some(Err(refusal)) => self.refuse(refusal, c),
            },
            _ => {}
        }
        match self.phase {
            Phase::Connecting => self.await_peer(c),
            Phase::Reaching => self.await_program(c),
            _ => {}
        }
        match self.phase {
            Phase::Relay => self.relay(c),
            Phase::Ending => self.end(),
            _ => {}
        }
        !matches!(self.phase, Phase::Over)
    }

    fn hear(&mut self, c: &mut Context<'_>) {
        let before = self.flow.received.len();
        let gone = !self.fill();
        if !gone && self.flow.received.len() == before {
            // The bytes that are there were handed to the protocol when they came.
            return;
        }
        loop {
            match self.protocol.hear(&mut self.flow.received) {
                Step::Wait if gone => return self.phase = Phase::Over,
                Step::Wait => return,
                Step::Say(bytes) => self.flow.pending.extend(bytes),
                Step::End(bytes) => {
                    self.flow.pending.extend(bytes);
                    return self.begin_end(c);
                }
                Step::Connect(target, first) => {
                    self.flow.received.splice(..0, first);
                    self.seek(&target, c);
                    return self.say();
                }
            }
            self.say();
        }
    }

    /// Reads what the client says. Returns false if it is gone.
    fn fill(&mut self) -> bool {
        let mut chunk = [0; 4_096];
        while self.flow.readable && self.flow.received.len() < MAX_HANDSHAKE {
            match self.local.read(&mut chunk) {
                Ok(0) => return false,
                Ok(count) => self.flow.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => self.flow.readable = false,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Looks for the destination.
    fn seek(&mut self, target: &Target, c: &mut Context<'_>) {
        match &target.host {
            Host::Address(address) => self.connect(&[*address], target.port, c),
            Host::Name(name) => match c.names.ask(c.stack, name, c.zone, c.name_servers, c.now) {
                Ok(id) => (self.phase, self.deadline) = (Phase::Naming(id, target.port), c.now + ANSWER),
                Err(refusal) => self.refuse(refusal, c),
            },
        }
    }

    fn connect(&mut self, addresses: &[IpAddr], port: u16, c: &mut Context<'_>) {
        let is_inside = |address: &&IpAddr| c.reachable.iter().any(|prefix| prefix.contains(**address));
        let own = c.stack.addresses();
        let is_usable = |address: &&IpAddr| own.iter().any(|own| own.is_ipv4() == address.is_ipv4());
        let Some(address) = addresses.iter().filter(is_inside).find(is_usable) else {
            return self.refuse(Refusal::Outside, c);
        };
        if own.contains(address) {
            // Programs of this host reach each other without the overlay.
            return self.refuse(Refusal::Refused, c);
        }
        match c.stack.connect(SocketAddr::new(*address, port)) {
            Some(handle) => {
                self.remote = Some(handle);
                (self.phase, self.deadline) = (Phase::Connecting, c.now + ANSWER);
            }
            None => self.refuse(Refusal::Outside, c),
        }
    }

    fn await_peer(&mut self, c: &mut Context<'_>) {
        let Some(handle) = self.remote else { return };
        let socket = c.stack.tcp(handle);
        match socket.state() {
            State::SynSent | State::SynReceived => {}
            State::Closed => self.refuse(Refusal::Refused, c),
            _ => {
                let own = socket.local_endpoint();
                let own =
                    own.map_or(SocketAddr::from(([0, 0, 0, 0], 0)), |own| (IpAddr::from(own.addr), own.port).into());
                self.flow.pending.extend(self.protocol.connected(own));
                (self.phase, self.deadline) = (Phase::Relay, c.now + IDLE);
            }
        }
    }

    fn await_program(&mut self, c: &mut Context<'_>) {
        let Some(handle) = self.remote else { return };
        if c.stack.tcp(handle).state() == State::Closed {
            return self.over(End::Remote, c);
        }
        if !self.flow.writable {
            return;
        }
        match SockRef::from(&self.local).take_error() {
            Ok(None) => {
                c.stack.accept(handle);
                self.flow.readable = true;
                (self.phase, self.deadline) = (Phase::Relay, c.now + IDLE);
            }
            _ => self.over(End::Local, c),
        }
    }

    fn relay(&mut self, c: &mut Context<'_>) {
        let Some(handle) = self.remote else { return };
        let before = self.flow.moved;
        if let Some(end) = self.flow.pump(&self.local, c.stack.tcp(handle)) {
            return self.over(end, c);
        }
        if self.flow.moved != before {
            self.deadline = c.now + IDLE;
        }
    }

    /// Acts at the deadline.
    fn expire(&mut self, c: &mut Context<'_>) {
        match self.phase {
            Phase::Naming(..) | Phase::Connecting => self.refuse(Refusal::NoAnswer, c),
            Phase::Reaching | Phase::Relay => self.over(End::Remote, c),
            Phase::Handshake | Phase::Ending | Phase::Over => self.phase = Phase::Over,
        }
    }

    /// Tells the client why there is no connection, or resets its own if there are no words for it.
    fn refuse(&mut self, refusal: Refusal, c: &mut Context<'_>) {
        let words = self.protocol.refused(refusal);
        if words.is_empty() {
            return self.over(End::Remote, c);
        }
        self.flow.pending.extend(words);
        self.begin_end(c);
    }

    fn begin_end(&mut self, c: &mut Context<'_>) {
        self.drop_remote(c);
        (self.phase, self.deadline) = (Phase::Ending, c.now + ENDING);
    }

    /// Sends what is left, and waits until the client closes: a socket that is closed with unread bytes resets its connection, and the client would not read the words.
    fn end(&mut self) {
        self.say();
        if !self.flow.pending.is_empty() {
            return;
        }
        let _ = self.local.shutdown(Shutdown::Write);
        self.flow.received.clear();
        if !self.fill() {
            self.phase = Phase::Over;
        }
        self.flow.received.clear();
    }

    /// Writes what the client has to be told.
    fn say(&mut self) {
        use std::io::Write;
        while !self.flow.pending.is_empty() {
            match self.local.write(&self.flow.pending) {
                Ok(count) => drop(self.flow.pending.drain(..count)),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return self.flow.writable = false,
                Err(_) => self.flow.pending.clear(),
            }
        }
    }

    /// Ends the connection at both sides.
    fn over(&mut self, end: End, c: &mut Context<'_>) {
        if let Phase::Naming(id, _) = std::mem::replace(&mut self.phase, Phase::Over) {
            c.names.forget(id);
        }
        match (end, self.remote.take()) {
            (End::Done, Some(handle)) => return c.stack.finish(handle),
            (_, Some(handle)) => c.stack.reset(handle),
            (_, None) => {}
        }
        // The program must not take a cut stream for a complete one.
        let _ = SockRef::from(&self.local).set_linger(Some(Duration::ZERO));
    }

    fn drop_remote(&mut self, c: &mut Context<'_>) {
        if let Phase::Naming(id, _) = self.phase {
            c.names.forget(id);
        }
        if let Some(handle) = self.remote.take() {
            c.stack.reset(handle);
        }
    }

    /// Returns what the poller has to watch.
    pub(crate) fn interest(&self, stack: &mut Stack) -> Interest {
        let flow = &self.flow;
        let mut waits = || !flow.pending.is_empty() || self.remote.is_some_and(|handle| stack.tcp(handle).can_recv());
        match self.phase {
            Phase::Reaching => Interest { readable: false, writable: !flow.writable },
            // While the client is not served, what it sends waits in its socket.
            Phase::Naming(..) | Phase::Connecting => Interest::NONE,
            _ => Interest { readable: flow.wants_read(), writable: !flow.writable && waits() },
        }
    }
}

//! The local API's sockets: bounded per user id, never blocking.
//!
//! - this file: the poller's side of connections;
//! - `listener`: the two listening sockets;
//! - `admission`: which users hold a connection, and whose request is answered next;
//! - `connection`: one connection's bytes.

mod admission;
mod connection;
mod listener;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use taut_base::Time;
use taut_event::{Interest, Poller, effective_uid, peer_credentials};

use crate::api::{Failure, Request, Response, private_socket};
use crate::error::RunError;
use admission::{Admission, Full, Party};
pub(crate) use connection::{Connection, Step};
use listener::{ACCEPTS_AT_ONCE, Listener, Pending, is_answered};

/// Tokens of connections start here; the daemon's own are below.
pub(crate) const FIRST_CONNECTION: u64 = 16;

/// What a user id is charged for a connection, 50 µs: accepting, watching and closing it, and evicting another one for it.
const ACCEPT_COST: Duration = Duration::from_micros(50);

/// Turns in which a place is looked for, before a connection is refused: from the third on, every connection that came earlier has been heard.
const TRIES: u8 = 4;

/// The listening sockets and their connections.
pub(crate) struct Server {
    /// In the order in which they are served: the private one, unless its path is too long for a socket, and the public one.
    listeners: Vec<Listener>,
    connections: BTreeMap<u64, Connection>,
    admission: Admission,
    /// User ids that may change something: root, and the daemon's own.
    trusted: [u32; 2],
    next: u64,
    token: u64,
}

impl Server {
    /// Listens at `path`, where every local user may connect, and at the private socket beside it. A socket that nobody answers on is a leftover and is
    /// replaced.
    pub(crate) fn listen(path: &Path) -> Result<Self, RunError> {
        let private = private_socket(path);
        for path in [private.as_path(), path] {
            if is_answered(path) {
                return Err(RunError::AlreadyRunning(path.to_path_buf()));
            }
        }
        let failed = |path: &Path, error| RunError::Socket(path.to_path_buf(), error);
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(|error| failed(path, error))?;
        }
        // The private one comes first, so that it is there once a client finds the public one.
        let first = match Listener::open(&private, 0o600) {
            // Release 0.1.0 takes a `path` up to the longest that a socket may have, and such a daemon keeps on working.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => None,
            opened => Some(opened.map_err(|error| failed(&private, error))?),
        };
        let public = Listener::open(path, 0o666).map_err(|error| failed(path, error))?;
        Ok(Self {
            listeners: first.into_iter().chain([public]).collect(),
            connections: BTreeMap::new(),
            admission: Admission::default(),
            trusted: [0, effective_uid()],
            next: FIRST_CONNECTION,
            token: 0,
        })
    }

    /// Has `poller` report new connections as `token`.
    pub(crate) fn register(&mut self, poller: &Poller, token: u64) -> io::Result<()> {
        self.token = token;
        self.listeners.iter().try_for_each(|listener| listener.register(poller, token))
    }

    /// Accepts connections, after `poller` reported a listening socket.
    pub(crate) fn accept(&mut self, poller: &Poller, now: Time) {
        for place in 0..self.listeners.len() {
            self.accept_at(place, poller, now);
        }
    }

    fn accept_at(&mut self, place: usize, poller: &Poller, now: Time) {
        if !self.listeners[place].wake(now) {
            return;
        }
        for _ in 0..ACCEPTS_AT_ONCE {
            let Some(stream) = self.listeners[place].accept(now) else { break };
            self.meet(place, stream, poller, now);
        }
        self.listeners[place].watch(poller, self.token);
    }

    /// Asks the kernel whose connection it is, and gives it a place.
    fn meet(&mut self, place: usize, stream: UnixStream, poller: &Poller, now: Time) {
        let Ok(credentials) = peer_credentials(&stream) else { return };
        let is_trusted = self.trusted.contains(&credentials.uid);
        let party = if is_trusted { Party::Trusted } else { Party::User(credentials.uid) };
        if !is_trusted {
            self.admission.charge(credentials.uid, ACCEPT_COST, now);
        }
        if stream.set_nonblocking(true).is_ok() {
            self.admit(place, Pending { stream, party, tries: 1 }, poller, now);
        }
    }

    /// Gives a connection a place, and closes another one for it where need be. A connection that finds no place is tried again in the next turns: by
    /// then, every connection that was accepted just before it has been heard.
    fn admit(&mut self, place: usize, found: Pending, poller: &Poller, now: Time) {
        let token = self.next;
        let Pending { stream, party, tries } = found;
        match self.admission.admit(token, party, now) {
            Ok(evicted) => evicted.into_iter().for_each(|evicted| self.close(evicted, poller)),
            Err(Full) if tries < TRIES => {
                self.listeners[place].pending = Some(Pending { stream, party, tries: tries + 1 });
                return;
            }
            Err(Full) => return Connection::new(stream, false).refuse(crowded()),
        }
        self.next += 1;
        let connection = Connection::new(stream, party == Party::Trusted);
        if poller.add(connection.as_fd(), token, Interest::READ).is_ok() {
            self.connections.insert(token, connection);
        } else {
            self.admission.remove(token);
        }
    }

    /// Goes on with a connection after `poller` reported it. A trusted user's request is carried out by `answer`; another user's waits for
    /// [`Self::handle_timeout`].
    pub(crate) fn serve(
        &mut self,
        token: u64,
        poller: &Poller,
        now: Time,
        mut answer: impl FnMut(Request) -> Response,
    ) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let step = loop {
            match connection.advance() {
                Step::Asked if self.admission.is_trusted(token) => connection.answer(&mut answer),
                step => break step,
            }
        };
        let fd = connection.as_fd();
        match step {
            Step::Ended => self.close(token, poller),
            // It is not watched meanwhile: the kernel would report a client that hung up again and again.
            Step::Asked => {
                poller.remove(fd);
                self.admission.ask(token, now);
            }
            Step::Part if !self.admission.is_trusted(token) => {
                poller.remove(fd);
                self.admission.wait_for_rest(token, now);
            }
            Step::Idle | Step::Part => {
                watch(poller, connection, token, Interest::READ);
                self.admission.wait(token, now);
            }
            Step::Reader => {
                watch(poller, connection, token, Interest::WRITE);
                self.admission.wait_for_reader(token, now);
            }
        }
    }

    /// Ends a turn, after everything that `poller` reported was served, and does what is due: accepts again after a pause, closes connections whose time is over, reads the rest of requests, and answers one request. `clock`
    /// tells what that one costs.
    pub(crate) fn handle_timeout(
        &mut self,
        poller: &Poller,
        clock: impl Fn() -> Time,
        mut answer: impl FnMut(Request) -> Response,
    ) {
        let now = clock();
        self.admission.next_turn();
        if self.poll_timeout().is_none_or(|due| now < due) {
            return;
        }
        for place in 0..self.listeners.len() {
            if self.listeners[place].poll_timeout().is_some_and(|due| due <= now) {
                if let Some(pending) = self.listeners[place].pending.take() {
                    self.admit(place, pending, poller, now);
                }
                self.accept_at(place, poller, now);
            }
        }
        for token in self.admission.expired(now) {
            self.close(token, poller);
        }
        for token in self.admission.readable(now) {
            self.serve(token, poller, now, &mut answer);
        }
        let Some((token, user)) = self.admission.next(now) else { return };
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.answer(&mut answer);
        }
        self.serve(token, poller, now, &mut answer);
        self.admission.charge(user, clock().since(now), now);
    }

    /// Returns when [`Self::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.listeners.iter().filter_map(Listener::poll_timeout).chain(self.admission.poll_timeout()).min()
    }

    fn close(&mut self, token: u64, poller: &Poller) {
        self.admission.remove(token);
        if let Some(connection) = self.connections.remove(&token) {
            poller.remove(connection.as_fd());
        }
    }
}

/// Has `poller` report a connection, whether it is watched already or not.
fn watch(poller: &Poller, connection: &Connection, token: u64, interest: Interest) {
    let fd = connection.as_fd();
    // Open, and watched or not; if the kernel refused both, the time of the connection ends it.
    let _ = poller.modify(fd, token, interest).or_else(|_| poller.add(fd, token, interest));
}

fn crowded() -> Failure {
    Failure {
        message: String::from("the daemon answers too many local users at this moment"),
        hint: String::from("try again, or as root, who has places of its own"),
    }
}

#[cfg(test)]
mod tests;

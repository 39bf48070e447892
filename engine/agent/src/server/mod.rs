//! The sockets of the local API, bounded per user id and non-blocking.
//!
//! - this file: the connections, driven by the poller;
//! - `listener`: the two listening sockets;
//! - `admission`: the limits of each user, and the order in which requests are answered;
//! - `connection`: the bytes of one connection.

mod admission;
mod connection;
mod listener;

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use taut_base::{SortedMap, Time};
use taut_event::{Interest, Poller, effective_uid, peer_credentials};

use crate::api::{ApiRequest, ApiResponse, Failure, private_socket};
use crate::error::RunError;
use admission::{LimitExceeded, UserAdmission, UserClass};
pub(crate) use connection::{Progress, UserConnection};
use listener::{ACCEPTS_AT_ONCE, Listener, PendingConnection, is_answered};

/// First poller token of connections; lower ones belong to the daemon.
pub(crate) const FIRST_CONNECTION: u64 = 16;

/// Processor time that a user id is charged for a connection, 50 µs: accepting, watching and closing it, and evicting another one for it.
const ACCEPT_COST: Duration = Duration::from_micros(50);

/// Number of turns in which a connection may be admitted before it is refused, four: from the third on, every earlier connection has been served.
const TRIES: u8 = 4;

/// The listening sockets and their connections.
pub(crate) struct ApiServer {
    /// The listeners in the order in which they are served: the private one, unless its path is too long for a socket, and the public one.
    listeners: Vec<Listener>,
    connections: SortedMap<u64, UserConnection>,
    admission: UserAdmission,
    /// User ids with all permissions: root, and the daemon's own.
    trusted: [u32; 2],
    next: u64,
    token: u64,
}

impl ApiServer {
    /// Listens at `path`, where every local user may connect, and at the private socket beside it. Sockets that no daemon answers on are replaced.
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
        // The private socket is created first: it exists when a client finds the public one.
        let first = match Listener::open(&private, 0o600) {
            // Release 0.1.0 accepts a `path` of the maximum length of a socket path. Such a daemon still works, without the private socket.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => None,
            opened => Some(opened.map_err(|error| failed(&private, error))?),
        };
        let public = Listener::open(path, 0o666).map_err(|error| failed(path, error))?;
        Ok(Self {
            listeners: first.into_iter().chain([public]).collect(),
            connections: SortedMap::new(),
            admission: UserAdmission::default(),
            trusted: [0, effective_uid()],
            next: FIRST_CONNECTION,
            token: 0,
        })
    }

    /// Has `poller` report new connections under `token`.
    pub(crate) fn register(&mut self, poller: &Poller, token: u64) -> io::Result<()> {
        self.token = token;
        self.listeners.iter().try_for_each(|listener| listener.register(poller, token))
    }

    /// Accepts connections, after `poller` reported a listening socket.
    pub(crate) fn accept(&mut self, poller: &Poller, now: Time) {
        for index in 0..self.listeners.len() {
            self.accept_at(index, poller, now);
        }
    }

    fn accept_at(&mut self, index: usize, poller: &Poller, now: Time) {
        if !self.listeners[index].wake(now) {
            return;
        }
        for _ in 0..ACCEPTS_AT_ONCE {
            let Some(stream) = self.listeners[index].accept(now) else { break };
            self.identify(index, stream, poller, now);
        }
        self.listeners[index].watch(poller, self.token);
    }

    /// Identifies the user of a connection, and admits it.
    fn identify(&mut self, index: usize, stream: UnixStream, poller: &Poller, now: Time) {
        let Ok(credentials) = peer_credentials(&stream) else { return };
        let is_trusted = self.trusted.contains(&credentials.uid);
        let party = if is_trusted { UserClass::Trusted } else { UserClass::User(credentials.uid) };
        if !is_trusted {
            self.admission.charge(credentials.uid, ACCEPT_COST, now);
        }
        if stream.set_nonblocking(true).is_ok() {
            self.admit(index, PendingConnection { stream, party, tries: 1 }, poller, now);
        }
    }

    /// Admits a connection, and closes another one for it if necessary. A connection that cannot be admitted is tried again in the next turns: by then, every
    /// connection that was accepted just before has been served.
    fn admit(&mut self, index: usize, found: PendingConnection, poller: &Poller, now: Time) {
        let token = self.next;
        let PendingConnection { stream, party, tries } = found;
        match self.admission.admit(token, party, now) {
            Ok(evicted) => evicted.into_iter().for_each(|evicted| self.close(evicted, poller)),
            Err(LimitExceeded) if tries < TRIES => {
                self.listeners[index].pending = Some(PendingConnection { stream, party, tries: tries + 1 });
                return;
            }
            Err(LimitExceeded) => return UserConnection::new(stream, false).refuse(crowded()),
        }
        self.next += 1;
        let connection = UserConnection::new(stream, party == UserClass::Trusted);
        if poller.add(connection.as_fd(), token, Interest::READ).is_ok() {
            self.connections.insert(token, connection);
        } else {
            self.admission.remove(token);
        }
    }

    /// Serves a connection that `poller` reported. `answer` carries out a trusted user's request at once; another user's request waits for [`Self::handle_timeout`].
    pub(crate) fn serve(
        &mut self,
        token: u64,
        poller: &Poller,
        now: Time,
        mut answer: impl FnMut(ApiRequest) -> Option<ApiResponse>,
    ) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let step = loop {
            match connection.advance() {
                Progress::Asked if self.admission.is_trusted(token) => connection.answer(&mut answer),
                step => break step,
            }
        };
        let fd = connection.as_fd();
        match step {
            Progress::Ended => self.close(token, poller),
            // The connection is not watched while its request waits: the kernel would report a client that hung up again and again.
            Progress::Asked => {
                poller.remove(fd);
                self.admission.ask(token, now);
            }
            Progress::Part if !self.admission.is_trusted(token) => {
                poller.remove(fd);
                self.admission.wait_for_rest(token, now);
            }
            Progress::Idle | Progress::Part => {
                watch(poller, connection, token, Interest::READ);
                self.admission.wait(token, now);
            }
            Progress::Reader => {
                watch(poller, connection, token, Interest::WRITE);
                self.admission.wait_for_reader(token, now);
            }
        }
    }

    /// Ends a turn, after everything that `poller` reported was served, and does the work that is due: accepts after a pause, closes connections whose time is
    /// over, reads the rest of incomplete requests, and answers one request. `clock` measures its cost.
    pub(crate) fn handle_timeout(
        &mut self,
        poller: &Poller,
        clock: impl Fn() -> Time,
        mut answer: impl FnMut(ApiRequest) -> Option<ApiResponse>,
    ) {
        let now = clock();
        self.admission.next_turn();
        if self.poll_timeout().is_none_or(|due| now < due) {
            return;
        }
        for index in 0..self.listeners.len() {
            if self.listeners[index].poll_timeout().is_some_and(|due| due <= now) {
                if let Some(pending) = self.listeners[index].pending.take() {
                    self.admit(index, pending, poller, now);
                }
                self.accept_at(index, poller, now);
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

    /// Returns the time at which [`Self::handle_timeout`] has something to do.
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
fn watch(poller: &Poller, connection: &UserConnection, token: u64, interest: Interest) {
    let fd = connection.as_fd();
    // The descriptor is open, so one of the two succeeds. If the kernel refused both, the connection would end by its timeout.
    let _ = poller.modify(fd, token, interest).or_else(|_| poller.add(fd, token, interest));
}

fn crowded() -> Failure {
    Failure {
        message: String::from("the daemon serves too many local users at the moment"),
        hint: String::from("try again, or run the command as root: root has reserved connections"),
    }
}

#[cfg(test)]
mod tests;

//! The local API's socket: bounded per user id, never blocking.
//!
//! - this file: the listening socket, and the poller's side of its connections;
//! - `admission`: which users hold a connection, and whose request is answered next;
//! - `connection`: one connection's bytes.

mod admission;
mod connection;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use taut_base::{Bucket, Rate, Time};
use taut_event::{Interest, Poller, effective_uid, peer_credentials};

use crate::api::{Failure, Request, Response};
use crate::error::RunError;
use admission::{Admission, Full, Party};
pub(crate) use connection::{Connection, Step};

/// Tokens of connections start here; the daemon's own are below.
pub(crate) const FIRST_CONNECTION: u64 = 16;

/// Connections accepted per second, of all users: the user id is known only afterwards. With [`ACCEPT_COST`] this is a twentieth of a core at most; the
/// kernel's queue of 4,096 (`net.core.somaxconn`) is through in four seconds.
const ACCEPTS: Rate = Rate::new(1_000, ACCEPTS_AT_ONCE);
/// Connections accepted in one turn of the agent, whose other work waits for 2 ms meanwhile.
const ACCEPTS_AT_ONCE: u32 = 40;
/// Pause after which accepting goes on when [`ACCEPTS`] was used up: so long that [`ACCEPTS_AT_ONCE`] are accepted then, and not one per wake-up.
const ACCEPT_PAUSE: Duration = Duration::from_millis(40);
/// What a user id is charged for a connection, 50 µs: accepting, watching and closing it, and evicting another one for it.
const ACCEPT_COST: Duration = Duration::from_micros(50);
/// Pause after which accepting is tried again when the process had no descriptor left, 1 s: the socket stays readable, and the agent would spin.
const NO_DESCRIPTOR_PAUSE: Duration = Duration::from_secs(1);

/// Turns in which a place is looked for, before a connection is refused: from the third on, every connection that came earlier has been heard.
const TRIES: u8 = 4;

/// The listening socket and its connections.
pub(crate) struct Server {
    listener: UnixListener,
    path: PathBuf,
    connections: BTreeMap<u64, Connection>,
    admission: Admission,
    /// User ids that may change something: root, and the daemon's own.
    trusted: [u32; 2],
    accepts: Bucket,
    /// A connection without a place, and how often that was looked for.
    pending: Option<(UnixStream, Party, u8)>,
    /// When accepting goes on after a pause.
    resume: Option<Time>,
    next: u64,
    token: u64,
}

impl Server {
    /// Listens at `path`. A socket that nobody answers on is a leftover and is replaced.
    pub(crate) fn listen(path: &Path) -> Result<Self, RunError> {
        if UnixStream::connect(path).is_ok() {
            return Err(RunError::AlreadyRunning(path.to_path_buf()));
        }
        let failed = |error| RunError::Socket(path.to_path_buf(), error);
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(failed)?;
        }
        remove_leftover(path).map_err(failed)?;
        let listener = UnixListener::bind(path).map_err(failed)?;
        // Everybody may look; the kernel says who asks for a change.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self {
            listener,
            path: path.to_path_buf(),
            connections: BTreeMap::new(),
            admission: Admission::default(),
            trusted: [0, effective_uid()],
            accepts: Bucket::default(),
            pending: None,
            resume: None,
            next: FIRST_CONNECTION,
            token: 0,
        })
    }

    /// Has `poller` report new connections as `token`.
    pub(crate) fn register(&mut self, poller: &Poller, token: u64) -> io::Result<()> {
        self.token = token;
        poller.add(self.listener.as_fd(), token, Interest::READ)
    }

    /// Accepts connections, after `poller` reported the listening socket.
    pub(crate) fn accept(&mut self, poller: &Poller, now: Time) {
        self.resume = None;
        for _ in 0..ACCEPTS_AT_ONCE {
            if self.pending.is_some() {
                self.resume = Some(now);
                break;
            }
            if !self.accepts.take(&ACCEPTS, now) {
                self.resume = Some(now + ACCEPT_PAUSE);
                break;
            }
            match self.listener.accept() {
                Ok((stream, _)) => self.meet(stream, poller, now),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.resume = Some(now + NO_DESCRIPTOR_PAUSE);
                    break;
                }
            }
        }
        let wanted = if self.resume.is_none() { Interest::READ } else { Interest::NONE };
        // Registered and open, so the kernel has no reason to refuse.
        let _ = poller.modify(self.listener.as_fd(), self.token, wanted);
    }

    /// Asks the kernel whose connection it is, and gives it a place.
    fn meet(&mut self, stream: UnixStream, poller: &Poller, now: Time) {
        let Ok(credentials) = peer_credentials(&stream) else { return };
        let is_trusted = self.trusted.contains(&credentials.uid);
        let party = if is_trusted { Party::Trusted } else { Party::User(credentials.uid) };
        if !is_trusted {
            self.admission.charge(credentials.uid, ACCEPT_COST, now);
        }
        if stream.set_nonblocking(true).is_ok() {
            self.admit(stream, party, 1, poller, now);
        }
    }

    /// Gives a connection a place, and closes another one for it where need be. A connection that finds no place is tried again in the next turns: by
    /// then, every connection that was accepted just before it has been heard.
    fn admit(&mut self, stream: UnixStream, party: Party, tries: u8, poller: &Poller, now: Time) {
        let token = self.next;
        match self.admission.admit(token, party, now) {
            Ok(evicted) => evicted.into_iter().for_each(|evicted| self.close(evicted, poller)),
            Err(Full) if tries < TRIES => {
                self.pending = Some((stream, party, tries + 1));
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
        if self.resume.is_some_and(|due| due <= now) {
            if let Some((stream, party, tries)) = self.pending.take() {
                self.admit(stream, party, tries, poller, now);
            }
            self.accept(poller, now);
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
        self.resume.into_iter().chain(self.admission.poll_timeout()).min()
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

/// Removes a socket that nobody answers on; whatever else stands there is somebody's, and stays (fault P4).
fn remove_leftover(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "something that is no socket stands there")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already gone is as good as removed.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests;

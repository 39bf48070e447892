//! The local API's socket: small, bounded, never blocking.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use taut_event::{Interest, Poller, effective_uid, peer_credentials};
use zeroize::Zeroizing;

use crate::api::{Failure, MAX_REQUEST, Request, Response};
use crate::error::RunError;

/// Users at a time; more wait in the kernel's backlog.
const MAX_CONNECTIONS: usize = 32;

/// Bytes that are read at a time.
const CHUNK: usize = 4096;

/// Tokens of connections start here; the daemon's own are below.
pub(crate) const FIRST_CONNECTION: u64 = 16;

/// The listening socket and its connections.
pub(crate) struct Server {
    listener: UnixListener,
    path: PathBuf,
    connections: BTreeMap<u64, Connection>,
    next: u64,
    token: u64,
}

pub(crate) struct Connection {
    stream: UnixStream,
    may_change: bool,
    /// May hold a join token: wiped, and large enough from the start, so that it leaves no copy behind.
    input: Zeroizing<Vec<u8>>,
    output: Vec<u8>,
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
        Ok(Self { listener, path: path.to_path_buf(), connections: BTreeMap::new(), next: FIRST_CONNECTION, token: 0 })
    }

    /// Has `poller` report new connections as `token`.
    pub(crate) fn register(&mut self, poller: &Poller, token: u64) -> io::Result<()> {
        self.token = token;
        poller.add(self.listener.as_fd(), token, Interest::READ)
    }

    /// Takes new connections, as many as there are places. False when the host has no descriptor left for one: try again later.
    pub(crate) fn accept(&mut self, poller: &Poller) -> bool {
        let accepted = self.accept_all(poller);
        // A connection that cannot be taken keeps the socket readable: without this the daemon would turn in circles.
        let wanted = if accepted && self.connections.len() < MAX_CONNECTIONS { Interest::READ } else { Interest::NONE };
        // Registered and open, so the kernel has no reason to refuse.
        let _ = poller.modify(self.listener.as_fd(), self.token, wanted);
        accepted
    }

    fn accept_all(&mut self, poller: &Poller) -> bool {
        while self.connections.len() < MAX_CONNECTIONS {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return false,
            };
            let Ok(credentials) = peer_credentials(&stream) else { continue };
            let may_change = credentials.uid == 0 || credentials.uid == effective_uid();
            let token = self.next;
            if stream.set_nonblocking(true).is_err() || poller.add(stream.as_fd(), token, Interest::READ).is_err() {
                continue;
            }
            self.next += 1;
            self.connections.insert(token, Connection::new(stream, may_change));
        }
        true
    }

    /// Goes on with a connection; `answer` carries out a request.
    pub(crate) fn serve(&mut self, token: u64, poller: &Poller, mut answer: impl FnMut(Request) -> Response) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let open = connection.go_on(&mut answer);
        if !open {
            poller.remove(connection.stream.as_fd());
            self.connections.remove(&token);
            // A place is free: whoever waits in the backlog comes in.
            self.accept(poller);
            return;
        }
        let interest = if connection.output.is_empty() { Interest::READ } else { Interest::WRITE };
        // Registered and open; if the kernel refused, the user would see a hanging request and ask again.
        let _ = poller.modify(connection.stream.as_fd(), token, interest);
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

impl Connection {
    pub(crate) fn new(stream: UnixStream, may_change: bool) -> Self {
        Self { stream, may_change, input: Zeroizing::new(Vec::with_capacity(MAX_REQUEST + CHUNK)), output: Vec::new() }
    }

    /// Bytes that are kept: of requests and of the answer.
    pub(crate) fn kept(&self) -> usize {
        self.input.len() + self.output.len()
    }

    /// Reads what has come and answers whole lines; false when the connection is at its end. Whoever does not take an answer is not asked what
    /// else there is: otherwise, many requests and no reading would fill the daemon's memory (law 11).
    pub(crate) fn go_on(&mut self, answer: &mut impl FnMut(Request) -> Response) -> bool {
        let mut chunk = Zeroizing::new([0; CHUNK]);
        loop {
            if !self.write() {
                return false;
            }
            if !self.output.is_empty() {
                return true;
            }
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let line: Zeroizing<Vec<u8>> = Zeroizing::new(self.input.drain(..=end).collect());
                let response = self.respond(&line, answer);
                let Ok(json) = serde_json::to_vec(&response) else { return false };
                self.output = json;
                self.output.push(b'\n');
                continue;
            }
            if self.input.len() > MAX_REQUEST {
                return false;
            }
            match self.stream.read(&mut *chunk) {
                Ok(0) => return false,
                Ok(length) => self.input.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return false,
            }
        }
    }

    fn respond(&self, line: &[u8], answer: &mut impl FnMut(Request) -> Response) -> Response {
        match serde_json::from_slice::<Request>(line) {
            Ok(request) if request.changes() && !self.may_change => Response::Failed(Failure {
                message: String::from("only root and the daemon's own user may change anything"),
                hint: String::from("try again with sudo"),
            }),
            Ok(request) => answer(request),
            Err(error) => Response::Failed(Failure {
                message: format!("the daemon does not understand this request: {error}"),
                hint: String::from("use a `taut` of the daemon's version; `taut version` shows both"),
            }),
        }
    }

    /// Writes what waits; false when the connection is at its end.
    fn write(&mut self) -> bool {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(written) => drop(self.output.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;

//! The unix socket that `wg` looks for: made so that only its owner may ask, small, bounded, never blocking.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use taut_event::{Interest, Poller, is_listening};
use taut_node::uapi::{Answer, Errno, Inbox, Request};

use super::Error;

/// Users at a time; more wait in the kernel's backlog.
const MAX_CONNECTIONS: usize = 16;

/// Tokens of connections start here.
pub(super) const FIRST_CONNECTION: u64 = 16;

/// The listening socket and its connections.
pub(super) struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket's file: another program may put its own in this place.
    file: (u64, u64),
    connections: BTreeMap<u64, Connection>,
    next: u64,
}

struct Connection {
    stream: UnixStream,
    inbox: Inbox,
    /// The answer under way, and how much of it was written.
    answer: Answer,
    written: usize,
}

impl Socket {
    /// Listens as `DIRECTORY/INTERFACE.sock`. A socket that nobody answers on is a leftover and is replaced.
    pub(super) fn listen(directory: &Path, interface: &str) -> Result<Self, Error> {
        let path = directory.join(format!("{interface}.sock"));
        if UnixStream::connect(&path).is_ok() {
            return Err(Error::AlreadyRunning(path));
        }
        let failed = |error| Error::Socket(path.clone(), error);
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(failed)?;
        // Made beside its place and moved there when it listens: `wg` removes a socket that refuses it.
        let new = directory.join(format!("{interface}.new"));
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let listener = UnixListener::bind(&new).map_err(failed)?;
        // To connect is to write, which no usual umask grants to others in the moment before.
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        std::fs::rename(&new, &path).map_err(failed)?;
        Self::on(listener, path)
    }

    /// Listens on a socket that another program has made and put as `DIRECTORY/INTERFACE.sock`. It is ours from now on, and is
    /// removed at the end.
    pub(super) fn inherit(fd: OwnedFd, directory: &Path, interface: &str) -> Result<Self, Error> {
        let path = directory.join(format!("{interface}.sock"));
        let listener = UnixListener::from(fd);
        // The address is that of a unix socket, or an error.
        if listener.local_addr().is_err() || !is_listening(listener.as_fd()) {
            let error = io::Error::other("the inherited descriptor is no unix socket that listens");
            return Err(Error::Socket(path, error));
        }
        Self::on(listener, path)
    }

    fn on(listener: UnixListener, path: PathBuf) -> Result<Self, Error> {
        let failed = |error| Error::Socket(path.clone(), error);
        listener.set_nonblocking(true).map_err(failed)?;
        let file = identify(&path).map_err(failed)?;
        Ok(Self { listener, path, file, connections: BTreeMap::new(), next: FIRST_CONNECTION })
    }

    /// Whether the socket's file is still in its place.
    pub(super) fn is_there(&self) -> bool {
        identify(&self.path).is_ok_and(|file| file == self.file)
    }

    /// Accepts connections, as many as there are places. Called again once a second, because it pauses when the process has no descriptor left: the
    /// listener stays readable then, and the agent would spin (fault P6).
    pub(super) fn accept(&mut self, poller: &Poller) {
        let mut has_descriptors = true;
        while self.connections.len() < MAX_CONNECTIONS {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    has_descriptors = error.kind() == io::ErrorKind::WouldBlock;
                    break;
                }
            };
            let token = self.next;
            if stream.set_nonblocking(true).is_err() || poller.add(stream.as_fd(), token, Interest::READ).is_err() {
                continue;
            }
            self.next += 1;
            let connection = Connection { stream, inbox: Inbox::default(), answer: Answer::default(), written: 0 };
            self.connections.insert(token, connection);
        }
        // While all places are taken the listener stays readable: it is not looked at until one is free.
        let is_open = has_descriptors && self.connections.len() < MAX_CONNECTIONS;
        let interest = if is_open { Interest::READ } else { Interest::NONE };
        let _ = poller.modify(self.listener.as_fd(), super::TOKEN_SOCKET, interest);
    }

    /// Goes on with a connection; `answer` carries out a request.
    pub(super) fn serve(&mut self, token: u64, poller: &Poller, answer: impl FnMut(Result<Request, Errno>) -> Answer) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        if !connection.go_on(answer) {
            poller.remove(connection.stream.as_fd());
            self.connections.remove(&token);
            self.accept(poller);
            return;
        }
        let interest = if connection.answer.is_empty() { Interest::READ } else { Interest::WRITE };
        // Registered and open; if the kernel refused, the user would see a hanging request and ask again.
        let _ = poller.modify(connection.stream.as_fd(), token, interest);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.is_there() {
            // Already gone is as good as removed.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Connection {
    /// One request after the other, each answered before the next is read. False at the end.
    fn go_on(&mut self, mut answer: impl FnMut(Result<Request, Errno>) -> Answer) -> bool {
        loop {
            match self.write() {
                Ok(()) => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
            if let Some(request) = self.inbox.request() {
                self.answer = answer(request);
                continue;
            }
            if self.inbox.is_too_long() {
                return false;
            }
            match self.read() {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    fn read(&mut self) -> io::Result<usize> {
        let mut chunk = [0; 4096];
        let length = self.stream.read(&mut chunk)?;
        self.inbox.push(&chunk[..length]);
        Ok(length)
    }

    /// Writes the answer; `WouldBlock` when not all of it could go.
    fn write(&mut self) -> io::Result<()> {
        while self.written < self.answer.len() {
            match self.stream.write(&self.answer.as_bytes()[self.written..]) {
                Ok(written) => self.written += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        (self.answer, self.written) = (Answer::default(), 0);
        Ok(())
    }
}

fn identify(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

//! The unix socket that `wg` connects to. Only its owner may connect; it is bounded and never blocks.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use taut_base::SortedMap;
use taut_event::{Interest, Poller, is_listening};
use taut_node::uapi::{Errno, Reply, Request, RequestBuffer};

use super::WgError;

/// Maximum number of connections, 16; more wait in the kernel's backlog.
const MAX_CONNECTIONS: usize = 16;

/// First poller token of connections.
pub(super) const FIRST_CONNECTION: u64 = 16;

/// The listening socket and its connections.
pub(super) struct UapiSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket's file, because another program may replace the file.
    file: (u64, u64),
    connections: SortedMap<u64, UapiConnection>,
    next: u64,
}

struct UapiConnection {
    stream: UnixStream,
    inbox: RequestBuffer,
    /// The pending reply, and the number of its written bytes.
    answer: Reply,
    written: usize,
}

impl UapiSocket {
    /// Listens at `DIRECTORY/INTERFACE.sock`. A socket that no process answers on is replaced.
    pub(super) fn listen(directory: &Path, interface: &str) -> Result<Self, WgError> {
        let path = directory.join(format!("{interface}.sock"));
        if UnixStream::connect(&path).is_ok() {
            return Err(WgError::AlreadyRunning(path));
        }
        let failed = |error| WgError::Socket(path.clone(), error);
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(failed)?;
        // The socket is created under another name, and renamed when it listens: `wg` removes a socket that refuses its connection.
        let new = directory.join(format!("{interface}.new"));
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let listener = UnixListener::bind(&new).map_err(failed)?;
        // Connecting needs write permission, which no usual umask grants to other users in the moment before.
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        std::fs::rename(&new, &path).map_err(failed)?;
        Self::on(listener, path)
    }

    /// Takes over a listening socket that another program created at `DIRECTORY/INTERFACE.sock`. Its file is removed at the end.
    pub(super) fn inherit(fd: OwnedFd, directory: &Path, interface: &str) -> Result<Self, WgError> {
        let path = directory.join(format!("{interface}.sock"));
        let listener = UnixListener::from(fd);
        // A descriptor that is not a unix socket has no such address.
        if listener.local_addr().is_err() || !is_listening(listener.as_fd()) {
            let error = io::Error::other("the inherited descriptor is not a listening unix socket");
            return Err(WgError::Socket(path, error));
        }
        Self::on(listener, path)
    }

    fn on(listener: UnixListener, path: PathBuf) -> Result<Self, WgError> {
        let failed = |error| WgError::Socket(path.clone(), error);
        listener.set_nonblocking(true).map_err(failed)?;
        let file = identify(&path).map_err(failed)?;
        Ok(Self { listener, path, file, connections: SortedMap::new(), next: FIRST_CONNECTION })
    }

    /// Returns true if the socket's file still exists.
    pub(super) fn exists(&self) -> bool {
        identify(&self.path).is_ok_and(|file| file == self.file)
    }

    /// Accepts connections up to [`MAX_CONNECTIONS`]. It is called once a second, too, because it pauses when the process has no free descriptor: the listener stays readable
    /// then, and the agent would spin (fault P6).
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
            let connection =
                UapiConnection { stream, inbox: RequestBuffer::default(), answer: Reply::default(), written: 0 };
            self.connections.insert(token, connection);
        }
        // At the limit the listener stays readable, so it is not watched until a connection ends.
        let is_open = has_descriptors && self.connections.len() < MAX_CONNECTIONS;
        let interest = if is_open { Interest::READ } else { Interest::NONE };
        let _ = poller.modify(self.listener.as_fd(), super::TOKEN_SOCKET, interest);
    }

    /// Serves a connection; `answer` carries out a request.
    pub(super) fn serve(&mut self, token: u64, poller: &Poller, answer: impl FnMut(Result<Request, Errno>) -> Reply) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        if !connection.advance(answer) {
            poller.remove(connection.stream.as_fd());
            self.connections.remove(&token);
            self.accept(poller);
            return;
        }
        let interest = if connection.answer.is_empty() { Interest::READ } else { Interest::WRITE };
        // The connection is registered and open. If the kernel refused, the request would hang, and the user would repeat it.
        let _ = poller.modify(connection.stream.as_fd(), token, interest);
    }
}

impl AsFd for UapiSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for UapiSocket {
    fn drop(&mut self) {
        if self.exists() {
            // It does not matter if the file is already gone.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl UapiConnection {
    /// Answers one request after the other, each before the next is read. Returns false if the connection has ended.
    fn advance(&mut self, mut answer: impl FnMut(Result<Request, Errno>) -> Reply) -> bool {
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

    /// Writes the pending reply. Returns `WouldBlock` if a part of it could not be written.
    fn write(&mut self) -> io::Result<()> {
        while self.written < self.answer.len() {
            match self.stream.write(&self.answer.as_bytes()[self.written..]) {
                Ok(written) => self.written += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        (self.answer, self.written) = (Reply::default(), 0);
        Ok(())
    }
}

fn identify(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

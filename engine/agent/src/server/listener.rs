//! A listening socket of the local API: its file, and the rate at which connections are accepted.
//!
//! There are two listening sockets (fault P7). All users who may connect to a socket share its queue in the kernel, and the user id of a connection is known only
//! after accepting it: a user who connects without pause keeps the queue full, and other users wait. The private socket has a queue and an accept rate of its own,
//! and its mode lets only root and the daemon's own user connect.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use taut_base::{Bucket, Rate, Time};
use taut_event::{Interest, Poller};

use super::admission::UserClass;

/// Limit on accepted connections of all users at one socket, 1,000 per second: the user id is known only after accepting. With [`super::ACCEPT_COST`] this is a
/// twentieth of a core at most; the kernel's queue of 4,096 (`net.core.somaxconn`) is empty after four seconds.
const ACCEPTS: Rate = Rate::new(1_000, ACCEPTS_AT_ONCE);
/// Maximum number of connections accepted at one socket in one turn of the agent, 40: the agent's other work waits for 2 ms.
pub(super) const ACCEPTS_AT_ONCE: u32 = 40;
/// Pause of accepting when [`ACCEPTS`] is used up, 40 ms: after it, [`ACCEPTS_AT_ONCE`] connections are accepted instead of one per wake-up.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(40);
/// Pause of accepting when the process has no free descriptor, 1 s: the socket stays readable, and the agent would spin without a pause.
const NO_DESCRIPTOR_PAUSE: Duration = Duration::from_secs(1);
/// Timeout of the connection that tests whether another daemon answers, 1 s. A full queue for that long means that a daemon exists.
const ANSWER_PATIENCE: Duration = Duration::from_secs(1);

/// A connection that could not be admitted yet.
pub(super) struct PendingConnection {
    pub(super) stream: UnixStream,
    pub(super) party: UserClass,
    /// Number of attempts to admit it.
    pub(super) tries: u8,
}

/// A listening socket.
pub(super) struct Listener {
    socket: UnixListener,
    path: PathBuf,
    accepts: Bucket,
    /// Time at which a pause of accepting ends.
    resume: Option<Time>,
    /// The connection that waits for admission. Nothing is accepted meanwhile.
    pub(super) pending: Option<PendingConnection>,
}

impl Listener {
    /// Listens at `path`. Users to whom `mode` grants write permission may connect. A socket that no daemon answers on is replaced.
    pub(super) fn open(path: &Path, mode: u32) -> io::Result<Self> {
        remove_leftover(path)?;
        let socket = UnixListener::bind(path)?;
        let listener =
            Self { socket, path: path.to_path_buf(), accepts: Bucket::default(), resume: None, pending: None };
        // Connecting needs write permission, which no usual umask grants to other users in the moment before. The permissions of a user depend on its id in any case.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        listener.socket.set_nonblocking(true)?;
        Ok(listener)
    }

    /// Has `poller` report new connections under `token`.
    pub(super) fn register(&self, poller: &Poller, token: u64) -> io::Result<()> {
        poller.add(self.socket.as_fd(), token, Interest::READ)
    }

    /// Ends the pause if it is over. Returns true if connections may be accepted.
    pub(super) fn wake(&mut self, now: Time) -> bool {
        self.resume.take_if(|due| *due <= now);
        self.resume.is_none()
    }

    /// Accepts the next connection. Returns `None` if none waits or a pause begins.
    pub(super) fn accept(&mut self, now: Time) -> Option<UnixStream> {
        if self.pending.is_some() {
            self.resume = Some(now);
            return None;
        }
        if !self.accepts.take(&ACCEPTS, now) {
            self.resume = Some(now + ACCEPT_PAUSE);
            return None;
        }
        loop {
            match self.socket.accept() {
                Ok((stream, _)) => return Some(stream),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(_) => {
                    self.resume = Some(now + NO_DESCRIPTOR_PAUSE);
                    return None;
                }
            }
        }
    }

    /// Has `poller` report new connections under `token`, except during a pause.
    pub(super) fn watch(&self, poller: &Poller, token: u64) {
        let wanted = if self.resume.is_none() { Interest::READ } else { Interest::NONE };
        // The socket is registered and open, so the kernel does not refuse.
        let _ = poller.modify(self.socket.as_fd(), token, wanted);
    }

    /// Returns the time at which a pause ends.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.resume
    }
}

/// Returns true if a daemon listens at `path`.
pub(super) fn is_answered(path: &Path) -> bool {
    match taut_event::connect(path, ANSWER_PATIENCE) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

/// Removes a socket that no daemon answers on. Any other file at this path stays (fault P4).
fn remove_leftover(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is not a socket has this name")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // It does not matter if the file is already gone.
        let _ = std::fs::remove_file(&self.path);
    }
}

//! A listening socket of the local API: its file, and the rate at which connections are accepted.
//!
//! There are two (fault P7). The kernel's queue of a socket is shared by all users who may connect to it, and the user id of a connection is known only
//! after it was accepted: one user who connects without pause keeps the queue full, and others wait behind. The private socket has a queue and an accept
//! rate of its own, and its mode lets only root and the daemon's own user connect.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use taut_base::{Bucket, Rate, Time};
use taut_event::{Interest, Poller};

use super::admission::Party;

/// Connections accepted per second at one socket, of all users: the user id is known only afterwards. With [`super::ACCEPT_COST`] this is a twentieth of
/// a core at most; the kernel's queue of 4,096 (`net.core.somaxconn`) is through in four seconds.
const ACCEPTS: Rate = Rate::new(1_000, ACCEPTS_AT_ONCE);
/// Connections accepted at one socket in one turn of the agent, whose other work waits for 2 ms meanwhile.
pub(super) const ACCEPTS_AT_ONCE: u32 = 40;
/// Pause after which accepting goes on when [`ACCEPTS`] was used up: so long that [`ACCEPTS_AT_ONCE`] are accepted then, and not one per wake-up.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(40);
/// Pause after which accepting is tried again when the process had no descriptor left, 1 s: the socket stays readable, and the agent would spin.
const NO_DESCRIPTOR_PAUSE: Duration = Duration::from_secs(1);
/// Time to find out whether another daemon answers, 1 s. A daemon whose queue is full for that long is there.
const ANSWER_PATIENCE: Duration = Duration::from_secs(1);

/// A connection without a place.
pub(super) struct Pending {
    pub(super) stream: UnixStream,
    pub(super) party: Party,
    /// How often a place was looked for.
    pub(super) tries: u8,
}

/// A listening socket.
pub(super) struct Listener {
    socket: UnixListener,
    path: PathBuf,
    accepts: Bucket,
    /// When accepting goes on after a pause.
    resume: Option<Time>,
    /// Nothing is accepted while a connection waits for a place.
    pub(super) pending: Option<Pending>,
}

impl Listener {
    /// Listens at `path`, and lets the users connect whom `mode` gives the right to write. A socket that nobody answers on is replaced.
    pub(super) fn open(path: &Path, mode: u32) -> io::Result<Self> {
        remove_leftover(path)?;
        let socket = UnixListener::bind(path)?;
        let listener =
            Self { socket, path: path.to_path_buf(), accepts: Bucket::default(), resume: None, pending: None };
        // To connect is to write, which no usual umask grants to others in the moment before; what a user may do is decided by its id in any case.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        listener.socket.set_nonblocking(true)?;
        Ok(listener)
    }

    /// Has `poller` report new connections as `token`.
    pub(super) fn register(&self, poller: &Poller, token: u64) -> io::Result<()> {
        poller.add(self.socket.as_fd(), token, Interest::READ)
    }

    /// Ends the pause if it is over. Returns true if connections may be accepted.
    pub(super) fn wake(&mut self, now: Time) -> bool {
        self.resume.take_if(|due| *due <= now);
        self.resume.is_none()
    }

    /// Accepts the next connection. `None` if there is none, or a pause begins.
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

    /// Has `poller` report new connections as `token`, except during a pause.
    pub(super) fn watch(&self, poller: &Poller, token: u64) {
        let wanted = if self.resume.is_none() { Interest::READ } else { Interest::NONE };
        // Registered and open, so the kernel has no reason to refuse.
        let _ = poller.modify(self.socket.as_fd(), token, wanted);
    }

    /// Returns when a pause ends.
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

/// Removes a socket that nobody answers on; whatever else stands there is somebody's, and stays (fault P4).
fn remove_leftover(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "something that is no socket stands there")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Already gone is as good as removed.
        let _ = std::fs::remove_file(&self.path);
    }
}

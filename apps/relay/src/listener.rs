//! A listening socket that pauses while the system has no room for another connection (fault P6).
//!
//! A connection that cannot be accepted because no descriptor is free stays in the kernel's queue, and epoll reports it again at once. Therefore the socket is not
//! polled until [`PAUSE`] has passed. That costs a few system calls per second instead of a core, and connections are accepted soon after there is room.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use taut_base::Time;
use taut_event::{Interest, Poller, set_backlog};

use crate::log::{self, UNAUTHENTICATED};

/// Pause after the system had no room, 100 ms: longer than closing a connection takes, and too short for a person to notice.
pub const PAUSE: Duration = Duration::from_millis(100);

/// Connections that the kernel keeps until they are accepted, 4,096 (it lowers the number to net.core.somaxconn, which is the same by default): after a restart all clients come back within
/// a second.
pub const BACKLOG: u16 = 4_096;

/// Number of failures of single connections in a row after which the listener pauses, 16, so that an unknown failure does not make it spin.
const FAILURES: u32 = 16;

/// Returns true if a failure to accept concerns only one connection, which is gone (man 2 accept).
pub fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Interrupted
            | ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::NetworkDown
            | ErrorKind::NetworkUnreachable
            | ErrorKind::HostUnreachable
    )
}

/// A listening socket that a [`Poller`] watches.
pub(crate) struct Listener {
    tcp: TcpListener,
    token: u64,
    paused: Option<Time>,
}

impl Listener {
    /// Listens on `address`. `poller` reports the socket with `token`.
    pub(crate) fn bind(address: SocketAddr, poller: &Poller, token: u64) -> io::Result<Self> {
        let tcp = TcpListener::bind(address)?;
        set_backlog(&tcp, BACKLOG)?;
        tcp.set_nonblocking(true)?;
        poller.add(tcp.as_fd(), token, Interest::READ)?;
        Ok(Self { tcp, token, paused: None })
    }

    /// Returns the address that it listens on.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Accepts the next connection, if one waits and the system has room for it.
    pub(crate) fn accept(&mut self, poller: &Poller, now: Time) -> Option<(TcpStream, SocketAddr)> {
        for _ in 0..FAILURES {
            match self.tcp.accept() {
                Ok(accepted) => return Some(accepted),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(target: log::RELAY, limited = UNAUTHENTICATED, event = "not-accepted", reason = %error);
                    break;
                }
            }
        }
        self.paused = Some(now + PAUSE);
        self.wait_for(poller, Interest::NONE);
        None
    }

    /// Returns the time at which [`Self::handle_timeout`] has work to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.paused
    }

    /// Listens again when the pause is over.
    pub(crate) fn handle_timeout(&mut self, poller: &Poller, now: Time) {
        if self.paused.take_if(|until| *until <= now).is_some() {
            self.wait_for(poller, Interest::READ);
        }
    }

    fn wait_for(&self, poller: &Poller, interest: Interest) {
        // Registered and open, so the kernel has no reason to refuse.
        let _ = poller.modify(self.tcp.as_fd(), self.token, interest);
    }
}

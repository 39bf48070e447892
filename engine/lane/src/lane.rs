//! The handle of a running lane.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use taut_event::Waker;
use taut_udp::UdpSocket;

use crate::shared::LaneShared;
use crate::thread::{LaneConfig, LaneThread};

/// Stack of a lane's thread, 256 KiB: the merger and the arrays of a system call, with room to spare.
const STACK: usize = 256 * 1024;

/// A running lane. When it is stopped or dropped, it closes its TUN queue and its socket.
pub struct Lane {
    shared: Arc<LaneShared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Lane {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the kernel has no epoll instance or thread left.
    pub fn start(config: LaneConfig) -> Result<Self, LaneStartError> {
        Self::start_with(config, LaneShared::default())
    }

    /// Starts the thread with these counters ([`LaneShared::successor`]).
    ///
    /// # Errors
    /// As for [`Self::start`].
    pub fn start_with(config: LaneConfig, shared: LaneShared) -> Result<Self, LaneStartError> {
        let shared = Arc::new(shared);
        let waker = config.waker.clone();
        let name = format!("taut-lane-{}", config.own.0);
        let mut lane = LaneThread::new(config, Arc::clone(&shared)).map_err(LaneStartError)?;
        let thread = std::thread::Builder::new()
            .name(name)
            .stack_size(STACK)
            .spawn(move || lane.run())
            .map_err(LaneStartError)?;
        Ok(Self { shared, waker, thread: Some(thread) })
    }

    /// Returns what other threads may read of the lane.
    pub fn shared(&self) -> &Arc<LaneShared> {
        &self.shared
    }

    /// Returns true if the lane ended on its own, because its TUN was removed.
    pub fn has_failed(&self) -> bool {
        self.shared.has_failed()
    }

    /// Has the lane use another socket, and waits until it has closed its former one. Datagrams that wait to be sent leave from the new socket.
    pub fn replace_socket(&self, socket: UdpSocket) {
        self.shared.replacement.offer(socket, || self.waker.wake());
    }

    /// Ends the thread and waits until it has closed its TUN queue and its socket.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.stop();
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A lane that panicked has printed the reason.
            let _ = thread.join();
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.end();
    }
}

/// A lane could not be started.
#[derive(Debug)]
pub struct LaneStartError(io::Error);

impl fmt::Display for LaneStartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the data plane's thread could not be started: {}; raise the limits of threads and file descriptors",
            self.0
        )
    }
}

impl std::error::Error for LaneStartError {}

impl From<io::Error> for LaneStartError {
    fn from(error: io::Error) -> Self {
        Self(error)
    }
}

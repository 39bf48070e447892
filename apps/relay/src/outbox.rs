//! The runs that a worker sends with its next system call. They refer to its receive buffers.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use taut_event::{Events, Interest, Poller};
use taut_udp::{MAX_MESSAGES, Transmit, UdpSocket};

/// Time of one wait for a full socket, 10 ms. After [`WAITS`] of them, 0.1 s, the rest is dropped: no working network device pauses for longer.
const WAIT: Duration = Duration::from_millis(10);
/// Number of waits for a full socket.
const WAITS: u32 = 10;

/// Runs to be sent from one socket.
pub(crate) struct Outbox<'a> {
    socket: &'a UdpSocket,
    transmits: [Transmit<'a>; MAX_MESSAGES],
    length: usize,
    /// Number of runs that were not sent.
    failed: u64,
}

impl<'a> Outbox<'a> {
    pub(crate) fn new(socket: &'a UdpSocket) -> Self {
        let nothing = Transmit { destination: SocketAddr::from(([0; 4], 0)), contents: &[], segment_size: 0, ecn: 0 };
        Self { socket, transmits: [nothing; MAX_MESSAGES], length: 0, failed: 0 }
    }

    /// Adds a run. A full outbox is sent.
    pub(crate) fn push(&mut self, transmit: Transmit<'a>) {
        if let Some(place) = self.transmits.get_mut(self.length) {
            *place = transmit;
            self.length += 1;
        }
        if self.length == MAX_MESSAGES {
            self.flush();
        }
    }

    /// Sends all runs, and returns the number of runs that were not sent so far.
    pub(crate) fn flush(&mut self) -> u64 {
        let length = std::mem::take(&mut self.length);
        let mut rest = self.transmits.get_mut(..length).unwrap_or_default();
        for wait in 0..=WAITS {
            let sent = self.socket.send(rest);
            self.failed += sent.failed as u64;
            rest = rest.get_mut(sent.sent..).unwrap_or_default();
            let Some(first) = rest.first_mut().filter(|_| sent.blocked) else { return self.failed };
            first.contents = first.contents.get(sent.partial..).unwrap_or_default();
            if wait < WAITS {
                wait_until_writable(self.socket);
            }
        }
        // The remaining runs are dropped together; the next batch may find room again.
        self.failed += rest.len() as u64;
        self.failed
    }
}

/// Waits until the socket has room. It does not use the worker's own poller, because the worker reads nothing meanwhile.
fn wait_until_writable(socket: &UdpSocket) {
    let Ok(poller) = Poller::new() else { return };
    if poller.add(socket.as_fd(), 0, Interest::WRITE).is_ok() {
        let _ = poller.wait(&mut Events::with_capacity(1), Some(WAIT));
    }
}

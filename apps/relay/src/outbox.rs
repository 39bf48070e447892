//! What a worker is about to send: runs that lie in its receive buffers, up to one system call's worth.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use taut_event::{Events, Interest, Poller};
use taut_udp::{MAX_MESSAGES, Transmit, UdpSocket};

/// How long a full socket is waited for, and how often, before what it does not take is dropped: longer than any gap of a network device that still works.
const WAIT: Duration = Duration::from_millis(10);
const WAITS: u32 = 10;

/// Runs on their way out of one socket.
pub(crate) struct Outbox<'a> {
    socket: &'a UdpSocket,
    transmits: [Transmit<'a>; MAX_MESSAGES],
    length: usize,
    /// Runs that did not leave.
    failed: u64,
}

impl<'a> Outbox<'a> {
    pub(crate) fn new(socket: &'a UdpSocket) -> Self {
        let nothing = Transmit { destination: SocketAddr::from(([0; 4], 0)), contents: &[], segment_size: 0, ecn: 0 };
        Self { socket, transmits: [nothing; MAX_MESSAGES], length: 0, failed: 0 }
    }

    /// Takes a run; sends what is there when it is full.
    pub(crate) fn push(&mut self, transmit: Transmit<'a>) {
        if let Some(place) = self.transmits.get_mut(self.length) {
            *place = transmit;
            self.length += 1;
        }
        if self.length == MAX_MESSAGES {
            self.flush();
        }
    }

    /// Sends all, and says how many runs did not leave so far.
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
        // A run that came with others is dropped with them: the next one may find room again.
        self.failed += rest.len() as u64;
        self.failed
    }
}

/// Not the worker's own poller: meanwhile nothing else is of interest, because nothing more is read.
fn wait_until_writable(socket: &UdpSocket) {
    let Ok(poller) = Poller::new() else { return };
    if poller.add(socket.as_fd(), 0, Interest::WRITE).is_ok() {
        let _ = poller.wait(&mut Events::with_capacity(1), Some(WAIT));
    }
}

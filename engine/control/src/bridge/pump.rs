//! An open bridge: it sends the lane's datagrams as WebSocket messages, and delivers received messages to the lane as datagrams.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use taut_base::MAX_DATAGRAM;
use taut_dial::{Broken, Message, Server, Stage, Stream, WebSocket, WebSocketError, WebSocketLimits};
use taut_event::{Events, Interest, Poller, Waker};

use super::Shared;

/// Bytes read from the stream at once, 16 KiB: the most that a TLS record holds.
const READ: usize = 16 * 1024;
/// Bytes gathered before the stream is written to, 16 KiB: one TLS record.
const GATHER: usize = 16 * 1024;
/// Limit on the bytes that wait for the stream, beside the kernel's own buffer: 10 ms at 100 Mbit/s, and always enough for the longest datagram. A longer
/// queue would only add delay.
pub(super) const MOST_WAITING: usize = 2 * MAX_DATAGRAM;
/// Limit on the datagrams and on the messages handled in one turn, 64 of each, so that neither direction starves the other. [`Stream::begin_turn`] limits
/// the messages' bytes.
const TURN: usize = 64;
/// Limit on the bytes received since the last complete message: four times the longest message, because TLS, frame headers, pings and proxies that fragment
/// add bytes. Beyond it the connection counts as broken. Without a limit, a relay could send an incomplete message without end.
const MOST_UNFINISHED: u64 = 4 * MAX_DATAGRAM as u64;

/// Limit on the datagrams that are discarded at the start, 4,096: a socket's buffer holds no more, even if all are short. A lane that keeps sending therefore
/// cannot delay the start.
const MOST_STALE: usize = 4_096;

const LANE: u64 = 1;
const STREAM: u64 = 2;

/// The buffer sizes of a bridge's WebSocket.
pub(super) const LIMITS: WebSocketLimits = WebSocketLimits { read: READ, message: MAX_DATAGRAM, waiting: MOST_WAITING };

/// Reason why an open bridge closed.
pub(super) enum CloseReason {
    /// The handle was dropped, or requested a new connection.
    Requested,
    /// The connection broke. The text is the reason, for the user.
    Broken(String),
}

pub(super) struct Pump<'b> {
    socket: WebSocket<Stream>,
    lane: &'b UdpSocket,
    poller: &'b Poller,
    shared: &'b Shared,
    /// True if the poller watches for room to write.
    watches_write: bool,
    /// True if messages may be waiting in buffers: they were read from the socket already, so the poller does not report them.
    may_have_more: bool,
    /// Total of received bytes at the last complete message.
    bytes_at_message: u64,
    datagram: Vec<u8>,
}

impl<'b> Pump<'b> {
    pub(super) fn new(
        socket: WebSocket<Stream>,
        lane: &'b UdpSocket,
        poller: &'b Poller,
        shared: &'b Shared,
    ) -> io::Result<Self> {
        let datagram = vec![0; MAX_DATAGRAM];
        // If a later step fails, dropping the pump undoes the earlier ones.
        let bytes_at_message = socket.stream().total();
        let mut pump = Self {
            socket,
            lane,
            poller,
            shared,
            watches_write: false,
            may_have_more: true,
            bytes_at_message,
            datagram,
        };
        let tcp = pump.socket.stream().socket();
        tcp.set_nonblocking(true)?;
        tcp.set_read_timeout(None)?;
        // After this call, dropping the handle shuts the connection down, even while the thread waits.
        let duplicate = tcp.try_clone()?;
        shared.cancel.advance(Stage::Connected(duplicate)).map_err(io::Error::other)?;
        // Datagrams that are already in the socket's buffer were meant for an earlier connection.
        for _ in 0..MOST_STALE {
            if lane.recv(&mut pump.datagram).is_err() {
                break;
            }
            shared.dropped_out.fetch_add(1, Ordering::Relaxed);
        }
        poller.add(lane.as_fd(), LANE, Interest::READ)?;
        poller.add(pump.socket.stream().as_fd(), STREAM, Interest::READ)?;
        Ok(pump)
    }

    /// Runs until the connection breaks or the handle ends it.
    pub(super) fn run(mut self, wake: &Waker) -> CloseReason {
        let mut ready = Events::with_capacity(3);
        loop {
            let timeout = self.may_have_more.then_some(Duration::ZERO);
            if let Err(error) = self.poller.wait(&mut ready, timeout) {
                return CloseReason::Broken(error.to_string());
            }
            wake.drain();
            if self.must_close() {
                return CloseReason::Requested;
            }
            let has = |token| ready.iter().any(|event| event.token == token);
            let writable = ready.iter().any(|event| event.token == STREAM && event.writable);
            if let Err(why) = self.turn(has(LANE), has(STREAM), writable) {
                return CloseReason::Broken(why);
            }
        }
    }

    fn must_close(&self) -> bool {
        let moved = self.shared.host_changed.swap(false, Ordering::AcqRel) && self.socket.stream().is_stale();
        let reconnect = self.shared.reconnect.swap(false, Ordering::AcqRel);
        moved || reconnect || self.shared.cancel.is_cancelled()
    }

    fn turn(&mut self, lane: bool, stream: bool, writable: bool) -> Result<(), String> {
        if writable && self.socket.is_blocked() {
            self.socket.flush().map_err(explain)?;
        }
        // Messages are read on any event of the stream, because TLS may have read while it wrote.
        if stream || self.may_have_more {
            self.read_stream()?;
        }
        if lane {
            self.read_lane()?;
        }
        if self.socket.is_blocked() != self.watches_write {
            self.watches_write = !self.watches_write;
            let interest = if self.watches_write { Interest::READ_WRITE } else { Interest::READ };
            self.poller.modify(self.socket.stream().as_fd(), STREAM, interest).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn read_lane(&mut self) -> Result<(), String> {
        for _ in 0..TURN {
            let length = match self.lane.recv(&mut self.datagram) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The lane's socket is being replaced, or was closed. Only this datagram is lost.
                Err(_) => continue,
            };
            let datagram = self.datagram.get(..length).unwrap_or_default();
            if !self.socket.queue(datagram).map_err(explain)? {
                self.shared.dropped_out.fetch_add(1, Ordering::Relaxed);
            }
            if self.socket.waiting() > GATHER && !self.socket.is_blocked() {
                self.socket.flush().map_err(explain)?;
            }
        }
        match self.socket.is_blocked() {
            true => Ok(()),
            false => self.socket.flush().map_err(explain),
        }
    }

    fn read_stream(&mut self) -> Result<(), String> {
        self.may_have_more = false;
        if self.socket.stream().total().saturating_sub(self.bytes_at_message) > MOST_UNFINISHED {
            return Err(String::from("256 KiB came without a complete message"));
        }
        self.socket.stream_mut().begin_turn();
        for _ in 0..TURN {
            match self.socket.read().map_err(explain)? {
                Some(Message::Binary(message)) => {
                    self.bytes_at_message = self.socket.stream().total();
                    if self.lane.send(&message).is_err() {
                        self.shared.dropped_in.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Some(Message::Close(_)) => return Err(String::from("the relay closed the connection")),
                // Pings are answered already.
                Some(Message::Text | Message::Control) => {}
                None => return Ok(()),
            }
        }
        self.may_have_more = true;
        Ok(())
    }
}

impl Drop for Pump<'_> {
    fn drop(&mut self) {
        self.poller.remove(self.lane.as_fd());
        self.poller.remove(self.socket.stream().as_fd());
        // After this the handle cannot shut down a closed descriptor. The call fails only if the bridge was cancelled, which needs no handling here.
        let _ = self.shared.cancel.advance(Stage::Detached);
    }
}

fn explain(error: WebSocketError) -> String {
    let Broken(why) = error.explain(Server::Relay);
    why
}

//! Counters over HTTP: `/metrics` for Prometheus, `/status` as JSON. One small thread.
//!
//! Anyone who can connect can read the counters. Local users share one address, so connections are told apart by whether they sent a request: when all places are
//! taken, the oldest connection without a request is closed for the next one. The thread never blocks on a client (fault P6).

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use taut_base::Time;
use taut_event::{Events, Interest, Poller, Waker};

use crate::listener::Listener;
use crate::stats::Stats;
use crate::system::clocks;

/// Time for one connection to send its request and to read the answer, 2 s.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a request that are read. Only its first line is used.
const REQUEST: usize = 4096;
/// Maximum number of connections, 16: enough for two Prometheus servers and a few people.
const MOST: usize = 16;

const LISTENER: u64 = 0;
const STOP: u64 = 1;
/// The first connection's number.
const FIRST: u64 = 2;

/// A listener that answers until it is dropped.
pub struct Metrics {
    address: SocketAddr,
    stop: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Metrics {
    /// Listens on `address`. Each answer calls `stats`.
    ///
    /// # Errors
    /// If the socket cannot listen on the address.
    pub fn start(address: SocketAddr, stats: impl Fn() -> Stats + Send + 'static) -> io::Result<Self> {
        let (poller, stop) = (Poller::new()?, Waker::new()?);
        let listener = Listener::bind(address, &poller, LISTENER)?;
        let address = listener.address()?;
        poller.add(stop.as_fd(), STOP, Interest::READ)?;
        let server = MetricsServer { listener, poller, connections: BTreeMap::new(), next: FIRST, stats };
        let thread = thread::Builder::new().name("metrics".to_owned()).spawn(move || server.run())?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.stop.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct MetricsServer<F> {
    listener: Listener,
    poller: Poller,
    connections: BTreeMap<u64, Connection>,
    next: u64,
    stats: F,
}

struct Connection {
    stream: TcpStream,
    until: Time,
    /// The rest of the answer, after the request was read.
    answer: Option<Vec<u8>>,
}

impl<F: Fn() -> Stats> MetricsServer<F> {
    fn run(mut self) {
        let mut events = Events::with_capacity(2 * MOST);
        while self.poller.wait(&mut events, self.sleep()).is_ok() {
            if events.iter().any(|event| event.token == STOP) {
                return;
            }
            // Requests are read first, so that none of these connections is closed to make room.
            for event in events.iter().filter(|event| event.token >= FIRST) {
                self.turn(event.token);
            }
            let now = clocks().now;
            self.listener.handle_timeout(&self.poller, now);
            self.connections.retain(|_, connection| now < connection.until);
            if events.iter().any(|event| event.token == LISTENER) {
                self.accept(now);
            }
        }
    }

    fn sleep(&self) -> Option<Duration> {
        let due =
            self.connections.values().map(|connection| connection.until).chain(self.listener.poll_timeout()).min();
        due.map(|due| due.since(clocks().now))
    }

    /// Accepts one connection. The others have their turn before the next one is accepted.
    fn accept(&mut self, now: Time) {
        let Some((stream, _)) = self.listener.accept(&self.poller, now) else { return };
        if self.connections.len() >= MOST {
            let oldest = self.connections.iter().min_by_key(|(number, one)| (one.answer.is_some(), **number));
            let oldest = oldest.map(|(number, _)| *number);
            oldest.and_then(|oldest| self.connections.remove(&oldest));
        }
        let number = self.next;
        self.next += 1;
        let is_watched =
            stream.set_nonblocking(true).is_ok() && self.poller.add(stream.as_fd(), number, Interest::READ).is_ok();
        if is_watched {
            self.connections.insert(number, Connection { stream, until: now + PATIENCE, answer: None });
        }
    }

    fn turn(&mut self, number: u64) {
        let Some(mut connection) = self.connections.remove(&number) else { return };
        if connection.answer.is_none() {
            let mut request = [0; REQUEST];
            match connection.stream.read(&mut request) {
                Ok(length) => connection.answer = Some(self.answer(request.get(..length).unwrap_or_default())),
                Err(error) if is_temporary(&error) => {
                    self.connections.insert(number, connection);
                    return;
                }
                Err(_) => return,
            }
        }
        if connection.write() {
            // Registered and open; if the kernel refused, the time of the connection ends it.
            let _ = self.poller.modify(connection.stream.as_fd(), number, Interest::WRITE);
            self.connections.insert(number, connection);
        }
    }

    /// Returns the answer to a request of which this is the beginning.
    fn answer(&self, request: &[u8]) -> Vec<u8> {
        let (status, kind, body) = if request.starts_with(b"GET /metrics ") {
            ("200 OK", "text/plain; version=0.0.4", (self.stats)().prometheus())
        } else if request.starts_with(b"GET /status ") {
            ("200 OK", "application/json", (self.stats)().json().to_string())
        } else {
            ("404 Not Found", "text/plain", String::from("ask for /metrics or /status\n"))
        };
        let length = body.len();
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close");
        format!("{head}\r\n\r\n{body}").into_bytes()
    }
}

impl Connection {
    /// Writes as much as the socket takes. Returns false when the answer is complete or the client is gone.
    fn write(&mut self) -> bool {
        let answer = self.answer.get_or_insert_default();
        while !answer.is_empty() {
            match self.stream.write(answer) {
                Ok(length) => _ = answer.drain(..length),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        false
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

//! The HTTP port of the metrics: the part of HTTP/1.1 (RFC 9112) that Prometheus needs.
//!
//! ```text
//! accepted ──head read──▶ answered ──all written──▶ closed
//!     └───── too long, too late, gone, evicted ────────┘
//! ```
//! A connection carries one request, `GET` or `HEAD` of `/metrics`; other requests are refused. Anyone who can connect can read the metrics, so the port is open only if
//! the user chose an address, and a port without an address means loopback. The number of connections, the length of a request, the duration of a connection and
//! the rate of new pages are bounded. The port uses the agent's poller and never blocks: a slow reader delays no other. When the number of connections is at its
//! limit, the oldest connection without a request is closed for the next one: local users share one address, so only a sent request distinguishes a reader from an idle client.
//! All clients together have a share of the agent's processor time; when it is used up, new connections wait in the kernel.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use taut_base::{SortedMap, Time};
use taut_event::{Interest, Poller};

use super::CONTENT_TYPE;
use crate::basics::{CpuShare, PART_PAUSE};

/// Maximum number of connections, 16: for one or two Prometheus servers and a few other readers. More connections wait in the kernel's backlog.
const MAX_CONNECTIONS: usize = 16;
/// Time for which a page is reused, 100 ms: a page costs the agent processor time for every peer, and any client may request one.
const FRESH: Duration = Duration::from_millis(100);
/// Maximum length of a request in bytes: Prometheus sends about 300.
const MAX_HEAD: usize = 4096;
/// Timeout of a connection, 10 s: as long as the default timeout of Prometheus.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Processor time of all clients, a fifth of a core with a burst of 200 ms: a page of ten thousand members takes some 50 ms.
const SHARE: CpuShare = CpuShare::new(5, Duration::from_millis(200));
/// Pause of accepting when the daemon has no free descriptor, 1 s.
const RETRY: Duration = Duration::from_secs(1);
/// First poller token of this port, above those of the local API, which count up from 16.
pub(crate) const FIRST_TOKEN: u64 = 1 << 48;

/// The listening socket and its connections.
pub(crate) struct MetricsServer {
    listener: TcpListener,
    connections: SortedMap<u64, HttpConnection>,
    next: u64,
    /// Time at which a pause of accepting ends.
    retry: Option<Time>,
    /// Number of times that the poller reported new connections.
    turn: u64,
    /// The last page, and the time at which it was made.
    page: Option<(Time, String)>,
    /// Time at which the processor time that clients used is paid off.
    paid: Time,
}

/// A connection of a client.
struct HttpConnection {
    stream: TcpStream,
    until: Time,
    /// Turn in which the connection was accepted.
    turn: u64,
    head: Vec<u8>,
    /// Time at which the rest of an incomplete request is read. The poller does not watch the connection until then.
    part: Option<Time>,
    /// The response, and the number of written bytes; `None` until the request was read.
    answer: Option<(Vec<u8>, usize)>,
}

impl MetricsServer {
    /// Listens at this address, and has `poller` report new connections.
    pub(crate) fn listen(address: SocketAddr, poller: &Poller) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        poller.add(listener.as_fd(), FIRST_TOKEN, Interest::READ)?;
        Ok(Self {
            listener,
            connections: SortedMap::new(),
            next: FIRST_TOKEN + 1,
            retry: None,
            turn: 0,
            page: None,
            paid: Time::ZERO,
        })
    }

    /// Returns the address of the port.
    #[cfg(test)]
    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// Serves the token that `poller` reported. `figures` makes the page if it is requested.
    pub(crate) fn serve(&mut self, token: u64, poller: &Poller, now: Time, mut figures: impl FnMut() -> String) {
        if token == FIRST_TOKEN {
            self.turn += 1;
            self.make_room(poller);
            return self.accept(poller, now);
        }
        let Some(connection) = self.connections.get_mut(&token) else { return };
        if connection.part.is_some_and(|due| now < due) {
            // While its request is incomplete, the connection is watched only for its end.
            return self.close(token, poller, now);
        }
        let page = &mut self.page;
        let mut fresh = || match page {
            Some((made, page)) if now < *made + FRESH => page.clone(),
            _ => page.insert((now, figures())).1.clone(),
        };
        if !connection.advance(&mut fresh) {
            return self.close(token, poller, now);
        }
        let is_part = connection.answer.is_none() && !connection.head.is_empty();
        connection.part = is_part.then(|| now + PART_PAUSE);
        let interest = match (&connection.answer, is_part) {
            (Some(_), _) => Interest::WRITE,
            (None, true) => Interest::NONE,
            (None, false) => Interest::READ,
        };
        // The connection is registered and open. If the kernel refused, its timeout would end it.
        let _ = poller.modify(connection.stream.as_fd(), token, interest);
    }

    /// Charges all clients together with the time that serving one of them took.
    pub(crate) fn charge(&mut self, cost: Duration, now: Time) {
        self.paid = SHARE.charge(self.paid, cost, now);
    }

    /// Closes connections whose timeout has expired, reads the rest of incomplete requests, and accepts after a pause.
    pub(crate) fn handle_timeout(&mut self, poller: &Poller, now: Time, mut figures: impl FnMut() -> String) {
        let late: Vec<u64> =
            self.connections.iter().filter(|(_, one)| now >= one.until).map(|(token, _)| *token).collect();
        for token in late {
            self.close(token, poller, now);
        }
        let is_due = |connection: &HttpConnection| connection.part.is_some_and(|due| due <= now);
        let parts: Vec<u64> = self.connections.iter().filter(|(_, one)| is_due(one)).map(|(token, _)| *token).collect();
        for token in parts {
            self.serve(token, poller, now, &mut figures);
        }
        if self.retry.is_some_and(|due| now >= due) {
            self.accept(poller, now);
        }
    }

    /// Returns the time at which [`Self::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let times = self.connections.values().flat_map(|connection| [Some(connection.until), connection.part]);
        times.flatten().chain(self.retry).min()
    }

    fn close(&mut self, token: u64, poller: &Poller, now: Time) {
        if let Some(connection) = self.connections.remove(&token) {
            poller.remove(connection.stream.as_fd());
        }
        self.accept(poller, now);
    }

    /// Closes the oldest connection when their number is at its limit: the oldest one without a request, otherwise the oldest of all. Each candidate has been served at
    /// least once since it was accepted, so a client that sends its request at once gets its response.
    fn make_room(&mut self, poller: &Poller) {
        if self.connections.len() < MAX_CONNECTIONS {
            return;
        }
        let had_a_chance = |connection: &HttpConnection| connection.turn + 2 <= self.turn;
        let oldest = self.connections.iter().filter(|(_, one)| had_a_chance(one));
        if let Some((&token, _)) = oldest.min_by_key(|(token, one)| (one.answer.is_some(), **token))
            && let Some(connection) = self.connections.remove(&token)
        {
            poller.remove(connection.stream.as_fd());
        }
    }

    fn accept(&mut self, poller: &Poller, now: Time) {
        self.retry = Some(SHARE.due(self.paid)).filter(|due| now < *due);
        while self.retry.is_none() && self.connections.len() < MAX_CONNECTIONS {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.retry = Some(now + RETRY);
                    break;
                }
            };
            let token = self.next;
            if stream.set_nonblocking(true).is_err() || poller.add(stream.as_fd(), token, Interest::READ).is_err() {
                continue;
            }
            self.next += 1;
            let connection = HttpConnection {
                stream,
                until: now + CONNECTION_TIMEOUT,
                turn: self.turn,
                head: Vec::new(),
                part: None,
                answer: None,
            };
            self.connections.insert(token, connection);
        }
        // A further connection evicts the oldest one. Without a free descriptor, a waiting connection would keep the socket readable, and the daemon would spin.
        let open = self.retry.is_none();
        let wanted = if open { Interest::READ } else { Interest::NONE };
        // The socket is registered and open, so the kernel does not refuse.
        let _ = poller.modify(self.listener.as_fd(), FIRST_TOKEN, wanted);
    }
}

impl HttpConnection {
    /// Reads and writes as far as possible. Returns false if the connection has ended.
    fn advance(&mut self, figures: &mut impl FnMut() -> String) -> bool {
        while self.answer.is_none() {
            let mut chunk = [0; 1024];
            match self.stream.read(&mut chunk) {
                Ok(0) => return false,
                Ok(length) => self.head.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return false,
            }
            self.answer = respond(&self.head, figures).map(|answer| (answer, 0));
        }
        let Some((answer, written)) = &mut self.answer else { return true };
        while *written < answer.len() {
            match self.stream.write(&answer[*written..]) {
                Ok(0) => return false,
                Ok(length) => *written += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        false
    }
}

/// Returns the response to these bytes; `None` while the request is incomplete.
fn respond(head: &[u8], figures: &mut impl FnMut() -> String) -> Option<Vec<u8>> {
    let whole = head.windows(4).any(|end| end == b"\r\n\r\n") || head.windows(2).any(|end| end == b"\n\n");
    if head.len() > MAX_HEAD {
        return Some(message("431 Request Header Fields Too Large", "the request is too long\n", true));
    }
    if !whole {
        return None;
    }
    let line = head.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [method, target, version] = words[..] else {
        return Some(message("400 Bad Request", "this is not an HTTP/1.1 request\n", true));
    };
    if !version.starts_with(b"HTTP/1.") {
        return Some(message("505 HTTP Version Not Supported", "only HTTP/1.1 is supported\n", true));
    }
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    Some(match (method, path) {
        (b"GET", b"/metrics") => message("200 OK", &figures(), true),
        (b"HEAD", b"/metrics") => message("200 OK", &figures(), false),
        (b"GET" | b"HEAD", _) => message("404 Not Found", "the metrics are at /metrics\n", method == b"GET"),
        _ => message("405 Method Not Allowed", "only GET and HEAD are supported\n", true),
    })
}

fn message(status: &str, body: &str, with_body: bool) -> Vec<u8> {
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {}\r\nX-Content-Type-Options: nosniff\r\n\
         Connection: close\r\n{allow}\r\n",
        body.len()
    );
    let mut message = head.into_bytes();
    message.extend_from_slice(if with_body { body.as_bytes() } else { b"" });
    message
}

#[cfg(test)]
mod tests;

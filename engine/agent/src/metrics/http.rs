//! Hands the figures to a Prometheus: HTTP/1.1 (RFC 9112), as much of it as that takes.
//!
//! ```text
//! accepted ──head read──▶ answered ──all written──▶ closed
//!     └───── too long, too late, gone, in the way ─────┘
//! ```
//! One request per connection, `GET` or `HEAD` of `/metrics`; all else is refused in a line. Whoever may connect may read, so it listens where the user
//! said and nowhere by itself, and a bare port means loopback. Bounded: connections at a time, bytes of a request, seconds of a connection, pages made in a
//! second. It lives on the agent's poller and never blocks; at no moment does a slow reader hold up anybody. When all places are taken, the oldest
//! connection that has not asked makes room for the next: local users all come from one address, so they are told apart by who asks and who only waits.
//! All of them together have a share of the agent's processor time; when it is used up, new connections wait in the kernel.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use taut_base::Time;
use taut_event::{Interest, Poller};

use super::CONTENT_TYPE;
use crate::share::{PART_PAUSE, Share};

/// Connections at a time, and let in at a time: a Prometheus or two, and somebody who looks. More wait in the kernel's backlog.
const MAX_CONNECTIONS: usize = 16;
/// For how long a page is given out before another is made: it costs the agent a look at every peer, and anybody may ask.
const FRESH: Duration = Duration::from_millis(100);
/// Longest request in bytes: Prometheus sends some 300.
const MAX_HEAD: usize = 4096;
/// How long a connection may last: Prometheus itself gives up after 10 s.
const PATIENCE: Duration = Duration::from_secs(10);
/// Processor time of all clients, a fifth of a core, 200 ms at once: a page of ten thousand members takes some 50 ms.
const SHARE: Share = Share::new(5, Duration::from_millis(200));
/// How soon somebody is let in who came while the daemon had no descriptor left.
const RETRY: Duration = Duration::from_secs(1);
/// Tokens of this socket and its connections start here, above all of the local API's, which count up from 16 by one for each user.
pub(crate) const FIRST_TOKEN: u64 = 1 << 48;

/// The listening socket and its connections.
pub(crate) struct Responder {
    listener: TcpListener,
    connections: BTreeMap<u64, Connection>,
    next: u64,
    /// When to look for connections again after there was no descriptor for one.
    retry: Option<Time>,
    /// How often the poller said that somebody waits.
    turn: u64,
    /// The last page, and when it was made.
    page: Option<(Time, String)>,
    /// When the processor time that clients used is paid off.
    paid: Time,
}

struct Connection {
    stream: TcpStream,
    until: Time,
    /// The turn in which it was let in.
    turn: u64,
    head: Vec<u8>,
    /// When the rest of a request is read, of which a part came; the poller is not asked until then.
    part: Option<Time>,
    /// What is left to be written, once the request was read.
    answer: Option<(Vec<u8>, usize)>,
}

impl Responder {
    /// Listens there, and has `poller` report it.
    pub(crate) fn listen(address: SocketAddr, poller: &Poller) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        poller.add(listener.as_fd(), FIRST_TOKEN, Interest::READ)?;
        Ok(Self {
            listener,
            connections: BTreeMap::new(),
            next: FIRST_TOKEN + 1,
            retry: None,
            turn: 0,
            page: None,
            paid: Time::ZERO,
        })
    }

    /// Where it listens.
    #[cfg(test)]
    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// Something happened at this token. `figures` makes the page, where it was asked for.
    pub(crate) fn serve(&mut self, token: u64, poller: &Poller, now: Time, mut figures: impl FnMut() -> String) {
        if token == FIRST_TOKEN {
            self.turn += 1;
            self.make_room(poller);
            return self.accept(poller, now);
        }
        let Some(connection) = self.connections.get_mut(&token) else { return };
        if connection.part.is_some_and(|due| now < due) {
            // It is watched for nothing else than its end.
            return self.close(token, poller, now);
        }
        let page = &mut self.page;
        let mut fresh = || match page {
            Some((made, page)) if now < *made + FRESH => page.clone(),
            _ => page.insert((now, figures())).1.clone(),
        };
        if !connection.go_on(&mut fresh) {
            return self.close(token, poller, now);
        }
        let is_part = connection.answer.is_none() && !connection.head.is_empty();
        connection.part = is_part.then(|| now + PART_PAUSE);
        let interest = match (&connection.answer, is_part) {
            (Some(_), _) => Interest::WRITE,
            (None, true) => Interest::NONE,
            (None, false) => Interest::READ,
        };
        // Registered and open; if the kernel refused, the time of the connection ends it.
        let _ = poller.modify(connection.stream.as_fd(), token, interest);
    }

    /// Charges all clients together with the time that serving one of them took.
    pub(crate) fn charge(&mut self, cost: Duration, now: Time) {
        self.paid = SHARE.charge(self.paid, cost, now);
    }

    /// Ends connections whose time is over, reads the rest of requests, and lets those in who waited.
    pub(crate) fn handle_timeout(&mut self, poller: &Poller, now: Time, mut figures: impl FnMut() -> String) {
        let late: Vec<u64> =
            self.connections.iter().filter(|(_, one)| now >= one.until).map(|(token, _)| *token).collect();
        for token in late {
            self.close(token, poller, now);
        }
        let is_due = |connection: &Connection| connection.part.is_some_and(|due| due <= now);
        let parts: Vec<u64> = self.connections.iter().filter(|(_, one)| is_due(one)).map(|(token, _)| *token).collect();
        for token in parts {
            self.serve(token, poller, now, &mut figures);
        }
        if self.retry.is_some_and(|due| now >= due) {
            self.accept(poller, now);
        }
    }

    /// When the time of a connection is over, the rest of a request is read, or somebody may come in again.
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

    /// Ends the oldest connection when all places are taken: of those that have not asked yet, else of all. The poller was asked at least once since
    /// each of these came in, so whoever sends a request at once is answered before it can be the oldest.
    fn make_room(&mut self, poller: &Poller) {
        if self.connections.len() < MAX_CONNECTIONS {
            return;
        }
        let had_a_chance = |connection: &Connection| connection.turn + 2 <= self.turn;
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
            let connection = Connection {
                stream,
                until: now + PATIENCE,
                turn: self.turn,
                head: Vec::new(),
                part: None,
                answer: None,
            };
            self.connections.insert(token, connection);
        }
        // The next who comes makes the oldest go. Without a descriptor, whoever waits would keep the socket readable and the daemon turning in circles.
        let open = self.retry.is_none();
        let wanted = if open { Interest::READ } else { Interest::NONE };
        // Registered and open, so the kernel has no reason to refuse.
        let _ = poller.modify(self.listener.as_fd(), FIRST_TOKEN, wanted);
    }
}

impl Connection {
    /// Reads and writes as far as it goes; false at its end.
    fn go_on(&mut self, figures: &mut impl FnMut() -> String) -> bool {
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

/// The answer to these bytes; `None` while the request is not whole.
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
        return Some(message("400 Bad Request", "this is no request of HTTP/1.1\n", true));
    };
    if !version.starts_with(b"HTTP/1.") {
        return Some(message("505 HTTP Version Not Supported", "speak HTTP/1.1\n", true));
    }
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    Some(match (method, path) {
        (b"GET", b"/metrics") => message("200 OK", &figures(), true),
        (b"HEAD", b"/metrics") => message("200 OK", &figures(), false),
        (b"GET" | b"HEAD", _) => message("404 Not Found", "the figures are at /metrics\n", method == b"GET"),
        _ => message("405 Method Not Allowed", "only GET and HEAD\n", true),
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

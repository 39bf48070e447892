//! The STUN requests of `taut netcheck`, and their answers.
//!
//! Each address family has three sockets, one per question, because a NAT admits packets according to what the socket has sent before:
//!
//! | socket | asks | to learn |
//! |---|---|---|
//! | `Main` | each server, and the second port that a server names | latency, outside endpoint, mapping |
//! | `Quiet` | the first server that answered, for an answer from the same port and for one from its other port | filtering |
//! | `Third` | this host's outside endpoint | hairpin: whether `Main` receives the request |
//!
//! Each question is sent up to three times, each time with another transaction, so that a late answer does not count as a fast one. A question ends when it
//! is answered, or some time after its last try. Answers lead to further questions; the survey ends when no question is open.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use taut_base::SOCKET_MARK;
use taut_event::{Events, Interest, Poller, set_mark};
use taut_wire::stun::{BindingRequest, BindingResponse, MAX_LEN, REQUEST_LEN, Transaction};

use super::StunServer;

/// Times of the three requests of a question, since its start.
const TRIES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(250), Duration::from_millis(750)];
/// Longest wait for an answer after the last request, 1.25 s: about twice the round-trip time over a geostationary satellite.
const LAST_WAIT: Duration = Duration::from_millis(1250);

/// The result of a survey.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) ipv4: Family,
    pub(super) ipv6: Family,
}

/// The result for one address family.
#[derive(Clone, Debug, Default)]
pub(super) struct Family {
    /// True if any server was asked.
    pub(super) asked: bool,
    /// This host's address towards the servers, if there is a route.
    pub(super) local: Option<SocketAddr>,
    /// The answers that arrived on `Main`.
    pub(super) answers: Vec<ObservedAddress>,
    /// True if an answer from the server's other port arrived; `None` if none was requested.
    pub(super) other_port_answered: Option<bool>,
    /// True if a packet to this host's outside endpoint came back; `None` if none was sent.
    pub(super) hairpin: Option<bool>,
}

/// The address of this host as a server sees it, from one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ObservedAddress {
    /// The server's address.
    pub(super) server: SocketAddr,
    /// The address of this host that the server saw.
    pub(super) mapped: SocketAddr,
    /// Round-trip time.
    pub(super) time: Duration,
}

/// The purpose of a socket, by which it is indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Main,
    Quiet,
    Third,
}

const PURPOSES: [Purpose; 3] = [Purpose::Main, Purpose::Quiet, Purpose::Third];

/// A question on one socket.
struct Question {
    from: Purpose,
    to: SocketAddr,
    change_port: bool,
    begin: Instant,
    base: [u8; 11],
    tries: usize,
    answered: bool,
    sent: [Option<Instant>; TRIES.len()],
}

/// The questions of one family and its sockets.
struct Inquiry {
    sockets: [UdpSocket; PURPOSES.len()],
    questions: Vec<Question>,
    found: Family,
    random: std::fs::File,
}

/// Asks the servers.
///
/// # Errors
/// Fails if no socket of any family can be opened.
pub(super) fn run(servers: &[StunServer]) -> io::Result<Survey> {
    let of = |ipv4: bool| -> Vec<SocketAddr> {
        servers.iter().flat_map(|server| &server.endpoints).copied().filter(|one| one.is_ipv4() == ipv4).collect()
    };
    let mut inquiries = [Inquiry::new(&of(true), true)?, Inquiry::new(&of(false), false).or_else(no_ipv6)?];
    let poller = Poller::new()?;
    for (number, inquiry) in (0..).zip(&inquiries) {
        for socket in inquiry.iter().flat_map(|inquiry| &inquiry.sockets) {
            poller.add(socket.as_fd(), number, Interest::READ)?;
        }
    }
    let mut events = Events::with_capacity(8);
    loop {
        let now = Instant::now();
        let due = inquiries.iter_mut().flatten().filter_map(|inquiry| inquiry.turn(now)).min();
        let Some(due) = due else { break };
        poller.wait(&mut events, Some(due.saturating_duration_since(Instant::now())))?;
        inquiries.iter_mut().flatten().for_each(Inquiry::receive);
    }
    let [ipv4, ipv6] = inquiries.map(|inquiry| inquiry.map_or_else(Family::default, Inquiry::end));
    let asked = |family: Family, ipv4: bool| Family { asked: !of(ipv4).is_empty(), ..family };
    Ok(Survey { ipv4: asked(ipv4, true), ipv6: asked(ipv6, false) })
}

/// Turns an error on IPv6 into `None`: a kernel without IPv6 cannot open IPv6 sockets.
fn no_ipv6(_: io::Error) -> io::Result<Option<Inquiry>> {
    Ok(None)
}

impl Inquiry {
    /// Returns `None` if there are no servers.
    fn new(servers: &[SocketAddr], ipv4: bool) -> io::Result<Option<Self>> {
        if servers.is_empty() {
            return Ok(None);
        }
        let any = if ipv4 { IpAddr::from(Ipv4Addr::UNSPECIFIED) } else { IpAddr::from(Ipv6Addr::UNSPECIFIED) };
        let open = || {
            let socket = UdpSocket::bind((any, 0))?;
            // The daemon's packets are marked, too: the network of this host is tested, also while an exit node is in use. Users without the right test what their programs have.
            let _ = set_mark(&socket, SOCKET_MARK);
            socket.set_nonblocking(true).map(|()| socket)
        };
        let sockets = [open()?, open()?, open()?];
        let random = std::fs::File::open("/dev/urandom")?;
        let mut inquiry = Self { sockets, questions: Vec::new(), found: Family::default(), random };
        let own = inquiry.sockets[0].local_addr()?.port();
        inquiry.found.local =
            servers.iter().find_map(|server| towards(any, *server)).map(|ip| SocketAddr::new(ip, own));
        for server in servers {
            inquiry.ask(Purpose::Main, *server, false)?;
        }
        Ok(Some(inquiry))
    }

    fn ask(&mut self, from: Purpose, to: SocketAddr, change_port: bool) -> io::Result<()> {
        let mut base = [0; 11];
        io::Read::read_exact(&mut self.random, &mut base)?;
        let begin = Instant::now();
        let (tries, answered, sent) = (0, false, [None; TRIES.len()]);
        self.questions.push(Question { from, to, change_port, begin, base, tries, answered, sent });
        Ok(())
    }

    /// Sends the requests that are due. Returns the time of the next call, or `None` if no question is open.
    fn turn(&mut self, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        for question in self.questions.iter_mut().filter(|question| !question.answered) {
            while question.tries < TRIES.len() && now >= question.begin + TRIES[question.tries] {
                let transaction = question.transaction(question.tries);
                let mut bytes = [0; REQUEST_LEN];
                BindingRequest { transaction, change_port: question.change_port }.write(&mut bytes);
                // A failed send counts as a missing answer, for example if no route exists.
                let _ = self.sockets[question.from as usize].send_to(&bytes, question.to);
                question.sent[question.tries] = Some(now);
                question.tries += 1;
            }
            let due = match TRIES.get(question.tries) {
                Some(after) => question.begin + *after,
                None => question.begin + TRIES[TRIES.len() - 1] + LAST_WAIT,
            };
            if now < due {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        next
    }

    fn receive(&mut self) {
        for used in PURPOSES {
            let mut bytes = [0; MAX_LEN];
            while let Ok((length, source)) = self.sockets[used as usize].recv_from(&mut bytes) {
                let now = Instant::now();
                match BindingResponse::parse(&bytes[..length]) {
                    Ok(answer) => self.take(used, source, &answer, now),
                    Err(_) => self.take_echo(used, &bytes[..length]),
                }
            }
        }
    }

    fn take(&mut self, used: Purpose, source: SocketAddr, answer: &BindingResponse, now: Instant) {
        let is_meant =
            |question: &&mut Question| question.from == used && question.time(&answer.transaction, now).is_some();
        let Some(question) = self.questions.iter_mut().find(is_meant) else { return };
        // An answer from the wrong port is ignored: it does not show how the NAT filters.
        if question.answered || (source == question.to) == question.change_port {
            return;
        }
        question.answered = true;
        let (to, change_port) = (question.to, question.change_port);
        let time = question.time(&answer.transaction, now).unwrap_or_default();
        match (used, change_port) {
            (Purpose::Main, _) => self.take_mapped(to, answer, time),
            (Purpose::Quiet, true) => self.found.other_port_answered = Some(true),
            (Purpose::Quiet, false) | (Purpose::Third, _) => {}
        }
    }

    /// Handles a server's answer about `Main`, and asks the further questions that it makes possible.
    fn take_mapped(&mut self, server: SocketAddr, answer: &BindingResponse, time: Duration) {
        let first = self.found.answers.is_empty();
        self.found.answers.push(ObservedAddress { server, mapped: answer.mapped, time });
        // Only a second port of the same address is used (RFC 5780). Another address could be that of a victim, chosen by the server.
        let other = answer.other.filter(|other| other.ip() == server.ip() && other.port() != server.port());
        let already =
            other.is_some_and(|other| self.questions.iter().any(|one| one.from == Purpose::Main && one.to == other));
        let mut follow = Vec::new();
        if let Some(other) = other.filter(|_| !already) {
            follow.push((Purpose::Main, other, false));
        }
        if first && other.is_some() {
            follow.extend([(Purpose::Quiet, server, false), (Purpose::Quiet, server, true)]);
        }
        if first && self.found.local != Some(answer.mapped) {
            follow.push((Purpose::Third, answer.mapped, false));
        }
        for (from, to, change_port) in follow {
            // A question fails only if the system has no randomness. It is then skipped.
            let _ = self.ask(from, to, change_port);
        }
    }

    /// Handles a request of the socket `Third` that the NAT sent back to `Main`.
    fn take_echo(&mut self, used: Purpose, bytes: &[u8]) {
        let Ok(request) = BindingRequest::parse(bytes) else { return };
        let now = Instant::now();
        let is_ours = |one: &&mut Question| one.from == Purpose::Third && one.time(&request.transaction, now).is_some();
        if let Some(question) = self.questions.iter_mut().find(is_ours).filter(|_| used == Purpose::Main) {
            question.answered = true;
            self.found.hairpin = Some(true);
        }
    }

    /// Returns the result, once no question is open.
    fn end(mut self) -> Family {
        let asked = |from: Purpose, change_port: bool| {
            self.questions.iter().find(|question| question.from == from && question.change_port == change_port)
        };
        // A missing answer from the other port counts only if the first port answered on the same socket.
        let quiet_works = asked(Purpose::Quiet, false).is_some_and(|question| question.answered);
        if asked(Purpose::Quiet, true).is_some() && quiet_works {
            self.found.other_port_answered.get_or_insert(false);
        }
        if asked(Purpose::Third, false).is_some() {
            self.found.hairpin.get_or_insert(false);
        }
        self.found.answers.sort_by_key(|seen| seen.time);
        self.found
    }
}

impl Question {
    /// Returns the transaction of request `number`.
    fn transaction(&self, number: usize) -> Transaction {
        let mut transaction = [0; 12];
        transaction[..11].copy_from_slice(&self.base);
        transaction[11] = number as u8;
        transaction
    }

    /// Returns the time since the request with this transaction; `None` if the transaction belongs to another question.
    fn time(&self, transaction: &Transaction, now: Instant) -> Option<Duration> {
        let (base, number) = transaction.split_at(11);
        let sent = self.sent.get(usize::from(number[0])).copied().flatten()?;
        (base == self.base).then(|| now.saturating_duration_since(sent))
    }
}

/// Returns this host's address towards a server: the source address that the kernel would choose. Nothing is sent.
fn towards(any: IpAddr, server: SocketAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((any, 0)).ok()?;
    let _ = set_mark(&socket, SOCKET_MARK);
    socket.connect(server).ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}

#[cfg(test)]
mod tests;

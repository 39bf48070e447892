//! The questions of `taut netcheck`, and their answers.
//!
//! Per address family three sockets, each for a question of its own, because what a NAT lets in depends on what a socket sent before:
//!
//! | socket | asks | to learn |
//! |---|---|---|
//! | `Main` | each server, and the second port that a server names | latency, outside endpoint, mapping |
//! | `Quiet` | the first server that answered: to answer from there, and from its other port | filtering |
//! | `Third` | our own outside endpoint | hairpin: `Main` hears it, or not |
//!
//! Every question is sent up to three times, each time under another transaction, so that a late answer is not taken for a fast one. A question ends when
//! it is answered, or some time after its last try. New questions come from answers; the survey is over when none is open.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use taut_event::{Events, Interest, Poller};
use taut_wire::stun::{BindingRequest, BindingResponse, MAX_LEN, REQUEST_LEN, Transaction};

use super::Server;

/// When a question is sent, after its begin.
const TRIES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(250), Duration::from_millis(750)];
/// How long an answer is waited for after the last try: round the earth by satellite.
const PATIENCE: Duration = Duration::from_millis(1250);

/// What was found out.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) ipv4: Family,
    pub(super) ipv6: Family,
}

/// The same of one address family.
#[derive(Clone, Debug, Default)]
pub(super) struct Family {
    /// Whether any server was asked.
    pub(super) asked: bool,
    /// Our own address towards the servers, if there is a route.
    pub(super) local: Option<SocketAddr>,
    /// Who answered on `Main`.
    pub(super) answers: Vec<Seen>,
    /// Whether an answer from the server's other port came in; `None` where that was not, or could not be asked.
    pub(super) other_port_came_in: Option<bool>,
    /// Whether our own outside endpoint leads back; `None` where it was not tried.
    pub(super) hairpin: Option<bool>,
}

/// A server's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Who answered.
    pub(super) server: SocketAddr,
    /// Where it saw us.
    pub(super) mapped: SocketAddr,
    /// There and back.
    pub(super) time: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Main,
    Quiet,
    Third,
}

const USES: [Use; 3] = [Use::Main, Use::Quiet, Use::Third];

/// Something that is asked on one socket.
struct Question {
    from: Use,
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
    sockets: [UdpSocket; USES.len()],
    questions: Vec<Question>,
    found: Family,
    random: std::fs::File,
}

/// Asks the servers.
///
/// # Errors
/// When no socket of any family can be had.
pub(super) fn run(servers: &[Server]) -> io::Result<Survey> {
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

/// A kernel without IPv6 has no such sockets, and that is an answer, too.
fn no_ipv6(_: io::Error) -> io::Result<Option<Inquiry>> {
    Ok(None)
}

impl Inquiry {
    /// Nothing to ask: `None`.
    fn new(servers: &[SocketAddr], ipv4: bool) -> io::Result<Option<Self>> {
        if servers.is_empty() {
            return Ok(None);
        }
        let any = if ipv4 { IpAddr::from(Ipv4Addr::UNSPECIFIED) } else { IpAddr::from(Ipv6Addr::UNSPECIFIED) };
        let open = || {
            let socket = UdpSocket::bind((any, 0))?;
            socket.set_nonblocking(true).map(|()| socket)
        };
        let sockets = [open()?, open()?, open()?];
        let random = std::fs::File::open("/dev/urandom")?;
        let mut inquiry = Self { sockets, questions: Vec::new(), found: Family::default(), random };
        let own = inquiry.sockets[0].local_addr()?.port();
        inquiry.found.local =
            servers.iter().find_map(|server| towards(any, *server)).map(|ip| SocketAddr::new(ip, own));
        for server in servers {
            inquiry.ask(Use::Main, *server, false)?;
        }
        Ok(Some(inquiry))
    }

    fn ask(&mut self, from: Use, to: SocketAddr, change_port: bool) -> io::Result<()> {
        let mut base = [0; 11];
        io::Read::read_exact(&mut self.random, &mut base)?;
        let begin = Instant::now();
        let (tries, answered, sent) = (0, false, [None; TRIES.len()]);
        self.questions.push(Question { from, to, change_port, begin, base, tries, answered, sent });
        Ok(())
    }

    /// Sends what is due; when to come again, `None` when all is over.
    fn turn(&mut self, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        for question in self.questions.iter_mut().filter(|question| !question.answered) {
            while question.tries < TRIES.len() && now >= question.begin + TRIES[question.tries] {
                let transaction = question.transaction(question.tries);
                let mut bytes = [0; REQUEST_LEN];
                BindingRequest { transaction, change_port: question.change_port }.write(&mut bytes);
                // A host without a route there says so at once; to the survey that is silence.
                let _ = self.sockets[question.from as usize].send_to(&bytes, question.to);
                question.sent[question.tries] = Some(now);
                question.tries += 1;
            }
            let due = match TRIES.get(question.tries) {
                Some(after) => question.begin + *after,
                None => question.begin + TRIES[TRIES.len() - 1] + PATIENCE,
            };
            if now < due {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        next
    }

    fn receive(&mut self) {
        for used in USES {
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

    fn take(&mut self, used: Use, source: SocketAddr, answer: &BindingResponse, now: Instant) {
        let is_meant =
            |question: &&mut Question| question.from == used && question.time(&answer.transaction, now).is_some();
        let Some(question) = self.questions.iter_mut().find(is_meant) else { return };
        // An answer that was asked for from another port and comes from the same one tells nothing.
        if question.answered || (source == question.to) == question.change_port {
            return;
        }
        question.answered = true;
        let (to, change_port) = (question.to, question.change_port);
        let time = question.time(&answer.transaction, now).unwrap_or_default();
        match (used, change_port) {
            (Use::Main, _) => self.take_mapped(to, answer, time),
            (Use::Quiet, true) => self.found.other_port_came_in = Some(true),
            (Use::Quiet, false) | (Use::Third, _) => {}
        }
    }

    /// A server says where `Main` is; what can be asked next follows from it.
    fn take_mapped(&mut self, server: SocketAddr, answer: &BindingResponse, time: Duration) {
        let first = self.found.answers.is_empty();
        self.found.answers.push(Seen { server, mapped: answer.mapped, time });
        // RFC 5780: the second port of the same address. One of another address would be somebody else who is told to be asked.
        let other = answer.other.filter(|other| other.ip() == server.ip() && other.port() != server.port());
        let already =
            other.is_some_and(|other| self.questions.iter().any(|one| one.from == Use::Main && one.to == other));
        let mut follow = Vec::new();
        if let Some(other) = other.filter(|_| !already) {
            follow.push((Use::Main, other, false));
        }
        if first && other.is_some() {
            follow.extend([(Use::Quiet, server, false), (Use::Quiet, server, true)]);
        }
        if first && self.found.local != Some(answer.mapped) {
            follow.push((Use::Third, answer.mapped, false));
        }
        for (from, to, change_port) in follow {
            // Without randomness nothing more is asked.
            let _ = self.ask(from, to, change_port);
        }
    }

    /// A request of our own third socket, which came back to us.
    fn take_echo(&mut self, used: Use, bytes: &[u8]) {
        let Ok(request) = BindingRequest::parse(bytes) else { return };
        let now = Instant::now();
        let is_ours = |one: &&mut Question| one.from == Use::Third && one.time(&request.transaction, now).is_some();
        if let Some(question) = self.questions.iter_mut().find(is_ours).filter(|_| used == Use::Main) {
            question.answered = true;
            self.found.hairpin = Some(true);
        }
    }

    /// What was found, when no question is open any more.
    fn end(mut self) -> Family {
        let asked = |from: Use, change_port: bool| {
            self.questions.iter().find(|question| question.from == from && question.change_port == change_port)
        };
        // That the other port is silent says something only where the first one was not.
        let quiet_works = asked(Use::Quiet, false).is_some_and(|question| question.answered);
        if asked(Use::Quiet, true).is_some() && quiet_works {
            self.found.other_port_came_in.get_or_insert(false);
        }
        if asked(Use::Third, false).is_some() {
            self.found.hairpin.get_or_insert(false);
        }
        self.found.answers.sort_by_key(|seen| seen.time);
        self.found
    }
}

impl Question {
    /// That of one try.
    fn transaction(&self, number: usize) -> Transaction {
        let mut transaction = [0; 12];
        transaction[..11].copy_from_slice(&self.base);
        transaction[11] = number as u8;
        transaction
    }

    /// How long the try with this transaction took; `None` for a transaction that is not ours.
    fn time(&self, transaction: &Transaction, now: Instant) -> Option<Duration> {
        let (base, number) = transaction.split_at(11);
        let sent = self.sent.get(usize::from(number[0])).copied().flatten()?;
        (base == self.base).then(|| now.saturating_duration_since(sent))
    }
}

/// Our own address towards a server: the kernel tells the one that it would send from, and nothing is sent.
fn towards(any: IpAddr, server: SocketAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(server).ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}

#[cfg(test)]
mod tests;

//! Servers that a stub has asked: those of split domains and the exit node, through the overlay. What they answer goes back to the lane whose stub was asked. And, at an exit node, the peers that
//! ask it (`served`).
//!
//! ```text
//! lane ── FromLane::Question ──▶ agent ── ask ──▶ a thread: one server after the other, over UDP or TCP as the program asked
//!      ◀── ToLane::Answer ──────       ◀── waker ──
//! ```
//! Each question has a thread of its own while it waits, with a socket whose port the kernel draws. They are few and bounded; the agent and the lanes wait for none of them, so names of peers
//! are answered while every server is dead.

mod served;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use taut_base::{Entropy, LaneId, Prefix, SortedMap, SortedSet};
use taut_dns::{Client, Question, failure, leads_to, no_data};
use taut_event::{Receiver, Sender, UNBOUNDED, Waker, channel};

use crate::basics::OsEntropy;
use crate::resolver::{ask_by_tcp, ask_by_udp};
pub(crate) use served::{ServedPeers, opened};

/// Addresses that no host of the Internet has (RFC 6890): this host, its link, private and shared networks.
pub(crate) const PRIVATE: [&str; 10] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "::/127",
    "fc00::/7",
    "fe80::/10",
];

/// Questions that wait for servers at once, 128. Further ones are answered with SERVFAIL at once.
const MOST_WAITING: usize = 128;
/// Questions that wait for one server at once, a quarter of them: a dead server of one domain leaves the places of the others free.
const MOST_OF_A_SERVER: usize = MOST_WAITING / 4;
/// Stack of a thread, 64 KiB: it has one message of at most 64 KiB on the heap.
const STACK: usize = 64 * 1024;
/// Servers whose last failure is remembered, 256: more than the domains of a map have.
const MOST_TROUBLES: usize = 256;
/// Response codes after which the next server is asked: SERVFAIL and REFUSED (RFC 1035 section 4.1.1).
const NOT_ANSWERED: [(u8, &str); 2] = [(2, "it answers SERVFAIL"), (5, "it answers REFUSED")];

/// The way to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerWay {
    /// Through the overlay: its packets leave by this device and by no other, whatever the routes say (fault H4).
    Through(String),
    /// This host, or a network behind it that it advertises: by the routes of the host.
    Here,
    /// There is none, for this reason.
    None(String),
}

/// Questions that wait for servers.
pub(crate) struct Upstream {
    waiting: Arc<Mutex<Waiting>>,
    sender: Sender<Answered>,
    answers: Receiver<Answered>,
    waker: Waker,
    /// Why servers did not answer when they were asked last.
    troubles: SortedMap<IpAddr, String>,
}

/// The end of a question.
struct Answered {
    lane: LaneId,
    client: Client,
    message: Vec<u8>,
    /// Servers that were asked; `None` for one that answered.
    results: Vec<(IpAddr, Option<String>)>,
}

/// An answer for the stub of a lane.
pub(crate) struct StubAnswer {
    pub(crate) lane: LaneId,
    pub(crate) client: Client,
    pub(crate) message: Vec<u8>,
}

impl Upstream {
    /// Makes the end that the agent has; `waker` tells it of answers.
    pub(crate) fn new(waker: Waker) -> Self {
        // The agent sends here, too, and must not wait for itself. It takes all answers in each of its turns, and the lanes bound the questions.
        let (sender, answers) = channel(UNBOUNDED);
        Self { waiting: Arc::default(), sender, answers, waker, troubles: SortedMap::new() }
    }

    /// Asks the servers of a question that came from the stub of a lane; `ways` has the way to each of them. An answer with an address in one of the prefixes is passed on without its records
    /// (fault H6).
    pub(crate) fn ask(
        &mut self,
        lane: LaneId,
        question: Question,
        ways: Vec<(SocketAddr, ServerWay)>,
        filtered: Arc<[Prefix]>,
    ) {
        let client = question.client;
        let failed = failure(&question.message);
        let servers = ways.iter().map(|(server, _)| server.ip());
        let Some(place) = Place::take(&self.waiting, servers) else { return self.end(lane, client, failed) };
        let work = Work { lane, question, ways, filtered };
        let (sender, waker) = (self.sender.clone(), self.waker.clone());
        let spawned = thread::Builder::new().name(String::from("names")).stack_size(STACK).spawn(move || {
            let answered = work.done();
            drop(place);
            // The agent has ended, otherwise.
            if sender.send(answered).is_ok() {
                waker.wake();
            }
        });
        if spawned.is_err() {
            self.end(lane, client, failed);
        }
    }

    fn end(&self, lane: LaneId, client: Client, message: Option<Vec<u8>>) {
        if let Some(message) = message {
            let _ = self.sender.send(Answered { lane, client, message, results: Vec::new() });
            self.waker.wake();
        }
    }

    /// Returns the next answer.
    pub(crate) fn poll_answer(&mut self) -> Option<StubAnswer> {
        let Answered { lane, client, message, results } = self.answers.try_recv().ok()?;
        for (server, trouble) in results {
            match trouble {
                Some(trouble) if self.troubles.len() < MOST_TROUBLES || self.troubles.contains_key(&server) => {
                    self.troubles.insert(server, trouble);
                }
                Some(_) => {}
                None => drop(self.troubles.remove(&server)),
            }
        }
        Some(StubAnswer { lane, client, message })
    }

    /// Forgets the failures of servers that are in no domain any more.
    pub(crate) fn keep_only(&mut self, is_server: impl Fn(IpAddr) -> bool) {
        self.troubles.retain(|server, _| is_server(*server));
    }

    /// Returns why a server did not answer when it was asked last.
    pub(crate) fn trouble(&self, server: IpAddr) -> Option<&str> {
        self.troubles.get(&server).map(String::as_str)
    }
}

/// The questions that have threads.
#[derive(Default)]
struct Waiting {
    all: usize,
    /// Of each server that has some.
    of: SortedMap<IpAddr, usize>,
}

/// A question that has a thread.
struct Place {
    waiting: Arc<Mutex<Waiting>>,
    servers: SortedSet<IpAddr>,
}

impl Place {
    /// Takes a place for a question to these servers, unless all or those of one of them are taken.
    fn take(waiting: &Arc<Mutex<Waiting>>, servers: impl Iterator<Item = IpAddr>) -> Option<Self> {
        let servers: SortedSet<IpAddr> = servers.collect();
        let mut present = lock(waiting);
        let is_full = |server| present.of.get(server).is_some_and(|count| *count >= MOST_OF_A_SERVER);
        if present.all >= MOST_WAITING || servers.iter().any(is_full) {
            return None;
        }
        present.all += 1;
        for server in &servers {
            *present.of.entry(*server).or_default() += 1;
        }
        Some(Self { waiting: Arc::clone(waiting), servers })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut present = lock(&self.waiting);
        present.all = present.all.saturating_sub(1);
        for server in &self.servers {
            match present.of.get_mut(server) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(present.of.remove(server)),
            }
        }
    }
}

/// Locks the counts, which are whole after each statement, so a panic elsewhere leaves them usable.
fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Work {
    lane: LaneId,
    question: Question,
    ways: Vec<(SocketAddr, ServerWay)>,
    filtered: Arc<[Prefix]>,
}

impl Work {
    /// Asks one server after the other until one answers.
    fn done(self) -> Answered {
        let Self { lane, question, ways, filtered } = self;
        let (mut results, mut last) = (Vec::new(), None);
        for (server, way) in ways {
            let answer = match way {
                ServerWay::None(reason) => Err(reason),
                ServerWay::Here => ask(&question, server, None),
                ServerWay::Through(device) => ask(&question, server, Some(&device)),
            };
            let trouble = match &answer {
                Ok(answer) => not_answered(answer).map(String::from),
                Err(reason) => Some(reason.clone()),
            };
            let is_answered = trouble.is_none();
            results.push((server.ip(), trouble));
            last = answer.ok().or(last);
            if is_answered {
                break;
            }
        }
        let is_refused = last.as_ref().is_some_and(|answer| !filtered.is_empty() && leads_to(answer, &filtered));
        let last = if is_refused { no_data(&question.message) } else { last };
        let message = last.or_else(|| failure(&question.message)).unwrap_or_default();
        Answered { lane, client: question.client, message, results }
    }
}

/// Asks a server; returns its answer with the identifier of the question, or why there is none.
fn ask(question: &Question, server: SocketAddr, device: Option<&str>) -> Result<Vec<u8>, String> {
    // Drawn again: a host's programs may draw predictable ones, and an answer is recognised by it (RFC 5452).
    let mut asked = question.message.clone();
    let wrong = || String::from("the question is cut off");
    OsEntropy::new().fill(asked.first_chunk_mut::<2>().ok_or_else(wrong)?);
    let answer =
        if question.is_over_tcp() { ask_by_tcp(server, &asked, device) } else { ask_by_udp(server, &asked, device) };
    let mut answer = answer.map_err(|error| reason(&error))?;
    let own = question.message.get(..2).ok_or_else(wrong)?;
    answer.get_mut(..2).ok_or_else(wrong)?.copy_from_slice(own);
    Ok(answer)
}

/// Returns the reason why a server did not answer, for users.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => String::from("it does not answer"),
        io::ErrorKind::ConnectionRefused => String::from("no DNS server listens there"),
        io::ErrorKind::InvalidData => String::from("its answer belongs to another question"),
        _ => error.to_string(),
    }
}

fn not_answered(answer: &[u8]) -> Option<&'static str> {
    let code = answer.get(3)? & 15;
    NOT_ANSWERED.into_iter().find(|(known, _)| *known == code).map(|(_, text)| text)
}

#[cfg(test)]
mod tests;

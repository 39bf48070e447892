//! The life of a channel: attempt, hello, pings, loss, and the wait until the next attempt.

use std::os::fd::AsFd;
use std::time::Duration;

use taut_base::{Entropy, Time};
use taut_event::Interest;
use taut_netmap::{Hello, SCHEMA, ToCoordinator};
use taut_noise::public_key;

use super::{SOCKET, Worker};
use crate::channel::{Broken, Channel, Parties};
use crate::dial::Dial;
use crate::event::Event;
use crate::identity::Membership;

/// Longest attempt to open a channel, 30 s. It may try several addresses, each with timeouts of its own.
const DIAL_LIMIT: Duration = Duration::from_secs(30);
/// Time between two pings, 15 s plus or minus a fifth: three of them fit into [`SILENCE`], and into the lease that the coordinator grants.
const PING: Duration = Duration::from_secs(15);
/// Time without received bytes after which a channel counts as dead, 45 s, regardless of the state of the TCP connection.
const SILENCE: Duration = Duration::from_secs(45);
/// Age from which the loss of a channel resets the back-off, 10 s.
const GOOD: Duration = Duration::from_secs(10);
/// Range of the pause after the coordinator serves another host with this node's keys, 30 s to 60 s: two such hosts must not displace each other (fault D14).
const TWIN: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(60));
/// Longest wait for the socket to take the final messages, 500 ms.
const FAREWELL: Duration = Duration::from_millis(500);
/// Messages read in one turn, 32, so that the agent's orders are obeyed even while a coordinator sends without end. [`Channel::begin_turn`] limits their bytes.
const TURN: usize = 32;

/// State of the connection to the coordinator.
pub(super) enum Link {
    /// No connection is wanted, or the coordinator's refusal is final.
    Idle,
    /// Waiting for the next attempt.
    Resting { until: Time },
    /// An attempt to open a channel.
    Dialing { dial: Dial, url: String, until: Time },
    /// An open channel.
    Open(Box<Open>),
}

/// An open channel.
pub(super) struct Open {
    channel: Channel,
    url: String,
    /// When the coordinator accepted this node on the channel.
    accepted: Option<Time>,
    /// When bytes were last received.
    heard: Time,
    bytes: u64,
    next_ping: Time,
    /// Number of unanswered pings.
    pings: u32,
    /// True if the poller watches for room to write.
    watches_write: bool,
    /// True if messages may be waiting in buffers: they were read from the socket already, so the poller does not report them.
    more: bool,
}

impl Link {
    /// Returns true if every ping was answered.
    pub(super) fn is_answered(&self) -> bool {
        matches!(self, Self::Open(open) if open.pings == 0)
    }

    /// Notes the answer to a ping.
    pub(super) fn handle_pong(&mut self) {
        if let Self::Open(open) = self {
            open.pings = open.pings.saturating_sub(1);
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        match self {
            Self::Idle => None,
            Self::Resting { until } | Self::Dialing { until, .. } => Some(*until),
            Self::Open(open) if open.more => Some(Time::ZERO),
            Self::Open(open) => Some(open.next_ping.min(open.heard + SILENCE)),
        }
    }
}

impl Worker {
    /// Does everything that is due at `now`.
    pub(super) fn on_time(&mut self, now: Time) {
        self.save_what_is_due(now);
        if self.leaving.as_ref().is_some_and(|leaving| leaving.until <= now) {
            self.stop_leaving();
        }
        match &mut self.link {
            Link::Resting { until } if *until <= now => self.dial(now),
            Link::Dialing { until, url, .. } if *until <= now => {
                let why = format!("{url}: no answer within {} s", DIAL_LIMIT.as_secs());
                self.lose(&Broken(why), now);
            }
            Link::Open(open) if open.heard + SILENCE <= now => {
                let why = format!("{}: nothing was heard for {} s", open.url, SILENCE.as_secs());
                self.lose(&Broken(why), now);
            }
            Link::Open(open) if open.next_ping <= now => {
                open.next_ping = now + PING.mul_f64(0.8 + 0.0004 * f64::from(self.jitter.below(1_000)));
                self.ping(now);
            }
            _ => {}
        }
        // The socket comes last, so that a coordinator that sends without end delays no deadline.
        if matches!(&self.link, Link::Open(open) if open.more) {
            self.serve_socket(now);
        }
    }

    /// Sends a ping.
    pub(super) fn ping(&mut self, now: Time) {
        if let Link::Open(open) = &mut self.link {
            open.pings += 1;
        }
        self.say(&ToCoordinator::Ping, now);
    }

    /// Drops the present channel or attempt, and starts an attempt at once.
    pub(super) fn start_over(&mut self) {
        self.hang_up();
        self.backoff.reset();
        self.resume = true;
        self.dial(super::now());
    }

    /// Handles a change of the host's addresses or routes. A channel that must be replaced ends without a goodbye, which would not arrive.
    pub(super) fn look(&mut self, now: Time) {
        match &self.link {
            Link::Open(open) if open.channel.is_stale() => {
                self.lose(&Broken(String::from("this host has another address now")), now);
            }
            Link::Resting { .. } => {}
            _ => return,
        }
        self.backoff.reset();
        self.resume = true;
        self.dial(now);
    }

    /// Starts an attempt at the next URL.
    pub(super) fn dial(&mut self, now: Time) {
        let Some(membership) = &self.membership else { return };
        let Some(url) = membership.urls.get(self.turn % membership.urls.len().max(1)).cloned() else {
            self.lose(&Broken(String::from("no URL of a coordinator is known")), now);
            return;
        };
        let parties = Parties {
            network: membership.network,
            machine_key: membership.machine_key.clone(),
            coordinator: membership.coordinator,
        };
        match Dial::start(url.clone(), parties, self.queues.wake.clone()) {
            Ok(dial) => self.link = Link::Dialing { dial, url, until: now + DIAL_LIMIT },
            Err(error) => self.lose(&Broken(format!("no thread for an attempt: {error}")), now),
        }
    }

    /// Handles the outcome of the present attempt, if the attempt has ended.
    pub(super) fn take_outcome(&mut self, now: Time) {
        let Link::Dialing { dial, url, .. } = &self.link else { return };
        match dial.take() {
            None => {}
            Some(Err(broken)) => self.lose(&broken, now),
            Some(Ok(channel)) => {
                let url = url.clone();
                self.greet(channel, url, now);
            }
        }
    }

    /// Sends the first messages on a new channel: this node's identity, its map version, its endpoints and its relays.
    fn greet(&mut self, channel: Channel, url: String, now: Time) {
        // The note is saved before the hello is sent: after a crash the node knows that the coordinator may list it.
        self.change_membership(Membership::note_hello);
        let Some(membership) = &self.membership else { return };
        if let Err(error) = self.poller.add(channel.as_fd(), SOCKET, Interest::READ) {
            self.lose(&Broken(error.to_string()), now);
            return;
        }
        let hello = ToCoordinator::Hello(Hello {
            schema: SCHEMA,
            node_key: membership.node_public_key(),
            bind_key: Some(public_key(&membership.bind_key())),
            // A node that leaves before it was accepted sends its secret again: the coordinator then answers after an enrolment that is under way.
            enrol: membership.enrol().filter(|_| self.leaving.is_none() || !membership.accepted),
            have: self.known_version(),
            version: self.version.clone(),
            run: self.run,
        });
        self.at = channel.addresses();
        self.link = Link::Open(Box::new(Open {
            bytes: channel.received(),
            channel,
            url,
            accepted: None,
            heard: now,
            next_ping: now + PING,
            pings: 0,
            watches_write: false,
            // The first answer may have arrived together with the end of the handshake.
            more: true,
        }));
        self.say(&hello, now);
        if self.leaving.is_some() {
            self.say_leave(now);
            return;
        }
        for known in [self.endpoints.clone(), self.relays.clone()].into_iter().flatten() {
            self.say(&known, now);
        }
    }

    /// Returns the version of the map that changes may start from; 0 requests a full map.
    fn known_version(&self) -> u64 {
        // While a map waits for consent, a change of the map in force would be refused, because its addresses are outside the pinned prefixes.
        let resumes = self.resume && self.prefixes.waiting.is_none();
        self.map.as_ref().filter(|_| resumes).map_or(0, |map| map.version)
    }

    /// Sends a message, if a channel is open.
    pub(super) fn say(&mut self, message: &ToCoordinator, now: Time) {
        let Link::Open(open) = &mut self.link else { return };
        let said = open.channel.send(message);
        self.after_write(said, now);
    }

    fn after_write(&mut self, written: Result<(), Broken>, now: Time) {
        if let Err(broken) = written {
            self.lose(&broken, now);
            return;
        }
        let Link::Open(open) = &mut self.link else { return };
        if open.channel.wants_write() == open.watches_write {
            return;
        }
        open.watches_write = open.channel.wants_write();
        let interest = if open.watches_write { Interest::READ_WRITE } else { Interest::READ };
        if let Err(error) = self.poller.modify(open.channel.as_fd(), SOCKET, interest) {
            self.lose(&Broken(error.to_string()), now);
        }
    }

    /// Reads and writes what the socket allows.
    pub(super) fn serve_socket(&mut self, now: Time) {
        if let Link::Open(open) = &mut self.link {
            open.channel.begin_turn();
        }
        for _ in 0..TURN {
            let Link::Open(open) = &mut self.link else { return };
            let received = open.channel.receive();
            if open.channel.received() != open.bytes {
                open.bytes = open.channel.received();
                open.heard = now;
            }
            open.more = matches!(received, Ok(Some(_)));
            match received {
                Ok(Some(message)) => self.hear(message, now),
                Ok(None) => break,
                Err(broken) => {
                    self.lose(&broken, now);
                    return;
                }
            }
        }
        let Link::Open(open) = &mut self.link else { return };
        if open.channel.wants_write() {
            let flushed = open.channel.flush();
            self.after_write(flushed, now);
        }
    }

    /// Returns the URL of the open channel.
    pub(super) fn url(&self) -> Option<&str> {
        if let Link::Open(open) = &self.link { Some(&open.url) } else { None }
    }

    /// Notes that the coordinator accepted this node. Returns true if this is the first time on the present channel.
    pub(super) fn accepted(&mut self, now: Time) -> bool {
        let Link::Open(open) = &mut self.link else { return false };
        if open.accepted.is_some() {
            return false;
        }
        open.accepted = Some(now);
        let url = open.url.clone();
        self.emit(Event::Connected { url });
        true
    }

    /// Drops an attempt or a channel that failed, and schedules the next attempt.
    pub(super) fn lose(&mut self, broken: &Broken, now: Time) {
        let urls = self.membership.as_ref().map_or(0, |membership| membership.urls.len());
        let accepted = self.drop_link();
        if accepted.is_none() {
            self.turn = self.turn.wrapping_add(1);
        }
        if accepted.is_some_and(|since| now.since(since) >= GOOD) {
            self.backoff.reset();
        }
        // Within a round over all URLs the next URL follows at once; the back-off applies between rounds.
        let round_ends = accepted.is_some() || urls == 0 || self.turn.is_multiple_of(urls);
        let retry_in = if round_ends { self.backoff.next(&mut self.jitter) } else { Duration::ZERO };
        self.rest(broken, retry_in, now);
    }

    /// Drops the channel because the coordinator serves another host with this node's keys. The next attempt follows after [`TWIN`].
    pub(super) fn yield_to_twin(&mut self, broken: &Broken, now: Time) {
        self.drop_link();
        let spread = u32::try_from((TWIN.1 - TWIN.0).as_millis()).unwrap_or(u32::MAX);
        let retry_in = TWIN.0 + Duration::from_millis(u64::from(self.jitter.below(spread)));
        self.rest(broken, retry_in, now);
    }

    fn rest(&mut self, broken: &Broken, retry_in: Duration, now: Time) {
        self.note_while_leaving(&broken.0);
        self.link = Link::Resting { until: now + retry_in };
        self.emit(Event::Disconnected { why: broken.to_string(), retry_in });
    }

    /// Ends the connection without a further attempt. Sends a goodbye if a channel is open.
    pub(super) fn hang_up(&mut self) {
        if let Link::Open(open) = &mut self.link {
            let _ = open.channel.send(&ToCoordinator::Goodbye);
            open.channel.close();
            self.finish_writing();
        }
        self.drop_link();
    }

    /// Waits up to [`FAREWELL`] for the socket to take the final messages.
    fn finish_writing(&mut self) {
        let Link::Open(open) = &mut self.link else { return };
        if !open.channel.wants_write() {
            return;
        }
        let deadline = super::now() + FAREWELL;
        let mut ready = taut_event::Events::with_capacity(1);
        let watched = taut_event::Poller::new()
            .and_then(|poller| poller.add(open.channel.as_fd(), SOCKET, Interest::WRITE).map(|()| poller));
        let Ok(poller) = watched else { return };
        while open.channel.wants_write() && super::now() < deadline {
            let left = deadline.since(super::now());
            if poller.wait(&mut ready, Some(left)).is_err() || open.channel.flush().is_err() {
                return;
            }
        }
    }

    /// Closes the channel or the attempt. Returns when the coordinator accepted this node on the channel, if it did.
    pub(super) fn drop_link(&mut self) -> Option<Time> {
        let link = std::mem::replace(&mut self.link, Link::Idle);
        let Link::Open(open) = link else { return None };
        self.poller.remove(open.channel.as_fd());
        open.accepted
    }
}

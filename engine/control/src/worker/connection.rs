//! The life of a channel: attempt, hello, pings, loss, and the wait until the next attempt.

use std::os::fd::AsFd;
use std::time::Duration;

use taut_base::{Entropy, Time};
use taut_dial::{Broken, Dial, SealedChannel, Url, check_scheme};
use taut_event::Interest;
use taut_netmap::{Hello, SCHEMA, ToCoordinator};
use taut_noise::public_key;

use super::{SOCKET, Worker};
use crate::channel::{self, receive};
use crate::event::ControlEvent;
use crate::identity::Membership;

/// Longest attempt to open a channel, 30 s. It may try several addresses, each with timeouts of its own.
const DIAL_LIMIT: Duration = Duration::from_secs(30);
/// Mean time between two pings, 15 s, with a jitter of plus or minus a fifth: three pings fit into [`SILENCE_LIMIT`], and into the lease that the coordinator grants.
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// Time without received bytes after which a channel counts as dead, 45 s, regardless of the state of the TCP connection.
const SILENCE_LIMIT: Duration = Duration::from_secs(45);
/// Range of the pause after the coordinator serves another host with this node's keys, 30 s to 60 s: two such hosts must not displace each other (fault D14).
const TWIN_PAUSE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(60));
/// Longest wait for the socket to take the final messages, 500 ms.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);
/// Limit on the messages read in one turn, 32, so that the agent's commands are handled even while a coordinator sends without pause. [`SealedChannel::begin_turn`] limits their bytes.
const TURN: usize = 32;

/// State of the connection to the coordinator.
pub(super) enum Connection {
    /// No connection is wanted, or the coordinator's refusal is final.
    Idle,
    /// Waiting for the next attempt.
    Resting { until: Time },
    /// An attempt to open a channel.
    Dialing { dial: Dial, url: String, until: Time },
    /// An open channel.
    Open(Box<OpenChannel>),
}

/// An open channel.
pub(super) struct OpenChannel {
    channel: SealedChannel,
    url: String,
    /// The time when the coordinator accepted this node on the channel.
    accepted: Option<Time>,
    /// The time when bytes were last received.
    last_received: Time,
    /// Total of received bytes at that time.
    received_bytes: u64,
    next_ping: Time,
    unanswered_pings: u32,
    /// True if the poller watches for room to write.
    watches_write: bool,
    /// True if messages may be waiting in buffers: they were read from the socket already, so the poller does not report them.
    may_have_more: bool,
}

impl Connection {
    /// Returns true if every ping was answered.
    pub(super) fn is_answered(&self) -> bool {
        matches!(self, Self::Open(open) if open.unanswered_pings == 0)
    }

    /// Notes the answer to a ping.
    pub(super) fn handle_pong(&mut self) {
        if let Self::Open(open) = self {
            open.unanswered_pings = open.unanswered_pings.saturating_sub(1);
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        match self {
            Self::Idle => None,
            Self::Resting { until } | Self::Dialing { until, .. } => Some(*until),
            Self::Open(open) if open.may_have_more => Some(Time::ZERO),
            Self::Open(open) => Some(open.next_ping.min(open.last_received + SILENCE_LIMIT)),
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
        match &mut self.connection {
            Connection::Resting { until } if *until <= now => self.dial(now),
            Connection::Dialing { until, url, .. } if *until <= now => {
                let why = format!("{url}: no answer within {} s", DIAL_LIMIT.as_secs());
                self.lose(&Broken(why), now);
            }
            Connection::Open(open) if open.last_received + SILENCE_LIMIT <= now => {
                let why = format!("{}: nothing was received for {} s", open.url, SILENCE_LIMIT.as_secs());
                self.lose(&Broken(why), now);
            }
            Connection::Open(open) if open.next_ping <= now => {
                open.next_ping = now + PING_INTERVAL.mul_f64(0.8 + 0.0004 * f64::from(self.jitter.below(1_000)));
                self.ping(now);
            }
            _ => {}
        }
        // The socket comes last, so that a coordinator that sends without end delays no deadline.
        if matches!(&self.connection, Connection::Open(open) if open.may_have_more) {
            self.serve_socket(now);
        }
    }

    /// Sends a ping.
    pub(super) fn ping(&mut self, now: Time) {
        if let Connection::Open(open) = &mut self.connection {
            open.unanswered_pings += 1;
        }
        self.send(&ToCoordinator::Ping, now);
    }

    /// Drops the present channel or attempt, and starts an attempt at once.
    pub(super) fn start_over(&mut self) {
        self.hang_up();
        self.backoff.reset();
        self.resume = true;
        self.dial(super::now());
    }

    /// Handles a change of the host's addresses or routes. A channel that must be replaced is closed without a goodbye, because a goodbye would not arrive.
    pub(super) fn host_changed(&mut self, now: Time) {
        match &self.connection {
            Connection::Open(open) if open.channel.is_stale() => {
                let why = match open.channel.has_route() {
                    true => "this host has another address now",
                    false => "this host has no route to the coordinator any more",
                };
                self.lose(&Broken(String::from(why)), now);
            }
            Connection::Resting { .. } => {}
            _ => return,
        }
        self.backoff.reset();
        self.resume = true;
        self.dial(now);
    }

    /// Starts an attempt at the next URL.
    pub(super) fn dial(&mut self, now: Time) {
        let Some(membership) = &self.membership else { return };
        let urls = usable(&membership.urls);
        let Some(url) = urls.get(self.next_url % urls.len().max(1)).map(|url| url.to_string()) else {
            self.lose(&Broken(String::from("no URL of a coordinator is known")), now);
            return;
        };
        match Dial::start(url.clone(), self.store.known(&url), channel::target(membership), self.queues.wake.clone()) {
            Ok(dial) => self.connection = Connection::Dialing { dial, url, until: now + DIAL_LIMIT },
            Err(error) => self.lose(&Broken(format!("no thread for an attempt: {error}")), now),
        }
    }

    /// Handles the outcome of the present attempt, if the attempt has ended.
    pub(super) fn take_outcome(&mut self, now: Time) {
        let Connection::Dialing { dial, url, .. } = &self.connection else { return };
        match dial.take() {
            None => {}
            Some(Err(broken)) => self.lose(&broken, now),
            Some(Ok(channel)) => {
                let url = url.clone();
                self.start_channel(channel, url, now);
            }
        }
    }

    /// Sends the first messages on a new channel: this node's identity, its map version, its endpoints and its relays.
    fn start_channel(&mut self, channel: SealedChannel, url: String, now: Time) {
        // The note is saved before the hello is sent: after a crash the node knows that the coordinator may list it.
        self.change_membership(Membership::note_hello);
        let Some(membership) = &self.membership else { return };
        if let Err(error) = self.poller.add(channel.as_fd(), SOCKET, Interest::READ) {
            self.lose(&Broken(error.to_string()), now);
            return;
        }
        let hello = ToCoordinator::Hello(Hello {
            schema: SCHEMA,
            node_key: membership.hello_key(),
            bind_key: Some(public_key(&membership.bind_key())),
            // A node that leaves before it was accepted repeats its secret. If its enrolment is still under way, the coordinator completes it before it answers.
            enrol: membership.enrol().filter(|_| self.leaving.is_none() || !membership.accepted),
            have: self.known_version(),
            request: self.request(),
            version: self.version.clone(),
            run: self.run,
        });
        self.coordinator_addresses = channel.addresses();
        self.store.addresses_changed(&url, &self.coordinator_addresses, now);
        self.connection = Connection::Open(Box::new(OpenChannel {
            received_bytes: channel.received(),
            channel,
            url,
            accepted: None,
            last_received: now,
            next_ping: now + PING_INTERVAL,
            unanswered_pings: 0,
            watches_write: false,
            // The first answer may have arrived together with the end of the handshake.
            may_have_more: true,
        }));
        self.send(&hello, now);
        if self.leaving.is_some() {
            self.send_leave(now);
            return;
        }
        for message in [self.endpoints.clone(), self.relays.clone(), self.routes.clone()].into_iter().flatten() {
            self.send(&message, now);
        }
    }

    /// Returns the version of the map that changes may start from; 0 requests a full map.
    fn known_version(&self) -> u64 {
        // While a map waits for consent, a change of the map in force would be refused, because its addresses are outside the pinned prefixes.
        let resumes = self.resume && self.prefixes.waiting.is_none();
        self.map.as_ref().filter(|_| resumes).map_or(0, |map| map.version)
    }

    /// Sends a message, if a channel is open.
    pub(super) fn send(&mut self, message: &ToCoordinator, now: Time) {
        let Connection::Open(open) = &mut self.connection else { return };
        let written = open.channel.send(message);
        self.after_write(written, now);
    }

    fn after_write(&mut self, written: Result<(), Broken>, now: Time) {
        if let Err(broken) = written {
            self.lose(&broken, now);
            return;
        }
        let Connection::Open(open) = &mut self.connection else { return };
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
        if let Connection::Open(open) = &mut self.connection {
            open.channel.begin_turn();
        }
        for _ in 0..TURN {
            let Connection::Open(open) = &mut self.connection else { return };
            let received = receive(&mut open.channel);
            if open.channel.received() != open.received_bytes {
                open.received_bytes = open.channel.received();
                open.last_received = now;
            }
            open.may_have_more = matches!(received, Ok(Some(_)));
            match received {
                Ok(Some(message)) => self.handle_message(message, now),
                Ok(None) => break,
                Err(broken) => {
                    self.lose(&broken, now);
                    return;
                }
            }
        }
        let Connection::Open(open) = &mut self.connection else { return };
        if open.channel.wants_write() {
            let flushed = open.channel.flush();
            self.after_write(flushed, now);
        }
    }

    /// Returns the URL of the open channel.
    pub(super) fn url(&self) -> Option<&str> {
        if let Connection::Open(open) = &self.connection { Some(&open.url) } else { None }
    }

    /// Notes that the coordinator accepted this node. Returns true if this is the first time on the present channel.
    pub(super) fn accepted(&mut self, now: Time) -> bool {
        let Connection::Open(open) = &mut self.connection else { return false };
        if open.accepted.is_some() {
            return false;
        }
        open.accepted = Some(now);
        let url = open.url.clone();
        let addresses = self.addresses();
        self.emit(ControlEvent::Connected { url, addresses });
        true
    }

    /// Drops an attempt or a channel that failed, and schedules the next attempt.
    pub(super) fn lose(&mut self, broken: &Broken, now: Time) {
        let urls = self.membership.as_ref().map_or(0, |membership| usable(&membership.urls).len());
        let accepted = self.drop_connection();
        if accepted.is_none() {
            self.next_url = self.next_url.wrapping_add(1);
        }
        if let Some(since) = accepted {
            self.backoff.note_channel(now.since(since));
        }
        // The next URL of a round over all URLs is tried at once; the back-off applies between rounds.
        let round_ends = accepted.is_some() || urls == 0 || self.next_url.is_multiple_of(urls);
        let retry_in = if round_ends { self.backoff.next(&mut self.jitter) } else { Duration::ZERO };
        self.schedule_attempt(broken, retry_in, now);
    }

    /// Drops the channel because the coordinator serves another host with this node's keys. The next attempt follows after [`TWIN_PAUSE`].
    pub(super) fn pause_for_twin(&mut self, broken: &Broken, now: Time) {
        self.drop_connection();
        let spread = u32::try_from((TWIN_PAUSE.1 - TWIN_PAUSE.0).as_millis()).unwrap_or(u32::MAX);
        let retry_in = TWIN_PAUSE.0 + Duration::from_millis(u64::from(self.jitter.below(spread)));
        self.schedule_attempt(broken, retry_in, now);
    }

    fn schedule_attempt(&mut self, broken: &Broken, retry_in: Duration, now: Time) {
        self.note_while_leaving(&broken.0);
        self.connection = Connection::Resting { until: now + retry_in };
        self.emit(ControlEvent::Disconnected { why: broken.to_string(), retry_in });
    }

    /// Ends the connection without a further attempt. Sends a goodbye if a channel is open.
    pub(super) fn hang_up(&mut self) {
        if let Connection::Open(open) = &mut self.connection {
            let _ = open.channel.send(&ToCoordinator::Goodbye);
            open.channel.close();
            self.finish_writing();
        }
        self.drop_connection();
    }

    /// Waits up to [`FLUSH_TIMEOUT`] for the socket to take the final messages.
    fn finish_writing(&mut self) {
        let Connection::Open(open) = &mut self.connection else { return };
        if !open.channel.wants_write() {
            return;
        }
        let deadline = super::now() + FLUSH_TIMEOUT;
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

    /// Closes the channel or the attempt. Returns the time when the coordinator accepted this node on the channel, or `None` if it did not.
    pub(super) fn drop_connection(&mut self) -> Option<Time> {
        let connection = std::mem::replace(&mut self.connection, Connection::Idle);
        let Connection::Open(open) = connection else { return None };
        self.poller.remove(open.channel.as_fd());
        open.accepted
    }
}

/// Returns the URLs that this build is able to reach. If there is none, returns all, so that the attempt fails with the reason.
pub(super) fn usable(urls: &[String]) -> Vec<&String> {
    let refused = |url: &&String| url.parse::<Url>().is_ok_and(|url| check_scheme(&url).is_err());
    let usable: Vec<_> = urls.iter().filter(|url| !refused(url)).collect();
    if usable.is_empty() { urls.iter().collect() } else { usable }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_this_build_does_not_reach_are_left_out_if_others_remain() {
        let https = [String::from("https://a")];
        let both = [https[0].clone(), String::from("http://a"), String::from("https://b")];
        let remaining = if cfg!(feature = "tls") { 3 } else { 1 };
        assert_eq!((usable(&https).len(), usable(&both).len()), (1, remaining));
        assert_eq!(usable(&both).contains(&&both[0]), cfg!(feature = "tls"));
    }
}

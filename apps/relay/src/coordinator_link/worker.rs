//! The thread of a link: attempts, the open channel, and the pauses between them.

use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use taut_base::{Time, is_printable};
use taut_dial::{Backoff, Broken, ChannelTarget, Dial, Jitter, Received, SealedChannel};
use taut_event::{Events, Interest, Poller, Waker};
use taut_netmap::{
    CoordinatorToRelay, KEY_PATH, MAX_REVOCATIONS, Problem, ProblemCode, RELAY_CONTROL_PATH, RELAY_PROLOGUE,
    RelayToCoordinator, Revocation, SCHEMA,
};
use taut_relay::{NetworkTag, Removal, VerifyingKey};

use super::LinkOptions;
use super::load::LoadMeter;
use crate::log::DAEMON;
use crate::removals::Removals;
use crate::system::clocks;

/// Longest attempt to open a channel, 30 s. It may try several addresses, each with timeouts of its own.
const DIAL_LIMIT: Duration = Duration::from_secs(30);

/// Time between two reports of the load, 10 s: an operator sees a change within that time, and a report has 200 bytes.
const LOAD_EVERY: Duration = Duration::from_secs(10);

/// Time without a message after which a channel counts as dead, 45 s: four answers to reports. Bytes alone do not count, because any host on the path can send pings.
const SILENCE_LIMIT: Duration = Duration::from_secs(45);

/// Longest message of a coordinator, 512 KiB: [`MAX_REVOCATIONS`] take 150 KiB.
const MAX_MESSAGE: usize = 512 * 1024;

/// Messages read in one turn, 8: each has up to 1,024 revocations, which take some milliseconds.
const TURN: usize = 8;

/// Pause after another program with this relay's key took over, 30 s: two such programs must not displace each other every second.
const TWIN_PAUSE: Duration = Duration::from_secs(30);

const WAKE: u64 = 0;
const SOCKET: u64 = 1;

pub(super) struct LinkWorker {
    options: LinkOptions,
    signer: VerifyingKey,
    removals: Removals,
    meter: LoadMeter,
    wake: Waker,
    stop: Receiver<()>,
    poller: Poller,
    backoff: Backoff,
    jitter: Jitter,
    next_url: usize,
    /// The reason that was logged last, so that a coordinator that is away for a day is one line.
    told: Option<String>,
    /// Time at which the coordinator accepted this relay on the present channel.
    opened: Option<Time>,
}

/// Reason for the end of a channel or an attempt.
enum LinkEnd {
    /// The relay stops.
    Stopped,
    Broken(Broken),
    Refused(Problem),
}

impl From<Broken> for LinkEnd {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl From<io::Error> for LinkEnd {
    fn from(error: io::Error) -> Self {
        Self::Broken(Broken(error.to_string()))
    }
}

impl LinkWorker {
    pub(super) fn new(
        options: LinkOptions,
        removals: Removals,
        meter: LoadMeter,
        wake: Waker,
        stop: Receiver<()>,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(wake.as_fd(), WAKE, Interest::READ)?;
        let signer = VerifyingKey(options.token.tickets);
        let (backoff, jitter) = (Backoff::default(), Jitter::new());
        Ok(Self {
            options,
            signer,
            removals,
            meter,
            wake,
            stop,
            poller,
            backoff,
            jitter,
            next_url: 0,
            told: None,
            opened: None,
        })
    }

    /// Runs until the handle is dropped.
    pub(super) fn run(mut self) {
        loop {
            self.opened = None;
            let url = self.url();
            let end = match self.dial(&url) {
                Ok(channel) => self.serve(channel, &url),
                Err(end) => end,
            };
            if matches!(end, LinkEnd::Stopped) {
                return;
            }
            if let Some(opened) = self.opened {
                self.backoff.note_channel(clocks().now.since(opened));
            }
            self.next_url = self.next_url.wrapping_add(1);
            // The next URL of a round over all URLs is tried at once; the back-off applies between rounds.
            let round_ends = self.next_url.is_multiple_of(self.options.token.urls.len().max(1));
            let pause = if round_ends { self.backoff.next(&mut self.jitter) } else { Duration::ZERO };
            let is_twin = matches!(&end, LinkEnd::Refused(problem) if problem.code == ProblemCode::Twin);
            let pause = if is_twin { TWIN_PAUSE + pause } else { pause };
            self.report(&url, end);
            if self.rest(pause).is_err() {
                return;
            }
        }
    }

    fn url(&self) -> String {
        let urls = &self.options.token.urls;
        urls.get(self.next_url % urls.len().max(1)).cloned().unwrap_or_default()
    }

    /// Logs why there is no channel, unless that was the last thing logged.
    fn report(&mut self, url: &str, end: LinkEnd) {
        let (reason, refusal) = match end {
            LinkEnd::Stopped => return,
            LinkEnd::Broken(broken) => (broken.0, None),
            LinkEnd::Refused(problem) => (problem.message, Some(problem.hint)),
        };
        if self.told.as_ref() == Some(&reason) {
            return;
        }
        match refusal {
            None => {
                let hint = "the relay goes on with tickets alone; it is tried again within 30 s";
                tracing::warn!(target: DAEMON, event = "coordinator-lost", url, reason, hint);
            }
            Some(hint) => tracing::warn!(target: DAEMON, event = "coordinator-refused", url, reason, hint),
        }
        self.told = Some(reason);
    }

    /// Waits for this time.
    fn rest(&self, pause: Duration) -> Result<(), LinkEnd> {
        let until = clocks().now + pause;
        let mut ready = Events::with_capacity(1);
        while clocks().now < until {
            self.wait(&mut ready, until)?;
        }
        Ok(())
    }

    /// Waits for an event until this time. Fails if the relay stops.
    fn wait(&self, ready: &mut Events, until: Time) -> Result<(), LinkEnd> {
        if self.poller.wait(ready, Some(until.since(clocks().now))).is_err() {
            // Waiting fails only if the host is out of memory. The pause lets it recover.
            std::thread::sleep(Duration::from_millis(100));
        }
        self.wake.drain();
        match self.stop.try_recv() {
            Err(TryRecvError::Disconnected) => Err(LinkEnd::Stopped),
            _ => Ok(()),
        }
    }

    fn dial(&self, url: &str) -> Result<SealedChannel, LinkEnd> {
        let target = ChannelTarget {
            path: String::from(RELAY_CONTROL_PATH),
            prologue: RELAY_PROLOGUE.to_vec(),
            key: self.options.key.clone(),
            coordinator: self.options.token.coordinator,
            max_message: MAX_MESSAGE,
            wrong_server: "the server at this URL does not have the coordinator's key of the relay token",
            key_path: KEY_PATH,
            key_source: "the relay token",
        };
        let dial = Dial::start(String::from(url), Vec::new(), target, self.wake.clone())?;
        let until = clocks().now + DIAL_LIMIT;
        let mut ready = Events::with_capacity(1);
        loop {
            if let Some(outcome) = dial.take() {
                return Ok(outcome?);
            }
            if clocks().now >= until {
                return Err(Broken(format!("{url}: no answer within {} s", DIAL_LIMIT.as_secs())).into());
            }
            self.wait(&mut ready, until)?;
        }
    }

    /// Serves an open channel until it ends.
    fn serve(&mut self, mut channel: SealedChannel, url: &str) -> LinkEnd {
        if let Err(error) = self.poller.add(channel.as_fd(), SOCKET, Interest::READ_WRITE) {
            return error.into();
        }
        let Err(end) = self.talk(&mut channel, url);
        if self.opened.is_some() {
            self.removals.note_channel(false);
        }
        if matches!(end, LinkEnd::Stopped) {
            // The coordinator notices in any case.
            let _ = channel.send(&RelayToCoordinator::Goodbye);
        }
        channel.close();
        self.poller.remove(channel.as_fd());
        end
    }

    fn talk(&mut self, channel: &mut SealedChannel, url: &str) -> Result<std::convert::Infallible, LinkEnd> {
        let mut watches_write = true;
        let mut heard = clocks().now;
        let mut load_at = clocks().now;
        // The first answer may have arrived together with the end of the handshake.
        let mut may_have_more = true;
        let mut ready = Events::with_capacity(2);
        channel.send(&RelayToCoordinator::Hello { schema: SCHEMA, version: self.options.version.clone() })?;
        loop {
            let now = clocks().now;
            if now.since(heard) >= SILENCE_LIMIT {
                return Err(Broken(format!("no message came for {} s", SILENCE_LIMIT.as_secs())).into());
            }
            if now >= load_at {
                load_at = now + LOAD_EVERY;
                channel.send(&RelayToCoordinator::Load(self.meter.read()))?;
            }
            if channel.wants_write() {
                channel.flush()?;
            }
            if channel.wants_write() != watches_write {
                watches_write = channel.wants_write();
                let interest = if watches_write { Interest::READ_WRITE } else { Interest::READ };
                self.poller.modify(channel.as_fd(), SOCKET, interest)?;
            }
            let until = if may_have_more { now } else { load_at.min(heard + SILENCE_LIMIT) };
            self.wait(&mut ready, until)?;
            channel.begin_turn();
            may_have_more = false;
            for _ in 0..TURN {
                match channel.receive()? {
                    Received::Nothing => break,
                    Received::Other => {}
                    Received::Message(plain) => {
                        heard = now;
                        self.handle(&plain, url)?;
                    }
                }
                may_have_more = true;
            }
        }
    }

    fn handle(&mut self, plain: &[u8], url: &str) -> Result<(), LinkEnd> {
        let message = taut_json::from_slice(plain)
            .map_err(|error| Broken(format!("the coordinator sent a message that makes no sense: {error}")))?;
        match message {
            CoordinatorToRelay::Refused(problem) => return Err(LinkEnd::Refused(problem)),
            CoordinatorToRelay::Closing { reason } => {
                let reason: String = reason.chars().filter(|letter| is_printable(*letter)).take(200).collect();
                return Err(Broken(format!("the coordinator closed the channel: {reason}")).into());
            }
            _ => {}
        }
        if self.opened.is_none() {
            self.opened = Some(clocks().now);
            self.told = None;
            self.removals.note_channel(true);
            tracing::info!(target: DAEMON, event = "coordinator-connected", url);
        }
        if let CoordinatorToRelay::Revoked { revocations } = message {
            if revocations.len() > MAX_REVOCATIONS {
                return Err(
                    Broken(String::from("the coordinator sent more revocations at once than there may be")).into()
                );
            }
            self.removals.cut_off(&self.signer, &revocations.iter().map(removal).collect::<Vec<_>>());
            self.removals.note_revocations(revocations.len());
            tracing::debug!(target: DAEMON, event = "revoked", url, count = revocations.len());
        }
        Ok(())
    }
}

fn removal(revocation: &Revocation) -> Removal {
    let Revocation { network, node, key, at } = *revocation;
    Removal { network: NetworkTag(network), id: node, key, at: Duration::from_secs(at) }
}

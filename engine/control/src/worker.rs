//! The control thread: one loop over the channel's socket, the agent's commands and a few deadlines.
//!
//! - this file: the loop, and the agent's commands;
//! - `asking`: the request to be approved by a person;
//! - `leave`: giving up the membership;
//! - `connection`: the life of a channel, from an attempt to its loss;
//! - `messages`: the coordinator's messages;
//! - `rotation`: another WireGuard key for this node;
//! - `consent`: the overlay's prefixes, which only the user changes;
//! - `store`: the unsaved state, with the deadlines of its saves.

mod asking;
mod connection;
mod consent;
mod leave;
mod messages;
mod rotation;
mod store;

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::TryRecvError;
use std::thread;
use std::time::Duration;

use taut_base::{Entropy, Time};
use taut_dial::{Backoff, Jitter};
use taut_event::{Events, Interest, Poller, Receiver, Sender, Waker, boot_time};
use taut_netmap::{JoinToken, NetworkMap, Problem, ProblemCode, ToCoordinator};

use crate::event::{Command, ControlEvent};
use crate::event_log::EventLog;
use crate::identity::Membership;
use crate::state::{LoadedState, StateDir};
use connection::Connection;
use consent::PrefixConsent;
use leave::Leaving;
use store::Store;

/// A message from the handle to the control thread.
pub(crate) enum Order {
    /// A command of the agent.
    Command(Command),
    /// Ends the thread.
    Stop,
}

/// The thread's ends of the queues, and the wakers of both sides.
pub(crate) struct Queues {
    pub(crate) orders: Receiver<Order>,
    /// Lines of the event log.
    pub(crate) lines: Receiver<String>,
    /// Makes the line that reports the number of lost lines.
    pub(crate) log_gap: fn(u64) -> String,
    pub(crate) events: Sender<ControlEvent>,
    /// Wakes this thread.
    pub(crate) wake: Waker,
    /// Wakes the agent.
    pub(crate) agent: Waker,
}

/// Poller tokens: the queue of orders, and the channel's socket.
const ORDERS: u64 = 0;
const SOCKET: u64 = 1;

/// The state of the control thread.
pub(crate) struct Worker {
    version: String,
    /// A random number of this run of the program. The coordinator uses it to tell apart two hosts with the same keys.
    run: u64,
    store: Store,
    membership: Option<Membership>,
    /// True if the hello asks a person to renew this node's membership.
    asks_again: bool,
    /// True if the coordinator said that this node takes no part in the network.
    waits: bool,
    /// Progress of leaving the network; `None` unless the membership is being given up.
    leaving: Option<Leaving>,
    map: Option<Arc<NetworkMap>>,
    prefixes: PrefixConsent,
    /// True if the hello names the version of the present map. It is false after a map or a change that this node could not apply.
    resume: bool,
    /// The latest message with this node's endpoints, repeated on each new channel.
    endpoints: Option<ToCoordinator>,
    /// The latest message with the relays that this node is bound to, repeated on each new channel.
    relays: Option<ToCoordinator>,
    /// The latest message with the prefixes that this node advertises, repeated on each new channel.
    routes: Option<ToCoordinator>,
    /// Addresses of the coordinator on the last channel: the one in use first, then the other addresses of its host name.
    coordinator_addresses: Vec<IpAddr>,
    /// The UDP port to save with the next membership.
    port: Option<u16>,
    connection: Connection,
    backoff: Backoff,
    /// Number of the next URL to try, modulo the number of URLs.
    next_url: usize,
    jitter: Jitter,
    poller: Poller,
    queues: Queues,
    log: EventLog,
}

impl Worker {
    pub(crate) fn new(state: StateDir, mut found: LoadedState, version: String, queues: Queues) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(queues.wake.as_fd(), ORDERS, Interest::READ)?;
        let mut jitter = Jitter::new();
        Ok(Self {
            log: EventLog::new(state.path()),
            version,
            run: draw_run(&mut jitter),
            store: Store::new(state, &mut found),
            port: found.membership.as_ref().and_then(|membership| membership.port),
            membership: found.membership,
            asks_again: false,
            waits: false,
            leaving: None,
            map: found.map.map(Arc::new),
            prefixes: PrefixConsent::default(),
            resume: true,
            endpoints: None,
            relays: None,
            routes: None,
            coordinator_addresses: Vec::new(),
            connection: Connection::Idle,
            backoff: Backoff::default(),
            next_url: 0,
            jitter,
            poller,
            queues,
        })
    }

    /// Runs until the handle sends [`Order::Stop`] or is dropped.
    pub(crate) fn run(mut self) {
        if self.membership.as_ref().is_some_and(|membership| membership.wanted) {
            self.dial(now());
        }
        let mut ready = Events::with_capacity(4);
        loop {
            let now = now();
            self.on_time(now);
            let timeout = self.next_deadline().map(|deadline| deadline.since(now));
            if self.poller.wait(&mut ready, timeout).is_err() {
                // Waiting fails only if the host is out of memory. The pause lets it recover.
                thread::sleep(Duration::from_millis(100));
            }
            self.queues.wake.drain();
            if !self.handle_orders() {
                break;
            }
            self.take_lines(now);
            self.take_outcome(self::now());
            if ready.iter().any(|event| event.token == SOCKET) {
                self.serve_socket(self::now());
            }
        }
        self.stop_leaving();
        self.hang_up();
        self.take_lines(now());
        self.log.finish(self.queues.log_gap);
        let problems = self.store.save_everything(self.membership.as_ref(), self.map.as_deref(), now());
        self.report_disk(problems);
    }

    /// Emits the events that describe the state directory. This happens before the thread starts, so the agent's first answers are complete already. The
    /// queue has room for all these events.
    pub(crate) fn introduce(&mut self) {
        // Release 0.1.0 pinned no prefixes. Its last good map was in force, so the prefixes of that map are pinned.
        self.pin_prefixes();
        for note in self.store.take_notes() {
            self.emit(ControlEvent::DiskProblem(note));
        }
        let Some(membership) = &self.membership else {
            self.emit(ControlEvent::NeedsJoin);
            return;
        };
        let identity = Box::new(membership.announce());
        self.emit(ControlEvent::Identity(identity));
        self.emit(ControlEvent::Recent(self.store.recent().to_vec()));
        if let Some(ceiling) = self.store.ceiling() {
            self.emit(ControlEvent::Stamps(ceiling));
        }
        self.announce_ticket();
        if let Some(map) = &self.map {
            self.emit(ControlEvent::Map(Arc::clone(map)));
        }
    }

    pub(super) fn announce_ticket(&self) {
        let known = self.store.ticket();
        if let Some((known, ticket)) = known.and_then(|known| Some((known, known.bytes()?))) {
            self.emit(ControlEvent::Ticket { ticket, numbered: known.numbered_bytes(), expires: known.expires });
        }
    }

    /// Handles all queued orders. Returns false if the thread must end.
    fn handle_orders(&mut self) -> bool {
        loop {
            match self.queues.orders.try_recv() {
                Ok(Order::Command(command)) => self.handle_command(command),
                Ok(Order::Stop) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    /// Appends the queued lines to the event log.
    fn take_lines(&mut self, now: Time) {
        while let Ok(line) = self.queues.lines.try_recv() {
            if let Some(news) = self.log.append(line, now) {
                self.emit(ControlEvent::Log(news));
            }
        }
    }

    fn handle_command(&mut self, command: Command) {
        let is_for_a_member = !matches!(
            command,
            Command::Join { .. }
                | Command::Ask { .. }
                | Command::Leave
                | Command::HostChanged
                | Command::Up
                // These are the host's, and outlive its membership.
                | Command::RememberSettings(_)
                | Command::RememberKillSwitch(_)
        );
        let is_too_late = self.leaving.is_some() && matches!(command, Command::Up);
        if is_too_late || is_for_a_member && (self.leaving.is_some() || self.membership.is_none()) {
            // The agent sent this command before it learned that the node leaves or has left.
            return;
        }
        match command {
            Command::Join { token, name } => self.join(&token, name),
            Command::Ask { place, name } => self.ask(place.as_ref(), name),
            Command::RotateKey => self.rotate_key(),
            Command::Up => self.up(),
            Command::Down => self.down(),
            Command::Leave => self.leave(now()),
            Command::HostChanged => self.host_changed(now()),
            Command::Endpoints { endpoints, ports, observed } => {
                let message = ToCoordinator::Endpoints { endpoints, ports, observed };
                self.send(&message, now());
                self.endpoints = Some(message);
            }
            Command::Explain(connection) => self.send(&ToCoordinator::Explain(connection), now()),
            Command::Relays(ids) => {
                let message = Some(ToCoordinator::Relays { ids });
                if let Some(message) = message.as_ref().filter(|_| message != self.relays) {
                    self.send(message, now());
                }
                self.relays = message;
            }
            Command::Routes(prefixes) => {
                let message = ToCoordinator::Routes { prefixes };
                self.send(&message, now());
                self.routes = Some(message);
            }
            Command::RememberPort(port) => {
                self.port = Some(port);
                self.change_membership(|membership| membership.port = Some(port));
            }
            Command::PinPrefixes => self.pin_prefixes(),
            Command::AcceptPrefixes(prefixes) => self.accept_prefixes(prefixes, now()),
            Command::RememberPeers(peers) => {
                self.store.recent_changed(peers, now());
                self.save_what_is_due(now());
            }
            Command::RememberStamps(ceiling) => {
                self.store.ceiling_changed(ceiling, now());
                self.save_what_is_due(now());
            }
            Command::RememberKillSwitch(device) => {
                self.store.kill_switch_changed(device.unwrap_or_default(), now());
                self.save_what_is_due(now());
            }
            Command::RememberSettings(settings) => {
                self.store.settings_changed(settings, now());
                self.save_what_is_due(now());
            }
        }
    }

    fn join(&mut self, token: &JoinToken, name: String) {
        self.stop_leaving();
        let joined = match &self.membership {
            None => Membership::new(token, name, self.port),
            Some(present) if present.may_be_listed() && present.network != token.network => {
                self.emit(ControlEvent::Refused(self.member_elsewhere(present.accepted)));
                return;
            }
            Some(present) => Ok(present.with_token(token, name)),
        };
        self.begin_membership(joined);
    }

    /// Saves a new membership, and connects with it.
    pub(super) fn begin_membership(&mut self, joined: io::Result<Membership>) {
        // Keys that a power cut could destroy must not be sent to the coordinator. If the disk refuses them, the node does not join.
        let joined = match joined.and_then(|joined| self.store.save_membership(&joined).map(|()| joined)) {
            Ok(joined) => joined,
            Err(error) => {
                self.emit(self.store.not_saved(&error, "the network was not joined"));
                return;
            }
        };
        (self.asks_again, self.waits) = (false, false);
        if self.membership.as_ref().is_some_and(|present| present.network != joined.network) {
            self.map = None;
            self.prefixes = PrefixConsent::default();
            self.coordinator_addresses.clear();
            self.store.set_named(Vec::new());
            self.store.ticket_changed(None, now());
        }
        let identity = Box::new(joined.announce());
        self.membership = Some(joined);
        self.emit(ControlEvent::Identity(identity));
        self.start_over();
    }

    /// Returns why another network cannot be joined. `accepted`: true if this node is a member of the present network, false if it waits for the answer to
    /// its request.
    pub(super) fn member_elsewhere(&self, accepted: bool) -> Problem {
        Problem {
            code: ProblemCode::BadRequest,
            message: String::from(if accepted {
                "this node is a member of another network already, and the join token is for a different one"
            } else {
                "this node has asked another network's coordinator to let it join and has no answer yet; the join token is for a different network"
            }),
            hint: format!(
                "leave the present network with `taut leave` first, or run a second daemon with a state directory of its own beside {} (--state, \
                 --socket, --tun)",
                self.store.path().display()
            ),
        }
    }

    fn up(&mut self) {
        if self.membership.is_none() {
            self.emit(ControlEvent::NeedsJoin);
            return;
        }
        self.change_membership(|membership| membership.wanted = true);
        if !matches!(self.connection, Connection::Open(_) | Connection::Dialing { .. }) {
            self.start_over();
        }
    }

    fn down(&mut self) {
        self.change_membership(|membership| membership.wanted = false);
        self.hang_up();
    }

    /// Changes the membership, and saves it if a saved field changed.
    fn change_membership(&mut self, change: impl FnOnce(&mut Membership)) {
        let Some(membership) = &mut self.membership else { return };
        let parts = |membership: &Membership| {
            let Membership { wanted, port, accepted, pinned, .. } = *membership;
            (wanted, port, accepted, pinned, membership.is_enrolling(), membership.may_be_listed())
        };
        let before = parts(membership);
        change(membership);
        if before != parts(membership) {
            self.store.membership_changed(now());
            self.save_what_is_due(now());
        }
    }

    fn emit(&self, event: ControlEvent) {
        // Sending fails only after the handle was dropped. In that case the next read of the queue of orders ends the thread.
        let _ = self.queues.events.send(event);
        self.queues.agent.wake();
    }

    fn next_deadline(&self) -> Option<Time> {
        let leaving = self.leaving.as_ref().map(|leaving| leaving.until);
        [leaving, self.connection.deadline(), self.store.deadline()].into_iter().flatten().min()
    }
}

/// Draws the number of this run of the program, which is never 0.
fn draw_run(entropy: &mut impl Entropy) -> u64 {
    let (high, low) = (u64::from(entropy.next_u32()), u64::from(entropy.next_u32()));
    ((high << 32) | low).max(1)
}

/// Returns the time since boot, including suspended time, because a channel was silent while the host slept.
fn now() -> Time {
    Time::from_duration(boot_time())
}

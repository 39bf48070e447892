//! The daemon: one loop over signals, the local API, the control thread, the lane and the kernel's news.
//!
//! - this file: the loop, and the overlay's life;
//! - `leave`: giving up the membership;
//! - `mapped`: the router in front of this host, and which ports it opened;
//! - `news`: what the control thread says;
//! - `sleep`: whether the host slept;
//! - `story`: what goes to the event log;
//! - `users`: what local users ask.

mod leave;
mod mapped;
mod news;
mod sleep;
mod story;
mod users;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use taut_base::{NodeId, PublicKey, Time};
use taut_control::{Command, Control, Identity, Options, OtherPrefixes, saved_events};
use taut_event::{Events, Interest, Poller, Signal, Signals, Waker, boot_time, wall_clock};
use taut_netlink::{Changes, Monitor, Netlink};
use taut_netmap::NetworkMap;
use taut_node::Clocks;
use taut_relay::{Credentials, Ticket};

use crate::api::{Failure, LeaveStatus};
use crate::config::Config;
use crate::error::{RunError, failure};
use crate::host::{self, Surroundings};
use crate::log::{Log, MAX_EVENTS, Value, kind, listed};
use crate::metrics::http::{self, Responder};
use crate::overlay::{Overlay, OverlayOutput};
use crate::server::{FIRST_CONNECTION, Server};
use mapped::Mapped;
use sleep::{Sleep, awake};

const TOKEN_SIGNALS: u64 = 0;
const TOKEN_WAKER: u64 = 1;
const TOKEN_MONITOR: u64 = 2;
const TOKEN_SERVER: u64 = 3;

/// Addresses come and go in bursts (an interface comes up, DHCP answers). One that goes, one that comes and a route take a few milliseconds, and whoever
/// moved cannot be answered until its peers know; so soon the first reading follows the first change.
const SETTLE: Duration = Duration::from_millis(10);
/// Further ones are so far apart; the last follows the burst.
const READINGS_APART: Duration = Duration::from_millis(100);
/// How soon a network that could not come up, or broke, is tried again.
const RETRY_OVERLAY: Duration = Duration::from_secs(2);
/// Peers that are told at once of a restart or a move. The others notice by themselves within 15 s (paper, section 6.5).
const MAX_RECENT: usize = 64;
/// Trouble with the disk is said again every half minute; after twice that silence it is over.
const DISK_SILENCE: Duration = Duration::from_secs(60);

/// Runs the daemon until a signal, or a user with `down`, ends it.
///
/// # Errors
/// When it could not start; nothing was changed on the host then.
pub fn run(config: Config) -> Result<(), RunError> {
    // Before any thread is started: they inherit the mask.
    let signals = Signals::new(&[Signal::Terminate, Signal::Interrupt, Signal::Hangup])
        .map_err(|error| RunError::System("take over its signals", error))?;
    let mut daemon = Daemon::new(config, &signals)?;
    daemon.run(&signals)
}

struct Daemon {
    config: Config,
    log: Log,
    poller: Rc<Poller>,
    waker: Waker,
    server: Option<Server>,
    /// Hands out the figures, where the user wants that.
    metrics: Option<Responder>,
    monitor: Option<Monitor>,
    control: Option<Control>,
    identity: Option<Identity>,
    /// Whether the state directory holds a membership, even one that the coordinator has ended.
    is_member: bool,
    /// The last `taut leave`.
    leave: Option<LeaveStatus>,
    map: Option<Arc<NetworkMap>>,
    overlay: Option<Overlay>,
    url: String,
    connected: bool,
    last_error: Option<String>,
    presence: Option<BTreeMap<NodeId, bool>>,
    problem: Option<Failure>,
    /// The coordinator wants other overlay prefixes than those in force.
    other_prefixes: Option<OtherPrefixes>,
    /// Another daemon runs with this node's state, as the coordinator says.
    twin: Option<Failure>,
    /// What the state directory's trouble is, and when it was last said.
    disk: Option<(Failure, Time)>,
    /// Peers that have, or before a restart had, a session with this node.
    recent: Vec<PublicKey>,
    /// No initiation was stamped later than this, since the Unix epoch.
    stamps: Duration,
    /// Leave to use the network's relays, if the coordinator gave it.
    ticket: Option<Ticket>,
    /// The same in version 2, if there is one.
    numbered: Option<Ticket>,
    /// Where this node is reached from outside its NAT, as gateways and relays say.
    observed: Vec<SocketAddr>,
    /// Asks the router for ports, while the network is up and nobody switched it off.
    mapped: Mapped,
    /// Notices that the host slept.
    sleep: Sleep,
    /// When to bring the network up again after it could not, or broke.
    retry_overlay: Option<Time>,
    /// When to read the host's addresses again, and what changed since they were read.
    settle: Option<Time>,
    news: Changes,
    /// When they were last read because something changed.
    settled: Time,
    ending: bool,
}

impl Daemon {
    fn new(config: Config, signals: &Signals) -> Result<Self, RunError> {
        let system = |what| move |error| RunError::System(what, error);
        let poller = Poller::new().map_err(system("wait for events"))?;
        let waker = Waker::new().map_err(system("be woken"))?;
        let mut server = Server::listen(&config.socket)?;
        let options = Options { state_dir: config.state_dir.clone(), version: config.version.clone() };
        // Without news of address changes the node still works; it then learns of them only at a restart.
        let monitor = Monitor::open().ok();
        let control = Control::start(options, waker.clone()).map_err(RunError::State)?;
        // Without them the story begins here.
        let earlier = saved_events(&config.state_dir, MAX_EVENTS).unwrap_or_default();
        let mut log = Log::new(config.log);
        let previous = log.resume(&earlier);
        let add = |fd, token| poller.add(fd, token, Interest::READ).map_err(system("wait for events"));
        add(signals.as_fd(), TOKEN_SIGNALS)?;
        add(waker.as_fd(), TOKEN_WAKER)?;
        server.register(&poller, TOKEN_SERVER).map_err(system("wait for events"))?;
        let metrics = config
            .metrics
            .map(|address| Responder::listen(address, &poller).map_err(|error| RunError::Metrics(address, error)));
        if let Some(monitor) = &monitor {
            add(monitor.as_fd(), TOKEN_MONITOR)?;
        }
        let mut daemon = Self {
            config,
            log,
            poller: Rc::new(poller),
            waker,
            server: Some(server),
            metrics: metrics.transpose()?,
            monitor,
            control: Some(control),
            identity: None,
            is_member: false,
            leave: None,
            map: None,
            overlay: None,
            url: String::new(),
            connected: false,
            last_error: None,
            presence: None,
            problem: None,
            other_prefixes: None,
            twin: None,
            disk: None,
            recent: Vec::new(),
            stamps: Duration::ZERO,
            ticket: None,
            numbered: None,
            observed: Vec::new(),
            mapped: Mapped::default(),
            sleep: Sleep::default(),
            retry_overlay: None,
            settle: None,
            news: Changes::default(),
            settled: Time::ZERO,
            ending: false,
        };
        daemon.note_start(previous);
        Ok(daemon)
    }

    fn run(&mut self, signals: &Signals) -> Result<(), RunError> {
        let mut events = Events::with_capacity(32);
        // Who this node is, before the first user is answered.
        self.turn();
        while !self.ending {
            let now = clocks().now;
            let timeout = self.poll_timeout(now).map(|due| due.since(now));
            self.poller.wait(&mut events, timeout).map_err(|error| RunError::System("wait for events", error))?;
            for event in events.iter() {
                match event.token {
                    TOKEN_SIGNALS => self.handle_signals(signals),
                    TOKEN_WAKER => self.waker.drain(),
                    TOKEN_MONITOR => self.handle_news(),
                    TOKEN_SERVER => self.accept(),
                    token if token >= http::FIRST_TOKEN => self.serve_metrics(token),
                    token if token >= FIRST_CONNECTION => self.serve(token),
                    _ => {}
                }
            }
            self.turn();
        }
        self.stop_overlay("daemon-stops");
        self.flush_log();
        self.mapped.end();
        if let Some(control) = self.control.take() {
            control.stop();
        }
        Ok(())
    }

    /// Everything that does not hang on one descriptor.
    fn turn(&mut self) {
        while let Some(event) = self.control.as_ref().and_then(Control::try_event) {
            self.handle_control(event);
        }
        let clocks = clocks();
        if let Some(slept) = self.sleep.has_slept(clocks.now, awake()) {
            self.note(&kind::HOST_SLEPT, &[Value::s(slept)]);
            if self.overlay.is_some() {
                // Addresses and links may be others now, and nobody has said so yet.
                self.settle = Some(clocks.now);
            }
        }
        if self.mapped.turn()
            && let Some(overlay) = &mut self.overlay
        {
            overlay.set_mapped(&self.mapped.of(overlay.port), clocks);
        }
        self.turn_overlay(clocks);
        if self.settle.take_if(|due| clocks.now >= *due).is_some() {
            self.settled = clocks.now;
            self.refresh_endpoints();
        }
        self.turn_server();
        self.turn_metrics(clocks.now);
        if self.retry_overlay.take_if(|due| clocks.now >= *due).is_some() {
            self.apply_map();
        }
        self.drain_overlay();
        self.turn_log();
    }

    /// Carries out what the overlay wants: the one place that does so, at the end of every turn and of every overlay.
    fn drain_overlay(&mut self) {
        while let Some(output) = self.overlay.as_mut().and_then(Overlay::poll_output) {
            match output {
                OverlayOutput::StampCeiling(ceiling) => {
                    self.stamps = ceiling;
                    self.tell(Command::RememberStamps(ceiling));
                }
                OverlayOutput::Endpoints(endpoints) => {
                    self.observed = endpoints;
                    self.tell_endpoints();
                }
                OverlayOutput::HomeRelays(relays) => self.tell(Command::Relays(relays)),
                OverlayOutput::Event(event) => self.note_node(&event),
            }
        }
    }

    fn turn_overlay(&mut self, clocks: Clocks) {
        let Some(overlay) = &mut self.overlay else { return };
        overlay.turn(clocks);
        let connected: Vec<PublicKey> = overlay.node().connected().take(MAX_RECENT).collect();
        let failed = overlay.has_failed();
        if connected != self.recent && !connected.is_empty() {
            self.recent.clone_from(&connected);
            self.tell(Command::RememberPeers(connected));
        }
        if failed {
            let interface = self.overlay.as_ref().map(|overlay| Value::text(overlay.interface()));
            self.note(&kind::TUN_LOST, &[interface.unwrap_or(Value::None)]);
            self.stop_overlay("tun-lost");
            self.problem = Some(failure("the TUN device was taken away", "taut makes a new one by itself"));
            self.retry_overlay = Some(clocks.now + RETRY_OVERLAY);
        }
    }

    fn poll_timeout(&self, now: Time) -> Option<Time> {
        let overlay = self.overlay.as_ref().and_then(|overlay| overlay.poll_timeout(now));
        let metrics = self.metrics.as_ref().and_then(Responder::poll_timeout);
        let server = self.server.as_ref().and_then(Server::poll_timeout);
        let log = self.log.poll_timeout(self.overlay.is_some());
        [overlay, metrics, server, log, self.settle, self.retry_overlay].into_iter().flatten().min()
    }

    fn handle_signals(&mut self, signals: &Signals) {
        while let Some(signal) = signals.next() {
            // A closed terminal does not end a daemon.
            if matches!(signal, Signal::Terminate | Signal::Interrupt) {
                self.end("signal");
            }
        }
    }

    /// Has the daemon end after this turn.
    fn end(&mut self, reason: &'static str) {
        if !std::mem::replace(&mut self.ending, true) {
            self.note(&kind::DAEMON_STOPPING, &[Value::Word(reason)]);
        }
    }

    fn handle_news(&mut self) {
        let Some(monitor) = &mut self.monitor else { return };
        // A lost message counts as a change; an error would come again with the next one.
        let Ok(changes) = monitor.drain() else { return };
        let Some(overlay) = &mut self.overlay else { return };
        let now = clocks().now;
        if changes.watched {
            overlay.handle_news(now);
        }
        // What happens to our own device changes no way on the wire.
        if changes.elsewhere {
            self.news.join(changes);
            self.settle.get_or_insert((now + SETTLE).max(self.settled + READINGS_APART));
        }
    }

    /// Brings the network to what map and user want.
    fn apply_map(&mut self) {
        let Some(map) = self.map.clone() else { return };
        if self.overlay.as_ref().is_some_and(|overlay| overlay.needs_restart(&map)) {
            self.stop_overlay("addresses-changed");
        }
        let Some(identity) = self.identity.as_ref().filter(|identity| identity.wanted) else { return };
        let clocks = clocks();
        if let Some(overlay) = &mut self.overlay {
            overlay.set_map(&map, clocks);
            return self.watch();
        }
        // A network that was up here before comes up again, whatever it overlaps now (law 5).
        let fits = if identity.is_new { check_first_join(&map) } else { Ok(()) };
        let start = || Overlay::start(&self.config, &identity.node_key, identity.port, &map, &self.waker, clocks);
        match fits.and_then(|()| start()) {
            Ok(mut overlay) => {
                overlay.resume_stamps(self.stamps);
                self.pin_prefixes();
                self.tell(Command::RememberPort(overlay.port));
                if let Some(credentials) = self.credentials() {
                    overlay.set_ticket(credentials, clocks);
                }
                overlay.greet(&self.recent, clocks);
                if self.config.portmap {
                    self.mapped.start(overlay.ports(), overlay.prefixes(), &self.waker);
                }
                self.overlay = Some(overlay);
                self.problem = None;
                self.note_up(&map);
                self.watch();
                self.refresh_endpoints();
            }
            Err(problem) => {
                self.retry_overlay = Some(clocks.now + RETRY_OVERLAY);
                self.note_not_up(&problem);
                self.problem = Some(problem);
            }
        }
    }

    /// The network came up here: from now on its prefixes are changed by the user alone (fault E24).
    fn pin_prefixes(&mut self) {
        if let Some(identity) = self.identity.as_mut().filter(|identity| identity.is_new) {
            identity.is_new = false;
            self.tell(Command::PinPrefixes);
        }
    }

    /// Has the kernel's news of our device told apart from all other.
    fn watch(&mut self) {
        if let Some(monitor) = &mut self.monitor {
            monitor.watch(self.overlay.as_ref().map(Overlay::watch));
        }
    }

    fn refresh_endpoints(&mut self) {
        self.tell(Command::Look);
        let changes = std::mem::take(&mut self.news);
        let (Some(overlay), Some(map)) = (&mut self.overlay, &self.map) else { return };
        let changed = overlay.refresh_endpoints(map, changes, clocks());
        if let Some(due) = overlay.poll_reread() {
            self.settle.get_or_insert(due);
        }
        overlay.look_around(clocks());
        self.mapped.look();
        if changed {
            overlay.greet(&self.recent, clocks());
            let endpoints = listed(&overlay.endpoints);
            self.note(&kind::ENDPOINTS_CHANGED, &[endpoints]);
            self.tell_endpoints();
        }
    }

    /// Where this node may be reached is said to the coordinator; peers hear of it inside sessions, from the node.
    fn tell_endpoints(&self) {
        let Some(overlay) = &self.overlay else { return };
        let (endpoints, ports) = (overlay.endpoints.clone(), vec![overlay.port]);
        self.tell(Command::Endpoints { endpoints, ports, observed: self.observed.clone() });
    }

    /// What relays know this node by, once it has a ticket.
    fn credentials(&self) -> Option<Credentials> {
        let (identity, ticket) = (self.identity.as_ref()?, self.ticket.as_ref()?);
        Some(Credentials { bind: identity.bind_key.clone(), ticket: ticket.clone(), numbered: self.numbered.clone() })
    }

    fn stop_overlay(&mut self, reason: &'static str) {
        // The next overlay must not stamp earlier than this one did.
        self.drain_overlay();
        if let Some(overlay) = self.overlay.take() {
            overlay.stop();
            self.note(&kind::NETWORK_DOWN, &[Value::Word(reason)]);
        }
        self.mapped.pause();
        self.observed.clear();
        (self.retry_overlay, self.settle) = (None, None);
        self.watch();
    }

    fn tell(&self, command: Command) {
        if let Some(control) = &self.control {
            control.send(command);
        }
    }
}

/// Whether the network may come up on this host for the first time (fault J13).
fn check_first_join(map: &NetworkMap) -> Result<(), Failure> {
    let read = Netlink::open().and_then(|mut netlink| Surroundings::read(&mut netlink, None, None));
    let surroundings =
        read.map_err(|error| failure(error, "taut looks for addresses that are used twice; it tries again by itself"))?;
    host::first_join(map, &surroundings)
}

/// The two clocks, read together.
pub(crate) fn clocks() -> Clocks {
    Clocks { now: Time::from_duration(boot_time()), wall: wall_clock() }
}

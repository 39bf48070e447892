//! The daemon: one loop over signals, the local API, the control thread, the lanes and the kernel's news.
//!
//! - this file: the loop, and the life of the overlay;
//! - `confined`: its sandbox, and what it starts before it enters that;
//! - `kill_switch`: what stays when the daemon ends;
//! - `leave`: ending the membership;
//! - `mapped`: port mappings of the router in front of this host;
//! - `names`: the host's resolver;
//! - `news`: events of the control thread;
//! - `service`: what the service manager learns;
//! - `settings`: settings that a user changes;
//! - `sleep`: detection of a suspended host;
//! - `state`: the membership, the coordinator's state, and problems for the user;
//! - `story`: what goes to the event log;
//! - `users`: requests of local users.

mod confined;
mod kill_switch;
mod leave;
#[cfg(feature = "portmap")]
mod mapped;
#[cfg(not(feature = "portmap"))]
#[path = "unmapped.rs"]
mod mapped;
mod names;
mod news;
mod pages;
mod questions;
mod service;
mod settings;
mod sleep;
mod state;
mod story;
mod users;

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

use taut_base::{PublicKey, Time};
use taut_control::{Command, Control, Options, saved_events, saved_kill_switch};
use taut_event::{Events, Interest, Poller, Signal, Signals, Waker};
use taut_netlink::{Monitor, Netlink};
use taut_netmap::NetworkMap;
use taut_node::Clocks;

use crate::api::{Failure, LeaveStatus, SandboxStatus};
use crate::basics::clocks;
use crate::config::DaemonConfig;
use crate::error::RunError;
use crate::host::{self, ExitRoutes, ExitRouting, Slot, Surroundings};
use crate::log::{Log, MAX_EVENTS, Value, kind, listed, write_line};
use crate::metrics::http::{self, MetricsServer};
use crate::overlay::{self, Overlay, OverlayOutput};
use crate::resolver::Resolver;
use crate::server::{ApiServer, FIRST_CONNECTION};
use crate::upstream::Upstream;
use crate::userspace;
use confined::Confined;
use kill_switch::Guard;
use mapped::Mapped;
use names::Served;
use pages::Pages;
use questions::Questions;
use service::Service;
use sleep::{Sleep, awake};
use state::{CoordinatorState, MembershipState, Problems, Readings};

const TOKEN_SIGNALS: u64 = 0;
const TOKEN_WAKER: u64 = 1;
const TOKEN_MONITOR: u64 = 2;
const TOKEN_SERVER: u64 = 3;
const TOKEN_RESOLVER: u64 = 4;
const TOKEN_SERVED: u64 = 5;
const TOKEN_USERSPACE: u64 = 6;

/// Time from the first change of addresses to the first reading, 10 ms. Addresses change in bursts (an interface comes up, DHCP answers): one that goes, one that comes and a
/// route take a few milliseconds. The reading must not be later, because peers cannot answer a host that moved until they know its new endpoint.
const SETTLE: Duration = Duration::from_millis(10);
/// Interval of further readings during a burst, 100 ms; the last one follows the burst.
const READING_INTERVAL: Duration = Duration::from_millis(100);
/// Time until a network that could not come up, or failed, is started again, 2 s.
const RETRY_OVERLAY: Duration = Duration::from_secs(2);
/// Maximum number of peers that get a handshake at once after a restart or a move, 64. Other peers notice on their own within 15 s (paper, section 6.5).
const MAX_RECENT: usize = 64;
/// Time without a report after which a problem of the disk counts as solved, 60 s: it is reported every half minute.
const DISK_SILENCE: Duration = Duration::from_secs(60);

/// Runs the daemon until a signal or `taut down` ends it.
///
/// # Errors
/// If the daemon could not start. Nothing was changed on the host then.
pub fn run(config: DaemonConfig) -> Result<(), RunError> {
    // Before any thread is started, because threads inherit the signal mask.
    let signals = Signals::new(&[Signal::Terminate, Signal::Interrupt, Signal::Hangup, Signal::Inquire])
        .map_err(|error| RunError::System("take over its signals", error))?;
    let mut daemon = Daemon::new(config, &signals)?;
    daemon.run(&signals)
}

struct Daemon {
    config: DaemonConfig,
    /// A number that tells this run from others, also those with the same process id: the wall clock's time at the start, in microseconds.
    run: u64,
    log: Log,
    poller: Rc<Poller>,
    waker: Waker,
    server: Option<ApiServer>,
    /// The metrics port, if the user wants one.
    metrics: Option<MetricsServer>,
    monitor: Option<Monitor>,
    /// The host's resolver, unless it is left alone.
    resolver: Option<Resolver>,
    /// Questions for servers of split domains, and for the exit node.
    upstream: Upstream,
    /// The peers that ask this exit node for names.
    served: Served,
    control: Option<Control>,
    member: MembershipState,
    coordinator: CoordinatorState,
    /// Users' questions about the policy.
    questions: Questions,
    problems: Problems,
    /// The last `taut leave`.
    leave: Option<LeaveStatus>,
    overlay: Option<Overlay>,
    /// The node's endpoints outside its NAT, as gateways and relays report them.
    observed: Vec<SocketAddr>,
    /// The port mappings while the network is up, unless they are switched off.
    mapped: Mapped,
    /// Detects that the host slept.
    sleep: Sleep,
    pages: Pages,
    /// Time at which the network is started again after a failure.
    retry_overlay: Option<Time>,
    readings: Readings,
    /// What keeps packets from leaving in the clear.
    guard: Guard,
    /// The routes and rules of the exit node that this host uses.
    exit: ExitRoutes,
    /// True if what `taut set` keeps is not on the disk yet.
    settings_unsaved: bool,
    /// True if the end of `taut outside` was recorded.
    outside_ended: bool,
    /// What the service manager learns.
    service: Service,
    /// The settings when the network started.
    started_with: Option<DaemonConfig>,
    /// The reason why the daemon has to end after this turn, if it has to.
    ending: Option<&'static str>,
    /// What the sandbox holds; `None` without one.
    sandbox: Option<SandboxStatus>,
}

impl Daemon {
    fn new(config: DaemonConfig, signals: &Signals) -> Result<Self, RunError> {
        if let Some(conflict) = userspace::conflict(&config) {
            return Err(RunError::Settings(conflict));
        }
        let system = |what| move |error| RunError::System(what, error);
        let poller = Poller::new().map_err(system("wait for events"))?;
        let waker = Waker::new().map_err(system("be woken"))?;
        // Before the socket: a program that waits for the start finds the kill switch of an earlier run protected, and its local networks open.
        let nearby = Netlink::open().and_then(|mut netlink| Surroundings::read(&mut netlink, None, None));
        let nearby = nearby.map(|surroundings| surroundings.nearby()).unwrap_or_default();
        let guard = Guard::new(&config, &nearby);
        let mut server = ApiServer::listen(&config.socket)?;
        // No other daemon uses this socket, so what is left of one is of a crash.
        host::restore_switches(&overlay::switch_record(&config));
        host::restore_source_check(&overlay::exit_record(&config));
        if let Ok(mut netlink) = Netlink::open() {
            // Under its present name, and under the one of the run that crashed.
            let former = saved_kill_switch(&config.state_dir);
            for name in former.iter().chain([&config.tun_name]) {
                host::remove_routing(&mut netlink, Slot::of(name));
            }
        }
        let (state_dir, version) = (config.state_dir.clone(), config.version.clone());
        let options = Options { state_dir, version, log_gap };
        // Without the monitor the node still works, but it notices changes of addresses only at a restart.
        let monitor = Monitor::open().ok();
        let mut confined = None;
        let ready = || confined = Some(Confined::enter(&config));
        let control = Control::start(options, waker.clone(), ready).map_err(RunError::State)?;
        let Confined { resolver, sandbox } = confined.unwrap_or_default();
        // Events of the earlier run that cannot be read are left out.
        let earlier = saved_events(&config.state_dir, MAX_EVENTS).0;
        let mut log = Log::new(config.log);
        let previous = log.resume(&earlier);
        let add = |fd, token| poller.add(fd, token, Interest::READ).map_err(system("wait for events"));
        add(signals.as_fd(), TOKEN_SIGNALS)?;
        add(waker.as_fd(), TOKEN_WAKER)?;
        server.register(&poller, TOKEN_SERVER).map_err(system("wait for events"))?;
        let metrics = config
            .metrics
            .map(|address| MetricsServer::listen(address, &poller).map_err(|error| RunError::Metrics(address, error)));
        if let Some(monitor) = &monitor {
            add(monitor.as_fd(), TOKEN_MONITOR)?;
        }
        if let Some(socket) = resolver.as_ref().and_then(Resolver::as_fd) {
            add(socket, TOKEN_RESOLVER)?;
        }
        let upstream = Upstream::new(waker.clone());
        let service = Service::new(config.service.clone());
        let mut exit = ExitRoutes::new(&config.tun_name, overlay::exit_record(&config));
        exit.set(ExitRouting::default(), nearby, None, clocks().now);
        let mut daemon = Self {
            config,
            run: u64::try_from(clocks().wall.as_micros()).unwrap_or_default(),
            log,
            poller: Rc::new(poller),
            waker,
            server: Some(server),
            metrics: metrics.transpose()?,
            monitor,
            resolver,
            upstream,
            served: Served::default(),
            control: Some(control),
            member: MembershipState::default(),
            coordinator: CoordinatorState::default(),
            questions: Questions::default(),
            problems: Problems::default(),
            leave: None,
            overlay: None,
            observed: Vec::new(),
            mapped: Mapped::default(),
            sleep: Sleep::default(),
            pages: Pages::new(clocks().now),
            retry_overlay: None,
            readings: Readings::default(),
            guard,
            exit,
            settings_unsaved: false,
            outside_ended: false,
            service,
            started_with: None,
            ending: None,
            sandbox: sandbox.as_ref().ok().cloned(),
        };
        daemon.note_start(previous);
        daemon.note_sandbox(&sandbox);
        Ok(daemon)
    }

    fn run(&mut self, signals: &Signals) -> Result<(), RunError> {
        let mut events = Events::with_capacity(32);
        // Learn the identity of the node before the first user is answered.
        self.turn();
        while self.ending.is_none() {
            let now = clocks().now;
            let timeout = self.poll_timeout(now).map(|due| due.since(now));
            self.poller.wait(&mut events, timeout).map_err(|error| RunError::System("wait for events", error))?;
            for event in events.iter() {
                match event.token {
                    TOKEN_SIGNALS => self.handle_signals(signals),
                    TOKEN_WAKER => self.waker.drain(),
                    TOKEN_MONITOR => self.handle_news(),
                    TOKEN_SERVER => self.accept(),
                    TOKEN_RESOLVER => self.read_resolver(),
                    TOKEN_SERVED => self.served.turn(),
                    TOKEN_USERSPACE => self.read_userspace(),
                    token if token >= http::FIRST_TOKEN => self.serve_metrics(token),
                    token if token >= FIRST_CONNECTION => self.serve(token),
                    _ => {}
                }
            }
            self.turn();
        }
        self.end_service();
        self.stop_overlay("daemon-stops");
        self.exit.stop();
        self.end_resolver();
        self.mapped.end();
        self.turn_log();
        self.log.finish(self.ending.unwrap_or("signal"), clocks());
        self.flush_log();
        if let Some(control) = self.control.take() {
            control.stop();
        }
        Ok(())
    }

    /// Does the work that does not depend on one descriptor.
    fn turn(&mut self) {
        while let Some(event) = self.control.as_ref().and_then(Control::try_event) {
            self.handle_control(event);
        }
        let clocks = clocks();
        if let Some(slept) = self.sleep.has_slept(clocks.now, awake()) {
            self.note(&kind::HOST_SLEPT, &[Value::s(slept)]);
            if self.overlay.is_some() {
                // Addresses and links may have changed without a message from the kernel.
                self.readings.due = Some(clocks.now);
            }
        }
        if self.mapped.turn()
            && let Some(overlay) = &mut self.overlay
        {
            overlay.set_mapped(&self.mapped.of(overlay.port), clocks);
        }
        self.turn_overlay(clocks);
        self.turn_upstream();
        self.turn_served(clocks);
        self.rotate_old_key();
        if self.readings.due.take_if(|due| clocks.now >= *due).is_some() {
            self.readings.last = clocks.now;
            self.refresh_endpoints();
        }
        self.turn_server();
        self.turn_metrics(clocks.now);
        if self.retry_overlay.take_if(|due| clocks.now >= *due).is_some() {
            self.apply_map();
        }
        self.drain_overlay();
        self.turn_kill_switch(clocks.now);
        self.turn_exit(clocks.now);
        self.turn_resolver(clocks.now);
        self.turn_outside();
        self.turn_log();
        self.turn_service(clocks.now);
        self.pages.turn(clocks.now);
    }

    /// Carries out the outputs of the overlay. No other function does. It is called at the end of every turn, and before an overlay is stopped.
    fn drain_overlay(&mut self) {
        while let Some(output) = self.overlay.as_mut().and_then(Overlay::poll_output) {
            match output {
                OverlayOutput::StampCeiling(ceiling) => {
                    self.member.stamps = ceiling;
                    self.tell(Command::RememberStamps(ceiling));
                }
                OverlayOutput::Endpoints(endpoints) => {
                    self.observed = endpoints;
                    self.tell_endpoints();
                }
                OverlayOutput::HomeRelays(relays) => self.tell(Command::Relays(relays)),
                OverlayOutput::LanesStarted(lanes) => {
                    self.note(&kind::LANES_STARTED, &[Value::Number(lanes.into())]);
                    self.map_ports();
                }
                OverlayOutput::LanesEnded => {
                    self.note(&kind::LANES_ENDED, &[]);
                    self.map_ports();
                }
                OverlayOutput::LanesRefused(reason) => self.note(&kind::LANES_REFUSED, &[Value::Text(reason)]),
                OverlayOutput::Event(event) => self.note_node(&event),
            }
        }
    }

    /// Has the router map the ports of the lanes that run now.
    fn map_ports(&mut self) {
        if let Some(overlay) = self.overlay.as_ref().filter(|_| self.config.portmap) {
            self.mapped.start(overlay.ports(), overlay.prefixes(), &self.waker);
        }
    }

    /// Reads what the program with the TCP/IP stack reports. One that will say nothing more is given up, and another one is started.
    fn read_userspace(&mut self) {
        if self.overlay.as_mut().is_some_and(|overlay| !overlay.read_userspace()) {
            self.lose_overlay(clocks().now);
        }
    }

    fn turn_overlay(&mut self, clocks: Clocks) {
        let Some(overlay) = &mut self.overlay else { return };
        overlay.turn(clocks);
        let connected: Vec<PublicKey> = overlay.node().connected().take(MAX_RECENT).collect();
        let failed = overlay.has_failed();
        if connected != self.member.recent && !connected.is_empty() {
            self.member.recent.clone_from(&connected);
            self.tell(Command::RememberPeers(connected));
        }
        if failed {
            self.lose_overlay(clocks.now);
        }
    }

    /// Ends the network, whose device is lost, and tries again in a while.
    fn lose_overlay(&mut self, now: Time) {
        let is_userspace = self.overlay.as_ref().is_some_and(|overlay| overlay.userspace().is_some());
        let interface = self.overlay.as_ref().map(|overlay| Value::text(overlay.interface()));
        match is_userspace {
            true => self.note(&kind::USERSPACE_ENDED, &[]),
            false => self.note(&kind::TUN_LOST, &[interface.unwrap_or(Value::None)]),
        }
        self.stop_overlay(if is_userspace { "userspace-ended" } else { "tun-lost" });
        self.problems.network = Some(match is_userspace {
            true => Failure::new("the program `taut-userspace` ended", "taut starts it again automatically"),
            false => Failure::new("the TUN device was deleted or moved away", "taut creates a new one automatically"),
        });
        self.retry_overlay = Some(now + RETRY_OVERLAY);
    }

    fn poll_timeout(&self, now: Time) -> Option<Time> {
        let overlay = self.overlay.as_ref().and_then(|overlay| overlay.poll_timeout(now));
        let metrics = self.metrics.as_ref().and_then(MetricsServer::poll_timeout);
        let server = self.server.as_ref().and_then(ApiServer::poll_timeout);
        let log = self.log.poll_timeout(self.overlay.is_some());
        let resolver = self.resolver.as_ref().and_then(Resolver::poll_timeout);
        let guard = self.guard.poll_timeout();
        let served = self.served.poll_timeout();
        let exit = self.exit.poll_timeout();
        let service = self.service.poll_timeout();
        let pages = Some(self.pages.poll_timeout());
        [
            overlay,
            metrics,
            server,
            log,
            resolver,
            guard,
            exit,
            served,
            service,
            pages,
            self.readings.due,
            self.retry_overlay,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn handle_signals(&mut self, signals: &Signals) {
        while let Some(signal) = signals.next() {
            match signal {
                Signal::Terminate | Signal::Interrupt => self.ending = self.ending.or(Some("signal")),
                Signal::Inquire => {
                    let levels = self.log.levels().raised().unwrap_or(self.config.log.levels);
                    self.log.set_levels(levels, clocks());
                }
                // A hangup, as when a terminal closes, does not end the daemon.
                Signal::Hangup => {}
            }
        }
    }

    fn handle_news(&mut self) {
        let Some(monitor) = &mut self.monitor else { return };
        // A lost message counts as a change. An error occurs again with the next message.
        let Ok(changes) = monitor.drain() else { return };
        let now = clocks().now;
        if changes.watched || changes.rules {
            self.exit.handle_news(now);
        }
        let Some(overlay) = &mut self.overlay else { return };
        if changes.watched {
            overlay.handle_news(now);
        }
        // A change of our own device changes no path on the wire.
        if changes.elsewhere {
            self.readings.changes.join(changes);
            self.readings.due.get_or_insert((now + SETTLE).max(self.readings.last + READING_INTERVAL));
        }
    }

    /// Starts, changes or stops the overlay, as the map and the user require.
    fn apply_map(&mut self) {
        let Some(map) = self.member.map.clone() else { return };
        if self.overlay.as_ref().is_some_and(|overlay| overlay.needs_restart(&map)) {
            self.stop_overlay("addresses-changed");
        }
        if self.member.identity.as_ref().is_none_or(|identity| !identity.wanted) {
            return;
        }
        let clocks = clocks();
        if let Some(overlay) = &mut self.overlay {
            overlay.set_map(&map, clocks);
            return self.watch();
        }
        // Before routes lead packets anywhere.
        self.turn_kill_switch(clocks.now);
        let Some(identity) = self.member.identity.as_ref().filter(|identity| identity.wanted) else { return };
        // A network that was up on this host before comes up again, even if it overlaps with other networks now (law 5).
        let fits = if identity.is_new { check_first_join(&map) } else { Ok(()) };
        let at = &self.coordinator.addresses;
        let start = || Overlay::start(&self.config, &identity.node_key, identity.port, &map, at, &self.waker, clocks);
        match fits.and_then(|()| start()) {
            Ok(mut overlay) => {
                overlay.resume_stamps(self.member.stamps);
                self.pin_prefixes();
                self.tell(Command::RememberPort(overlay.port));
                self.tell(Command::Routes(self.config.routes.proposed()));
                if let Some(credentials) = self.member.credentials() {
                    overlay.set_ticket(credentials, clocks);
                }
                overlay.greet(&self.member.recent, clocks);
                if self.config.portmap {
                    self.mapped.start(overlay.ports(), overlay.prefixes(), &self.waker);
                }
                if let Some(userspace) = overlay.userspace() {
                    // Without its reports the status lacks the services, and they work all the same.
                    let _ = self.poller.add(userspace.as_fd(), TOKEN_USERSPACE, Interest::READ);
                }
                self.overlay = Some(overlay);
                self.started_with = Some(self.config.clone());
                self.problems.network = None;
                self.note_up(&map);
                self.watch();
                self.refresh_endpoints();
                if let Some(call) = self.config.when_up {
                    call();
                }
            }
            Err(problem) => {
                self.retry_overlay = Some(clocks.now + RETRY_OVERLAY);
                self.note_not_up(&problem);
                self.problems.network = Some(problem);
            }
        }
    }

    /// Pins the prefixes of a network that came up: from now on only the user can change them (fault E24).
    fn pin_prefixes(&mut self) {
        if let Some(identity) = self.member.identity.as_mut().filter(|identity| identity.is_new) {
            identity.is_new = false;
            self.tell(Command::PinPrefixes);
        }
    }

    /// Tells the monitor which news concerns our own device.
    fn watch(&mut self) {
        if let Some(monitor) = &mut self.monitor {
            monitor.watch(self.overlay.as_ref().map(Overlay::watch));
        }
    }

    /// Reads the host's interfaces, and tells node, router and coordinator of the changes.
    fn refresh_endpoints(&mut self) {
        self.tell(Command::HostChanged);
        let changes = std::mem::take(&mut self.readings.changes);
        let (Some(overlay), Some(map)) = (&mut self.overlay, &self.member.map) else { return };
        let before = overlay.endpoints.clone();
        let changed = overlay.refresh_endpoints(map, changes, clocks());
        if let Some(due) = overlay.poll_reread() {
            self.readings.due.get_or_insert(due);
        }
        overlay.handle_network_change(clocks());
        self.mapped.check();
        if changed {
            overlay.greet(&self.member.recent, clocks());
            let kind = match (before.is_empty(), overlay.endpoints.is_empty()) {
                (true, _) => &kind::ENDPOINTS_FIRST,
                (false, true) => &kind::ENDPOINTS_NONE,
                (false, false) => &kind::ENDPOINTS_CHANGED,
            };
            let values = [listed(&before), listed(&overlay.endpoints)];
            self.note(kind, &values);
            self.tell_endpoints();
        }
    }

    /// Tells the coordinator the node's endpoints. The node itself tells peers, inside sessions.
    fn tell_endpoints(&self) {
        let Some(overlay) = &self.overlay else { return };
        let (endpoints, ports) = (overlay.endpoints.clone(), vec![overlay.port]);
        self.tell(Command::Endpoints { endpoints, ports, observed: self.observed.clone() });
    }

    fn stop_overlay(&mut self, reason: &'static str) {
        // Takes the last outputs of this overlay, such as the latest time of its initiations: those of the next overlay must be later.
        self.drain_overlay();
        if let Some(overlay) = self.overlay.take() {
            overlay.stop();
            self.note(&kind::NETWORK_DOWN, &[Value::Word(reason)]);
        }
        self.mapped.pause();
        self.observed.clear();
        (self.retry_overlay, self.readings.due) = (None, None);
        self.watch();
    }

    fn tell(&self, command: Command) {
        if let Some(control) = &self.control {
            control.send(command);
        }
    }
}

/// Returns the line of the event log about lines that did not reach the disk before the daemon ended.
fn log_gap(missing: u64) -> String {
    write_line(&kind::LOG_WRITTEN, kind::LOG_WRITTEN.level, clocks().wall, &[Value::Number(missing)])
}

/// Returns the reason why the network must not come up on this host for the first time, if there is one (fault J13).
fn check_first_join(map: &NetworkMap) -> Result<(), Failure> {
    let read = Netlink::open().and_then(|mut netlink| Surroundings::read(&mut netlink, None, None));
    let surroundings = read.map_err(|error| {
        Failure::new(error, "taut looks for addresses that are used twice; it tries again automatically")
    })?;
    host::first_join(map, &surroundings)
}

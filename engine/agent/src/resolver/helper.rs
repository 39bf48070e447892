//! The process `taut dns-helper`: it changes the host's resolver as the daemon wishes, keeps it so, and puts it back when the daemon ends in any way.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use taut_event::{DirectoryWatch, Events, Interest, Poller, Signal, Signals, new_session};
use taut_netlink::Netlink;

use super::desktop;
use super::dnsmasq::{self, Dnsmasq};
use super::file::{self, ResolvFile};
use super::forward::Forwarder;
use super::hook::Hook;
use super::servers::{RESOLV_CONF, search_domains};
use super::surroundings::Facts;
use super::{MAX_MESSAGE, Order, Report, Wanted, check};
use crate::api::{Failure, ResolverBackEnd};
use crate::host::{self, Slot};

/// Time between two looks at whether the settings are still there, 5 s, while there are some: for settings outside of `/etc/resolv.conf`, of which the kernel tells.
const LOOKS_APART: Duration = Duration::from_secs(5);
/// Time from a change of `/etc/resolv.conf` to the look at it, 10 ms: programs that write it do so in two or three steps.
const SETTLE: Duration = Duration::from_millis(10);
/// Pause after the first failure, 2 s; each further one is twice as long, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// Longest pause between two attempts to apply settings, 60 s.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Time from SIGTERM to the end, 3 s, if the daemon does not end before.
const GRACE: Duration = Duration::from_secs(3);
/// Times within [`LONGEST_PAUSE`] that settings are repaired. Another program that undoes them more often wins, or the two would write for ever.
const MOST_REPAIRS: usize = 5;

/// Runs the helper until the daemon ends. Its standard input is the socket to the daemon.
///
/// # Errors
/// If standard input is no such socket.
pub fn run_helper() -> io::Result<()> {
    // A terminal's Ctrl-C and a closed terminal are for the daemon. This fails only for a process that leads its group already.
    let _ = new_session();
    // A service manager signals all processes of a service, and the daemon is to end first.
    let signals = Signals::new(&[Signal::Terminate, Signal::Interrupt, Signal::Hangup])?;
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Anything but a socket has no address.
    stream.local_addr()?;
    stream.set_nonblocking(true)?;
    let poller = Poller::new()?;
    poller.add(stream.as_fd(), 0, Interest::READ)?;
    poller.add(signals.as_fd(), 1, Interest::READ)?;
    recover();
    let mut helper = Helper::new(stream, watch_resolv_conf(&poller));
    let (mut events, mut end) = (Events::with_capacity(3), None::<Instant>);
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        poller.wait(&mut events, [left, helper.pause(Instant::now())].into_iter().flatten().min())?;
        while let Some(signal) = signals.next() {
            end = end.or_else(|| (signal == Signal::Terminate).then(|| Instant::now() + GRACE));
        }
        let has_ended = helper.read().is_err();
        if has_ended || end.is_some_and(|end| Instant::now() >= end) {
            // First: putting a resolver back may take seconds, and the next daemon of this host would lose its rules then.
            if has_ended {
                helper.remove_exit_rules();
            }
            helper.undo();
            return Ok(());
        }
        helper.take_changes(Instant::now());
        helper.look(Instant::now());
    }
}

/// Has the kernel tell of changes of `/etc/resolv.conf`, and of the file that it leads to. Without these news the changes are noticed at the next look.
fn watch_resolv_conf(poller: &Poller) -> Option<DirectoryWatch> {
    let watch = DirectoryWatch::new().ok()?;
    poller.add(watch.as_fd(), 2, Interest::READ).ok()?;
    let link = Path::new(RESOLV_CONF);
    for path in [Some(link.to_path_buf()), fs::canonicalize(link).ok()].into_iter().flatten() {
        let _ = path.parent().map(|directory| watch.add(directory));
    }
    Some(watch)
}

/// Removes what a helper left that was killed itself, or that ran when the host lost its power.
fn recover() {
    file::recover();
    dnsmasq::recover();
    desktop::recover();
}

struct Helper {
    stream: UnixStream,
    unread: Vec<u8>,
    wanted: Order,
    /// The device of the network that asked an exit node last.
    exit_device: Option<String>,
    hook: Option<Box<dyn Hook>>,
    forwarder: Forwarder,
    /// News of `/etc/resolv.conf`.
    watch: Option<DirectoryWatch>,
    report: Report,
    /// Time of the next look.
    due: Instant,
    /// Pause after the next failure.
    pause: Duration,
    /// Times of repairs within [`LONGEST_PAUSE`].
    repairs: Vec<Instant>,
}

impl Helper {
    fn new(stream: UnixStream, watch: Option<DirectoryWatch>) -> Self {
        Self {
            stream,
            unread: Vec::new(),
            wanted: None,
            exit_device: None,
            hook: None,
            forwarder: Forwarder::default(),
            watch,
            report: Report::default(),
            due: Instant::now(),
            pause: FIRST_PAUSE,
            repairs: Vec::new(),
        }
    }

    /// Returns the time until the next look; `None` while nothing is wanted.
    fn pause(&self, now: Instant) -> Option<Duration> {
        self.wanted.as_ref().map(|_| self.due.saturating_duration_since(now))
    }

    /// Reads the daemon's orders and carries out the last one. Fails if the daemon has ended.
    fn read(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        let ended = loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => break true,
                Ok(length) => self.unread.extend_from_slice(buffer.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break true,
            }
            if self.unread.len() > MAX_MESSAGE {
                break true;
            }
        };
        if ended {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let Some(end) = self.unread.iter().rposition(|byte| *byte == b'\n') else { return Ok(()) };
        let lines: Vec<u8> = self.unread.drain(..=end).collect();
        let last = lines.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty()).unwrap_or_default();
        let order = taut_json::from_slice::<Order>(last).map_err(|_| io::ErrorKind::InvalidData)?;
        match order.as_ref().and_then(check::fault) {
            None => self.carry_out(order),
            Some(fault) => self.refuse(&fault),
        }
        Ok(())
    }

    /// Puts the host back, as nothing that can be carried out is wanted any more.
    fn refuse(&mut self, fault: &str) {
        self.wanted = None;
        self.undo();
        let problem = Failure::new(
            format!("the process that sets up the host's resolver refuses what the daemon wants: {fault}"),
            "give the network and the TUN device other names, or restart the daemon if you did not choose them",
        );
        self.tell(Report { back_end: None, problem: Some(problem), given_way: Vec::new() });
    }

    fn carry_out(&mut self, order: Order) {
        let asks_all = |order: &Order| order.as_ref().is_some_and(|wanted| wanted.all);
        if asks_all(&order) != asks_all(&self.wanted) {
            // Another back-end may fit.
            self.undo();
        }
        (self.wanted, self.pause) = (order, FIRST_PAUSE);
        if let Some(wanted) = self.wanted.as_ref().filter(|wanted| wanted.all) {
            self.exit_device = Some(wanted.interface.clone());
        }
        self.repairs.clear();
        if self.wanted.is_some() {
            self.apply(Instant::now());
        } else {
            self.undo();
            self.tell(Report::default());
        }
    }

    /// Makes the settings with the back-end that fits the host now.
    fn apply(&mut self, now: Instant) {
        let facts = Facts::read();
        let Some(wanted) = &self.wanted else { return };
        let (mut wanted, back_end) = (wanted.clone(), facts.back_end());
        let back_end = fitting_back_end(back_end, &wanted);
        let given_way = wanted.fit(&search_domains(&facts.resolv_conf));
        if self.hook.as_ref().is_some_and(|hook| hook.back_end() != back_end) {
            self.undo();
        }
        let forwarder = &self.forwarder;
        let hook = self.hook.get_or_insert_with(|| new_hook(back_end, forwarder));
        let result = hook.apply(&wanted);
        self.due = now + self.pause;
        match result {
            Ok(()) => {
                (self.pause, self.due) = (FIRST_PAUSE, now + LOOKS_APART);
                self.tell(Report { back_end: Some(back_end), problem: None, given_way });
            }
            Err(problem) => {
                // A setting that is half made is worse than none.
                self.undo();
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                self.tell(Report { back_end: None, problem: Some(problem), given_way: Vec::new() });
            }
        }
    }

    /// Looks soon if `/etc/resolv.conf` changed, unless the settings are left to another program for a while.
    fn take_changes(&mut self, now: Instant) {
        let file = Path::new(RESOLV_CONF).file_name();
        let changed =
            self.watch.as_ref().is_some_and(|watch| watch.changed().iter().any(|name| Some(name.as_os_str()) == file));
        if changed && self.hook.is_some() {
            self.due = self.due.min(now + SETTLE);
        }
    }

    /// Looks at whether the settings are still there, and repairs them.
    fn look(&mut self, now: Instant) {
        let Some(wanted) = self.wanted.as_ref().filter(|_| now >= self.due) else { return };
        self.due = now + LOOKS_APART;
        if let Some(hook) = &mut self.hook {
            let facts = Facts::read();
            let mut fitting = wanted.clone();
            let given_way = fitting.fit(&search_domains(&facts.resolv_conf));
            let is_same = given_way == self.report.given_way;
            if is_same && fitting_back_end(facts.back_end(), wanted) == hook.back_end() && hook.is_in_place(&fitting) {
                return;
            }
            self.repairs.retain(|time| now.duration_since(*time) < LONGEST_PAUSE);
            if self.repairs.len() >= MOST_REPAIRS {
                return self.give_way(now);
            }
            self.repairs.push(now);
        }
        self.apply(now);
    }

    /// Leaves the settings to another program for a while.
    fn give_way(&mut self, now: Instant) {
        let name = self.hook.as_ref().map_or("", |hook| hook.back_end().name());
        let problem = Failure::new(
            format!(
                "another program keeps undoing the settings of the host's resolver ({name}), more than {MOST_REPAIRS} times within a minute"
            ),
            "find it and have it leave the resolver alone, or start taut with --no-dns; taut tries again once a minute",
        );
        self.undo();
        self.repairs.clear();
        self.due = now + LONGEST_PAUSE;
        self.tell(Report { back_end: None, problem: Some(problem), given_way: Vec::new() });
    }

    fn undo(&mut self) {
        if let Some(mut hook) = self.hook.take() {
            hook.undo();
        }
    }

    /// Removes the routing rules of an exit node, which a daemon that crashed leaves. They change nothing any more, but the host is to be as before (fault J9).
    fn remove_exit_rules(&self) {
        if let Some(device) = &self.exit_device
            && let Ok(mut netlink) = Netlink::open()
        {
            host::remove_routing(&mut netlink, Slot::of(device));
        }
    }

    fn tell(&mut self, report: Report) {
        if self.report != report {
            let mut line = taut_json::to_vec(&report).unwrap_or_default();
            line.push(b'\n');
            // A daemon that does not read has ended, or reads later what fits into the socket's buffer: hundreds of reports.
            let _ = self.stream.write_all(&line);
            self.report = report;
        }
    }
}

/// Returns the back-end to use on a host whose programs ask this one. dnsmasq has no way to be asked for some names and to ask one server alone for all others that holds beside the settings of its
/// user, so while an exit node is asked, programs ask the forwarder instead of dnsmasq.
fn fitting_back_end(found: ResolverBackEnd, wanted: &Wanted) -> ResolverBackEnd {
    match found {
        ResolverBackEnd::Dnsmasq | ResolverBackEnd::NetworkmanagerDnsmasq if wanted.all => ResolverBackEnd::File,
        found => found,
    }
}

fn new_hook(back_end: ResolverBackEnd, forwarder: &Forwarder) -> Box<dyn Hook> {
    match back_end {
        ResolverBackEnd::SystemdResolved | ResolverBackEnd::Resolvconf => desktop::hook(back_end, forwarder),
        ResolverBackEnd::NetworkmanagerDnsmasq | ResolverBackEnd::Dnsmasq => Box::new(Dnsmasq::new(back_end)),
        ResolverBackEnd::File | ResolverBackEnd::Other => Box::new(ResolvFile::new(forwarder.clone())),
    }
}

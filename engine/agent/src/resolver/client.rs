//! The daemon's end: it starts the helper, tells it what is wanted, and reads what became of it.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use super::{MAX_MESSAGE, NamedNetwork, Order, Report, Wanted, surroundings};
use crate::api::{Failure, ResolverStatus};

/// Longest wait for the helper to put the host back when the daemon ends, 5 s: it may have to restart a resolver.
const LONGEST_END: Duration = Duration::from_secs(5);
/// Socket of a service manager that starts helpers itself, one per connection. The daemon's own service may then be confined to what packets need.
const SERVICE: &str = "/run/taut-dns-helper.sock";

/// A change of the host's resolver, for the event log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResolverEvent {
    /// This resolver asks the stub now.
    Set(&'static str),
    /// No resolver asks the stub, for this reason.
    Failed(String),
    /// The host has its own settings again.
    Restored,
}

/// The helper process, as the daemon sees it.
pub(crate) struct Resolver {
    /// The socket to the process; `None` if none runs.
    helper: Option<UnixStream>,
    /// The process, if the daemon started it itself.
    child: Option<Child>,
    /// What the helper was told: the network, and whether names without a dot are looked for in it.
    network: Option<NamedNetwork>,
    search: bool,
    report: Report,
    /// The reason why no helper runs.
    absent: Option<Failure>,
    unread: Vec<u8>,
}

impl Resolver {
    /// Starts the helper, unless the host's files are those of another network namespace.
    pub(crate) fn start(program: &Path) -> Self {
        let mut resolver = Self {
            helper: None,
            child: None,
            network: None,
            search: false,
            report: Report::default(),
            absent: None,
            unread: Vec::new(),
        };
        if surroundings::is_foreign() {
            resolver.absent = Some(Failure::new(
                "the daemon runs in a network namespace, and /etc belongs to the host outside of it",
                "run programs that need names in a mount namespace with an /etc/resolv.conf of its own, or use `taut hosts`",
            ));
            return resolver;
        }
        match connect().map(|stream| (None, stream)).or_else(|_| spawn(program)) {
            Ok((child, stream)) => (resolver.child, resolver.helper) = (child, Some(stream)),
            Err(error) => {
                resolver.absent = Some(Failure::new(
                    format!("the process that sets up the host's resolver could not be started: {error}"),
                    "restart the daemon once the host has free memory and processes",
                ));
            }
        }
        resolver
    }

    /// Returns the descriptor to wait for; `None` without a helper.
    pub(crate) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.helper.as_ref().map(AsFd::as_fd)
    }

    /// Tells the helper of the network that is up, if that changed; `search` is for names without a dot.
    pub(crate) fn set(&mut self, network: Option<NamedNetwork>, search: bool) {
        if self.network == network && self.search == search {
            return;
        }
        self.search = search;
        if let Some(stream) = &mut self.helper {
            let order: Order = network.as_ref().map(|network| Wanted::new(network, search));
            let mut line = serde_json::to_vec(&order).unwrap_or_default();
            line.push(b'\n');
            // The socket's buffer has room for several messages. A helper that does not read any more has ended, and `read` notices that.
            let _ = stream.write_all(&line);
        }
        self.network = network;
    }

    /// Reads the helper's reports; returns what changed.
    pub(crate) fn read(&mut self) -> Vec<ResolverEvent> {
        let Some(stream) = &mut self.helper else { return Vec::new() };
        let (mut buffer, mut events) = ([0; 4096], Vec::new());
        loop {
            match stream.read(&mut buffer) {
                Ok(length) if length > 0 && self.unread.len() <= MAX_MESSAGE => {
                    self.unread.extend_from_slice(buffer.get(..length).unwrap_or_default());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => {
                    events.push(self.lose());
                    return events;
                }
            }
        }
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            if let Ok(report) = serde_json::from_slice::<Report>(&line) {
                events.extend(self.take(report));
            }
        }
        events
    }

    fn take(&mut self, report: Report) -> Option<ResolverEvent> {
        let before = std::mem::replace(&mut self.report, report);
        if self.report == before {
            return None;
        }
        match (&self.report.back_end, &self.report.problem) {
            (_, Some(problem)) => Some(ResolverEvent::Failed(problem.message.clone())),
            (Some(back_end), None) => Some(ResolverEvent::Set(back_end.name())),
            (None, None) => before.back_end.map(|_| ResolverEvent::Restored),
        }
    }

    /// Notes that the helper ended although the daemon runs. It is not started again: a running daemon starts no programs.
    fn lose(&mut self) -> ResolverEvent {
        let problem = Failure::new(
            "the process that sets up the host's resolver ended; the host may still have its settings",
            "restart the daemon, which puts the host back first",
        );
        self.helper = None;
        if let Some(mut child) = self.child.take() {
            // It has ended, or closed its socket as its last act.
            let _ = child.try_wait();
        }
        let event = ResolverEvent::Failed(problem.message.clone());
        (self.report, self.absent) = (Report::default(), Some(problem));
        event
    }

    /// Returns the state for users.
    pub(crate) fn status(&self) -> ResolverStatus {
        let problem = self.report.problem.as_ref().or(self.absent.as_ref());
        ResolverStatus { by: self.report.back_end, problem: problem.cloned() }
    }

    /// Has the helper put the host back and end, and waits for it, but not for ever.
    pub(crate) fn stop(mut self) {
        let Some(stream) = self.helper.take() else { return };
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let wait = || -> io::Result<()> {
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(LONGEST_END))?;
            // The helper closes its end when it is done.
            while (&stream).read(&mut [0; 512])? > 0 {}
            Ok(())
        };
        if let Some(child) = self.child.as_mut().filter(|_| wait().is_ok()) {
            let _ = child.wait();
        }
    }
}

fn connect() -> io::Result<UnixStream> {
    let stream = UnixStream::connect(SERVICE)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

fn spawn(program: &Path) -> io::Result<(Option<Child>, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let theirs = OwnedFd::from(theirs);
    let child = Command::new(program)
        .arg(super::hook::VERB)
        .env_clear()
        .env("LANG", "C")
        .current_dir("/")
        .stdin(theirs.try_clone()?)
        .stdout(theirs)
        .spawn()?;
    Ok((Some(child), ours))
}

//! The daemon's end: it starts the helper, tells it what is wanted, and reads what became of it.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use taut_base::Time;

use super::launch::Launch;
use super::{MAX_MESSAGE, NamedNetwork, Order, Report, Wanted, surroundings};
use crate::api::{Failure, ResolverStatus};

/// Longest wait for the helper to put the host back when the daemon ends, 5 s: it may have to restart a resolver.
const LONGEST_END: Duration = Duration::from_secs(5);

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
    launch: Launch,
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
    pub(crate) fn start(program: &Path, now: Time) -> Self {
        let mut resolver = Self {
            launch: Launch::new(program),
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
        resolver.launch(now);
        resolver
    }

    fn launch(&mut self, now: Time) {
        match self.launch.start(now) {
            Ok((child, stream)) => (self.child, self.helper, self.absent) = (child, Some(stream), None),
            Err(error) => {
                self.absent = Some(Failure::new(
                    format!("the process that sets up the host's resolver could not be started: {error}"),
                    "taut tries again automatically; it needs free memory and processes of the host, or the socket of taut-dns.socket",
                ));
            }
        }
    }

    /// Returns the time at which a helper that ended is started again.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.launch.due
    }

    /// Starts a helper again if it is time; returns true if there is a new one, with a descriptor to wait for. The new one first removes what the former one left.
    pub(crate) fn turn(&mut self, now: Time) -> bool {
        if self.launch.due.is_none_or(|due| now < due) {
            return false;
        }
        self.launch(now);
        self.tell();
        self.helper.is_some()
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
        (self.network, self.search) = (network, search);
        self.tell();
    }

    fn tell(&mut self) {
        if let Some(stream) = &mut self.helper {
            let order: Order = self.network.as_ref().map(|network| Wanted::new(network, self.search));
            let mut line = taut_json::to_vec(&order).unwrap_or_default();
            line.push(b'\n');
            // After a part of a message the helper would understand none: without it, `read` finds the connection closed and the daemon gets another helper.
            if stream.write_all(&line).is_err() {
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
        }
    }

    /// Reads the helper's reports; returns what changed.
    pub(crate) fn read(&mut self, now: Time) -> Vec<ResolverEvent> {
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
                    events.push(self.lose(now));
                    return events;
                }
            }
        }
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            if let Ok(report) = taut_json::from_slice::<Report>(&line) {
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

    /// Notes that the helper ended although the daemon runs. The host may still have its settings, which lead nowhere now, so it is soon started again.
    fn lose(&mut self, now: Time) -> ResolverEvent {
        let problem = Failure::new(
            "the process that sets up the host's resolver ended; the host may still have its settings",
            "taut starts it again automatically, which puts the host back first",
        );
        self.helper = None;
        self.unread.clear();
        if let Some(mut child) = self.child.take() {
            // It has ended, or nothing that it says can be read.
            let _ = child.kill();
            let _ = child.wait();
        }
        self.launch.retry(now);
        let event = ResolverEvent::Failed(problem.message.clone());
        (self.report, self.absent) = (Report::default(), Some(problem));
        event
    }

    /// Returns the state for users.
    pub(crate) fn status(&self) -> ResolverStatus {
        let problem = self.report.problem.as_ref().or(self.absent.as_ref());
        ResolverStatus { by: self.report.back_end, problem: problem.cloned() }
    }

    /// Returns the operator's domains that give way to search domains of the host.
    pub(crate) fn given_way(&self) -> &[String] {
        &self.report.given_way
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
        // It may be a child of another process, or of none.
        let has_ended = wait().is_ok();
        if let Some(child) = self.child.as_mut().filter(|_| has_ended) {
            let _ = child.wait();
        }
    }
}

//! What the service manager learns: that users are answered, what this node does, and that the agent is not stuck.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use taut_base::Time;
use taut_event::ServiceManager;

use super::Daemon;
use crate::api::NodeState;

/// Time after which a sign of life is sent again for which the manager had no room, 1 s.
const AGAIN: Duration = Duration::from_secs(1);

/// What the status line depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shown {
    state: NodeState,
    is_connected: bool,
    has_problem: bool,
}

/// The messages to the service manager. All of them are sent in a turn of the agent: a watchdog that another thread fed would not notice that the agent is stuck.
#[derive(Default)]
pub(super) struct Service {
    /// `None` if the daemon runs under no service manager, or its manager is gone.
    manager: Option<Arc<ServiceManager>>,
    /// What the status line said last.
    shown: Option<Shown>,
    /// Time of the next sign of life.
    due: Option<Time>,
}

impl Service {
    pub(super) fn new(manager: Option<Arc<ServiceManager>>) -> Self {
        Self { manager, shown: None, due: None }
    }

    /// Returns the time of the next sign of life.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.due
    }

    /// Sends a message. Returns true if it need not be sent again.
    fn tell(&mut self, message: &str) -> bool {
        match self.manager.as_ref().map(|manager| manager.tell(message)) {
            // Its socket is gone. Any other error, such as one for want of memory, may pass.
            Some(Err(error)) if !matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotConnected) => {
                false
            }
            Some(Err(_)) => {
                (self.manager, self.due) = (None, None);
                true
            }
            _ => true,
        }
    }
}

impl Daemon {
    /// Tells the service manager what changed, at the end of a turn: the first time also that the daemon is ready.
    pub(super) fn turn_service(&mut self, now: Time) {
        let Some(manager) = &self.service.manager else { return };
        let watchdog = manager.watchdog();
        let shown = Shown {
            state: self.state(),
            is_connected: self.coordinator.connected,
            has_problem: self.problems.network.is_some(),
        };
        if self.service.shown != Some(shown) {
            let ready = if self.service.shown.is_none() { "READY=1\n" } else { "" };
            let message = format!("{ready}STATUS={}", self.status_line());
            // A message that the manager has no room for is sent in the next turn, which the watchdog's time or any event begins.
            if self.service.tell(&message) {
                self.service.shown = Some(shown);
            }
        }
        if let Some(interval) = watchdog
            && self.service.due.is_none_or(|due| due <= now)
        {
            // A message that the manager has no room for is sent again soon: the next one would come when its patience ends.
            let is_told = self.service.tell("WATCHDOG=1");
            self.service.due = self.service.manager.as_ref().map(|_| now + if is_told { interval } else { AGAIN });
        }
    }

    /// Tells the service manager that the daemon ends.
    pub(super) fn end_service(&mut self) {
        self.service.tell("STOPPING=1\nSTATUS=stops");
    }

    /// Returns what this node does, in one line.
    fn status_line(&self) -> String {
        let name = self.member.map.as_ref().map_or("", |map| map.network.name.as_str());
        if let Some(problem) = &self.problems.network {
            // A message may have several lines, and each line of the datagram is a variable.
            return problem.message.lines().next().unwrap_or_default().to_string();
        }
        match self.state() {
            NodeState::NeedsJoin => String::from("no network; `taut up --join TOKEN` joins one"),
            NodeState::Stopped => String::from("disconnected; `taut up` connects"),
            NodeState::Connecting => String::from("connects"),
            NodeState::Running if self.coordinator.connected => format!("connected to {name}"),
            NodeState::Running => format!("connected to {name}; the coordinator is not reached"),
        }
    }
}

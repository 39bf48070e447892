//! Giving up the membership: the decision on disk, the message to the coordinator, the removal of the keys.
//!
//! ```text
//! Command::Leave ─▶ decision saved ─▶ ControlEvent::Leaving ─▶ `leave` sent on a channel ─▶ answer, or 10 s timeout ─▶ keys removed ─▶ ControlEvent::Left
//! ```
//! The decision comes first: if the program ends after it, the next start removes the remaining files and is not a member. The keys are removed last, because
//! the channel needs them.

use std::time::Duration;

use taut_base::Time;
use taut_netmap::{ProblemCode, ToCoordinator, ToNode};

use super::Worker;
use super::connection::Connection;
use crate::event::{ControlEvent, Left};

/// Longest wait for the coordinator's answer, 10 s: a channel opens within a second, and a user waits for the command to end.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);

/// A membership that is being given up.
pub(super) struct Leaving {
    /// End of the wait for the coordinator.
    pub(super) until: Time,
    /// Why the coordinator has not answered so far.
    pub(super) why: String,
}

impl Worker {
    /// Begins to leave.
    pub(super) fn leave(&mut self, now: Time) {
        let Some(membership) = &self.membership else {
            self.emit(ControlEvent::NeedsJoin);
            return;
        };
        if self.leaving.is_some() {
            return;
        }
        if let Err(error) = self.store.begin_leave() {
            let text = self.store.explain(&error);
            self.emit(ControlEvent::NotLeft(text));
            return;
        }
        self.emit(ControlEvent::Leaving);
        let why = format!("it did not answer within {} s", LEAVE_TIMEOUT.as_secs());
        self.leaving = Some(Leaving { until: now + LEAVE_TIMEOUT, why });
        if !membership.may_be_listed() {
            self.finish_leave(None);
            return;
        }
        match &self.connection {
            Connection::Open(_) => self.send_leave(now),
            Connection::Dialing { .. } => {}
            Connection::Idle | Connection::Resting { .. } => self.start_over(),
        }
    }

    /// Sends `leave` and a ping on the open channel. A coordinator that knows `leave` closes the channel without answering the ping. An answered ping therefore
    /// shows that the coordinator does not know `leave`.
    pub(super) fn send_leave(&mut self, now: Time) {
        self.send(&ToCoordinator::Leave, now);
        self.ping(now);
    }

    /// Handles a message of the coordinator while this node leaves.
    pub(super) fn handle_while_leaving(&mut self, message: &ToNode) {
        match message {
            ToNode::Refused(problem) if self.means_not_listed(problem.code) => self.finish_leave(None),
            ToNode::Refused(problem) => self.finish_leave(Some(problem.to_string())),
            ToNode::Pong if self.connection.is_answered() => {
                self.finish_leave(Some(String::from("its version does not know how a node leaves")));
            }
            _ => {}
        }
    }

    /// Returns true if a refusal with `code` means that the coordinator does not list this node: it was removed, or was never enrolled.
    fn means_not_listed(&self, code: ProblemCode) -> bool {
        let is_member = self.membership.as_ref().is_some_and(|membership| membership.accepted);
        code == ProblemCode::NotAMember || (code.is_final() && !is_member)
    }

    /// Notes why the coordinator was not reached.
    pub(super) fn note_while_leaving(&mut self, why: &str) {
        if let Some(leaving) = &mut self.leaving {
            leaving.why = String::from(why);
        }
    }

    /// Removes the keys, and reports the outcome. `listed`: why the coordinator may still list this node.
    pub(super) fn finish_leave(&mut self, listed: Option<String>) {
        if self.leaving.take().is_none() {
            return;
        }
        self.drop_connection();
        let removed = self.store.finish_leave();
        let leftover = removed.err().map(|error| {
            let path = self.store.path().display();
            format!("the keys in {path} cannot be removed: {error}; remove the directory by hand")
        });
        (self.membership, self.map, self.coordinator_addresses) = (None, None, Vec::new());
        (self.endpoints, self.relays, self.routes) = (None, None, None);
        self.emit(ControlEvent::Left(Left { listed, leftover }));
    }

    /// Stops waiting for the coordinator, because the program ends or the node joins again.
    pub(super) fn stop_leaving(&mut self) {
        if let Some(leaving) = &self.leaving {
            let why = leaving.why.clone();
            self.finish_leave(Some(why));
        }
    }
}

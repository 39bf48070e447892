//! Giving up the membership, as local users see it. The control thread does it (`taut_control`, `Command::Leave`).

use std::time::Duration;

use taut_control::{Command, Left};

use super::Daemon;
use crate::api::{LeaveState, LeaveStatus, Response};
use crate::error::failure;
use crate::log::{Value, kind};

impl Daemon {
    /// Returns true while the membership is being given up.
    pub(super) fn is_leaving(&self) -> bool {
        self.leave.as_ref().is_some_and(|leave| leave.state == LeaveState::Leaving)
    }

    /// Carries out a user's request to leave. A node that the coordinator has removed may leave, too: its keys are still there.
    pub(super) fn leave(&mut self) -> Response {
        if !self.is_member {
            let hint = "there is nothing to leave; join a network with `taut up --join TOKEN`";
            return Response::Failed(failure("this node is not a member of any network", hint));
        }
        if !self.is_leaving() {
            let map = self.map.as_deref();
            self.leave = Some(LeaveStatus {
                state: LeaveState::Leaving,
                network: map.map(|map| map.network.name.clone()),
                name: map.map(|map| map.me.name.clone()),
                listed: None,
                problem: None,
            });
            self.tell(Command::Leave);
        }
        Response::Done
    }

    /// Ends the overlay, because the decision to leave is on the disk.
    pub(super) fn handle_leaving(&mut self) {
        self.note_coordinator(&kind::LEAVE_BEGAN, &[]);
        self.stop_overlay("leave");
        if let Some(identity) = &mut self.identity {
            identity.wanted = false;
        }
    }

    /// Forgets the membership, and keeps the outcome for users.
    pub(super) fn handle_left(&mut self, left: Left) {
        self.note_left(&left);
        self.stop_overlay("leave");
        (self.identity, self.map, self.ticket, self.presence) = (None, None, None, None);
        (self.is_member, self.connected, self.stamps) = (false, false, Duration::ZERO);
        (self.problem, self.twin, self.disk, self.last_error) = (None, None, None, None);
        self.recent.clear();
        let url = std::mem::take(&mut self.url);
        let Some(leave) = &mut self.leave else { return };
        (leave.state, leave.listed) = (LeaveState::Left, Some(left.listed.is_some()));
        let listed = left.listed.map(|why| {
            let message = format!("the coordinator at {url} may still list this node: {why}");
            // Several networks of a coordinator may have a node of that name.
            let network = leave.network.as_ref().map_or_else(String::new, |network| format!(" --network {network}"));
            let hint = match &leave.name {
                Some(name) => format!("remove it there: `taut-coordinator nodes remove {name}{network}`"),
                // It asked for a name; which one it was given is not known, and that one may be another node's.
                None => format!(
                    "look for it there with `taut-coordinator nodes list`, and remove it: `taut-coordinator nodes remove NAME{network}`"
                ),
            };
            failure(message, &hint)
        });
        let leftover = left.leftover.map(|what| failure(what, "until then a start of the daemon tries it again"));
        leave.problem = leftover.or(listed);
    }

    /// Notes that the node is a member as before.
    pub(super) fn handle_not_left(&mut self, why: &str) {
        self.note_coordinator(&kind::LEAVE_FAILED, &[Value::text(why)]);
        if let Some(leave) = &mut self.leave {
            leave.state = LeaveState::Failed;
            leave.problem = Some(failure(why, "the node is a member as before"));
        }
    }
}

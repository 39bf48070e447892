//! Ending the membership, as local users see it. The control thread carries it out (`taut_control`, `Command::Leave`).

use taut_control::{Command, Left};

use super::Daemon;
use super::state::{CoordinatorState, MembershipState, Problems};
use crate::api::{ApiResponse, Failure, LeaveState, LeaveStatus};
use crate::basics::clocks;
use crate::log::{Value, kind};

impl Daemon {
    /// Returns true while the membership is being ended.
    pub(super) fn is_leaving(&self) -> bool {
        self.leave.as_ref().is_some_and(|leave| leave.state == LeaveState::Leaving)
    }

    /// Carries out a user's request to leave. A node that the coordinator has removed may leave, too: its keys still exist.
    pub(super) fn leave(&mut self) -> ApiResponse {
        if !self.member.exists {
            let hint = "there is nothing to leave; join a network with `taut up --join TOKEN`";
            return ApiResponse::Failed(Failure::new("this node is not a member of any network", hint));
        }
        if !self.is_leaving() {
            let map = self.member.map.as_deref();
            self.leave = Some(LeaveStatus {
                state: LeaveState::Leaving,
                network: map.map(|map| map.network.name.clone()),
                name: map.map(|map| map.me.name.clone()),
                listed: None,
                problem: None,
            });
            self.tell(Command::Leave);
        }
        ApiResponse::Done
    }

    /// Stops the overlay, because the decision to leave is stored on the disk.
    pub(super) fn handle_leaving(&mut self) {
        self.note_coordinator(&kind::LEAVE_BEGAN, &[]);
        self.stop_overlay("leave");
        if let Some(identity) = &mut self.member.identity {
            identity.wanted = false;
        }
    }

    /// Forgets the membership, and stores the outcome for users.
    pub(super) fn handle_left(&mut self, left: Left) {
        self.note_left(&left);
        self.stop_overlay("leave");
        self.member = MembershipState { numbered: self.member.numbered.take(), ..MembershipState::default() };
        self.problems = Problems::default();
        self.end_exit(clocks().now);
        let url = std::mem::take(&mut self.coordinator.url);
        let other_prefixes = self.coordinator.other_prefixes.take();
        self.coordinator = CoordinatorState { other_prefixes, ..CoordinatorState::default() };
        let Some(leave) = &mut self.leave else { return };
        (leave.state, leave.listed) = (LeaveState::Left, Some(left.listed.is_some()));
        let listed = left.listed.map(|why| {
            let message = format!("the coordinator at {url} may still list this node: {why}");
            // Several networks of a coordinator may have a node with this name.
            let network = leave.network.as_ref().map_or_else(String::new, |network| format!(" --network {network}"));
            let hint = match &leave.name {
                Some(name) => format!("remove it there: `taut-coordinator nodes remove {name}{network}`"),
                // The name that the coordinator gave it is unknown, and the requested name may belong to another node.
                None => format!(
                    "look for it there with `taut-coordinator nodes list`, and remove it: `taut-coordinator nodes remove NAME{network}`"
                ),
            };
            Failure::new(message, &hint)
        });
        let leftover = left.leftover.map(|what| Failure::new(what, "the next start of the daemon tries it again"));
        leave.problem = leftover.or(listed);
    }

    /// Notes that leaving failed: the node is still a member.
    pub(super) fn handle_not_left(&mut self, why: &str) {
        self.note_coordinator(&kind::LEAVE_FAILED, &[Value::text(why)]);
        if let Some(leave) = &mut self.leave {
            leave.state = LeaveState::Failed;
            leave.problem = Some(Failure::new(why, "the node is still a member; run `taut leave` again"));
        }
    }
}

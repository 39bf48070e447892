//! Events of the control thread: the identity of this node, the network map, and problems.

use std::time::Duration;

use taut_base::format_time;
use taut_control::{ControlEvent, MemberIdentity};
use taut_netmap::{Problem, ProblemCode};
use taut_relay::Ticket;

use super::Daemon;
use crate::api::Failure;
use crate::basics::clocks;
use crate::log::{self, Value, kind};

impl Daemon {
    /// Takes an event of the control thread.
    pub(super) fn handle_control(&mut self, event: ControlEvent) {
        match event {
            ControlEvent::NeedsJoin => (self.member.identity, self.member.exists) = (None, false),
            ControlEvent::Identity(identity) => self.set_identity(*identity),
            ControlEvent::Leaving => self.handle_leaving(),
            ControlEvent::Left(left) => self.handle_left(left),
            ControlEvent::NotLeft(why) => self.handle_not_left(&why),
            ControlEvent::Recent(peers) => self.member.recent = peers,
            ControlEvent::Stamps(ceiling) => self.member.stamps = ceiling,
            ControlEvent::Ticket { ticket, numbered, expires } => {
                let expires = format_time(Duration::from_secs(expires));
                self.note_coordinator(&kind::TICKET_RENEWED, &[Value::Text(expires)]);
                self.set_ticket(&ticket, numbered.as_deref());
            }
            ControlEvent::Map(map) => {
                log::note_map(&mut self.log, self.member.map.as_deref(), &map, clocks());
                self.member.map = Some(map);
                self.apply_map();
            }
            ControlEvent::OtherPrefixes(other) => {
                self.note_prefixes(other.as_ref());
                self.coordinator.other_prefixes = other;
            }
            ControlEvent::Presence { whole, nodes } => {
                if !whole {
                    self.note_presence(&nodes);
                }
                let presence = self.coordinator.presence.get_or_insert_default();
                if whole {
                    presence.clear();
                }
                presence.extend(nodes);
            }
            ControlEvent::Connected { url } => {
                let away = self.coordinator.lost.take().map(|lost| Value::s(clocks().now.since(lost)));
                self.note_coordinator(&kind::COORDINATOR_CONNECTED, &[Value::text(&url), away.unwrap_or(Value::None)]);
                (self.coordinator.connected, self.coordinator.url) = (true, url);
                (self.coordinator.last_error, self.coordinator.retry_at) = (None, None);
                (self.problems.network, self.problems.duplicate) = (None, None);
            }
            ControlEvent::Disconnected { why, retry_in } => {
                self.note_disconnected(&why, retry_in);
                if self.coordinator.connected {
                    self.coordinator.lost = Some(clocks().now);
                }
                self.coordinator.connected = false;
                self.coordinator.retry_at = Some(clocks().now + retry_in);
                self.coordinator.presence = None;
                self.coordinator.last_error = Some(why);
            }
            ControlEvent::Twin(problem) => {
                let duplicate = problem.map(|problem| Failure { message: problem.message, hint: problem.hint });
                self.note_twin(duplicate.as_ref());
                self.problems.duplicate = duplicate;
            }
            ControlEvent::Refused(problem) => self.handle_refusal(problem),
            ControlEvent::DiskProblem(message) => {
                let problem = Failure::new(
                    message,
                    "the node runs on, but forgets this at a restart; `taut log` shows when the state is saved again",
                );
                self.note_disk(&problem);
                self.problems.disk = Some((problem, clocks().now));
            }
            ControlEvent::DiskWorks => {
                self.note(&kind::STATE_SAVED, &[]);
                self.problems.disk = None;
            }
            ControlEvent::Log(news) => self.note_log_disk(news),
        }
    }

    fn set_identity(&mut self, identity: MemberIdentity) {
        self.note_identity(&identity);
        let same = self
            .member
            .identity
            .as_ref()
            .is_some_and(|old| old.node_key == identity.node_key && old.network == identity.network);
        if !same {
            self.stop_overlay("other-membership");
            (self.member.map, self.member.ticket) = (None, None);
            self.coordinator.other_prefixes = None;
        }
        self.coordinator.url.clone_from(&identity.url);
        (self.member.exists, self.leave) = (true, None);
        self.member.identity = Some(identity);
        (self.problems.network, self.problems.duplicate) = (None, None);
        self.apply_map();
    }

    /// Takes a relay ticket. Tickets of an unknown version are ignored: relays would refuse them, and the next ticket may have a known version.
    fn set_ticket(&mut self, bytes: &[u8], numbered: Option<&[u8]>) {
        let Ok(ticket) = Ticket::from_bytes(bytes) else { return };
        self.member.ticket = Some(ticket);
        self.member.numbered = numbered.and_then(|bytes| Ticket::from_bytes(bytes).ok());
        let credentials = self.member.credentials();
        if let (Some(overlay), Some(credentials)) = (&mut self.overlay, credentials) {
            overlay.set_ticket(credentials, clocks());
        }
    }

    /// Takes a refusal of the coordinator. If this node is not a member any more, its overlay is stopped, because its peers have removed it.
    fn handle_refusal(&mut self, problem: Problem) {
        let values = [Value::text(&problem.message), Value::text(&problem.hint)];
        self.note_coordinator(&kind::COORDINATOR_REFUSED, &values);
        if problem.code.is_final() {
            (self.coordinator.connected, self.coordinator.retry_at) = (false, None);
            self.coordinator.last_error = Some(problem.to_string());
        }
        if problem.code == ProblemCode::NotAMember {
            self.stop_overlay("not-a-member");
            (self.member.map, self.member.identity, self.member.ticket) = (None, None, None);
            self.coordinator.other_prefixes = None;
        }
        self.problems.network = Some(Failure { message: problem.message, hint: problem.hint });
    }
}

//! What the control thread says: who this node is, what the network looks like, what stands in the way.

use std::time::Duration;

use taut_control::{Event, Identity};
use taut_netmap::{Problem, ProblemCode};
use taut_relay::Ticket;

use super::{Daemon, clocks};
use crate::api::Failure;
use crate::error::failure;
use crate::log::{self, Value, format_time, kind};

impl Daemon {
    pub(super) fn handle_control(&mut self, event: Event) {
        match event {
            Event::NeedsJoin => (self.identity, self.is_member) = (None, false),
            Event::Identity(identity) => self.set_identity(*identity),
            Event::Leaving => self.handle_leaving(),
            Event::Left(left) => self.handle_left(left),
            Event::NotLeft(why) => self.handle_not_left(&why),
            Event::Recent(peers) => self.recent = peers,
            Event::Stamps(ceiling) => self.stamps = ceiling,
            Event::Ticket { ticket, numbered, expires } => {
                let expires = format_time(Duration::from_secs(expires));
                self.note_coordinator(&kind::TICKET_RENEWED, &[Value::Text(expires)]);
                self.set_ticket(&ticket, numbered.as_deref());
            }
            Event::Map(map) => {
                log::note_map(&mut self.log, self.map.as_deref(), &map, clocks());
                self.map = Some(map);
                self.apply_map();
            }
            Event::OtherPrefixes(other) => {
                self.note_prefixes(other.as_ref());
                self.other_prefixes = other;
            }
            Event::Presence { whole, nodes } => {
                if !whole {
                    self.note_presence(&nodes);
                }
                let presence = self.presence.get_or_insert_default();
                if whole {
                    presence.clear();
                }
                presence.extend(nodes);
            }
            Event::Connected { url } => {
                self.note_coordinator(&kind::COORDINATOR_CONNECTED, &[Value::text(&url)]);
                (self.connected, self.url) = (true, url);
                (self.last_error, self.problem, self.twin) = (None, None, None);
            }
            Event::Disconnected { why, retry_in } => {
                self.note_disconnected(&why, retry_in);
                self.connected = false;
                self.presence = None;
                self.last_error = Some(why);
            }
            Event::Twin(problem) => {
                let twin = problem.map(|problem| Failure { message: problem.message, hint: problem.hint });
                self.note_twin(twin.as_ref());
                self.twin = twin;
            }
            Event::Refused(problem) => self.handle_refusal(problem),
            Event::DiskProblem(message) => {
                let problem = failure(message, "the node runs on, but would not remember this after a restart");
                self.note_disk(&problem);
                self.disk = Some((problem, clocks().now));
            }
            Event::Log(news) => self.note_log_disk(news),
        }
    }

    fn set_identity(&mut self, identity: Identity) {
        self.note_identity(&identity);
        let same = self
            .identity
            .as_ref()
            .is_some_and(|old| old.node_key == identity.node_key && old.network == identity.network);
        if !same {
            self.stop_overlay("other-membership");
            (self.map, self.ticket) = (None, None);
            self.other_prefixes = None;
        }
        self.url.clone_from(&identity.url);
        (self.is_member, self.leave) = (true, None);
        self.identity = Some(identity);
        (self.problem, self.twin) = (None, None);
        self.apply_map();
    }

    /// Leave to use relays. One of a version that we do not know is none: relays would refuse it, and the next one may be for us.
    fn set_ticket(&mut self, bytes: &[u8], numbered: Option<&[u8]>) {
        let Ok(ticket) = Ticket::from_bytes(bytes) else { return };
        self.ticket = Some(ticket);
        self.numbered = numbered.and_then(|bytes| Ticket::from_bytes(bytes).ok());
        let credentials = self.credentials();
        if let (Some(overlay), Some(credentials)) = (&mut self.overlay, credentials) {
            overlay.set_ticket(credentials, clocks());
        }
    }

    /// The coordinator said no. If this node is no member any more, its peers have dropped it: what is left is a device that leads nowhere.
    fn handle_refusal(&mut self, problem: Problem) {
        let values = [Value::text(&problem.message), Value::text(&problem.hint)];
        self.note_coordinator(&kind::COORDINATOR_REFUSED, &values);
        if problem.code.is_final() {
            self.connected = false;
            self.last_error = Some(problem.to_string());
        }
        if problem.code == ProblemCode::NotAMember {
            self.stop_overlay("not-a-member");
            (self.map, self.identity, self.ticket) = (None, None, None);
            self.other_prefixes = None;
        }
        self.problem = Some(Failure { message: problem.message, hint: problem.hint });
    }
}

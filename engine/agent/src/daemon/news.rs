//! Events of the control thread: the identity of this node, the network map, and problems.

use std::io::ErrorKind;
use std::time::Duration;

use taut_base::{MAX_PEERS, NodeId, SortedMap, format_time};
use taut_control::{ControlEvent, MemberIdentity};
use taut_netmap::{Problem, ProblemCode, Waiting};
use taut_relay::Ticket;

use super::Daemon;
use super::state::literal_address;
use crate::api::Failure;
use crate::basics::clocks;
use crate::log::{self, Value, kind};

/// Time before the end of the membership from which this node warns, 7 days: a person who is away over a weekend still sees it in time.
pub(super) const EXPIRES_SOON: Duration = Duration::from_secs(7 * 86_400);

/// Time between two scheduled attempts to rotate the key, 6 h: as often as the coordinator allows it.
const ROTATE_AGAIN: Duration = Duration::from_secs(6 * 3600);

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
            ControlEvent::SettingsSaved => self.settings_unsaved = false,
            ControlEvent::Stamps(ceiling) => self.member.stamps = ceiling,
            ControlEvent::Ticket { ticket, numbered, expires } => {
                let expires = format_time(Duration::from_secs(expires));
                self.note_coordinator(&kind::TICKET_RENEWED, &[Value::Text(expires)]);
                self.set_ticket(&ticket, numbered.as_deref());
            }
            ControlEvent::Map(map) => {
                log::note_map(&mut self.log, self.member.map.as_deref(), &map, clocks());
                self.forget_servers(&map);
                self.member.map = Some(map);
                self.apply_map();
                self.served.is_current = false;
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
                add_presence(presence, nodes);
            }
            ControlEvent::Connected { url, addresses } => {
                let away = self.coordinator.lost.take().map(|lost| Value::s(clocks().now.since(lost)));
                self.note_coordinator(&kind::COORDINATOR_CONNECTED, &[Value::text(&url), away.unwrap_or(Value::None)]);
                (self.coordinator.connected, self.coordinator.url) = (true, url);
                self.coordinator.addresses = addresses;
                if let (Some(overlay), Some(map)) = (&mut self.overlay, &self.member.map) {
                    overlay.set_coordinator(&self.coordinator.addresses, map, clocks());
                }
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
            ControlEvent::Waiting(waiting) => self.handle_waiting(waiting),
            ControlEvent::Expiry(left) => self.handle_expiry(left),
            ControlEvent::Decision(decision) => self.questions.take(decision, clocks().now),
            ControlEvent::Refused(problem) => self.handle_refusal(problem),
            ControlEvent::DiskProblem(message) => self.handle_disk_problem(
                message,
                "the node runs on, but forgets this at a restart; `taut log` shows when the state is saved again",
            ),
            ControlEvent::NotSaved { message, kind } => self.handle_disk_problem(message, repair(kind)),
            ControlEvent::DiskWorks => {
                self.note(&kind::STATE_SAVED, &[]);
                self.problems.disk = None;
            }
            ControlEvent::Log(news) => self.note_log_disk(news),
        }
    }

    fn handle_disk_problem(&mut self, message: String, hint: &str) {
        let problem = Failure::new(message, hint);
        self.note_disk(&problem);
        self.problems.disk = Some((problem, clocks().now));
    }

    fn set_identity(&mut self, identity: MemberIdentity) {
        self.note_identity(&identity);
        let former = self.member.identity.as_ref().filter(|old| old.network == identity.network);
        let is_same_machine = former.is_some_and(|old| old.machine == identity.machine);
        let is_rotated = former.is_some_and(|old| old.node_key != identity.node_key);
        if is_same_machine && is_rotated {
            // Sessions go on. The node's relay ticket was signed for the former key; the coordinator sends a new ticket after the map.
            if let Some(overlay) = &mut self.overlay {
                overlay.rotate_key(&identity.node_key, clocks());
            }
            self.note_coordinator(&kind::KEY_ROTATED, &[]);
        }
        if !is_same_machine {
            self.stop_overlay("other-membership");
            (self.member.map, self.member.ticket) = (None, None);
            (self.coordinator.waiting, self.coordinator.expires) = (None, None);
            self.coordinator.other_prefixes = None;
            self.coordinator.addresses.clear();
        }
        self.coordinator.url.clone_from(&identity.url);
        if self.coordinator.addresses.is_empty() {
            self.coordinator.addresses.extend(literal_address(&identity.url));
        }
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

    /// Rotates the key if it is old enough. Without a correct wall clock nothing is known of its age, and it is not rotated.
    pub(super) fn rotate_old_key(&mut self) {
        let (Some(every), Some(identity)) = (self.config.rotate_key_every, &self.member.identity) else { return };
        let now = clocks();
        let is_recent = self.coordinator.rotated_at.is_some_and(|last| now.now.since(last) < ROTATE_AGAIN);
        let age = now.wall.as_secs().checked_sub(identity.key_made_at).filter(|_| identity.key_made_at > 0);
        let takes_part = self.coordinator.connected && self.coordinator.waiting.is_none() && self.overlay.is_some();
        if takes_part && !is_recent && age.is_some_and(|age| age >= every.as_secs()) {
            self.coordinator.rotated_at = Some(now.now);
            self.tell(taut_control::Command::RotateKey);
        }
    }

    fn handle_waiting(&mut self, waiting: Option<Waiting>) {
        let former = self.coordinator.waiting.take();
        match &waiting {
            Some(new) if former.as_ref().is_none_or(|(former, _)| former.reason != new.reason) => {
                self.note_coordinator(&kind::WAITING, &[Value::text(&new.message), Value::text(&new.hint)]);
            }
            None if former.is_some() => self.note_coordinator(&kind::WAITING_ENDED, &[]),
            _ => {}
        }
        let end = |waiting: &Waiting| Some(clocks().now + Duration::from_secs(waiting.expires_in?));
        self.coordinator.waiting = waiting.map(|waiting| (waiting.clone(), end(&waiting)));
    }

    /// Takes the time until the membership expires, by the coordinator's clock. This host's wall clock plays no role.
    fn handle_expiry(&mut self, left: Option<Duration>) {
        self.coordinator.expires = left.map(|left| clocks().now + left);
        let is_soon = left.is_some_and(|left| left <= EXPIRES_SOON);
        if is_soon && !self.coordinator.expiry_told {
            let days = left.map_or(0, |left| left.as_secs() / 86_400);
            self.note_coordinator(&kind::EXPIRES_SOON, &[Value::Number(days)]);
        }
        self.coordinator.expiry_told = is_soon;
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
        (self.coordinator.waiting, self.coordinator.expires) = (None, None);
        self.problems.network = Some(Failure { message: problem.message, hint: problem.hint });
    }
}

/// Returns what to do about a disk that refused what a command needs.
fn repair(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "make room on that disk (`df` shows it), and run the command again"
        }
        _ => "repair the disk, or make it writable, and run the command again",
    }
}

/// Notes which members are online: of as many as a map has at most, because a coordinator could name others without end.
fn add_presence(presence: &mut SortedMap<NodeId, bool>, nodes: Vec<(NodeId, bool)>) {
    for (id, is_online) in nodes {
        if presence.len() < MAX_PEERS || presence.contains_key(&id) {
            presence.insert(id, is_online);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_disk_needs_room() {
        for kind in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded] {
            assert!(repair(kind).contains("`df`"), "{kind}");
        }
        for kind in [ErrorKind::ReadOnlyFilesystem, ErrorKind::PermissionDenied, ErrorKind::Other] {
            assert!(repair(kind).starts_with("repair the disk"), "{kind}");
        }
    }

    #[test]
    fn fault_e17_presence_is_kept_of_as_many_members_as_a_map_has() {
        let mut presence = SortedMap::default();
        let count = MAX_PEERS as u64;
        add_presence(&mut presence, (0..count + 10).map(|id| (NodeId(id), true)).collect());
        add_presence(&mut presence, vec![(NodeId(7), false), (NodeId(count + 1), true)]);
        assert_eq!(presence.len(), MAX_PEERS);
        assert_eq!((presence.get(&NodeId(7)), presence.get(&NodeId(count + 1))), (Some(&false), None));
    }
}

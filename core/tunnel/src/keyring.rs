//! The sessions of one peer on one lane, and the timers of its data (paper, sections 6.1 to 6.5).
//!
//! A keyring holds at most three usable sessions: *current* seals; *next* was made as responder and the peer has not used it yet; *previous* still opens
//! packets in flight. *Former* does so too, while there are two newer ones at once. A keyring never makes a handshake; it asks for one.
//!
//! ```text
//! as initiator, response came:     previous ◀─ next or current      current ◀─ new
//! as responder, response sent:     previous ◀─ nothing              next ◀─ new      (former ◀─ previous, if it crossed with current: the peer may use either)
//! a packet opens with next:        previous ◀─ current              current ◀─ next
//! handshakes crossed (one in each direction, within 5 s), and a packet opens with previous or former: that session and current swap, if its name is smaller
//! response came, next is occupied: former ◀─ current, until the next new session; likewise previous, if it crossed with the new one or with current
//! ```
//!
//! Only the first lane runs session timers. An extra lane ([`Keyring::for_extra_lane`]) sends no keepalives, and if it hears nothing it is abandoned for the
//! first lane instead of renewing the session. Confirming a session on one lane confirms it on all, and so does the choice between two crossed sessions
//! ([`Keyring::confirm`]): on a lane with packets in one direction only, the sender would never learn of it.
//!
//! On an extra lane *previous* keeps sealing until the peer has told its lanes in *current*. A restarted peer may have other lanes at the same ports, and
//! packets on such a lane would be overtaken when the lanes close.

use std::fmt;
use std::time::Duration;

use taut_base::{ReceiverIndex, SessionId, Time};
use taut_wire::control::ControlMessage;

use crate::limits::Limits;
use crate::pair::Pair;
use crate::role::Role;
use crate::session::{Session, SessionIndices};

/// Shortest interval between two requests for a handshake, 1 s. The agent has its own schedule of retransmissions.
const REQUEST_INTERVAL: Duration = Duration::from_secs(1);

/// Delay of a receipt after received data, 20 ms, or half a round trip if that is longer (protocol.md 5.3).
const RECEIPT_AFTER: Duration = Duration::from_millis(20);

/// Time without a receipt, besides two round trips, after which an extra lane counts as broken, 1 s: far more than the delays of a busy host, and short
/// enough for connections to survive on the first lane.
const EXTRA_LANE_TIMEOUT: Duration = Duration::from_secs(1);

/// Two handshakes in opposite directions that end within this time have crossed, 5 s: after it an initiation is retransmitted (paper, section 6.1,
/// `Rekey-Timeout`).
pub const CROSSING: Duration = Duration::from_secs(5);

/// The sessions of one peer on one lane.
#[derive(Default)]
pub struct Keyring {
    // Boxed: a session takes two kilobytes, and most peers of a large network have none.
    previous: Option<Box<Session>>,
    current: Option<Box<Session>>,
    next: Option<Box<Session>>,
    /// A session that the peer may still use although there are two newer ones: the `current` before crossed handshakes, or a session made as responder.
    former: Option<Box<Session>>,
    /// Removed sessions that the caller has not taken yet.
    retired: Vec<(SessionId, SessionIndices)>,
    /// Time of the last request for a handshake.
    requested: Option<Time>,
    /// Deadline for an answer to sent data.
    no_answer: Option<Time>,
    /// Deadline for a keepalive, after received data and no packet sent since.
    keepalive: Option<Time>,
    /// Deadline for a receipt, after data in a session with a control pair.
    receipt: Option<Time>,
    round_trip: Duration,
    /// This is the keyring of a lane other than the first.
    is_extra_lane: bool,
    /// Interval of persistent keepalives.
    persistent: Option<Duration>,
    /// Deadline for the next persistent keepalive.
    persistent_due: Option<Time>,
    /// A deadline was set that may be earlier than those reported.
    has_earlier_timeout: bool,
}

/// What the caller has to do for a keyring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyringAction {
    /// Send an empty packet.
    Keepalive,
    /// Ask the agent for a handshake.
    Handshake,
    /// Send the receipt that [`Keyring::receipt`] returns.
    Receipt,
    /// On an extra lane: send on the first lane again, because no receipt comes back on this one.
    AbandonLane,
}

/// No session can seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSession;

impl fmt::Display for NoSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no session with this peer yet; a handshake comes first")
    }
}

impl std::error::Error for NoSession {}

impl Keyring {
    /// Returns a keyring without sessions. `persistent` is the interval of persistent keepalives, if any.
    pub fn new(persistent: Option<Duration>) -> Self {
        Self { persistent, ..Self::default() }
    }

    /// Returns a keyring for a lane other than the first.
    pub fn for_extra_lane() -> Self {
        Self { is_extra_lane: true, ..Self::default() }
    }

    /// Sets the interval of persistent keepalives. The first one is due at once, as in stock WireGuard.
    pub fn set_persistent(&mut self, interval: Option<Duration>, now: Time) {
        self.persistent = interval;
        self.persistent_due = interval.map(|_| now);
        self.has_earlier_timeout = true;
    }

    /// Adds a session. [`Self::take_retired`] returns the sessions that it displaces.
    pub fn add(&mut self, session: Session) {
        self.has_earlier_timeout = true;
        let session = Box::new(session);
        let pushed_out = self.former.take();
        self.retire(pushed_out);
        match session.role {
            Role::Initiator => {
                self.requested = None;
                // A peer that has received nothing since two handshakes crossed may use either session until it receives something in the new one.
                let may_be_used = self.previous.as_ref().is_some_and(|previous| {
                    crosses(previous, &session)
                        || self.current.as_ref().is_some_and(|current| crosses(previous, current))
                });
                let (before, used) = (self.previous.take(), self.current.replace(session));
                let (previous, former, pushed_out) = match self.next.take() {
                    Some(answered) => (Some(answered), used, before),
                    None if may_be_used => (used, before, None),
                    None => (used, None, before),
                };
                (self.previous, self.former) = (previous, former);
                self.retire(pushed_out);
            }
            Role::Responder => {
                // A peer that has received nothing since two handshakes crossed does not know which session this node uses. And if the new handshake crossed with
                // that of *current*, the peer may use *previous* until it receives this node's response.
                let may_be_used = self.current.as_ref().is_some_and(|current| {
                    crosses(current, &session)
                        || self.previous.as_ref().is_some_and(|previous| crosses(previous, current))
                });
                let previous = self.previous.take();
                if may_be_used {
                    self.former = previous;
                } else {
                    self.retire(previous);
                }
                let pushed_out = self.next.replace(session);
                self.retire(pushed_out);
            }
        }
    }

    /// Removes a session.
    pub fn remove(&mut self, id: SessionId) {
        self.retire_if(|session| session.id == id);
    }

    /// Removes all sessions and stops all timers.
    pub fn clear(&mut self) {
        self.retire_if(|_| true);
        (self.requested, self.no_answer, self.keepalive, self.persistent_due) = (None, None, None, None);
        self.receipt = None;
    }

    /// Returns the sessions removed since the last call. Their indices may be used again.
    pub fn take_retired(&mut self) -> Vec<(SessionId, SessionIndices)> {
        std::mem::take(&mut self.retired)
    }

    /// Returns the session to seal with.
    ///
    /// # Errors
    /// [`NoSession`] if there is none, or if it is too old or has reached its limit.
    pub fn sending(&mut self, limits: &Limits, now: Time) -> Result<&mut Session, NoSession> {
        let slot = if self.previous_seals(limits, now) { &mut self.previous } else { &mut self.current };
        slot.as_deref_mut().filter(|session| may_seal(session, limits, now)).ok_or(NoSession)
    }

    /// Returns true if *previous* still seals, see the module.
    fn previous_seals(&self, limits: &Limits, now: Time) -> bool {
        let agreed = |session: &Session| session.is_agreed() && may_seal(session, limits, now);
        self.is_extra_lane
            && !self.current.as_deref().is_some_and(agreed)
            && self.previous.as_deref().is_some_and(agreed)
    }

    /// Returns the current session, which may be too old to seal.
    pub fn current(&self) -> Option<&Session> {
        self.current.as_deref()
    }

    /// Returns the data pair with this receiver index and its session, if the session still opens packets.
    pub fn receiving(&mut self, index: ReceiverIndex, limits: &Limits, now: Time) -> Option<(SessionId, &mut Pair)> {
        self.all()
            .filter(|session| usable(session, limits, now))
            .find_map(|session| Some((session.id, session.data_pair(index)?)))
    }

    /// Returns the control pair with this receiver index and its session, if the session still opens packets.
    pub fn control(&mut self, index: ReceiverIndex, limits: &Limits, now: Time) -> Option<(SessionId, &mut Pair)> {
        self.all().filter(|session| usable(session, limits, now)).find_map(|session| {
            let id = session.id;
            session.control_pair().filter(|pair| pair.local() == index).map(|pair| (id, pair))
        })
    }

    /// Returns the session with this number.
    pub fn session(&mut self, id: SessionId) -> Option<&mut Session> {
        self.all().find(|session| session.id == id)
    }

    /// Returns all sessions, the most likely one first.
    fn all(&mut self) -> impl Iterator<Item = &mut Session> {
        let slots = [
            self.current.as_deref_mut(),
            self.next.as_deref_mut(),
            self.previous.as_deref_mut(),
            self.former.as_deref_mut(),
        ];
        slots.into_iter().flatten()
    }

    /// Handles that a packet was opened with a data pair of the session `id`; `data` is false for a keepalive. Returns true if this made the session current:
    /// it was made as responder and is confirmed now, or it is the one of two crossed sessions that both nodes use.
    pub fn received(&mut self, id: SessionId, data: bool, limits: &Limits, now: Time) -> bool {
        let changed = self.confirm(id);
        if self.no_answer.is_some() && self.is_heard_in(id, limits, now) {
            self.no_answer = None;
        }
        self.restart_persistent(now);
        if data {
            if !self.is_extra_lane && self.keepalive.is_none() {
                self.keepalive = Some(now + limits.keepalive);
                self.has_earlier_timeout = true;
            }
            self.arm_receipt(id, now);
        }
        changed
    }

    /// Handles that a control message was opened in the session `id`. Its sender has that session but may seal data with another one, so only a message in
    /// the session that seals shows that the peer can open this node's data. Returns the same as [`Self::received`].
    pub fn received_control(&mut self, id: SessionId, limits: &Limits, now: Time) -> bool {
        self.restart_persistent(now);
        let confirmed = self.use_next(id);
        if self.sending(limits, now).is_ok_and(|session| session.id == id) {
            self.no_answer = None;
        }
        confirmed
    }

    /// Returns true if a packet in the session `id` shows that the peer has the session that seals. A Taut peer acknowledges data in the session it came in,
    /// so a packet in another session shows nothing: crossed handshakes may have left the peer without this one. For stock WireGuard any packet counts
    /// (paper, section 6.5).
    fn is_heard_in(&mut self, id: SessionId, limits: &Limits, now: Time) -> bool {
        self.sending(limits, now).is_ok_and(|session| session.id == id || !session.has_receipts())
    }

    /// Handles that the peer used the session `id` on any lane. Returns the same as [`Self::received`].
    pub fn confirm(&mut self, id: SessionId) -> bool {
        self.use_next(id) || self.resolve_crossing(id)
    }

    fn use_next(&mut self, id: SessionId) -> bool {
        if self.next.as_ref().is_none_or(|session| session.id != id) {
            return false;
        }
        self.requested = None;
        let confirmed = self.next.take();
        let older = std::mem::replace(&mut self.current, confirmed);
        let pushed_out = std::mem::replace(&mut self.previous, older);
        self.retire(pushed_out);
        true
    }

    fn arm_receipt(&mut self, id: SessionId, now: Time) {
        if self.receipt.is_none() && self.session(id).is_some_and(|session| session.control_pair().is_some()) {
            self.receipt = Some(now + RECEIPT_AFTER.max(self.round_trip / 2));
            self.has_earlier_timeout = true;
        }
    }

    /// Sets the measured round-trip time to the peer, which spaces receipts.
    pub fn set_round_trip(&mut self, round_trip: Duration) {
        self.round_trip = round_trip;
    }

    /// Returns the receipt for the data received last, and the control pair to seal it with.
    pub fn receipt(&mut self) -> Option<(ControlMessage, &mut Pair)> {
        self.all().find_map(|session| Some((session.take_receipt()?, session.control_pair()?)))
    }

    /// Makes the session `id` current if it crossed with the current one and has the smaller name, as the peer does. Returns true if so. Without a common
    /// choice both nodes would remain initiators, their renewals would cross again, and each time packets in flight under the displaced sessions would be lost.
    fn resolve_crossing(&mut self, id: SessionId) -> bool {
        let Some(current) = &mut self.current else { return false };
        let others = [self.previous.as_mut(), self.former.as_mut()].into_iter().flatten();
        let common =
            |other: &&mut Box<Session>| other.id == id && crosses(other, current) && other.name() < current.name();
        let Some(other) = others.into_iter().find(common) else { return false };
        std::mem::swap(current, other);
        true
    }

    /// Handles that a packet was sealed and sent; `data` is false for a keepalive.
    pub fn sent(&mut self, data: bool, limits: &Limits, now: Time) {
        self.keepalive = None;
        self.restart_persistent(now);
        if data && self.no_answer.is_none() {
            let wait = if self.is_extra_lane { EXTRA_LANE_TIMEOUT + 2 * self.round_trip } else { limits.no_answer() };
            self.no_answer = Some(now + wait);
            self.has_earlier_timeout = true;
        }
    }

    /// Restarts the interval of persistent keepalives, after a packet in either direction.
    fn restart_persistent(&mut self, now: Time) {
        let due = self.persistent.map(|interval| now + interval);
        self.has_earlier_timeout |= due.is_some() && self.persistent_due.is_none();
        self.persistent_due = due;
    }

    /// Stops waiting for an answer to sent data.
    pub fn stop_expecting_answer(&mut self) {
        self.no_answer = None;
    }

    /// Returns true if the caller shall ask for a handshake because it has a packet to send: there is no usable session, this node is the initiator of the
    /// current one and it is old, or its key is worn (paper, section 6.2). Returns true at most once per second.
    pub fn needs_handshake_to_send(&mut self, limits: &Limits, now: Time) -> bool {
        let needed = match &self.current {
            Some(session) if may_seal(session, limits, now) => {
                let old = session.role == Role::Initiator && now.since(session.born) >= limits.rekey_after;
                old || session.wants_rekey_by_use()
            }
            _ => true,
        };
        needed && self.request(now)
    }

    /// Returns true if the caller shall ask for a handshake because it only receives, and the current session will soon be too old to open packets (paper,
    /// section 6.2).
    pub fn needs_handshake_to_receive(&mut self, limits: &Limits, now: Time) -> bool {
        let old = self.current.as_ref().is_some_and(|session| {
            session.role == Role::Initiator && now.since(session.born) >= limits.rekey_on_receive()
        });
        old && self.request(now)
    }

    /// Returns true and notes the time, unless the last request was less than [`REQUEST_INTERVAL`] ago.
    fn request(&mut self, now: Time) -> bool {
        if self.requested.is_some_and(|requested| now < requested + REQUEST_INTERVAL) {
            return false;
        }
        self.requested = Some(now);
        true
    }

    /// Does what is due: removes sessions that are too old, and passes what the caller has to do to `act`.
    pub fn handle_timeout(&mut self, limits: &Limits, now: Time, mut act: impl FnMut(KeyringAction)) {
        self.retire_if(|session| now >= session.born + limits.reject_after);
        if self.no_answer.take_if(|due| now >= *due).is_some() {
            if self.is_extra_lane {
                act(KeyringAction::AbandonLane);
            } else if self.request(now) {
                act(KeyringAction::Handshake);
            }
        }
        if self.keepalive.take_if(|due| now >= *due).is_some() && self.current.is_some() {
            act(KeyringAction::Keepalive);
        }
        if self.receipt.take_if(|due| now >= *due).is_some() {
            act(KeyringAction::Receipt);
        }
        if self.persistent_due.take_if(|due| now >= *due).is_some() {
            self.restart_persistent(now);
            act(KeyringAction::Keepalive);
        }
    }

    /// Returns the time at which to call [`Self::handle_timeout`].
    pub fn poll_timeout(&self, limits: &Limits) -> Option<Time> {
        let sessions = [&self.previous, &self.current, &self.next, &self.former];
        let rejects = sessions.into_iter().flatten().map(|session| session.born + limits.reject_after);
        [self.no_answer, self.keepalive, self.receipt, self.persistent_due].into_iter().flatten().chain(rejects).min()
    }

    /// Returns the same if it may be earlier than the last reported time; `None` while deadlines have only moved away. Most packets set no deadline.
    #[inline]
    pub fn poll_earlier_timeout(&mut self, limits: &Limits) -> Option<Time> {
        if std::mem::take(&mut self.has_earlier_timeout) { self.poll_timeout(limits) } else { None }
    }

    fn retire_if(&mut self, mut is_over: impl FnMut(&Session) -> bool) {
        for slot in [&mut self.previous, &mut self.current, &mut self.next, &mut self.former] {
            self.retired
                .extend(slot.take_if(|session| is_over(session)).map(|session| (session.id, session.indices())));
        }
    }

    fn retire(&mut self, session: Option<Box<Session>>) {
        if let Some(session) = session {
            self.retired.push((session.id, session.indices()));
        }
    }
}

/// Returns true if the two sessions were made in opposite directions, each while the initiation of the other may have been in flight.
fn crosses(one: &Session, other: &Session) -> bool {
    one.role != other.role && one.born.max(other.born).since(one.born.min(other.born)) < CROSSING
}

#[inline]
fn may_seal(session: &Session, limits: &Limits, now: Time) -> bool {
    now < session.born + limits.stop_sealing() && !session.exhausted()
}

fn usable(session: &Session, limits: &Limits, now: Time) -> bool {
    now < session.born + limits.reject_after && !session.exhausted()
}

#[cfg(test)]
mod tests;

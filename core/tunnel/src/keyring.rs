//! The sessions of one peer on one lane, and the timers of its data (paper, sections 6.1 to 6.5).
//!
//! A keyring holds at most three sessions: *current* seals; *next* is one that we answered for and that the peer has not used yet;
//! *previous* still opens what is on its way, and *former* does while two newer ones are there at once. It never makes a handshake; it wishes for one.
//!
//! ```text
//! we started, response came:   previous ◀─ next or current      current ◀─ new
//! we answered:                 previous ◀─ nothing              next ◀─ new      (former ◀─ previous, if it crossed with current: the peer may use either)
//! a packet opens with next:    previous ◀─ current              current ◀─ next
//! handshakes crossed (one ours, one theirs, within 5 s), and a packet opens with previous or former: that and current change places, if it has the smaller name
//! response came, next is there: former ◀─ current, until there is another session; likewise previous, if it crossed with the new one
//! ```
//!
//! On a lane other than the first the timers of the first are not repeated: nothing is kept alive there, and whoever hears nothing looks for another
//! lane rather than for another session ([`Keyring::for_extra_lane`]). What a session is confirmed by on one lane counts for all, and so does which one of two that
//! crossed is used ([`Keyring::confirm`]): on a lane whose packets go one way, the other end would never hear.
//!
//! And there *previous* goes on sealing until the peer has said in *current* which lanes it has. A peer that was started again may have others at the
//! same ports: data that found its way there would be overtaken when the lanes close.

use std::fmt;
use std::time::Duration;

use taut_base::{ReceiverIndex, SessionId, Time};
use taut_wire::control::ControlMessage;

use crate::limits::Limits;
use crate::pair::Pair;
use crate::session::{Role, Session, SessionIndices};

/// While a wish for a handshake stands, it is not repeated more often than this; the agent keeps its own schedule of tries.
const REPEAT_WISH: Duration = Duration::from_secs(1);

/// Data is acknowledged by a receipt this long after it came, or after half a round trip where that is more (protocol.md 5.3).
const RECEIPT_AFTER: Duration = Duration::from_millis(20);

/// On a further lane data is acknowledged this soon, round trips aside, or the lane leads nowhere. Far beyond what a busy host is late by, and short enough
/// for a connection to live on by the first lane.
const SILENCE: Duration = Duration::from_secs(1);

/// Handshakes that end within so long of each other have crossed: an initiation is repeated after it (paper, section 6.1, `Rekey-Timeout`).
const CROSSING: Duration = Duration::from_secs(5);

/// The sessions of one peer on one lane.
#[derive(Default)]
pub struct Keyring {
    previous: Option<Session>,
    current: Option<Session>,
    next: Option<Session>,
    /// What the peer may yet seal with, though two newer ones are there: while handshakes cross, `current` before them, or what we answered for.
    former: Option<Box<Session>>,
    retired: Vec<(SessionId, SessionIndices)>,
    wished: Option<Time>,
    /// Data was sent and nothing came back since: at this time it has been too long.
    no_answer: Option<Time>,
    /// Data was received and nothing sent since: at this time the peer wants to hear from us.
    keepalive: Option<Time>,
    /// Data came in a session with a control pair, and was not acknowledged yet.
    receipt: Option<Time>,
    round_trip: Duration,
    /// Not the first lane's.
    further: bool,
    persistent: Option<Duration>,
    /// When the next packet is due whatever happens.
    persistent_due: Option<Time>,
    /// Something may be due sooner than was said.
    sooner: bool,
}

/// What a keyring wants done at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyringAction {
    /// Send an empty packet.
    Keepalive,
    /// Make a new session.
    Handshake,
    /// Send what [`Keyring::receipt`] yields.
    Receipt,
    /// On a further lane: send by the first again, nothing comes back here.
    AbandonLane,
}

/// There is no session to send with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSession;

impl fmt::Display for NoSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no session with this peer yet; a handshake comes first")
    }
}

impl std::error::Error for NoSession {}

impl Keyring {
    /// A keyring without sessions; `persistent` is the interval of unconditional keepalives, if any.
    pub fn new(persistent: Option<Duration>) -> Self {
        Self { persistent, ..Self::default() }
    }

    /// A keyring for a lane other than the first.
    pub fn for_extra_lane() -> Self {
        Self { further: true, ..Self::default() }
    }

    /// Another interval of unconditional keepalives; the first one is due at once, as in stock WireGuard.
    pub fn set_persistent(&mut self, interval: Option<Duration>, now: Time) {
        self.persistent = interval;
        self.persistent_due = interval.map(|_| now);
        self.sooner = true;
    }

    /// Takes a new session. What it pushes out shows in [`Self::take_retired`].
    pub fn add(&mut self, session: Session) {
        self.sooner = true;
        let pushed_out = self.former.take();
        self.retire(pushed_out.map(|session| *session));
        match session.role {
            Role::Initiator => {
                self.wished = None;
                let may_be_used = self.previous.as_ref().is_some_and(|previous| crosses(previous, &session));
                let (before, used) = (self.previous.take(), self.current.replace(session));
                let (previous, former, pushed_out) = match self.next.take() {
                    Some(answered) => (Some(answered), used, before),
                    None if may_be_used => (used, before, None),
                    None => (used, None, before),
                };
                (self.previous, self.former) = (previous, former.map(Box::new));
                self.retire(pushed_out);
            }
            Role::Responder => {
                // Who was sent nothing by us since two crossed does not know which of them we use.
                let may_be_used =
                    self.previous.as_ref().zip(self.current.as_ref()).is_some_and(|(one, other)| crosses(one, other));
                let previous = self.previous.take();
                if may_be_used {
                    self.former = previous.map(Box::new);
                } else {
                    self.retire(previous);
                }
                let pushed_out = self.next.replace(session);
                self.retire(pushed_out);
            }
        }
    }

    /// Forgets a session.
    pub fn remove(&mut self, id: SessionId) {
        self.retire_if(|session| session.id == id);
    }

    /// Forgets all sessions and timers.
    pub fn clear(&mut self) {
        self.retire_if(|_| true);
        (self.wished, self.no_answer, self.keepalive, self.persistent_due) = (None, None, None, None);
        self.receipt = None;
    }

    /// Sessions that are gone since the last call: their indices are free.
    pub fn take_retired(&mut self) -> Vec<(SessionId, SessionIndices)> {
        std::mem::take(&mut self.retired)
    }

    /// The session to seal with, if there is a usable one.
    ///
    /// # Errors
    /// [`NoSession`] when there is none, it is too old or has sealed all it may.
    pub fn sending(&mut self, limits: &Limits, now: Time) -> Result<&mut Session, NoSession> {
        let slot = if self.previous_seals(limits, now) { &mut self.previous } else { &mut self.current };
        slot.as_mut().filter(|session| usable(session, limits, now)).ok_or(NoSession)
    }

    /// Whether *previous* seals yet, see the module.
    fn previous_seals(&self, limits: &Limits, now: Time) -> bool {
        let agreed = |session: &&Session| session.is_agreed() && usable(session, limits, now);
        self.further
            && self.current.as_ref().filter(agreed).is_none()
            && self.previous.as_ref().is_some_and(|previous| agreed(&previous))
    }

    /// The session in use, whether or not it may still seal.
    pub fn current(&self) -> Option<&Session> {
        self.current.as_ref()
    }

    /// The data pair that the peer names `index`, with its session, if it may still open.
    pub fn receiving(&mut self, index: ReceiverIndex, limits: &Limits, now: Time) -> Option<(SessionId, &mut Pair)> {
        self.all()
            .filter(|session| usable(session, limits, now))
            .find_map(|session| Some((session.id, session.data_pair(index)?)))
    }

    /// The control pair that the peer names `index`, with its session, if it may still open.
    pub fn control(&mut self, index: ReceiverIndex, limits: &Limits, now: Time) -> Option<(SessionId, &mut Pair)> {
        self.all().filter(|session| usable(session, limits, now)).find_map(|session| {
            let id = session.id;
            session.control_pair().filter(|pair| pair.local() == index).map(|pair| (id, pair))
        })
    }

    /// The session of that name.
    pub fn session(&mut self, id: SessionId) -> Option<&mut Session> {
        self.all().find(|session| session.id == id)
    }

    /// All sessions, the likeliest first.
    fn all(&mut self) -> impl Iterator<Item = &mut Session> {
        let slots = [self.current.as_mut(), self.next.as_mut(), self.previous.as_mut(), self.former.as_deref_mut()];
        slots.into_iter().flatten()
    }

    /// A packet was opened with a data pair of the session `id`; `data` tells it from a keepalive. Returns whether packets are sent with that session from
    /// now on: one that we had answered for and that is confirmed by this, or the one of two that crossed that both sides use.
    pub fn received(&mut self, id: SessionId, data: bool, limits: &Limits, now: Time) -> bool {
        let changed = self.confirm(id);
        if self.no_answer.is_some() && self.is_heard_in(id, limits, now) {
            self.no_answer = None;
        }
        self.put_off_persistent(now);
        if data {
            if !self.further && self.keepalive.is_none() {
                self.keepalive = Some(now + limits.keepalive);
                self.sooner = true;
            }
            self.arm_receipt(id, now);
        }
        changed
    }

    /// A control message was opened in the session `id`. Its sender holds that session, and does not necessarily seal data with it: that our own data is
    /// heard, only one in the session that seals says. Returns the same as [`Self::received`].
    pub fn received_control(&mut self, id: SessionId, limits: &Limits, now: Time) -> bool {
        self.put_off_persistent(now);
        let confirmed = self.use_next(id);
        if self.sending(limits, now).is_ok_and(|session| session.id == id) {
            self.no_answer = None;
        }
        confirmed
    }

    /// Whether a packet in the session `id` says that the peer has the one that seals. A Taut peer acknowledges data where it came, so what it seals with
    /// another session says nothing: handshakes that crossed may have left it without ours. Of stock WireGuard any packet has to do (paper, section 6.5).
    fn is_heard_in(&mut self, id: SessionId, limits: &Limits, now: Time) -> bool {
        self.sending(limits, now).is_ok_and(|session| session.id == id || !session.has_receipts())
    }

    /// The peer used the session `id`, on whichever lane. Returns whether packets are sent with it from now on, as [`Self::received`] does.
    pub fn confirm(&mut self, id: SessionId) -> bool {
        self.use_next(id) || self.uncross(id)
    }

    fn use_next(&mut self, id: SessionId) -> bool {
        if self.next.as_ref().is_none_or(|session| session.id != id) {
            return false;
        }
        self.wished = None;
        let confirmed = self.next.take();
        let older = std::mem::replace(&mut self.current, confirmed);
        let pushed_out = std::mem::replace(&mut self.previous, older);
        self.retire(pushed_out);
        true
    }

    fn arm_receipt(&mut self, id: SessionId, now: Time) {
        if self.receipt.is_none() && self.session(id).is_some_and(|session| session.control_pair().is_some()) {
            self.receipt = Some(now + RECEIPT_AFTER.max(self.round_trip / 2));
            self.sooner = true;
        }
    }

    /// How long a packet takes to the peer and back, as far as it was measured: receipts need not come more often.
    pub fn set_round_trip(&mut self, round_trip: Duration) {
        self.round_trip = round_trip;
    }

    /// What acknowledges the data that came last, with the control pair to seal it with.
    pub fn receipt(&mut self) -> Option<(ControlMessage, &mut Pair)> {
        self.all().find_map(|session| Some((session.take_receipt()?, session.control_pair()?)))
    }

    /// Of two sessions whose handshakes crossed, both sides use the one with the smaller name. Otherwise both stay initiators, their renewals cross
    /// again, and each time the packets that are on their way under the pushed out sessions are lost. Returns whether that is the session `id` from now on.
    fn uncross(&mut self, id: SessionId) -> bool {
        let Some(current) = &mut self.current else { return false };
        let others = [self.previous.as_mut(), self.former.as_deref_mut()].into_iter().flatten();
        let common = |other: &&mut Session| other.id == id && crosses(other, current) && other.name() < current.name();
        let Some(other) = others.into_iter().find(common) else { return false };
        std::mem::swap(current, other);
        true
    }

    /// A packet was sealed and sent; `data` tells it from a keepalive.
    pub fn sent(&mut self, data: bool, limits: &Limits, now: Time) {
        self.keepalive = None;
        self.put_off_persistent(now);
        if data && self.no_answer.is_none() {
            let wait = if self.further { SILENCE + 2 * self.round_trip } else { limits.no_answer() };
            self.no_answer = Some(now + wait);
            self.sooner = true;
        }
    }

    /// A packet came or went: the next unconditional one is due an interval later.
    fn put_off_persistent(&mut self, now: Time) {
        let due = self.persistent.map(|interval| now + interval);
        self.sooner |= due.is_some() && self.persistent_due.is_none();
        self.persistent_due = due;
    }

    /// Nothing is waited for any more.
    pub fn stop_expecting_answer(&mut self) {
        self.no_answer = None;
    }

    /// Whether to ask for a handshake now, because a packet is to be sent: there is no session, we started the current one and it is
    /// old, or it is much used (paper, section 6.2). Says yes once per second at most while the wish stands.
    pub fn needs_handshake_to_send(&mut self, limits: &Limits, now: Time) -> bool {
        let needed = match &self.current {
            Some(session) if usable(session, limits, now) => {
                let old = session.role == Role::Initiator && now.since(session.born) >= limits.rekey_after;
                old || session.wants_rekey_by_use()
            }
            _ => true,
        };
        needed && self.wish(now)
    }

    /// Whether to ask for a handshake now, because packets only come in and our session will soon be too old to open them
    /// (paper, section 6.2).
    pub fn needs_handshake_to_receive(&mut self, limits: &Limits, now: Time) -> bool {
        let old = self.current.as_ref().is_some_and(|session| {
            session.role == Role::Initiator && now.since(session.born) >= limits.rekey_on_receive()
        });
        old && self.wish(now)
    }

    fn wish(&mut self, now: Time) -> bool {
        if self.wished.is_some_and(|wished| now < wished + REPEAT_WISH) {
            return false;
        }
        self.wished = Some(now);
        true
    }

    /// Does what is due. Sessions that are too old are retired; what the caller has to do goes to `wish`.
    pub fn handle_timeout(&mut self, limits: &Limits, now: Time, mut wish: impl FnMut(KeyringAction)) {
        self.retire_if(|session| now >= session.born + limits.reject_after);
        if self.no_answer.take_if(|due| now >= *due).is_some() {
            if self.further {
                wish(KeyringAction::AbandonLane);
            } else if self.wish(now) {
                wish(KeyringAction::Handshake);
            }
        }
        if self.keepalive.take_if(|due| now >= *due).is_some() && self.current.is_some() {
            wish(KeyringAction::Keepalive);
        }
        if self.receipt.take_if(|due| now >= *due).is_some() {
            wish(KeyringAction::Receipt);
        }
        if self.persistent_due.take_if(|due| now >= *due).is_some() {
            self.put_off_persistent(now);
            wish(KeyringAction::Keepalive);
        }
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self, limits: &Limits) -> Option<Time> {
        let sessions = [self.previous.as_ref(), self.current.as_ref(), self.next.as_ref(), self.former.as_deref()];
        let rejects = sessions.into_iter().flatten().map(|session| session.born + limits.reject_after);
        [self.no_answer, self.keepalive, self.receipt, self.persistent_due].into_iter().flatten().chain(rejects).min()
    }

    /// The same, if that may be sooner than was said last: `None` while deadlines have only moved away. Most packets arm nothing.
    #[inline]
    pub fn poll_earlier_timeout(&mut self, limits: &Limits) -> Option<Time> {
        if std::mem::take(&mut self.sooner) { self.poll_timeout(limits) } else { None }
    }

    fn retire_if(&mut self, mut is_over: impl FnMut(&Session) -> bool) {
        for slot in [&mut self.previous, &mut self.current, &mut self.next] {
            self.retired
                .extend(slot.take_if(|session| is_over(session)).map(|session| (session.id, session.indices())));
        }
        let former = self.former.take_if(|session| is_over(session));
        self.retired.extend(former.map(|session| (session.id, session.indices())));
    }

    fn retire(&mut self, session: Option<Session>) {
        if let Some(session) = session {
            self.retired.push((session.id, session.indices()));
        }
    }
}

/// Whether one is ours and one the peer's, made while the initiation of the other may have been on its way.
fn crosses(one: &Session, other: &Session) -> bool {
    one.role != other.role && one.born.max(other.born).since(one.born.min(other.born)) < CROSSING
}

fn usable(session: &Session, limits: &Limits, now: Time) -> bool {
    now < session.born + limits.reject_after && !session.exhausted()
}

#[cfg(test)]
mod tests;

//! What a node asks a peer on the control pair of their newest session, until it is answered: do you have this session (a probe), and may we use more
//! than the stock pair (an offer; the session's initiator asks). By which way the peer is reached, others ask ([`taut_path::Paths`]).
//!
//! ```text
//! session in use ──▶ probe ─────▶ … ◀───── answer ──▶ both have it; round trip
//!                └─▶ offer ─────▶ … ◀───── accept ──▶ both seal with the better suite
//! ```
//! Both are asked again while nothing comes back, ever more rarely. Data flows meanwhile: whoever suppresses these messages delays what they are for
//! and nothing else (protocol.md 1.4).

use std::collections::VecDeque;
use std::time::Duration;

use taut_base::{Entropy, SessionId, Time};

/// Between the first two tries; doubled each time. As for handshakes (protocol.md 2.2).
const FIRST_RETRY: Duration = Duration::from_millis(250);

/// The longest interval between tries.
const MAX_RETRY: Duration = Duration::from_secs(30);

/// How soon a question is tried again that the budget of probes had no room for: the budget of an address has room for another one after 200 ms.
const PUT_BACK: Duration = Duration::from_millis(200);
/// And up to so many milliseconds more, so that the questions that wait do not come at the same moment.
const PUT_BACK_SPREAD: u32 = 200;

/// Probes of one session that nobody answers. With the intervals above the last one goes after half a minute.
const PROBES: usize = 8;

/// What is asked about one session.
pub(crate) struct Talk {
    session: SessionId,
    probe: Option<Ask>,
    offer: Option<Ask>,
    /// Probes that were sent: an answer to any of them tells the round trip.
    sent: VecDeque<(u64, Time)>,
    /// Questions that are due.
    questions: VecDeque<Question>,
}

/// A question that is repeated.
pub(crate) struct Ask {
    next: Time,
    interval: Duration,
}

impl Ask {
    /// Asked at `now` for the first time.
    pub(crate) fn new(now: Time) -> Self {
        Self { next: now, interval: FIRST_RETRY }
    }

    /// When it is asked next.
    pub(crate) fn next(&self) -> Time {
        self.next
    }

    /// The budget of probes has no room for it now: it is tried again soon.
    pub(crate) fn put_back(&mut self, entropy: &mut impl Entropy, now: Time) {
        self.next = now + PUT_BACK + Duration::from_millis(u64::from(entropy.below(PUT_BACK_SPREAD)));
    }

    /// Whether it is time to ask (again).
    pub(crate) fn due(&mut self, entropy: &mut impl Entropy, now: Time) -> bool {
        if now < self.next {
            return false;
        }
        // A quarter at random keeps two ends, and the peers of one end, from asking in step.
        let quarter = u32::try_from(self.interval.as_millis() / 4).unwrap_or(0);
        self.next = now + self.interval + Duration::from_millis(u64::from(entropy.below(quarter + 1)));
        self.interval = (self.interval * 2).min(MAX_RETRY);
        true
    }
}

/// A message that the peer is sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// A probe with this id.
    Probe(u64),
    /// The offer.
    Offer,
}

impl Talk {
    /// The first questions about a session that is in use now.
    pub(crate) fn new(session: SessionId, offers: bool, now: Time) -> Self {
        Self {
            session,
            probe: Some(Ask::new(now)),
            offer: offers.then(|| Ask::new(now)),
            sent: VecDeque::with_capacity(PROBES),
            questions: VecDeque::new(),
        }
    }

    /// Which session it is about.
    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        [&self.probe, &self.offer].into_iter().flatten().map(|ask| ask.next).min()
    }

    /// Asks what is due, the probe first.
    pub(crate) fn handle_timeout(&mut self, entropy: &mut impl Entropy, now: Time) {
        let offer = self.offer.as_mut().is_some_and(|ask| ask.due(entropy, now));
        if self.sent.len() >= PROBES && self.probe.as_ref().is_some_and(|ask| now >= ask.next) {
            self.probe = None;
        }
        if self.probe.as_mut().is_some_and(|ask| ask.due(entropy, now)) {
            let id = u64::from(entropy.next_u32()) << 32 | u64::from(entropy.next_u32());
            self.sent.push_back((id, now));
            self.questions.push_back(Question::Probe(id));
        }
        if offer {
            self.questions.push_back(Question::Offer);
        }
    }

    /// Returns the next message for the peer.
    pub(crate) fn poll_output(&mut self) -> Option<Question> {
        self.questions.pop_front()
    }

    /// A probe was answered: how long that took. `None` for an answer to nothing that was asked.
    pub(crate) fn answered(&mut self, id: u64, now: Time) -> Option<Duration> {
        let (_, sent) = self.sent.iter().find(|(known, _)| *known == id)?;
        let round_trip = now.since(*sent);
        self.probe = None;
        self.sent.clear();
        Some(round_trip)
    }

    /// The offer was accepted. False when there was none.
    pub(crate) fn accepted(&mut self) -> bool {
        self.offer.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(milliseconds)
    }

    /// Everything that is asked in ten minutes without an answer, with its time in milliseconds.
    fn unanswered(talk: &mut Talk) -> (Vec<u64>, Vec<u64>) {
        let mut entropy = |bytes: &mut [u8]| bytes.fill(0);
        let (mut probes, mut offers) = (Vec::new(), Vec::new());
        while let Some(due) = talk.poll_timeout().filter(|due| *due < at(600_000)) {
            talk.handle_timeout(&mut entropy, due);
            let when = u64::try_from(due.since(Time::ZERO).as_millis()).unwrap();
            while let Some(question) = talk.poll_output() {
                match question {
                    Question::Probe(_) => probes.push(when),
                    Question::Offer => offers.push(when),
                }
            }
        }
        (probes, offers)
    }

    #[test]
    fn questions_are_repeated_ever_more_rarely() {
        let (probes, offers) = unanswered(&mut Talk::new(SessionId(1), true, at(0)));
        assert_eq!(probes, [0, 250, 750, 1_750, 3_750, 7_750, 15_750, 31_750]);
        assert_eq!(offers[..8], probes[..]);
        assert_eq!(offers[8] - offers[7], 30_000, "and go on as long as the session lives");
        assert!(unanswered(&mut Talk::new(SessionId(1), false, at(0))).1.is_empty());
    }

    #[test]
    fn an_answer_to_any_probe_tells_the_round_trip_once() {
        let mut talk = Talk::new(SessionId(1), false, at(0));
        let mut draws = 0_u32;
        let mut entropy = |bytes: &mut [u8]| {
            draws += 1;
            bytes.copy_from_slice(&draws.to_le_bytes()[..bytes.len()]);
        };
        talk.handle_timeout(&mut entropy, at(0));
        let Some(Question::Probe(first)) = talk.poll_output() else { panic!("no probe") };
        let again = talk.poll_timeout().unwrap();
        talk.handle_timeout(&mut entropy, again);
        assert!(matches!(talk.poll_output(), Some(Question::Probe(_))));
        assert_eq!(talk.answered(first ^ 1, at(300)), None);
        assert_eq!(talk.answered(first, at(300)), Some(Duration::from_millis(300)));
        assert_eq!(talk.answered(first, at(301)), None);
        assert_eq!(talk.poll_timeout(), None);
    }

    #[test]
    fn an_accept_without_an_offer_is_nothing() {
        assert!(!Talk::new(SessionId(1), false, at(0)).accepted());
        let mut talk = Talk::new(SessionId(1), true, at(0));
        assert!(talk.accepted());
        assert!(!talk.accepted());
    }
}

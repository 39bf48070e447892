//! What a node negotiates with a peer on the control pair of their newest session: whether the peer has this session (a probe), and whether both may use
//! more than the stock pair (an offer, which the session's initiator sends). Probes of paths are sent by [`taut_path::Paths`].
//!
//! ```text
//! session in use ──▶ probe ─────▶ … ◀───── answer ──▶ both have the session; its round-trip time
//!                └─▶ offer ─────▶ … ◀───── accept ──▶ both seal with the better suite
//! ```
//! Both messages are retransmitted with back-off until they are answered. Data flows meanwhile: an attacker who suppresses these messages delays only
//! their purpose (protocol.md 1.4).

use std::collections::VecDeque;
use std::time::Duration;

use taut_base::{Entropy, SessionId, Time};

/// Time until the first retransmission, 250 ms, doubled each time: as for handshakes (protocol.md 2.2).
const FIRST_RETRY: Duration = Duration::from_millis(250);

/// Longest interval between retransmissions, 30 s.
const MAX_RETRY: Duration = Duration::from_secs(30);

/// Delay of a probe that the probe budget had no room for, 200 ms: the budget of an address has room for another probe by then.
const POSTPONED: Duration = Duration::from_millis(200);
/// Maximum random extra delay in milliseconds: it keeps postponed probes from being due at the same moment.
const POSTPONED_SPREAD: u32 = 200;

/// Maximum number of unanswered probes of one session. With the intervals above, the last one is sent after half a minute.
const PROBES: usize = 8;

/// The negotiation of one session.
pub(crate) struct Negotiation {
    session: SessionId,
    probe: Option<RetryTimer>,
    offer: Option<RetryTimer>,
    /// Probes that were sent: the answer to any of them gives the round-trip time.
    sent: VecDeque<(u64, Time)>,
    /// Messages that are due.
    messages: VecDeque<NegotiationOutput>,
}

/// The retransmission timer of a message.
pub(crate) struct RetryTimer {
    next: Time,
    interval: Duration,
}

impl RetryTimer {
    /// Creates a timer that expires at `now` for the first time.
    pub(crate) fn new(now: Time) -> Self {
        Self { next: now, interval: FIRST_RETRY }
    }

    /// Returns the time at which the timer expires.
    pub(crate) fn next(&self) -> Time {
        self.next
    }

    /// Sets the timer to a moment later, because the probe budget has no room now.
    pub(crate) fn postpone(&mut self, entropy: &mut impl Entropy, now: Time) {
        self.next = now + POSTPONED + Duration::from_millis(u64::from(entropy.below(POSTPONED_SPREAD)));
    }

    /// Returns true if the timer has expired, and sets it to the next retransmission.
    pub(crate) fn expire(&mut self, entropy: &mut impl Entropy, now: Time) -> bool {
        if now < self.next {
            return false;
        }
        // A random quarter keeps the two ends, and the peers of one end, from sending in step.
        let quarter = u32::try_from(self.interval.as_millis() / 4).unwrap_or(0);
        self.next = now + self.interval + Duration::from_millis(u64::from(entropy.below(quarter + 1)));
        self.interval = (self.interval * 2).min(MAX_RETRY);
        true
    }
}

/// A message to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NegotiationOutput {
    /// A probe with this id.
    Probe(u64),
    /// The offer.
    Offer,
}

impl Negotiation {
    /// Starts the negotiation of a session that is in use now.
    pub(crate) fn new(session: SessionId, offers: bool, now: Time) -> Self {
        Self {
            session,
            probe: Some(RetryTimer::new(now)),
            offer: offers.then(|| RetryTimer::new(now)),
            sent: VecDeque::with_capacity(PROBES),
            messages: VecDeque::new(),
        }
    }

    /// Returns the session that is negotiated.
    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    /// Returns the time at which [`Self::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        [&self.probe, &self.offer].into_iter().flatten().map(|timer| timer.next).min()
    }

    /// Sends the messages that are due, the probe first.
    pub(crate) fn handle_timeout(&mut self, entropy: &mut impl Entropy, now: Time) {
        let offer = self.offer.as_mut().is_some_and(|timer| timer.expire(entropy, now));
        if self.sent.len() >= PROBES && self.probe.as_ref().is_some_and(|timer| now >= timer.next) {
            self.probe = None;
        }
        if self.probe.as_mut().is_some_and(|timer| timer.expire(entropy, now)) {
            let id = u64::from(entropy.next_u32()) << 32 | u64::from(entropy.next_u32());
            self.sent.push_back((id, now));
            self.messages.push_back(NegotiationOutput::Probe(id));
        }
        if offer {
            self.messages.push_back(NegotiationOutput::Offer);
        }
    }

    /// Returns the next message for the peer.
    pub(crate) fn poll_output(&mut self) -> Option<NegotiationOutput> {
        self.messages.pop_front()
    }

    /// Takes the answer to a probe. Returns the round-trip time; `None` if no such probe was sent.
    pub(crate) fn handle_answer(&mut self, id: u64, now: Time) -> Option<Duration> {
        let (_, sent) = self.sent.iter().find(|(known, _)| *known == id)?;
        let round_trip = now.since(*sent);
        self.probe = None;
        self.sent.clear();
        Some(round_trip)
    }

    /// Takes the accept of the offer. Returns false if no offer is outstanding.
    pub(crate) fn handle_accept(&mut self) -> bool {
        self.offer.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(milliseconds)
    }

    /// Returns the times in milliseconds of all probes and offers within ten minutes without an answer.
    fn unanswered(negotiation: &mut Negotiation) -> (Vec<u64>, Vec<u64>) {
        let mut entropy = |bytes: &mut [u8]| bytes.fill(0);
        let (mut probes, mut offers) = (Vec::new(), Vec::new());
        while let Some(due) = negotiation.poll_timeout().filter(|due| *due < at(600_000)) {
            negotiation.handle_timeout(&mut entropy, due);
            let when = u64::try_from(due.since(Time::ZERO).as_millis()).unwrap();
            while let Some(message) = negotiation.poll_output() {
                match message {
                    NegotiationOutput::Probe(_) => probes.push(when),
                    NegotiationOutput::Offer => offers.push(when),
                }
            }
        }
        (probes, offers)
    }

    #[test]
    fn messages_are_retransmitted_with_back_off() {
        let (probes, offers) = unanswered(&mut Negotiation::new(SessionId(1), true, at(0)));
        assert_eq!(probes, [0, 250, 750, 1_750, 3_750, 7_750, 15_750, 31_750]);
        assert_eq!(offers[..8], probes[..]);
        assert_eq!(offers[8] - offers[7], 30_000, "offers continue as long as the session lives");
        assert!(unanswered(&mut Negotiation::new(SessionId(1), false, at(0))).1.is_empty());
    }

    #[test]
    fn an_answer_to_any_probe_gives_the_round_trip_once() {
        let mut negotiation = Negotiation::new(SessionId(1), false, at(0));
        let mut draws = 0_u32;
        let mut entropy = |bytes: &mut [u8]| {
            draws += 1;
            bytes.copy_from_slice(&draws.to_le_bytes()[..bytes.len()]);
        };
        negotiation.handle_timeout(&mut entropy, at(0));
        let Some(NegotiationOutput::Probe(first)) = negotiation.poll_output() else { panic!("no probe") };
        let again = negotiation.poll_timeout().unwrap();
        negotiation.handle_timeout(&mut entropy, again);
        assert!(matches!(negotiation.poll_output(), Some(NegotiationOutput::Probe(_))));
        assert_eq!(negotiation.handle_answer(first ^ 1, at(300)), None);
        assert_eq!(negotiation.handle_answer(first, at(300)), Some(Duration::from_millis(300)));
        assert_eq!(negotiation.handle_answer(first, at(301)), None);
        assert_eq!(negotiation.poll_timeout(), None);
    }

    #[test]
    fn an_accept_without_an_offer_is_ignored() {
        assert!(!Negotiation::new(SessionId(1), false, at(0)).handle_accept());
        let mut negotiation = Negotiation::new(SessionId(1), true, at(0));
        assert!(negotiation.handle_accept());
        assert!(!negotiation.handle_accept());
    }
}

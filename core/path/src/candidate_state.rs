//! One candidate for the path to a peer, and what is known of it.
//!
//! ```text
//!             a probe answered on this path         a probe lost, or data not acknowledged
//!  Unproven ──────────────────────────▶ Proven ◀──────────────────────────────────────────▶ Suspected: three quick probes
//!                                         ▲             one of the three answered             │ none of them answered
//!                                         └────────────── Down ◀──────────────────────────────┘ (or: loses too much)
//!                                             several answers in a row
//! ```
//! A candidate that is down returns after one answer, or after more of them if it went down again within two minutes. A link that fails every few
//! seconds is avoided longer each time; a link that failed once returns at once.

use core::net::SocketAddr;
use core::time::Duration;

use taut_base::Time;

use crate::event::PathEvent;
use crate::packet_limit::PacketLimit;
use crate::probes::Probes;
use crate::reasons::{DownCause, Suspicion};
use crate::way::Way;

/// Probes that judge a suspected candidate. Where a tenth of all packets is lost, three in a row are lost once in a thousand times.
pub(crate) const QUICK_PROBES: u8 = 3;

/// Bounds of the gap between quick probes, which is half a round-trip time: far enough apart not to share one burst of loss, and short enough to end
/// within three.
const QUICK_GAP: (Duration, Duration) = (Duration::from_millis(30), Duration::from_millis(200));

/// Bounds of the time that a quick probe is waited for, when the lane already waited for receipts or the peer is heard elsewhere: silence on both
/// counts is not a queue that fills.
const QUICK_TIMEOUT: (Duration, Duration) = (Duration::from_millis(60), Duration::from_secs(1));

/// The same time before a round-trip time was measured.
const QUICK_TIMEOUT_UNMEASURED: Duration = Duration::from_millis(250);

/// Gaps between probes after a change, 1.5 s in all. The first probes of the two ends rarely open both NATs in the right order; the next ones do.
pub(crate) const BURST: [Duration; 6] = [
    Duration::from_millis(60),
    Duration::from_millis(120),
    Duration::from_millis(180),
    Duration::from_millis(250),
    Duration::from_millis(350),
    Duration::from_millis(500),
];

/// Time after which a suspected candidate without a verdict is probed again, 10 s: longer than any answer is waited for.
const VERDICT_RETRY: Duration = Duration::from_secs(10);

/// Least time between two bursts.
const BURST_INTERVAL: Duration = Duration::from_secs(2);

/// Least gap between two probes of one candidate.
pub(crate) const MIN_GAP: Duration = Duration::from_millis(30);

/// Gap between the probes that bring back a candidate which needs several answers.
const RETURN_GAP: Duration = Duration::from_millis(250);

/// Time within which another failure counts as flapping, 2 minutes.
const FLAPPING: Duration = Duration::from_secs(120);

/// Unacknowledged data on a path whose probes are answered, this many times within the window: the path carries no data, because a filter drops it. What was lost before the
/// packet limit was lowered does not count.
const MAX_UNACKNOWLEDGED: u8 = 4;
const UNACKNOWLEDGED_WINDOW: Duration = Duration::from_secs(10);

/// The sources that name a candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    /// The coordinator's map lists it.
    pub listed: bool,
    /// The peer itself reports it.
    pub reported: bool,
    /// Authentic packets of the peer came from it.
    pub heard: bool,
    /// A relay says that the peer is connected to it.
    pub relay: bool,
}

/// The state of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No probe was answered.
    Unproven,
    /// A probe was answered on this path.
    Proven {
        /// When it was proven.
        since: Time,
    },
    /// It was proven, and quick probes judge whether it still works.
    Suspected {
        /// When it was proven.
        since: Time,
        /// When the suspicion began.
        judged_since: Time,
        /// Quick probes still to send.
        remaining: u8,
        /// The reason for the suspicion.
        reason: Suspicion,
    },
    /// It does not lead to the peer any more.
    Down {
        /// When it went down.
        since: Time,
        /// The reason.
        cause: DownCause,
        /// Answers in a row that bring it back.
        needs: u32,
    },
}

/// Returns the answers in a row that bring back a way that went down `failures` times within a short time.
fn answers_needed(cause: DownCause, failures: u32) -> u32 {
    match cause {
        DownCause::Silent => [1, 3, 6, 12].get(failures as usize - 1).copied().unwrap_or(12),
        // Five answers at one probe per second or faster: soon after the loss ended. Where a third is lost for good, five in a row are rare.
        DownCause::Lossy => (5 * failures).min(12),
        // Answers to probes prove nothing here. Forty of them take ten seconds.
        DownCause::NoData => 40,
    }
}

/// One candidate for the path to a peer.
#[derive(Clone, Debug)]
pub(crate) struct CandidateState {
    pub(crate) way: Way,
    pub(crate) origins: Origins,
    pub(crate) state: State,
    /// The state when [`Self::poll_event`] was last called.
    reported: State,
    pub(crate) probes: Probes,
    /// The packet limit, once the candidate carries data or may soon carry it.
    pub(crate) limit: PacketLimit,
    /// When something last changed that makes a new try worthwhile.
    pub(crate) changed_at: Time,
    /// When the candidate was added.
    pub(crate) known_since: Time,
    burst: usize,
    /// True if the next probe is due as soon as possible.
    is_due: bool,
    /// Earliest time of the next probe after a budget refused one.
    pub(crate) not_before: Option<Time>,
    /// Stretch of the intervals in 1,024ths, drawn again with each probe, so that peers do not probe in step.
    pub(crate) stretch: u32,
    /// The endpoint that the peer saw probes come from.
    pub(crate) seen: Option<SocketAddr>,
    /// When an authentic packet of the peer last came this way.
    pub(crate) last_heard: Option<Time>,
    /// Probes of the peer that came this way.
    pub(crate) peer_probes: u64,
    /// Answers to probes of this candidate that came by another path.
    pub(crate) answered_elsewhere: u64,
    /// Probes that the budget refused.
    pub(crate) refused: u64,
    failures: u32,
    failed_at: Option<Time>,
    unacknowledged: (u8, Option<Time>),
}

impl CandidateState {
    pub(crate) fn new(way: Way, origins: Origins, now: Time) -> Self {
        Self {
            way,
            origins,
            state: State::Unproven,
            reported: State::Unproven,
            probes: Probes::default(),
            limit: PacketLimit::default(),
            changed_at: now,
            known_since: now,
            burst: 0,
            is_due: true,
            not_before: None,
            stretch: 0,
            seen: None,
            last_heard: None,
            peer_probes: 0,
            answered_elsewhere: 0,
            refused: 0,
            failures: 0,
            failed_at: None,
            unacknowledged: (0, None),
        }
    }

    /// Returns true if the candidate leads to the peer, suspected or not.
    pub(crate) fn is_proven(&self) -> bool {
        matches!(self.state, State::Proven { .. } | State::Suspected { .. })
    }

    /// Returns true if the candidate is proven and not suspected.
    pub(crate) fn is_unsuspected(&self) -> bool {
        matches!(self.state, State::Proven { .. })
    }

    /// Returns true if the candidate is down and answers again.
    pub(crate) fn is_returning(&self) -> bool {
        matches!(self.state, State::Down { .. }) && self.probes.answers_in_row > 0
    }

    /// Returns when the candidate was proven.
    pub(crate) fn proven_since(&self) -> Option<Time> {
        match self.state {
            State::Proven { since } | State::Suspected { since, .. } => Some(since),
            State::Unproven | State::Down { .. } => None,
        }
    }

    /// Starts a burst of probes after a change.
    pub(crate) fn start_burst(&mut self, now: Time) {
        if self.burst == 0 || now.since(self.changed_at) >= BURST_INTERVAL {
            (self.burst, self.changed_at) = (0, now);
        }
        self.is_due = true;
    }

    /// Makes the next probe due at once.
    pub(crate) fn probe_soon(&mut self) {
        self.is_due = true;
    }

    /// Takes a handshake that went this way in both directions as a proof.
    pub(crate) fn prove(&mut self, now: Time) {
        if !self.is_proven() {
            self.state = State::Proven { since: now };
            self.probes.forget_losses();
        }
    }

    /// Begins to judge a proven candidate. Returns true if it was not suspected before.
    pub(crate) fn suspect(&mut self, reason: Suspicion, now: Time) -> bool {
        match &mut self.state {
            State::Proven { since } => {
                self.state = State::Suspected { since: *since, judged_since: now, remaining: QUICK_PROBES, reason };
                self.is_due = true;
                true
            }
            State::Suspected { reason: known, .. } => {
                *known = reason.max(*known);
                false
            }
            State::Unproven | State::Down { .. } => false,
        }
    }

    /// Data is not acknowledged: its packets may be too long. If that repeats with shorter packets, or with packets of a size that passes, although probes are answered, the path
    /// carries no data, and the candidate goes down.
    pub(crate) fn suspect_data(&mut self, now: Time) {
        self.limit.recheck(now);
        if self.suspect(Suspicion::DataUnacknowledged, now) {
            let (count, since) = &mut self.unacknowledged;
            if since.is_none_or(|since| now.since(since) >= UNACKNOWLEDGED_WINDOW) {
                (*count, *since) = (0, Some(now));
            }
            *count = count.saturating_add(1);
            if *count >= MAX_UNACKNOWLEDGED {
                self.unacknowledged = (0, None);
                // Where probes are lost as well, the cause is loss and not a filter.
                self.go_down(if self.probes.lost_none() { DownCause::NoData } else { DownCause::Lossy }, now);
            }
        }
    }

    /// The packet limit was lowered: what was lost before, was too long.
    pub(crate) fn excuse_data(&mut self) {
        self.unacknowledged = (0, None);
    }

    /// The candidate does not lead to the peer any more.
    pub(crate) fn go_down(&mut self, cause: DownCause, now: Time) {
        let again = self.failed_at.is_some_and(|failed_at| now.since(failed_at) < FLAPPING);
        self.failures = if again { self.failures.saturating_add(1) } else { 1 };
        self.failed_at = Some(now);
        self.state = State::Down { since: now, cause, needs: answers_needed(cause, self.failures) };
        self.probes.answers_in_row = 0;
        self.changed_at = now;
        self.limit.reset();
    }

    /// Forgets everything except the sources that name the candidate, and the size of packets that passed.
    pub(crate) fn forget(&mut self, now: Time) {
        self.limit.reset();
        let limit = std::mem::take(&mut self.limit);
        *self = Self { seen: self.seen, limit, is_due: false, ..Self::new(self.way, self.origins, now) };
    }

    /// A probe is sent on this path.
    pub(crate) fn send(&mut self, id: u64, now: Time) {
        let timeout = match &mut self.state {
            State::Suspected { remaining, reason, .. } => {
                *remaining = remaining.saturating_sub(1);
                let (least, most) = QUICK_TIMEOUT;
                let quick =
                    self.probes.round_trip().map_or(QUICK_TIMEOUT_UNMEASURED, |mean| (mean * 2).clamp(least, most));
                (*reason >= Suspicion::PeerMoved).then_some(quick)
            }
            _ => {
                self.burst = (self.burst + 1).min(BURST.len() + 1);
                None
            }
        };
        (self.is_due, self.not_before) = (false, None);
        self.probes.send(id, timeout, now);
    }

    /// An answer came by this path to a probe sent on it. Returns true if the candidate is proven by it and was not before.
    pub(crate) fn answer(&mut self, id: u64, seen: SocketAddr, now: Time) -> bool {
        let Some(sent) = self.probes.answer(id, now) else { return false };
        self.seen = Some(seen);
        self.last_heard = Some(now);
        let news = match self.state {
            State::Unproven => true,
            State::Proven { .. } => return false,
            State::Suspected { since, judged_since, .. } => {
                if sent >= judged_since {
                    self.state = State::Proven { since };
                }
                return false;
            }
            State::Down { needs, .. } => self.probes.answers_in_row >= needs,
        };
        if news {
            self.state = State::Proven { since: now };
            self.probes.forget_losses();
        }
        news
    }

    /// Judges overdue probes. Returns true if the candidate went down.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> bool {
        let lost = self.probes.handle_timeout(now);
        match self.state {
            State::Proven { .. } if lost > 0 => {
                self.suspect(Suspicion::ProbeLost, now);
            }
            State::Suspected { judged_since, remaining: 0, .. } if !self.probes.any_open(judged_since) => {
                self.go_down(DownCause::Silent, now);
                return true;
            }
            _ => {}
        }
        false
    }

    /// Returns when the next probe is due; `pace` is the interval without a burst or a suspicion.
    pub(crate) fn due(&self, pace: Duration) -> Time {
        let gap = match (&self.state, self.probes.last_sent) {
            (_, None) => return self.not_before.unwrap_or(self.known_since),
            (State::Suspected { remaining: 1.., .. }, _) => {
                let (least, most) = QUICK_GAP;
                if self.is_due {
                    MIN_GAP
                } else {
                    (self.probes.round_trip().unwrap_or_default() / 2).clamp(least, most)
                }
            }
            _ if self.is_due => MIN_GAP,
            // All quick probes are sent. Another one would have to be waited for, too, and delay the verdict for ever.
            (State::Suspected { .. }, _) => pace.max(VERDICT_RETRY),
            _ if self.in_burst() => BURST[self.burst.saturating_sub(1).min(BURST.len() - 1)],
            (State::Down { .. }, _) if self.probes.answers_in_row > 0 => RETURN_GAP.min(pace),
            _ => pace + pace * self.stretch / 4 / 1_024,
        };
        let due = self.probes.last_sent.map_or(self.known_since, |sent| sent + gap);
        self.not_before.map_or(due, |earliest| due.max(earliest))
    }

    /// Returns true while the candidate is in its first burst and not yet proven and measured.
    fn in_burst(&self) -> bool {
        let enough = self.is_proven() && self.probes.shortest().is_some();
        self.burst <= BURST.len() && !enough
    }

    /// Returns the change of state since the last call, if it is one to report.
    pub(crate) fn poll_event(&mut self) -> Option<PathEvent> {
        let (before, way) = (std::mem::replace(&mut self.reported, self.state), self.way);
        match (before, self.state) {
            (State::Unproven | State::Down { .. }, State::Proven { .. }) => Some(PathEvent::CandidateProven { way }),
            (State::Proven { .. }, State::Suspected { reason, .. }) => Some(PathEvent::Suspected { way, reason }),
            (State::Suspected { .. }, State::Proven { .. }) => Some(PathEvent::SuspicionCleared { way }),
            (State::Proven { .. } | State::Suspected { .. }, State::Down { cause, .. }) => {
                Some(PathEvent::CandidateLost { way, reason: cause })
            }
            _ => None,
        }
    }

    /// Returns when a probe is overdue.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.probes.poll_timeout()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_proven_by_a_handshake_that_answers_no_probe_goes_down() {
        for reason in
            [Suspicion::ProbeLost, Suspicion::NetworkChanged, Suspicion::PeerMoved, Suspicion::DataUnacknowledged]
        {
            let way = Way::Direct(SocketAddr::from(([192, 0, 2, 1], 8288)));
            let mut now = Time::ZERO;
            let mut candidate = CandidateState::new(way, Origins::default(), now);
            candidate.prove(now);
            candidate.suspect(reason, now);
            while candidate.is_proven() && now < Time::ZERO + Duration::from_secs(60) {
                let pace = Duration::from_secs(1);
                if now >= candidate.due(pace) {
                    candidate.send(candidate.probes.sent, now);
                }
                candidate.handle_timeout(now);
                now = now + Duration::from_millis(10);
            }
            assert!(matches!(candidate.state, State::Down { cause: DownCause::Silent, .. }), "{reason:?}");
            assert!(
                now < Time::ZERO + Duration::from_secs(2) && candidate.probes.sent == u64::from(QUICK_PROBES),
                "{reason:?}: {now:?}"
            );
        }
    }
}

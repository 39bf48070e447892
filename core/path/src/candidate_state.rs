//! One way to the peer, and what is known of it.
//!
//! ```text
//!             answered on this very way             a probe lost, or data without receipts
//!  Unproven ──────────────────────────▶ Proven ◀──────────────────────────────────────────▶ Suspected: three quick probes
//!                                         ▲             one of the three answered             │ none of them answered
//!                                         └────────────── Down ◀──────────────────────────────┘ (or: loses too much)
//!                                             so many answers in a row
//! ```
//! A way that is down needs one answer to be back, and ever more of them when it goes down again within two minutes: a link that comes and goes every few
//! seconds is left alone for longer each time, and one that died once is back at once.

use core::net::SocketAddr;
use core::time::Duration;

use taut_base::Time;

use crate::event::PathEvent;
use crate::probes::Probes;
use crate::sizes::Sizes;
use crate::way::Way;

/// Probes that judge a suspected way. Of three, all are lost by chance once in a thousand times where a tenth is lost.
pub(crate) const QUICK: u8 = 3;

/// Between them: half a round trip, so that they do not share one moment's loss, and soon enough for all to be judged within three.
const QUICK_GAP: (Duration, Duration) = (Duration::from_millis(30), Duration::from_millis(200));

/// How long each is waited for when the lane has already waited for receipts, or the peer is heard elsewhere: silence on both counts is no queue that fills.
const QUICK_PATIENCE: (Duration, Duration) = (Duration::from_millis(60), Duration::from_secs(1));

/// The same before a round trip is known.
const QUICK_UNKNOWN: Duration = Duration::from_millis(250);

/// After news of a way: the two ends' first probes rarely cross in the right order, the next ones then do. The sum is 1.5 s.
pub(crate) const BURST: [Duration; 6] = [
    Duration::from_millis(60),
    Duration::from_millis(120),
    Duration::from_millis(180),
    Duration::from_millis(250),
    Duration::from_millis(350),
    Duration::from_millis(500),
];

/// A judgement without a verdict is begun anew after this: longer than any answer is waited for.
const VERDICT: Duration = Duration::from_secs(10);

/// News that come thicker than this do not begin another burst.
const BURST_APART: Duration = Duration::from_secs(2);

/// Between two probes of one way whatever happens.
pub(crate) const LEAST_GAP: Duration = Duration::from_millis(30);

/// Between the probes by which a way comes back that needs more than one answer.
const RETURN_GAP: Duration = Duration::from_millis(250);

/// Going down again within this time counts against a way.
const FLAPPING: Duration = Duration::from_secs(120);

/// Data without receipts though probes are answered, so often within [`DOUBTS_WITHIN`], and the way carries no data: too long packets, or a filter.
const DOUBTS: u8 = 4;
const DOUBTS_WITHIN: Duration = Duration::from_secs(10);

/// Where a way was heard of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    /// The coordinator's map lists it.
    pub listed: bool,
    /// The peer says so itself.
    pub said: bool,
    /// The peer's authentic packets came from there.
    pub heard: bool,
    /// A relay says that the peer is there.
    pub relay: bool,
}

/// What is known of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nobody has answered.
    Unproven,
    /// A probe was answered on it.
    Proven {
        /// Since when it leads there.
        since: Time,
    },
    /// It did, and is being judged.
    Suspected {
        /// Since when it leads there.
        since: Time,
        /// Since when it is being judged.
        from: Time,
        /// Quick probes still to be sent.
        left: u8,
        /// Why.
        by: Suspicion,
    },
    /// It leads there no more.
    Down {
        /// Since when.
        since: Time,
        /// Why.
        cause: DownCause,
        /// Answers in a row that bring it back.
        needs: u32,
    },
}

/// Why a way is suspected: the later, the stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suspicion {
    /// A probe was not answered.
    Lost,
    /// Our addresses or routes changed, or the peer's.
    Moved,
    /// The peer was just proven to be elsewhere, and is not heard from here any more.
    Elsewhere,
    /// Data is not receipted.
    Data,
}

/// Why a way is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownCause {
    /// Three quick probes were not answered.
    Silent,
    /// It loses much more than the relay does.
    Lossy,
    /// Probes are answered, and data is not receipted.
    NoData,
}

impl DownCause {
    /// Answers in a row that bring a way back that went down so often within a short time.
    fn needs(self, deaths: u32) -> u32 {
        match self {
            Self::Silent => [1, 3, 6, 12].get(deaths as usize - 1).copied().unwrap_or(12),
            // Five at the pace of a second or less: soon after the loss has ended. Where a third is lost for good, five in a row are rare.
            Self::Lossy => (5 * deaths).min(12),
            // Probes say nothing here: ten seconds.
            Self::NoData => 40,
        }
    }
}

/// One way to the peer.
#[derive(Clone, Debug)]
pub(crate) struct CandidateState {
    pub(crate) way: Way,
    pub(crate) origins: Origins,
    pub(crate) state: State,
    /// The state when [`Self::poll_event`] was last called.
    reported: State,
    pub(crate) probes: Probes,
    /// How long a packet may be, once data is lost where probes pass.
    pub(crate) sizes: Sizes,
    /// When it was last worth trying anew.
    pub(crate) news: Time,
    /// Known since.
    pub(crate) known: Time,
    burst: usize,
    /// Its next probe is due as soon as may be.
    soon: bool,
    /// The budget was used up: not before.
    pub(crate) not_before: Option<Time>,
    /// What gaps are stretched by, in 1,024ths: drawn anew with each probe, so that peers do not probe in step.
    pub(crate) stretch: u32,
    /// Where the peer saw our probes come from.
    pub(crate) seen: Option<SocketAddr>,
    /// When an authentic packet of the peer came this way last.
    pub(crate) heard: Option<Time>,
    /// Probes of the peer that came this way.
    pub(crate) asked: u64,
    /// Answers to probes of this way that came by another.
    pub(crate) elsewhere: u64,
    /// Probes that the budget refused.
    pub(crate) refused: u64,
    deaths: u32,
    died: Option<Time>,
    doubts: (u8, Option<Time>),
}

impl CandidateState {
    pub(crate) fn new(way: Way, origins: Origins, now: Time) -> Self {
        Self {
            way,
            origins,
            state: State::Unproven,
            reported: State::Unproven,
            probes: Probes::default(),
            sizes: Sizes::default(),
            news: now,
            known: now,
            burst: 0,
            soon: true,
            not_before: None,
            stretch: 0,
            seen: None,
            heard: None,
            asked: 0,
            elsewhere: 0,
            refused: 0,
            deaths: 0,
            died: None,
            doubts: (0, None),
        }
    }

    /// Whether it leads to the peer, as far as is known.
    pub(crate) fn is_proven(&self) -> bool {
        matches!(self.state, State::Proven { .. } | State::Suspected { .. })
    }

    /// Whether an answer on it may be relied on now.
    pub(crate) fn is_sound(&self) -> bool {
        matches!(self.state, State::Proven { .. })
    }

    /// Whether it was given up, and is answered again.
    pub(crate) fn is_returning(&self) -> bool {
        matches!(self.state, State::Down { .. }) && self.probes.answers_in_row > 0
    }

    /// Since when it leads to the peer.
    pub(crate) fn proven_since(&self) -> Option<Time> {
        match self.state {
            State::Proven { since } | State::Suspected { since, .. } => Some(since),
            State::Unproven | State::Down { .. } => None,
        }
    }

    /// Something changed: it is tried at once, and several times.
    pub(crate) fn try_anew(&mut self, now: Time) {
        if self.burst == 0 || now.since(self.news) >= BURST_APART {
            (self.burst, self.news) = (0, now);
        }
        self.soon = true;
    }

    /// It is tried at once.
    pub(crate) fn try_soon(&mut self) {
        self.soon = true;
    }

    /// A handshake went this way and back: as good as an answered probe.
    pub(crate) fn prove(&mut self, now: Time) {
        if !self.is_proven() {
            self.state = State::Proven { since: now };
            self.probes.forget_losses();
        }
    }

    /// It is to be judged. Says whether that is new.
    pub(crate) fn suspect(&mut self, why: Suspicion, now: Time) -> bool {
        match &mut self.state {
            State::Proven { since } => {
                self.state = State::Suspected { since: *since, from: now, left: QUICK, by: why };
                self.soon = true;
                true
            }
            State::Suspected { by, .. } => {
                *by = why.max(*by);
                false
            }
            State::Unproven | State::Down { .. } => false,
        }
    }

    /// Data is not receipted. When that is so again and again after probes were answered, the way carries no data, and goes down for it.
    pub(crate) fn doubt(&mut self, now: Time) {
        if self.suspect(Suspicion::Data, now) {
            let (count, since) = &mut self.doubts;
            if since.is_none_or(|since| now.since(since) >= DOUBTS_WITHIN) {
                (*count, *since) = (0, Some(now));
            }
            *count = count.saturating_add(1);
            if *count >= DOUBTS {
                self.doubts = (0, None);
                // Where probes are lost as well, it is no matter of data.
                self.go_down(if self.probes.lost_none() { DownCause::NoData } else { DownCause::Lossy }, now);
            }
        }
    }

    /// It leads there no more.
    pub(crate) fn go_down(&mut self, cause: DownCause, now: Time) {
        let again = self.died.is_some_and(|died| now.since(died) < FLAPPING);
        self.deaths = if again { self.deaths.saturating_add(1) } else { 1 };
        self.died = Some(now);
        self.state = State::Down { since: now, cause, needs: cause.needs(self.deaths) };
        self.probes.answers_in_row = 0;
        self.news = now;
        if cause == DownCause::NoData {
            self.sizes.begin(now);
        }
    }

    /// Nothing is known of it any more but where it was heard of.
    pub(crate) fn forget(&mut self, now: Time) {
        *self = Self { seen: self.seen, soon: false, ..Self::new(self.way, self.origins, now) };
    }

    /// A probe leaves by it.
    pub(crate) fn send(&mut self, id: u64, now: Time) {
        let patience = match &mut self.state {
            State::Suspected { left, by, .. } => {
                *left = left.saturating_sub(1);
                let (least, most) = QUICK_PATIENCE;
                let quick = self.probes.round_trip().map_or(QUICK_UNKNOWN, |mean| (mean * 2).clamp(least, most));
                (*by >= Suspicion::Elsewhere).then_some(quick)
            }
            _ => {
                self.burst = (self.burst + 1).min(BURST.len() + 1);
                None
            }
        };
        (self.soon, self.not_before) = (false, None);
        self.probes.send(id, patience, now);
    }

    /// An answer came by it to a probe that went by it. Says whether it leads to the peer from now on, and did not before.
    pub(crate) fn answer(&mut self, id: u64, seen: SocketAddr, now: Time) -> bool {
        let Some(sent) = self.probes.answer(id, now) else { return false };
        self.seen = Some(seen);
        self.heard = Some(now);
        let news = match self.state {
            State::Unproven => true,
            State::Proven { .. } => return false,
            State::Suspected { since, from, .. } => {
                if sent >= from {
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

    /// Judges. Says whether it went down.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> bool {
        let lost = self.probes.handle_timeout(now);
        match self.state {
            State::Proven { .. } if lost > 0 => {
                self.suspect(Suspicion::Lost, now);
            }
            State::Suspected { from, left: 0, .. } if !self.probes.any_open(from) => {
                self.go_down(DownCause::Silent, now);
                return true;
            }
            _ => {}
        }
        false
    }

    /// When its next probe is due, if it is otherwise probed at this `pace`.
    pub(crate) fn due(&self, pace: Duration) -> Time {
        let gap = match (&self.state, self.probes.last_sent) {
            (_, None) => return self.not_before.unwrap_or(self.known),
            (State::Suspected { left: 1.., .. }, _) => {
                let (least, most) = QUICK_GAP;
                if self.soon {
                    LEAST_GAP
                } else {
                    (self.probes.round_trip().unwrap_or_default() / 2).clamp(least, most)
                }
            }
            _ if self.soon => LEAST_GAP,
            // The quick ones are out: another probe would be one more to wait for, and the verdict would never come.
            (State::Suspected { .. }, _) => pace.max(VERDICT),
            _ if self.in_burst() => BURST[self.burst.saturating_sub(1).min(BURST.len() - 1)],
            (State::Down { .. }, _) if self.probes.answers_in_row > 0 => RETURN_GAP.min(pace),
            _ => pace + pace * self.stretch / 4 / 1_024,
        };
        let due = self.probes.last_sent.map_or(self.known, |sent| sent + gap);
        self.not_before.map_or(due, |earliest| due.max(earliest))
    }

    /// Whether it is being tried in haste: until it is proven and measured.
    fn in_burst(&self) -> bool {
        let enough = self.is_proven() && self.probes.shortest().is_some();
        self.burst <= BURST.len() && !enough
    }

    /// Returns the change of state since the last call, if it is one that users may want to know of.
    pub(crate) fn poll_event(&mut self) -> Option<PathEvent> {
        let (before, way) = (std::mem::replace(&mut self.reported, self.state), self.way);
        match (before, self.state) {
            (State::Unproven | State::Down { .. }, State::Proven { .. }) => Some(PathEvent::CandidateProven { way }),
            (State::Proven { .. }, State::Suspected { by, .. }) => Some(PathEvent::Suspected { way, reason: by }),
            (State::Suspected { .. }, State::Proven { .. }) => Some(PathEvent::SuspicionCleared { way }),
            (State::Proven { .. } | State::Suspected { .. }, State::Down { cause, .. }) => {
                Some(PathEvent::CandidateLost { way, reason: cause })
            }
            _ => None,
        }
    }

    /// When something is to be judged.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.probes.poll_timeout()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_that_only_a_handshake_proved_and_that_answers_nothing_goes_down() {
        for why in [Suspicion::Lost, Suspicion::Moved, Suspicion::Elsewhere, Suspicion::Data] {
            let way = Way::Direct(SocketAddr::from(([192, 0, 2, 1], 8288)));
            let mut now = Time::ZERO;
            let mut track = CandidateState::new(way, Origins::default(), now);
            track.prove(now);
            track.suspect(why, now);
            while track.is_proven() && now < Time::ZERO + Duration::from_secs(60) {
                let pace = Duration::from_secs(1);
                if now >= track.due(pace) {
                    track.send(track.probes.sent, now);
                }
                track.handle_timeout(now);
                now = now + Duration::from_millis(10);
            }
            assert!(matches!(track.state, State::Down { cause: DownCause::Silent, .. }), "{why:?}");
            assert!(
                now < Time::ZERO + Duration::from_secs(2) && track.probes.sent == u64::from(QUICK),
                "{why:?}: {now:?}"
            );
        }
    }
}

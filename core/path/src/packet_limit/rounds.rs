//! The rounds of a search: the times between probes, the verdict on sizes that were not answered, and the sizes that follow.

use core::time::Duration;
use std::vec::Vec;

use taut_base::{DEFAULT_MTU, SAFE_PACKET, Time};

use super::{Conditions, Finding, PacketLimit, SHORTEST, Step, sizes};

/// Probes of each size, so that random loss rarely hides one: where a tenth of all packets is lost, three in a row are lost once in a thousand times.
const TRIES: u8 = 3;

/// Bounds of the time between two probes of one size: a round-trip time and a quarter of it, which is when an answer is late. The shortest allows for a busy host.
const RETRY: (Duration, Duration) = (Duration::from_millis(25), Duration::from_secs(1));

/// Bounds of the time that the answer to the last probe of a size is waited for: two round-trip times. As for quick probes (`candidate_state`).
const PATIENCE: (Duration, Duration) = (Duration::from_millis(60), Duration::from_secs(2));

/// Round-trip time that is assumed before one was measured, 100 ms.
const UNMEASURED: Duration = Duration::from_millis(100);

/// Time between two probes of a longer size while nothing changes, 10 minutes: a link that carries more is used soon enough, and the probe costs nothing.
const GROWTH: Duration = Duration::from_secs(600);

/// Time after which a path that shrank is asked for a longer size again, 5 s, four times as long each time up to [`GROWTH`]: random loss may have hidden the size.
const FIRST_LOOK: Duration = Duration::from_secs(5);

/// Time until a peer that answered no sized probe is asked again, 1 s, doubled each time up to [`GROWTH`]: the path may have failed during the search.
const FIRST_REPEAT: Duration = Duration::from_secs(1);

impl PacketLimit {
    /// Returns when the next transmission of the round that was sent now follows, or the verdict after the last.
    pub(super) fn continues_at(&self, of: &Conditions, now: Time) -> Time {
        let round_trip = of.round_trip.max(self.round_trip).unwrap_or(UNMEASURED);
        if self.step == Step::Settled {
            self.longer_at.unwrap_or(now + self.rest())
        } else if self.tries >= TRIES {
            now + (round_trip * 2).clamp(PATIENCE.0, PATIENCE.1)
        } else {
            now + (round_trip + round_trip / 4).clamp(RETRY.0, RETRY.1)
        }
    }

    /// Returns the pause until the next probe while nothing changes.
    fn rest(&self) -> Duration {
        match self.silent_searches {
            0 => self.looks.map_or(GROWTH, |looks| FIRST_LOOK.saturating_mul(1 << (2 * looks.min(5))).min(GROWTH)),
            searches => FIRST_REPEAT.saturating_mul(1 << (searches - 1).min(10)).min(GROWTH),
        }
    }

    /// All probes of the round were sent, and the time for their answers is over: repeats those that are lost, or judges them.
    pub(super) fn end_round(&mut self, of: &Conditions, now: Time) {
        if self.step == Step::Settled {
            return self.grow(of, now);
        }
        let lost: Vec<u16> = self.round.iter().copied().filter(|size| *size > self.passes).collect();
        if lost.is_empty() && self.settled == Some(self.passes) && self.step == Step::Rechecking {
            if self.looks_further {
                self.step = Step::Searching;
                return self.next_round(of, now);
            }
            return self.settle(self.passes, Finding::Answered, now);
        }
        if !lost.is_empty() && self.tries < TRIES {
            (self.unsent, self.tries) = (lost, self.tries + 1);
            return;
        }
        // Without answers to short probes, loss says nothing about lengths. An answer is waited for.
        if !lost.is_empty() && !of.answers {
            self.due = Some(now + PATIENCE.0);
            return;
        }
        if !lost.is_empty() && self.step == Step::Rechecking {
            self.lowered = true;
            return self.search(of, now);
        }
        self.step = Step::Searching;
        self.fails = lost.first().copied().into_iter().chain(self.fails).min();
        self.next_round(of, now);
    }

    /// Starts a search with the common sizes.
    pub(super) fn search(&mut self, of: &Conditions, now: Time) {
        (self.step, self.passes, self.fails, self.descends) = (Step::Searching, 0, None, false);
        self.start_round(sizes::first(of.way, self.before, of.longest), now);
    }

    fn start_round(&mut self, sizes: Vec<u16>, now: Time) {
        self.unsent.clone_from(&sizes);
        (self.round, self.tries, self.due) = (sizes, 1, Some(now));
    }

    /// Chooses the sizes of the next round, or ends the search.
    fn next_round(&mut self, of: &Conditions, now: Time) {
        let sizes = match (self.passes, self.fails) {
            // A size that passed although no search asked for it is the start of a search upward.
            (1.., None) if self.passes < of.longest => {
                let longer = sizes::first(of.way, self.before, of.longest);
                longer.into_iter().filter(|size| *size > self.passes).collect()
            }
            (1.., None) => Vec::new(),
            (1.., Some(fails)) => sizes::between(self.passes, fails),
            // Pieces of the shortest length carry data meanwhile.
            (0, fails) if of.takes_pieces && !self.descends => {
                (self.descends, self.assumed) = (true, SHORTEST);
                let longer = sizes::between(SHORTEST, fails.unwrap_or(SAFE_PACKET));
                [SHORTEST].into_iter().chain(longer).collect()
            }
            (0, _) => Vec::new(),
        };
        if !sizes.is_empty() {
            return self.start_round(sizes, now);
        }
        let unanswered = if of.takes_pieces { SHORTEST } else { DEFAULT_MTU.min(of.longest) };
        match self.passes {
            0 => self.settle(unanswered, Finding::Unanswered, now),
            passes => self.settle(passes, Finding::Answered, now),
        }
    }

    fn settle(&mut self, limit: u16, finding: Finding, now: Time) {
        self.silent_searches = if finding == Finding::Answered { 0 } else { self.silent_searches.saturating_add(1) };
        if finding != Finding::Answered || (self.settled, self.finding) != (Some(limit), finding) {
            let shrank = finding == Finding::Answered && self.before.is_some_and(|before| limit < before);
            self.looks = shrank.then_some(0);
            self.longer_at = Some(now + self.rest());
        }
        (self.step, self.settled, self.finding) = (Step::Settled, Some(limit), finding);
        self.looks_further = false;
        if finding == Finding::Answered {
            self.before = Some(limit);
        }
        (self.round, self.unsent, self.due) = (Vec::new(), Vec::new(), self.longer_at);
    }

    /// Nothing changed for a while: probes the next longer size once.
    fn grow(&mut self, of: &Conditions, now: Time) {
        let limit = self.settled.unwrap_or(SAFE_PACKET);
        let next = match self.finding {
            Finding::Unanswered if of.takes_pieces => Some(SHORTEST),
            Finding::Unanswered => Some(SAFE_PACKET),
            Finding::Answered | Finding::None => sizes::next(of.way, limit, of.longest),
        };
        self.silent_searches += u32::from(self.finding == Finding::Unanswered);
        self.looks = self.looks.map(|looks| looks.saturating_add(1));
        self.longer_at = Some(now + self.rest());
        match next {
            Some(size) => self.unsent = vec![size],
            None => self.due = None,
        }
    }
}

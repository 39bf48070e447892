//! The packet limit of one candidate: bytes of the longest inner packet that one datagram carries (docs/internals/mtu.md).
//!
//! ```text
//!           begin         all sizes of a round are answered, or lost three times
//! Unknown ─────────▶ Searching ─────────────────────────────────────────────▶ Settled ◀─┐ every 10 minutes one probe of the next size,
//!    ▲                  ▲  └── rounds: common sizes, then sizes between ◀──┘    │    └──┘ sooner after the path shrank
//!    │                  │  the present size is lost three times, or             │ recheck: long packets or data were lost, the network changed
//!    │                  │  it is answered after a change of the network         │
//!    │                  └────────────────────────── Rechecking ◀────────────────┘
//!    └ reset: the candidate is down                    └── the present size is answered ──▶ Settled
//! ```
//! A sized probe is a probe that is padded to the length of an inner packet; its answer is short. An answer to a probe of *n* bytes proves *n*, at once and also when it is late.
//! A size counts as too long only after three probes of it were lost while shorter probes were answered. Forged ICMP errors have no effect, because only answers inside
//! the session count (fault I3).

mod rounds;
mod sizes;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::VecDeque;
use std::vec::Vec;

use taut_base::{DEFAULT_MTU, SAFE_PACKET, Time};

use crate::way::Way;

pub(crate) use sizes::{PRECISION, longest_on, overhead};

/// The shortest limit, 500 bytes: every IPv4 host takes 576 bytes (RFC 791), and 500 are left of them over IPv4 and through a relay. With pieces of this length even IPv6's
/// 1,280 bytes pass in three.
pub(crate) const SHORTEST: u16 = 500;

/// Limit on probes that wait for an answer: three of each size of the longest round.
const KEPT: usize = 3 * 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    /// No search has begun.
    #[default]
    Unknown,
    /// The present size is probed again.
    Rechecking,
    /// Sizes are probed in rounds.
    Searching,
    /// The last search ended.
    Settled,
}

/// The result of the last search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Finding {
    /// No search has ended yet.
    #[default]
    None,
    /// The settled size was answered.
    Answered,
    /// No sized probe was answered.
    Unanswered,
}

/// The facts about the candidate and the peer that a search depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions {
    /// The candidate.
    pub(crate) way: Way,
    /// The candidate's round-trip time, if it was measured.
    pub(crate) round_trip: Option<Duration>,
    /// True if short probes are answered now, so that a lost one was lost for its length.
    pub(crate) answers: bool,
    /// True if the peer takes packets in pieces.
    pub(crate) takes_pieces: bool,
    /// The longest size to look for.
    pub(crate) longest: u16,
}

/// The packet limit of one candidate, and the search for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacketLimit {
    step: Step,
    /// The longest size that was answered in this search; 0 if none was.
    passes: u16,
    /// The shortest size that was lost in this search.
    fails: Option<u16>,
    /// The limit while no size was answered in this search.
    assumed: u16,
    /// True if this search looks below [`SAFE_PACKET`].
    descends: bool,
    /// The sizes of the present round, and those of them that are still to be sent now.
    round: Vec<u16>,
    unsent: Vec<u16>,
    tries: u8,
    /// When the present round, or the pause after a search, ends.
    due: Option<Time>,
    /// Earliest time of the next probe after the budget refused one.
    not_before: Option<Time>,
    /// Probes that wait for an answer.
    asked: VecDeque<(u64, u16, Time)>,
    /// Round-trip time of the latest answer to a sized probe.
    round_trip: Option<Duration>,
    settled: Option<u16>,
    finding: Finding,
    /// The limit of the last search, also if the candidate was down since.
    before: Option<u16>,
    /// Searches in a row that nothing was answered in.
    silent_searches: u32,
    /// Probes of a longer size since a search ended with a shorter one than before; `None` after other searches.
    looks: Option<u32>,
    /// When a longer size than the settled one is probed. Rechecks that confirm the settled one do not delay it.
    longer_at: Option<Time>,
    /// True if the last recheck found that the size did not pass, until [`Self::take_lowered`].
    lowered: bool,
    /// True if longer sizes are tried as soon as the recheck has shown that the present one passes.
    looks_further: bool,
    reported: (Option<u16>, Finding),
}

impl PacketLimit {
    /// Returns true if no search has begun since [`Self::reset`].
    pub(crate) fn is_unknown(&self) -> bool {
        self.step == Step::Unknown
    }

    /// Returns true until a search has ended.
    pub(crate) fn is_searching(&self) -> bool {
        self.step != Step::Settled
    }

    /// Starts the first search, unless one has begun.
    pub(crate) fn begin(&mut self, of: &Conditions, now: Time) {
        if self.is_unknown() {
            self.assumed = SAFE_PACKET;
            self.search(of, now);
        }
    }

    /// Forgets the limit: the candidate leads nowhere. Its size is tried first when the candidate is back.
    pub(crate) fn reset(&mut self) {
        *self = Self { before: self.before, reported: self.reported, ..Self::default() };
    }

    /// Long packets or data may have been lost: the present size has to prove itself again.
    pub(crate) fn recheck(&mut self, now: Time) {
        let size = match (self.step, self.settled) {
            // There is no size to prove. The peer is asked once whether it answers sized probes by now.
            (Step::Settled, _) if self.finding == Finding::Unanswered => {
                self.due = Some(now);
                return;
            }
            (Step::Settled, Some(settled)) => settled,
            // A search that has found something: what it found may be wrong by now.
            (Step::Searching, _) if self.passes > SAFE_PACKET => self.passes,
            _ => return,
        };
        (self.step, self.passes, self.fails, self.tries) = (Step::Rechecking, 0, None, 1);
        self.assumed = if size > SAFE_PACKET { SAFE_PACKET } else { SHORTEST };
        (self.round, self.unsent) = (vec![size], vec![size]);
        // Answers to earlier probes say nothing about the present.
        self.asked.clear();
        (self.due, self.not_before) = (Some(now), None);
    }

    /// This host's network changed: the path may carry less than before, or more.
    pub(crate) fn handle_network_change(&mut self, now: Time) {
        self.recheck(now);
        self.looks_further |= self.step == Step::Rechecking;
    }

    /// Returns the limit of the packets that are sent now.
    pub(crate) fn momentary(&self) -> u16 {
        match (self.step, self.settled) {
            (Step::Settled, Some(settled)) => settled,
            (Step::Unknown, _) => SAFE_PACKET,
            _ => self.passes.max(self.assumed),
        }
    }

    /// Returns the limit that the last search found.
    pub(crate) const fn settled(&self) -> Option<u16> {
        self.settled
    }

    /// Returns what the last search found.
    pub(crate) const fn finding(&self) -> Finding {
        self.finding
    }

    /// Returns true once after a recheck found that packets of the size that was used do not pass.
    pub(crate) fn take_lowered(&mut self) -> bool {
        std::mem::take(&mut self.lowered)
    }

    /// Returns the settled limit if it changed since the last call; its inner value is `None` if no sized probe was answered. A first limit is worth telling only below
    /// [`DEFAULT_MTU`].
    pub(crate) fn poll_change(&mut self) -> Option<Option<u16>> {
        let present = (self.settled, self.finding);
        if self.settled.is_none() || present == self.reported {
            return None;
        }
        let (before, _) = std::mem::replace(&mut self.reported, present);
        if before.is_none() && self.finding == Finding::Answered && self.settled >= Some(DEFAULT_MTU) {
            return None;
        }
        Some(self.settled.filter(|_| self.finding == Finding::Answered))
    }

    /// Returns when [`Self::poll`] has something to do.
    pub(crate) fn due(&self) -> Option<Time> {
        self.due.map(|due| self.not_before.map_or(due, |earliest| due.max(earliest)))
    }

    /// Delays the next probe: the budget is used up.
    pub(crate) fn postpone(&mut self, until: Time) {
        self.not_before = Some(until);
    }

    /// Returns the size of the next probe if one is due; it is sent with this id. Call it until it returns `None`.
    pub(crate) fn poll(&mut self, of: &Conditions, id: u64, now: Time) -> Option<u16> {
        if self.due().is_none_or(|due| now < due) {
            return None;
        }
        self.not_before = None;
        if self.unsent.is_empty() {
            self.end_round(of, now);
        }
        // The longest first: what it proves needs no other probe.
        while let Some(size) = self.unsent.pop() {
            if size <= self.passes && self.step != Step::Settled {
                continue;
            }
            if self.unsent.is_empty() {
                self.due = Some(self.continues_at(of, now));
            }
            if self.asked.len() == KEPT {
                self.asked.pop_front();
            }
            self.asked.push_back((id, size, now));
            return Some(size);
        }
        None
    }

    /// Takes an answer. Returns true if it answers a sized probe.
    pub(crate) fn answer(&mut self, id: u64, now: Time) -> bool {
        let Some(place) = self.asked.iter().position(|(asked, ..)| *asked == id) else { return false };
        let Some((_, size, sent)) = self.asked.remove(place) else { return false };
        self.round_trip = Some(now.since(sent));
        if self.step == Step::Settled
            && self.settled.is_some_and(|settled| size > settled || self.finding == Finding::Unanswered)
        {
            // More passes than the last search found.
            (self.step, self.passes, self.fails) = (Step::Searching, size, None);
            (self.round, self.unsent, self.due) = (Vec::new(), Vec::new(), Some(now));
            return true;
        }
        self.passes = self.passes.max(size);
        if self.fails.is_some_and(|fails| fails <= size) {
            self.fails = None;
        }
        if self.step != Step::Settled && self.round.iter().all(|size| *size <= self.passes) {
            self.unsent.clear();
            self.due = Some(now);
        }
        true
    }
}

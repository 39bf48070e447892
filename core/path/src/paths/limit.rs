//! The packet limits of the candidates: when they are searched, and what is reported of them. The search itself is [`crate::packet_limit`].

use taut_base::{Entropy, SAFE_PACKET, Time};

use super::pace::CONSENT_LASTS;
use super::{BUDGET_RETRY, Paths, Probe, SIZED, draw_id};
use crate::budget::Budget;
use crate::candidate_state::CandidateState;
use crate::event::PathEvent;
use crate::packet_limit::{Conditions, longest_on};
use crate::way::Way;

impl Paths {
    /// Returns the packet limit of data on `way` now. Copies of it take the path `also`, and shall pass there, too.
    pub(super) fn limit(&self, way: Way, also: Option<Way>) -> u16 {
        let momentary = |way| self.find(way).map_or(SAFE_PACKET, |candidate| candidate.limit.momentary());
        also.map_or(u16::MAX, momentary).min(momentary(way))
    }

    /// Returns the settled limit of the path in use if it differs from the one returned last.
    pub(super) fn next_limit(&mut self) -> Option<u16> {
        let settled = self.find(self.way?)?.limit.settled()?;
        (self.reported_limit.replace(settled) != Some(settled)).then_some(settled)
    }

    /// Returns the next change of a settled limit.
    pub(super) fn next_limit_change(&mut self) -> Option<PathEvent> {
        self.candidates.iter_mut().find_map(|candidate| {
            let longest = candidate.limit.poll_change()?;
            Some(PathEvent::PacketLimitChanged { way: candidate.way, longest })
        })
    }

    /// Returns the next sized probe. They are sent on the path in use and its spare, and only where a probe was answered within the last minute.
    pub(super) fn next_sized(&mut self, budget: &Budget, entropy: &mut impl Entropy, now: Time) -> Option<Probe> {
        for place in 0..self.candidates.len() {
            if !self.is_searched(&self.candidates[place], now) {
                continue;
            }
            let takes_pieces = self.takes_pieces;
            let candidate = &mut self.candidates[place];
            let conditions = Conditions {
                way: candidate.way,
                round_trip: candidate.probes.round_trip(),
                answers: candidate.is_unsuspected(),
                takes_pieces,
                longest: longest_on(candidate.way, budget.longest()),
            };
            candidate.limit.begin(&conditions, now);
            if candidate.limit.due().is_none_or(|due| now < due) {
                continue;
            }
            if !self.sized.has(&SIZED, now) {
                candidate.limit.postpone(now + BUDGET_RETRY);
                continue;
            }
            let id = draw_id(entropy);
            let size = candidate.limit.poll(&conditions, id, now);
            let way = candidate.way;
            if candidate.limit.take_lowered() {
                candidate.excuse_data();
                self.recheck_others(place, now);
            }
            if let Some(size) = size {
                self.sized.take(&SIZED, now);
                return Some(Probe { way, id, size });
            }
        }
        None
    }

    /// Rechecks all candidates but the one at `place`, whose path shrank: they may have the same router in them, and the spare should know before it is used.
    fn recheck_others(&mut self, place: usize, now: Time) {
        let others = self.candidates.iter_mut().enumerate().filter(|(other, _)| *other != place);
        others.for_each(|(_, candidate)| candidate.limit.recheck(now));
    }

    /// Returns true if sized probes may be sent on a candidate: the path in use, and its spare as soon as the search on the path in use has ended, because
    /// both searches share one allowance.
    fn is_searched(&self, candidate: &CandidateState, now: Time) -> bool {
        let way = Some(candidate.way);
        if self.way == way {
            return self.may_probe_sizes(candidate, now);
        }
        let is_spare = self.reported_choice.is_some_and(|choice| choice.spare == way);
        let in_use = self.way.and_then(|way| self.find(way));
        let waits = in_use.is_some_and(|in_use| in_use.limit.is_searching() && self.may_probe_sizes(in_use, now));
        is_spare && !waits && self.may_probe_sizes(candidate, now)
    }

    /// Returns true if a candidate leads to the peer, and sized probes to it are wanted there.
    fn may_probe_sizes(&self, candidate: &CandidateState, now: Time) -> bool {
        let consents = candidate.probes.last_answer.is_some_and(|last| now.since(last) < CONSENT_LASTS);
        let usable = self.session && !self.is_idle && self.families.has(candidate.way);
        usable && consents && candidate.is_proven()
    }

    /// Returns when the next sized probe, or the end of a round of them, is due.
    pub(super) fn sized_due(&self, now: Time) -> Option<Time> {
        let searched = self.candidates.iter().filter(|candidate| self.is_searched(candidate, now));
        searched
            .filter_map(|candidate| if candidate.limit.is_unknown() { Some(now) } else { candidate.limit.due() })
            .min()
    }
}

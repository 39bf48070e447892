//! What users see of a peer's paths.

use core::time::Duration;

use taut_base::Time;

use super::Paths;
use crate::candidate_state::{CandidateState, State};
use crate::choice;
use crate::nat::Nat;
use crate::packet_limit::Finding;
use crate::report::{EndpointLocation, LocalNetwork, PathReport, Verdict, WayLimit, WayReport};
use crate::way::Way;

/// A summary of a peer's path, as `taut status` shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathView {
    /// The path that data takes.
    pub way: Option<Way>,
    /// When data took it; `None` for a peer without a session.
    pub since: Option<Time>,
    /// The round-trip time.
    pub round_trip: Option<Duration>,
    /// Lost probes in per cent, of the latest 16.
    pub loss: Option<u32>,
    /// The settled packet limit of the path, once a search has ended.
    pub limit: Option<u16>,
    /// True if the path is suspected.
    pub suspected: bool,
    /// True if nothing answers through the path, and there is no other one.
    pub silent: bool,
    /// Direct candidates: proven ones, and all.
    pub direct: (usize, usize),
    /// Changes of the path so far.
    pub changes: u64,
    /// Suspicions raised by lanes so far.
    pub suspicions: u64,
    /// The NAT in front of the peer, as the peer reports it.
    pub peer_nat: Nat,
}

impl Paths {
    /// Returns the summary.
    pub fn view(&self) -> PathView {
        let candidate = self.way.and_then(|way| self.find(way));
        let direct = self.candidates.iter().filter(|candidate| !candidate.way.is_relayed());
        PathView {
            way: self.way,
            since: Some(self.since),
            round_trip: candidate.and_then(|candidate| candidate.probes.round_trip()),
            loss: candidate.and_then(|candidate| candidate.probes.loss()),
            limit: candidate.and_then(|candidate| candidate.limit.settled()),
            suspected: candidate.is_some_and(|candidate| matches!(candidate.state, State::Suspected { .. })),
            silent: candidate.is_some_and(|candidate| {
                matches!(candidate.state, State::Down { .. })
                    || (!candidate.is_proven() && choice::is_silent(candidate))
            }),
            direct: (direct.clone().filter(|candidate| candidate.is_proven()).count(), direct.count()),
            changes: self.changes,
            suspicions: self.suspicions,
            peer_nat: Nat::from_number(self.peer_nat),
        }
    }

    /// Returns all candidates with their counts and the explanation, as `taut why` shows them.
    pub fn report(&self, here: &LocalNetwork<'_>, now: Time) -> PathReport {
        let local_nat = here.nat;
        let ways: Vec<WayReport> =
            self.candidates.iter().map(|candidate| self.report_way(candidate, here, now)).collect();
        let peer_nat = Nat::from_number(self.peer_nat);
        let asleep = !self.session || self.is_idle;
        let guessed = self.search_progress(local_nat.is_hard());
        let verdict = Verdict::of(self.way, &ways, asleep, peer_nat, self.families, guessed, here);
        PathReport {
            way: self.way,
            for_long: self.way.map(|_| now.since(self.since)),
            verdict,
            local_nat,
            peer_nat,
            ways,
        }
    }

    fn report_way(&self, candidate: &CandidateState, here: &LocalNetwork<'_>, now: Time) -> WayReport {
        WayReport {
            way: candidate.way,
            origins: candidate.origins,
            in_use: self.way == Some(candidate.way),
            known_for: now.since(candidate.known_since),
            proven_for: candidate.proven_since().map(|since| now.since(since)),
            down: match candidate.state {
                State::Down { since, cause, .. } => Some((now.since(since), cause)),
                _ => None,
            },
            suspected: matches!(candidate.state, State::Suspected { .. }),
            sent: candidate.probes.sent,
            answered: candidate.probes.answered,
            answered_elsewhere: candidate.answered_elsewhere,
            peer_probes: candidate.peer_probes,
            heard_ago: candidate.last_heard.map(|heard| now.since(heard)),
            refused: candidate.refused,
            round_trip: candidate.probes.round_trip(),
            loss: candidate.probes.loss(),
            fits: candidate.limit.settled().filter(|_| candidate.limit.finding() == Finding::Answered),
            limit: candidate.is_proven().then(|| WayLimit::of(candidate.way, &candidate.limit, here)),
            seen_as: candidate.seen,
            place: candidate.way.direct().map_or(EndpointLocation::Public, |endpoint| here.place(endpoint)),
            family: self.families.has(candidate.way),
            asleep: !self.session || self.is_idle,
        }
    }
}

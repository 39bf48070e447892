//! What a user may see of a peer's paths.

use core::time::Duration;

use taut_base::Time;

use super::Paths;
use crate::candidate_state::{CandidateState, State};
use crate::nat::Nat;
use crate::report::{Here, Place, Report, Verdict, WayReport};
use crate::way::Way;

/// A peer's path, in short: what `taut status` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The way data takes.
    pub way: Option<Way>,
    /// Since when.
    pub since: Time,
    /// How long a packet takes there and back.
    pub round_trip: Option<Duration>,
    /// Lost probes in per cent, of the latest 16.
    pub loss: Option<u32>,
    /// Whether it is being judged.
    pub suspected: bool,
    /// Direct endpoints that lead to the peer, and those that are known.
    pub direct: (usize, usize),
    /// How often the way has changed.
    pub changes: u64,
    /// How often a lane suspected it.
    pub suspicions: u64,
    /// The NAT in front of the peer, as it says.
    pub their_nat: Nat,
}

impl Paths {
    /// In short.
    pub fn view(&self) -> View {
        let track = self.way.and_then(|way| self.find(way));
        let direct = self.tracks.iter().filter(|track| !track.way.is_relayed());
        View {
            way: self.way,
            since: self.since,
            round_trip: track.and_then(|track| track.probes.round_trip()),
            loss: track.and_then(|track| track.probes.loss()),
            suspected: track.is_some_and(|track| matches!(track.state, State::Suspected { .. })),
            direct: (direct.clone().filter(|track| track.is_proven()).count(), direct.count()),
            changes: self.changes,
            suspicions: self.suspicions,
            their_nat: Nat::from_number(self.their_nat),
        }
    }

    /// At length, with reasons: what `taut why` shows.
    pub fn report(&self, here: &Here<'_>, now: Time) -> Report {
        let our_nat = here.nat;
        let ways: Vec<WayReport> = self.tracks.iter().map(|track| self.report_way(track, here, now)).collect();
        let their_nat = Nat::from_number(self.their_nat);
        let asleep = !self.session || self.let_go;
        let guessed = self.guessed(our_nat.is_hard());
        let verdict = Verdict::of(self.way, &ways, asleep, their_nat, self.families, guessed, here);
        Report { way: self.way, for_long: self.way.map(|_| now.since(self.since)), verdict, our_nat, their_nat, ways }
    }

    fn report_way(&self, track: &CandidateState, here: &Here<'_>, now: Time) -> WayReport {
        WayReport {
            way: track.way,
            origins: track.origins,
            in_use: self.way == Some(track.way),
            known_for: now.since(track.known),
            proven_for: track.proven_since().map(|since| now.since(since)),
            down: match track.state {
                State::Down { since, cause, .. } => Some((now.since(since), cause)),
                _ => None,
            },
            suspected: matches!(track.state, State::Suspected { .. }),
            sent: track.probes.sent,
            answered: track.probes.answered,
            answered_elsewhere: track.elsewhere,
            asked: track.asked,
            heard_ago: track.heard.map(|heard| now.since(heard)),
            refused: track.refused,
            round_trip: track.probes.round_trip(),
            loss: track.probes.loss(),
            fits: track.sizes.fits(here.longest),
            seen_as: track.seen,
            place: track.way.direct().map_or(Place::Far, |endpoint| here.place(endpoint)),
            family: self.families.has(track.way),
            asleep: !self.session || self.let_go,
        }
    }
}

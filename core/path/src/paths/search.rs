//! When a port that nobody knows is looked for, and where: the rules of [`crate::search`] for one peer.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use taut_base::{Entropy, Time};
use taut_wire::control::Search;

use super::pace::CONSENT;
use super::{CandidateState, Paths};
use crate::budget::{Budget, Grant};
use crate::candidates::acceptable;
use crate::choice::is_private;
use crate::event::PathEvent;
use crate::local_endpoints::LocalEndpoints;
use crate::nat::Nat;
use crate::nat_report::Foretold;
use crate::search::{AT_RANDOM, BEFORE, FAR, Guessed, NEAR, ROUNDS, counted, odds};
use crate::way::Way;

/// How long sockets stay open for one round: the other end needs two seconds for its guesses, the message on its way to it and the answer the rest.
pub(crate) const LASTS: Duration = Duration::from_secs(4);

/// For so long after that the one that is kept waits for its proof.
const GRACE: Duration = Duration::from_secs(1);

/// A round of looking for a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchRound {
    /// What the peer is asked for, by the relay.
    pub ask: Search,
    /// Sockets that are to be opened beside it.
    pub search: Option<PortSearch>,
}

/// Many sockets towards one endpoint of the peer, for a short time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSearch {
    /// Where each of them sends a probe.
    pub to: SocketAddr,
    /// How many, at most.
    pub sockets: u16,
    /// How long they stay open, but for the one where an authentic packet of the peer arrives.
    pub lasts: Duration,
}

impl Paths {
    /// A round that begins now, if one is due and makes sense: the two talk, by a relay, and ours is a NAT that gives each destination another port.
    pub(super) fn next_search(&mut self, ours: &LocalEndpoints, budget: &mut Budget, now: Time) -> Option<SearchRound> {
        if !self.searches(now) {
            return None;
        }
        self.rounds.renew(self.news);
        if self.rounds.due().is_none_or(|due| now < due) {
            return None;
        }
        let Some(round) = self.plan(ours, budget, now) else {
            self.rounds.put_off(now);
            return None;
        };
        self.rounds.begin(now);
        if let Some(search) = round.search {
            self.open_search = Some((search.to, now + search.lasts + GRACE));
        }
        let (number, sockets) = (self.rounds.made(), round.search.map_or(0, |search| search.sockets));
        self.events.push(PathEvent::SearchOpened { round: number, ports: round.ask.ports, sockets });
        self.odds = if round.ask.step == 0 { odds(round.ask.sockets, round.ask.ports) } else { 0 };
        Some(round)
    }

    /// Whether anybody would gain by it.
    fn searches(&self, now: Time) -> bool {
        self.session && !self.let_go && self.is_talking(now) && self.way.is_some_and(|way| way.is_relayed())
    }

    /// Whether the sockets of the last search are of no use any more: said once.
    pub(super) fn close_search(&mut self, now: Time) -> bool {
        if self.fill_due().is_none_or(|due| now < due) {
            return false;
        }
        if let Some((target, _)) = self.open_search.take() {
            let found = self.find(Way::Direct(target)).is_some_and(|track| track.probes.last_answer.is_some());
            self.events.push(PathEvent::SearchClosed { target, found });
        }
        true
    }

    /// Whether there may be sockets of a search.
    pub fn has_open_search(&self) -> bool {
        self.open_search.is_some()
    }

    /// When they are of no use, if nothing is proven or answered before. What died may be back while its NAT remembers it.
    fn fill_due(&self) -> Option<Time> {
        let (place, until) = self.open_search?;
        let track = self.find(Way::Direct(place)).filter(|_| self.session && !self.let_go);
        match track {
            Some(track) if track.is_proven() => None,
            Some(track) => Some(track.probes.last_answer.map_or(until, |last| until.max(last + CONSENT))),
            None => Some(until),
        }
    }

    /// What is to be tried next.
    fn plan(&self, ours: &LocalEndpoints, budget: &mut Budget, now: Time) -> Option<SearchRound> {
        let Foretold { latest, step } = ours.foretold().filter(|foretold| may_be_guessed(foretold.latest))?;
        let there = self.public()?;
        let from = |further: u32| SocketAddr::new(latest.ip(), counted(latest.port(), further));
        let row = |further: u32, step: u8, ports: u16| Search { from: from(further), step, ports, sockets: 0 };
        let wide = u32::from(step);
        let ask = match (Nat::from_number(self.their_nat), step, self.rounds.made()) {
            (Nat::Symmetric | Nat::Blocked, ..) | (Nat::Sequential, 0, _) => return None,
            (Nat::Sequential, ..) => {
                // What we guessed before has taken ports, too.
                let taken = u32::try_from(self.guesses.sent).unwrap_or(0) * wide;
                let theirs = if latest.ip() < there.ip() { 1 } else { 2 };
                row(taken + wide * theirs, step.checked_mul(u8::try_from(theirs).unwrap_or(1))?, NEAR)
            }
            (_, 1.., 0) => {
                let before = latest.port().saturating_sub(u16::from(step) * BEFORE);
                Search { from: SocketAddr::new(latest.ip(), before), step, ports: NEAR, sockets: 0 }
            }
            (_, 1.., 1) => row(wide * u32::from(NEAR - BEFORE), step, FAR),
            _ => {
                if self.open_search.is_some() {
                    return None;
                }
                let sockets = budget.take_sockets(now + LASTS, now)?;
                let ask = Search { from: latest, step: 0, ports: AT_RANDOM, sockets };
                return Some(SearchRound { ask, search: Some(PortSearch { to: there, sockets, lasts: LASTS }) });
            }
        };
        Some(SearchRound { ask, search: None })
    }

    /// Where the peer is seen from outside, as it says: one after the other.
    fn public(&self) -> Option<SocketAddr> {
        let said = |track: &&CandidateState| track.origins.said && !track.is_proven();
        let direct = self.tracks.iter().filter(said).filter_map(|track| track.way.direct());
        let mut public = direct.filter(|endpoint| may_be_guessed(*endpoint));
        let many = public.clone().count().max(1);
        public.nth(usize::from(self.rounds.made()) % many)
    }

    /// The peer asks to be looked for.
    pub fn handle_search(&mut self, search: &Search, ours: &LocalEndpoints, now: Time) {
        let counts = ours.foretold().is_some_and(|foretold| foretold.step > 0);
        // Behind a NAT that draws a port for each guess, none of them would be let in by what another one opened.
        let sensible = !ours.nat().is_hard() || counts && search.step > 0;
        let allowed = may_be_guessed(search.from) && acceptable(search.from, &self.overlay);
        if sensible && allowed && self.session && self.way.is_none_or(|way| way.is_relayed()) {
            self.guesses.begin(*search, now);
            self.events.push(PathEvent::SearchRequested { from: search.from, ports: search.ports });
        }
    }

    /// Where the next guess goes, if there is one and the budget has room.
    pub(super) fn next_guess(
        &mut self,
        budget: &mut Budget,
        entropy: &mut impl Entropy,
        now: Time,
    ) -> Option<SocketAddr> {
        if !self.session || self.way.is_some_and(|way| !way.is_relayed()) {
            self.guesses.end();
        }
        let place = self.guesses.peek(entropy, now)?;
        match budget.take_guess(place.ip(), now) {
            Grant::Now => {
                self.guesses.sent();
                return Some(place);
            }
            Grant::Soon => self.guesses.wait(now),
            Grant::No => self.guesses.end(),
        }
        None
    }

    /// When there is something to do here.
    pub(super) fn search_due(&self, now: Time) -> Option<Time> {
        let round = self.rounds.due().filter(|_| self.searches(now));
        round.into_iter().chain(self.guesses.due()).chain(self.fill_due()).min()
    }

    /// How far it has come.
    pub(super) fn guessed(&self, ours: bool) -> Guessed {
        let (rounds, odds) =
            if ours { (self.rounds.made(), self.odds) } else { (self.guesses.rounds, self.guesses.odds) };
        Guessed { rounds, of: ROUNDS, odds }
    }
}

/// Guesses go to public IPv4 addresses only: elsewhere there is no NAT to look behind, or it is none of the peer's.
fn may_be_guessed(place: SocketAddr) -> bool {
    matches!(place.ip().to_canonical(), IpAddr::V4(_)) && !is_private(place.ip())
}

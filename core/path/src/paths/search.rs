//! When a port search is made for one peer, and where: the rules of [`crate::search`] applied.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use taut_base::{Entropy, Time};
use taut_wire::control::Search;

use super::pace::CONSENT_LASTS;
use super::{CandidateState, Paths};
use crate::budget::{Budget, Grant};
use crate::candidates::acceptable;
use crate::choice::is_private;
use crate::event::PathEvent;
use crate::local_endpoints::LocalEndpoints;
use crate::nat::{Nat, PortPrediction};
use crate::search::{FAR_PORTS, NEAR_PORTS, PORTS_BEFORE, RANDOM_PORTS, ROUNDS, SearchProgress, counted, odds};
use crate::way::Way;

/// Time for which sockets of one round stay open, 4 s: the other end needs two seconds for its guesses, and the request and the answer take the rest.
pub(crate) const SEARCH_LASTS: Duration = Duration::from_secs(4);

/// Additional time in which the socket that was found waits for its proof.
const PROOF_GRACE: Duration = Duration::from_secs(1);

/// One round of port search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchRound {
    /// The request to the peer, sent through the relay.
    pub ask: Search,
    /// Sockets to open for it, if the round needs any.
    pub search: Option<PortSearch>,
}

/// Many sockets towards one endpoint of the peer, for a short time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSearch {
    /// The peer's endpoint that each socket sends a probe to.
    pub to: SocketAddr,
    /// The number of sockets, at most.
    pub sockets: u16,
    /// Time until they close, except one on which an authentic packet of the peer arrives.
    pub lasts: Duration,
}

impl Paths {
    /// Returns the round that begins now, if one is due and useful: data flows through a relay, and the local NAT gives each destination another
    /// port.
    pub(super) fn next_search(
        &mut self,
        local_endpoints: &LocalEndpoints,
        budget: &mut Budget,
        now: Time,
    ) -> Option<SearchRound> {
        if !self.may_search(now) {
            return None;
        }
        self.rounds.renew(self.changed_at);
        if self.rounds.due().is_none_or(|due| now < due) {
            return None;
        }
        let Some(round) = self.plan(local_endpoints, budget, now) else {
            self.rounds.put_off(now);
            return None;
        };
        self.rounds.begin(now);
        if let Some(search) = round.search {
            self.open_search = Some((search.to, now + search.lasts + PROOF_GRACE));
        }
        let (number, sockets) = (self.rounds.made(), round.search.map_or(0, |search| search.sockets));
        self.events.push(PathEvent::SearchOpened { round: number, ports: round.ask.ports, sockets });
        self.odds = if round.ask.step == 0 { odds(round.ask.sockets, round.ask.ports) } else { 0 };
        Some(round)
    }

    /// Returns true if a direct path would be used.
    fn may_search(&self, now: Time) -> bool {
        self.session && !self.is_idle && self.is_talking(now) && self.way.is_some_and(|way| way.is_relayed())
    }

    /// Closes the sockets of the last search when they are of no more use. Returns true once.
    pub(super) fn close_search(&mut self, now: Time) -> bool {
        if self.close_due().is_none_or(|due| now < due) {
            return false;
        }
        if let Some((target, _)) = self.open_search.take() {
            let found = self.find(Way::Direct(target)).is_some_and(|candidate| candidate.probes.last_answer.is_some());
            self.events.push(PathEvent::SearchClosed { target, found });
        }
        true
    }

    /// Returns true if sockets of a search may be open.
    pub fn has_open_search(&self) -> bool {
        self.open_search.is_some()
    }

    /// Returns when the sockets are closed. A candidate that went down may return while its NAT keeps the mapping.
    fn close_due(&self) -> Option<Time> {
        let (place, until) = self.open_search?;
        let candidate = self.find(Way::Direct(place)).filter(|_| self.session && !self.is_idle);
        match candidate {
            Some(candidate) if candidate.is_proven() => None,
            Some(candidate) => Some(candidate.probes.last_answer.map_or(until, |last| until.max(last + CONSENT_LASTS))),
            None => Some(until),
        }
    }

    /// Returns the next round that has a chance.
    fn plan(&self, local_endpoints: &LocalEndpoints, budget: &mut Budget, now: Time) -> Option<SearchRound> {
        let PortPrediction { latest, step } =
            local_endpoints.prediction().filter(|prediction| may_be_guessed(prediction.latest))?;
        let there = self.peer_outer_endpoint()?;
        let from = |further: u32| SocketAddr::new(latest.ip(), counted(latest.port(), further));
        let row = |further: u32, step: u8, ports: u16| Search { from: from(further), step, ports, sockets: 0 };
        let wide = u32::from(step);
        let ask = match (Nat::from_number(self.peer_nat), step, self.rounds.made()) {
            (Nat::Symmetric | Nat::Blocked, ..) | (Nat::Sequential, 0, _) => return None,
            (Nat::Sequential, ..) => {
                // Guesses of this side have taken ports of the NAT, too.
                let taken = u32::try_from(self.guesses.sent).unwrap_or(0) * wide;
                let theirs = if latest.ip() < there.ip() { 1 } else { 2 };
                row(taken + wide * theirs, step.checked_mul(u8::try_from(theirs).unwrap_or(1))?, NEAR_PORTS)
            }
            (_, 1.., 0) => {
                let before = latest.port().saturating_sub(u16::from(step) * PORTS_BEFORE);
                Search { from: SocketAddr::new(latest.ip(), before), step, ports: NEAR_PORTS, sockets: 0 }
            }
            (_, 1.., 1) => row(wide * u32::from(NEAR_PORTS - PORTS_BEFORE), step, FAR_PORTS),
            _ => {
                if self.open_search.is_some() {
                    return None;
                }
                let sockets = budget.take_sockets(now + SEARCH_LASTS, now)?;
                let ask = Search { from: latest, step: 0, ports: RANDOM_PORTS, sockets };
                return Some(SearchRound { ask, search: Some(PortSearch { to: there, sockets, lasts: SEARCH_LASTS }) });
            }
        };
        Some(SearchRound { ask, search: None })
    }

    /// Returns an outer endpoint that the peer reports; each round takes the next one.
    fn peer_outer_endpoint(&self) -> Option<SocketAddr> {
        let reported = |candidate: &&CandidateState| candidate.origins.reported && !candidate.is_proven();
        let direct = self.candidates.iter().filter(reported).filter_map(|candidate| candidate.way.direct());
        let mut public = direct.filter(|endpoint| may_be_guessed(*endpoint));
        let many = public.clone().count().max(1);
        public.nth(usize::from(self.rounds.made()) % many)
    }

    /// The peer asks for guesses.
    pub fn handle_search(&mut self, search: &Search, local_endpoints: &LocalEndpoints, now: Time) {
        let counts = local_endpoints.prediction().is_some_and(|prediction| prediction.step > 0);
        // Behind a NAT that draws a port for each guess, no guess would pass what another guess opened.
        let sensible = !local_endpoints.nat().is_hard() || counts && search.step > 0;
        let allowed = may_be_guessed(search.from) && acceptable(search.from, &self.overlay);
        if sensible && allowed && self.session && self.way.is_none_or(|way| way.is_relayed()) {
            self.guesses.begin(*search, now);
            self.events.push(PathEvent::SearchRequested { from: search.from, ports: search.ports });
        }
    }

    /// Returns the destination of the next guess, if one is due and the budget has room.
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

    /// Returns when a round, a guess or the closing of sockets is due.
    pub(super) fn search_due(&self, now: Time) -> Option<Time> {
        let round = self.rounds.due().filter(|_| self.may_search(now));
        round.into_iter().chain(self.guesses.due()).chain(self.close_due()).min()
    }

    /// Returns how far the search has come.
    pub(super) fn search_progress(&self, asked_here: bool) -> SearchProgress {
        let (rounds, odds) =
            if asked_here { (self.rounds.made(), self.odds) } else { (self.guesses.rounds, self.guesses.odds) };
        SearchProgress { rounds, of: ROUNDS, odds }
    }
}

/// Returns true if ports at this address may be guessed: public IPv4 only. Other addresses have no NAT in front, or one that is not the peer's.
fn may_be_guessed(place: SocketAddr) -> bool {
    matches!(place.ip().to_canonical(), IpAddr::V4(_)) && !is_private(place.ip())
}

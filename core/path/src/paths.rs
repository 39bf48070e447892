//! The paths to one Taut peer (protocol.md 5).
//!
//! Inputs go in by method, each with the time; results come out of `poll_output`:
//!
//! ```text
//! set_listed  set_relays  handle_endpoints      ─▶ ┌───────┐ ─▶ poll_output: PathOutput, until there is none
//! handle_session_begun  handle_session_ended    ─▶ │       │
//! handle_arrival  handle_probe_from             ─▶ │ Paths │
//! handle_answer  handle_suspicion               ─▶ │       │
//! handle_long_lost  set_takes_pieces            ─▶ │       │
//! handle_search                                 ─▶ │       │
//! handle_active  handle_network_change          ─▶ └───────┘ ─▶ poll_timeout: when to call handle_timeout
//! handle_timeout
//! ```
//! **Relay first.** A relay that says the peer is connected to it carries data at once. A direct path carries data only after a probe sent on it was
//! answered on the same path, in a session with the peer (law 3). The source of a packet is only a hint where to probe; it moves no traffic (fault
//! D2).
//!
//! **When candidates are probed.** A burst of probes follows each change: a session began, the peer reported endpoints, its packets came from a
//! candidate, this host's addresses changed, or the present path went down. A probe from the peer is answered by the lane and triggers a probe from
//! this side, so that both sides open their NATs together. After the burst:
//!
//! ```text
//! present path                                every 14 s while data flows, else every 20 s; mappings that a NAT drops after 30 s stay open
//! other proven candidates                     the next best every 24 s; the rest after 30 s and ever more rarely, at most every 5 minutes
//! unproven, while a relay carries data        every second for the first minute, every 2.5 s for 5 minutes, every 10 s for half an hour, every 30 s
//!           while no data flows               every 30 s
//!           while a direct path is in use     after 30 s and ever more rarely, at most every 5 minutes
//! ```
//! Each interval is stretched by up to a quarter at random. After five minutes without data probing ends; the next packet starts it from scratch,
//! through a relay first.
//!
//! **Verdicts** on a suspected candidate take three quick probes ([`crate::candidate_state`]). [`crate::choice`] ranks candidates. Limits: [`Budget`]
//! for the node and for each address, and 20 probes per second per peer, burst 60 (eight candidates at seven probes).
//!
//! **Packet limits.** Sized probes find the longest packet that the path in use and its spare carry ([`crate::packet_limit`]); they count in a limit of their own.

mod exchange;
mod inputs;
mod limit;
mod output;
mod pace;
mod search;
#[cfg(test)]
mod tests;
mod view;
#[cfg(test)]
mod world;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::sync::Arc;

use taut_base::{Bucket, Entropy, Prefix, Rate, Time};
use taut_wire::control::Endpoints;

use crate::budget::Budget;
use crate::candidate_state::{CandidateState, Origins, State};
use crate::candidates::acceptable;
use crate::choice::{self, Choice};
use crate::event::{EventQueue, PathChangeReason, PathEvent};
use crate::families::Families;
use crate::local_endpoints::LocalEndpoints;
use crate::reasons::{DownCause, Suspicion};
use crate::search::{Guesses, Rounds};
use crate::way::Way;

use exchange::EndpointExchange;
pub use output::{PathContext, PathOutput};
pub use search::{PortSearch, SearchRound};
pub use view::PathView;

/// Probes per second to one peer, over all its candidates.
const PER_PEER: Rate = Rate::new(20, 60);

/// Sized probes per second to one peer, over all its candidates: two searches at once, of the path in use and of its spare, at up to 75 probes each. They have an allowance of
/// their own, so that a search takes nothing from the probes that find and judge paths. Sized probes go only where the peer answered within the last minute.
const SIZED: Rate = Rate::new(20, 150);

/// Delay before a probe that a budget refused is tried again, 200 ms; up to the same is added at random.
const BUDGET_RETRY: Duration = Duration::from_millis(200);

/// Change of the round-trip time that lanes are told of: more than a quarter of the former value, and more than 1 ms.
const ROUND_TRIP_CHANGE_PART: u32 = 4;
const ROUND_TRIP_CHANGE_MIN: Duration = Duration::from_millis(1);

/// Loss of the direct path in per cent at which the relay is measured beside it (20), at which the path is left (30), and by how much less the relay
/// must lose (15).
const COMPARE_LOSS: u32 = 20;
const LEAVE_LOSS: u32 = 30;
const LOSS_MARGIN: u32 = 15;

/// A probe to send on the control pair of the newest session, from the first lane's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The path that it is sent on.
    pub way: Way,
    /// The probe's id.
    pub id: u64,
    /// Bytes of the inner packet whose length the probe is padded to; 0 for an ordinary probe.
    pub size: u16,
}

/// The paths to one Taut peer.
#[derive(Clone, Debug)]
pub struct Paths {
    overlay: Arc<[Prefix]>,
    families: Families,
    /// All candidates: relays first, in the order in which they were given.
    candidates: Vec<CandidateState>,
    /// True while there is a session to probe in.
    session: bool,
    /// When data last flowed.
    last_data: Option<Time>,
    /// True after five minutes without data: nothing is probed.
    is_idle: bool,
    /// When something last changed that concerns all candidates.
    changed_at: Time,
    way: Option<Way>,
    since: Time,
    /// The path before the present one.
    previous: Option<Way>,
    behind: Duration,
    reported_choice: Option<Choice>,
    allowance: Bucket,
    /// The allowance of sized probes.
    sized: Bucket,
    /// True if the peer takes packets in pieces.
    takes_pieces: bool,
    /// The settled packet limit that was reported last.
    reported_limit: Option<u16>,
    exchange: EndpointExchange,
    /// The NAT in front of the peer, as the peer reports it.
    peer_nat: u8,
    /// Port search: the guesses that the peer asked for, the rounds of this side, and the odds of its last round in per cent.
    guesses: Guesses,
    rounds: Rounds,
    odds: u8,
    /// The peer's endpoint that sockets of a port search are open for, and when they are closed at the latest.
    open_search: Option<(SocketAddr, Time)>,
    /// Changes of the path so far.
    changes: u64,
    /// Suspicions raised by lanes so far.
    suspicions: u64,
    events: EventQueue<PathEvent>,
}

impl Paths {
    /// Returns the paths to a peer of which nothing is known. `overlay`: the network's own prefixes, which are never sent to. `families`: the address
    /// families of this host.
    pub fn new(overlay: Arc<[Prefix]>, families: Families) -> Self {
        Self {
            overlay,
            families,
            candidates: Vec::new(),
            session: false,
            last_data: None,
            is_idle: false,
            changed_at: Time::ZERO,
            way: None,
            since: Time::ZERO,
            previous: None,
            behind: Duration::ZERO,
            reported_choice: None,
            allowance: Bucket::default(),
            sized: Bucket::default(),
            takes_pieces: false,
            reported_limit: None,
            exchange: EndpointExchange::default(),
            peer_nat: 0,
            guesses: Guesses::default(),
            rounds: Rounds::default(),
            odds: 0,
            open_search: None,
            changes: 0,
            suspicions: 0,
            events: EventQueue::default(),
        }
    }

    /// Replaces the network's prefixes and drops candidates inside them.
    pub fn set_overlay(&mut self, overlay: Arc<[Prefix]>) {
        let fits =
            |candidate: &CandidateState| candidate.way.direct().is_none_or(|endpoint| acceptable(endpoint, &overlay));
        self.candidates.retain(fits);
        self.overlay = overlay;
    }

    /// Returns the path that data takes, with what lanes need to use it; `None` if no relay has the peer and nothing is proven.
    pub fn choice(&self, now: Time) -> Option<Choice> {
        let way = self.way?;
        let candidate = self.find(way);
        let also = choice::also(&self.candidates, (way, self.since), self.previous, now);
        Some(Choice {
            way,
            also,
            spare: choice::spare(&self.candidates, way, self.reported_choice.and_then(|reported| reported.spare)),
            behind: self.behind,
            round_trip: candidate.and_then(|candidate| candidate.probes.round_trip()),
            limit: self.limit(way, also),
        })
    }

    /// Returns the choice if it differs from the one returned last.
    fn next_choice(&mut self, now: Time) -> Option<Choice> {
        let choice = self.choice(now)?;
        let same = self.reported_choice.is_some_and(|reported| {
            let close = match (reported.round_trip, choice.round_trip) {
                (Some(old), Some(new)) => {
                    old.abs_diff(new) <= (old / ROUND_TRIP_CHANGE_PART).max(ROUND_TRIP_CHANGE_MIN)
                }
                (None, Some(_)) => false,
                (_, None) => true,
            };
            let same = |choice: &Choice| (choice.way, choice.also, choice.spare, choice.limit);
            same(&reported) == same(&choice) && close
        });
        if same {
            return None;
        }
        self.reported_choice = Some(choice);
        Some(choice)
    }

    /// Returns the next probe that is due and within the budget.
    fn next_probe(&mut self, budget: &mut Budget, entropy: &mut impl Entropy, now: Time) -> Option<Probe> {
        while let Some(place) = self.next_due(now) {
            let granted = self.grant(place, budget, now);
            let candidate = &mut self.candidates[place];
            if !granted {
                candidate.refused += 1;
                let more = u64::from(entropy.below(u32::try_from(BUDGET_RETRY.as_millis()).unwrap_or(0)));
                candidate.not_before = Some(now + BUDGET_RETRY + Duration::from_millis(more));
                continue;
            }
            let id = draw_id(entropy);
            candidate.stretch = entropy.below(1_024);
            candidate.send(id, now);
            return Some(Probe { way: candidate.way, id, size: 0 });
        }
        if let Some(probe) = self.next_sized(budget, entropy, now) {
            return Some(probe);
        }
        // The answer to a guess is not waited for: its source becomes a candidate, like the source of any packet.
        let place = self.next_guess(budget, entropy, now)?;
        Some(Probe { way: Way::Direct(place), id: draw_id(entropy), size: 0 })
    }

    /// Returns the candidate whose probe is due first, if it is due now.
    fn next_due(&self, now: Time) -> Option<usize> {
        let due = |(place, candidate): (usize, &CandidateState)| Some((self.due(candidate, now)?, place));
        let (due, place) = self.candidates.iter().enumerate().filter_map(due).min()?;
        (due <= now).then_some(place)
    }

    fn due(&self, candidate: &CandidateState, now: Time) -> Option<Time> {
        let pace = self.pace(candidate, now)?;
        Some(candidate.due(pace))
    }

    /// Takes one probe from all budgets that it counts in.
    fn grant(&mut self, place: usize, budget: &mut Budget, now: Time) -> bool {
        let candidate = &self.candidates[place];
        // A verdict needs its three probes whatever the budget says; they go only where the peer was proven.
        if matches!(candidate.state, State::Suspected { .. }) {
            return true;
        }
        let allowed = self.allowance.take(&PER_PEER, now);
        let Way::Direct(endpoint) = candidate.way else { return allowed };
        let consents = candidate.probes.last_answer.is_some_and(|last| now.since(last) < pace::CONSENT_LASTS);
        let trusted = self.is_heard_at(endpoint.ip(), now);
        allowed && (consents || budget.take(endpoint.ip(), trusted, now))
    }

    /// Takes a probe of an extra lane from the same budgets (protocol.md 5.6). The peer names the port, so an answer at the address is no consent. A relay
    /// forwards probes only to a client that wants the channel, so there only the peer's budget counts. Returns false if there is no room.
    pub fn grant_lane(&mut self, way: Way, budget: &mut Budget, now: Time) -> bool {
        let Some(endpoint) = way.direct() else { return self.allowance.take(&PER_PEER, now) };
        let trusted = self.is_heard_at(endpoint.ip(), now);
        self.allowance.has(&PER_PEER, now)
            && budget.take(endpoint.ip(), trusted, now)
            && self.allowance.take(&PER_PEER, now)
    }

    /// Returns true if authentic packets of the peer came from this address within the last minute.
    fn is_heard_at(&self, address: IpAddr, now: Time) -> bool {
        let came_from_there = |candidate: &CandidateState| {
            let same = candidate.way.direct().is_some_and(|other| other.ip() == address);
            same && candidate.last_heard.is_some_and(|heard| now.since(heard) < pace::CONSENT_LASTS)
        };
        self.candidates.iter().any(came_from_there)
    }

    /// Returns the endpoints message that is due to the peer.
    fn next_endpoints(&mut self, local_endpoints: &LocalEndpoints, now: Time) -> Option<Endpoints> {
        if !self.session || self.is_idle {
            return None;
        }
        self.exchange.poll(local_endpoints, now)
    }

    /// Returns when [`Self::handle_timeout`] or [`Self::poll_output`] has something to do. A change of the local endpoints is not included: the
    /// caller knows of it.
    pub fn poll_timeout(&self, now: Time) -> Option<Time> {
        if !self.session || self.is_idle {
            return None;
        }
        let probes = self.candidates.iter().filter_map(|candidate| self.due(candidate, now));
        let verdicts = self.candidates.iter().filter_map(CandidateState::poll_timeout);
        let lapse = self.last_data.map(|active| active + pace::IDLE_AFTER);
        let sized = self.sized_due(now);
        probes
            .chain(verdicts)
            .chain(sized)
            .chain(self.exchange.poll_timeout())
            .chain(lapse)
            .chain(self.search_due(now))
            .min()
    }

    /// Judges candidates whose probes are overdue.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.session && !self.is_idle && self.last_data.is_none_or(|active| now.since(active) >= pace::IDLE_AFTER) {
            self.become_idle(now);
        }
        let way = self.way;
        let mut died = false;
        for candidate in &mut self.candidates {
            died |= candidate.handle_timeout(now) && Some(candidate.way) == way;
        }
        died |= self.leave_lossy(now);
        self.update_path(died, now);
    }

    /// Leaves the direct path if it loses much more than the relay. Returns true if it was left.
    fn leave_lossy(&mut self, now: Time) -> bool {
        let Some(loss) = self.loss_to_compare() else { return false };
        let relays = self.candidates.iter().filter(|candidate| candidate.way.is_relayed());
        let relayed = relays.filter_map(|candidate| candidate.probes.loss()).min();
        let worse = loss >= LEAVE_LOSS && relayed.is_some_and(|relayed| relayed + LOSS_MARGIN <= loss);
        let way = self.way;
        if let Some(candidate) = self.candidates.iter_mut().find(|candidate| worse && Some(candidate.way) == way) {
            candidate.go_down(DownCause::Lossy, now);
        }
        worse
    }

    /// Returns the loss of the direct path in use, if it is high enough to measure the relay beside it.
    fn loss_to_compare(&self) -> Option<u32> {
        let candidate = self.find(self.way?).filter(|candidate| !candidate.way.is_relayed())?;
        candidate.probes.loss().filter(|loss| *loss >= COMPARE_LOSS)
    }

    /// Chooses the path again. `died`: the path in use is down, and all others are tried at once.
    fn update_path(&mut self, died: bool, now: Time) {
        let former = self.way;
        self.choose_path(died, now);
        if let Some(to) = self.way.filter(|way| former != Some(*way)) {
            let reason = self.change_reason(former, to);
            self.events.push(PathEvent::PathChanged { from: former, to, reason });
        }
    }

    /// Returns the reason for a change of path that was just made.
    fn change_reason(&self, from: Option<Way>, to: Way) -> PathChangeReason {
        let Some(from) = from else { return PathChangeReason::First };
        let Some(former) = self.find(from) else { return PathChangeReason::Withdrawn };
        match former.state {
            State::Down { cause, .. } => PathChangeReason::Down(cause),
            _ if from.is_relayed() && !to.is_relayed() => PathChangeReason::DirectProven,
            State::Unproven if from.is_relayed() && choice::is_silent(former) => PathChangeReason::RelaySilent,
            State::Unproven if !from.is_relayed() => PathChangeReason::NoLongerProven,
            State::Unproven | State::Proven { .. } | State::Suspected { .. } => PathChangeReason::LowerCost,
        }
    }

    fn choose_path(&mut self, died: bool, now: Time) {
        if died {
            self.changed_at = now;
            self.candidates.iter_mut().filter(|candidate| !candidate.is_unsuspected()).for_each(|candidate| {
                if !matches!(candidate.state, State::Down { .. }) {
                    candidate.start_burst(now);
                }
            });
        }
        let present = self.way.map(|way| (way, self.since));
        let Some(way) = choice::choose(&self.candidates, present, now) else { return };
        if self.way == Some(way) {
            return;
        }
        self.behind = self.way.map_or(Duration::ZERO, |from| choice::behind(&self.candidates, from, way));
        if way.is_relayed() {
            self.changed_at = now;
            // Lanes send copies on the former path until the relay has answered: its answer has to come before the former path may carry again, or
            // copies would overtake.
            self.find_mut(way).into_iter().for_each(CandidateState::probe_soon);
        }
        (self.previous, self.way, self.since) = (self.way, Some(way), now);
        self.changes += 1;
    }

    /// Forgets all proofs after five minutes without data. Endpoints stay as candidates.
    fn become_idle(&mut self, now: Time) {
        self.is_idle = true;
        self.guesses.end();
        self.candidates
            .retain(|candidate| candidate.origins.listed || candidate.origins.reported || candidate.origins.relay);
        for candidate in &mut self.candidates {
            candidate.forget(now);
        }
        // With no relay the last path stays, so that the next packet has a destination before anything is proven again.
        let former = self.way;
        if self.candidates.iter().any(|candidate| candidate.way.is_relayed()) {
            self.way = None;
        }
        self.choose_path(false, now);
        self.events.push(PathEvent::PeerIdle { after: pace::IDLE_AFTER });
        if let Some(to) = self.way.filter(|way| former != Some(*way)) {
            self.events.push(PathEvent::PathChanged { from: former, to, reason: PathChangeReason::Idle });
        }
    }

    fn find(&self, way: Way) -> Option<&CandidateState> {
        self.candidates.iter().find(|candidate| candidate.way == way)
    }

    fn find_mut(&mut self, way: Way) -> Option<&mut CandidateState> {
        self.candidates.iter_mut().find(|candidate| candidate.way == way)
    }
}

/// Returns a random probe id.
fn draw_id(entropy: &mut impl Entropy) -> u64 {
    u64::from(entropy.next_u32()) << 32 | u64::from(entropy.next_u32())
}

//! Everything about reaching one Taut peer (protocol.md 5).
//!
//! Pure: what happened goes in, each with the time; what is to be done comes out, until there is nothing more:
//!
//! ```text
//! set_listed  set_relays  handle_said           ─▶ ┌───────┐ ─▶ poll_output: PathOutput, until there is none
//! handle_session_begun  handle_session_ended    ─▶ │       │
//! handle_arrival  handle_probe_from             ─▶ │ Paths │
//! handle_answer  handle_suspicion               ─▶ │       │
//! handle_search                                 ─▶ │       │
//! handle_active  handle_look_around             ─▶ └───────┘ ─▶ poll_timeout: when to call handle_timeout
//! handle_timeout
//! ```
//! **Relay first.** A relay that says it has the peer carries at once. A direct way carries only after a probe was answered that went by this very way, by an
//! answer that came by it, in a session with the peer (law 3). Where packets come from is where to look, and moves nothing (fault D2).
//!
//! **When ways are probed.** In a burst when there is news of them: a session began, the peer told endpoints, its packets came from there, our own addresses
//! changed, the way in use died. A probe of the peer is answered by the lane and starts one of ours, so that both sides open their NATs together. Later:
//!
//! ```text
//! the way in use                             every 14 s while data flows, else every 20 s; what a NAT forgets after 30 s never ends
//! others that lead to the peer               every 24 s the one that would be next; the rest after 30 s and ever more rarely, at most 5 minutes
//! not proven, while a relay carries data     every second for a minute after news, every 2.5 s for 5 minutes, every 10 s for half an hour, every 30 s
//!              while no data flows           every 30 s
//!              while a direct way is used    after 30 s and ever more rarely, at most 5 minutes
//! ```
//! each stretched by up to a quarter at random. After five minutes without data all of it ends, and the next packet starts anew, relay first.
//!
//! **Judging** is three quick probes ([`crate::candidate_state`]); ranking is [`crate::choice`]; the limits are [`Budget`] for the node and for victims, and
//! 20 probes per second for one peer, burst 60: eight candidates at seven probes.

mod feed;
mod output;
mod pace;
mod search;
mod tell;
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
use crate::candidate_state::{CandidateState, DownCause, Origins, State, Suspicion};
use crate::candidates::acceptable;
use crate::choice::{self, Choice};
use crate::event::{EventQueue, PathChangeReason, PathEvent};
use crate::local_endpoints::LocalEndpoints;
use crate::search::{Guesses, Rounds};
use crate::way::Way;

pub use output::{PathContext, PathOutput};
pub use search::{PortSearch, SearchRound};
use tell::Tell;
pub use view::View;

/// What one peer may be probed with, whatever is known of it.
const PER_PEER: Rate = Rate::new(20, 60);

/// A probe that a budget refused is tried again after this, and up to as much more.
const REFUSED: Duration = Duration::from_millis(200);

/// A round trip that differs from what was said by less than a quarter, or by less than a millisecond, is not said again.
const ROUND_TRIP_PART: u32 = 4;
const ROUND_TRIP_LEAST: Duration = Duration::from_millis(1);

/// A path that loses so many per cent is compared with the relay, and left when the relay loses less by so many.
const COMPARE: u32 = 20;
const LOSSY: u32 = 30;
const LESS: u32 = 15;

/// Families of addresses that this host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Families {
    /// An IPv4 address.
    pub v4: bool,
    /// An IPv6 address that is not link-local.
    pub v6: bool,
}

impl Default for Families {
    fn default() -> Self {
        Self { v4: true, v6: true }
    }
}

impl Families {
    /// Whether a way begins in one of them. A relay at loopback is reached by something else on this host, in whatever family that is.
    pub(crate) fn has(self, way: Way) -> bool {
        match way.first_hop() {
            place if place.ip().is_loopback() => true,
            SocketAddr::V4(_) => self.v4,
            SocketAddr::V6(_) => self.v6,
        }
    }
}

/// A probe to be sent on the control pair of the newest session, from the first lane's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// By which way.
    pub way: Way,
    /// Its id.
    pub id: u64,
    /// Bytes that it is padded to, to test whether such a packet passes; 0 for an ordinary probe.
    pub size: u16,
}

/// Everything about reaching one Taut peer.
#[derive(Clone, Debug)]
pub struct Paths {
    overlay: Arc<[Prefix]>,
    families: Families,
    /// Relays first, in the order in which they were given.
    tracks: Vec<CandidateState>,
    /// There is a session to probe in.
    session: bool,
    /// When data flowed last.
    active: Option<Time>,
    /// Nothing flowed for so long that nothing is done.
    let_go: bool,
    /// When something last changed that concerns all ways.
    news: Time,
    way: Option<Way>,
    since: Time,
    /// The way before, until `since`.
    left: Option<Way>,
    behind: Duration,
    said: Option<Choice>,
    allowance: Bucket,
    tell: Tell,
    /// The NAT in front of the peer, as it says.
    their_nat: u8,
    /// Looking for a port that nobody knows: where we are asked to look, and when the peer is; the odds of the last round.
    guesses: Guesses,
    rounds: Rounds,
    odds: u8,
    /// Where a socket of its own may lead to the peer, and until when many do.
    open_search: Option<(SocketAddr, Time)>,
    /// Changes of the way so far.
    changes: u64,
    /// Suspicions of the lane so far.
    suspicions: u64,
    events: EventQueue<PathEvent>,
}

impl Paths {
    /// A peer of which nothing is known. `overlay`: the network's own prefixes, which are never sent to. `families`: those in which this host has addresses.
    pub fn new(overlay: Arc<[Prefix]>, families: Families) -> Self {
        Self {
            overlay,
            families,
            tracks: Vec::new(),
            session: false,
            active: None,
            let_go: false,
            news: Time::ZERO,
            way: None,
            since: Time::ZERO,
            left: None,
            behind: Duration::ZERO,
            said: None,
            allowance: Bucket::default(),
            tell: Tell::default(),
            their_nat: 0,
            guesses: Guesses::default(),
            rounds: Rounds::default(),
            odds: 0,
            open_search: None,
            changes: 0,
            suspicions: 0,
            events: EventQueue::default(),
        }
    }

    /// The network has other prefixes now.
    pub fn set_overlay(&mut self, overlay: Arc<[Prefix]>) {
        let fits = |track: &CandidateState| track.way.direct().is_none_or(|endpoint| acceptable(endpoint, &overlay));
        self.tracks.retain(fits);
        self.overlay = overlay;
    }

    /// The way data takes, and what goes with it. `None` while there is none: no relay has the peer, and nothing was proven.
    pub fn choice(&self, now: Time) -> Option<Choice> {
        let way = self.way?;
        let track = self.find(way);
        Some(Choice {
            way,
            also: choice::also(&self.tracks, (way, self.since), self.left, now),
            spare: choice::spare(&self.tracks, way, self.said.and_then(|said| said.spare)),
            behind: self.behind,
            round_trip: track.and_then(|track| track.probes.round_trip()),
        })
    }

    /// The choice, if the lanes have to hear of it: once for each change.
    fn next_choice(&mut self, now: Time) -> Option<Choice> {
        let choice = self.choice(now)?;
        let same = self.said.is_some_and(|said| {
            let close = match (said.round_trip, choice.round_trip) {
                (Some(old), Some(new)) => old.abs_diff(new) <= (old / ROUND_TRIP_PART).max(ROUND_TRIP_LEAST),
                (None, Some(_)) => false,
                (_, None) => true,
            };
            (said.way, said.also, said.spare) == (choice.way, choice.also, choice.spare) && close
        });
        if same {
            return None;
        }
        self.said = Some(choice);
        Some(choice)
    }

    /// The next probe to send, if one is due and within the budget.
    fn next_probe(&mut self, budget: &mut Budget, entropy: &mut impl Entropy, now: Time) -> Option<Probe> {
        if let Some(probe) = self.next_sized(budget, entropy, now) {
            return Some(probe);
        }
        while let Some(place) = self.next_due(now) {
            let granted = self.grant(place, budget, now);
            let track = &mut self.tracks[place];
            if !granted {
                track.refused += 1;
                let more = u64::from(entropy.below(u32::try_from(REFUSED.as_millis()).unwrap_or(0)));
                track.not_before = Some(now + REFUSED + Duration::from_millis(more));
                continue;
            }
            let id = draw(entropy);
            track.stretch = entropy.below(1_024);
            track.send(id, now);
            return Some(Probe { way: track.way, id, size: 0 });
        }
        // Nobody waits for the answer of a guess: where it comes from is looked at as any place is that packets come from.
        let place = self.next_guess(budget, entropy, now)?;
        Some(Probe { way: Way::Direct(place), id: draw(entropy), size: 0 })
    }

    /// Returns the next probe that tests how long a packet may be on a way. Such probes go only where a probe was answered within the last minute, and count in
    /// the peer's budget.
    fn next_sized(&mut self, budget: &Budget, entropy: &mut impl Entropy, now: Time) -> Option<Probe> {
        if !self.session || self.let_go {
            return None;
        }
        for track in self.tracks.iter_mut().filter(|track| track.sizes.due().is_some_and(|due| now >= due)) {
            let consents = track.probes.last_answer.is_some_and(|last| now.since(last) < pace::CONSENT);
            if !consents {
                track.sizes.stop();
                continue;
            }
            if !self.allowance.has(&PER_PEER, now) {
                track.sizes.postpone(now + REFUSED);
                continue;
            }
            let id = draw(entropy);
            let before = track.sizes.fits(budget.longest());
            if let Some(size) = track.sizes.poll(budget.longest(), id, now) {
                self.allowance.take(&PER_PEER, now);
                return Some(Probe { way: track.way, id, size });
            }
            let longest = track.sizes.fits(budget.longest());
            if longest != before {
                self.events.push(PathEvent::PacketLimitChanged { way: track.way, longest });
            }
        }
        None
    }

    /// The way whose probe is due first, if that is now.
    fn next_due(&self, now: Time) -> Option<usize> {
        let due = |(place, track): (usize, &CandidateState)| Some((self.due(track, now)?, place));
        let (due, place) = self.tracks.iter().enumerate().filter_map(due).min()?;
        (due <= now).then_some(place)
    }

    fn due(&self, track: &CandidateState, now: Time) -> Option<Time> {
        let pace = self.pace(track, now)?;
        Some(track.due(pace))
    }

    /// Takes one probe out of all budgets that it counts in.
    fn grant(&mut self, place: usize, budget: &mut Budget, now: Time) -> bool {
        let track = &self.tracks[place];
        // Three at a time, each judgement of a path that is there.
        if matches!(track.state, State::Suspected { .. }) {
            return true;
        }
        let allowed = self.allowance.take(&PER_PEER, now);
        let Way::Direct(endpoint) = track.way else { return allowed };
        let consents = track.probes.last_answer.is_some_and(|last| now.since(last) < pace::CONSENT);
        let trusted = self.is_heard_at(endpoint.ip(), now);
        allowed && (consents || budget.take(endpoint.ip(), trusted, now))
    }

    /// Takes a probe of a further lane out of the same budgets (protocol.md 5.6): the port is the peer's to name, so that nobody has consented there. False
    /// if there is no room for it.
    pub fn grant_lane(&mut self, endpoint: SocketAddr, budget: &mut Budget, now: Time) -> bool {
        let trusted = self.is_heard_at(endpoint.ip(), now);
        self.allowance.has(&PER_PEER, now)
            && budget.take(endpoint.ip(), trusted, now)
            && self.allowance.take(&PER_PEER, now)
    }

    /// Whether authentic packets of the peer came from this address just before.
    fn is_heard_at(&self, address: IpAddr, now: Time) -> bool {
        let came_from_there = |track: &CandidateState| {
            let same = track.way.direct().is_some_and(|other| other.ip() == address);
            same && track.heard.is_some_and(|heard| now.since(heard) < pace::CONSENT)
        };
        self.tracks.iter().any(came_from_there)
    }

    /// What the peer is to be told of where we are, if it is time to.
    fn next_endpoints(&mut self, ours: &LocalEndpoints, now: Time) -> Option<Endpoints> {
        if !self.session || self.let_go {
            return None;
        }
        self.tell.poll(ours, now)
    }

    /// When [`Self::handle_timeout`] or [`Self::poll_output`] has something to do. A change of what is told of ourselves is for the caller to know.
    pub fn poll_timeout(&self, now: Time) -> Option<Time> {
        if !self.session || self.let_go {
            return None;
        }
        let probes = self.tracks.iter().filter_map(|track| self.due(track, now));
        let verdicts = self.tracks.iter().filter_map(CandidateState::poll_timeout);
        let lapse = self.active.map(|active| active + pace::IDLE);
        let sizes = self.tracks.iter().filter_map(|track| track.sizes.due());
        probes
            .chain(verdicts)
            .chain(sizes)
            .chain(self.tell.poll_timeout())
            .chain(lapse)
            .chain(self.search_due(now))
            .min()
    }

    /// Judges what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.session && !self.let_go && self.active.is_none_or(|active| now.since(active) >= pace::IDLE) {
            self.let_go(now);
        }
        let way = self.way;
        let mut died = false;
        for track in &mut self.tracks {
            died |= track.handle_timeout(now) && Some(track.way) == way;
        }
        died |= self.leave_lossy(now);
        self.after(died, now);
    }

    /// Leaves a direct way that loses much more than the relay does. Says whether that was so.
    fn leave_lossy(&mut self, now: Time) -> bool {
        let Some(loss) = self.comparing() else { return false };
        let relays = self.tracks.iter().filter(|track| track.way.is_relayed());
        let relayed = relays.filter_map(|track| track.probes.loss()).min();
        let worse = loss >= LOSSY && relayed.is_some_and(|relayed| relayed + LESS <= loss);
        let way = self.way;
        if let Some(track) = self.tracks.iter_mut().find(|track| worse && Some(track.way) == way) {
            track.go_down(DownCause::Lossy, now);
        }
        worse
    }

    /// What the direct way in use loses, if that is so much that the relay is looked at closely.
    fn comparing(&self) -> Option<u32> {
        let track = self.find(self.way?).filter(|track| !track.way.is_relayed())?;
        track.probes.loss().filter(|loss| *loss >= COMPARE)
    }

    /// Chooses the path again. `died`: the one in use is down, and all others are tried at once.
    fn after(&mut self, died: bool, now: Time) {
        let former = self.way;
        self.choose(died, now);
        if let Some(to) = self.way.filter(|way| former != Some(*way)) {
            let reason = self.change_reason(former, to);
            self.events.push(PathEvent::PathChanged { from: former, to, reason });
        }
    }

    /// Returns the reason for a change of path that has just been made.
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

    fn choose(&mut self, died: bool, now: Time) {
        if died {
            self.news = now;
            self.tracks.iter_mut().filter(|track| !track.is_sound()).for_each(|track| {
                if !matches!(track.state, State::Down { .. }) {
                    track.try_anew(now);
                }
            });
        }
        let present = self.way.map(|way| (way, self.since));
        let Some(way) = choice::choose(&self.tracks, present, now) else { return };
        if self.way == Some(way) {
            return;
        }
        self.behind = self.way.map_or(Duration::ZERO, |from| choice::behind(&self.tracks, from, way));
        if way.is_relayed() {
            self.news = now;
            // Until it has shown something, copies go by what was left: should that carry again meanwhile, they overtake.
            self.find_mut(way).into_iter().for_each(CandidateState::try_soon);
        }
        (self.left, self.way, self.since) = (self.way, Some(way), now);
        self.changes += 1;
    }

    /// Nothing flowed for long: all that is known is where to look.
    fn let_go(&mut self, now: Time) {
        self.let_go = true;
        self.guesses.end();
        self.tracks.retain(|track| track.origins.listed || track.origins.said || track.origins.relay);
        for track in &mut self.tracks {
            track.forget(now);
        }
        // With no relay the last way stays, for whoever sends before anything is proven anew.
        let former = self.way;
        if self.tracks.iter().any(|track| track.way.is_relayed()) {
            self.way = None;
        }
        self.choose(false, now);
        self.events.push(PathEvent::LetGo { idle: pace::IDLE });
        if let Some(to) = self.way.filter(|way| former != Some(*way)) {
            self.events.push(PathEvent::PathChanged { from: former, to, reason: PathChangeReason::Idle });
        }
    }

    fn find(&self, way: Way) -> Option<&CandidateState> {
        self.tracks.iter().find(|track| track.way == way)
    }

    fn find_mut(&mut self, way: Way) -> Option<&mut CandidateState> {
        self.tracks.iter_mut().find(|track| track.way == way)
    }
}

/// The id of a probe.
fn draw(entropy: &mut impl Entropy) -> u64 {
    u64::from(entropy.next_u32()) << 32 | u64::from(entropy.next_u32())
}

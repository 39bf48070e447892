//! What the outside looks like from the first lane's socket: where relays see it, how the NAT maps and filters, how far the relays are (RFC 8489, and the
//! tests of RFC 5780 as far as one address of a relay allows).
//!
//! ```text
//! round   at the start, when our addresses, routes or links change, when the mapping is found to be another one, and every 10 minutes
//!   0 ms   to each relay, for each family: where am I?        again after 200 ms and 400 ms: the shortest round trip counts
//! 200 ms   from a socket apart, to the nearest: answer, and answer from your other port       again after 200 ms: does the second answer pass the filter?
//! 700 ms   to the nearest, at its other port: where am I?     another mapping for another port?
//!   1.5 s  verdict
//! between rounds   every 25 s while peers talk, else every 5 minutes, when a direct path is in doubt, and when a relay sees us elsewhere:
//!        to the nearest: where am I?     without an answer after 0.5, 1, 2, 4… s again, to each in turn: it may be our NAT that starts again
//! ```
//! The filter is tested from another socket than the lane's. A Linux router that masquerades and has no filter keeps the
//! datagram from the other port as a flow of its own. Our next datagram to that port gets another outer port, and a cone looks symmetric (fault D18).
//!
//! 25 s keep a mapping that a NAT forgets after 30 s. An answer is a hint, and no proof: whoever is on the way may lie, so that it only makes candidates.

mod nature;
#[cfg(test)]
mod tests;

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;
use std::vec::Vec;

use taut_base::{Entropy, RelayId, Time};
use taut_wire::stun::{BindingRequest, BindingResponse};

use crate::candidates::canonical;
use crate::event::{EventQueue, NatChangeReason, NatEvent};
use crate::nat::Nat;
use crate::paths::Families;
pub use nature::{Filtering, Foretold, Mapping};

/// Relays that are asked: what more say is nothing new. As many as a map's operator has regions.
const SERVERS: usize = 16;

/// When each relay is asked in a round.
const ASKED: [Duration; 3] = [Duration::ZERO, Duration::from_millis(200), Duration::from_millis(400)];

/// When the other port of the nearest relay is asked: that relay is known by this time, also in the first round.
const OTHER_PORT: Duration = Duration::from_millis(700);

/// When the round ends.
const VERDICT: Duration = Duration::from_millis(1_500);

/// Rounds without an answer after which UDP counts as blocked, and how soon the next round follows meanwhile.
const BLOCKED: u32 = 2;
/// UDP does not count as blocked for 90 s after a datagram of a peer or a relay came by it: several signs of life of either. In that time silence is the
/// relays' fault.
const HEARD: Duration = Duration::from_secs(90);
const ROUND_AGAIN: Duration = Duration::from_secs(3);
const ROUND_AGAIN_LONGEST: Duration = Duration::from_secs(60);

/// Distances change slowly.
const ROUND: Duration = Duration::from_secs(600);

/// Between rounds.
const KEEP: Duration = Duration::from_secs(25);
const KEEP_QUIET: Duration = Duration::from_secs(300);

/// A question between rounds that is not answered is asked again after this, then after twice as long, and so on: more than a round trip takes.
const KEEP_AGAIN: Duration = Duration::from_millis(500);

/// Between two questions because of doubts, however many paths are in doubt: a link that flaps is no reason for a stream of them.
const DOUBT_APART: Duration = Duration::from_secs(2);

/// An answer that comes later is none.
const TOO_LATE: Duration = Duration::from_secs(5);

/// A relay's STUN service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Which relay.
    pub relay: RelayId,
    /// Where it answers, best first: one of each family is asked.
    pub places: Vec<SocketAddr>,
    /// The port of its second STUN socket; 0 if it has none.
    pub other_port: u16,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    /// Where are we seen?
    Where,
    /// The same, seen from the other port.
    OtherPort,
    /// Does the socket apart get answers at all?
    Apart,
    /// Does an answer pass there that comes from where it never sent to?
    Filter,
}

impl Test {
    const fn is_apart(self) -> bool {
        matches!(self, Self::Apart | Self::Filter)
    }
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    transaction: [u8; 12],
    server: RelayId,
    to: SocketAddr,
    test: Test,
    sent: Time,
}

/// Where a server saw us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) by: SocketAddr,
    pub(crate) mapped: SocketAddr,
    pub(crate) test: Test,
    /// Which of the requests of this round it was, in the order in which they were sent.
    order: Time,
}

/// The relays' answers of one round, and those since.
#[derive(Clone, Debug, Default)]
struct Findings {
    seen: Vec<Seen>,
    /// The socket apart was answered, and the answer from the other port came in there.
    reached_apart: bool,
    passed_filter: bool,
}

/// What the outside looks like, as far as relays say.
#[derive(Clone, Debug, Default)]
pub struct NatReport {
    servers: Vec<Server>,
    families: Families,
    hosts: Vec<SocketAddr>,
    waiting: Vec<Waiting>,
    round: Option<Round>,
    found: Findings,
    /// Of the round before; they hold until the present one has an answer.
    former: Findings,
    /// When a datagram of a peer or a relay last came by UDP.
    heard: Option<Time>,
    /// Shortest round trips of the present or last round.
    distances: Vec<(RelayId, Duration)>,
    /// Rounds in a row that nobody answered.
    unanswered: u32,
    /// Several rounds were not answered, and no other datagram came by UDP.
    blocked: bool,
    next_round: Option<Time>,
    next_keep: Option<Time>,
    /// Questions between rounds since the last answer.
    unheard: u32,
    /// When it was last asked because of a doubt, or will be.
    doubted: Option<Time>,
    talking: bool,
    /// Where we were seen at the end of the last round, and behind what.
    reflexive: Vec<SocketAddr>,
    nat: Nat,
    changed: bool,
    asks: VecDeque<Ask>,
    measured: VecDeque<Measured>,
    events: EventQueue<NatEvent>,
}

/// What the NAT report asks the node to do, or reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NatReportOutput {
    /// A relay answered, and its distance is known better now.
    Measured(Measured),
    /// A STUN request is sent.
    Ask(Ask),
    /// Relays see this node elsewhere, or behind another kind of NAT: peers are told.
    Changed {
        /// Where relays see the first lane's socket.
        reflexive: Vec<SocketAddr>,
        /// The kind of NAT.
        nat: Nat,
    },
    /// A state changed.
    Event(NatEvent),
}

/// A relay that answered a STUN request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The place that the answer came from.
    pub source: SocketAddr,
    /// The relay and how far away it is.
    pub distance: Distance,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    began: Time,
    asked: usize,
    other: bool,
}

/// A request to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Where to.
    pub to: SocketAddr,
    /// What.
    pub request: BindingRequest,
    /// From a socket that is used for nothing else, instead of the first lane's.
    pub apart: bool,
}

/// How far away a relay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distance {
    /// Which.
    pub relay: RelayId,
    /// By the shortest of the round's tries.
    pub round_trip: Duration,
}

/// What `taut netcheck` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatReportView {
    /// Whether UDP passes; `None` while that is not known.
    pub udp: Option<bool>,
    /// No relay answered the last questions, and nothing that they told before holds.
    pub unanswered: bool,
    /// In front of us.
    pub nat: Nat,
    /// How it maps.
    pub mapping: Mapping,
    /// How it filters.
    pub filtering: Filtering,
    /// Where we are seen, one address of each family.
    pub seen: Vec<SocketAddr>,
    /// How far the relays are that answered, nearest first.
    pub relays: Vec<Distance>,
}

impl NatReport {
    /// The relays of the map.
    pub fn set_servers(&mut self, servers: &[Server], now: Time) {
        let servers = &servers[..servers.len().min(SERVERS)];
        if servers != self.servers {
            self.servers = servers.to_vec();
            self.distances.retain(|(id, _)| servers.iter().any(|server| server.relay == *id));
            self.begin(now);
        }
    }

    /// The addresses of our interfaces with the first lane's port: whoever is seen there has no NAT.
    pub fn set_hosts(&mut self, hosts: &[SocketAddr]) {
        self.hosts = hosts.iter().map(|host| canonical(*host)).collect();
    }

    /// The addresses of our interfaces.
    pub fn hosts(&self) -> &[SocketAddr] {
        &self.hosts
    }

    /// Our addresses, routes or links changed, or the host slept: all may be otherwise.
    pub fn handle_look_around(&mut self, families: Families, now: Time) {
        self.families = families;
        self.begin(now);
        self.former = Findings::default();
    }

    /// Notes that a datagram of a peer or a relay came by UDP: UDP is not blocked, whether or not relays answer questions.
    pub fn handle_heard(&mut self, now: Time) {
        self.heard = Some(now);
        if self.nat == Nat::Blocked {
            self.set_nat(Nat::Unknown, NatChangeReason::DatagramHeard);
            self.changed = true;
        }
    }

    /// Whether peers talk: mappings are kept then.
    pub fn set_talking(&mut self, talking: bool, now: Time) {
        if talking && !self.talking {
            self.next_keep = self.next_keep.map(|next| next.min(now));
        }
        self.talking = talking;
    }

    /// A direct path is in doubt, or a relay sees us elsewhere: perhaps our NAT gave us another port, which no peer knows until we do (fault D4).
    pub fn handle_doubt(&mut self, now: Time) {
        let due = self.doubted.map_or(now, |last| if last > now { last } else { now.max(last + DOUBT_APART) });
        self.doubted = Some(due);
        self.next_keep = self.next_keep.map(|next| next.min(due));
    }

    fn begin(&mut self, now: Time) {
        self.round = Some(Round { began: now, asked: 0, other: false });
        let found = std::mem::take(&mut self.found);
        if !found.seen.is_empty() {
            self.former = found;
        }
        (self.next_round, self.next_keep) = (None, None);
        self.unheard = 0;
    }

    /// Between two questions outside of rounds.
    fn keep(&self) -> Duration {
        if self.talking { KEEP } else { KEEP_QUIET }
    }

    /// When the next request is due, or a verdict.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.servers.is_empty() {
            return None;
        }
        let round = self.round.as_ref().map(|round| {
            let asked = ASKED.get(round.asked).copied();
            let other = (!round.other).then_some(OTHER_PORT);
            round.began + asked.into_iter().chain(other).min().unwrap_or(VERDICT)
        });
        round.into_iter().chain(self.next_round).chain(self.next_keep).min()
    }

    /// Makes the requests that are due. To be called whenever [`Self::poll_timeout`] says so, and after every input.
    pub fn handle_timeout(&mut self, entropy: &mut impl Entropy, now: Time) {
        self.waiting.retain(|waiting| now.since(waiting.sent) < TOO_LATE);
        if self.servers.is_empty() {
            return;
        }
        if self.round.is_none() && self.next_round.is_some_and(|next| now >= next) {
            self.begin(now);
        }
        if let Some(mut round) = self.round {
            // It begins when its first requests leave, whenever that could be.
            if round.asked == 0 {
                round.began = now;
            }
            let age = now.since(round.began);
            while ASKED.get(round.asked).is_some_and(|due| age >= *due) {
                self.ask_all(entropy, now);
                if round.asked > 0 {
                    self.ask_near(0, Test::Apart, entropy, now);
                    self.ask_near(0, Test::Filter, entropy, now);
                }
                round.asked += 1;
            }
            if !round.other && age >= OTHER_PORT {
                round.other = true;
                self.ask_near(0, Test::OtherPort, entropy, now);
            }
            self.round = Some(round);
            if age >= VERDICT {
                self.end(round.began, now);
            }
        } else if self.next_keep.is_some_and(|next| now >= next) {
            let again = KEEP_AGAIN * (1 << self.unheard.min(10));
            self.next_keep = Some(now + again.min(self.keep()));
            self.ask_near(self.unheard as usize, Test::Where, entropy, now);
            self.unheard = self.unheard.saturating_add(1);
        }
    }

    fn ask_all(&mut self, entropy: &mut impl Entropy, now: Time) {
        for server in self.servers.clone() {
            for place in self.places(&server) {
                self.ask(server.relay, place, Test::Where, entropy, now);
            }
        }
    }

    /// Asks one of the relays that ever answered: the nearest is 0, and after the farthest it comes again. The first of the list where none has answered.
    fn ask_near(&mut self, number: usize, test: Test, entropy: &mut impl Entropy, now: Time) {
        let near = number.checked_rem(self.distances.len()).map(|number| self.distances[number].0);
        let known = near.and_then(|id| self.servers.iter().find(|server| server.relay == id));
        let Some(server) = known.or(self.servers.first()).cloned() else { return };
        for place in self.places(&server) {
            let to = match test {
                Test::OtherPort => SocketAddr::new(place.ip(), server.other_port),
                Test::Where | Test::Apart | Test::Filter => place,
            };
            if to.port() != 0 && (!test.is_apart() || server.other_port != 0) {
                self.ask(server.relay, to, test, entropy, now);
            }
        }
    }

    fn ask(&mut self, server: RelayId, to: SocketAddr, test: Test, entropy: &mut impl Entropy, now: Time) {
        let mut transaction = [0; 12];
        entropy.fill(&mut transaction);
        self.waiting.push(Waiting { transaction, server, to, test, sent: now });
        let request = BindingRequest { transaction, change_port: test == Test::Filter };
        self.asks.push_back(Ask { to, request, apart: test.is_apart() });
    }

    /// One place of each family that we have.
    fn places(&self, server: &Server) -> Vec<SocketAddr> {
        let find = |v4: bool| server.places.iter().find(|place| place.is_ipv4() == v4).copied();
        let four = self.families.v4.then(|| find(true)).flatten();
        let six = self.families.v6.then(|| find(false)).flatten();
        four.into_iter().chain(six).collect()
    }

    /// An answer came from this place. One that nobody waits for is ignored.
    pub fn handle_answer(&mut self, source: SocketAddr, answer: &BindingResponse, now: Time) {
        let place = self.waiting.iter().position(|waiting| waiting.transaction == answer.transaction);
        let Some(place) = place else { return };
        let Waiting { server, to, test, sent, .. } = self.waiting[place];
        let from_there = match test {
            Test::Where | Test::OtherPort | Test::Apart => canonical(source) == canonical(to),
            Test::Filter => source.ip().to_canonical() == to.ip().to_canonical() && source.port() != to.port(),
        };
        if !from_there {
            return;
        }
        self.waiting.remove(place);
        self.unanswered = 0;
        if test.is_apart() {
            self.found.reached_apart |= test == Test::Apart;
            self.found.passed_filter |= test == Test::Filter;
            return;
        }
        let mapped = canonical(answer.mapped);
        if self.round.is_none() {
            // It may be older than a doubt that waits for its turn.
            let doubt = self.doubted.filter(|due| *due > now);
            (self.unheard, self.next_keep) = (0, Some(doubt.unwrap_or(now + self.keep())));
            if !self.is_known(to, mapped) {
                // The NAT forgot us, or there is another one: everything anew.
                self.begin(now);
            }
        }
        self.found.seen.retain(|seen| (seen.by, seen.test) != (to, test));
        self.found.seen.push(Seen { by: to, mapped, test, order: sent });
        let round_trip = now.since(sent);
        if test == Test::Where {
            let distance = self.measure(server, round_trip);
            self.measured.push_back(Measured { source, distance });
        }
    }

    /// Returns the findings that hold now: those of this round as soon as it has an answer.
    fn known(&self) -> &Findings {
        if self.round.is_some() && self.found.seen.is_empty() { &self.former } else { &self.found }
    }

    fn is_known(&self, by: SocketAddr, mapped: SocketAddr) -> bool {
        self.found.seen.iter().any(|seen| seen.by == by && seen.mapped == mapped)
    }

    fn measure(&mut self, relay: RelayId, round_trip: Duration) -> Distance {
        match self.distances.iter_mut().find(|(id, _)| *id == relay) {
            // Within a round the shortest counts; a new round measures anew.
            Some((_, known)) => {
                *known = if self.round.is_some() { (*known).min(round_trip) } else { (*known * 3 + round_trip) / 4 }
            }
            None => self.distances.push((relay, round_trip)),
        }
        self.distances.sort_by_key(|(id, known)| (*known, *id));
        let known = self.distances.iter().find(|(id, _)| *id == relay).map_or(round_trip, |(_, known)| *known);
        Distance { relay, round_trip: known }
    }

    fn end(&mut self, began: Time, now: Time) {
        self.round = None;
        let silent = self.found.seen.is_empty();
        self.unanswered = if silent { self.unanswered.saturating_add(1) } else { 0 };
        let again = ROUND_AGAIN * (1 << self.unanswered.saturating_sub(1).min(8));
        self.next_round = Some(now + if silent { again.min(ROUND_AGAIN_LONGEST) } else { ROUND });
        // The round's answers may be older than a doubt that came up meanwhile.
        let doubt = self.doubted.filter(|due| *due >= began);
        self.next_keep = (!silent).then(|| doubt.unwrap_or(now + self.keep()));
        // An error is not an empty answer (law 6): while peers are heard by UDP, the relays are away, and our NAT has not changed.
        let is_heard = self.heard.is_some_and(|heard| now.since(heard) < HEARD);
        if silent && is_heard {
            self.found = self.former.clone();
        } else if silent {
            self.former = Findings::default();
        }
        self.blocked = self.unanswered >= BLOCKED && !is_heard;
        let (reflexive, nat) = (self.reflexive(), self.judge());
        self.changed |= (&reflexive, nat) != (&self.reflexive, self.nat);
        self.set_reflexive(reflexive);
        self.set_nat(nat, NatChangeReason::RoundEnded);
    }

    fn set_reflexive(&mut self, reflexive: Vec<SocketAddr>) {
        if reflexive != self.reflexive {
            let from = std::mem::replace(&mut self.reflexive, reflexive);
            self.events.push(NatEvent::EndpointsChanged { from, to: self.reflexive.clone() });
        }
    }

    fn set_nat(&mut self, to: Nat, reason: NatChangeReason) {
        let from = std::mem::replace(&mut self.nat, to);
        if from != to {
            self.events.push(NatEvent::NatChanged { from, to, reason });
        }
    }

    /// Returns the next thing to do or to know of. Call it after every input and after [`Self::handle_timeout`], until it returns `None`.
    pub fn poll_output(&mut self) -> Option<NatReportOutput> {
        if let Some(measured) = self.measured.pop_front() {
            return Some(NatReportOutput::Measured(measured));
        }
        if let Some(ask) = self.asks.pop_front() {
            return Some(NatReportOutput::Ask(ask));
        }
        if self.has_changed() {
            return Some(NatReportOutput::Changed { reflexive: self.reflexive.clone(), nat: self.nat });
        }
        self.events.pop().map(NatReportOutput::Event)
    }

    /// Where we are seen and behind what, when that is news: after a round, or at once when the first answer comes.
    fn has_changed(&mut self) -> bool {
        if self.round.is_some() {
            // The first answer is worth telling: a cone's port is already right, and the kind follows.
            let reflexive = self.reflexive();
            let new = reflexive.iter().any(|endpoint| !self.reflexive.contains(endpoint));
            if new {
                self.set_reflexive(reflexive);
                self.changed = true;
            }
        }
        std::mem::take(&mut self.changed)
    }

    /// For people.
    pub fn view(&self) -> NatReportView {
        let relays =
            self.distances.iter().map(|(relay, round_trip)| Distance { relay: *relay, round_trip: *round_trip });
        let udp = if self.nat == Nat::Blocked { Some(false) } else { (!self.known().seen.is_empty()).then_some(true) };
        NatReportView {
            udp,
            unanswered: self.unanswered > 0 && self.known().seen.is_empty(),
            nat: self.nat,
            mapping: self.mapping(),
            filtering: self.filtering(),
            seen: self.reflexive.clone(),
            relays: relays.collect(),
        }
    }
}

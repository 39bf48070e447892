//! The node as relays see it: the endpoints of the first lane's socket, the NAT's mapping and filtering, and the distances of relays (RFC 8489, and
//! the tests of RFC 5780 as far as a relay with one address allows).
//!
//! ```text
//! round    at the start, when this host's addresses, routes or links change, when the mapping changed, and every 10 minutes
//!   0 ms   to each relay, for each family: binding request     again after 200 ms and 400 ms: the shortest round-trip time counts
//! 200 ms   from the test socket, to the nearest: binding request, and one with change-port      again after 200 ms: does its answer pass the filter?
//! 700 ms   to the nearest, at its other port: binding request      does another port see another mapping?
//!   1.5 s  verdict
//! between rounds   every 25 s while data flows, else every 5 minutes, when a direct path is in doubt, and when a relay sees another endpoint:
//!        to the nearest: binding request; without an answer after 0.5, 1, 2, 4… s again, to each relay in turn: the NAT may be restarting
//! ```
//! The filter is tested from a socket of its own. A Linux router that masquerades without a filter keeps a datagram from the other port as a flow.
//! The next datagram from this node to that port then gets another outer port, and a cone looks symmetric (fault D18).
//!
//! 25 s keep a mapping that a NAT drops after 30 s. An answer is a hint and not a proof: an attacker on the path may forge it, so it only makes
//! candidates.

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
use crate::families::Families;
use crate::nat::Nat;
pub use nature::{NatFiltering, NatMapping};

/// Limit on the relays that are asked: as many as a map has regions; more of them add no information.
const MAX_SERVERS: usize = 16;

/// Times in a round at which each relay is asked.
const REQUEST_TIMES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(200), Duration::from_millis(400)];

/// Time in a round at which the other port of the nearest relay is asked, 700 ms: by then the nearest one is known, also in the first round.
const OTHER_PORT_TIME: Duration = Duration::from_millis(700);

/// Length of a round, 1.5 s.
const ROUND_LENGTH: Duration = Duration::from_millis(1_500);

/// Rounds without an answer after which UDP counts as blocked.
const BLOCKED_ROUNDS: u32 = 2;
/// Time for which a datagram of a peer or a relay shows that UDP is not blocked, 90 s: several keepalives of either. Within it, silence of relays is
/// the relays' fault.
const HEARD_LASTS: Duration = Duration::from_secs(90);
const ROUND_RETRY: Duration = Duration::from_secs(3);
const ROUND_RETRY_MAX: Duration = Duration::from_secs(60);

/// Time between rounds, 10 minutes: distances change slowly.
const ROUND_INTERVAL: Duration = Duration::from_secs(600);

/// Time between binding requests outside of rounds while data flows, 25 s, and otherwise, 5 minutes.
const KEEPALIVE: Duration = Duration::from_secs(25);
const KEEPALIVE_QUIET: Duration = Duration::from_secs(300);

/// Delay before an unanswered request outside of rounds is repeated, 500 ms, doubled each time: more than a round trip takes.
const KEEPALIVE_RETRY: Duration = Duration::from_millis(500);

/// Least time between requests because of doubts, 2 s, however many paths are in doubt: a flapping link must not cause a stream of requests.
const DOUBT_INTERVAL: Duration = Duration::from_secs(2);

/// Time after which an answer is ignored, 5 s.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The STUN service of a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StunServer {
    /// The relay.
    pub relay: RelayId,
    /// Its endpoints, best first: one of each family is asked.
    pub places: Vec<SocketAddr>,
    /// The port of its second STUN socket; 0 if it has none.
    pub other_port: u16,
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Learn the endpoint that the relay sees.
    Mapped,
    /// Learn the endpoint that the relay's other port sees.
    OtherPort,
    /// Learn whether the test socket gets answers at all.
    TestSocket,
    /// Learn whether an answer passes the filter that comes from a port that was never sent to.
    Filter,
}

impl Purpose {
    const fn is_from_test_socket(self) -> bool {
        matches!(self, Self::TestSocket | Self::Filter)
    }
}

#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    transaction: [u8; 12],
    server: RelayId,
    to: SocketAddr,
    purpose: Purpose,
    sent: Time,
}

/// An endpoint that a server saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Observation {
    pub(crate) by: SocketAddr,
    pub(crate) mapped: SocketAddr,
    pub(crate) purpose: Purpose,
    /// When the request was sent: orders the requests of a round.
    order: Time,
}

/// The answers of one round, and those since.
#[derive(Clone, Debug, Default)]
struct Findings {
    seen: Vec<Observation>,
    /// True if the test socket was answered; true if the answer from the other port reached it.
    reached_test_socket: bool,
    passed_filter: bool,
}

/// The state of all requests to relays, and what their answers show.
#[derive(Clone, Debug, Default)]
pub struct NatReport {
    servers: Vec<StunServer>,
    families: Families,
    hosts: Vec<SocketAddr>,
    pending: Vec<PendingRequest>,
    round: Option<Round>,
    current: Findings,
    /// The findings of the previous round, valid until the present one has an answer.
    previous: Findings,
    /// When a datagram of a peer or a relay last came by UDP.
    heard: Option<Time>,
    /// Shortest round-trip times of the present or last round.
    distances: Vec<(RelayId, Duration)>,
    /// Rounds in a row without an answer.
    unanswered: u32,
    /// True if several rounds had no answer and no other datagram came by UDP.
    blocked: bool,
    next_round: Option<Time>,
    next_keep: Option<Time>,
    /// Requests outside of rounds since the last answer.
    unanswered_keepalives: u32,
    /// When a request was last made because of a doubt, or will be.
    doubted: Option<Time>,
    talking: bool,
    /// The endpoints and the kind of NAT at the end of the last round.
    reflexive: Vec<SocketAddr>,
    nat: Nat,
    changed: bool,
    queries: VecDeque<StunQuery>,
    measured: VecDeque<Measured>,
    events: EventQueue<NatEvent>,
}

/// Something that the NAT report asks the node to do, or reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NatReportOutput {
    /// A relay answered; its distance is known more exactly.
    Measured(Measured),
    /// A STUN request is sent.
    Query(StunQuery),
    /// Relays see this node at other endpoints, or behind another kind of NAT: peers are told.
    Changed {
        /// The endpoints at which relays see the first lane's socket.
        reflexive: Vec<SocketAddr>,
        /// The kind of NAT.
        nat: Nat,
    },
    /// A state changed.
    Event(NatEvent),
}

/// The answer of a relay to a STUN request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The source of the answer.
    pub source: SocketAddr,
    /// The relay and its distance.
    pub distance: Distance,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    began: Time,
    asked: usize,
    other: bool,
}

/// A STUN request to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StunQuery {
    /// The destination.
    pub to: SocketAddr,
    /// The request.
    pub request: BindingRequest,
    /// True if it is sent from the test socket, which is used for nothing else, instead of the first lane's socket.
    pub from_test_socket: bool,
}

/// The distance of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distance {
    /// The relay.
    pub relay: RelayId,
    /// The shortest round-trip time of a round.
    pub round_trip: Duration,
}

/// What `taut netcheck` shows of a running node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatReportView {
    /// True if UDP passes; `None` while this is not known.
    pub udp: Option<bool>,
    /// True if no relay answered the last requests, and no earlier answer is valid.
    pub unanswered: bool,
    /// The kind of NAT.
    pub nat: Nat,
    /// The NAT's mapping.
    pub mapping: NatMapping,
    /// The NAT's filtering.
    pub filtering: NatFiltering,
    /// The endpoints that relays see, one address of each family.
    pub seen: Vec<SocketAddr>,
    /// The distances of the relays that answered, nearest first.
    pub relays: Vec<Distance>,
}

impl NatReport {
    /// Replaces the relays of the map.
    pub fn set_servers(&mut self, servers: &[StunServer], now: Time) {
        let servers = &servers[..servers.len().min(MAX_SERVERS)];
        if servers != self.servers {
            self.servers = servers.to_vec();
            self.distances.retain(|(id, _)| servers.iter().any(|server| server.relay == *id));
            self.begin_round(now);
        }
    }

    /// Sets the addresses of the interfaces with the first lane's port: if relays see one of them, there is no NAT.
    pub fn set_hosts(&mut self, hosts: &[SocketAddr]) {
        self.hosts = hosts.iter().map(|host| canonical(*host)).collect();
    }

    /// Returns the addresses of the interfaces.
    pub fn hosts(&self) -> &[SocketAddr] {
        &self.hosts
    }

    /// This host's addresses, routes or links changed, or it was suspended: everything is measured again.
    pub fn handle_network_change(&mut self, families: Families, now: Time) {
        self.families = families;
        self.begin_round(now);
        self.previous = Findings::default();
    }

    /// A datagram of a peer or a relay came by UDP: UDP is not blocked, whether or not relays answer requests.
    pub fn handle_heard(&mut self, now: Time) {
        self.heard = Some(now);
        if self.nat == Nat::Blocked {
            self.set_nat(Nat::Unknown, NatChangeReason::DatagramHeard);
            self.changed = true;
        }
    }

    /// Sets whether data flows: the mapping is kept open meanwhile.
    pub fn set_talking(&mut self, talking: bool, now: Time) {
        if talking && !self.talking {
            self.next_keep = self.next_keep.map(|next| next.min(now));
        }
        self.talking = talking;
    }

    /// A direct path is in doubt, or a relay sees another endpoint: the NAT may have given this node another port, which no peer knows yet (fault
    /// D4).
    pub fn handle_doubt(&mut self, now: Time) {
        let due = self.doubted.map_or(now, |last| if last > now { last } else { now.max(last + DOUBT_INTERVAL) });
        self.doubted = Some(due);
        self.next_keep = self.next_keep.map(|next| next.min(due));
    }

    fn begin_round(&mut self, now: Time) {
        self.round = Some(Round { began: now, asked: 0, other: false });
        let found = std::mem::take(&mut self.current);
        if !found.seen.is_empty() {
            self.previous = found;
        }
        (self.next_round, self.next_keep) = (None, None);
        self.unanswered_keepalives = 0;
    }

    /// Returns the time between two requests outside of rounds.
    fn keepalive(&self) -> Duration {
        if self.talking { KEEPALIVE } else { KEEPALIVE_QUIET }
    }

    /// Returns when the next request or the end of a round is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.servers.is_empty() {
            return None;
        }
        let round = self.round.as_ref().map(|round| {
            let asked = REQUEST_TIMES.get(round.asked).copied();
            let other = (!round.other).then_some(OTHER_PORT_TIME);
            round.began + asked.into_iter().chain(other).min().unwrap_or(ROUND_LENGTH)
        });
        round.into_iter().chain(self.next_round).chain(self.next_keep).min()
    }

    /// Makes the requests that are due. Call it at [`Self::poll_timeout`] and after every input.
    pub fn handle_timeout(&mut self, entropy: &mut impl Entropy, now: Time) {
        self.pending.retain(|pending| now.since(pending.sent) < ANSWER_TIMEOUT);
        if self.servers.is_empty() {
            return;
        }
        if self.round.is_none() && self.next_round.is_some_and(|next| now >= next) {
            self.begin_round(now);
        }
        if let Some(mut round) = self.round {
            // A round begins when its first requests are sent.
            if round.asked == 0 {
                round.began = now;
            }
            let age = now.since(round.began);
            while REQUEST_TIMES.get(round.asked).is_some_and(|due| age >= *due) {
                self.ask_all(entropy, now);
                if round.asked > 0 {
                    self.ask_near(0, Purpose::TestSocket, entropy, now);
                    self.ask_near(0, Purpose::Filter, entropy, now);
                }
                round.asked += 1;
            }
            if !round.other && age >= OTHER_PORT_TIME {
                round.other = true;
                self.ask_near(0, Purpose::OtherPort, entropy, now);
            }
            self.round = Some(round);
            if age >= ROUND_LENGTH {
                self.end_round(round.began, now);
            }
        } else if self.next_keep.is_some_and(|next| now >= next) {
            let again = KEEPALIVE_RETRY * (1 << self.unanswered_keepalives.min(10));
            self.next_keep = Some(now + again.min(self.keepalive()));
            self.ask_near(self.unanswered_keepalives as usize, Purpose::Mapped, entropy, now);
            self.unanswered_keepalives = self.unanswered_keepalives.saturating_add(1);
        }
    }

    fn ask_all(&mut self, entropy: &mut impl Entropy, now: Time) {
        for server in self.servers.clone() {
            for place in self.places(&server) {
                self.ask(server.relay, place, Purpose::Mapped, entropy, now);
            }
        }
    }

    /// Asks the relay at this place in the order of distance, starting again after the farthest. Asks the first listed one if none has answered yet.
    fn ask_near(&mut self, number: usize, purpose: Purpose, entropy: &mut impl Entropy, now: Time) {
        let near = number.checked_rem(self.distances.len()).map(|number| self.distances[number].0);
        let known = near.and_then(|id| self.servers.iter().find(|server| server.relay == id));
        let Some(server) = known.or(self.servers.first()).cloned() else { return };
        for place in self.places(&server) {
            let to = match purpose {
                Purpose::OtherPort => SocketAddr::new(place.ip(), server.other_port),
                Purpose::Mapped | Purpose::TestSocket | Purpose::Filter => place,
            };
            if to.port() != 0 && (!purpose.is_from_test_socket() || server.other_port != 0) {
                self.ask(server.relay, to, purpose, entropy, now);
            }
        }
    }

    fn ask(&mut self, server: RelayId, to: SocketAddr, purpose: Purpose, entropy: &mut impl Entropy, now: Time) {
        let mut transaction = [0; 12];
        entropy.fill(&mut transaction);
        self.pending.push(PendingRequest { transaction, server, to, purpose, sent: now });
        let request = BindingRequest { transaction, change_port: purpose == Purpose::Filter };
        self.queries.push_back(StunQuery { to, request, from_test_socket: purpose.is_from_test_socket() });
    }

    /// Returns one endpoint of each family that this host has.
    fn places(&self, server: &StunServer) -> Vec<SocketAddr> {
        let find = |v4: bool| server.places.iter().find(|place| place.is_ipv4() == v4).copied();
        let four = self.families.v4.then(|| find(true)).flatten();
        let six = self.families.v6.then(|| find(false)).flatten();
        four.into_iter().chain(six).collect()
    }

    /// Takes the answer of a relay. An answer that was not asked for is ignored.
    pub fn handle_answer(&mut self, source: SocketAddr, answer: &BindingResponse, now: Time) {
        let place = self.pending.iter().position(|pending| pending.transaction == answer.transaction);
        let Some(place) = place else { return };
        let PendingRequest { server, to, purpose, sent, .. } = self.pending[place];
        let from_there = match purpose {
            Purpose::Mapped | Purpose::OtherPort | Purpose::TestSocket => canonical(source) == canonical(to),
            Purpose::Filter => source.ip().to_canonical() == to.ip().to_canonical() && source.port() != to.port(),
        };
        if !from_there {
            return;
        }
        self.pending.remove(place);
        self.unanswered = 0;
        if purpose.is_from_test_socket() {
            self.current.reached_test_socket |= purpose == Purpose::TestSocket;
            self.current.passed_filter |= purpose == Purpose::Filter;
            return;
        }
        let mapped = canonical(answer.mapped);
        if self.round.is_none() {
            // The answer may be older than a doubt that waits for its turn.
            let doubt = self.doubted.filter(|due| *due > now);
            (self.unanswered_keepalives, self.next_keep) = (0, Some(doubt.unwrap_or(now + self.keepalive())));
            if !self.is_known(to, mapped) {
                // The NAT dropped the mapping, or another NAT is in front: a new round.
                self.begin_round(now);
            }
        }
        self.current.seen.retain(|seen| (seen.by, seen.purpose) != (to, purpose));
        self.current.seen.push(Observation { by: to, mapped, purpose, order: sent });
        let round_trip = now.since(sent);
        if purpose == Purpose::Mapped {
            let distance = self.measure(server, round_trip);
            self.measured.push_back(Measured { source, distance });
        }
    }

    /// Returns the valid findings: those of this round as soon as it has an answer.
    fn valid(&self) -> &Findings {
        if self.round.is_some() && self.current.seen.is_empty() { &self.previous } else { &self.current }
    }

    fn is_known(&self, by: SocketAddr, mapped: SocketAddr) -> bool {
        self.current.seen.iter().any(|seen| seen.by == by && seen.mapped == mapped)
    }

    fn measure(&mut self, relay: RelayId, round_trip: Duration) -> Distance {
        match self.distances.iter_mut().find(|(id, _)| *id == relay) {
            // Within a round the shortest time counts; a new round starts again.
            Some((_, known)) => {
                *known = if self.round.is_some() { (*known).min(round_trip) } else { (*known * 3 + round_trip) / 4 }
            }
            None => self.distances.push((relay, round_trip)),
        }
        self.distances.sort_by_key(|(id, known)| (*known, *id));
        let known = self.distances.iter().find(|(id, _)| *id == relay).map_or(round_trip, |(_, known)| *known);
        Distance { relay, round_trip: known }
    }

    fn end_round(&mut self, began: Time, now: Time) {
        self.round = None;
        let silent = self.current.seen.is_empty();
        self.unanswered = if silent { self.unanswered.saturating_add(1) } else { 0 };
        let again = ROUND_RETRY * (1 << self.unanswered.saturating_sub(1).min(8));
        self.next_round = Some(now + if silent { again.min(ROUND_RETRY_MAX) } else { ROUND_INTERVAL });
        // The answers of the round may be older than a doubt that came meanwhile.
        let doubt = self.doubted.filter(|due| *due >= began);
        self.next_keep = (!silent).then(|| doubt.unwrap_or(now + self.keepalive()));
        // An error is not an empty answer (law 6): while peers are heard by UDP, the relays are away and the NAT has not changed.
        let is_heard = self.heard.is_some_and(|heard| now.since(heard) < HEARD_LASTS);
        if silent && is_heard {
            self.current = self.previous.clone();
        } else if silent {
            self.previous = Findings::default();
        }
        self.blocked = self.unanswered >= BLOCKED_ROUNDS && !is_heard;
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

    /// Returns the next output. Call it after every input and after [`Self::handle_timeout`], until it returns `None`.
    pub fn poll_output(&mut self) -> Option<NatReportOutput> {
        if let Some(measured) = self.measured.pop_front() {
            return Some(NatReportOutput::Measured(measured));
        }
        if let Some(ask) = self.queries.pop_front() {
            return Some(NatReportOutput::Query(ask));
        }
        if self.has_changed() {
            return Some(NatReportOutput::Changed { reflexive: self.reflexive.clone(), nat: self.nat });
        }
        self.events.pop().map(NatReportOutput::Event)
    }

    /// Returns true if the endpoints or the kind of NAT changed: after a round, or at once when the first answer comes.
    fn has_changed(&mut self) -> bool {
        if self.round.is_some() {
            // The first answer is worth reporting: the port of a cone is already right, and its kind follows.
            let reflexive = self.reflexive();
            let new = reflexive.iter().any(|endpoint| !self.reflexive.contains(endpoint));
            if new {
                self.set_reflexive(reflexive);
                self.changed = true;
            }
        }
        std::mem::take(&mut self.changed)
    }

    /// Returns what users see.
    pub fn view(&self) -> NatReportView {
        let relays =
            self.distances.iter().map(|(relay, round_trip)| Distance { relay: *relay, round_trip: *round_trip });
        let udp = if self.nat == Nat::Blocked { Some(false) } else { (!self.valid().seen.is_empty()).then_some(true) };
        NatReportView {
            udp,
            unanswered: self.unanswered > 0 && self.valid().seen.is_empty(),
            nat: self.nat,
            mapping: self.mapping(),
            filtering: self.filtering(),
            seen: self.reflexive.clone(),
            relays: relays.collect(),
        }
    }
}

//! Two ends in virtual time, for tests: each with its paths and its NAT, a network with latency, loss and firewalls between them, a relay beside it, and
//! data that flows both ways under a lane's watch.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use taut_wire::control::{Endpoints, Search};

use super::*;
use crate::liveness::LivenessDetector;
use crate::nat::Nat;
use crate::nat_report::Foretold;
use crate::search::SOCKETS;

/// A seeded source of numbers (splitmix64).
#[derive(Clone)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

impl Entropy for Dice {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.iter_mut().for_each(|byte| *byte = self.next().to_le_bytes()[0]);
    }
}

/// How a NAT chooses outer ports, and whom it lets in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// No NAT, no firewall.
    Open,
    /// No NAT; in comes only who was spoken to.
    Firewall,
    FullCone,
    AddressRestricted,
    PortRestricted,
    /// Another port for each destination, drawn.
    Symmetric,
    /// Another port for each destination, counted up.
    Counting,
}

/// What two of them can reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reach {
    Direct,
    /// By guessing ports, of which one is always met.
    Foretold,
    /// By guessing ports, with luck.
    Chance,
    Never,
}

impl Kind {
    pub(super) const ALL: [Self; 7] = [
        Self::Open,
        Self::Firewall,
        Self::FullCone,
        Self::AddressRestricted,
        Self::PortRestricted,
        Self::Symmetric,
        Self::Counting,
    ];

    fn is_hard(self) -> bool {
        matches!(self, Self::Symmetric | Self::Counting)
    }

    /// When a direct path must be possible.
    pub(super) fn reach(self, other: Self) -> Reach {
        // The firewall of a host without NAT knows ports, too: a port that nobody could tell it is not let in.
        let strict = |kind| matches!(kind, Self::PortRestricted | Self::Firewall) || Self::is_hard(kind);
        match (self, other) {
            (Self::Counting, Self::Counting) => Reach::Foretold,
            (one, two) if one.is_hard() && two.is_hard() => Reach::Never,
            (Self::Counting, known) | (known, Self::Counting) if strict(known) => Reach::Foretold,
            (Self::Symmetric, known) | (known, Self::Symmetric) if strict(known) => Reach::Chance,
            _ => Reach::Direct,
        }
    }
}

/// The socket that everything goes by that is not said to go by another.
const FIRST: u16 = 0;

/// One end's NAT or firewall.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) kind: Kind,
    inner: SocketAddr,
    outer: IpAddr,
    /// Outer ports by socket and destination; cones have one for all.
    ports: BTreeMap<(u16, Option<SocketAddr>), u16>,
    /// Whose an outer port is.
    sockets: BTreeMap<u16, u16>,
    /// Who was spoken to from an outer port, and when.
    spoken: BTreeMap<(u16, SocketAddr), Time>,
    next_port: u16,
    /// Of one that counts.
    step: u16,
}

/// After so long a NAT forgets.
const FORGETS: Duration = Duration::from_secs(30);

impl Gate {
    fn new(kind: Kind, inner: SocketAddr, outer: IpAddr, dice: &mut Dice) -> Self {
        let next_port = 20_000 + u16::try_from(dice.below(30_000)).unwrap();
        let (ports, sockets, spoken) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { kind, inner, outer, ports, sockets, spoken, next_port, step: 1 + u16::from(dice.below(8) == 0) }
    }

    /// What a packet's source becomes on its way out.
    pub(super) fn out(&mut self, socket: u16, remote: SocketAddr, dice: &mut Dice, now: Time) -> SocketAddr {
        let port = match self.kind {
            Kind::Open | Kind::Firewall => self.inner.port(),
            kind => {
                let (next, step) = (&mut self.next_port, self.step);
                *self.ports.entry((socket, kind.is_hard().then_some(remote))).or_insert_with(|| {
                    *next = match kind {
                        Kind::Counting => *next + step,
                        _ => 1_024 + u16::try_from(dice.below(64_512)).unwrap(),
                    };
                    *next
                })
            }
        };
        self.sockets.insert(port, socket);
        self.spoken.insert((port, remote), now);
        SocketAddr::new(self.outer, port)
    }

    /// The socket that a packet from `remote` to this place comes in to, if it does.
    pub(super) fn comes_in(&self, to: SocketAddr, remote: SocketAddr, now: Time) -> Option<u16> {
        let known = |fits: &dyn Fn(SocketAddr) -> bool| {
            let nobody = SocketAddr::from(([0, 0, 0, 0], 0));
            let mut spoken = self.spoken.range((to.port(), nobody)..).take_while(|((port, _), _)| *port == to.port());
            spoken.any(|((_, whom), when)| now.since(*when) < FORGETS && fits(*whom))
        };
        let ours = match self.kind {
            Kind::Open | Kind::Firewall => to == self.inner,
            _ => to.ip() == self.outer,
        };
        let passes = ours
            && match self.kind {
                Kind::Open => true,
                Kind::FullCone => known(&|_| true),
                Kind::AddressRestricted => known(&|whom| whom.ip() == remote.ip()),
                Kind::Firewall | Kind::PortRestricted | Kind::Symmetric | Kind::Counting => {
                    known(&|whom| whom == remote)
                }
            };
        passes.then(|| self.sockets.get(&to.port()).copied().unwrap_or(FIRST))
    }

    /// Another outer port for everything.
    pub(super) fn rebind(&mut self) {
        self.ports.clear();
        self.sockets.clear();
        self.spoken.clear();
    }

    /// Other hosts behind it, or other peers of ours, open flows.
    pub(super) fn drift(&mut self, flows: u16) {
        if self.kind == Kind::Counting {
            self.next_port += flows * self.step;
        }
    }
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Said {
    Probe(u64),
    Answer(u64, SocketAddr),
    Endpoints(Endpoints),
    Search(Search),
    Data(u64),
    Receipt(u64),
}

/// One end.
pub(super) struct End {
    pub(super) paths: Paths,
    pub(super) budget: Budget,
    pub(super) ours: LocalEndpoints,
    pub(super) gate: Gate,
    pub(super) watch: LivenessDetector,
    dice: Dice,
    choice: Option<Choice>,
    copies: Option<Way>,
    last_source: Option<Way>,
    data: u64,
    receipt_due: Option<(Time, u64)>,
    /// The latest data that arrived.
    pub(super) heard: u64,
    pub(super) arrived: BTreeSet<u64>,
    pub(super) last_data: Option<Time>,
    /// Probes sent, by way.
    pub(super) probes: BTreeMap<Way, Vec<Time>>,
    /// Ways taken, and since when.
    pub(super) taken: Vec<(Time, Way)>,
    /// Sockets that wait for the peer, as a lane has them: where to, the first and the last, until when.
    digs: Option<(SocketAddr, u16, u16, Time)>,
    /// The one that the peer was found by, and where.
    found: Option<(SocketAddr, u16)>,
    last_socket: u16,
    /// Rounds of searching begun.
    pub(super) rounds: Vec<Time>,
    pub(super) events: Vec<PathEvent>,
}

/// What the network does with packets from one end.
#[derive(Clone, Copy)]
pub(super) struct Link {
    pub(super) up: bool,
    pub(super) latency: Duration,
    pub(super) jitter: Duration,
    /// In thousandths.
    pub(super) loss: u64,
}

pub(super) struct World {
    pub(super) now: Time,
    pub(super) ends: [End; 2],
    /// Directly, from each end.
    pub(super) direct: [Link; 2],
    /// By the relay, from each end.
    pub(super) relay: [Link; 2],
    pub(super) dice: Dice,
    queue: BTreeMap<(Time, u64), (usize, Hop, Said)>,
    queued: u64,
    /// Data flows, each end one every so long.
    pub(super) flow: Option<Duration>,
    next_data: Time,
}

#[derive(Clone, Copy)]
enum Hop {
    /// Source and destination on the wire between the gates.
    Wire(SocketAddr, SocketAddr),
    Relay,
}

pub(super) fn relay_of(end: usize) -> Way {
    Way::Relayed { relay: SocketAddr::from(([192, 0, 2, 9], 3478)), id: u32::try_from(end).unwrap() + 1 }
}

impl World {
    /// Two ends behind these gates: 10 to 40 ms apart, the relay a bit further; each knows its own endpoints, and nothing of the other's.
    pub(super) fn new(kinds: [Kind; 2], seed: u64) -> Self {
        let mut dice = Dice(seed);
        let latency = Duration::from_millis(5 + dice.below(15));
        let link = Link { up: true, latency, jitter: Duration::from_millis(2), loss: 0 };
        let relay = Link { latency: latency + Duration::from_millis(dice.below(20)), ..link };
        let ends = [0, 1].map(|side| End::new(side, kinds[side], &mut dice));
        let (queue, next_data) = (BTreeMap::new(), Time::ZERO);
        Self {
            now: at(1_000),
            ends,
            direct: [link; 2],
            relay: [relay; 2],
            dice,
            queue,
            queued: 0,
            flow: None,
            next_data,
        }
    }

    /// A session begins, over the relay.
    pub(super) fn begin(&mut self) {
        for side in 0..2 {
            let end = &mut self.ends[side];
            end.paths.set_relays(&[relay_of(side)], self.now);
            end.paths.handle_session_begun(Some(relay_of(side)), self.now);
            self.drain(side);
        }
    }

    /// Until nothing is left before this many milliseconds from the start, or `done` says so.
    pub(super) fn run_until(&mut self, end: Time, mut done: impl FnMut(&Self) -> bool) -> bool {
        loop {
            if done(self) {
                return true;
            }
            let queued = self.queue.keys().next().map(|(due, _)| *due);
            let paths = self.ends.iter().filter_map(|end| end.paths.poll_timeout(self.now)).min();
            let lanes = self.ends.iter().filter_map(|end| end.watch.poll_timeout()).min();
            let receipts = self.ends.iter().filter_map(|end| end.receipt_due.map(|(due, _)| due)).min();
            let flow = self.flow.map(|_| self.next_data);
            let Some(next) = [queued, paths, lanes, receipts, flow].into_iter().flatten().min() else { return false };
            let next = next.max(self.now);
            if next > end {
                self.now = end;
                return done(self);
            }
            // A timer that is due now and does nothing would stop time: everything is given a chance at each moment, and the next one is later.
            let before = (self.now, self.queued);
            self.now = next;
            self.step();
            if (self.now, self.queued) == before {
                self.now = Time(self.now.0 + 100_000);
            }
        }
    }

    pub(super) fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.run_until(end, |_| false);
    }

    fn step(&mut self) {
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (side, hop, said) = entry.remove();
            self.arrive(side, hop, said);
        }
        if let Some(every) = self.flow.filter(|_| self.now >= self.next_data) {
            self.next_data = self.now + every;
            (0..2).for_each(|side| self.send_data(side));
        }
        for side in 0..2 {
            let end = &mut self.ends[side];
            if end.watch.handle_timeout(self.now) {
                // As a lane does: the spare way at once, and the agent judges.
                end.copies = end.copies.or(end.choice.and_then(|choice| choice.spare));
                end.paths.handle_suspicion(self.now);
            }
            if let Some((_, counter)) = end.receipt_due.take_if(|(due, _)| *due <= self.now) {
                self.send_as_data(side, Said::Receipt(counter));
            }
            self.ends[side].paths.handle_timeout(self.now);
            self.drain(side);
        }
    }

    fn send_data(&mut self, side: usize) {
        let end = &mut self.ends[side];
        end.paths.handle_active(self.now);
        end.data += 1;
        end.watch.sent(self.now);
        let data = end.data;
        self.drain(side);
        self.send_as_data(side, Said::Data(data));
    }

    fn send_as_data(&mut self, side: usize, said: Said) {
        let Some(choice) = self.ends[side].choice else { return };
        self.send(side, choice.way, said);
        if let Some(also) = self.ends[side].copies {
            self.send(side, also, said);
        }
    }

    /// Does all that the paths of an end want done.
    pub(super) fn drain(&mut self, side: usize) {
        while let Some(output) = self.ends[side].poll_output(self.now) {
            self.carry_out(side, output);
        }
    }

    fn carry_out(&mut self, side: usize, output: PathOutput) {
        let (now, end) = (self.now, &mut self.ends[side]);
        match output {
            PathOutput::Choice(choice) => end.take(choice, now),
            PathOutput::Endpoints(endpoints) => self.send_as_data(side, Said::Endpoints(endpoints)),
            PathOutput::OpenSearch(round) => {
                end.rounds.push(now);
                self.send_as_data(side, Said::Search(round.ask));
                if let Some(search) = round.search {
                    self.open_search(side, search);
                }
            }
            PathOutput::Probe(probe) => {
                end.probes.entry(probe.way).or_default().push(now);
                self.send(side, probe.way, Said::Probe(probe.id));
            }
            PathOutput::CloseSearch => (end.digs, end.found) = (None, None),
            PathOutput::Event(event) => end.events.push(event),
        }
    }

    /// Opens many sockets, as a lane does, each with a probe.
    fn open_search(&mut self, side: usize, search: PortSearch) {
        let end = &mut self.ends[side];
        let first = end.last_socket + 1;
        end.last_socket += search.sockets;
        let last = end.last_socket;
        (end.digs, end.found) = (Some((search.to, first, last, self.now + search.lasts)), None);
        for socket in first..=last {
            self.send_from(side, socket, Way::Direct(search.to), Said::Probe(u64::from(socket)));
        }
    }

    fn send(&mut self, side: usize, way: Way, said: Said) {
        let found = self.ends[side].found.filter(|(place, _)| way == Way::Direct(*place));
        self.send_from(side, found.map_or(FIRST, |(_, socket)| socket), way, said);
    }

    fn send_from(&mut self, side: usize, socket: u16, way: Way, said: Said) {
        let (link, hop) = match way {
            Way::Direct(to) => {
                let from = self.ends[side].gate.out(socket, to, &mut self.dice, self.now);
                (self.direct[side], Hop::Wire(from, to))
            }
            Way::Relayed { .. } => (self.relay[side], Hop::Relay),
        };
        if !link.up || self.dice.below(1_000) < link.loss {
            return;
        }
        let jitter = Duration::from_nanos(self.dice.below(u64::try_from(link.jitter.as_nanos()).unwrap() + 1));
        self.queued += 1;
        self.queue.insert((self.now + link.latency + jitter, self.queued), (1 - side, hop, said));
    }

    fn arrive(&mut self, side: usize, hop: Hop, said: Said) {
        let now = self.now;
        let way = match hop {
            Hop::Relay => relay_of(side),
            Hop::Wire(from, to) => {
                let Some(socket) = self.ends[side].gate.comes_in(to, from, now) else { return };
                if !self.ends[side].takes(socket, from, now) {
                    return;
                }
                Way::Direct(from)
            }
        };
        let end = &mut self.ends[side];
        if end.last_source != Some(way) {
            end.last_source = Some(way);
            end.paths.handle_arrival(way, now);
        }
        match said {
            Said::Probe(id) => {
                end.paths.handle_probe_from(way, now);
                self.send(side, way, Said::Answer(id, way.first_hop()));
            }
            Said::Answer(id, seen) => end.paths.handle_answer(way, id, seen, now),
            Said::Endpoints(endpoints) => end.paths.handle_said(&endpoints, now),
            Said::Search(search) => end.paths.handle_search(&search, &end.ours, now),
            Said::Data(counter) => {
                end.watch.heard(now);
                end.arrived.insert(counter);
                end.heard = end.heard.max(counter);
                end.last_data = Some(now);
                let heard = end.heard;
                let due = end.receipt_due.map_or(now + Duration::from_millis(20), |(due, _)| due);
                end.receipt_due = Some((due, heard));
            }
            Said::Receipt(counter) => end.watch.receipted(counter == end.data, now),
        }
        self.drain(side);
    }

    pub(super) fn way(&self, side: usize) -> Option<Way> {
        self.ends[side].choice.map(|choice| choice.way)
    }

    pub(super) fn both_direct(&self) -> bool {
        (0..2).all(|side| self.way(side).is_some_and(|way| !way.is_relayed()))
    }

    pub(super) fn both_relayed(&self) -> bool {
        (0..2).all(|side| self.way(side).is_some_and(|way| way.is_relayed()))
    }

    /// The other address of an end: as after a roam.
    pub(super) fn move_to(&mut self, side: usize, inner: SocketAddr, outer: IpAddr) {
        let kind = self.ends[side].gate.kind;
        self.ends[side].gate = Gate::new(kind, inner, outer, &mut self.dice);
    }
}

impl End {
    fn new(side: usize, kind: Kind, dice: &mut Dice) -> Self {
        let number = u8::try_from(side).unwrap() + 1;
        let outer = IpAddr::from([198, 51, 100, number]);
        let inner = match kind {
            Kind::Open | Kind::Firewall => SocketAddr::new(outer, 8288),
            _ => SocketAddr::from(([10, number, 0, 2], 8288)),
        };
        let mut own = Dice(dice.next());
        let mut gate = Gate::new(kind, inner, outer, dice);
        let relay = SocketAddr::from(([192, 0, 2, 9], 3478));
        let reflexive = gate.out(FIRST, relay, dice, at(1_000));
        let mut ours = LocalEndpoints::new(&mut own);
        ours.set_host(&[inner], &[]);
        let nat = match kind {
            Kind::Symmetric => Nat::Symmetric,
            Kind::Counting => Nat::Sequential,
            _ => Nat::Cone,
        };
        ours.set_reflexive(&[reflexive], nat, &[]);
        let step = if kind == Kind::Counting { u8::try_from(gate.step).unwrap() } else { 0 };
        ours.set_foretold(kind.is_hard().then_some(Foretold { latest: reflexive, step }));
        let mut budget = Budget::new();
        budget.set_sockets(SOCKETS);
        Self {
            paths: Paths::new(Arc::from([]), Families::default()),
            budget,
            ours,
            gate,
            watch: LivenessDetector::default(),
            dice: own,
            choice: None,
            copies: None,
            last_source: None,
            data: 0,
            receipt_due: None,
            heard: 0,
            arrived: BTreeSet::new(),
            last_data: None,
            probes: BTreeMap::new(),
            taken: Vec::new(),
            digs: None,
            found: None,
            last_socket: FIRST,
            rounds: Vec::new(),
            events: Vec::new(),
        }
    }

    fn poll_output(&mut self, now: Time) -> Option<PathOutput> {
        let (local_endpoints, budget, entropy) = (&self.ours, &mut self.budget, &mut self.dice);
        self.paths.poll_output(&mut PathContext { local_endpoints, budget, entropy, now })
    }

    /// Sends data as the choice says from now on, as a lane does.
    fn take(&mut self, choice: Choice, now: Time) {
        if self.choice.is_none_or(|former| former.way != choice.way) {
            self.taken.push((now, choice.way));
        }
        self.watch.judged();
        self.copies = choice.also;
        choice.round_trip.into_iter().for_each(|round_trip| self.watch.set_round_trip(round_trip));
        self.choice = Some(choice);
    }

    /// Whether a socket is open for what comes from there; the first that hears of a search stays, and the others close.
    fn takes(&mut self, socket: u16, from: SocketAddr, now: Time) -> bool {
        if socket == FIRST || self.found == Some((from, socket)) {
            return true;
        }
        let open = |&(to, first, last, until): &(SocketAddr, u16, u16, Time)| {
            to == from && (first..=last).contains(&socket) && now < until
        };
        if self.digs.take_if(|digs| open(digs)).is_none() {
            return false;
        }
        self.found = Some((from, socket));
        true
    }
}

pub(super) fn at(milliseconds: u64) -> Time {
    Time::ZERO + Duration::from_millis(milliseconds)
}

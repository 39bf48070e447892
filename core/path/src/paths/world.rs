//! Two ends in virtual time, for tests: each has its paths and its NAT. Between them are a network with latency, loss and firewalls, and a relay.
//! Data flows in both directions under a lane's liveness detector.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use taut_base::SAFE_PACKET;
use taut_testkit::Seeded;
use taut_wire::control::{Endpoints, Search};

use super::*;
use crate::liveness::LivenessDetector;
use crate::nat::{Nat, PortPrediction};
use crate::search::SOCKETS;

/// How a NAT chooses outer ports, and which packets it lets in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NatBehaviour {
    /// No NAT, no firewall.
    Open,
    /// No NAT; only packets of destinations that were contacted come in.
    Firewall,
    FullCone,
    AddressRestricted,
    PortRestricted,
    /// A random port for each destination.
    Symmetric,
    /// The next port for each destination.
    Counting,
}

/// What two ends can reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Direct,
    /// A direct path by guessing ports, in every run.
    Predicted,
    /// A direct path by guessing ports, in most runs.
    Chance,
    Never,
}

impl NatBehaviour {
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

    /// Returns what two ends behind these NATs can reach.
    pub(super) fn reach(self, other: Self) -> Outcome {
        // The firewall of a host without NAT filters by port, too: a port that was not reported to it does not come in.
        let strict = |kind| matches!(kind, Self::PortRestricted | Self::Firewall) || Self::is_hard(kind);
        match (self, other) {
            (Self::Counting, Self::Counting) => Outcome::Predicted,
            (one, two) if one.is_hard() && two.is_hard() => Outcome::Never,
            (Self::Counting, known) | (known, Self::Counting) if strict(known) => Outcome::Predicted,
            (Self::Symmetric, known) | (known, Self::Symmetric) if strict(known) => Outcome::Chance,
            _ => Outcome::Direct,
        }
    }
}

/// The socket for all packets without a socket of their own.
const FIRST: u16 = 0;

/// The NAT or firewall of one end.
#[derive(Clone)]
pub(super) struct TestNat {
    pub(super) kind: NatBehaviour,
    inner: SocketAddr,
    outer: IpAddr,
    /// Outer ports by socket and destination; a cone has one for all destinations.
    ports: BTreeMap<(u16, Option<SocketAddr>), u16>,
    /// The inner socket of each outer port.
    sockets: BTreeMap<u16, u16>,
    /// When a destination was last contacted from an outer port.
    contacted: BTreeMap<(u16, SocketAddr), Time>,
    next_port: u16,
    /// The step of a NAT that counts.
    step: u16,
}

/// Time after which the NAT drops a mapping.
const MAPPING_TIMEOUT: Duration = Duration::from_secs(30);

impl TestNat {
    fn new(kind: NatBehaviour, inner: SocketAddr, outer: IpAddr, rng: &mut Seeded) -> Self {
        let next_port = 20_000 + u16::try_from(rng.below_u64(30_000)).unwrap();
        let (ports, sockets, contacted) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { kind, inner, outer, ports, sockets, contacted, next_port, step: 1 + u16::from(rng.below_u64(8) == 0) }
    }

    /// Returns the outer source of a packet to `remote`.
    pub(super) fn out(&mut self, socket: u16, remote: SocketAddr, rng: &mut Seeded, now: Time) -> SocketAddr {
        let port = match self.kind {
            NatBehaviour::Open | NatBehaviour::Firewall => self.inner.port(),
            kind => {
                let (next, step) = (&mut self.next_port, self.step);
                *self.ports.entry((socket, kind.is_hard().then_some(remote))).or_insert_with(|| {
                    *next = match kind {
                        NatBehaviour::Counting => *next + step,
                        _ => 1_024 + u16::try_from(rng.below_u64(64_512)).unwrap(),
                    };
                    *next
                })
            }
        };
        self.sockets.insert(port, socket);
        self.contacted.insert((port, remote), now);
        SocketAddr::new(self.outer, port)
    }

    /// Returns the socket that a packet from `remote` comes in to, if it passes.
    pub(super) fn comes_in(&self, to: SocketAddr, remote: SocketAddr, now: Time) -> Option<u16> {
        let known = |fits: &dyn Fn(SocketAddr) -> bool| {
            let nobody = SocketAddr::from(([0, 0, 0, 0], 0));
            let mut contacted =
                self.contacted.range((to.port(), nobody)..).take_while(|((port, _), _)| *port == to.port());
            contacted.any(|((_, whom), when)| now.since(*when) < MAPPING_TIMEOUT && fits(*whom))
        };
        let local_endpoints = match self.kind {
            NatBehaviour::Open | NatBehaviour::Firewall => to == self.inner,
            _ => to.ip() == self.outer,
        };
        let passes = local_endpoints
            && match self.kind {
                NatBehaviour::Open => true,
                NatBehaviour::FullCone => known(&|_| true),
                NatBehaviour::AddressRestricted => known(&|whom| whom.ip() == remote.ip()),
                NatBehaviour::Firewall
                | NatBehaviour::PortRestricted
                | NatBehaviour::Symmetric
                | NatBehaviour::Counting => known(&|whom| whom == remote),
            };
        passes.then(|| self.sockets.get(&to.port()).copied().unwrap_or(FIRST))
    }

    /// Drops all mappings: every destination gets another outer port.
    pub(super) fn rebind(&mut self) {
        self.ports.clear();
        self.sockets.clear();
        self.contacted.clear();
    }

    /// Other hosts behind the NAT, or flows to other peers, take ports.
    pub(super) fn drift(&mut self, flows: u16) {
        if self.kind == NatBehaviour::Counting {
            self.next_port += flows * self.step;
        }
    }
}

/// A message between the two ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Message {
    Probe(u64, u16),
    Answer(u64, SocketAddr),
    Endpoints(Endpoints),
    Search(Search),
    /// Number and length.
    Data(u64, u16),
    /// Highest number, and count of the long packets that arrived.
    Receipt(u64, u64),
}

impl Message {
    /// Returns the bytes of the inner packet of this length, as far as it matters.
    fn size(&self) -> u16 {
        match self {
            Self::Probe(_, size) | Self::Data(_, size) => *size,
            _ => 0,
        }
    }
}

/// Long packets that were sent, as a lane counts them.
#[derive(Default)]
struct LongPackets {
    /// Numbers of those since the last progress.
    sent: Vec<u64>,
    acknowledged: u64,
    told: Option<Time>,
}

impl LongPackets {
    /// Returns true if none of three long packets arrived although what followed did; at most once a second.
    fn receipted(&mut self, counter: u64, arrived: u64, now: Time) -> bool {
        if arrived > self.acknowledged {
            (self.acknowledged, self.sent) = (arrived, Vec::new());
        }
        let lost = self.sent.iter().filter(|number| **number < counter).count() >= 3;
        let lost = lost && self.told.is_none_or(|told| now.since(told) >= Duration::from_secs(1));
        if lost {
            (self.told, self.sent) = (Some(now), Vec::new());
        }
        lost
    }
}

/// One end.
pub(super) struct TestNode {
    pub(super) paths: Paths,
    pub(super) budget: Budget,
    pub(super) local_endpoints: LocalEndpoints,
    pub(super) nat: TestNat,
    pub(super) liveness: LivenessDetector,
    rng: Seeded,
    choice: Option<Choice>,
    copies: Option<Way>,
    last_source: Option<Way>,
    data: u64,
    receipt_due: Option<(Time, u64)>,
    /// Lengths of data packets, in turns; a lane cuts what is longer than the packet limit.
    pub(super) lengths: Vec<u16>,
    long: LongPackets,
    long_arrived: u64,
    /// Bytes of data that arrived.
    pub(super) bytes: u64,
    /// The latest data that arrived.
    pub(super) heard: u64,
    pub(super) arrived: BTreeSet<u64>,
    pub(super) last_data: Option<Time>,
    /// Probes sent on each way: ordinary ones, and those as long as a packet.
    pub(super) probes: BTreeMap<Way, Vec<Time>>,
    pub(super) sized: BTreeMap<Way, Vec<Time>>,
    /// False for a peer that answers ordinary probes only.
    pub(super) answers_sized: bool,
    /// Settled packet limits of the path in use, and when they were reported.
    pub(super) limits: Vec<(Time, u16)>,
    /// Paths taken, and when.
    pub(super) taken: Vec<(Time, Way)>,
    /// Sockets of a port search, as a lane has them: destination, first and last socket, end.
    search_sockets: Option<(SocketAddr, u16, u16, Time)>,
    /// The socket that the peer was found by, and its endpoint.
    found: Option<(SocketAddr, u16)>,
    last_socket: u16,
    /// Rounds of port search begun.
    pub(super) rounds: Vec<Time>,
    pub(super) events: Vec<PathEvent>,
}

/// Treatment of the packets from one end.
#[derive(Clone, Copy)]
pub(super) struct TestLink {
    pub(super) up: bool,
    pub(super) latency: Duration,
    pub(super) jitter: Duration,
    /// Loss in thousandths.
    pub(super) loss: u64,
    /// Bytes of the longest inner packet that passes.
    pub(super) mtu: u16,
    /// Loss of packets beyond the safe packet in thousandths.
    pub(super) long_loss: u64,
}

pub(super) struct TestNetwork {
    pub(super) now: Time,
    pub(super) ends: [TestNode; 2],
    /// The direct link, from each end.
    pub(super) direct: [TestLink; 2],
    /// The link through the relay, from each end.
    pub(super) relay: [TestLink; 2],
    pub(super) rng: Seeded,
    queue: BTreeMap<(Time, u64), (usize, Hop, Message)>,
    queued: u64,
    /// Time between data packets of each end, while data flows.
    pub(super) flow: Option<Duration>,
    next_data: Time,
}

#[derive(Clone, Copy)]
enum Hop {
    /// Source and destination between the NATs.
    Wire(SocketAddr, SocketAddr),
    Relay,
}

pub(super) fn relay_of(end: usize) -> Way {
    Way::Relayed { relay: SocketAddr::from(([192, 0, 2, 9], 3478)), id: u32::try_from(end).unwrap() + 1 }
}

impl TestNetwork {
    /// Returns two ends behind these NATs, 10 to 40 ms apart, with the relay a bit farther; each knows only its own endpoints.
    pub(super) fn new(kinds: [NatBehaviour; 2], seed: u64) -> Self {
        let mut rng = Seeded::new(seed);
        let latency = Duration::from_millis(5 + rng.below_u64(15));
        let link = TestLink { up: true, latency, jitter: Duration::from_millis(2), loss: 0, mtu: 1_440, long_loss: 0 };
        let relay = TestLink { latency: latency + Duration::from_millis(rng.below_u64(20)), ..link };
        let ends = [0, 1].map(|side| TestNode::new(side, kinds[side], &mut rng));
        let (queue, next_data) = (BTreeMap::new(), Time::ZERO);
        Self {
            now: at(1_000),
            ends,
            direct: [link; 2],
            relay: [relay; 2],
            rng,
            queue,
            queued: 0,
            flow: None,
            next_data,
        }
    }

    /// Begins a session through the relay.
    pub(super) fn begin(&mut self) {
        for side in 0..2 {
            let end = &mut self.ends[side];
            end.paths.set_relays(&[relay_of(side)], self.now);
            end.paths.handle_session_begun(Some(relay_of(side)), self.now);
            self.drain(side);
        }
    }

    /// Runs until `end`, or until `done` returns true.
    pub(super) fn run_until(&mut self, end: Time, mut done: impl FnMut(&Self) -> bool) -> bool {
        loop {
            if done(self) {
                return true;
            }
            let queued = self.queue.keys().next().map(|(due, _)| *due);
            let paths = self.ends.iter().filter_map(|end| end.paths.poll_timeout(self.now)).min();
            let lanes = self.ends.iter().filter_map(|end| end.liveness.poll_timeout()).min();
            let receipts = self.ends.iter().filter_map(|end| end.receipt_due.map(|(due, _)| due)).min();
            let flow = self.flow.map(|_| self.next_data);
            let Some(next) = [queued, paths, lanes, receipts, flow].into_iter().flatten().min() else { return false };
            let next = next.max(self.now);
            if next > end {
                self.now = end;
                return done(self);
            }
            // A timer that is due and does nothing would stop the time, so time advances by at least a step.
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
            let (side, hop, message) = entry.remove();
            self.arrive(side, hop, message);
        }
        if let Some(every) = self.flow.filter(|_| self.now >= self.next_data) {
            self.next_data = self.now + every;
            (0..2).for_each(|side| self.send_data(side));
        }
        for side in 0..2 {
            let end = &mut self.ends[side];
            if end.liveness.handle_timeout(self.now) {
                // As in a lane: copies on the spare way at once; the agent judges.
                end.copies = end.copies.or(end.choice.and_then(|choice| choice.spare));
                end.paths.handle_suspicion(self.now);
            }
            if let Some((_, counter)) = end.receipt_due.take_if(|(due, _)| *due <= self.now) {
                let arrived = end.long_arrived;
                self.send_as_data(side, Message::Receipt(counter, arrived));
            }
            self.ends[side].paths.handle_timeout(self.now);
            self.drain(side);
        }
    }

    fn send_data(&mut self, side: usize) {
        let end = &mut self.ends[side];
        end.paths.handle_active(self.now);
        end.data += 1;
        end.liveness.sent(self.now);
        let data = end.data;
        self.drain(side);
        let end = &mut self.ends[side];
        let length = end.lengths[usize::try_from(data).unwrap() % end.lengths.len()];
        let length = end.choice.map_or(length, |choice| choice.limit.min(length));
        if length > SAFE_PACKET {
            end.long.sent.push(data);
        }
        self.send_as_data(side, Message::Data(data, length));
    }

    fn send_as_data(&mut self, side: usize, message: Message) {
        let Some(choice) = self.ends[side].choice else { return };
        self.send(side, choice.way, message);
        if let Some(also) = self.ends[side].copies {
            self.send(side, also, message);
        }
    }

    /// Carries out all outputs of an end's paths.
    pub(super) fn drain(&mut self, side: usize) {
        while let Some(output) = self.ends[side].poll_output(self.now) {
            self.carry_out(side, output);
        }
    }

    fn carry_out(&mut self, side: usize, output: PathOutput) {
        let (now, end) = (self.now, &mut self.ends[side]);
        match output {
            PathOutput::Choice(choice) => end.take(choice, now),
            PathOutput::Endpoints(endpoints) => self.send_as_data(side, Message::Endpoints(endpoints)),
            PathOutput::OpenSearch(round) => {
                end.rounds.push(now);
                self.send_as_data(side, Message::Search(round.ask));
                if let Some(search) = round.search {
                    self.open_search(side, search);
                }
            }
            PathOutput::Probe(probe) => {
                let sent = if probe.size > 0 { &mut end.sized } else { &mut end.probes };
                sent.entry(probe.way).or_default().push(now);
                self.send(side, probe.way, Message::Probe(probe.id, probe.size));
            }
            PathOutput::CloseSearch => (end.search_sockets, end.found) = (None, None),
            PathOutput::Limit(limit) => end.limits.push((now, limit)),
            PathOutput::Event(event) => end.events.push(event),
        }
    }

    /// Opens many sockets, as a lane does, each with a probe.
    fn open_search(&mut self, side: usize, search: PortSearch) {
        let end = &mut self.ends[side];
        let first = end.last_socket + 1;
        end.last_socket += search.sockets;
        let last = end.last_socket;
        (end.search_sockets, end.found) = (Some((search.to, first, last, self.now + search.lasts)), None);
        for socket in first..=last {
            self.send_from(side, socket, Way::Direct(search.to), Message::Probe(u64::from(socket), 0));
        }
    }

    fn send(&mut self, side: usize, way: Way, message: Message) {
        let found = self.ends[side].found.filter(|(place, _)| way == Way::Direct(*place));
        self.send_from(side, found.map_or(FIRST, |(_, socket)| socket), way, message);
    }

    fn send_from(&mut self, side: usize, socket: u16, way: Way, message: Message) {
        let (link, hop) = match way {
            Way::Direct(to) => {
                let from = self.ends[side].nat.out(socket, to, &mut self.rng, self.now);
                (self.direct[side], Hop::Wire(from, to))
            }
            Way::Relayed { .. } => (self.relay[side], Hop::Relay),
        };
        if !link.up || self.rng.below_u64(1_000) < link.loss || message.size() > link.mtu {
            return;
        }
        if message.size() > SAFE_PACKET && link.long_loss > 0 && self.rng.below_u64(1_000) < link.long_loss {
            return;
        }
        let jitter = Duration::from_nanos(self.rng.below_u64(u64::try_from(link.jitter.as_nanos()).unwrap() + 1));
        self.queued += 1;
        self.queue.insert((self.now + link.latency + jitter, self.queued), (1 - side, hop, message));
    }

    fn arrive(&mut self, side: usize, hop: Hop, message: Message) {
        let now = self.now;
        let way = match hop {
            Hop::Relay => relay_of(side),
            Hop::Wire(from, to) => {
                let Some(socket) = self.ends[side].nat.comes_in(to, from, now) else { return };
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
        match message {
            Message::Probe(id, size) => {
                if size > 0 && !end.answers_sized {
                    return;
                }
                end.paths.handle_probe_from(way, now);
                self.send(side, way, Message::Answer(id, way.first_hop()));
            }
            Message::Answer(id, seen) => end.paths.handle_answer(way, id, seen, now),
            Message::Endpoints(endpoints) => end.paths.handle_endpoints(&endpoints, now),
            Message::Search(search) => end.paths.handle_search(&search, &end.local_endpoints, now),
            Message::Data(counter, length) => {
                end.bytes += u64::from(length);
                end.long_arrived += u64::from(length > SAFE_PACKET);
                end.liveness.heard(now);
                end.arrived.insert(counter);
                end.heard = end.heard.max(counter);
                end.last_data = Some(now);
                let heard = end.heard;
                let due = end.receipt_due.map_or(now + Duration::from_millis(20), |(due, _)| due);
                end.receipt_due = Some((due, heard));
            }
            Message::Receipt(counter, arrived) => {
                end.liveness.receipted(counter == end.data, now);
                if end.long.receipted(counter, arrived, now) {
                    end.paths.handle_long_lost(now);
                }
            }
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

    /// Moves an end to another address, as roaming does.
    pub(super) fn move_to(&mut self, side: usize, inner: SocketAddr, outer: IpAddr) {
        let kind = self.ends[side].nat.kind;
        self.ends[side].nat = TestNat::new(kind, inner, outer, &mut self.rng);
    }
}

impl TestNode {
    fn new(side: usize, kind: NatBehaviour, rng: &mut Seeded) -> Self {
        let number = u8::try_from(side).unwrap() + 1;
        let outer = IpAddr::from([198, 51, 100, number]);
        let inner = match kind {
            NatBehaviour::Open | NatBehaviour::Firewall => SocketAddr::new(outer, 8288),
            _ => SocketAddr::from(([10, number, 0, 2], 8288)),
        };
        let mut own = Seeded::new(rng.next_u64());
        let mut nat = TestNat::new(kind, inner, outer, rng);
        let relay = SocketAddr::from(([192, 0, 2, 9], 3478));
        let reflexive = nat.out(FIRST, relay, rng, at(1_000));
        let mut local_endpoints = LocalEndpoints::new(&mut own);
        local_endpoints.set_host(&[inner], &[]);
        let kind_of_nat = match kind {
            NatBehaviour::Symmetric => Nat::Symmetric,
            NatBehaviour::Counting => Nat::Sequential,
            _ => Nat::Cone,
        };
        local_endpoints.set_reflexive(&[reflexive], kind_of_nat, &[]);
        let step = if kind == NatBehaviour::Counting { u8::try_from(nat.step).unwrap() } else { 0 };
        local_endpoints.set_prediction(kind.is_hard().then_some(PortPrediction { latest: reflexive, step }));
        let mut budget = Budget::new();
        budget.set_sockets(SOCKETS);
        Self {
            paths: Paths::new(Arc::from([]), Families::default()),
            budget,
            local_endpoints,
            nat,
            liveness: LivenessDetector::default(),
            rng: own,
            choice: None,
            copies: None,
            last_source: None,
            data: 0,
            receipt_due: None,
            lengths: vec![100],
            long: LongPackets::default(),
            long_arrived: 0,
            bytes: 0,
            heard: 0,
            arrived: BTreeSet::new(),
            last_data: None,
            probes: BTreeMap::new(),
            sized: BTreeMap::new(),
            answers_sized: true,
            limits: Vec::new(),
            taken: Vec::new(),
            search_sockets: None,
            found: None,
            last_socket: FIRST,
            rounds: Vec::new(),
            events: Vec::new(),
        }
    }

    pub(super) fn poll_output(&mut self, now: Time) -> Option<PathOutput> {
        let (local_endpoints, budget, entropy) = (&self.local_endpoints, &mut self.budget, &mut self.rng);
        self.paths.poll_output(&mut PathContext { local_endpoints, budget, entropy, now })
    }

    /// Sends data as the choice says from now on, as a lane does.
    fn take(&mut self, choice: Choice, now: Time) {
        if self.choice.is_none_or(|former| former.way != choice.way) {
            self.taken.push((now, choice.way));
        }
        self.liveness.judged();
        self.copies = choice.also;
        choice.round_trip.into_iter().for_each(|round_trip| self.liveness.set_round_trip(round_trip));
        self.choice = Some(choice);
    }

    /// Returns true if a socket is open for packets of this source; the first that receives one stays open, and the others close.
    fn takes(&mut self, socket: u16, from: SocketAddr, now: Time) -> bool {
        if socket == FIRST || self.found == Some((from, socket)) {
            return true;
        }
        let open = |&(to, first, last, until): &(SocketAddr, u16, u16, Time)| {
            to == from && (first..=last).contains(&socket) && now < until
        };
        if self.search_sockets.take_if(|search_sockets| open(search_sockets)).is_none() {
            return false;
        }
        self.found = Some((from, socket));
        true
    }
}

pub(super) fn at(milliseconds: u64) -> Time {
    Time::ZERO + Duration::from_millis(milliseconds)
}

//! Two nodes that open lanes by load, over a wire without delay and loss. Each has minimal lanes: they answer probes, and confirm sessions at once.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[expect(dead_code, reason = "what several tests share, of which this one needs a part")]
mod common;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use common::{Seeded, endpoint, key, map, seeded};
use taut_base::{LaneId, PeerId, SessionId, Time};
use taut_node::{Clocks, FlowLoad, FromLane, GatherReason, LaneLoad, LanesLimit, Node, NodeEvent, Output, ToLane};
use taut_noise::public_key;
use taut_path::Families;
use taut_tunnel::Limits;
use taut_wire::control::{ControlMessage, Lanes};

/// Each node has one peer.
const PEER: PeerId = PeerId(0);

struct Host {
    node: Node<Seeded>,
    /// The lane of ours that has each lane of each session.
    given: BTreeMap<(SessionId, LaneId), LaneId>,
    /// The session of the other node for each of this one's.
    same: BTreeMap<SessionId, SessionId>,
    newest: Option<SessionId>,
    /// Lanes of ours that were opened, in the newest session.
    open: Vec<LaneId>,
    /// Where the lanes that were opened lead.
    ways: Vec<taut_path::Way>,
    /// Lanes that the node asked for and that the agent has not started yet.
    asked: Option<u8>,
    events: Vec<NodeEvent>,
    /// The number of peers that each lane was told of.
    told: BTreeMap<LaneId, usize>,
}

struct Net {
    /// The source that the second node forges in its answers on extra lanes.
    victim: Option<SocketAddr>,
    hosts: [Host; 2],
    now: Time,
}

fn port(lane: u8) -> u16 {
    8288 + u16::from(lane)
}

/// The endpoint of a lane of a node.
fn place(number: usize, lane: LaneId) -> SocketAddr {
    SocketAddr::new(endpoint(number as u8).ip(), port(lane.0))
}

impl Net {
    /// Two connected nodes. The second one has `fixed` lanes, or opens them by load.
    fn new(fixed: Option<u8>) -> Self {
        let host = |number: u8| {
            let mut node = Node::new(key(number), Limits::WIREGUARD, seeded(u64::from(number)));
            match fixed.filter(|_| number == 1) {
                None => node.set_auto_lanes(4),
                Some(count) => node.set_lanes(Lanes::with_ports(&(1..count).map(port).collect::<Vec<_>>())),
            }
            node.set_map(&map(number, 0..2));
            Host {
                node,
                given: BTreeMap::new(),
                same: BTreeMap::new(),
                newest: None,
                open: Vec::new(),
                ways: Vec::new(),
                asked: None,
                events: Vec::new(),
                told: BTreeMap::new(),
            }
        };
        let mut net = Self { victim: None, hosts: [host(0), host(1)], now: Time::ZERO + Duration::from_secs(1_000) };
        for number in 0..2 {
            let clocks = net.clocks();
            net.hosts[number].node.handle_look_around(Families { v4: true, v6: true }, clocks);
        }
        let clocks = net.clocks();
        net.hosts[0].node.greet(&[public_key(&key(1))], clocks);
        net.run(Duration::from_secs(3));
        net
    }

    fn clocks(&self) -> Clocks {
        Clocks { now: self.now, wall: Duration::from_secs(1_800_000_000) + self.now.since(Time::ZERO) }
    }

    /// Lets time pass in steps of 50 ms.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.drain();
            self.now = self.now + Duration::from_millis(50);
            let clocks = self.clocks();
            self.hosts.iter_mut().for_each(|host| host.node.handle_timeout(clocks));
        }
        self.drain();
    }

    fn drain(&mut self) {
        let mut inputs = VecDeque::new();
        loop {
            for number in 0..2 {
                while let Some(output) = self.hosts[number].node.poll_output() {
                    self.carry_out(number, output, &mut inputs);
                }
            }
            let clocks = self.clocks();
            let Some((number, lane, message)) = inputs.pop_front() else { return };
            let host: &mut Host = &mut self.hosts[number];
            host.node.handle(lane, message, clocks);
        }
    }

    fn carry_out(&mut self, number: usize, output: Output, inputs: &mut VecDeque<(usize, LaneId, FromLane)>) {
        let (other, host) = (1 - number, &mut self.hosts[number]);
        match output {
            Output::Event(event) => host.events.push(event),
            Output::Lanes(placement) => host.asked = Some(placement.lanes()),
            Output::Lane(own, command) => match command {
                ToLane::AddPeer { .. } => *host.told.entry(own).or_default() += 1,
                ToLane::AddPeers(peers) => *host.told.entry(own).or_default() += peers.len(),
                ToLane::Send { message, .. } => {
                    inputs.push_back((
                        other,
                        LaneId::FIRST,
                        FromLane::Handshake { source: place(number, own).into(), message },
                    ));
                }
                ToLane::AddSession { id, keys, proven, .. } => {
                    assert_eq!(host.given.insert((id, keys.lane), own), None, "each lane is given away once");
                    if keys.lane == LaneId::FIRST {
                        host.newest = Some(id);
                        host.open.clear();
                        if proven.is_some() {
                            // The initiator's first packet follows at once.
                            let theirs = self.hosts[other].newest.unwrap();
                            self.hosts[number].same.insert(id, theirs);
                            self.hosts[other].same.insert(theirs, id);
                            inputs.push_back((other, LaneId::FIRST, FromLane::Confirmed { peer: PEER, id: theirs }));
                        }
                    }
                }
                ToLane::OpenLanes { lanes, .. } => {
                    host.open.push(own);
                    host.ways.extend(lanes.iter().map(|(_, way)| *way));
                }
                ToLane::CloseLanes(_) => host.open.retain(|open| *open != own),
                ToLane::Control { session, lane, way, message, .. } => {
                    let Some(theirs) = host.same.get(&session).copied() else { return };
                    let source = place(number, own);
                    let target = way.and_then(|way| way.direct()).unwrap_or(endpoint(other as u8));
                    // It arrives only where it was sent to a lane that has the keys.
                    let arrives = self.hosts[other].given.get(&(theirs, lane));
                    let Some(at) = arrives.copied().filter(|at| place(other, *at) == target) else { return };
                    match message {
                        ControlMessage::Probe { id } => {
                            let message = ControlMessage::Answer { id, seen: source };
                            let mut source: taut_path::Way = place(other, at).into();
                            if let Some(victim) = self.victim.filter(|_| other == 1 && lane != LaneId::FIRST) {
                                source = victim.into();
                            }
                            inputs.push_back((
                                number,
                                own,
                                FromLane::Control { peer: PEER, session, lane, source, message },
                            ));
                        }
                        message => {
                            let source = source.into();
                            inputs.push_back((
                                other,
                                at,
                                FromLane::Control { peer: PEER, session: theirs, lane, source, message },
                            ));
                        }
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// Reports eight heavy flows on the first lane of a node for this time, ten times a second.
    fn load(&mut self, number: usize, time: Duration) {
        let flows = (0..8).map(|flow| FlowLoad { peer: PEER, flow, datagrams: 1_000 }).collect();
        let load = LaneLoad { busy: 950, span: Duration::from_millis(100), datagrams: 8_000, flows };
        let end = self.now + time;
        while self.now < end {
            let clocks = self.clocks();
            self.hosts[number].node.handle(LaneId::FIRST, FromLane::Load(load.clone()), clocks);
            self.run(Duration::from_millis(100));
        }
    }

    /// Starts or ends lanes, as the node asked.
    fn follow(&mut self, number: usize) -> u8 {
        let clocks = self.clocks();
        let host = &mut self.hosts[number];
        let count = host.asked.take().unwrap();
        host.node.lanes_run(Lanes::with_ports(&(1..count).map(port).collect::<Vec<_>>()), clocks);
        self.run(Duration::from_secs(1));
        count
    }

    fn view(&self, number: usize) -> (u8, u8) {
        self.hosts[number].node.peers().next().unwrap().lanes
    }

    fn sessions(&self, number: usize) -> u64 {
        self.hosts[number].node.peers().next().unwrap().established
    }
}

#[test]
fn load_makes_a_session_with_more_lanes_and_idleness_one_with_one() {
    let mut net = Net::new(None);
    assert_eq!((net.view(0), net.view(1), net.sessions(0)), ((1, 1), (1, 1), 1));
    assert_eq!(net.hosts[0].node.lanes_limit(PEER), Some(LanesLimit::NotNeeded));
    net.load(0, Duration::from_millis(1_200));
    assert_eq!(net.follow(0), 4);
    // The new lanes know the peer; the second session has four lanes, on four threads here and on the first one there.
    assert!((1..4).all(|lane| net.hosts[0].told[&LaneId(lane)] == 1));
    assert_eq!((net.view(0), net.view(1), net.sessions(0)), ((4, 4), (4, 4), 2));
    assert_eq!(net.hosts[0].node.lanes_limit(PEER), Some(LanesLimit::AllOpen));
    let newest = net.hosts[0].newest.unwrap();
    assert!((0..4).all(|lane| net.hosts[0].given[&(newest, LaneId(lane))] == LaneId(lane)));
    let newest = net.hosts[1].newest.unwrap();
    assert!((0..4).all(|lane| net.hosts[1].given[&(newest, LaneId(lane))] == LaneId::FIRST));

    // The other end opens its lanes a moment later: no interval of five seconds keeps it from that.
    net.load(1, Duration::from_millis(1_200));
    assert_eq!(net.follow(1), 4);
    assert_eq!((net.view(0), net.view(1), net.sessions(0)), ((4, 4), (4, 4), 3));
    for host in &net.hosts {
        let newest = host.newest.unwrap();
        assert!((0..4).all(|lane| host.given[&(newest, LaneId(lane))] == LaneId(lane)));
        let mut open = host.open.clone();
        open.sort_unstable();
        assert_eq!(open, [1, 2, 3].map(LaneId));
    }

    // Nothing is reported any more.
    net.run(Duration::from_secs(20));
    for number in 0..2 {
        let returned = NodeEvent::LanesReturned { peer: PEER, reason: GatherReason::Idle };
        assert!(net.hosts[number].events.contains(&returned));
        assert_eq!(net.follow(number), 1);
    }
    net.run(Duration::from_secs(10));
    assert_eq!((net.view(0), net.view(1)), ((1, 1), (1, 1)));
    let newest = net.hosts[0].newest.unwrap();
    let given = net.hosts[0].given.iter().filter(|((session, _), _)| *session == newest);
    assert!(given.map(|(_, own)| *own).all(|own| own == LaneId::FIRST));
    assert_eq!(net.hosts[0].node.lanes_limit(PEER), Some(LanesLimit::NotNeeded));
}

#[test]
fn a_peer_with_a_fixed_number_keeps_its_lanes_when_this_node_has_one_again() {
    let mut net = Net::new(Some(2));
    assert_eq!((net.view(0), net.view(1)), ((2, 2), (2, 2)));
    assert!(!net.hosts[0].node.has_extra_lanes(), "the first thread serves both");
    net.load(0, Duration::from_millis(1_200));
    assert_eq!(net.follow(0), 4);
    // The peer's own lanes opened less than 5 s before, so it uses the new ones when that time is over.
    net.load(0, Duration::from_secs(4));
    assert_eq!((net.view(0), net.view(1)), ((4, 4), (4, 4)));
    assert!(net.hosts[0].node.has_extra_lanes());
    net.run(Duration::from_secs(20));
    assert_eq!(net.follow(0), 1);
    net.run(Duration::from_secs(10));
    assert_eq!((net.view(0), net.view(1)), ((2, 2), (2, 2)));
    let newest = net.hosts[0].newest.unwrap();
    assert!((0..2).all(|lane| net.hosts[0].given[&(newest, LaneId(lane))] == LaneId::FIRST));
}

#[test]
fn lanes_that_cannot_be_started_change_nothing() {
    let mut net = Net::new(None);
    net.load(0, Duration::from_millis(1_200));
    let clocks = net.clocks();
    assert_eq!(net.hosts[0].asked.take(), Some(4));
    net.hosts[0].node.lanes_refused(clocks);
    net.load(0, Duration::from_secs(10));
    assert_eq!((net.view(0), net.sessions(0), net.hosts[0].asked), ((1, 1), 1, None));
    assert_eq!(net.hosts[0].node.lanes_limit(PEER), Some(LanesLimit::NoGain));
}

/// The answers come, but from an address to which no probe was sent: a hostile peer forges their source, so that data for it would hit a stranger.
#[test]
fn fault_d10_a_lane_opens_only_where_it_was_probed() {
    for victim in ["198.51.100.7:53", "127.0.0.1:6379", "[2001:db8::1]:9", "192.0.2.2:9"] {
        let mut net = Net::new(None);
        net.victim = Some(victim.parse().unwrap());
        net.load(0, Duration::from_millis(1_200));
        assert_eq!(net.follow(0), 4);
        assert!(net.hosts[0].ways.iter().all(|way| way.direct() != net.victim), "data goes to {victim}");
        assert_eq!(net.view(0).0, 1, "{victim}: nothing was proven");
    }
    let mut net = Net::new(None);
    net.load(0, Duration::from_millis(1_200));
    net.follow(0);
    assert_eq!(net.view(0).0, 4, "honest answers prove the lanes");
}

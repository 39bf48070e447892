//! A node's state stays within its bounds under any input in any order, and its timeouts are due only when there is work.
//!
//! The runs are seeded and the same every time. The other nodes are real ones, which makes a part of the messages valid.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use common::{Seeded, draw, endpoint, key, lane_command, map, seeded};
use taut_base::{LaneId, MAX_CANDIDATES, MAX_LANES, PeerId, SessionId, Time};
use taut_node::{Clocks, Datagram, FromLane, HandshakeMessage, Node, ToLane};
use taut_path::Way;
use taut_tunnel::{Limits, SessionIndices};
use taut_wire::control::{Abilities, ControlMessage, Endpoints, Lanes, Search, Suite, Suites};

/// Number of nodes; the first one is under test.
const NODES: u8 = 5;
/// Sessions of one peer that a lane keeps: the previous, the current and the next one.
const LANE_SESSIONS: usize = 3;
/// Maximum number of unanswered initiations of one peer.
const WAITING: usize = 3;
/// Number of captured messages that are replayed.
const CAPTURED: usize = 64;
/// Maximum number of known ways to one peer: listed, named by the peer, heard from, and through relays (core/path).
const WAYS: usize = 8 + 8 + 4 + 4;

/// Maximum number of probes of one session.
const PROBES: usize = 8;
/// All suites of a Taut node.
const AES: Suites = Suites::STOCK.with(Suite::Aes256Gcm);

/// A node, and a lane that keeps as many sessions as a real one.
struct Host {
    number: u8,
    node: Node<Seeded>,
    suites: Suites,
    lane: BTreeMap<PeerId, VecDeque<(SessionId, Vec<SessionIndices>)>>,
    sent: Vec<(SocketAddr, HandshakeMessage)>,
    /// The newest probe and the number of probes, by session and lane.
    probes: BTreeMap<(PeerId, SessionId, LaneId), (u64, usize)>,
    /// The newest probe of a way, by session.
    asked: BTreeMap<(PeerId, SessionId), (Way, u64)>,
    /// Where the latest probe of each extra lane went.
    lane_ways: BTreeMap<(PeerId, SessionId, LaneId), Way>,
    seen: Seen,
}

/// Counts of rare events that the runs must reach to be meaningful.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    sessions: usize,
    /// Sessions with three indices: the third one is for the faster suite.
    fast: usize,
    /// Sessions that switched to AES.
    agreed: usize,
    round_trips: usize,
    /// Extra lanes of sessions.
    extra_lanes: usize,
    /// Number of times that extra lanes were opened.
    opened: usize,
}

impl Host {
    fn new(number: u8, seed: u64) -> Self {
        let mut node = Node::new(key(number), Limits::WIREGUARD, seeded(seed ^ u64::from(number)));
        // In each run some nodes have AES and some do not; which ones depends on the seed.
        let suites = if (u64::from(number) + seed).is_multiple_of(3) { Suites::STOCK } else { AES };
        node.set_suites(suites);
        Self {
            number,
            node,
            suites,
            lane: BTreeMap::new(),
            sent: Vec::new(),
            probes: BTreeMap::new(),
            asked: BTreeMap::new(),
            lane_ways: BTreeMap::new(),
            seen: Seen::default(),
        }
    }

    /// Carries out all commands of the node. Returns their number.
    fn settle(&mut self, clocks: Clocks) -> usize {
        let mut commands = 0;
        while let Some(command) = lane_command(&mut self.node) {
            commands += 1;
            match command {
                ToLane::Send { way, message } => self.sent.push((way.first_hop(), message)),
                ToLane::RemovePeer(peer) => drop(self.lane.remove(&peer)),
                ToLane::AddSession { peer, id, keys, .. } if keys.lane != LaneId::FIRST => {
                    self.seen.extra_lanes += 1;
                    let sessions = self.lane.get_mut(&peer).into_iter().flatten();
                    // A session that was removed was retired with all its lanes.
                    if let Some((_, lanes)) = sessions.into_iter().find(|(session, _)| *session == id) {
                        assert!(lanes.iter().all(|known| known.lane() != keys.lane), "a lane was opened twice");
                        lanes.push(keys.indices());
                    }
                }
                ToLane::AddSession { peer, id, keys, .. } => {
                    self.seen.sessions += 1;
                    self.seen.fast += usize::from(keys.indices().fast.iter().any(Option::is_some));
                    let sessions = self.lane.entry(peer).or_default();
                    sessions.push_back((id, vec![keys.indices()]));
                    if sessions.len() > LANE_SESSIONS {
                        self.retire(peer, clocks);
                    }
                }
                // Probes of ways have limits of their own (core/path/src/budget.rs).
                ToLane::Control {
                    peer,
                    session,
                    lane: LaneId::FIRST,
                    way: Some(way),
                    message: ControlMessage::Probe { id },
                } => {
                    self.asked.insert((peer, session), (way, id));
                }
                ToLane::Control { peer, session, lane, way, message: ControlMessage::Probe { id } } => {
                    self.lane_ways.extend(way.map(|way| ((peer, session, lane), way)));
                    let probes = self.probes.entry((peer, session, lane)).or_default();
                    *probes = (id, probes.1 + 1);
                    assert!(lane != LaneId::FIRST || probes.1 <= PROBES, "{} probes of one session", probes.1);
                }
                ToLane::UseSuite { suite, .. } => {
                    assert!(self.suites.has(suite), "the lane must seal with a suite that the node does not have");
                    self.seen.agreed += usize::from(suite == Suite::Aes256Gcm);
                }
                ToLane::OpenLanes { .. } => self.seen.opened += 1,
                ToLane::SetRoundTrip { .. } => self.seen.round_trips += 1,
                _ => {}
            }
        }
        commands
    }

    fn retire(&mut self, peer: PeerId, clocks: Clocks) {
        let Some((id, lanes)) = self.lane.get_mut(&peer).and_then(VecDeque::pop_front) else { return };
        for indices in lanes {
            self.node.handle_lane(FromLane::Retired { peer, id, indices }, clocks);
        }
    }

    fn check(&self, commands: usize, what: &str) {
        let peers = self.node.peers().count();
        // On each lane: WireGuard's own pair, the control pair, and the AES pair.
        let indices = MAX_LANES * if self.suites == AES { 3 } else { 2 };
        let most = peers * (LANE_SESSIONS * indices + WAITING);
        assert!(
            self.node.indices_in_use() <= most,
            "after {what}: {} indices for {peers} peers",
            self.node.indices_in_use()
        );
        assert!(peers < usize::from(NODES) && self.lane.len() <= peers, "{what}");
        assert!(self.node.peers().all(|peer| peer.candidates.len() <= MAX_CANDIDATES), "{what}");
        // A map concerns all peers, and a timeout may send each of them an initiation to all endpoints, a probe and an offer. Any other input concerns one peer.
        let about_all = matches!(what, "a map" | "the first map" | "time");
        let peers = if about_all { usize::from(NODES) } else { 1 };
        // In the worst case, a session, a probe and a path on each extra lane, and a probe for each known way.
        let most = 2 + MAX_CANDIDATES + 3 + 3 * MAX_LANES + WAYS;
        assert!(commands <= peers * most, "{what}: {commands} commands");
    }
}

struct Run {
    entropy: Seeded,
    hosts: Vec<Host>,
    captured: VecDeque<(u8, HandshakeMessage)>,
    clocks: Clocks,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut hosts: Vec<_> = (0..NODES).map(|number| Host::new(number, seed)).collect();
        for host in &mut hosts {
            host.node.set_map(&map(host.number, 0..NODES));
        }
        let start = Duration::from_secs(1_700_000_000);
        let clocks = Clocks { now: Time::from_duration(start), wall: start };
        Self { entropy: seeded(seed), hosts, captured: VecDeque::new(), clocks }
    }

    fn draw(&mut self, below: u64) -> u64 {
        draw(&mut self.entropy, below)
    }

    fn step(&mut self) -> &'static str {
        let host_index = usize::try_from(self.draw(u64::from(NODES))).unwrap();
        // The node under test gets most of the inputs.
        let host_index = if self.draw(2) == 0 { 0 } else { host_index };
        let peers: Vec<PeerId> = self.hosts[host_index].node.peers().map(|peer| peer.id).collect();
        let count = u64::try_from(peers.len()).unwrap().max(1);
        let peer = peers.get(usize::try_from(self.draw(count)).unwrap()).copied().unwrap_or(PeerId(99));
        let clocks = self.clocks;
        match self.draw(15) {
            0 | 1 => {
                self.hosts[host_index].node.handle_lane(FromLane::WantsHandshake(peer), clocks);
                "a request for a handshake"
            }
            2..=5 => self.message(host_index),
            6 => {
                let newest = self.hosts[host_index].lane.get(&peer).and_then(|sessions| sessions.back().cloned());
                let id = newest.map_or(SessionId(self.draw(9)), |(id, _)| id);
                self.hosts[host_index].node.handle_lane(FromLane::Confirmed { peer, id }, clocks);
                "a confirmation"
            }
            7 => {
                self.hosts[host_index].retire(peer, clocks);
                "a session's end"
            }
            8 => {
                let port = u16::try_from(self.draw(60_000)).unwrap() + 1;
                let way = Way::Direct(SocketAddr::from(([203, 0, 113, 7], port)));
                let bytes = Datagram::new(&[0x83; 48]).unwrap();
                let said = match port % 5 {
                    0 => FromLane::Moved { peer, way },
                    1 => FromLane::Arrived { peer, way },
                    2 => FromLane::Suspect { peer },
                    3 => FromLane::Active { peer },
                    _ => FromLane::Datagram { source: way.first_hop(), bytes },
                };
                self.hosts[host_index].node.handle_lane(said, clocks);
                "a move"
            }
            10..=12 => self.control(host_index, peer),
            9 if self.draw(10) == 0 => {
                let mask = self.draw(1 << NODES);
                let host = &mut self.hosts[host_index];
                host.node.set_map(&map(host.number, (0..NODES).filter(|bit| mask >> bit & 1 == 1)));
                "a map"
            }
            _ => {
                // Milliseconds or hours pass; the wall clock may jump.
                let step = if self.draw(20) == 0 { self.draw(10_000_000) } else { self.draw(2_000) };
                self.clocks.now = clocks.now + Duration::from_millis(step);
                self.clocks.wall = match self.draw(30) {
                    0 => Duration::from_secs(self.draw(4_000_000_000)),
                    _ => clocks.wall + Duration::from_millis(step),
                };
                let clocks = self.clocks;
                for host in &mut self.hosts {
                    host.node.handle_timeout(clocks);
                    let next = host.node.poll_timeout();
                    assert!(
                        next.is_none_or(|next| next > clocks.now),
                        "a timeout is due again right after it was handled"
                    );
                }
                "time"
            }
        }
    }

    /// Delivers a captured message, mostly one that was sent to this node: unchanged or with a flipped bit.
    fn message(&mut self, host_index: usize) -> &'static str {
        let number = u8::try_from(host_index).unwrap();
        let count = u64::try_from(self.captured.len()).unwrap();
        if count == 0 {
            return "nothing";
        }
        let place = usize::try_from(self.draw(count)).unwrap();
        let newest = (0..self.captured.len()).rev().find(|place| self.captured[*place].0 == number);
        let place = if self.draw(3) == 0 { place } else { newest.unwrap_or(place) };
        let mut bytes = self.captured[place].1.as_bytes().to_vec();
        if self.draw(4) == 0 {
            let length = u64::try_from(bytes.len()).unwrap();
            let altered = usize::try_from(self.draw(length)).unwrap();
            bytes[altered] ^= 1 << self.draw(8);
        }
        let source = endpoint(u8::try_from(self.draw(u64::from(NODES))).unwrap());
        let message = HandshakeMessage::new(&bytes).unwrap();
        self.hosts[host_index].node.handle_lane(FromLane::Handshake { source: source.into(), message }, self.clocks);
        "a message"
    }

    /// Delivers a random control message, on a session of the peer or on an unknown one. Some answers match a probe.
    fn control(&mut self, host_index: usize, peer: PeerId) -> &'static str {
        let sessions = self.hosts[host_index].lane.get(&peer).map_or(0, VecDeque::len);
        // Mostly the newest session, because it is the one that is negotiated.
        let place = usize::try_from(self.draw(6).saturating_sub(2)).unwrap();
        let fits = self.draw(3) > 0;
        let session = match self.hosts[host_index].lane.get(&peer).filter(|_| place < sessions) {
            Some(sessions) => sessions[sessions.len() - 1 - place].0,
            None => SessionId(self.draw(9)),
        };
        let lanes = u8::try_from(self.draw(256)).unwrap();
        // Mostly one extra lane at the same port: a random run seldom proves all of many lanes, or lanes that keep changing.
        let (count, port, lane) = if self.draw(4) == 0 {
            (lanes % 16, u16::from(lanes), self.draw(16))
        } else {
            (1, 8_288, self.draw(3) / 2)
        };
        let many = Lanes::with_ports(&vec![port; usize::from(count)]);
        let lane = LaneId(u8::try_from(lane).unwrap());
        let probe = self.hosts[host_index].probes.get(&(peer, session, lane)).map(|(id, _)| *id).filter(|_| fits);
        let asked = self.hosts[host_index].asked.get(&(peer, session)).copied();
        let asked = asked.filter(|_| fits && lane == LaneId::FIRST && lanes.is_multiple_of(2));
        let source = endpoint(lanes / 2);
        let (way, probe) = asked.map_or((Way::Direct(source), probe), |(way, id)| (way, Some(id)));
        // An answer on an extra lane comes from where the probe went, or from anywhere.
        let probed = self.hosts[host_index].lane_ways.get(&(peer, session, lane)).copied();
        let way = probed.filter(|_| fits && lanes.is_multiple_of(2)).unwrap_or(way);
        let suite = [Suite::ChaCha20Poly1305, Suite::Aes256Gcm][usize::from(lanes % 2)];
        let message = match self.draw(10) {
            9 => {
                let from = SocketAddr::from(([198, 18, 0, lanes], u16::from(lanes) << 8));
                ControlMessage::Search(Search {
                    from,
                    step: lanes % 3,
                    ports: u16::from(lanes) << 6,
                    sockets: u16::from(lanes),
                })
            }
            5 => {
                let places = (0..u16::from(lanes % 12)).map(|number| SocketAddr::from(([198, 18, 0, lanes], number)));
                ControlMessage::Endpoints(Endpoints::new(u32::from(lanes), u32::from(lanes / 2), lanes % 7, places))
            }
            0 => ControlMessage::Offer {
                lanes: many,
                suites: Suites(u8::try_from(self.draw(256)).unwrap()),
                abilities: Abilities(lanes),
            },
            1 => ControlMessage::Accept { lanes: many, suite, abilities: Abilities(lanes) },
            2 => ControlMessage::Probe { id: self.draw(u64::MAX) },
            3 | 6..=8 => ControlMessage::Answer { id: probe.unwrap_or(u64::from(lanes)), seen: source },
            _ => ControlMessage::Receipt { suite, counter: self.draw(u64::MAX), longest: 0 },
        };
        let clocks = self.clocks;
        self.hosts[host_index]
            .node
            .handle_lane(FromLane::Control { peer, session, lane, source: way, message }, clocks);
        "a control message"
    }

    fn settle(&mut self, what: &str) {
        for host in &mut self.hosts {
            let commands = host.settle(self.clocks);
            host.check(commands, what);
            for (destination, message) in host.sent.drain(..) {
                let to = (0..NODES).find(|number| endpoint(*number) == destination).unwrap_or(0);
                self.captured.push_back((to, message));
            }
        }
        while self.captured.len() > CAPTURED {
            self.captured.pop_front();
        }
    }
}

#[test]
fn state_is_bounded_under_any_input() {
    let mut seen = Seen::default();
    // Extra lanes open only beside a proven path, which takes many random steps.
    // Whether a run reaches them depends on its seed: the first ninety are always the same, and show that the steps reach all states.
    for seed in (0..90).chain(taut_testkit::seeds(12, 600)) {
        let mut run = Run::new(seed);
        run.settle("the first map");
        for _ in 0..3_000 {
            let what = run.step();
            run.settle(what);
        }
        for host in &run.hosts {
            seen.sessions += host.seen.sessions;
            seen.fast += host.seen.fast;
            seen.agreed += host.seen.agreed;
            seen.round_trips += host.seen.round_trips;
            seen.extra_lanes += host.seen.extra_lanes;
            seen.opened += host.seen.opened;
        }
        for host in &mut run.hosts {
            host.node.set_map(&map(host.number, std::iter::empty()));
            host.settle(run.clocks);
            assert_eq!(host.node.indices_in_use(), 0, "indices of removed peers");
            assert_eq!(host.node.poll_timeout(), None);
        }
    }
    let counts = [seen.sessions, seen.fast, seen.agreed, seen.round_trips, seen.extra_lanes, seen.opened];
    assert!(counts.iter().all(|count| *count >= 10), "the runs reach too few of these states: {seen:?}");
}

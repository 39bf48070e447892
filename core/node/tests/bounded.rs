//! Whatever comes in, in whatever order, a node's state stays within its bounds, and it asks to be woken only when there is something to do.
//!
//! Seeded: each run is the same every time. The other nodes are real ones, so that a part of the messages is valid.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use taut_base::{MAX_CANDIDATES, NodeId, PeerId, Prefix, PrivateKey, PublicKey, SessionId, Time};
use taut_netmap::{Me, NetworkInfo, NetworkMap, Peer};
use taut_node::{Clocks, FromLane, HandshakeMessage, Node, ToLane};
use taut_noise::public_key;
use taut_tunnel::{Limits, SessionIndices};

/// Nodes; the first one is under test.
const NODES: u8 = 5;
/// Sessions of one peer that a lane keeps: the previous, the current, the next.
const LANE_SESSIONS: usize = 3;
/// Indices of one session: WireGuard's own pair and the control pair.
const INDICES: usize = 2;
/// Initiations of one peer that wait for a response.
const WAITING: usize = 3;
/// Captured messages that are played again.
const CAPTURED: usize = 64;

type Dice = Box<dyn FnMut(&mut [u8])>;

/// PCG's multiplier and increment; any generator would do.
fn dice(seed: u64) -> Dice {
    let mut state = seed;
    Box::new(move |bytes| {
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = state.to_be_bytes()[0];
        }
    })
}

fn key(number: u8) -> PrivateKey {
    PrivateKey::from_bytes([number + 1; 32])
}

fn public(number: u8) -> PublicKey {
    public_key(&key(number))
}

fn endpoint(number: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number + 1], 8288))
}

fn map(me: u8, listed: impl Iterator<Item = u8>) -> NetworkMap {
    let address = |number| IpAddr::from([100, 64, 0, number + 1]);
    let peer = |number| Peer {
        id: NodeId(u64::from(number) + 1),
        name: format!("n{number}"),
        key: public(number),
        addresses: vec![address(number)],
        endpoints: vec![endpoint(number), SocketAddr::from(([198, 51, 100, number + 1], 9))],
        native: false,
    };
    NetworkMap {
        version: 1,
        network: NetworkInfo {
            name: String::from("net"),
            ipv4: Prefix::new(IpAddr::from([100, 64, 0, 0]), 10).unwrap(),
            ipv6: Prefix::new(IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 0]), 48).unwrap(),
        },
        me: Me {
            id: NodeId(u64::from(me) + 1),
            name: String::from("me"),
            key: public(me),
            addresses: vec![address(me)],
        },
        peers: listed
            .filter(|number| *number != me)
            .map(|number| (NodeId(u64::from(number) + 1), peer(number)))
            .collect(),
    }
}

/// A node with a lane that keeps what a real one keeps, and no more.
struct Host {
    number: u8,
    node: Node<Dice>,
    lane: BTreeMap<PeerId, VecDeque<(SessionId, SessionIndices)>>,
    sent: Vec<(SocketAddr, HandshakeMessage)>,
    sessions: usize,
}

impl Host {
    fn new(number: u8, seed: u64) -> Self {
        let node = Node::new(key(number), Limits::WIREGUARD, dice(seed ^ u64::from(number)));
        Self { number, node, lane: BTreeMap::new(), sent: Vec::new(), sessions: 0 }
    }

    /// Carries out what the node wants, until it wants nothing. Returns how much that was.
    fn settle(&mut self, clocks: Clocks) -> usize {
        let mut commands = 0;
        while let Some(command) = self.node.poll_command() {
            commands += 1;
            match command {
                ToLane::Send { destination, message } => self.sent.push((destination, message)),
                ToLane::RemovePeer(peer) => drop(self.lane.remove(&peer)),
                ToLane::AddSession { peer, id, keys, .. } => {
                    self.sessions += 1;
                    let sessions = self.lane.entry(peer).or_default();
                    sessions.push_back((id, keys.indices()));
                    if sessions.len() > LANE_SESSIONS {
                        self.retire(peer, clocks);
                    }
                }
                _ => {}
            }
        }
        commands
    }

    fn retire(&mut self, peer: PeerId, clocks: Clocks) {
        let Some((id, indices)) = self.lane.get_mut(&peer).and_then(VecDeque::pop_front) else { return };
        self.node.handle_lane(FromLane::Retired { peer, id, indices }, clocks);
    }

    fn check(&self, commands: usize, what: &str) {
        let peers = self.node.peers().count();
        let most = peers * (LANE_SESSIONS * INDICES + WAITING);
        assert!(self.node.indices_in_use() <= most, "{what}: {} indices, {peers} peers", self.node.indices_in_use());
        assert!(peers < usize::from(NODES) && self.lane.len() <= peers, "{what}");
        assert!(self.node.peers().all(|peer| peer.candidates.len() <= MAX_CANDIDATES), "{what}");
        // A map says something of each peer, a time-out may ask each at all its places; anything else is about one peer.
        assert!(commands <= usize::from(NODES) * (2 + MAX_CANDIDATES + 1), "{what}: {commands} commands");
    }
}

struct Run {
    dice: Dice,
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
        Self { dice: dice(seed), hosts, captured: VecDeque::new(), clocks }
    }

    fn draw(&mut self, below: u64) -> u64 {
        let mut bytes = [0; 8];
        (self.dice)(&mut bytes);
        u64::from_le_bytes(bytes) % below
    }

    fn step(&mut self) -> &'static str {
        let who = usize::try_from(self.draw(u64::from(NODES))).unwrap();
        // The node under test gets most of it.
        let who = if self.draw(2) == 0 { 0 } else { who };
        let peers: Vec<PeerId> = self.hosts[who].node.peers().map(|peer| peer.id).collect();
        let count = u64::try_from(peers.len()).unwrap().max(1);
        let peer = peers.get(usize::try_from(self.draw(count)).unwrap()).copied().unwrap_or(PeerId(99));
        let clocks = self.clocks;
        match self.draw(12) {
            0 | 1 => {
                self.hosts[who].node.handle_lane(FromLane::WantsHandshake(peer), clocks);
                "a wish"
            }
            2..=5 => self.message(who),
            6 => {
                let newest = self.hosts[who].lane.get(&peer).and_then(|sessions| sessions.back().copied());
                let id = newest.map_or(SessionId(self.draw(9)), |(id, _)| id);
                self.hosts[who].node.handle_lane(FromLane::Confirmed { peer, id }, clocks);
                "a confirmation"
            }
            7 => {
                self.hosts[who].retire(peer, clocks);
                "a session's end"
            }
            8 => {
                let port = u16::try_from(self.draw(60_000)).unwrap() + 1;
                let endpoint = SocketAddr::from(([203, 0, 113, 7], port));
                self.hosts[who].node.handle_lane(FromLane::Moved { peer, endpoint }, clocks);
                "a move"
            }
            9 if self.draw(10) == 0 => {
                let mask = self.draw(1 << NODES);
                let host = &mut self.hosts[who];
                host.node.set_map(&map(host.number, (0..NODES).filter(|bit| mask >> bit & 1 == 1)));
                "a map"
            }
            _ => {
                // Milliseconds, or hours; the wall clock may go anywhere.
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
                    assert!(next.is_none_or(|next| next > clocks.now), "wants to be woken for what it has just done");
                }
                "time"
            }
        }
    }

    /// A captured message, or one that was sent to it: whole, altered, or with another length.
    fn message(&mut self, who: usize) -> &'static str {
        let number = u8::try_from(who).unwrap();
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
        self.hosts[who].node.handle_lane(FromLane::Handshake { source, message }, self.clocks);
        "a message"
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
    let mut established = 0;
    for seed in 0..12 {
        let mut run = Run::new(seed);
        run.settle("the first map");
        for _ in 0..2_500 {
            let what = run.step();
            run.settle(what);
        }
        established += run.hosts.iter().map(|host| host.sessions).sum::<usize>();
        for host in &mut run.hosts {
            host.node.set_map(&map(host.number, std::iter::empty()));
            host.settle(run.clocks);
            assert_eq!(host.node.indices_in_use(), 0, "indices of peers that are gone");
            assert_eq!(host.node.poll_timeout(), None);
        }
    }
    assert!(established > 100, "{established} sessions: the runs are not worth much without any");
}

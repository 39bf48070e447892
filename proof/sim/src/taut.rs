//! A host that runs Taut: the node of the agent and a lane core, connected as in the daemon.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use taut_base::{DEFAULT_MTU, PeerId, PrivateKey, PublicKey, ReceiverIndex, RelayId, SessionId, Time};
use taut_lane::{DropCounts, Flush, InboundIo, LaneCore, SendBatch};
use taut_netmap::NetworkMap;
use taut_node::{Clocks, FromLane, Node, Output, ToLane};
use taut_path::{Families, PathReport};
use taut_tunnel::Limits;
use taut_udp::Transmit;
use taut_wire::control::{Abilities, ControlMessage, Suites};
use taut_wire::merge::{Offloads, Run};

use crate::host::Host;
use crate::party::Party;
use crate::relay::credentials;
use crate::wall::WALL_AT_START;
use taut_testkit::Seeded;

/// Maximum number of sessions of one peer: the previous, the current and the next one.
const MAX_SESSIONS: usize = 3;
/// Receiver indices of one session: those of its stock, control and AES pairs.
const MAX_INDICES: usize = 3;
/// Maximum number of unanswered initiations of one peer.
const MAX_WAITING: usize = 3;
/// Length in bytes of the longest datagram that cannot be a sized probe: such a probe is as long as a packet, and other probes have 64 bytes.
const LONGEST_SHORT_PROBE: usize = 400;
/// Capacity of the daemon's queues.
const MAX_QUEUED: usize = 256;

/// Options of a [`TautHost`].
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// WireGuard's time limits.
    pub limits: Limits,
    /// Delay of messages from the lane to the agent.
    pub agent_delay: Duration,
    /// Delay until the lane wakes up for a command. The lane may drain it earlier.
    pub lane_delay: Duration,
    /// The suites under which the node can receive data.
    pub suites: Suites,
    /// Whether the node has a ticket, and therefore uses the relays of its map.
    pub ticket: bool,
    /// Whether the node behaves as release 0.1.0 where long packets are concerned: it takes no pieces, answers no sized probe, and offers nothing.
    pub is_old: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::WIREGUARD,
            agent_delay: Duration::ZERO,
            lane_delay: Duration::ZERO,
            suites: Suites::STOCK,
            ticket: false,
            is_old: false,
        }
    }
}

/// A whole node without threads, sockets and clocks.
pub struct TautHost {
    me: Party,
    map: NetworkMap,
    settings: Settings,
    entropy: Seeded,
    node: Node<Seeded>,
    core: LaneCore,
    out: SendBatch,
    drops: Arc<DropCounts>,
    messages: VecDeque<(Time, FromLane)>,
    commands: VecDeque<(Time, ToLane)>,
    delivered: VecDeque<Vec<u8>>,
    transmits: VecDeque<(SocketAddr, Vec<u8>)>,
    /// The sessions in the lane, according to the exchanged commands and messages.
    sessions: BTreeMap<PeerId, BTreeSet<SessionId>>,
    /// The wall clock at a moment of virtual time.
    wall: (Duration, Time),
    /// The ceiling of timestamps, as the daemon stores it on the disk.
    ceiling: Option<Duration>,
    /// The endpoints at which gateways and relays see the node.
    seen: Vec<SocketAddr>,
    /// The endpoints that the coordinator was told of.
    told: Vec<SocketAddr>,
    /// The relays that the node is bound to, until the coordinator is told.
    bound: Option<Vec<RelayId>>,
    /// The settled packet limits, as the host's routes get them.
    limits: BTreeMap<PeerId, u16>,
}

impl TautHost {
    /// Starts a node with this map. All its randomness comes from `seed`.
    pub fn new(me: &Party, map: NetworkMap, settings: Settings, seed: u64) -> Self {
        let mut entropy = Seeded::new(seed);
        let mut node = Node::new(me.key.clone(), settings.limits, Seeded::new(entropy.next_u64()));
        node.set_suites(settings.suites);
        let drops = Arc::new(DropCounts::default());
        let core = start_lane_core(&mut node, &settings, &drops);
        let mut host = Self {
            me: me.clone(),
            map,
            settings,
            entropy,
            node,
            core,
            out: SendBatch::new(),
            drops,
            messages: VecDeque::new(),
            commands: VecDeque::new(),
            delivered: VecDeque::new(),
            transmits: VecDeque::new(),
            sessions: BTreeMap::new(),
            wall: (WALL_AT_START, Time::ZERO),
            ceiling: None,
            seen: Vec::new(),
            told: vec![me.endpoint],
            bound: None,
            limits: BTreeMap::new(),
        };
        host.begin(Time::ZERO);
        host
    }

    /// Restarts the daemon: only the key, the map, the ceiling of timestamps and the drop counters are kept.
    pub fn restart(&mut self, now: Time) {
        self.node = Node::new(self.me.key.clone(), self.settings.limits, Seeded::new(self.entropy.next_u64()));
        self.node.set_suites(self.settings.suites);
        self.core = start_lane_core(&mut self.node, &self.settings, &self.drops);
        self.messages.clear();
        self.commands.clear();
        self.sessions.clear();
        self.limits.clear();
        if let Some(ceiling) = self.ceiling {
            self.node.resume_stamps(ceiling);
        }
        self.begin(now);
    }

    /// Gives the node its first inputs: map and ticket from the disk, and the addresses of the interfaces.
    fn begin(&mut self, now: Time) {
        let clocks = self.clocks(now);
        if self.settings.ticket {
            self.node.set_ticket(credentials(&self.me), clocks);
        }
        self.node.set_map(&self.map);
        self.node.set_interfaces(&[self.me.endpoint], clocks);
        self.pump(now);
    }

    /// Changes the host's address. The node receives the new address as in the daemon after a kernel notification.
    pub fn move_to(&mut self, address: SocketAddr, now: Time) {
        let clocks = self.clocks(now);
        self.me.endpoint = address;
        self.node.set_interfaces(&[address], clocks);
        self.node.handle_look_around(Families::default(), clocks);
        self.pump(now);
    }

    /// Sets the host's wall clock, as time since the Unix epoch.
    pub fn set_wall_clock(&mut self, since_epoch: Duration, now: Time) {
        self.wall = (since_epoch, now);
    }

    /// Returns the host's wall clock, as time since the Unix epoch.
    pub fn wall_clock(&self, now: Time) -> Duration {
        self.wall.0.saturating_add(now.since(self.wall.1))
    }

    /// Deletes the stored ceiling of timestamps, so the next restart starts without one.
    pub fn lose_stamps(&mut self) {
        self.ceiling = None;
    }

    /// Starts a handshake with each peer, as the daemon does after a restart or a move.
    pub fn greet(&mut self, now: Time) {
        let peers: Vec<PublicKey> = self.node.peers().map(|peer| peer.key).collect();
        let clocks = self.clocks(now);
        self.node.greet(&peers, clocks);
        self.pump(now);
    }

    /// Gives the node another key of its own.
    pub fn rotate_key(&mut self, key: PrivateKey, now: Time) {
        self.me.key = key.clone();
        self.node.rotate_key(key);
        self.pump(now);
    }

    /// Gives the node another map.
    pub fn set_map(&mut self, map: NetworkMap, now: Time) {
        self.map = map;
        self.node.set_map(&self.map);
        self.pump(now);
    }

    /// Returns the node's endpoints if they differ from those that the coordinator knows: the interface's endpoint first, then those outside the NAT.
    pub fn poll_endpoints(&mut self) -> Option<Vec<SocketAddr>> {
        let mut all = vec![self.me.endpoint];
        all.extend(self.seen.iter().filter(|endpoint| **endpoint != self.me.endpoint));
        let news = all != self.told;
        self.told.clone_from(&all);
        news.then_some(all)
    }

    /// Returns the relays that the node is bound to, if they differ from those that the coordinator knows.
    pub fn poll_home(&mut self) -> Option<Vec<RelayId>> {
        self.bound.take()
    }

    /// Returns the node.
    pub fn node(&self) -> &Node<Seeded> {
        &self.node
    }

    /// Sets the node's `--mtu`.
    pub fn set_mtu(&mut self, mtu: Option<u16>) {
        self.node.set_mtu(mtu);
    }

    /// Returns the settled packet limit of the only peer, as the host's routes have it.
    pub fn packet_limit(&self) -> Option<u16> {
        self.limits.values().next().copied()
    }

    /// Returns the explanation of the path to the only peer.
    pub fn report(&self, now: Time) -> Option<PathReport> {
        self.node.peers().find_map(|peer| self.node.report(peer.id, now))
    }

    /// Returns the lane's drop counters.
    pub fn drops(&self) -> &DropCounts {
        &self.drops
    }

    /// Returns the highest counter that a peer acknowledged in the session in use.
    pub fn acknowledged(&self) -> Option<u64> {
        self.node.peers().find_map(|peer| self.core.acknowledged(peer.id))
    }

    /// Returns true if the lane marks the data that it sends to its peer as covered by a partial checksum.
    pub fn marks(&self) -> bool {
        self.node.peers().any(|peer| self.core.sends_partial_checksums(peer.id))
    }

    /// Returns the name of the session in use, which is the same on both sides.
    pub fn session_name(&self) -> Option<(ReceiverIndex, ReceiverIndex)> {
        self.node.peers().find_map(|peer| self.core.session_name(peer.id))
    }

    /// Returns the number of sessions in the lane, of all peers.
    pub fn sessions(&self) -> usize {
        self.sessions.values().map(BTreeSet::len).sum()
    }

    /// Returns the number of sessions made with all present peers since the start.
    pub fn established(&self) -> u64 {
        self.node.peers().map(|peer| peer.established).sum()
    }

    /// Exchanges messages and commands between node and lane until nothing is due, and sends.
    fn pump(&mut self, now: Time) {
        let clocks = self.clocks(now);
        loop {
            self.hear_lane(now);
            self.drain_node(now);
            if let Some((_, command)) = self.commands.pop_front_if(|(due, _)| *due <= now) {
                note_session(&mut self.sessions, &command);
                self.core.command(command, &mut self.out, now);
            } else if let Some((_, message)) = self.messages.pop_front_if(|(due, _)| *due <= now) {
                self.node.handle_lane(message, clocks);
            } else if self.node.poll_timeout().is_some_and(|due| due <= now) {
                self.node.handle_timeout(clocks);
            } else if self.core.has_released() {
                self.core.release(&mut self.out, now);
            } else if !self.core.send_backlog(&mut self.out, now) {
                break;
            }
            self.transmit();
        }
        self.transmit();
    }

    /// Carries out what the node wants, as the daemon does.
    fn drain_node(&mut self, now: Time) {
        while let Some(output) = self.node.poll_output() {
            match output {
                Output::Lane(_, command) => {
                    let command = if self.settings.is_old { as_old_release(command) } else { Some(command) };
                    self.commands.extend(command.map(|command| (now + self.settings.lane_delay, command)));
                }
                Output::StampCeiling(ceiling) => self.ceiling = Some(ceiling),
                Output::Endpoints(endpoints) => self.seen = endpoints,
                Output::HomeRelays(relays) => self.bound = Some(relays),
                Output::PacketLimit { peer, limit } => {
                    self.limits.insert(peer, limit);
                }
                // The simulated wire carries only UDP, and the host has one socket, so there are no bridges and no test of the NAT's filter.
                Output::NatTest { .. }
                | Output::Bridges(_)
                | Output::ResetBridge(_)
                | Output::Lanes(_)
                | Output::Event(_) => {}
            }
        }
    }

    fn clocks(&self, now: Time) -> Clocks {
        Clocks { now, wall: self.wall_clock(now) }
    }

    fn hear_lane(&mut self, now: Time) {
        while let Some(message) = self.core.poll_output() {
            if let FromLane::Retired { peer, id, .. } = message {
                let known = self.sessions.get_mut(&peer).is_some_and(|sessions| sessions.remove(&id));
                assert!(known, "session {id:?} was retired, but never added");
            }
            self.messages.push_back((now + self.settings.agent_delay, message));
        }
    }

    /// Cuts what the lane would send with GSO into datagrams.
    fn transmit(&mut self) {
        while !self.out.is_empty() {
            let mut run = [Transmit { destination: self.me.endpoint, contents: &[], segment_size: 0, ecn: 0 }];
            let count = self.out.transmits(Flush::All, &mut run);
            for Transmit { destination, contents, segment_size, .. } in run {
                self.transmits.extend(contents.chunks(segment_size).map(|datagram| (destination, datagram.to_vec())));
            }
            self.out.consume(count, 0);
        }
    }
}

fn start_lane_core(node: &mut Node<Seeded>, settings: &Settings, drops: &Arc<DropCounts>) -> LaneCore {
    let checker = node.checker();
    LaneCore::new(settings.limits, DEFAULT_MTU, checker, false, Offloads::NONE, Arc::clone(drops), Arc::default())
}

/// Returns what a node of release 0.1.0 has its lane do instead.
fn as_old_release(command: ToLane) -> Option<ToLane> {
    match command {
        ToLane::Control { message: ControlMessage::Offer { .. }, .. } => None,
        ToLane::Control { peer, session, lane, way, message: ControlMessage::Accept { lanes, suite, .. } } => {
            let message = ControlMessage::Accept { lanes, suite, abilities: Abilities::default() };
            Some(ToLane::Control { peer, session, lane, way, message })
        }
        other => Some(other),
    }
}

fn note_session(sessions: &mut BTreeMap<PeerId, BTreeSet<SessionId>>, command: &ToLane) {
    match command {
        ToLane::AddSession { peer, id, .. } => {
            assert!(sessions.entry(*peer).or_default().insert(*id), "session {id:?} was added twice");
        }
        ToLane::RemovePeer(peer) => {
            sessions.remove(peer);
        }
        _ => {}
    }
}

impl Host for TautHost {
    fn send(&mut self, packet: &[u8], now: Time) {
        self.core.outbound(packet, &mut self.out, now);
        self.pump(now);
    }

    fn receive(&mut self, source: SocketAddr, datagram: &[u8], now: Time) {
        let mut buffer = datagram.to_vec();
        let mut ports =
            Ports { commands: &mut self.commands, sessions: &mut self.sessions, delivered: &mut self.delivered };
        self.core.inbound(source, &mut buffer, datagram.len(), &mut ports, &mut self.out, now);
        // Only an answer to a probe follows at once on a long datagram.
        if self.settings.is_old && datagram.len() > LONGEST_SHORT_PROBE {
            let count = self
                .out
                .transmits(Flush::All, &mut [Transmit { destination: source, contents: &[], segment_size: 0, ecn: 0 }]);
            self.out.consume(count, 0);
        }
        self.pump(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.core.handle_timeout(&mut self.out, now);
        self.pump(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        let queued = [self.messages.front().map(|(due, _)| *due), self.commands.front().map(|(due, _)| *due)];
        [self.node.poll_timeout(), self.core.poll_timeout()].into_iter().chain(queued).flatten().min()
    }

    fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.transmits.pop_front()
    }

    fn poll_delivered(&mut self) -> Option<Vec<u8>> {
        self.delivered.pop_front()
    }

    fn check(&self) {
        let most = self.sessions.values().map(BTreeSet::len).max().unwrap_or(0);
        assert!(most <= MAX_SESSIONS, "the lane holds {most} sessions of one peer");
        let peers = self.node.peers().count();
        let queued = self.messages.len() + self.commands.len();
        assert!(queued <= MAX_QUEUED, "{queued} messages and commands wait");
        // An index whose retirement has not reached the agent yet still counts as in use.
        let indices = self.node.indices_in_use();
        assert!(
            indices <= peers * (MAX_SESSIONS * MAX_INDICES + MAX_WAITING) + queued * MAX_INDICES,
            "{indices} indices are in use for {peers} peers"
        );
    }
}

/// The outputs of the inbound path.
struct Ports<'a> {
    commands: &'a mut VecDeque<(Time, ToLane)>,
    sessions: &'a mut BTreeMap<PeerId, BTreeSet<SessionId>>,
    delivered: &'a mut VecDeque<Vec<u8>>,
}

impl InboundIo for Ports<'_> {
    fn write(&mut self, run: Run<'_>) -> bool {
        self.delivered.push_back(run.slices().collect::<Vec<_>>().concat());
        true
    }

    fn next_command(&mut self) -> Option<ToLane> {
        let (_, command) = self.commands.pop_front()?;
        note_session(self.sessions, &command);
        Some(command)
    }
}

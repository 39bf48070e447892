//! A host that runs Taut with several lanes: one node, and a lane core for each lane's thread. Agent and threads may be late.
//!
//! In the daemon, the thread hands off packets between lanes (engine/lane/src/thread/hand_off.rs). Here it is done in the simplest form (`thread`): the kernel puts a
//! packet on the queue of its flow; the lane seals it, holds it, or hands it off to the first lane. Which lanes read the queues is decided by the agent's own
//! [`Steering`]. The number of lanes is fixed, or the node opens them by the load of a model of a core (`growth`, `model`).

mod growth;
mod model;
mod thread;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use taut_agent::{Steer, Steering};
use taut_base::{DEFAULT_MTU, LaneId, PeerId, Placement, SessionId, Time};
use taut_lane::{DropCounts, LaneCore};
use taut_netmap::NetworkMap;
use taut_node::{Clocks, FromLane, Node, Output, ToLane};
use taut_tun::flow;
use taut_wire::control::ControlMessage;
use taut_wire::merge::Offloads;

use crate::host::Host;
use crate::party::Party;
use crate::relay::credentials;
use crate::taut::Settings;
use crate::wall::WALL_AT_START;
pub use growth::AutoSettings;
use growth::Shrinking;
use taut_testkit::Seeded;
use thread::{SimThread, TurnContext, TurnOutputs};

/// The lanes of sessions that were given to lanes: lane of ours, peer, session, lane of the session.
type Given = BTreeSet<(LaneId, PeerId, SessionId, LaneId)>;

/// Timeouts of a node at one instant, 1,000: far more than it has reasons for.
const MANY: u32 = 1_000;

/// A node with several lanes, without threads, sockets and clock.
pub struct LanesHost {
    me: Party,
    map: NetworkMap,
    settings: Settings,
    entropy: Seeded,
    node: Node<Seeded>,
    threads: Vec<SimThread>,
    /// The delays of the threads that run and of those that may be started.
    late: Vec<Duration>,
    /// How lanes are opened by load; `None` if their number is fixed.
    auto: Option<AutoSettings>,
    /// Whether the host refuses to start more lanes.
    refuses: bool,
    steering: Steering<TunModel>,
    queues: TunModel,
    shrinking: Option<Shrinking>,
    drops: Arc<DropCounts>,
    messages: VecDeque<(Time, LaneId, FromLane)>,
    delivered: VecDeque<Vec<u8>>,
    transmits: VecDeque<(u16, SocketAddr, Vec<u8>)>,
    /// What was given to lanes since the last start.
    given: Given,
    /// Packets that found their TUN queue full.
    queue_drops: u64,
    /// Number of times that lanes were started beside the first.
    grown: usize,
    /// Number of commands to open or close lanes, by peer.
    changes: BTreeMap<PeerId, usize>,
}

/// A TUN device: the queue of each flow.
#[derive(Clone)]
struct TunModel(Arc<Mutex<Placement>>);

impl Default for TunModel {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Placement::FIRST)))
    }
}

impl TunModel {
    /// Returns the number of the queue that a packet waits on.
    fn queue(&self, packet: &[u8]) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lane(flow(packet)).0.into()
    }
}

impl Steer for TunModel {
    fn steer(&self, placement: Placement) -> bool {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = placement;
        true
    }
}

impl LanesHost {
    /// Returns a node that was just started with this map. `late` are the delays of its threads; all its randomness comes from `seed`.
    pub fn new(me: &Party, map: NetworkMap, settings: Settings, late: &[Duration], seed: u64) -> Self {
        Self::start_with(me, map, settings, None, late, seed)
    }

    /// Returns a node that opens lanes by load. `late` are the delays of as many threads as it may have.
    pub fn auto(
        me: &Party,
        map: NetworkMap,
        settings: Settings,
        auto: AutoSettings,
        late: &[Duration],
        seed: u64,
    ) -> Self {
        Self::start_with(me, map, settings, Some(auto), late, seed)
    }

    fn start_with(
        me: &Party,
        map: NetworkMap,
        settings: Settings,
        auto: Option<AutoSettings>,
        late: &[Duration],
        seed: u64,
    ) -> Self {
        let mut entropy = Seeded::new(seed);
        let node = Node::new(me.key.clone(), settings.limits, Seeded::new(entropy.next_u64()));
        let mut host = Self {
            me: me.clone(),
            map,
            settings,
            entropy,
            node,
            threads: Vec::new(),
            late: late.to_vec(),
            auto,
            refuses: false,
            steering: Steering::new(None, Placement::FIRST),
            queues: TunModel::default(),
            shrinking: None,
            drops: Arc::default(),
            messages: VecDeque::new(),
            delivered: VecDeque::new(),
            transmits: VecDeque::new(),
            given: BTreeSet::new(),
            queue_drops: 0,
            grown: 0,
            changes: BTreeMap::new(),
        };
        host.start(Time::ZERO);
        host
    }

    /// Restarts the daemon with the same key and map, and no other state. Its wall clock goes on.
    pub fn restart(&mut self, now: Time) {
        self.node = Node::new(self.me.key.clone(), self.settings.limits, Seeded::new(self.entropy.next_u64()));
        self.start(now);
    }

    /// Restarts the daemon with another number of threads; `late` are their delays.
    pub fn restart_with(&mut self, late: &[Duration], now: Time) {
        self.late = late.to_vec();
        self.restart(now);
    }

    fn start(&mut self, now: Time) {
        let fixed = if self.auto.is_some() { 1 } else { self.late.len() };
        let (count, cost) = (fixed as u8, self.auto.map_or(Duration::ZERO, |auto| auto.cost));
        self.threads.clear();
        for own in (0..count).map(LaneId) {
            let core = core(&mut self.node, &self.settings, &self.drops).as_lane(own, count);
            self.threads.push(SimThread::new(core, own, self.late[usize::from(own.0)], cost));
        }
        self.queues = TunModel::default();
        self.steering = Steering::new(Some(self.queues.clone()), Placement::new(count));
        self.shrinking = None;
        self.node.set_suites(self.settings.suites);
        self.node.set_lanes(self.named());
        if let Some(auto) = self.auto {
            self.node.set_auto_lanes(auto.most);
        }
        self.messages.clear();
        self.given.clear();
        if self.settings.ticket {
            let clocks = Clocks { now, wall: WALL_AT_START + now.since(Time::ZERO) };
            self.node.set_ticket(credentials(&self.me), clocks);
        }
        self.node.set_map(&self.map);
        self.pump(now);
    }

    /// Returns the node.
    pub fn node(&self) -> &Node<Seeded> {
        &self.node
    }

    /// Has the host refuse to start lanes from now on, or start them again.
    pub fn refuse_lanes(&mut self, refuses: bool) {
        self.refuses = refuses;
    }

    /// Returns the number of times that lanes were started beside the first.
    pub fn grown(&self) -> usize {
        self.grown
    }

    /// Returns the number of times that lanes of ours were told to open or close for a peer.
    pub fn changes(&self, peer: PeerId) -> usize {
        self.changes.get(&peer).copied().unwrap_or(0)
    }

    /// Returns the number of packets that the kernel dropped because their TUN queue was full.
    pub fn queue_drops(&self) -> u64 {
        self.queue_drops
    }

    /// Sends a control message to the first peer, on this lane of their newest session, as a hostile member may.
    pub fn say(&mut self, lane: LaneId, message: ControlMessage, now: Time) {
        let Some(peer) = self.node.peers().next().map(|peer| peer.id) else { return };
        let sessions = self.given.iter().filter(|(_, of, _, on)| (*of, *on) == (peer, lane));
        let Some((own, _, session, _)) = sessions.max_by_key(|(_, _, session, _)| *session).copied() else { return };
        let Some(thread) = self.threads.get_mut(usize::from(own.0)) else { return };
        let command = ToLane::Control { peer, session, lane, way: None, message };
        let mut outputs = TurnOutputs::default();
        thread.command_now(command, &mut outputs, now);
        self.take_outputs(own, outputs, now);
        self.pump(now);
    }

    /// Returns the drop counters of all lanes together.
    pub fn drops(&self) -> &DropCounts {
        &self.drops
    }

    /// Returns the number of lanes that run.
    pub fn lanes(&self) -> u8 {
        u8::try_from(self.threads.len()).unwrap_or(u8::MAX)
    }

    fn tell(&mut self, lane: LaneId, command: ToLane, now: Time) {
        if let ToLane::OpenLanes { peer, .. } | ToLane::CloseLanes(peer) = command {
            *self.changes.entry(peer).or_default() += 1;
        }
        // Commands to a lane that has ended come too late.
        if let Some(thread) = self.threads.get_mut(usize::from(lane.0)) {
            thread.tell(command, now);
        }
    }

    /// Runs threads and agent until no input is due, and sends.
    fn pump(&mut self, now: Time) {
        let mut timeouts = 0;
        loop {
            let mut busy = false;
            while let Some(output) = self.node.poll_output() {
                match output {
                    Output::Lane(lane, command) => self.tell(lane, command, now),
                    Output::Lanes(placement) => self.set_lanes(placement, now),
                    _ => {}
                }
            }
            for own in (0..self.lanes()).map(LaneId) {
                busy |= self.turn(own, now);
            }
            if let Some((_, lane, message)) = self.messages.pop_front_if(|(due, ..)| *due <= now) {
                self.handle(lane, message, now);
                busy = true;
            } else if self.node.poll_timeout().is_some_and(|due| due <= now) {
                self.node.handle_timeout(clocks(now));
                timeouts += 1;
                assert!(timeouts < MANY, "a timeout of the node stays due, so its thread would never sleep");
                busy = true;
            }
            busy |= self.steer(now);
            if !busy {
                return;
            }
        }
    }

    /// Takes a message of a lane.
    fn handle(&mut self, lane: LaneId, message: FromLane, now: Time) {
        let mut told = Vec::new();
        match message {
            FromLane::Drained => self.steering.drained(lane, now, |lane, command| told.push((lane, command))),
            FromLane::Ended => self.lane_ended(),
            message => self.node.handle(lane, message, clocks(now)),
        }
        told.into_iter().for_each(|(lane, command)| self.tell(lane, command, now));
    }

    /// Has the lanes read that should, and ends those that are not needed. Returns true if a lane was told something.
    fn steer(&mut self, now: Time) -> bool {
        let spread = self.node.has_extra_lanes() && self.shrinking.is_none();
        let mut told = Vec::new();
        self.steering.turn(spread, now, |lane, command| told.push((lane, command)));
        let (any, before) = (!told.is_empty(), self.threads.len());
        told.into_iter().for_each(|(lane, command)| self.tell(lane, command, now));
        self.shrink_further(now);
        any || self.threads.len() != before
    }

    /// Runs one turn of a lane's thread. Returns false if there was nothing to do.
    fn turn(&mut self, own: LaneId, now: Time) -> bool {
        let Some(thread) = self.threads.get_mut(usize::from(own.0)) else { return false };
        let mut outputs = TurnOutputs::default();
        let context = TurnContext { own, given: &mut self.given, delivered: &mut self.delivered };
        let busy = thread.turn(context, &mut outputs, now);
        self.take_outputs(own, outputs, now);
        busy
    }

    fn take_outputs(&mut self, own: LaneId, outputs: TurnOutputs, now: Time) {
        let port = u16::from(own.0);
        let sent = outputs.transmits.into_iter().map(|(destination, datagram)| (port, destination, datagram));
        self.transmits.extend(sent);
        for (lane, item) in outputs.handed_off {
            self.threads[usize::from(lane.0)].take(item, now);
        }
        for (lane, source, datagram) in outputs.strays {
            // A stray of a lane that has ended has no receiver: its peer was told seconds ago.
            if let Some(thread) = self.threads.get_mut(usize::from(lane.0)) {
                thread.receive_stray(source, datagram, now);
            }
        }
        while let Some(message) = self.threads[usize::from(own.0)].core.poll_output() {
            self.messages.push_back((now + self.settings.agent_delay, own, message));
        }
    }
}

fn clocks(now: Time) -> Clocks {
    Clocks { now, wall: WALL_AT_START + now.since(Time::ZERO) }
}

fn core(node: &mut Node<Seeded>, settings: &Settings, drops: &Arc<DropCounts>) -> LaneCore {
    let checker = node.checker();
    LaneCore::new(settings.limits, DEFAULT_MTU, checker, false, Offloads::NONE, Arc::clone(drops), Arc::default())
}

/// Asserts that each lane of a session is given once, to the lane of ours that serves it (protocol.md 1.7).
fn assert_given_once(given: &mut Given, own: LaneId, command: &ToLane) {
    if let ToLane::AddSession { peer, id, keys, .. } = command {
        assert!(given.insert((own, *peer, *id, keys.lane)), "lane {:?} of session {id:?} was given twice", keys.lane);
        let owners: BTreeMap<_, _> = given.iter().map(|(own, peer, id, lane)| ((peer, id, lane), own)).collect();
        assert_eq!(owners.len(), given.len(), "a lane of a session has two owners");
    }
}

impl Host for LanesHost {
    fn send(&mut self, packet: &[u8], now: Time) {
        let place = self.queues.queue(packet);
        if !self.threads[place].queue(packet) {
            self.queue_drops += 1;
        }
        self.pump(now);
    }

    fn receive(&mut self, source: SocketAddr, datagram: &[u8], now: Time) {
        self.receive_at(0, source, datagram, now);
    }

    fn handle_timeout(&mut self, now: Time) {
        for own in (0..self.lanes()).map(LaneId) {
            let mut outputs = TurnOutputs::default();
            self.threads[usize::from(own.0)].handle_timeout(&mut outputs, now);
            self.take_outputs(own, outputs, now);
        }
        self.pump(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        let agent =
            [self.node.poll_timeout(), self.messages.front().map(|(due, ..)| *due), self.steering.poll_timeout()];
        let threads = self.threads.iter().map(SimThread::poll_timeout);
        agent.into_iter().chain(threads).flatten().min()
    }

    fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.poll_transmit_at().map(|(_, destination, datagram)| (destination, datagram))
    }

    fn poll_delivered(&mut self) -> Option<Vec<u8>> {
        self.delivered.pop_front()
    }

    fn ports(&self) -> u16 {
        self.lanes().into()
    }

    fn receive_at(&mut self, port: u16, source: SocketAddr, datagram: &[u8], now: Time) {
        self.threads[usize::from(port)].receive(source, datagram.to_vec(), now);
        self.pump(now);
    }

    fn poll_transmit_at(&mut self) -> Option<(u16, SocketAddr, Vec<u8>)> {
        self.transmits.pop_front()
    }
}

//! A host that runs Taut with several lanes: one node, and a lane core for each lane's thread. Agent and threads may be late.
//!
//! In the daemon, the thread hands off packets between lanes (engine/lane/src/thread/hand_off.rs). Here it is done in the simplest form: the kernel puts a
//! packet on the queue of its flow; the lane seals it, holds it, or hands it off to the first lane. Which lanes read is not simulated: all read from the
//! start.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use taut_base::{DEFAULT_MTU, LaneId, PeerId, SessionId, Time};
use taut_lane::{DropCounts, Flush, InboundIo, LaneCore, Mark, SendBatch};
use taut_netmap::NetworkMap;
use taut_node::{Clocks, FromLane, Node, Output, ToLane};
use taut_tun::flow;
use taut_udp::Transmit;
use taut_wire::control::{ControlMessage, Lanes};
use taut_wire::merge::{Offloads, Run};

use crate::host::Host;
use crate::party::Party;
use crate::taut::Settings;
use crate::wall::WALL_AT_START;
use taut_testkit::Seeded;

/// A node with several lanes, without threads, sockets and clock.
pub struct LanesHost {
    me: Party,
    map: NetworkMap,
    settings: Settings,
    entropy: Seeded,
    node: Node<Seeded>,
    threads: Vec<SimThread>,
    drops: Arc<DropCounts>,
    messages: VecDeque<(Time, LaneId, FromLane)>,
    delivered: VecDeque<Vec<u8>>,
    transmits: VecDeque<(u16, SocketAddr, Vec<u8>)>,
    /// The sessions that were given to each lane since the last start: lane of ours, peer, session, lane of the session.
    given: BTreeSet<(LaneId, PeerId, SessionId, LaneId)>,
}

/// One lane's thread.
struct SimThread {
    core: LaneCore,
    out: SendBatch,
    /// The delay of all its inputs: datagrams, commands, handed-off packets.
    late: Duration,
    commands: VecDeque<(Time, ToLane)>,
    datagrams: VecDeque<(Time, SocketAddr, Vec<u8>)>,
    /// Packets and marks that other lanes handed off, in order.
    handed_off: VecDeque<(Time, HandedOff)>,
    /// The TUN queue.
    queue: VecDeque<Vec<u8>>,
}

enum HandedOff {
    Packet(Vec<u8>),
    Mark(Mark),
}

impl SimThread {
    fn backlog(&mut self, now: Time) -> bool {
        self.core.send_backlog(&mut self.out, now)
    }
}

impl LanesHost {
    /// Returns a node that was just started with this map. `late` are the delays of its threads; all its randomness comes from `seed`.
    pub fn new(me: &Party, map: NetworkMap, settings: Settings, late: &[Duration], seed: u64) -> Self {
        let mut entropy = Seeded::new(seed);
        let mut node = Node::new(me.key.clone(), settings.limits, Seeded::new(entropy.next_u64()));
        let threads = threads(&mut node, &settings, late);
        let mut host = Self {
            me: me.clone(),
            map,
            settings,
            entropy,
            node,
            threads,
            drops: Arc::default(),
            messages: VecDeque::new(),
            delivered: VecDeque::new(),
            transmits: VecDeque::new(),
            given: BTreeSet::new(),
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
        self.threads = threads(&mut self.node, &self.settings, late);
        self.restart(now);
    }

    fn start(&mut self, now: Time) {
        let first = self.me.endpoint.port();
        let extra: Vec<u16> = (first + 1..).take(self.threads.len() - 1).collect();
        self.node.set_suites(self.settings.suites);
        self.node.set_lanes(Lanes::with_ports(&extra));
        let count = self.lanes();
        for (own, thread) in (0..).zip(&mut self.threads) {
            thread.core = core(&mut self.node, &self.settings, &self.drops).as_lane(LaneId(own), count);
            thread.out = SendBatch::new();
            thread.commands.clear();
            thread.datagrams.clear();
            thread.handed_off.clear();
            thread.queue.clear();
        }
        self.messages.clear();
        self.given.clear();
        self.node.set_map(&self.map);
        self.pump(now);
    }

    /// Returns the node.
    pub fn node(&self) -> &Node<Seeded> {
        &self.node
    }

    /// Sends a control message to the first peer, on this lane of their newest session, as a hostile member may.
    pub fn say(&mut self, lane: LaneId, message: ControlMessage, now: Time) {
        let Some(peer) = self.node.peers().next().map(|peer| peer.id) else { return };
        let sessions = self.given.iter().filter(|(_, of, _, on)| (*of, *on) == (peer, lane));
        let Some((own, _, session, _)) = sessions.max_by_key(|(_, _, session, _)| *session).copied() else { return };
        let thread = &mut self.threads[usize::from(own.0)];
        let command = ToLane::Control { peer, session, lane, way: None, message };
        thread.core.command(command, &mut thread.out, now);
        self.transmit(usize::from(own.0));
        self.pump(now);
    }

    /// Returns the drop counters of all lanes together.
    pub fn drops(&self) -> &DropCounts {
        &self.drops
    }

    fn lanes(&self) -> u8 {
        u8::try_from(self.threads.len()).unwrap_or(u8::MAX)
    }

    /// Runs threads and agent until no input is due, and sends.
    fn pump(&mut self, now: Time) {
        let clocks = Clocks { now, wall: WALL_AT_START + now.since(Time::ZERO) };
        loop {
            let mut busy = false;
            while let Some(output) = self.node.poll_output() {
                if let Output::Lane(lane, command) = output {
                    let thread = &mut self.threads[usize::from(lane.0)];
                    thread.commands.push_back((now + thread.late, command));
                }
            }
            for place in 0..self.threads.len() {
                busy |= self.work(place, now);
            }
            if let Some((_, lane, message)) = self.messages.pop_front_if(|(due, ..)| *due <= now) {
                self.node.handle(lane, message, clocks);
                busy = true;
            } else if self.node.poll_timeout().is_some_and(|due| due <= now) {
                self.node.handle_timeout(clocks);
                busy = true;
            }
            if !busy {
                return;
            }
        }
    }

    /// Runs one turn of a lane's thread, in the daemon's order: commands, datagrams, handed-off packets, the queue. Returns false if there was nothing to do.
    fn work(&mut self, place: usize, now: Time) -> bool {
        let thread = &mut self.threads[place];
        let own = LaneId(u8::try_from(place).unwrap_or(u8::MAX));
        let mut busy = false;
        while let Some((_, command)) = thread.commands.pop_front_if(|(due, _)| *due <= now) {
            assert_given_once(&mut self.given, own, &command);
            thread.core.command(command, &mut thread.out, now);
            busy = true;
        }
        let mut strays = Vec::new();
        while let Some((_, source, mut datagram)) = thread.datagrams.pop_front_if(|(due, ..)| *due <= now) {
            let mut io = SimIo {
                own,
                commands: &mut thread.commands,
                given: &mut self.given,
                delivered: &mut self.delivered,
                strays: &mut strays,
            };
            let length = datagram.len();
            thread.core.inbound(source, &mut datagram, length, &mut io, &mut thread.out, now);
            busy = true;
        }
        while let Some((_, item)) = thread.handed_off.pop_front_if(|(due, _)| *due <= now) {
            match item {
                HandedOff::Packet(packet) => thread.core.outbound_handed_off(&packet, &mut thread.out, now),
                HandedOff::Mark(mark) => thread.core.mark_handed_off(mark, &mut thread.out),
            }
            busy = true;
        }
        let mut to_first = Vec::new();
        loop {
            let mark = if let Some(released) = thread.core.release(&mut thread.out, now) {
                to_first.extend(released.packet.map(|packet| HandedOff::Packet(packet.into())));
                released.mark
            } else {
                let Some(packet) = thread.queue.pop_front() else { break };
                let hand_off = thread.core.outbound(&packet, &mut thread.out, now);
                to_first.extend(hand_off.packet.then_some(HandedOff::Packet(packet)));
                hand_off.mark
            };
            to_first.extend(mark.map(HandedOff::Mark));
            busy = true;
        }
        self.transmit(place);
        while self.threads[place].backlog(now) {
            self.transmit(place);
        }
        self.drain_outputs(place, now);
        for item in to_first {
            let first = &mut self.threads[0];
            first.handed_off.push_back((now + first.late, item));
        }
        for (lane, source, datagram) in strays {
            let other = &mut self.threads[usize::from(lane.0)];
            other.datagrams.push_back((now + other.late, source, datagram));
        }
        self.transmit(0);
        busy
    }

    fn drain_outputs(&mut self, place: usize, now: Time) {
        while let Some(message) = self.threads[place].core.poll_output() {
            let lane = LaneId(u8::try_from(place).unwrap_or(u8::MAX));
            self.messages.push_back((now + self.settings.agent_delay, lane, message));
        }
    }

    fn transmit(&mut self, place: usize) {
        let out = &mut self.threads[place].out;
        while !out.is_empty() {
            let mut run = [Transmit { destination: self.me.endpoint, contents: &[], segment_size: 0, ecn: 0 }];
            let count = out.transmits(Flush::All, &mut run);
            let port = u16::try_from(place).unwrap_or(u16::MAX);
            for Transmit { destination, contents, segment_size, .. } in run {
                let datagrams = contents.chunks(segment_size).map(|datagram| (port, destination, datagram.to_vec()));
                self.transmits.extend(datagrams);
            }
            out.consume(count, 0);
        }
    }
}

/// Returns a thread for each lane.
fn threads(node: &mut Node<Seeded>, settings: &Settings, late: &[Duration]) -> Vec<SimThread> {
    let thread = |late: &Duration| SimThread {
        core: core(node, settings, &Arc::default()),
        out: SendBatch::new(),
        late: *late,
        commands: VecDeque::new(),
        datagrams: VecDeque::new(),
        handed_off: VecDeque::new(),
        queue: VecDeque::new(),
    };
    late.iter().map(thread).collect()
}

fn core(node: &mut Node<Seeded>, settings: &Settings, drops: &Arc<DropCounts>) -> LaneCore {
    let checker = node.checker();
    LaneCore::new(settings.limits, DEFAULT_MTU, checker, false, Offloads::NONE, Arc::clone(drops), Arc::default())
}

/// Asserts that each lane of a session is given once, to the lane of ours that serves it (protocol.md 1.7).
fn assert_given_once(given: &mut BTreeSet<(LaneId, PeerId, SessionId, LaneId)>, own: LaneId, command: &ToLane) {
    if let ToLane::AddSession { peer, id, keys, .. } = command {
        assert!(given.insert((own, *peer, *id, keys.lane)), "lane {:?} of session {id:?} was given twice", keys.lane);
        let owners: BTreeMap<_, _> = given.iter().map(|(own, peer, id, lane)| ((peer, id, lane), own)).collect();
        assert_eq!(owners.len(), given.len(), "a lane of a session has two owners");
    }
}

impl Host for LanesHost {
    fn send(&mut self, packet: &[u8], now: Time) {
        let place = usize::from(flow(packet)) % self.threads.len();
        self.threads[place].queue.push_back(packet.to_vec());
        self.pump(now);
    }

    fn receive(&mut self, source: SocketAddr, datagram: &[u8], now: Time) {
        self.receive_at(0, source, datagram, now);
    }

    fn handle_timeout(&mut self, now: Time) {
        for place in 0..self.threads.len() {
            let thread = &mut self.threads[place];
            thread.core.handle_timeout(&mut thread.out, now);
            self.transmit(place);
            self.drain_outputs(place, now);
        }
        self.pump(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        let agent = [self.node.poll_timeout(), self.messages.front().map(|(due, ..)| *due)];
        let threads = self.threads.iter().flat_map(|thread| {
            [
                thread.core.poll_timeout(),
                thread.commands.front().map(|(due, _)| *due),
                thread.datagrams.front().map(|(due, ..)| *due),
                thread.handed_off.front().map(|(due, _)| *due),
            ]
        });
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
        let thread = &mut self.threads[usize::from(port)];
        thread.datagrams.push_back((now + thread.late, source, datagram.to_vec()));
        self.pump(now);
    }

    fn poll_transmit_at(&mut self) -> Option<(u16, SocketAddr, Vec<u8>)> {
        self.transmits.pop_front()
    }
}

/// The TUN, the command queue and the other lanes, for one received datagram.
struct SimIo<'a> {
    own: LaneId,
    commands: &'a mut VecDeque<(Time, ToLane)>,
    given: &'a mut BTreeSet<(LaneId, PeerId, SessionId, LaneId)>,
    delivered: &'a mut VecDeque<Vec<u8>>,
    strays: &'a mut Vec<(LaneId, SocketAddr, Vec<u8>)>,
}

impl InboundIo for SimIo<'_> {
    fn write(&mut self, run: Run<'_>) -> bool {
        self.delivered.push_back(run.slices().collect::<Vec<_>>().concat());
        true
    }

    fn hand_off(&mut self, to: LaneId, source: SocketAddr, datagram: &[u8]) -> bool {
        self.strays.push((to, source, datagram.to_vec()));
        true
    }

    fn next_command(&mut self) -> Option<ToLane> {
        let (_, command) = self.commands.pop_front()?;
        assert_given_once(self.given, self.own, &command);
        Some(command)
    }
}

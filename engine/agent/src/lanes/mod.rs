//! The running lanes, seen from the agent: the agent's ends of their queues, and the commands on their way to them.

mod growth;
mod return_routes;
mod steering;
#[cfg(feature = "wg")]
mod wg;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use taut_base::{LaneId, PeerId, SortedSet, Time};
use taut_dns::Question;
use taut_event::Waker;
use taut_lane::{AgentEnd, Lane, LaneConfig, LaneEnd, LaneShared, LaneStartError, Rings, queues, rings};
use taut_netlink::Netlink;
use taut_node::{Clocks, FromLane, Node, ToLane};
use taut_tun::Tun;
use taut_tunnel::Limits;
use taut_tunnel::cookie::CookieChecker;
use taut_udp::UdpSocket;

use crate::basics::OsEntropy;
use growth::Shrinking;
use return_routes::ReturnRoutes;
pub use steering::{Steer, Steering};

/// Receive buffer of a socket, 16 MiB: the data of 10 ms at 10 Gbit/s (12.5 MB), while a lane is not scheduled, rounded up to a power of two.
pub(crate) const RECEIVE_BUFFER: usize = buffer(10);
/// Send buffer of a socket, 4 MiB: the data of 2 ms at 10 Gbit/s, rounded up to a power of two. A larger one only adds delay under load.
pub(crate) const SEND_BUFFER: usize = buffer(2);

const fn buffer(milliseconds: usize) -> usize {
    // 10 Gbit/s in bits has no place in the `usize` of a 32-bit processor.
    const BYTES_PER_MILLISECOND: usize = 10_000_000 / 8;
    (BYTES_PER_MILLISECOND * milliseconds).next_power_of_two()
}

/// Commands that the empty queue keeps room for: more than an ordinary turn makes. A map of a thousand members makes thousands, whose room would stay for good.
const KEPT_COMMANDS: usize = 64;

/// Time until a command that found a lane's queue full is sent again, 5 ms.
const QUEUE_RETRY: Duration = Duration::from_millis(5);

/// The running lanes of a node.
pub(crate) struct LaneThreads {
    /// The lanes, at least one.
    lanes: Vec<RunningLane>,
    steering: Steering,
    /// Commands that were not sent yet, or that found a lane's queue full. Commands of all lanes keep their order.
    commands: VecDeque<(LaneId, ToLane)>,
    /// Whether each peer belongs to one lane.
    by_peer: bool,
    /// The end of all lanes but the first, while it is in progress.
    shrinking: Option<Shrinking>,
    /// The counters of lanes that ended; those that start in their place go on with them.
    former: Vec<Arc<LaneShared>>,
    /// Questions of the lanes' stubs for other servers.
    questions: VecDeque<(LaneId, Question)>,
}

struct RunningLane {
    lane: Lane,
    queue: AgentEnd,
    waker: Waker,
    routes: ReturnRoutes,
}

/// The options of all lanes of a node.
#[derive(Clone, Copy)]
pub(crate) struct LaneOptions {
    /// MTU of the TUN, in bytes.
    pub(crate) mtu: u16,
    pub(crate) limits: Limits,
    /// Whether lanes busy-poll after each packet.
    pub(crate) low_latency: bool,
    /// Whether flows that keep a queue of a lane long get congestion marks.
    pub(crate) congestion_marks: bool,
    /// Whether each peer belongs to one lane.
    pub(crate) by_peer: bool,
}

impl LaneOptions {
    /// Returns what lane `own` of `lanes` is made of.
    fn of_lane(
        self,
        own: LaneId,
        lanes: u8,
        rings: Rings,
        handles: LaneHandles,
        queues: LaneEnd,
        waker: Waker,
    ) -> LaneConfig {
        let Self { mtu, limits, low_latency, congestion_marks, by_peer } = self;
        let LaneHandles { tun, udp, checker } = handles;
        LaneConfig {
            own,
            lanes,
            rings,
            tun,
            mtu,
            udp,
            checker,
            limits,
            queues,
            waker,
            by_peer,
            low_latency,
            congestion_marks,
        }
    }
}

/// The device queue, the socket and the cookie checker of a lane, which closes them when it ends.
pub(crate) struct LaneHandles {
    pub(crate) tun: Tun,
    pub(crate) udp: UdpSocket,
    pub(crate) checker: CookieChecker,
}

impl LaneThreads {
    /// Starts a lane on each of these handles. All packets of the host wait on the first lane's queue.
    pub(crate) fn start_all(
        handles: Vec<LaneHandles>,
        steering: Steering,
        options: LaneOptions,
        agent: &Waker,
    ) -> Result<Self, LaneStartError> {
        let wakers = handles.iter().map(|_| Waker::new()).collect::<Result<Vec<_>, _>>()?;
        let count = handles.len() as u8;
        let mut lanes = Vec::with_capacity(handles.len());
        for (((own, handles), waker), rings) in (0..).zip(handles).zip(&wakers).zip(all_rings(&wakers)) {
            let (queue, lane_end) = queues(agent.clone(), waker.clone());
            let config = options.of_lane(LaneId(own), count, rings, handles, lane_end, waker.clone());
            let (lane, waker, routes) = (Lane::start(config)?, waker.clone(), ReturnRoutes::default());
            lanes.push(RunningLane { lane, queue, waker, routes });
        }
        let by_peer = options.by_peer;
        Ok(Self {
            lanes,
            steering,
            commands: VecDeque::new(),
            by_peer,
            shrinking: None,
            former: Vec::new(),
            questions: VecDeque::new(),
        })
    }

    /// Takes the messages of the lanes, and does the work that is due. The caller drains the node afterwards. Returns true if all lanes but the first have ended now,
    /// as [`Self::shrink`] asked.
    pub(crate) fn turn(&mut self, node: &mut Node<OsEntropy>, clocks: Clocks) -> bool {
        for place in 0..self.lanes.len() {
            let lane = LaneId(place as u8);
            while let Some(message) = self.lanes.get(place).and_then(|running| running.queue.receive()) {
                match message {
                    FromLane::Drained => {
                        self.steering
                            .drained(lane, clocks.now, |lane, command| self.commands.push_back((lane, command)));
                    }
                    FromLane::Ended => self.ended(lane),
                    FromLane::Question(question) => self.questions.push_back((lane, *question)),
                    // A peer's only lane is the first one for the node. An answer to a handshake leaves from the lane that received it.
                    message => {
                        let is_handshake = matches!(message, FromLane::Handshake { .. });
                        let lane = if self.by_peer && !is_handshake { LaneId::FIRST } else { lane };
                        node.handle(lane, message, clocks);
                    }
                }
            }
        }
        node.handle_timeout(clocks);
        let spread = node.has_extra_lanes() && self.shrinking.is_none();
        self.steering.turn(spread, clocks.now, |lane, command| self.commands.push_back((lane, command)));
        self.shrink_further(clocks.now)
    }

    /// Returns the next question of a lane's stub for other servers. The caller drains it after every [`Self::turn`].
    pub(crate) fn poll_question(&mut self) -> Option<(LaneId, Question)> {
        self.questions.pop_front()
    }

    /// Adds a command, which [`Self::flush`] sends.
    pub(crate) fn push(&mut self, lane: LaneId, command: ToLane) {
        self.commands.push_back((lane, command));
    }

    /// Sends commands in their order, whichever lanes they are for, until a lane's queue is full.
    pub(crate) fn flush(&mut self) {
        let mut told = 0_u32;
        while let Some((lane, command)) = self.commands.pop_front() {
            let Some(running) = self.lanes.get(usize::from(lane.0)) else { continue };
            if let Err(command) = running.queue.send(command) {
                self.commands.push_front((lane, command));
                break;
            }
            told |= 1 << lane.0;
        }
        if self.commands.is_empty() {
            self.commands.shrink_to(KEPT_COMMANDS);
        }
        for (place, running) in self.lanes.iter().enumerate() {
            if told & 1 << place != 0 {
                running.queue.wake();
            }
        }
    }

    /// Tells the lanes the MTU. A lane whose queue is full misses it until the next change of the link.
    pub(crate) fn set_mtu(&self, mtu: u16) {
        for running in &self.lanes {
            if running.queue.send(ToLane::SetMtu(mtu)).is_ok() {
                running.queue.wake();
            }
        }
    }

    /// Has the lanes forget local addresses whose route to the peer changed, for packets with this mark.
    pub(crate) fn check_routes(&mut self, netlink: &mut Netlink, mark: u32) {
        // An error is not an empty answer (law 6): without a list, no address counts as lost.
        let own = netlink.addresses().ok();
        let own: Option<SortedSet<IpAddr>> = own.map(|all| all.into_iter().map(|address| address.ip).collect());
        for running in &mut self.lanes {
            for place in running.routes.check(netlink, mark, own.as_ref(), running.lane.shared().locals.all()) {
                // If the queue is full, the lane forgets the address at the second retransmission of the peer's next handshake.
                let _ = running.queue.send(ToLane::ForgetLocal { place });
            }
            running.queue.wake();
        }
    }

    /// Forgets the counters of other peers on lanes that ended.
    pub(crate) fn keep_only(&self, keep: impl Fn(PeerId) -> bool) {
        self.former.iter().for_each(|former| former.traffic.keep_only(&keep));
    }

    /// Returns the time at which a waiting command is sent again or the steering continues.
    pub(crate) fn poll_timeout(&self, now: Time) -> Option<Time> {
        let waits = (!self.commands.is_empty() || self.shrinking.is_some()).then(|| now + QUEUE_RETRY);
        waits.into_iter().chain(self.steering.poll_timeout()).min()
    }

    /// Returns the shared counters of each lane, and of those that ended.
    pub(crate) fn all_shared(&self) -> impl Iterator<Item = &LaneShared> {
        let running = self.lanes.iter().map(|running| &**running.lane.shared());
        running.chain(self.former.iter().map(|former| &**former))
    }

    /// Returns the bytes of packets received from a peer and sent to it, on all lanes.
    pub(crate) fn traffic_of(&self, peer: PeerId) -> (u64, u64) {
        let all = self.all_shared().map(|shared| shared.traffic.of(peer));
        all.fold((0, 0), |(received, sent), (here, there)| (received + here, sent + there))
    }

    /// Returns the part of [`Self::traffic_of`] that relays carried.
    pub(crate) fn relayed_of(&self, peer: PeerId) -> (u64, u64) {
        let all = self.all_shared().map(|shared| shared.traffic.relayed_of(peer));
        all.fold((0, 0), |(received, sent), (here, there)| (received + here, sent + there))
    }

    /// Returns the bytes of packets to a peer that were held, and the number of abandoned changes of its path or lanes.
    pub(crate) fn held_of(&self, peer: PeerId) -> (u64, u64) {
        let all = self.all_shared().map(|shared| shared.traffic.held_of(peer));
        all.fold((0, 0), |(bytes, given_up), (here, there)| (bytes + here, given_up + there))
    }

    /// Returns the packets from a peer and to it that got a congestion mark here.
    pub(crate) fn marked_of(&self, peer: PeerId) -> (u64, u64) {
        let all = self.all_shared().map(|shared| shared.traffic.marked_of(peer));
        all.fold((0, 0), |(received, sent), (here, there)| (received + here, sent + there))
    }

    /// Returns true if the kernel steers flows to lanes.
    pub(crate) fn is_steered_by_kernel(&self) -> bool {
        self.steering.is_by_kernel()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.lanes.iter().any(|running| running.lane.has_failed())
    }

    pub(crate) fn stop(self) {
        for running in self.lanes {
            running.lane.stop();
        }
    }
}

/// Returns the rings between lanes; a single lane has none.
fn all_rings(wakers: &[Waker]) -> Vec<Rings> {
    if wakers.len() < 2 { wakers.iter().map(|_| Rings::default()).collect() } else { rings(wakers) }
}

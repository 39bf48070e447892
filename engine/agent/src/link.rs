//! The running lanes, seen from the agent: its ends of the queues, and the node's commands on their way through them.

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use taut_base::{LaneId, PeerId, Time};
use taut_event::Waker;
use taut_lane::{AgentEnd, Lane, LaneShared, LaneStartError, Rings, queues, rings};
use taut_netlink::Netlink;
use taut_node::{Clocks, FromLane, Node, ToLane};
use taut_tun::Tun;
use taut_tunnel::Limits;
use taut_tunnel::cookie::CookieChecker;
use taut_udp::UdpSocket;

use crate::entropy::OsEntropy;
use crate::steering::Steering;
use crate::ways::Ways;

/// How soon a command that found a lane's queue full is tried again.
const QUEUE_RETRY: Duration = Duration::from_millis(5);

/// The running lanes of a node.
pub(crate) struct Link {
    /// At least one.
    lanes: Vec<Running>,
    steering: Steering,
    /// Commands that the lanes' queues had no room for, or that were not sent yet. Commands of all lanes keep their order.
    commands: VecDeque<(LaneId, ToLane)>,
}

struct Running {
    lane: Lane,
    queue: AgentEnd,
    ways: Ways,
}

/// How lanes work, all of a node's alike.
#[derive(Clone, Copy)]
pub(crate) struct LaneOptions {
    /// MTU of the TUN, in bytes.
    pub(crate) mtu: u16,
    pub(crate) limits: Limits,
    /// Packets are waited for without sleeping.
    pub(crate) low_latency: bool,
}

/// What a lane works on; it closes these when it ends.
pub(crate) struct Handles {
    pub(crate) tun: Tun,
    pub(crate) udp: UdpSocket,
    pub(crate) checker: CookieChecker,
}

impl Link {
    /// Starts one lane on these handles, which it closes when it ends; `agent` is woken by it.
    pub(crate) fn start(
        tun: Tun,
        udp: UdpSocket,
        checker: CookieChecker,
        manner: LaneOptions,
        agent: &Waker,
    ) -> Result<Self, LaneStartError> {
        Self::start_all(vec![Handles { tun, udp, checker }], Steering::new(None, 1), manner, agent)
    }

    /// Starts a lane on each of these; everything waits on the first one's queue.
    pub(crate) fn start_all(
        handles: Vec<Handles>,
        steering: Steering,
        manner: LaneOptions,
        agent: &Waker,
    ) -> Result<Self, LaneStartError> {
        let LaneOptions { mtu, limits, low_latency } = manner;
        let wakers = handles.iter().map(|_| Waker::new()).collect::<Result<Vec<_>, _>>()?;
        let count = handles.len() as u8;
        let mut lanes = Vec::with_capacity(handles.len());
        for (((own, handles), waker), rings) in (0..).zip(handles).zip(&wakers).zip(all_rings(&wakers)) {
            let Handles { tun, udp, checker } = handles;
            let (queue, lane_end) = queues(agent.clone(), waker.clone());
            let (own, queues, waker) = (LaneId(own), lane_end, waker.clone());
            let config = taut_lane::LaneConfig {
                own,
                lanes: count,
                rings,
                tun,
                mtu,
                udp,
                checker,
                limits,
                queues,
                waker,
                low_latency,
            };
            lanes.push(Running { lane: Lane::start(config)?, queue, ways: Ways::default() });
        }
        Ok(Self { lanes, steering, commands: VecDeque::new() })
    }

    /// Takes what the lanes said, and does what is due. The caller drains the node.
    pub(crate) fn turn(&mut self, node: &mut Node<OsEntropy>, clocks: Clocks) {
        let Self { lanes, steering, commands, .. } = self;
        let mut tell = |lane, command| commands.push_back((lane, command));
        for (place, running) in (0..).zip(lanes) {
            while let Some(said) = running.queue.receive() {
                match said {
                    FromLane::Drained => steering.drained(LaneId(place), clocks.now, &mut tell),
                    said => node.handle(LaneId(place), said, clocks),
                }
            }
        }
        node.handle_timeout(clocks);
        steering.turn(node.is_spread(), clocks.now, tell);
    }

    /// Adds a command of the node, to be sent by [`Self::flush`].
    pub(crate) fn push(&mut self, lane: LaneId, command: ToLane) {
        self.commands.push_back((lane, command));
    }

    /// Sends commands as far as the lanes' queues have room: in their order, whichever lanes they are for.
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
        for (place, running) in self.lanes.iter().enumerate() {
            if told & 1 << place != 0 {
                running.queue.wake();
            }
        }
    }

    /// Tells the lanes of another MTU; one that finds no room is made up for by the next change of the link.
    pub(crate) fn set_mtu(&self, mtu: u16) {
        for running in &self.lanes {
            if running.queue.send(ToLane::SetMtu(mtu)).is_ok() {
                running.queue.wake();
            }
        }
    }

    /// Has the lanes leave the choice of our address to the routes, where they changed (`ways`): for packets with this mark.
    pub(crate) fn check_ways(&mut self, netlink: &mut Netlink, mark: u32) {
        // Without an answer nothing is known to be gone (law 6).
        let own = netlink.addresses().ok();
        let own: Option<BTreeSet<IpAddr>> = own.map(|all| all.into_iter().map(|address| address.ip).collect());
        for running in &mut self.lanes {
            for place in running.ways.look(netlink, mark, own.as_ref(), running.lane.shared().locals.all()) {
                // One that finds no room is left to the second try of the peer's next handshake.
                let _ = running.queue.send(ToLane::ForgetLocal { place });
            }
            running.queue.wake();
        }
    }

    /// Has the lanes leave the choice of all our addresses to the routes until peers are heard again.
    pub(crate) fn forget_locals(&self) {
        for running in &self.lanes {
            // A lane whose queue is full notices by the second try of each peer's next handshake.
            let _ = running.queue.send(ToLane::ForgetLocals);
            running.queue.wake();
        }
    }

    /// Has the only lane go on with another socket; its sessions stay.
    pub(crate) fn replace_socket(&self, udp: UdpSocket) {
        if let [only] = &self.lanes[..] {
            only.lane.replace_socket(udp);
        }
    }

    /// When a command that found no room is tried again, or the lanes change what they read.
    pub(crate) fn poll_timeout(&self, now: Time) -> Option<Time> {
        self.commands.front().map(|_| now + QUEUE_RETRY).into_iter().chain(self.steering.poll_timeout()).min()
    }

    /// What everybody may read of each lane.
    pub(crate) fn all_shared(&self) -> impl Iterator<Item = &LaneShared> {
        self.lanes.iter().map(|running| &**running.lane.shared())
    }

    /// Bytes of packets received from a peer and sent to it, on all lanes.
    pub(crate) fn traffic_of(&self, peer: PeerId) -> (u64, u64) {
        let all = self.all_shared().map(|shared| shared.traffic.of(peer));
        all.fold((0, 0), |(received, sent), (here, there)| (received + here, sent + there))
    }

    /// Of these, those that a relay carried.
    pub(crate) fn relayed_of(&self, peer: PeerId) -> (u64, u64) {
        let all = self.all_shared().map(|shared| shared.traffic.relayed_of(peer));
        all.fold((0, 0), |(received, sent), (here, there)| (received + here, sent + there))
    }

    /// Bytes of packets to a peer that were held, and changes of its path or lanes that were given up.
    pub(crate) fn held_of(&self, peer: PeerId) -> (u64, u64) {
        let all = self.all_shared().map(|shared| shared.traffic.held_of(peer));
        all.fold((0, 0), |(bytes, given_up), (here, there)| (bytes + here, given_up + there))
    }

    /// Bytes of the data messages around them.
    pub(crate) fn outer_of(&self, peer: PeerId) -> (u64, u64) {
        let all = self.all_shared().map(|shared| shared.traffic.outer_of(peer));
        all.fold((0, 0), |(received, sent), (here, there)| (received + here, sent + there))
    }

    /// Whether the kernel steers flows to lanes, where there are several.
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

/// The rings between lanes: none for one.
fn all_rings(wakers: &[Waker]) -> Vec<Rings> {
    if wakers.len() < 2 { wakers.iter().map(|_| Rings::default()).collect() } else { rings(wakers) }
}

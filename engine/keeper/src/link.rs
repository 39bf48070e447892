//! A running lane, seen from the keeper: its end of the queues, and the node's commands on their way through them.

use std::time::Duration;

use taut_base::Time;
use taut_event::Waker;
use taut_lane::{KeeperEnd, Lane, Shared, StartError, queues};
use taut_netlink::Netlink;
use taut_node::{Clocks, Node, ToLane};
use taut_tun::Tun;
use taut_tunnel::Limits;
use taut_tunnel::cookie::Checker;
use taut_udp::UdpSocket;

use crate::entropy::OsEntropy;
use crate::ways::Ways;

/// How soon a command that found the lane's queue full is tried again.
const QUEUE_RETRY: Duration = Duration::from_millis(5);

/// A running lane.
pub(crate) struct Link {
    lane: Lane,
    queue: KeeperEnd,
    /// A command that the lane's queue had no room for.
    held: Option<ToLane>,
    ways: Ways,
}

impl Link {
    /// Starts a lane on these handles, which it closes when it ends; `keeper` is woken by it.
    pub(crate) fn start(
        tun: Tun,
        udp: UdpSocket,
        mtu: u16,
        checker: Checker,
        limits: Limits,
        keeper: &Waker,
    ) -> Result<Self, StartError> {
        let waker = Waker::new()?;
        let (queue, lane_end) = queues(keeper.clone(), waker.clone());
        let lane = Lane::start(taut_lane::Config { tun, mtu, udp, checker, limits, queues: lane_end, waker })?;
        Ok(Self { lane, queue, held: None, ways: Ways::default() })
    }

    /// Takes what the lane said, does what is due, hands the resulting commands over.
    pub(crate) fn turn(&mut self, node: &mut Node<OsEntropy>, clocks: Clocks) {
        while let Some(said) = self.queue.receive() {
            node.handle_lane(said, clocks);
        }
        node.handle_timeout(clocks);
        self.carry_out(node);
    }

    /// Hands the node's commands over, as far as there is room.
    pub(crate) fn carry_out(&mut self, node: &mut Node<OsEntropy>) {
        let mut any = false;
        while let Some(command) = self.held.take().or_else(|| node.poll_command()) {
            if let Err(command) = self.queue.send(command) {
                self.held = Some(command);
                break;
            }
            any = true;
        }
        if any {
            self.queue.wake();
        }
    }

    /// Tells the lane of another MTU; one that finds no room is made up for by the next change of the link.
    pub(crate) fn set_mtu(&self, mtu: u16) {
        if self.queue.send(ToLane::SetMtu(mtu)).is_ok() {
            self.queue.wake();
        }
    }

    /// Has the lane leave the choice of our address to the routes, where they changed (`ways`): for packets with this mark.
    pub(crate) fn check_ways(&mut self, netlink: &mut Netlink, mark: u32) {
        let changed = self.ways.look(netlink, mark, self.lane.shared().locals.all());
        for place in changed {
            // One that finds no room is left to the second try of the peer's next handshake.
            let _ = self.queue.send(ToLane::ForgetLocal { place });
        }
        self.queue.wake();
    }

    /// Has the lane go on with another socket; its sessions stay.
    pub(crate) fn replace_socket(&self, udp: UdpSocket) {
        self.lane.replace_socket(udp);
    }

    /// When a command that found no room is tried again.
    pub(crate) fn poll_timeout(&self, now: Time) -> Option<Time> {
        self.held.as_ref().map(|_| now + QUEUE_RETRY)
    }

    pub(crate) fn shared(&self) -> &Shared {
        self.lane.shared()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.lane.has_failed()
    }

    pub(crate) fn stop(self) {
        self.lane.stop();
    }
}

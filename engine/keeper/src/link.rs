//! The lane of an interface. It can be started again, with sessions of its own, while device and UDP socket stay.

use std::time::Duration;

use taut_base::Time;
use taut_event::Waker;
use taut_lane::{KeeperEnd, Lane, Shared, queues};
use taut_node::{Clocks, Node, ToLane};
use taut_tun::Tun;
use taut_tunnel::Limits;
use taut_tunnel::cookie::Checker;
use taut_udp::UdpSocket;

use super::Error;
use crate::entropy::OsEntropy;

/// How soon a command that found the lane's queue full is tried again.
const QUEUE_RETRY: Duration = Duration::from_millis(5);

/// A running lane.
pub(super) struct Link {
    lane: Lane,
    queue: KeeperEnd,
    /// A command that the lane's queue had no room for.
    held: Option<ToLane>,
}

impl Link {
    /// Starts a lane on handles of its own.
    pub(super) fn start(
        tun: &Tun,
        udp: &UdpSocket,
        mtu: u16,
        checker: Checker,
        limits: Limits,
        keeper: &Waker,
    ) -> Result<Self, Error> {
        let system = |error| Error::System("open another handle", error);
        let waker = Waker::new().map_err(system)?;
        let (queue, lane_end) = queues(keeper.clone(), waker.clone());
        let lane = Lane::start(taut_lane::Config {
            tun: tun.try_clone().map_err(system)?,
            mtu,
            udp: udp.try_clone().map_err(system)?,
            checker,
            limits,
            queues: lane_end,
            waker,
        })
        .map_err(Error::Lane)?;
        Ok(Self { lane, queue, held: None })
    }

    /// Takes what the lane said, does what is due, hands the resulting commands over.
    pub(super) fn turn(&mut self, node: &mut Node<OsEntropy>, clocks: Clocks) {
        while let Some(said) = self.queue.receive() {
            node.handle_lane(said, clocks);
        }
        node.handle_timeout(clocks);
        self.carry_out(node);
    }

    /// Hands the node's commands over, as far as there is room.
    pub(super) fn carry_out(&mut self, node: &mut Node<OsEntropy>) {
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
    pub(super) fn set_mtu(&self, mtu: u16) {
        if self.queue.send(ToLane::SetMtu(mtu)).is_ok() {
            self.queue.wake();
        }
    }

    /// When a command that found no room is tried again.
    pub(super) fn poll_timeout(&self, now: Time) -> Option<Time> {
        self.held.as_ref().map(|_| now + QUEUE_RETRY)
    }

    pub(super) fn shared(&self) -> &Shared {
        self.lane.shared()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.lane.has_failed()
    }

    pub(super) fn stop(self) {
        self.lane.stop();
    }
}

//! Lanes that a [`LanesHost`] starts and ends as its node asks (`--lanes auto`), in the order of engine/agent/src/lanes/growth.rs.

use std::time::Duration;

use taut_base::{LaneId, Placement, Time};
use taut_node::ToLane;
use taut_wire::control::Lanes;

use super::thread::SimThread;
use super::{LanesHost, TunModel, clocks, core};

/// How a [`LanesHost`] opens lanes by load.
#[derive(Clone, Copy, Debug)]
pub struct AutoSettings {
    /// The most lanes: the cores of the host.
    pub most: u8,
    /// The work of a lane's thread for one datagram. It is a model: with 500 µs, one lane carries 2,000 datagrams per second.
    pub cost: Duration,
    /// Whether the kernel chooses a packet's queue. Otherwise all packets wait on the first queue, and the first lane distributes them.
    pub steered: bool,
}

/// The end of all lanes but the first.
pub(super) enum Shrinking {
    /// Packets of the host may still wait on queues of the lanes.
    Emptying,
    /// This number of lanes has not reported yet.
    Ending(usize),
}

impl LanesHost {
    /// Starts lanes, or begins to end all but the first, as the node asks.
    pub(super) fn set_lanes(&mut self, placement: Placement, now: Time) {
        let count = placement.lanes();
        if count < 2 {
            if self.threads.len() > 1 {
                self.shrinking.get_or_insert(Shrinking::Emptying);
            }
            return;
        }
        if self.refuses {
            return self.node.lanes_refused(clocks(now));
        }
        let Some(auto) = self.auto else { return };
        assert!(self.threads.len() == 1 && count <= auto.most, "the node asked for {count} lanes");
        for own in (1..count).map(LaneId) {
            let core = core(&mut self.node, &self.settings, &self.drops).as_lane(own, count);
            let late = self.late[usize::from(own.0)];
            self.threads.push(SimThread::new(core, own, late, auto.cost));
        }
        self.tell(LaneId::FIRST, ToLane::Lanes(placement), now);
        let device = auto.steered.then(TunModel::default);
        self.queues = device.clone().unwrap_or_default();
        self.steering.restart(device, placement);
        self.grown += 1;
        self.node.lanes_run(self.named(), clocks(now));
    }

    /// Returns the running lanes as peers are told of them.
    pub(super) fn named(&self) -> Lanes {
        let first = self.me.endpoint.port();
        Lanes::with_ports(&(first + 1..).take(self.threads.len() - 1).collect::<Vec<_>>())
    }

    /// Notes that a lane has ended its sessions.
    pub(super) fn lane_ended(&mut self) {
        if let Some(Shrinking::Ending(left)) = &mut self.shrinking {
            *left -= 1;
        }
    }

    /// Takes the next step towards one lane, if the node asked for it.
    pub(super) fn shrink_further(&mut self, now: Time) {
        match self.shrinking {
            Some(Shrinking::Emptying) if self.steering.is_at_first() => {
                let others = self.threads.len() - 1;
                for own in (1..self.lanes()).map(LaneId) {
                    self.tell(own, ToLane::End, now);
                }
                self.shrinking = Some(Shrinking::Ending(others));
            }
            Some(Shrinking::Ending(0)) => {
                assert!(self.threads[1..].iter().all(SimThread::is_empty), "packets wait on a lane that ends");
                self.shrinking = None;
                self.threads.truncate(1);
                self.tell(LaneId::FIRST, ToLane::Lanes(Placement::FIRST), now);
                self.steering.restart(None, Placement::FIRST);
                self.queues = TunModel::default();
                self.node.lanes_run(Lanes::ONE, clocks(now));
            }
            _ => {}
        }
    }
}

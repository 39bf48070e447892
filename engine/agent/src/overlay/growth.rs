//! Lanes that come and go with the load (`--lanes auto`): their queues of the TUN device, their sockets, and what follows from a change.

use taut_base::{MAX_LANES, Placement};
use taut_event::Waker;
use taut_node::Clocks;
use taut_tun::Tun;
use taut_tunnel::Limits;
use taut_udp::UdpSocket;
use taut_wire::control::Lanes;

use super::open::{bind_further, open_queues};
use super::{Overlay, OverlayOutput};
use crate::api::Failure;
use crate::config::DaemonConfig;
use crate::lanes::{LaneHandles, LaneOptions};

/// What is needed to start lanes later.
pub(super) struct Growth {
    config: DaemonConfig,
    /// A handle of the first queue, from which others are made.
    tun: Tun,
    limits: Limits,
    agent: Waker,
    /// The reason why lanes could not be started, the last time.
    problem: Option<Failure>,
}

impl Growth {
    /// Returns what is needed for an overlay with these options and this device; `None` if the number of lanes is fixed or one at most.
    pub(super) fn new(
        config: &DaemonConfig,
        tun: &Tun,
        limits: Limits,
        agent: &Waker,
    ) -> std::io::Result<Option<Self>> {
        if config.lanes.is_some() || most_lanes() < 2 {
            return Ok(None);
        }
        let (config, tun, agent) = (config.clone(), tun.try_clone()?, agent.clone());
        Ok(Some(Self { config, tun, limits, agent, problem: None }))
    }
}

/// Returns the most lanes that may help: the cores that this process may use, by its affinity and its control group.
pub(super) fn most_lanes() -> u8 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u8::try_from(cores.min(MAX_LANES)).unwrap_or(1)
}

impl Overlay {
    /// Starts lanes, or begins to end all but the first, as the node asks.
    pub(super) fn set_lanes(&mut self, placement: Placement, clocks: Clocks) {
        let count = placement.lanes();
        if count < 2 {
            return self.lanes.shrink();
        }
        match self.add_lanes(placement) {
            Ok(lanes) => {
                self.node.lanes_run(lanes, clocks);
                self.outputs.push_back(OverlayOutput::LanesStarted(count));
            }
            Err(problem) => {
                self.node.lanes_refused(clocks);
                self.outputs.push_back(OverlayOutput::LanesRefused(problem.message.clone()));
                self.growth.iter_mut().for_each(|growth| growth.problem = Some(problem.clone()));
            }
        }
    }

    /// Starts the lanes of this placement beside the first.
    fn add_lanes(&mut self, placement: Placement) -> Result<Lanes, Failure> {
        let none = || Failure::new("the number of lanes is fixed", "");
        let growth = self.growth.as_ref().ok_or_else(none)?;
        let count = placement.lanes();
        let (kernel, queues) = open_queues(&growth.tun, &growth.config, count)?;
        let mut taken = Vec::new();
        let further = bind_further(&growth.config, count, self.port, &mut taken)?;
        let ports: Vec<u16> = further.iter().map(UdpSocket::port).collect();
        let files = |error| Failure::new(error, "raise the limit of open files: `ulimit -n`");
        let sockets = further.iter().map(UdpSocket::try_clone).collect::<Result<Vec<_>, _>>().map_err(files)?;
        let options = LaneOptions {
            mtu: self.tun.mtu,
            limits: growth.limits,
            low_latency: growth.config.low_latency,
            congestion_marks: growth.config.ecn,
            by_peer: false,
        };
        let node = &mut self.node;
        let handles = queues.into_iter().zip(further);
        let handles = handles.map(|(tun, udp)| LaneHandles { tun, udp, checker: node.checker() }).collect();
        let started = self.lanes.grow(handles, kernel, placement, options, &growth.agent);
        started.map_err(|error| Failure::new(error, "free memory or threads on this host"))?;
        self.sockets.extend(sockets);
        self.ports = ports;
        self.growth.iter_mut().for_each(|growth| growth.problem = None);
        Ok(Lanes::with_ports(&self.ports))
    }

    /// Notes that all lanes but the first have ended.
    pub(super) fn lanes_ended(&mut self, clocks: Clocks) {
        for socket in self.sockets.drain(1..) {
            self.dropped_before += socket.dropped().map_or(0, u64::from);
        }
        self.ports.clear();
        self.node.lanes_run(Lanes::ONE, clocks);
        self.outputs.push_back(OverlayOutput::LanesEnded);
    }

    /// Returns the reason why more lanes could not be started, the last time.
    pub(crate) fn lanes_problem(&self) -> Option<&Failure> {
        self.growth.as_ref()?.problem.as_ref()
    }
}

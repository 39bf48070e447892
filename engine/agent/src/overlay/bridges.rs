//! Bridges to relays that UDP does not reach (`taut_control::Bridge`).
//!
//! The node requests bridges (`Output::Bridges`) and is told when one opens or closes. The lane sends to a bridge's address as to any relay. All bridges end with
//! the overlay.

use std::net::SocketAddr;

use taut_base::{Prefix, RelayId, SortedMap};
use taut_control::{Bridge, BridgeOptions, BridgeReport};
use taut_event::Waker;
use taut_node::{BridgeRequest, Clocks, Node};

use crate::basics::OsEntropy;

/// The running bridges.
pub(crate) struct Bridges {
    /// The first lane's port.
    lane: u16,
    agent: Waker,
    running: SortedMap<RelayId, RunningBridge>,
    /// Datagrams that ended bridges dropped: out, in.
    dropped: (u64, u64),
}

struct RunningBridge {
    url: String,
    /// `None` if the thread could not be started or the URL is invalid.
    bridge: Option<Bridge>,
    problem: Option<String>,
    /// The state that was last passed to the node: the number of times that the bridge opened, and true if it is open.
    reported: (u64, bool),
}

impl Bridges {
    pub(crate) fn new(lane: u16, agent: Waker) -> Self {
        Self { lane, agent, running: SortedMap::new(), dropped: (0, 0) }
    }

    /// Gives the bridge to a relay a new connection.
    pub(crate) fn reset(&self, relay: RelayId) {
        self.all().filter(|(id, _)| *id == relay).for_each(|(_, bridge)| bridge.reconnect());
    }

    /// Tells the node which bridges opened and closed.
    pub(crate) fn turn(&mut self, node: &mut Node<OsEntropy>, clocks: Clocks) {
        for (id, running) in &mut self.running {
            let Some(bridge) = &running.bridge else { continue };
            let report = bridge.report();
            let (opened, was_open) = std::mem::replace(&mut running.reported, (report.opened, report.is_open));
            // The bridge may have closed and opened between two turns.
            if report.is_open && (!was_open || report.opened != opened) {
                node.bridge_opened(*id, bridge.local_address(), clocks);
            } else if was_open && !report.is_open {
                node.bridge_closed(*id, clocks);
            }
        }
    }

    /// Ends the bridges that are not requested any more, and starts new ones.
    pub(crate) fn set(
        &mut self,
        requests: &[BridgeRequest],
        node: &mut Node<OsEntropy>,
        overlay: &[Prefix],
        clocks: Clocks,
    ) {
        let requested = |id: &RelayId, url: &str| requests.iter().any(|request| request.0 == *id && request.1 == url);
        let ends = |id: &RelayId, running: &RunningBridge| !requested(id, &running.url);
        let gone = self.running.iter().filter(|(id, running)| ends(id, running)).map(|(id, _)| *id).collect::<Vec<_>>();
        for id in gone {
            if let Some(bridge) = self.running.remove(&id).and_then(|running| running.bridge) {
                let report = bridge.report();
                self.dropped.0 += report.dropped_out;
                self.dropped.1 += report.dropped_in;
                node.bridge_closed(id, clocks);
            }
        }
        for (id, url) in requests {
            let (lane, agent) = (self.lane, &self.agent);
            self.running.entry(*id).or_insert_with(|| {
                let options = BridgeOptions { url: url.clone(), lane, overlay: overlay.to_vec() };
                let (bridge, problem) = match Bridge::start(&options, agent.clone()) {
                    Ok(bridge) => (Some(bridge), None),
                    Err(error) => (None, Some(error.to_string())),
                };
                RunningBridge { url: url.clone(), bridge, problem, reported: (0, false) }
            });
        }
    }

    /// Has all bridges check their connection, because the host's network changed or the host slept.
    pub(crate) fn check(&self) {
        self.all().for_each(|(_, bridge)| bridge.host_changed());
    }

    /// Returns the URL and the state of the bridge to a relay, for users.
    pub(crate) fn report(&self, relay: RelayId) -> Option<(&str, BridgeReport)> {
        let running = self.running.get(&relay)?;
        let failed = || BridgeReport { problem: running.problem.clone(), ..BridgeReport::default() };
        Some((&running.url, running.bridge.as_ref().map_or_else(failed, Bridge::report)))
    }

    /// Returns the address at which the lane reaches the relay.
    pub(crate) fn local_address(&self, relay: RelayId) -> Option<SocketAddr> {
        self.running.get(&relay)?.bridge.as_ref().map(Bridge::local_address)
    }

    /// Returns the drops of all bridges, by reason, like those of [`taut_lane::DropReason`].
    pub(crate) fn dropped(&self) -> [(&'static str, u64); 2] {
        let reports = || self.all().map(|(_, bridge)| bridge.report());
        let out = reports().map(|report| report.dropped_out).sum::<u64>() + self.dropped.0;
        let back = reports().map(|report| report.dropped_in).sum::<u64>() + self.dropped.1;
        [("out-bridge-full", out), ("in-bridge-refused", back)]
    }

    fn all(&self) -> impl Iterator<Item = (RelayId, &Bridge)> {
        self.running.iter().filter_map(|(id, running)| Some((*id, running.bridge.as_ref()?)))
    }
}

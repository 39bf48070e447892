//! Bridges to relays that UDP does not reach (`taut_control::Bridge`): as many as the node wishes for, told to it as they open and close.
//!
//! The node says for which relays (`Output::Bridges`) and is told where each is; the lane sends there as to any relay. All of them end with the overlay.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use taut_base::{Prefix, RelayId};
use taut_control::{Bridge, BridgeOptions, BridgeReport};
use taut_event::Waker;
use taut_node::{BridgeRequest, Clocks, Node};

use crate::entropy::OsEntropy;

/// The bridges that there are.
pub(crate) struct Bridges {
    /// The first lane's port.
    lane: u16,
    agent: Waker,
    running: BTreeMap<RelayId, Running>,
    /// Datagrams that bridges dropped which are gone: out, in.
    dropped: (u64, u64),
}

struct Running {
    url: String,
    /// `None` when the system had no room for it, or its URL makes no sense.
    bridge: Option<Bridge>,
    problem: Option<String>,
    /// What the node was told: how often it opened, and whether it is open.
    told: (u64, bool),
}

impl Bridges {
    pub(crate) fn new(lane: u16, agent: Waker) -> Self {
        Self { lane, agent, running: BTreeMap::new(), dropped: (0, 0) }
    }

    /// Gives the bridge to a relay a new connection.
    pub(crate) fn reset(&self, relay: RelayId) {
        self.all().filter(|(id, _)| *id == relay).for_each(|(_, bridge)| bridge.renew());
    }

    /// Tells the node which bridges opened and closed.
    pub(crate) fn turn(&mut self, node: &mut Node<OsEntropy>, clocks: Clocks) {
        for (id, running) in &mut self.running {
            let Some(bridge) = &running.bridge else { continue };
            let report = bridge.report();
            let (opened, was_open) = std::mem::replace(&mut running.told, (report.opened, report.is_open));
            // It may have closed and opened between two looks.
            if report.is_open && (!was_open || report.opened != opened) {
                node.bridge_opened(*id, bridge.place(), clocks);
            } else if was_open && !report.is_open {
                node.bridge_closed(*id, clocks);
            }
        }
    }

    /// Ends the bridges that are not requested any more, and starts those that are new.
    pub(crate) fn set(
        &mut self,
        requests: &[BridgeRequest],
        node: &mut Node<OsEntropy>,
        overlay: &[Prefix],
        clocks: Clocks,
    ) {
        let requested = |id: &RelayId, url: &str| requests.iter().any(|request| request.0 == *id && request.1 == url);
        let ends = |id: &RelayId, running: &Running| !requested(id, &running.url);
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
                Running { url: url.clone(), bridge, problem, told: (0, false) }
            });
        }
    }

    /// The host's addresses, routes or links changed, or it slept.
    pub(crate) fn look(&self) {
        self.all().for_each(|(_, bridge)| bridge.look());
    }

    /// The bridge to a relay, for users: its URL, and how it stands.
    pub(crate) fn report(&self, relay: RelayId) -> Option<(&str, BridgeReport)> {
        let running = self.running.get(&relay)?;
        let failed = || BridgeReport { problem: running.problem.clone(), ..BridgeReport::default() };
        Some((&running.url, running.bridge.as_ref().map_or_else(failed, Bridge::report)))
    }

    /// Where the lane reaches it.
    pub(crate) fn place(&self, relay: RelayId) -> Option<SocketAddr> {
        self.running.get(&relay)?.bridge.as_ref().map(Bridge::place)
    }

    /// What all of them dropped, by name, as [`taut_lane::DropReason`]'s reasons.
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

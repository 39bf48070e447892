//! The coordinator of a scene: it puts each node's reports into the other node's map.
//!
//! ```text
//! a node's report (interface addresses, external endpoints, its relays) ──after TOLD, while the coordinator is up──▶ the other node's map
//! coordinator down: no maps are sent; up again: both nodes get all news at once
//! ```

use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{RelayId, Time};
use taut_netmap::NetworkMap;

use super::Scene;
use crate::maps::map_for;
use crate::party::Party;
use crate::relay::SimRelay;
use crate::side::Side;

/// Delay from a node's report to the other node's map, 60 ms: two ways through the network and a write to a disk.
const TOLD: Duration = Duration::from_millis(60);

/// The coordinator's record of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    endpoints: Vec<SocketAddr>,
    relays: Vec<RelayId>,
}

impl Listed {
    /// Creates the record of a known node: bound to all relays, without external endpoints.
    pub(super) fn new(party: &Party, relays: &[SimRelay]) -> Self {
        let relays = relays.iter().map(SimRelay::id).take(taut_netmap::MAX_PEER_RELAYS).collect();
        Self { endpoints: vec![party.endpoint], relays }
    }
}

/// The coordinator between the two nodes.
pub(super) struct Coordinator {
    parties: [Party; 2],
    listed: [Listed; 2],
    version: u64,
    /// The time at which the next maps are sent.
    pub(super) due: Option<Time>,
    pub(super) away: bool,
}

impl Coordinator {
    /// Creates a coordinator that knows these two nodes.
    pub(super) fn new(parties: [Party; 2], listed: [Listed; 2]) -> Self {
        Self { parties, listed, version: 1, due: None, away: false }
    }

    /// Returns the map of `side`, with these relays.
    pub(super) fn map(&self, side: Side, relays: &[SimRelay]) -> NetworkMap {
        let (me, other) = (&self.parties[side.place()], &self.parties[side.other().place()]);
        let listed = &self.listed[side.other().place()];
        let mut map = map_for(me, &[other]);
        map.version = self.version;
        map.relays = relays.iter().map(SimRelay::listed).collect();
        for peer in map.peers.values_mut() {
            peer.endpoints.clone_from(&listed.endpoints);
            peer.relays.clone_from(&listed.relays);
        }
        assert_eq!(map.check(), Ok(()), "the scene's own maps are good");
        map
    }
}

impl Scene {
    /// Stops or starts the coordinator.
    pub fn set_coordinator(&mut self, there: bool) {
        self.coordinator.away = !there;
        if there && self.coordinator.due.is_some() {
            self.coordinator.due = Some(self.now + TOLD);
        }
    }

    /// Takes the reports of `side` for the coordinator.
    pub(super) fn hear(&mut self, side: Side) {
        let host = &mut self.hosts[side.place()];
        let listed = &mut self.coordinator.listed[side.place()];
        let before = listed.clone();
        if let Some(endpoints) = host.poll_endpoints() {
            listed.endpoints = endpoints;
        }
        if let Some(relays) = host.poll_home() {
            listed.relays = relays;
        }
        if *listed != before {
            self.coordinator.due.get_or_insert(self.now + TOLD);
        }
    }

    /// Sends a new map to both nodes.
    pub(super) fn publish(&mut self) {
        self.coordinator.due = None;
        self.coordinator.version += 1;
        let relays: Vec<SimRelay> = self.posts.iter().map(|post| post.relay.clone()).collect();
        for side in Side::BOTH {
            let map = self.coordinator.map(side, &relays);
            self.with(side, |node, now| node.set_map(map, now));
        }
    }
}

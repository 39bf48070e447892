//! The coordinator of a scene: what nodes tell it goes into the other one's map.
//!
//! ```text
//! news of a node (addresses of its interface, where relays see it, its relays) ──after TOLD, while it is there──▶ the other node's map
//! it goes away: nobody hears anything; it comes back: everybody hears all news at once
//! ```

use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{RelayId, Time};
use taut_netmap::NetworkMap;

use super::Scene;
use crate::maps::map_for;
use crate::party::Party;
use crate::relay::Relay;
use crate::side::Side;

/// From a node's news to the other node's map: two ways through the network, and a write to a disk.
const TOLD: Duration = Duration::from_millis(60);

/// What the coordinator knows of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    endpoints: Vec<SocketAddr>,
    relays: Vec<RelayId>,
}

impl Listed {
    /// A node that was here before: it was at all relays, and nobody knows where it is seen.
    pub(super) fn new(party: &Party, relays: &[Relay]) -> Self {
        let relays = relays.iter().map(Relay::id).take(taut_netmap::MAX_PEER_RELAYS).collect();
        Self { endpoints: vec![party.endpoint], relays }
    }
}

/// Who tells each node of the other one.
pub(super) struct Coordinator {
    parties: [Party; 2],
    listed: [Listed; 2],
    version: u64,
    /// When somebody hears the news.
    pub(super) due: Option<Time>,
    pub(super) away: bool,
}

impl Coordinator {
    /// One that knows these two.
    pub(super) fn new(parties: [Party; 2], listed: [Listed; 2]) -> Self {
        Self { parties, listed, version: 1, due: None, away: false }
    }

    /// The map of `side`, with these relays.
    pub(super) fn map(&self, side: Side, relays: &[Relay]) -> NetworkMap {
        let (me, other) = (&self.parties[side.place()], &self.parties[side.other().place()]);
        let listed = &self.listed[side.other().place()];
        let mut map = map_for(me, &[other]);
        map.version = self.version;
        map.relays = relays.iter().map(Relay::listed).collect();
        for peer in map.peers.values_mut() {
            peer.endpoints.clone_from(&listed.endpoints);
            peer.relays.clone_from(&listed.relays);
        }
        assert_eq!(map.check(), Ok(()), "the scene's own maps are good");
        map
    }
}

impl Scene {
    /// The coordinator is away from now on, or back.
    pub fn set_coordinator(&mut self, there: bool) {
        self.coordinator.away = !there;
        if there && self.coordinator.due.is_some() {
            self.coordinator.due = Some(self.now + TOLD);
        }
    }

    /// Takes what `side` has to tell the coordinator.
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

    /// Both nodes hear what is new.
    pub(super) fn publish(&mut self) {
        self.coordinator.due = None;
        self.coordinator.version += 1;
        let relays: Vec<Relay> = self.posts.iter().map(|post| post.relay.clone()).collect();
        for side in Side::BOTH {
            let map = self.coordinator.map(side, &relays);
            self.with(side, |node, now| node.set_map(map, now));
        }
    }
}

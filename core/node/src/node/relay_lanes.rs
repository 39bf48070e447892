//! The extra lanes of peers that are reached through a relay.
//!
//! ```text
//! the peer's sessions have several lanes here, ┐
//! and its path is relayed                      ┴─▶ Relays::set_lanes ──▶ each local lane is bound at the relay ── LanesBound ──▶ probes on these lanes
//! no such peer any more                        ──▶ Relays::set_lanes ──▶ the lanes are unbound
//! ```
//! The rules of extra lanes are those of a direct path: a lane carries data after a probe on it was answered ([`crate::extra_lanes`]). Where a direct path has a port
//! for each lane of the peer, a relayed one has the low bits of the peer's number ([`Way::to_lane`]).

use std::net::SocketAddr;

use taut_base::{Entropy, LaneId, PeerId, SortedMap};
use taut_path::Way;

use super::Node;
use crate::peer::Peer;

impl<E: Entropy> Node<E> {
    /// Returns true if packets to a peer may take extra lanes on this way.
    pub(super) fn has_lanes_on(&self, peer: &Peer, way: Way) -> bool {
        !way.is_relayed() || peer.has_relayed_lanes && self.relays.allows_lanes(way.first_hop())
    }

    /// Returns the way of each lane of a peer's sessions, from the first on: to the peer's port of the lane, or through the relay in use. `None` for a lane that cannot
    /// be used at present, and for a lane that the peer names with port 0 because it cannot be reached.
    pub(super) fn lane_ways(&self, id: PeerId) -> Vec<Option<Way>> {
        let Some(peer) = self.peers.get(&id) else { return Vec::new() };
        (0..peer.extra_lanes.count()).map(|lane| self.lane_way(peer, LaneId(lane))).collect()
    }

    fn lane_way(&self, peer: &Peer, lane: LaneId) -> Option<Way> {
        let (first, lanes) = (peer.way?, &peer.extra_lanes);
        if let Some(endpoint) = first.direct() {
            let port = lanes.ports().of(lane).unwrap_or(endpoint.port());
            return (port != 0).then(|| SocketAddr::new(endpoint.ip(), port).into());
        }
        let is_bound = self.relays.has_lane(first.first_hop(), lane.served_by(lanes.own()));
        (is_bound && self.has_lanes_on(peer, first)).then(|| first.to_lane(lane.served_by(lanes.theirs())))
    }

    /// Has the local lanes bound at a peer's relay that the peer's sessions need there, after a change of the peer's lanes or path.
    pub(super) fn update_relay_lanes(&mut self, id: PeerId) {
        let wanted = self.peers.get(&id).and_then(|peer| {
            let relay = peer.way.filter(|way| way.is_relayed() && peer.has_relayed_lanes)?.first_hop();
            let own = peer.extra_lanes.own();
            (own > 1).then_some((relay, own))
        });
        let former = match wanted {
            Some(wanted) => self.relay_lanes.insert(id, wanted),
            None => self.relay_lanes.remove(&id),
        };
        if former == wanted {
            return;
        }
        let mut lanes = SortedMap::new();
        for (relay, own) in self.relay_lanes.values() {
            let most = lanes.entry(*relay).or_insert(1);
            *most = (*own).max(*most);
        }
        self.relays.set_lanes(lanes, &mut self.entropy, self.now);
        self.relays_turn();
    }

    /// Probes the unproven lanes of all peers that are reached through the relay at this address, because lanes of this node were bound there or lost.
    pub(super) fn handle_relay_lanes(&mut self, relay: SocketAddr) {
        let at = self.relay_lanes.iter().filter(|(_, (place, _))| *place == relay).map(|(id, _)| *id);
        for id in at.collect::<Vec<_>>() {
            let Some(peer) = self.peers.get_mut(&id) else { continue };
            peer.extra_lanes.probe_again(self.now);
            if let Some((session, _)) = peer.sessions.last().copied() {
                self.probe_lanes(id, session, self.now);
            }
        }
    }
}

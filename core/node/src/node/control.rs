//! Control messages between Taut nodes, on a session's control pair (protocol.md 1.3, 1.4, 5.1). A native peer has no such pair and receives none of them.

use std::net::SocketAddr;

use taut_base::{Entropy, LaneId, PeerId, SessionId, Time};
use taut_path::Way;
use taut_tunnel::Role;
use taut_wire::control::{Abilities, ControlMessage, Lanes, Suite, Suites};

use super::Node;
use crate::contract::{Clocks, ToLane};
use crate::event::NodeEvent;
use crate::extra_lanes::{LaneChange, LaneOutput, LanePorts};
use crate::negotiation::{Negotiation, NegotiationOutput};
use crate::peer::Peer;

impl<E: Entropy> Node<E> {
    /// Sets the suites of sessions that are made from now on; [`Suites::STOCK`] before. A suite is used where both peers have it.
    pub fn set_suites(&mut self, suites: Suites) {
        self.suites = suites;
    }

    /// Sets the lanes of this node; [`Lanes::ONE`] before. Call it before the first peer is added, because all lanes are told of all peers.
    pub fn set_lanes(&mut self, lanes: Lanes) {
        self.lanes = lanes;
    }

    /// Returns true if sessions of a peer have extra lanes: then all local lanes should read the host's packets.
    pub fn has_extra_lanes(&self) -> bool {
        !self.multi_lane.is_empty()
    }

    /// Starts the negotiation of a session that is in use now.
    pub(super) fn start_negotiation(&mut self, id: PeerId, session: SessionId, role: Role, clocks: Clocks) {
        let Some(peer) = self.peers.get_mut(&id).filter(|peer| !peer.native) else { return };
        // A node with several lanes names them by an offer, because the peer may have no reason to send one. A node that knows extra lanes of the peer
        // verifies by an offer that they still exist.
        let has_extra_lanes = self.lanes != Lanes::ONE || peer.extra_lanes.count() > 1;
        let offers = (role == Role::Initiator && self.suites != Suites::STOCK) || has_extra_lanes;
        peer.negotiation = Some(Negotiation::new(session, offers, clocks.now));
        self.continue_negotiation(id, clocks);
    }

    /// Sends the messages of a negotiation that are due, and probes the extra lanes.
    pub(super) fn continue_negotiation(&mut self, id: PeerId, clocks: Clocks) {
        let Some(negotiation) = self.peers.get_mut(&id).and_then(|peer| peer.negotiation.as_mut()) else { return };
        let session = negotiation.session();
        negotiation.handle_timeout(&mut self.entropy, clocks.now);
        while let Some(output) = negotiation.poll_output() {
            let message = match output {
                NegotiationOutput::Probe(id) => ControlMessage::Probe { id },
                NegotiationOutput::Offer => {
                    ControlMessage::Offer { lanes: self.lanes, suites: self.suites, abilities: Abilities::OURS }
                }
            };
            let lane = LaneId::FIRST;
            self.outputs.tell(lane, ToLane::Control { peer: id, session, lane, way: None, message });
        }
        if let Some(lanes) = self.peers.get_mut(&id).and_then(|peer| peer.extra_lanes.deferred(clocks.now)) {
            self.learn_lanes(id, session, lanes, clocks);
        }
        self.probe_lanes(id, session, clocks.now);
    }

    /// Probes the extra lanes that are due, at the peer's address. While the peer is reached through a relay, no probe is sent.
    pub(super) fn probe_lanes(&mut self, id: PeerId, session: SessionId, now: Time) {
        let Some(Peer { extra_lanes, way, paths: Some(paths), .. }) = self.peers.get_mut(&id) else { return };
        let (ports, first, budget) = (extra_lanes.ports(), way.and_then(|way| way.direct()), &mut self.budget);
        let may = |lane| lane_endpoint(lane, ports, first).is_none_or(|place| paths.grant_lane(place, budget, now));
        extra_lanes.handle_timeout(&mut self.entropy, now, may);
        self.drain_lanes(id, session);
    }

    /// Carries out the outputs of a peer's extra lanes.
    fn drain_lanes(&mut self, id: PeerId, session: SessionId) {
        let Some(Peer { extra_lanes, way, .. }) = self.peers.get_mut(&id) else { return };
        let (ports, first) = (extra_lanes.ports(), way.and_then(|way| way.direct()));
        while let Some(output) = extra_lanes.poll_output() {
            match output {
                LaneOutput::Probe { lane, probe } => {
                    if let Some(endpoint) = lane_endpoint(lane, ports, first) {
                        let (way, message) = (Some(endpoint.into()), ControlMessage::Probe { id: probe });
                        let ask = ToLane::Control { peer: id, session, lane, way, message };
                        self.outputs.tell(lane.served_by(self.lanes.count()), ask);
                    }
                }
                LaneOutput::Open { own, lanes, barrier } => {
                    self.outputs.tell(own, ToLane::OpenLanes { peer: id, lanes, barrier });
                }
            }
        }
    }

    fn tell_first(&mut self, peer: PeerId, session: SessionId, way: Option<Way>, message: ControlMessage) {
        self.tell(LaneId::FIRST, ToLane::Control { peer, session, lane: LaneId::FIRST, way, message });
    }

    /// Takes an authentic control message.
    pub(super) fn handle_control(
        &mut self,
        id: PeerId,
        session: SessionId,
        lane: LaneId,
        source: Way,
        message: ControlMessage,
        clocks: Clocks,
    ) {
        let Some(peer) = self.peers.get_mut(&id).filter(|peer| !peer.native) else { return };
        match message {
            ControlMessage::Answer { id: probe, .. } if lane != LaneId::FIRST => {
                // Extra lanes do not use relays.
                let Some(endpoint) = source.direct() else { return };
                peer.extra_lanes.handle_answer(lane, probe, endpoint, &mut self.entropy, clocks.now);
                self.drain_lanes(id, session);
            }
            ControlMessage::Answer { id: probe, seen } => {
                if let Some(own) = peer.extra_lanes.waits_for(probe) {
                    return self.tell(own, ToLane::Passed { peer: id, barrier: probe });
                }
                let negotiation = peer.negotiation.as_mut().filter(|known| known.session() == session);
                match negotiation.and_then(|negotiation| negotiation.handle_answer(probe, clocks.now)) {
                    Some(round_trip) => {
                        peer.round_trip = Some(round_trip);
                        self.tell_all(|| ToLane::SetRoundTrip { peer: id, round_trip });
                    }
                    None => self.handle_path_answer(id, source, probe, seen),
                }
            }
            ControlMessage::Offer { lanes, suites, abilities } => {
                let better = self.suites.better_than_stock(suites);
                let suite = better.unwrap_or(Suite::ChaCha20Poly1305);
                let message = ControlMessage::Accept { lanes: self.lanes, suite, abilities: Abilities::OURS };
                // An accept that is longer than the offer goes the way of data: no address receives more than it sent before it has proven itself (law 16).
                let longer = self.lanes.count() > lanes.count();
                self.learn_lanes(id, session, lanes, clocks);
                self.use_suite(id, session, suite, abilities);
                self.tell_first(id, session, Some(source).filter(|_| !longer), message);
                self.probe_lanes(id, session, clocks.now);
            }
            ControlMessage::Accept { lanes, suite, abilities } => {
                let offered = self.suites.has(suite);
                let negotiation = peer.negotiation.as_mut().filter(|known| offered && known.session() == session);
                if negotiation.is_some_and(Negotiation::handle_accept) {
                    self.learn_lanes(id, session, lanes, clocks);
                    self.use_suite(id, session, suite, abilities);
                    self.probe_lanes(id, session, clocks.now);
                }
            }
            ControlMessage::Endpoints(endpoints) => self.handle_endpoints(id, &endpoints),
            ControlMessage::Search(search) => self.handle_search(id, &search),
            // Lanes handle these messages themselves.
            ControlMessage::Probe { .. } | ControlMessage::Receipt { .. } => {}
        }
    }

    /// Seals data under this suite. Both ends derived the pairs of all their suites when the session began, so this end may seal as soon as it knows that
    /// the peer has the suite.
    fn use_suite(&mut self, id: PeerId, session: SessionId, suite: Suite, abilities: Abilities) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.agree(session, suite);
        self.tell_all(|| ToLane::UseSuite { peer: id, session, suite, abilities });
        self.outputs.note(NodeEvent::SuiteChosen { peer: id, suite });
    }

    /// Takes the lanes that the peer names. The session gets as many lanes as the node with more lanes has.
    fn learn_lanes(&mut self, id: PeerId, session: SessionId, theirs: Lanes, clocks: Clocks) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let former = peer.extra_lanes.in_use();
        let change = peer.extra_lanes.learn(self.lanes.count(), theirs, clocks.now);
        let lanes = peer.extra_lanes.count();
        if change != LaneChange::Known && former > 1 {
            self.tell_all(|| ToLane::CloseLanes(id));
        }
        if change == LaneChange::TooSoon {
            return;
        }
        if lanes > 1 {
            self.multi_lane.insert(id);
        } else {
            self.multi_lane.remove(&id);
        }
        self.give_lanes(id, session, lanes);
    }
}

/// Returns the endpoint of an extra lane of a peer whose first lane is at `first`. Returns `None` while the peer is reached through a relay, and for a lane
/// that the peer names with port 0 because it cannot be reached.
fn lane_endpoint(lane: LaneId, ports: LanePorts, first: Option<SocketAddr>) -> Option<SocketAddr> {
    let endpoint = first.map(|first| SocketAddr::new(first.ip(), ports.of(lane).unwrap_or(first.port())));
    endpoint.filter(|endpoint| endpoint.port() != 0)
}

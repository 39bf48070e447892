//! Control messages between Taut nodes, on a session's control pair (protocol.md 1.3, 1.4, 5.1). A native peer has no such pair and receives none of them.

use taut_base::{Entropy, LaneId, PeerId, SessionId, Time};
use taut_path::Way;
use taut_tunnel::Role;
use taut_wire::control::{Abilities, ControlMessage, Lanes, Suite, Suites};

use super::Node;
use crate::contract::{Clocks, ToLane};
use crate::event::NodeEvent;
use crate::extra_lanes::{LaneChange, LaneOutput, ProbeRoom};
use crate::negotiation::{Negotiation, NegotiationOutput};
use crate::peer::Peer;

impl<E: Entropy> Node<E> {
    /// Sets the suites of sessions that are made from now on; [`Suites::STOCK`] before. A suite is used where both peers have it.
    pub fn set_suites(&mut self, suites: Suites) {
        self.suites = suites;
    }

    /// Starts the negotiation of a session that is in use now.
    pub(super) fn start_negotiation(&mut self, id: PeerId, session: SessionId, role: Role, clocks: Clocks) {
        let lanes = self.lanes_of(id, session);
        let Some(peer) = self.peers.get_mut(&id).filter(|peer| !peer.native) else { return };
        // The initiator's offer and its answer tell each end the other's abilities. A node with several lanes names them by an offer, because the peer may
        // have no reason to send one. A node that knows extra lanes of the peer verifies by an offer that they still exist.
        let has_extra_lanes = lanes != Lanes::ONE || peer.extra_lanes.count() > 1;
        let offers = role == Role::Initiator || has_extra_lanes;
        peer.negotiation = Some(Box::new(Negotiation::new(session, offers, clocks.now)));
        self.continue_negotiation(id, clocks);
    }

    /// Sends the messages of a negotiation that are due, and probes the extra lanes.
    pub(super) fn continue_negotiation(&mut self, id: PeerId, clocks: Clocks) {
        let Some(negotiation) = self.peers.get_mut(&id).and_then(|peer| peer.negotiation.as_mut()) else { return };
        let session = negotiation.session();
        let lanes = self.lanes_of(id, session);
        let Some(negotiation) = self.peers.get_mut(&id).and_then(|peer| peer.negotiation.as_mut()) else { return };
        negotiation.handle_timeout(&mut self.entropy, clocks.now);
        while let Some(output) = negotiation.poll_output() {
            let message = match output {
                NegotiationOutput::Probe(id) => ControlMessage::Probe { id },
                NegotiationOutput::Offer => {
                    ControlMessage::Offer { lanes, suites: self.suites, abilities: Abilities::OURS }
                }
            };
            let lane = LaneId::FIRST;
            self.outputs.tell(lane, ToLane::Control { peer: id, session, lane, way: None, message });
        }
        self.learn_deferred_lanes(id, clocks);
        self.probe_lanes(id, session, clocks.now);
    }

    /// Follows a peer's change of lanes that came too soon after another one, once it may. It counts for the newest session with this node's present lanes. If
    /// there is none, a new session is on its way, and the peer names its lanes again there.
    fn learn_deferred_lanes(&mut self, id: PeerId, clocks: Clocks) {
        let own = self.lanes_for(id).count();
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Some(lanes) = peer.extra_lanes.deferred(clocks.now) else { return };
        match peer.newest_with(own) {
            Some(session) => self.learn_lanes(id, session, lanes, clocks),
            None => peer.extra_lanes.void_deferred(),
        }
    }

    /// Probes the extra lanes that are due, at the peer's address or through its relay.
    pub(super) fn probe_lanes(&mut self, id: PeerId, session: SessionId, now: Time) {
        let ways = self.lane_ways(id);
        let Some(Peer { extra_lanes, paths: Some(paths), way, .. }) = self.peers.get_mut(&id).map(Box::as_mut) else {
            return;
        };
        let (budget, is_relayed) = (&mut self.budget, way.is_some_and(|way| way.is_relayed()));
        let room = |lane: LaneId| match ways.get(usize::from(lane.0)).copied().flatten() {
            Some(way) if paths.grant_lane(way, budget, now) => ProbeRoom::Send,
            Some(_) => ProbeRoom::Later,
            None if is_relayed => ProbeRoom::Nowhere,
            // Nothing leaves, as if the port did not answer.
            None => ProbeRoom::Send,
        };
        extra_lanes.handle_timeout(&mut self.entropy, now, room);
        self.drain_lanes(id, session);
    }

    /// Carries out the outputs of a peer's extra lanes.
    fn drain_lanes(&mut self, id: PeerId, session: SessionId) {
        let ways = self.lane_ways(id);
        let Some(Peer { extra_lanes, .. }) = self.peers.get_mut(&id).map(Box::as_mut) else { return };
        let own = extra_lanes.own();
        while let Some(output) = extra_lanes.poll_output() {
            match output {
                LaneOutput::Probe { lane, probe } => {
                    if let Some(way) = ways.get(usize::from(lane.0)).copied().flatten() {
                        let message = ControlMessage::Probe { id: probe };
                        let ask = ToLane::Control { peer: id, session, lane, way: Some(way), message };
                        self.outputs.tell(lane.served_by(own), ask);
                    }
                }
                LaneOutput::Open { own: to, lanes, barrier } => {
                    self.outputs.tell(to, ToLane::OpenLanes { peer: id, lanes, whole: own == 1, barrier });
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
                // An answer proves the place that was probed, and no other: its source may be forged, and data for it would hit a stranger (fault D10).
                let asked = self.lane_ways(id).get(usize::from(lane.0)).copied().flatten();
                if asked == Some(source)
                    && let Some(peer) = self.peers.get_mut(&id)
                {
                    peer.extra_lanes.handle_answer(lane, probe, source, &mut self.entropy, clocks.now);
                    self.drain_lanes(id, session);
                }
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
                    None => self.handle_path_answer(id, source.to_lane(LaneId::FIRST), probe, seen),
                }
            }
            ControlMessage::Offer { lanes, suites, abilities } => {
                let better = self.suites.better_than_stock(suites);
                let suite = better.unwrap_or(Suite::ChaCha20Poly1305);
                let own = self.lanes_of(id, session);
                let message = ControlMessage::Accept { lanes: own, suite, abilities: Abilities::OURS };
                // An accept that is longer than the offer goes the way of data: no address receives more than it sent before it has proven itself (law 16).
                let longer = own.count() > lanes.count();
                self.learn_lanes(id, session, lanes, clocks);
                self.use_suite(id, session, suite, abilities);
                self.tell_first(id, session, Some(source).filter(|_| !longer), message);
                self.probe_lanes(id, session, clocks.now);
            }
            ControlMessage::Accept { lanes, suite, abilities } => {
                let offered = self.suites.has(suite);
                let negotiation = peer.negotiation.as_mut().filter(|known| offered && known.session() == session);
                if negotiation.is_some_and(|negotiation| negotiation.handle_accept()) {
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
        peer.agree(session, suite, abilities);
        peer.has_relayed_lanes = abilities.has_relayed_lanes();
        if let Some(paths) = &mut peer.paths {
            paths.set_takes_pieces(abilities.takes_pieces());
        }
        self.tell_all(|| ToLane::UseSuite { peer: id, session, suite, abilities });
        self.outputs.note(NodeEvent::SuiteChosen { peer: id, suite });
        self.update_relay_lanes(id);
    }

    /// Takes the lanes that the peer names. The session gets as many lanes as the node with more lanes has.
    /// If this node's own lanes have changed since the session was made, nothing is learned: a new session is on its way.
    fn learn_lanes(&mut self, id: PeerId, session: SessionId, theirs: Lanes, clocks: Clocks) {
        let own = self.lanes_for(id).count();
        let Some(peer) = self.peers.get_mut(&id).filter(|peer| peer.has_own(session, own)) else { return };
        let former = peer.extra_lanes.in_use();
        let change = peer.extra_lanes.learn(own, theirs, clocks.now);
        let lanes = peer.extra_lanes.count();
        if change != LaneChange::Known && former > 1 {
            self.close_lanes(id);
        }
        if change == LaneChange::TooSoon {
            return;
        }
        self.spread_peers.set(id, lanes > 1 && own > 1, clocks.now);
        self.update_relay_lanes(id);
        self.give_lanes(id, session, lanes);
    }
}

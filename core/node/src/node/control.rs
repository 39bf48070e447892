//! What Taut nodes say to each other on a session's control pair (protocol.md 1.3, 1.4, 5.1). A native peer has no such pair: nothing here
//! reaches it.

use std::net::SocketAddr;

use taut_base::{Entropy, LaneId, PeerId, SessionId, Time};
use taut_path::Way;
use taut_tunnel::Role;
use taut_wire::control::{Abilities, ControlMessage, Lanes, Suite, Suites};

use super::Node;
use crate::contract::{Clocks, ToLane};
use crate::event::NodeEvent;
use crate::extra_lanes::{LaneOutput, Learned, Ports};
use crate::peer::Peer;
use crate::talk::{Question, Talk};

impl<E: Entropy> Node<E> {
    /// What data may be sealed with in sessions made from now on, where the peer is ready for it, too. [`Suites::STOCK`] before.
    pub fn set_suites(&mut self, suites: Suites) {
        self.suites = suites;
    }

    /// The lanes of this node, [`Lanes::ONE`] before. To be said before the first peer: all lanes are told of all peers.
    pub fn set_lanes(&mut self, lanes: Lanes) {
        self.lanes = lanes;
    }

    /// Whether sessions of some peer have lanes beyond the first: then it is worth it that all of ours read what the host sends.
    pub fn is_spread(&self) -> bool {
        !self.spread.is_empty()
    }

    /// A session is in use now: what there is to ask is asked at once.
    pub(super) fn start_talk(&mut self, id: PeerId, session: SessionId, role: Role, clocks: Clocks) {
        let Some(peer) = self.peers.get_mut(&id).filter(|peer| !peer.native) else { return };
        // Whoever has more lanes than one says so: the other may have nothing to offer. Whoever thinks that the other has some asks whether that holds.
        let spread = self.lanes != Lanes::ONE || peer.further.count() > 1;
        let offers = (role == Role::Initiator && self.suites != Suites::STOCK) || spread;
        peer.talk = Some(Talk::new(session, offers, clocks.now));
        self.continue_talk(id, clocks);
    }

    pub(super) fn continue_talk(&mut self, id: PeerId, clocks: Clocks) {
        let Some(talk) = self.peers.get_mut(&id).and_then(|peer| peer.talk.as_mut()) else { return };
        let session = talk.session();
        talk.handle_timeout(&mut self.entropy, clocks.now);
        while let Some(question) = talk.poll_output() {
            let message = match question {
                Question::Probe(id) => ControlMessage::Probe { id },
                Question::Offer => {
                    ControlMessage::Offer { lanes: self.lanes, suites: self.suites, abilities: Abilities::OURS }
                }
            };
            let lane = LaneId::FIRST;
            self.outputs.tell(lane, ToLane::Control { peer: id, session, lane, way: None, message });
        }
        if let Some(lanes) = self.peers.get_mut(&id).and_then(|peer| peer.further.take_later(clocks.now)) {
            self.learn_lanes(id, session, lanes, clocks);
        }
        self.probe_lanes(id, session, clocks.now);
    }

    /// Asks on the further lanes, at the address where the peer is, if no relay is between.
    pub(super) fn probe_lanes(&mut self, id: PeerId, session: SessionId, now: Time) {
        let Some(Peer { further, way, paths: Some(paths), .. }) = self.peers.get_mut(&id) else { return };
        let (ports, first, budget) = (further.ports(), way.and_then(|way| way.direct()), &mut self.budget);
        let may = |lane| lane_endpoint(lane, ports, first).is_none_or(|place| paths.grant_lane(place, budget, now));
        further.handle_timeout(&mut self.entropy, now, may);
        self.drain_lanes(id, session);
    }

    /// Carries out what the further lanes of a peer want.
    fn drain_lanes(&mut self, id: PeerId, session: SessionId) {
        let Some(Peer { further, way, .. }) = self.peers.get_mut(&id) else { return };
        let (ports, first) = (further.ports(), way.and_then(|way| way.direct()));
        while let Some(output) = further.poll_output() {
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

    /// A control message that was authentic.
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
                // Further lanes go without a relay.
                let Some(endpoint) = source.direct() else { return };
                peer.further.handle_answer(lane, probe, endpoint, &mut self.entropy, clocks.now);
                self.drain_lanes(id, session);
            }
            ControlMessage::Answer { id: probe, seen } => {
                if let Some(own) = peer.further.waits_for(probe) {
                    return self.tell(own, ToLane::Passed { peer: id, barrier: probe });
                }
                let talk = peer.talk.as_mut().filter(|talk| talk.session() == session);
                match talk.and_then(|talk| talk.answered(probe, clocks.now)) {
                    Some(round_trip) => {
                        peer.round_trip = Some(round_trip);
                        self.tell_all(|| ToLane::SetRoundTrip { peer: id, round_trip });
                    }
                    None => self.answered(id, source, probe, seen),
                }
            }
            ControlMessage::Offer { lanes, suites, abilities } => {
                let better = self.suites.better_than_stock(suites);
                let suite = better.unwrap_or(Suite::ChaCha20Poly1305);
                let message = ControlMessage::Accept { lanes: self.lanes, suite, abilities: Abilities::OURS };
                // Where nobody has proven to be, no more is sent than came (law 16): an answer that is longer than its question goes where data goes.
                let longer = self.lanes.count() > lanes.count();
                self.learn_lanes(id, session, lanes, clocks);
                self.use_suite(id, session, suite, abilities);
                self.tell_first(id, session, Some(source).filter(|_| !longer), message);
                self.probe_lanes(id, session, clocks.now);
            }
            ControlMessage::Accept { lanes, suite, abilities } => {
                let offered = self.suites.has(suite);
                let talk = peer.talk.as_mut().filter(|talk| offered && talk.session() == session);
                if talk.is_some_and(Talk::accepted) {
                    self.learn_lanes(id, session, lanes, clocks);
                    self.use_suite(id, session, suite, abilities);
                    self.probe_lanes(id, session, clocks.now);
                }
            }
            ControlMessage::Endpoints(endpoints) => self.said(id, &endpoints),
            ControlMessage::Search(search) => self.asked_to_search(id, &search),
            // These end in the lane.
            ControlMessage::Probe { .. } | ControlMessage::Receipt { .. } => {}
        }
    }

    /// Both ends made the pair of every suite of theirs when the session began, so either may seal with it as soon as it knows of the other.
    fn use_suite(&mut self, id: PeerId, session: SessionId, suite: Suite, abilities: Abilities) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.agree(session, suite);
        self.tell_all(|| ToLane::UseSuite { peer: id, session, suite, abilities });
        self.outputs.note(NodeEvent::SuiteChosen { peer: id, suite });
    }

    /// The peer says which lanes it has: the session gets as many as the one of us that has more, and they are looked for there.
    fn learn_lanes(&mut self, id: PeerId, session: SessionId, theirs: Lanes, clocks: Clocks) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let former = peer.further.in_use();
        let learned = peer.further.learn(self.lanes.count(), theirs, clocks.now);
        let lanes = peer.further.count();
        if learned != Learned::Known && former > 1 {
            self.tell_all(|| ToLane::CloseLanes(id));
        }
        if learned == Learned::TooSoon {
            return;
        }
        if lanes > 1 {
            self.spread.insert(id);
        } else {
            self.spread.remove(&id);
        }
        self.give_lanes(id, session, lanes);
    }
}

/// Returns the endpoint of a further lane of a peer whose first lane is at `first`; `None` while the peer is reached through a relay, and for a lane that
/// the peer names with port 0 because it cannot be reached.
fn lane_endpoint(lane: LaneId, ports: Ports, first: Option<SocketAddr>) -> Option<SocketAddr> {
    let endpoint = first.map(|first| SocketAddr::new(first.ip(), ports.of(lane).unwrap_or(first.port())));
    endpoint.filter(|endpoint| endpoint.port() != 0)
}

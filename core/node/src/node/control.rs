//! What Taut nodes say to each other on a session's control pair (protocol.md 1.3, 1.4, 5.1). A native peer has no such pair: nothing here
//! reaches it.

use std::net::SocketAddr;

use taut_base::{Entropy, PeerId, SessionId};
use taut_tunnel::Role;
use taut_wire::control::{Abilities, Control, Suite, Suites};

use super::Node;
use crate::contract::{Clocks, ToLane};
use crate::talk::Talk;

/// Lanes of this node.
const LANES: u8 = 1;

impl<E: Entropy> Node<E> {
    /// What data may be sealed with in sessions made from now on, where the peer is ready for it, too. [`Suites::STOCK`] before.
    pub fn set_suites(&mut self, suites: Suites) {
        self.suites = suites;
    }

    /// A session is in use now: what there is to ask is asked at once.
    pub(super) fn start_talk(&mut self, id: PeerId, session: SessionId, role: Role, clocks: Clocks) {
        let Some(peer) = self.peers.get_mut(&id).filter(|peer| !peer.native) else { return };
        let offers = role == Role::Initiator && self.suites != Suites::STOCK;
        peer.talk = Some(Talk::new(session, offers, clocks.now));
        self.continue_talk(id, clocks);
    }

    pub(super) fn continue_talk(&mut self, id: PeerId, clocks: Clocks) {
        let Some(talk) = self.peers.get_mut(&id).and_then(|peer| peer.talk.as_mut()) else { return };
        let session = talk.session();
        let questions = talk.handle_timeout(&mut self.entropy, clocks.now);
        let probe = questions.probe.map(|id| Control::Probe { id });
        let offer =
            questions.offer.then_some(Control::Offer { lanes: LANES, suites: self.suites, abilities: Abilities::OURS });
        for message in [probe, offer].into_iter().flatten() {
            self.commands.push_back(ToLane::Control { peer: id, session, destination: None, message });
        }
    }

    /// A control message that was authentic.
    pub(super) fn handle_control(
        &mut self,
        id: PeerId,
        session: SessionId,
        source: SocketAddr,
        message: Control,
        clocks: Clocks,
    ) {
        let Some(peer) = self.peers.get_mut(&id).filter(|peer| !peer.native) else { return };
        match message {
            Control::Answer { id: probe, .. } => {
                let talk = peer.talk.as_mut().filter(|talk| talk.session() == session);
                if let Some(round_trip) = talk.and_then(|talk| talk.answered(probe, clocks.now)) {
                    peer.round_trip = Some(round_trip);
                    self.commands.push_back(ToLane::SetRoundTrip { peer: id, round_trip });
                }
            }
            Control::Offer { suites, abilities, .. } => {
                let better = self.suites.better_than_stock(suites);
                let suite = better.unwrap_or(Suite::ChaCha20Poly1305);
                let message = Control::Accept { lanes: LANES, suite, abilities: Abilities::OURS };
                self.use_suite(id, session, suite, abilities);
                self.commands.push_back(ToLane::Control { peer: id, session, destination: Some(source), message });
            }
            Control::Accept { suite, abilities, .. } => {
                let offered = self.suites.has(suite);
                let talk = peer.talk.as_mut().filter(|talk| offered && talk.session() == session);
                if talk.is_some_and(Talk::accepted) {
                    self.use_suite(id, session, suite, abilities);
                }
            }
            // These end in the lane.
            Control::Probe { .. } | Control::Receipt { .. } => {}
        }
    }

    /// Both ends made the pair of every suite of theirs when the session began, so either may seal with it as soon as it knows of the other.
    fn use_suite(&mut self, id: PeerId, session: SessionId, suite: Suite, abilities: Abilities) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.agreed = Some((session, suite));
        self.commands.push_back(ToLane::UseSuite { peer: id, session, suite, abilities });
    }
}

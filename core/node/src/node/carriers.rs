//! The routers of subnets: which peers answer, and what follows when a prefix moves to another router.

use std::time::Duration;

use taut_base::{Entropy, PeerId, Prefix, Time};

use super::Node;
use crate::contract::Clocks;
use crate::event::NodeEvent;
use crate::peer::Peer;
use crate::subnets::Moved;

/// Time without an answer to a handshake after which a router counts as failed, 400 ms: the first initiation, and a second one after 250 ms.
const UNANSWERED: Duration = Duration::from_millis(400);

impl Peer {
    /// Returns whether packets to the peer arrive; `None` if nothing is known of it.
    fn answers(&self, now: Time) -> Option<bool> {
        if self.since().is_none() {
            let is_late = self.attempt.is_some() && now >= self.asked + UNANSWERED;
            return (is_late || self.is_silent).then_some(false);
        }
        Some(!self.paths.as_ref().is_some_and(|paths| paths.view().silent))
    }
}

impl<E: Entropy> Node<E> {
    /// Returns the prefixes behind peers that are in use, each with the peer that carries it.
    pub fn carriers(&self) -> impl Iterator<Item = (Prefix, PeerId)> {
        self.subnets.carriers()
    }

    /// Has another router carry what a router that failed carried, and takes a recovered one back. Called after every input that may change that.
    pub(super) fn choose_carriers(&mut self) {
        if !self.subnets.has_choice() {
            return;
        }
        let (peers, now) = (&self.peers, self.now);
        let moved = self.subnets.choose(|id| peers.get(&id).and_then(|peer| peer.answers(now)), now);
        if moved.is_empty() {
            return;
        }
        self.tell_routes();
        for Moved { prefix, from, to } in moved {
            self.outputs.note(NodeEvent::RouteMoved { prefix, from, to });
        }
    }

    /// Starts handshakes with routers that failed and have no session.
    pub(super) fn ask_routers(&mut self, clocks: Clocks) {
        for id in self.subnets.to_ask(clocks.now) {
            if self.peers.get(&id).is_some_and(|peer| peer.since().is_none()) {
                self.start_handshake(id, clocks);
            }
        }
    }
}

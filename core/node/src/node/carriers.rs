//! The routers of subnets: which peers answer, and what follows when a prefix moves to another router.

use std::time::Duration;

use taut_base::{Entropy, PeerId, Prefix, Time};
use taut_path::Paths;

use super::Node;
use crate::contract::Clocks;
use crate::event::NodeEvent;
use crate::peer::Peer;
use crate::subnets::{Moved, Sign};

/// Time without an answer to a handshake after which a router counts as failed, 400 ms: the first initiation, and a second one after 250 ms.
const UNANSWERED: Duration = Duration::from_millis(400);

impl Peer {
    /// Returns what the paths to the peer show.
    fn sign(&self, now: Time) -> Sign {
        if self.since().is_none() {
            let is_late = self.attempt.is_some() && now >= self.asked + UNANSWERED;
            return if is_late || self.is_silent { Sign::Bad } else { Sign::Unknown };
        }
        match self.paths.as_ref().map(Paths::view) {
            Some(view) if view.silent => Sign::Bad,
            Some(view) if view.suspected => Sign::Doubt(view.round_trip.unwrap_or_default()),
            view => Sign::Good(view.map_or(Time::ZERO, |view| view.since)),
        }
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
        let moved = self.subnets.choose(|id| peers.get(&id).map_or(Sign::Unknown, |peer| peer.sign(now)), now);
        for id in self.subnets.take_checks() {
            self.check_router(id);
        }
        if moved.is_empty() {
            return;
        }
        self.tell_routes();
        for Moved { prefix, from, to } in moved {
            self.outputs.note(NodeEvent::RouteMoved { prefix, from, to });
        }
    }

    /// Asks a router for an answer: by probes on the path to it, or by a handshake.
    fn check_router(&mut self, id: PeerId) {
        let clocks = Clocks { now: self.now, wall: self.wall };
        let Some(peer) = self.peers.get_mut(&id) else { return };
        match &mut peer.paths {
            Some(paths) if peer.sessions.last().is_some() => {
                paths.handle_suspicion(clocks.now);
                self.steer(id);
            }
            _ => self.start_handshake(id, clocks),
        }
    }

    /// Starts handshakes with routers that failed and have no session.
    pub(super) fn ask_routers(&mut self, clocks: Clocks) {
        for id in self.subnets.take_due(clocks.now) {
            if self.peers.get(&id).is_some_and(|peer| peer.since().is_none()) {
                self.start_handshake(id, clocks);
            }
        }
    }
}

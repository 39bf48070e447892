//! The routers of subnets: which peers answer, and what follows when a prefix moves to another router.

use std::time::Duration;

use taut_base::{Entropy, PeerId, Prefix, Time};
use taut_path::{Paths, Way};

use super::Node;
use crate::contract::Clocks;
use crate::event::NodeEvent;
use crate::exits::{Rank, Wish};
use crate::peer::Peer;
use crate::routes::ExitRoute;
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
        match self.paths.as_deref().map(Paths::view) {
            Some(view) if view.silent => Sign::Bad,
            Some(view) if view.suspected => Sign::Doubt(view.round_trip.unwrap_or_default()),
            view => Sign::Good(view.and_then(|view| view.since).unwrap_or(Time::ZERO)),
        }
    }
}

impl Peer {
    /// Returns how good a way to the internet the peer is; `None` without a path that answers.
    fn rank(&self) -> Option<Rank> {
        let view = self.since().and(self.paths.as_deref()).map(Paths::view).filter(|view| !view.silent)?;
        let way = view.way?;
        Some(Rank { is_relayed: !matches!(way, Way::Direct(_)), round_trip: view.round_trip? })
    }
}

impl<E: Entropy> Node<E> {
    /// Sets the user's choice of an exit node, and whether this node is one, from the next map on. A map alone never makes a node send to an exit node, or accept packets of the
    /// internet from a peer (fault E17).
    pub fn set_exit(&mut self, wish: Wish, is_exit: bool) {
        self.naming.set_asks_exit(wish != Wish::None);
        self.exits.set_wish(wish);
        self.is_exit = is_exit;
    }

    /// Sets whether this node is an exit node, at once.
    pub fn set_is_exit(&mut self, is_exit: bool) {
        if std::mem::replace(&mut self.is_exit, is_exit) != is_exit {
            self.tell_routes();
        }
    }

    /// Returns the way to the public internet.
    pub fn exit(&self) -> ExitRoute {
        self.exits.route()
    }

    /// Returns true while the exit node is being chosen among several.
    pub fn is_choosing_exit(&self) -> bool {
        self.exits.is_choosing()
    }

    /// Chooses the exit node. Called after every input that may change it.
    fn choose_exit(&mut self) {
        if !self.exits.has_choice() {
            return;
        }
        let (peers, now) = (&self.peers, self.now);
        let sign = |id| peers.get(&id).map_or(Sign::Unknown, |peer| peer.sign(now));
        let moved = self.exits.choose(sign, |id| peers.get(&id).and_then(|peer| peer.rank()), now);
        for id in self.exits.take_checks() {
            self.check_router(id);
        }
        if moved {
            self.tell_routes();
        }
        self.note_exit();
    }

    /// Notes a change of the exit node for the log.
    pub(super) fn note_exit(&mut self) {
        if let Some((from, to)) = self.exits.take_change() {
            self.outputs.note(NodeEvent::ExitMoved { from, to });
        }
    }

    /// Returns the prefixes behind peers that are in use, each with the peer that carries it.
    pub fn carriers(&self) -> impl Iterator<Item = (Prefix, PeerId)> {
        self.subnets.carriers()
    }

    /// Has another router carry what a router that failed carried, and takes a recovered one back. Called after every input that may change that.
    pub(super) fn choose_carriers(&mut self) {
        self.choose_exit();
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
        let due = self.subnets.take_due(clocks.now);
        for id in due.into_iter().chain(self.exits.take_due(clocks.now)) {
            if self.peers.get(&id).is_some_and(|peer| peer.since().is_none()) {
                self.start_handshake(id, clocks);
            }
        }
    }
}

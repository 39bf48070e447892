//! The agent's commands.

use std::sync::Arc;
use std::time::Duration;

use taut_base::{LaneId, PeerId, SessionId, Time};
use taut_node::{FromLane, KnownPeer, Routes, ToLane};
use taut_path::{Choice, Way};
use taut_tunnel::{Role, Session};
use taut_wire::control::ControlMessage;

use super::LaneCore;
use crate::batch::SendBatch;
use crate::drops::DropReason;
use crate::piece_support::PieceSupport;

impl LaneCore {
    /// Carries out a command of the agent.
    pub fn command(&mut self, command: ToLane, out: &mut SendBatch, now: Time) {
        match command {
            ToLane::Routes(routes) => self.set_routes(routes),
            ToLane::AddPeer { peer, roams } => self.add_peer(peer, roams),
            ToLane::AddPeers(peers) => peers.iter().for_each(|known| self.add_known_peer(*known, out, now)),
            ToLane::SetEndpoint { peer, endpoint } => {
                // The user may have set it because the source address does not work (fault D19).
                self.locals.forget(&mut |known, _| known == endpoint);
                if let Some(known) = self.peers.get_mut(peer) {
                    known.first.way = Some(endpoint.into());
                    self.send_staged(peer, out, now);
                }
            }
            ToLane::SetPath { peer, choice } => self.set_path(peer, choice, out, now),
            ToLane::SetKeepalive { peer, interval } => {
                self.set_keepalive(peer, interval, now);
            }
            ToLane::ForgetLocal { place } => self.locals.leave(place, now),
            ToLane::ForgetLocals => self.locals.forget(&mut |_, _| true),
            ToLane::SetMtu(mtu) => self.mtu = usize::from(mtu),
            ToLane::SetChecker(checker) => self.ingress.set_checker(*checker),
            ToLane::RemovePeer(peer) => self.remove_peer(peer),
            ToLane::AddSession { peer, id, keys, born, proven } => {
                let lane = keys.lane;
                self.add_session(peer, lane, Session::new(id, *keys, born), proven, out, now);
            }
            ToLane::Confirm { peer, id } => self.confirm(peer, id, out, now),
            ToLane::OpenLanes { peer, lanes, whole, barrier } => self.open_lanes(peer, &lanes, whole, barrier),
            ToLane::Passed { peer, barrier } => {
                if let Some(known) = self.peers.get_mut(peer) {
                    known.selector.passed(barrier, now);
                    self.held.retry(peer);
                }
            }
            ToLane::CloseLanes(peer) => self.close_lanes(peer, now),
            ToLane::Send { way, message } => {
                let bytes = message.as_bytes();
                self.ingress.sent(bytes);
                if let Some(endpoint) = way.direct() {
                    self.locals.sent(endpoint, bytes);
                }
                self.send_unsealed(way, bytes, out);
            }
            ToLane::Datagram { destination, bytes } => {
                self.relays.sent(destination, bytes.as_bytes());
                self.send_unsealed(destination.into(), bytes.as_bytes(), out);
            }
            ToLane::Relays(addresses) => self.relays.set(&addresses),
            ToLane::Answer { client, message } => self.pass_answer(client, &message, now),
            ToLane::Control { peer, session, lane, way, message } => {
                if let ControlMessage::Probe { id } = message {
                    self.probe_sent(peer, way, id, now);
                }
                self.send_control(peer, session, lane, way, message, out);
            }
            ToLane::SizedProbe { peer, session, way, id, size } => {
                self.probe_sent(peer, Some(way), id, now);
                if let Some(peer) = self.peers.get_mut(peer) {
                    peer.send_sized_probe(session, way, id, size, out);
                }
            }
            ToLane::UseSuite { peer: id, session, suite, abilities } => {
                let Some(peer) = self.peers.get_mut(id) else { return };
                // A new session begins with what is known from the last one.
                peer.pieces = PieceSupport::Told { takes: abilities.takes_pieces() };
                for session in peer.lanes().filter_map(|lane| lane.keyring.session(session)) {
                    session.use_suite(suite, abilities);
                }
                // Long packets may have waited for this.
                self.send_staged(id, out, now);
                self.schedule(id);
            }
            ToLane::SetRoundTrip { peer, round_trip } => self.set_round_trip(peer, round_trip),
            // The thread carries these out.
            ToLane::Read(_) | ToLane::Drain | ToLane::Lanes(_) | ToLane::OpenSearch { .. } | ToLane::CloseSearch(_) => {
            }
            ToLane::End => self.end_sessions(),
            ToLane::GiveUp(peer) => {
                let waiting = self.staging.clear(peer);
                self.drops.add(DropReason::NoHandshake, waiting);
            }
        }
    }

    fn add_peer(&mut self, peer: PeerId, roams: bool) {
        self.peers.insert(peer, if self.by_peer { LaneId::FIRST } else { self.own }, roams);
    }

    fn set_keepalive(&mut self, peer: PeerId, interval: Option<Duration>, now: Time) {
        if let Some(known) = self.peers.get_mut(peer) {
            known.first.keyring.set_persistent(interval, now);
            self.schedule(peer);
        }
    }

    fn add_known_peer(&mut self, known: KnownPeer, out: &mut SendBatch, now: Time) {
        let KnownPeer { peer, roams, choice, round_trip } = known;
        self.add_peer(peer, roams);
        if let Some(choice) = choice {
            self.set_path(peer, choice, out, now);
        }
        if let Some(round_trip) = round_trip {
            self.set_round_trip(peer, round_trip);
        }
    }

    fn set_round_trip(&mut self, peer: PeerId, round_trip: Duration) {
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.set_round_trip(round_trip);
        }
    }

    /// Sends a control message on a lane of a peer's session, see [`crate::peers::LanePeer::send_control`].
    pub(crate) fn send_control(
        &mut self,
        id: PeerId,
        session: SessionId,
        lane: LaneId,
        way: Option<Way>,
        message: ControlMessage,
        out: &mut SendBatch,
    ) {
        if let Some(peer) = self.peers.get_mut(id) {
            peer.send_control(session, lane, way, message, out);
        }
    }

    /// Sends a datagram as it is: a handshake message, a frame to a relay, a STUN request.
    fn send_unsealed(&self, way: Way, bytes: &[u8], out: &mut SendBatch) {
        let appended = out.append(way, bytes.len(), |room| {
            room.copy_from_slice(bytes);
            Ok::<(), std::convert::Infallible>(())
        });
        if appended.is_none() {
            self.drops.add(DropReason::SendFailed, 1);
        }
    }

    fn set_routes(&mut self, routes: Arc<Routes>) {
        let filter = |routes: &Routes| routes.gate().map(|gate| Arc::as_ptr(&gate.filter));
        // The former routes are alive here, so no other filter has the address of theirs.
        let other_rules = filter(&self.routes) != filter(&routes);
        self.routes = routes;
        for peer in self.peers.values_mut() {
            peer.allowed_ends = None;
            if other_rules {
                peer.gate.rules_changed();
            }
        }
    }

    fn add_session(
        &mut self,
        id: PeerId,
        lane: LaneId,
        session: Session,
        proven: Option<Way>,
        out: &mut SendBatch,
        now: Time,
    ) {
        let initiated = session.role == Role::Initiator;
        let indices = session.indices();
        let Some(peer) = self.peers.get_mut(id) else { return };
        let roams = peer.path.roams();
        let Some(on) = peer.lane_or_new(lane) else { return };
        on.keyring.add(session);
        if let Some(way) = proven {
            if roams || on.way.is_none() {
                self.ingress.peer_moved(id, on.way, Some(way));
                on.way = Some(way);
            }
            if let Some(endpoint) = way.direct() {
                self.locals.prove(&mut peer.first.noted, endpoint);
            }
        }
        self.peers.add_indices(id, &indices);
        self.report_retired(id);
        if lane != LaneId::FIRST {
            return self.schedule(id);
        }
        // The responder may use the session only after a message from us on it: a packet that waited, or an empty one.
        if initiated && !self.send_staged(id, out, now) {
            self.send_keepalive(id, out, now);
        }
        self.schedule(id);
    }

    /// Uses a session from now on, because the peer used it on another lane.
    fn confirm(&mut self, id: PeerId, session: SessionId, out: &mut SendBatch, now: Time) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let mut on_first = false;
        for lane in peer.lanes() {
            on_first |= lane.keyring.confirm(session) && lane.lane == LaneId::FIRST;
        }
        self.report_retired(id);
        if on_first {
            self.send_staged(id, out, now);
        }
        self.schedule(id);
    }

    fn open_lanes(&mut self, id: PeerId, lanes: &[(LaneId, Way)], whole: bool, barrier: u64) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        if peer.path.is_single_lane() && !peer.selector.are_open() {
            return self.outbox.push(FromLane::Silent { peer: id });
        }
        peer.whole = whole;
        for (lane, way) in lanes {
            if let Some(lane) = peer.lane(*lane) {
                lane.way = Some(*way);
            }
        }
        let first = Some(LaneId::FIRST).filter(|first| *first == self.own);
        peer.selector.open(first.into_iter().chain(lanes.iter().map(|(lane, _)| *lane)).collect(), barrier);
        self.held.retry(id);
    }

    /// Ends the sessions of all peers on this lane, and tells the agent of each.
    fn end_sessions(&mut self) {
        for id in self.peers.ids() {
            let Some(peer) = self.peers.get_mut(id) else { continue };
            peer.lanes().for_each(|lane| lane.keyring.clear());
            self.report_retired(id);
        }
        self.outbox.push(FromLane::Ended);
    }

    fn close_lanes(&mut self, id: PeerId, now: Time) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        peer.selector.close(now);
        self.held.retry(id);
        peer.lanes().filter(|lane| lane.lane != LaneId::FIRST).for_each(|lane| lane.keyring.stop_expecting_answer());
    }

    /// Closes the extra lanes of a peer, if they are open, and has the agent look for them again later.
    pub(super) fn close_silent_lanes(&mut self, id: PeerId, now: Time) {
        if self.peers.get(id).is_some_and(|peer| peer.selector.are_open()) {
            self.close_lanes(id, now);
            self.outbox.push(FromLane::Silent { peer: id });
        }
    }

    /// Follows the agent's choice of a peer's path. On a lane of ours other than the first, the choice only decides whether extra lanes may be open.
    fn set_path(&mut self, id: PeerId, choice: Choice, out: &mut SendBatch, now: Time) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        if peer.path.chosen() != Some(choice.way) {
            peer.base_round_trip.forget();
        }
        if let Some(round_trip) = choice.round_trip {
            peer.set_round_trip(round_trip);
        }
        if peer.first.lane == LaneId::FIRST {
            let way = &mut peer.first.way;
            for former in peer.path.ways().chain(*way) {
                self.ingress.peer_moved(id, Some(former), None);
            }
            peer.path.choose(choice, way, now);
            for way in peer.path.ways().chain(*way) {
                self.ingress.peer_moved(id, None, Some(way));
            }
        } else {
            peer.path.choose_on_extra_lane(choice);
        }
        // While a path is judged, no lane opens or closes: a host that was busy for a moment would otherwise have flows change their lane twice, and if the
        // path is dead, that is known a few round trips later.
        peer.path.set_single_lane(choice.also.is_some());
        self.held.retry(id);
        self.send_staged(id, out, now);
        self.schedule(id);
    }

    fn remove_peer(&mut self, id: PeerId) {
        if self.peers.remove(id) {
            self.drops.add(DropReason::NoRoute, self.held.clear(id) + self.staging.clear(id));
            self.reassembly.clear(id);
            self.drops.add(DropReason::Incomplete, self.reassembly.take_dropped());
            self.ingress.peer_left(id);
        }
    }

    /// Holds no packet until [`Self::end_drain`], and releases those that are held: the agent waits until all that was read is sent.
    pub fn begin_drain(&mut self, now: Time) {
        self.held.set_suspended(true);
        self.held.peers().into_iter().for_each(|id| self.give_up_changes(id, now));
    }

    /// Tells the agent that all was sent, and lets packets be held again.
    pub fn end_drain(&mut self) {
        self.held.set_suspended(false);
        self.outbox.push(FromLane::Drained);
    }
}

//! The lanes of this node, and which of them each peer's sessions use.
//!
//! ```text
//! FromLane::Load ──▶ AutoLanes ── Run ─────▶ Output::Lanes ──▶ the agent starts or ends threads ──▶ lanes_run, lanes_refused
//!                              ── Spread ──▶ a handshake: the peer's new session has all lanes
//!                              ── Gather ──▶ a handshake: the peer's new session has one lane
//! ```
//! With a fixed number of lanes ([`Node::set_lanes`]) all sessions have all lanes, and nothing is decided.

use std::sync::Arc;

use taut_base::{Entropy, LaneId, PeerId, SessionId};
use taut_tunnel::Attempt;
use taut_wire::control::Lanes;

use super::Node;
use crate::auto_lanes::{AutoLanes, AutoOutput, AutoState, GatherReason};
use crate::contract::{Clocks, KnownPeer, LaneLoad, ToLane};
use crate::event::NodeEvent;
use crate::output::Output;
use crate::peer::Peer;

/// The reason why a peer has no more lanes than at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LanesLimit {
    /// All lanes of its session carry data.
    AllOpen,
    /// A native peer has one lane.
    Native,
    /// Its packets take a relay on which they have one lane: the relay or the peer is of an earlier release, or the relay is reached without UDP.
    Relayed,
    /// No probe of its extra ports was answered: a firewall or a NAT lets only the first port in, on one side or the other.
    PortsClosed,
    /// They are being opened.
    Opening,
    /// Both nodes were told to use one lane.
    Fixed,
    /// This process may use one core only.
    OneCore,
    /// More lanes were tried a short time ago, and could not be started or carried no more.
    NoGain,
    /// Its flows need no more.
    NotNeeded,
}

impl<E: Entropy> Node<E> {
    /// Sets the lanes of this node, which all sessions have; [`Lanes::ONE`] before. Call it before the first peer is added, because all lanes are told of all
    /// peers.
    pub fn set_lanes(&mut self, lanes: Lanes) {
        self.lanes = lanes;
    }

    /// Has the node ask for up to `most` lanes when the load of a peer needs them ([`Output::Lanes`]). It begins with one.
    pub fn set_auto_lanes(&mut self, most: u8) {
        self.auto = Some(AutoLanes::new(most));
    }

    /// Returns the most lanes of a node that opens them by load; `None` if their number is fixed.
    pub fn most_lanes(&self) -> Option<u8> {
        self.auto.as_ref().map(AutoLanes::most)
    }

    /// Returns the reason why a peer has no more lanes than at present; `None` for an unknown peer.
    pub fn lanes_limit(&self, id: PeerId) -> Option<LanesLimit> {
        let peer = self.peers.get(&id)?;
        let (open, all) = (peer.extra_lanes.in_use(), peer.extra_lanes.count());
        let auto = self.auto.as_ref().map(|auto| (auto.most(), auto.state(id)));
        Some(match (peer.way, auto) {
            _ if peer.native => LanesLimit::Native,
            (Some(way), _) if !self.has_lanes_on(peer, way) => LanesLimit::Relayed,
            _ if all > 1 && open == all => LanesLimit::AllOpen,
            (Some(way), _) if all > 1 && !way.is_relayed() && peer.extra_lanes.is_unanswered() => {
                LanesLimit::PortsClosed
            }
            _ if all > 1 => LanesLimit::Opening,
            (_, None) => LanesLimit::Fixed,
            (_, Some((most, _))) if most < 2 => LanesLimit::OneCore,
            (_, Some((_, AutoState::Blocked))) if peer.ports_closed => LanesLimit::PortsClosed,
            (_, Some((_, AutoState::Blocked))) => LanesLimit::NoGain,
            (_, Some((_, AutoState::Wanted))) => LanesLimit::Opening,
            (_, Some((_, AutoState::Quiet))) => LanesLimit::NotNeeded,
        })
    }

    /// Returns true if sessions of a peer have extra lanes that other threads serve: then all local lanes should read the host's packets. A change follows only
    /// when no packet of the peer is held any more because its lanes closed; [`Self::poll_timeout`] says when.
    pub fn has_extra_lanes(&self) -> bool {
        self.spread_peers.any()
    }

    /// Has all lanes close the extra lanes of a peer.
    pub(super) fn close_lanes(&mut self, id: PeerId) {
        self.spread_peers.lanes_close(id, self.now);
        self.tell_all(|| ToLane::CloseLanes(id));
    }

    /// Returns the lanes that new sessions with a peer have.
    pub(super) fn lanes_for(&self, id: PeerId) -> Lanes {
        let all = self.auto.is_none() || self.peers.get(&id).is_some_and(|peer| peer.spread);
        if all { self.lanes } else { Lanes::ONE }
    }

    /// Returns the lanes that a session was made with, as the peer is told of them.
    pub(super) fn lanes_of(&self, id: PeerId, session: SessionId) -> Lanes {
        let own = self.peers.get(&id).and_then(|peer| peer.own_of(session));
        if own == Some(self.lanes.count()) { self.lanes } else { Lanes::ONE }
    }

    /// Takes the report of a busy lane.
    pub(super) fn handle_load(&mut self, lane: LaneId, load: &LaneLoad) {
        let Some(mut auto) = self.auto.take() else { return };
        // A native peer has one lane, and so has every peer on some relays.
        let may = |id| {
            self.peers.get(&id).is_some_and(|peer| {
                let may_have = !peer.native && peer.way.is_some_and(|way| self.has_lanes_on(peer, way));
                may_have && !peer.has_just_crossed(self.now)
            })
        };
        auto.handle_load(lane, load, may, self.now);
        self.auto = Some(auto);
        self.auto_turn();
    }

    /// Takes the report of the agent that these lanes run now. New ones have been told nothing yet.
    pub fn lanes_run(&mut self, lanes: Lanes, clocks: Clocks) {
        self.set_clocks(clocks);
        let before = self.lanes.count();
        self.lanes = lanes;
        self.introduce((before..lanes.count()).map(LaneId));
        if let Some(auto) = &mut self.auto {
            auto.running(lanes.count(), clocks.now);
        }
        self.auto_turn();
    }

    /// Takes the report of the agent that it could not start the lanes that [`Output::Lanes`] asked for.
    pub fn lanes_refused(&mut self, clocks: Clocks) {
        self.set_clocks(clocks);
        if let Some(auto) = &mut self.auto {
            auto.refused(clocks.now);
        }
        self.auto_turn();
    }

    /// Ends trials, and gives back lanes that are not needed.
    pub(super) fn auto_timeout(&mut self) {
        if let Some(auto) = self.auto.as_mut().filter(|auto| auto.poll_timeout().is_some_and(|due| self.now >= due)) {
            auto.handle_timeout(self.now);
            self.auto_turn();
        }
    }

    /// Forgets the load of a peer that was removed.
    pub(super) fn auto_forget(&mut self, id: PeerId) {
        if let Some(auto) = &mut self.auto {
            auto.forget(id, self.now);
        }
    }

    fn auto_turn(&mut self) {
        while let Some(output) = self.auto.as_mut().and_then(AutoLanes::poll_output) {
            match output {
                AutoOutput::Run(placement) => self.outputs.push(Output::Lanes(placement)),
                AutoOutput::Spread { peer, busy } => {
                    self.outputs.note(NodeEvent::LanesWanted { peer, lanes: self.lanes.count(), busy });
                    self.set_spread(peer, true);
                }
                AutoOutput::Gather { peer, reason } => {
                    let is_unanswered = self.peers.get(&peer).is_some_and(|peer| peer.extra_lanes.is_unanswered());
                    let reason = if is_unanswered { GatherReason::PortsClosed } else { reason };
                    self.outputs.note(NodeEvent::LanesReturned { peer, reason });
                    self.set_spread(peer, false);
                }
            }
        }
    }

    /// Gives a peer's next session all lanes or one, and makes it now if there is a session.
    fn set_spread(&mut self, id: PeerId, spread: bool) {
        let Some(peer) = self.peers.get_mut(&id).filter(|peer| peer.spread != spread) else { return };
        peer.spread = spread;
        peer.ports_closed = !spread && peer.extra_lanes.is_unanswered();
        let were_open = peer.extra_lanes.in_use() > 1;
        peer.extra_lanes.handle_own_change();
        if were_open {
            self.close_lanes(id);
        }
        self.spread_peers.set(id, false, self.now);
        self.update_relay_lanes(id);
        self.renew_for_lanes(id);
    }

    /// Starts a handshake if the newest session has other lanes than new sessions with the peer have.
    pub(super) fn renew_for_lanes(&mut self, id: PeerId) {
        let wanted = self.lanes_for(id).count();
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Some((newest, _)) = peer.sessions.last().copied() else { return };
        if peer.own_of(newest).is_none_or(|own| own == wanted) || peer.attempt.is_some() {
            return;
        }
        peer.attempt = Some(Attempt::start(peer.retry(), &self.limits, self.now));
        peer.asked = self.now;
        let clocks = Clocks { now: self.now, wall: self.wall };
        self.continue_attempt(id, clocks);
        self.outputs.note(NodeEvent::HandshakeStarted { peer: id });
    }

    /// Tells new lanes of all relays, peers, paths and routes.
    fn introduce(&mut self, lanes: impl Iterator<Item = LaneId>) {
        let relays: Arc<[_]> = self.relays.places().collect();
        let known = |peer: &Peer| KnownPeer {
            peer: peer.id,
            roams: peer.native,
            choice: peer.choice.as_deref().copied(),
            round_trip: peer.round_trip,
        };
        let peers: Arc<[_]> = self.peers.values().map(|peer| known(peer)).collect();
        let routes = self.routes();
        for lane in lanes {
            self.tell(lane, ToLane::Relays(Arc::clone(&relays)));
            self.tell(lane, ToLane::AddPeers(Arc::clone(&peers)));
            self.tell(lane, ToLane::Routes(Arc::clone(&routes)));
        }
    }
}

//! A lane's lane core: its peers, sessions and timers, without thread, socket or clock.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use taut_base::{LaneId, PeerId, ReceiverIndex, Time};
use taut_node::{FromLane, Routes, ToLane};
use taut_path::Way;
use taut_tunnel::cookie::CookieChecker;
use taut_tunnel::{Bucket, Keyring, KeyringAction, Limits, Role, Session};
use taut_wire::ecn::Ecn;
use taut_wire::merge::{Merger, Offloads};

use crate::batch::SendBatch;
use crate::drops::{Drop, DropCounts};
use crate::held::{Holds, Queue};
use crate::ingress::Ingress;
use crate::locals::Locals;
use crate::path::Path;
use crate::relays::Relays;
use crate::selector::LaneSelector;
use crate::staged::{Stage, Staged};
use crate::tables::{LanePeer, NumberMap, Side, TrafficTable};

/// Wishes and moves that wait for an agent that does not listen. Sessions that end are told in any case; they are few by themselves.
const MAX_EVENTS: usize = 1024;

/// Everything of a lane that is not a system call. What goes out is appended to a [`SendBatch`]; what the agent should know waits in
/// [`LaneCore::poll_message`].
pub struct LaneCore {
    /// Which lane this is, and of how many.
    pub(crate) own: LaneId,
    pub(crate) lanes: u8,
    pub(crate) limits: Limits,
    pub(crate) mtu: usize,
    pub(crate) ingress: Ingress,
    pub(crate) vnet_header: bool,
    pub(crate) routes: Arc<Routes>,
    pub(crate) peers: NumberMap<PeerId, LanePeer>,
    pub(crate) by_index: NumberMap<ReceiverIndex, PeerId>,
    pub(crate) merger: Merger,
    pub(crate) drops: Arc<DropCounts>,
    pub(crate) locals: Locals,
    pub(crate) relays: Relays,
    /// What routers marked on the datagrams that are being read.
    pub(crate) congestion: Ecn,
    traffic: Arc<TrafficTable>,
    timers: BinaryHeap<Reverse<(Time, PeerId)>>,
    messages: VecDeque<FromLane>,
    /// Peers with a session whose waiting packets did not fit in the batch.
    pub(crate) backlog: Vec<PeerId>,
    /// Marks for the first lane, behind what it was handed.
    pub(crate) marks: Vec<(PeerId, u64)>,
    /// Packets that wait for a session of their peer.
    pub(crate) stage: Stage,
    /// Packets that wait for a change of their peer's path or lanes.
    pub(crate) holds: Holds,
    /// While the agent waits for what was read: no change is waited for.
    pub(crate) holds_nothing: bool,
}

/// What became of a packet that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was sealed, is held, waits for a session, or was dropped.
    Done,
    /// It is the first lane's to seal.
    First,
}

/// What [`LaneCore::release`] did.
#[derive(Debug, PartialEq, Eq)]
pub enum Released {
    /// Nothing that was held may go.
    Nothing,
    /// One packet was looked at: it left, or has to wait on.
    One,
    /// This packet may go, and is the first lane's to seal.
    First(Box<[u8]>),
}

impl LaneCore {
    /// A lane without peers, for a TUN of this MTU. `checker` is the node's; `vnet_header` says whether packets of the TUN have a virtio header,
    /// `offloads` which superpackets it takes.
    pub fn new(
        limits: Limits,
        mtu: u16,
        checker: CookieChecker,
        vnet_header: bool,
        offloads: Offloads,
        drops: Arc<DropCounts>,
        traffic: Arc<TrafficTable>,
    ) -> Self {
        Self {
            own: LaneId::FIRST,
            lanes: 1,
            limits,
            mtu: usize::from(mtu),
            ingress: Ingress::new(checker),
            vnet_header,
            routes: Arc::default(),
            peers: NumberMap::default(),
            by_index: NumberMap::default(),
            merger: Merger::new(offloads),
            drops,
            locals: Locals::default(),
            relays: Relays::default(),
            congestion: Ecn::NotEct,
            traffic,
            timers: BinaryHeap::new(),
            messages: VecDeque::new(),
            backlog: Vec::new(),
            marks: Vec::new(),
            stage: Stage::default(),
            holds: Holds::default(),
            holds_nothing: false,
        }
    }

    /// The same as lane `own` of `lanes` of one node; without it, it is the only one.
    #[must_use]
    pub fn as_lane(mut self, own: LaneId, lanes: u8) -> Self {
        (self.own, self.lanes) = (own, lanes);
        self
    }

    /// A mark that goes to the first lane behind the packets that it was handed, for [`Self::mark`].
    pub fn poll_mark(&mut self) -> Option<(PeerId, u64)> {
        if self.marks.is_empty() { None } else { Some(self.marks.remove(0)) }
    }

    /// What the agent should know next; handshakes of others last.
    pub fn poll_message(&mut self) -> Option<FromLane> {
        self.poll_event().or_else(|| self.poll_handshake())
    }

    /// What happened to our own peers.
    pub(crate) fn poll_event(&mut self) -> Option<FromLane> {
        self.messages.pop_front()
    }

    /// A handshake message that the agent should look at.
    pub(crate) fn poll_handshake(&mut self) -> Option<FromLane> {
        self.ingress.poll()
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.peek().map(|Reverse((due, _))| *due)
    }

    /// Carries out a command of the agent.
    pub fn command(&mut self, command: ToLane, out: &mut SendBatch, now: Time) {
        match command {
            ToLane::Routes(routes) => self.set_routes(routes),
            ToLane::AddPeer { peer, persistent_keepalive, roams } => {
                let traffic = self.traffic.add(peer);
                let first = self.own == LaneId::FIRST;
                let keyring = if first { Keyring::new(persistent_keepalive) } else { Keyring::for_extra_lane() };
                let new = LanePeer {
                    first: Side::new(self.own, keyring),
                    others: Vec::new(),
                    selector: LaneSelector::default(),
                    held: Queue::default(),
                    staged: Staged::default(),
                    traffic,
                    scheduled: None,
                    last_ends: None,
                    control: Bucket::default(),
                    authentic: Bucket::default(),
                    muted: Time::ZERO,
                    answers: Bucket::default(),
                    path: Path::new(roams),
                };
                self.peers.insert(peer, new);
            }
            ToLane::SetEndpoint { peer, endpoint } => {
                // The user may have set it because the source address does not work (fault D19).
                self.forget_locals(&mut |place, _| place == endpoint);
                if let Some(known) = self.peers.get_mut(&peer) {
                    known.first.way = Some(endpoint.into());
                    self.send_staged(peer, out, now);
                }
            }
            ToLane::SetPath { peer, choice } => self.set_path(peer, choice, out, now),
            ToLane::SetKeepalive { peer, interval } => {
                if let Some(known) = self.peers.get_mut(&peer) {
                    known.first.keyring.set_persistent(interval, now);
                    self.schedule(peer);
                }
            }
            ToLane::ForgetLocal { place } => self.leave_local(place, now),
            ToLane::ForgetLocals => self.forget_locals(&mut |_, _| true),
            ToLane::SetMtu(mtu) => self.mtu = usize::from(mtu),
            ToLane::RemovePeer(peer) => self.remove_peer(peer),
            ToLane::AddSession { peer, id, keys, born, proven } => {
                let lane = keys.lane;
                self.add_session(peer, lane, Session::new(id, *keys, born), proven, out, now);
            }
            ToLane::Confirm { peer, id } => self.confirm(peer, id, out, now),
            ToLane::OpenLanes { peer, lanes, barrier } => self.open_lanes(peer, &lanes, barrier),
            ToLane::Passed { peer, barrier } => {
                if let Some(known) = self.peers.get_mut(&peer) {
                    known.selector.passed(barrier, now);
                    self.holds.try_again(peer, &known.held);
                }
            }
            ToLane::CloseLanes(peer) => self.close_lanes(peer, now),
            ToLane::Send { way, message } => {
                let bytes = message.as_bytes();
                self.ingress.sent(bytes);
                if let Some(endpoint) = way.direct() {
                    self.locals.tried(endpoint, bytes);
                }
                self.send_as_is(way, bytes, out);
            }
            ToLane::Datagram { destination, bytes } => {
                self.relays.sent(destination, bytes.as_bytes());
                self.send_as_is(destination.into(), bytes.as_bytes(), out);
            }
            ToLane::Relays(places) => self.relays.set(&places),
            ToLane::Control { peer, session, lane, way, message } => {
                self.send_control(peer, session, lane, way, message, out);
            }
            ToLane::SizedProbe { peer, session, way, id, size } => self.send_sized(peer, session, way, (id, size), out),
            ToLane::UseSuite { peer, session, suite, abilities } => {
                let sides = self.peers.get_mut(&peer).into_iter().flat_map(LanePeer::sides);
                for session in sides.filter_map(|side| side.keyring.session(session)) {
                    session.use_suite(suite, abilities);
                }
            }
            ToLane::SetRoundTrip { peer, round_trip } => {
                if let Some(peer) = self.peers.get_mut(&peer) {
                    peer.set_round_trip(round_trip);
                }
            }
            // The thread's.
            ToLane::Read(_) | ToLane::Drain | ToLane::OpenSearch { .. } | ToLane::CloseSearch(_) => {}
            ToLane::GiveUp(peer) => {
                let waiting = self.peers.get_mut(&peer).map_or(0, |peer| self.stage.clear(&mut peer.staged));
                self.drops.add(Drop::NoHandshake, waiting);
            }
        }
    }

    /// Sends what is not sealed for anybody.
    fn send_as_is(&self, way: Way, bytes: &[u8], out: &mut SendBatch) {
        let appended = out.append(way, bytes.len(), |room| {
            room.copy_from_slice(bytes);
            Ok::<(), std::convert::Infallible>(())
        });
        if appended.is_none() {
            self.drops.add(Drop::SendFailed, 1);
        }
    }

    /// Does what is due: keepalives, wishes for handshakes, the end of old sessions.
    pub fn handle_timeout(&mut self, out: &mut SendBatch, now: Time) {
        while self.poll_timeout().is_some_and(|due| now >= due) {
            let Some(Reverse((due, id))) = self.timers.pop() else { return };
            let Some(peer) = self.peers.get_mut(&id) else { continue };
            // An earlier entry was put in meanwhile and this one left behind: were it followed, it would stay in the heap for ever.
            if peer.scheduled.take_if(|scheduled| *scheduled == due).is_none() {
                continue;
            }
            let (mut keepalive, mut handshake, mut receipt, mut silent) = (false, false, false, false);
            for side in peer.sides() {
                side.keyring.handle_timeout(&self.limits, now, |wish| match wish {
                    KeyringAction::Keepalive => keepalive = true,
                    KeyringAction::Handshake => handshake = true,
                    KeyringAction::Receipt => receipt = true,
                    KeyringAction::AbandonLane => silent = true,
                });
            }
            let suspect = peer.path.handle_timeout(&mut peer.first.way, out, now);
            self.holds.try_again(id, &peer.held);
            self.collect_retired(id);
            if suspect {
                self.say(FromLane::Suspect { peer: id });
            }
            if keepalive {
                self.send_keepalive(id, out, now);
            }
            if handshake {
                self.say(FromLane::WantsHandshake(id));
            }
            if receipt {
                self.send_receipts(id, out);
            }
            if silent {
                self.do_without(id, now);
            }
            self.schedule(id);
        }
    }

    /// Tells the agent something. While very much waits for it, what will be said again goes first.
    pub(crate) fn say(&mut self, message: FromLane) {
        let repeated = matches!(
            message,
            FromLane::WantsHandshake(_)
                | FromLane::Moved { .. }
                | FromLane::Control { .. }
                | FromLane::Arrived { .. }
                | FromLane::Active { .. }
                | FromLane::Datagram { .. }
        );
        if repeated && self.messages.len() >= MAX_EVENTS {
            self.drops.add(Drop::KeeperBusy, 1);
        } else {
            self.messages.push_back(message);
        }
    }

    /// Puts a peer into the timer heap if it has something due before it stands there already. Deadlines mostly move away; then it is looked at once
    /// too early and put back, which is cheaper than moving it with every packet.
    pub(crate) fn schedule(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let limits = &self.limits;
        let path = peer.path.poll_earlier_timeout();
        let first = peer.scheduled.is_none();
        let due = |side: &mut Side| match side.keyring.poll_earlier_timeout(limits) {
            None if first => side.keyring.poll_timeout(limits),
            sooner => sooner,
        };
        let held = if self.holds.is_ready(id) { None } else { peer.held_until() };
        let Some(due) = peer.sides().filter_map(due).chain(path).chain(held).min() else { return };
        if peer.scheduled.is_none_or(|scheduled| due < scheduled) {
            peer.scheduled = Some(due);
            self.timers.push(Reverse((due, id)));
        }
    }

    /// Frees the indices of sessions that are gone.
    pub(crate) fn collect_retired(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        for (session, indices) in peer.sides().flat_map(|side| side.keyring.take_retired()) {
            for index in indices.iter() {
                self.by_index.remove(&index);
            }
            self.messages.push_back(FromLane::Retired { peer: id, id: session, indices });
        }
    }

    fn set_routes(&mut self, routes: Arc<Routes>) {
        self.routes = routes;
        for peer in self.peers.values_mut() {
            peer.last_ends = None;
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
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let started_by_us = session.role == Role::Initiator;
        self.by_index.extend(session.indices().iter().map(|index| (index, id)));
        let roams = peer.path.roams;
        if peer.side(lane).is_none() {
            peer.others.push(Side::new(lane, Keyring::for_extra_lane()));
        }
        let Some(side) = peer.side(lane) else { return };
        side.keyring.add(session);
        if let Some(way) = proven {
            if roams || side.way.is_none() {
                self.ingress.peer_moved(id, side.way, Some(way));
                side.way = Some(way);
            }
            self.local_proven(id, way);
        }
        self.collect_retired(id);
        if lane != LaneId::FIRST {
            return self.schedule(id);
        }
        // The answering side may use the session only after it heard from us on it: what waited tells it, or an empty packet.
        if started_by_us && !self.send_staged(id, out, now) {
            self.send_keepalive(id, out, now);
        }
        self.schedule(id);
    }

    /// The peer used a session on another lane.
    fn confirm(&mut self, id: PeerId, session: taut_base::SessionId, out: &mut SendBatch, now: Time) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let mut on_first = false;
        for side in peer.sides() {
            on_first |= side.keyring.confirm(session) && side.lane == LaneId::FIRST;
        }
        self.collect_retired(id);
        if on_first {
            self.send_staged(id, out, now);
        }
        self.schedule(id);
    }

    fn open_lanes(&mut self, id: PeerId, lanes: &[(LaneId, std::net::SocketAddr)], barrier: u64) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if peer.path.alone && !peer.selector.are_open() {
            return self.say(FromLane::Silent { peer: id });
        }
        for (lane, endpoint) in lanes {
            if let Some(side) = peer.side(*lane) {
                side.way = Some(Way::Direct(*endpoint));
            }
        }
        let first = Some(LaneId::FIRST).filter(|first| *first == self.own);
        peer.selector.open(first.into_iter().chain(lanes.iter().map(|(lane, _)| *lane)).collect(), barrier);
        self.holds.try_again(id, &peer.held);
    }

    pub(crate) fn close_lanes(&mut self, id: PeerId, now: Time) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.selector.close(now);
        self.holds.try_again(id, &peer.held);
        peer.sides().filter(|side| side.lane != LaneId::FIRST).for_each(|side| side.keyring.stop_expecting_answer());
    }

    fn remove_peer(&mut self, id: PeerId) {
        if let Some(mut peer) = self.peers.remove(&id) {
            let waiting = self.holds.clear(id, &mut peer.held) + self.stage.clear(&mut peer.staged);
            self.drops.add(Drop::NoRoute, waiting);
            peer.sides().for_each(|side| side.keyring.clear());
            for (_, indices) in peer.sides().flat_map(|side| side.keyring.take_retired()) {
                for index in indices.iter() {
                    self.by_index.remove(&index);
                }
            }
            self.ingress.peer_left(id);
            self.traffic.remove(id);
        }
    }
}

#[cfg(test)]
mod tests;

//! The peers of one lane, with their sessions and timers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use taut_base::{LaneId, PeerId, ReceiverIndex, SessionId, Time};
use taut_path::Way;
use taut_tunnel::{Bucket, Keyring, Limits, SessionIndices};

use crate::base_round_trip::BaseRoundTrip;
use crate::control_limits::ControlLimits;
use crate::drops::DropReason;
use crate::locals::NotedLocal;
use crate::numbers::NumberMap;
use crate::path::Path;
use crate::peer_gate::PeerGate;
use crate::piece_support::PieceSupport;
use crate::selector::LaneSelector;
use crate::traffic::{PeerTraffic, TrafficTable};

/// One lane of a peer's sessions, served here.
pub(crate) struct SessionLane {
    pub(crate) lane: LaneId,
    pub(crate) keyring: Keyring,
    /// The path of its packets: the agent's choice, or the source of the last authentic packet. On extra lanes, before any such packet, the path that a
    /// probe was answered on.
    pub(crate) way: Option<Way>,
    pub(crate) noted: NotedLocal,
}

impl SessionLane {
    /// Returns a lane with no path yet.
    pub(crate) fn new(lane: LaneId, keyring: Keyring) -> Self {
        Self { lane, keyring, way: None, noted: NotedLocal::default() }
    }
}

/// The machines of one peer.
pub(crate) struct LanePeer {
    /// The first lane of its sessions that is served here; on the node's first lane, that is WireGuard's own.
    pub(crate) first: SessionLane,
    /// The other lanes that are served here, if the peer has more lanes than this node.
    extra: Vec<SessionLane>,
    pub(crate) selector: LaneSelector,
    pub(crate) path: Path,
    pub(crate) control: ControlLimits,
    pub(crate) traffic: Arc<PeerTraffic>,
    /// Whether the peer takes packets in pieces, and tells in its receipts which lengths arrive.
    pub(crate) pieces: PieceSupport,
    /// True if this lane, the first, serves all lanes of the peer's sessions: packets that other lanes read and hand off take the lane of their flow.
    pub(crate) whole: bool,
    /// ICMP errors to the host that may still be sent about packets to the peer.
    pub(crate) errors: Bucket,
    pub(crate) base_round_trip: BaseRoundTrip,
    /// Inner source and destination of the last packet that was allowed in: most packets have the same and need no look-up.
    pub(crate) allowed_ends: Option<(IpAddr, IpAddr)>,
    /// State of the packet filter for the peer's flows.
    pub(crate) gate: PeerGate,
    /// When the peer is in the timer heap, if it is.
    scheduled: Option<Time>,
}

impl LanePeer {
    /// Returns a peer without sessions.
    pub(crate) fn new(first: SessionLane, roams: bool, traffic: Arc<PeerTraffic>) -> Self {
        Self {
            first,
            extra: Vec::new(),
            selector: LaneSelector::default(),
            path: Path::new(roams),
            control: ControlLimits::default(),
            traffic,
            pieces: PieceSupport::default(),
            whole: false,
            errors: Bucket::default(),
            base_round_trip: BaseRoundTrip::default(),
            allowed_ends: None,
            gate: PeerGate::default(),
            scheduled: None,
        }
    }

    /// Returns this lane of the peer's sessions, if it is served here.
    #[inline]
    pub(crate) fn lane(&mut self, lane: LaneId) -> Option<&mut SessionLane> {
        if self.first.lane == lane {
            return Some(&mut self.first);
        }
        self.extra.iter_mut().find(|known| known.lane == lane)
    }

    /// Returns all lanes of the peer's sessions that are served here.
    pub(crate) fn lanes(&mut self) -> impl Iterator<Item = &mut SessionLane> {
        std::iter::once(&mut self.first).chain(&mut self.extra)
    }

    /// Returns this lane of the peer's sessions, which is served here from now on.
    pub(crate) fn lane_or_new(&mut self, lane: LaneId) -> Option<&mut SessionLane> {
        if self.lane(lane).is_none() {
            self.extra.push(SessionLane::new(lane, Keyring::for_extra_lane()));
        }
        self.lane(lane)
    }

    /// Returns the endpoints that its packets are sent to: its own, or its relay's.
    fn endpoints(&self) -> impl Iterator<Item = SocketAddr> {
        std::iter::once(&self.first).chain(&self.extra).filter_map(|lane| lane.way).map(|way| way.first_hop())
    }

    /// Returns the time at which packets that are held for it are tried again at the latest.
    pub(crate) fn held_until(&self) -> Time {
        // If neither change waits any more, the packets may leave at once.
        self.selector.holds_until().into_iter().chain(self.path.holds_until()).min().unwrap_or(Time::ZERO)
    }

    /// Sets the round-trip time to the peer.
    pub(crate) fn set_round_trip(&mut self, round_trip: Duration) {
        self.base_round_trip.measured(round_trip);
        self.selector.set_round_trip(round_trip);
        self.lanes().for_each(|lane| lane.keyring.set_round_trip(round_trip));
    }

    /// Returns the reason to drop a packet that came a second time on a lane of the peer's session: it is a copy, where the peer sends on two paths, or a
    /// replay.
    pub(crate) fn reason_for_repeat(&self, lane: LaneId, source: Way, now: Time) -> DropReason {
        let copy = lane == LaneId::FIRST && self.path.is_copy(source, self.first.way, now);
        if copy { DropReason::Duplicate } else { DropReason::Replayed }
    }

    /// Returns when a timer of the peer is due, if that may be sooner than the time at which it is scheduled.
    fn poll_earlier_timeout(&mut self, limits: &Limits, holds: bool) -> Option<Time> {
        let path = self.path.poll_earlier_timeout();
        let first = self.scheduled.is_none();
        let due = |lane: &mut SessionLane| match lane.keyring.poll_earlier_timeout(limits) {
            None if first => lane.keyring.poll_timeout(limits),
            sooner => sooner,
        };
        let held = holds.then(|| self.held_until());
        let pieces = self.pieces.poll_timeout();
        self.lanes().filter_map(due).chain(path).chain(held).chain(pieces).min()
    }
}

/// A peer in the table. Most members of a large network are never sent anything, and a machine takes a kilobyte, so it is made when it is first needed.
enum Slot {
    /// Nothing was asked of it yet: what its machine is made of.
    Unused {
        /// The lane of its sessions that is served here first.
        lane: LaneId,
        /// Whether it is stock WireGuard.
        roams: bool,
    },
    /// Boxed: a hash map keeps up to twice as many places as it has entries, and an empty place must not cost a kilobyte.
    Used(Box<LanePeer>),
}

impl Slot {
    fn used(&self) -> Option<&LanePeer> {
        match self {
            Self::Used(peer) => Some(peer),
            Self::Unused { .. } => None,
        }
    }

    fn used_mut(&mut self) -> Option<&mut LanePeer> {
        match self {
            Self::Used(peer) => Some(peer),
            Self::Unused { .. } => None,
        }
    }
}

/// All peers of one lane, found by number or by receiver index.
pub(crate) struct PeerTable {
    peers: NumberMap<PeerId, Slot>,
    traffic: Arc<TrafficTable>,
    by_index: NumberMap<ReceiverIndex, PeerId>,
    timers: BinaryHeap<Reverse<(Time, PeerId)>>,
}

impl PeerTable {
    /// Returns an empty table. Counters of its peers' traffic are in `traffic`.
    pub(crate) fn new(traffic: Arc<TrafficTable>) -> Self {
        Self { peers: NumberMap::default(), traffic, by_index: NumberMap::default(), timers: BinaryHeap::new() }
    }

    /// Returns a peer, whose machine is made if this is the first time.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: PeerId) -> Option<&mut LanePeer> {
        let slot = self.peers.get_mut(&id)?;
        if let Slot::Unused { lane, roams } = *slot {
            *slot = Slot::Used(new_peer(lane, roams, self.traffic.add(id)));
        }
        slot.used_mut()
    }

    /// Returns a peer that was used.
    fn used(&mut self, id: PeerId) -> Option<&mut LanePeer> {
        self.peers.get_mut(&id)?.used_mut()
    }

    /// Returns a peer that was used.
    pub(crate) fn get(&self, id: PeerId) -> Option<&LanePeer> {
        self.peers.get(&id)?.used()
    }

    /// Returns all peers that were used.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut LanePeer> {
        self.peers.values_mut().filter_map(Slot::used_mut)
    }

    /// Returns the numbers of all peers that were used.
    pub(crate) fn ids(&self) -> Vec<PeerId> {
        self.peers.iter().filter(|(_, slot)| slot.used().is_some()).map(|(id, _)| *id).collect()
    }

    /// Returns the number of peers.
    pub(crate) fn len(&self) -> usize {
        self.peers.len()
    }

    /// Returns the endpoints that packets to any peer are sent to.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = SocketAddr> {
        self.peers.values().filter_map(Slot::used).flat_map(|peer| peer.endpoints())
    }

    /// Adds a peer, or replaces it. `lane` is the lane of its sessions that is served here first, and `roams` says whether it is stock WireGuard.
    pub(crate) fn insert(&mut self, id: PeerId, lane: LaneId, roams: bool) {
        self.peers.insert(id, Slot::Unused { lane, roams });
    }

    /// Removes a peer with its sessions, their indices and its counters. Returns false if there is no such peer.
    pub(crate) fn remove(&mut self, id: PeerId) -> bool {
        if let Some(peer) = self.used(id) {
            peer.lanes().for_each(|lane| lane.keyring.clear());
            self.take_retired(id, |_, _| ());
        }
        // Also those of a peer that only a lane before this one used.
        self.traffic.remove(id);
        self.peers.remove(&id).is_some()
    }

    /// Returns the peer whose session has this receiver index.
    #[inline]
    pub(crate) fn by_index(&self, index: ReceiverIndex) -> Option<PeerId> {
        self.by_index.get(&index).copied()
    }

    /// Returns the number of receiver indices in use.
    #[cfg(test)]
    pub(crate) fn indices(&self) -> usize {
        self.by_index.len()
    }

    /// Returns the counters of its peers' traffic.
    #[cfg(test)]
    pub(crate) fn traffic(&self) -> &TrafficTable {
        &self.traffic
    }

    /// Returns the number of entries in the timer heap.
    #[cfg(test)]
    pub(crate) fn timers(&self) -> usize {
        self.timers.len()
    }

    /// Adds the receiver indices of a peer's session.
    pub(crate) fn add_indices(&mut self, id: PeerId, indices: &SessionIndices) {
        self.by_index.extend(indices.iter().map(|index| (index, id)));
    }

    /// Frees the receiver indices of a peer's sessions that ended, and calls `ended` with each of these sessions.
    pub(crate) fn take_retired(&mut self, id: PeerId, mut ended: impl FnMut(SessionId, SessionIndices)) {
        let Some(Slot::Used(peer)) = self.peers.get_mut(&id) else { return };
        for (session, indices) in peer.lanes().flat_map(|lane| lane.keyring.take_retired()) {
            for index in indices.iter() {
                self.by_index.remove(&index);
            }
            ended(session, indices);
        }
    }

    /// Returns when [`Self::pop_due`] has a peer.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.timers.peek().map(|Reverse((due, _))| *due)
    }

    /// Takes the next peer with a timer that is due.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<PeerId> {
        while self.poll_timeout().is_some_and(|due| now >= due) {
            let Reverse((due, id)) = self.timers.pop()?;
            let Some(peer) = self.used(id) else { continue };
            // An entry that an earlier one superseded is ignored. If it were followed, it would stay in the heap for ever.
            if peer.scheduled.take_if(|scheduled| *scheduled == due).is_some() {
                return Some(id);
            }
        }
        None
    }

    /// Puts a peer into the timer heap if one of its timers is due before its present entry. Deadlines mostly move away; the peer is then looked at once too
    /// early and put back, which is cheaper than moving its entry with every packet. `holds` says whether packets wait for a change of its path or lanes.
    #[inline]
    pub(crate) fn schedule(&mut self, id: PeerId, limits: &Limits, holds: bool) {
        let Some(Slot::Used(peer)) = self.peers.get_mut(&id) else { return };
        let Some(due) = peer.poll_earlier_timeout(limits, holds) else { return };
        if peer.scheduled.is_none_or(|scheduled| due < scheduled) {
            peer.scheduled = Some(due);
            self.timers.push(Reverse((due, id)));
        }
    }
}

/// Makes the machine of a peer. Not a part of [`PeerTable::get_mut`], which is on the way of every packet.
#[cold]
fn new_peer(lane: LaneId, roams: bool, traffic: Arc<PeerTraffic>) -> Box<LanePeer> {
    let keyring = if lane == LaneId::FIRST { Keyring::new(None) } else { Keyring::for_extra_lane() };
    Box::new(LanePeer::new(SessionLane::new(lane, keyring), roams, traffic))
}

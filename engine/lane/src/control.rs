//! ControlMessage messages on the lane: opened and sealed here, because counters and windows live here (protocol.md 1.7). A probe is answered and a receipt
//! noted on the spot; the rest goes up to the agent.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use taut_base::{LaneId, PeerId, ReceiverIndex, SessionId, Time};
use taut_node::FromLane;
use taut_path::Way;
use taut_tunnel::{OpenError, Pair, Rate};
use taut_wire::control::{self, ControlMessage};
use taut_wire::wireguard::{DATA_HEADER, DATA_OVERHEAD};

use crate::batch::SendBatch;
use crate::drops::Drop;
use crate::held::Entry;
use crate::lane_core::LaneCore;

/// ControlMessage messages of one peer that go up: some for each of its sessions and paths. A peer that sends more is broken or hostile, and must not keep the
/// agent from the others.
pub(crate) const CONTROL: Rate = Rate::new(50, 100);

/// Authentic control messages of one peer, of all kinds: 16 lanes acknowledge data 50 times a second each, and all else is less than half of that again.
/// A peer that says more is not listened to for [`MUTED`]: opening a message costs a thousand times as much as dropping it. Only what is authentic counts,
/// so that nobody else can have a peer muted.
const AUTHENTIC: Rate = Rate::new(2_000, 1_000);

/// How long a peer that says too much is not listened to.
const MUTED: Duration = Duration::from_secs(1);

/// Probes of one peer that are answered: a peer with 16 lanes and all its paths asks less, a search on both sides of a hard NAT hits a few sockets at a
/// time. A peer that asks for more costs the lane a system call each.
pub(crate) const ANSWERS: Rate = Rate::new(200, 400);

impl LaneCore {
    /// A message under an index that is no data pair's: opened in place, and acted on. Returns whose it was, if it was authentic.
    #[expect(clippy::too_many_arguments, reason = "one message with where it came from and what its header says")]
    pub(crate) fn control(
        &mut self,
        source: Way,
        id: PeerId,
        sealed: &mut [u8],
        index: ReceiverIndex,
        counter: u64,
        out: &mut SendBatch,
        now: Time,
    ) -> Option<PeerId> {
        let Some(peer) = self.peers.get_mut(&id) else { return self.refuse(Drop::UnknownIndex) };
        if now < peer.muted {
            return self.refuse(Drop::ControlRate);
        }
        let lane = index.lane();
        let Some(side) = peer.side(lane) else { return self.refuse(Drop::UnknownIndex) };
        let Some((session, pair)) = side.keyring.control(index, &self.limits, now) else {
            return self.refuse(Drop::UnknownIndex);
        };
        let size = DATA_HEADER + sealed.len();
        let message = match pair.open(counter, sealed) {
            Ok(plain) => ControlMessage::parse(plain),
            Err(OpenError::Replayed) => return self.refuse_again(id, lane, source, now),
            Err(OpenError::NotAuthentic | OpenError::CounterAtLimit) => return self.refuse(Drop::NotAuthentic),
        };

        // Its sender has the session (protocol.md 1.8). It moves nobody: data does, or the agent.
        let confirmed = side.keyring.received_control(session, &self.limits, now);
        let elsewhere = side.way != Some(source) && (side.way.is_none() || !peer.path.roams);
        peer.traffic.add_outer_received(size);
        if !peer.authentic.take(&AUTHENTIC, now) {
            peer.muted = now + MUTED;
        }
        if elsewhere {
            self.hears_elsewhere(id, lane, source, now);
        }
        if confirmed {
            self.confirmed(id, session, out, now);
        }

        match message {
            Ok(ControlMessage::Probe { id: probe }) => {
                if !self.peers.get_mut(&id).is_some_and(|peer| peer.answers.take(&ANSWERS, now)) {
                    self.drops.add(Drop::ControlRate, 1);
                    return Some(id);
                }
                let answer = ControlMessage::Answer { id: probe, seen: seen(source) };
                self.send_control(id, session, lane, Some(source), answer, out);
            }
            Ok(ControlMessage::Receipt { suite, counter }) => {
                let side = self.peers.get_mut(&id).and_then(|peer| peer.side(lane));
                let known = side.and_then(|side| side.keyring.session(session));
                if !known.is_some_and(|known| known.acknowledge(suite, counter)) {
                    self.drops.add(Drop::BadControl, 1);
                } else if lane == LaneId::FIRST
                    && let Some(peer) = self.peers.get_mut(&id)
                {
                    peer.path.receipted(session, suite, counter, now);
                }
            }
            Ok(message) => self.pass_up(id, session, lane, source, message, now),
            Err(_) => self.drops.add(Drop::BadControl, 1),
        }
        Some(id)
    }

    fn pass_up(
        &mut self,
        id: PeerId,
        session: SessionId,
        lane: LaneId,
        source: Way,
        message: ControlMessage,
        now: Time,
    ) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if peer.control.take(&CONTROL, now) {
            self.say(FromLane::Control { peer: id, session, lane, source, message });
        } else {
            self.drops.add(Drop::ControlRate, 1);
        }
    }

    /// Seals a message on the session's control pair; to where data goes if no destination is named, and while that is in doubt by the second way as well.
    /// Nothing happens without session or place.
    pub(crate) fn send_control(
        &mut self,
        id: PeerId,
        session: SessionId,
        lane: LaneId,
        way: Option<Way>,
        message: ControlMessage,
        out: &mut SendBatch,
    ) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        // A probe asks about one way, or about what goes before it there.
        let told = way.is_none() && lane == LaneId::FIRST && !matches!(message, ControlMessage::Probe { .. });
        let copies = peer.first.way.filter(|_| told).and_then(|way| peer.path.copies(way));
        let Some(side) = peer.side(lane) else { return };
        let Some(way) = way.or(side.way) else { return };
        let Some(pair) = side.keyring.session(session).and_then(|session| session.control_pair()) else { return };
        let (size, copied) = append_twice(pair, way, copies, message, out);
        peer.traffic.add_overhead(size);
        peer.traffic.add_copied(copied);
    }

    /// Seals a probe that is padded to the length of a packet of `size` bytes. Zeros follow what a probe holds, and its receiver ignores them.
    pub(crate) fn send_sized(
        &mut self,
        id: PeerId,
        session: SessionId,
        way: Way,
        (probe, size): (u64, u16),
        out: &mut SendBatch,
    ) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Some(side) = peer.side(LaneId::FIRST) else { return };
        let Some(pair) = side.keyring.session(session).and_then(|session| session.control_pair()) else { return };
        let size = append_padded(pair, way, ControlMessage::Probe { id: probe }, size.into(), out);
        peer.traffic.add_overhead(size);
    }

    /// The same for a mark that another lane handed off: it stays behind the packets that came before it and are held.
    pub fn mark_handed(&mut self, id: PeerId, barrier: u64, out: &mut SendBatch) {
        match self.peers.get_mut(&id) {
            Some(peer) if !peer.held.is_empty() => self.holds.push(id, &mut peer.held, Entry::Mark(barrier)),
            _ => self.mark(id, barrier, out),
        }
    }

    /// What came before this mark is to be passed by the probe of this id: it goes the same way behind it. Nothing happens while some of it waits for a
    /// session; then the mark's sender asks again.
    pub fn mark(&mut self, id: PeerId, barrier: u64, out: &mut SendBatch) {
        let Some(peer) = self.peers.get(&id).filter(|peer| peer.staged.is_empty()) else { return };
        let Some(session) = peer.first.keyring.current().map(|session| session.id) else { return };
        self.send_control(id, session, LaneId::FIRST, None, ControlMessage::Probe { id: barrier }, out);
    }

    /// The highest counter of our data that the peer acknowledged in the session in use.
    pub fn acknowledged(&self, id: PeerId) -> Option<u64> {
        Some(self.peers.get(&id)?.first.keyring.current()?.acknowledged()?.1)
    }

    /// What both ends call the session that the data of this peer is sealed with.
    pub fn session_name(&self, id: PeerId) -> Option<(ReceiverIndex, ReceiverIndex)> {
        Some(self.peers.get(&id)?.first.keyring.current()?.name())
    }

    /// Whether data to the peer is [marked](taut_wire::partial_checksum) where its checksum is partial.
    pub fn marks(&self, id: PeerId) -> bool {
        self.peers
            .get(&id)
            .and_then(|peer| peer.first.keyring.current())
            .is_some_and(taut_tunnel::Session::sends_partial_checksums)
    }

    /// Acknowledges the data that came, on each lane: by the way that our own data goes, which the peer takes to be alive as long as it hears us there, and
    /// by both while that is in doubt. The way that the data came is no better: it may work in that direction only.
    pub(crate) fn send_receipts(&mut self, id: PeerId, out: &mut SendBatch) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let copies = peer.first.way.and_then(|way| peer.path.copies(way));
        let (mut size, mut copied) = (0, 0);
        for side in peer.sides() {
            let Some(way) = side.way else { continue };
            if let Some((receipt, pair)) = side.keyring.receipt() {
                let second = copies.filter(|_| side.lane == LaneId::FIRST);
                let (once, again) = append_twice(pair, way, second, receipt, out);
                (size, copied) = (size + once, copied + again);
            }
        }
        peer.traffic.add_overhead(size);
        peer.traffic.add_copied(copied);
    }
}

/// What a probe's sender is told of where it came from: nothing, if a relay was between.
fn seen(source: Way) -> SocketAddr {
    source.direct().unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))
}

/// Appends one sealed message, and a copy of it for a second way; returns the size of each.
fn append_twice(
    pair: &mut Pair,
    way: Way,
    second: Option<Way>,
    message: ControlMessage,
    out: &mut SendBatch,
) -> (usize, usize) {
    let start = out.position();
    let size = append(pair, way, message, out);
    (size, second.map_or(0, |second| out.repeat(start, size, way, second.into(), || true)))
}

/// Appends one sealed message and returns its size; 0 when there was no room for it or the key is used up. It is asked or said again, then.
fn append(pair: &mut Pair, way: Way, message: ControlMessage, out: &mut SendBatch) -> usize {
    append_padded(pair, way, message, 0, out)
}

/// The same, with zeros behind it where it is shorter than `least` bytes.
fn append_padded(pair: &mut Pair, way: Way, message: ControlMessage, least: usize, out: &mut SendBatch) -> usize {
    let mut plain = [0; control::MAX];
    let length = message.write(&mut plain);
    let size = DATA_OVERHEAD + length.max(least);
    let sealed = out.append(way, size, |datagram| {
        datagram[DATA_HEADER..DATA_HEADER + length].copy_from_slice(&plain[..length]);
        pair.seal(datagram, length)
    });
    if matches!(sealed, Some(Ok(()))) { size } else { 0 }
}

//! Control messages on the lane: it opens and seals them, because counters and windows live here (protocol.md 1.7).

use std::net::{Ipv4Addr, SocketAddr};

use taut_base::{LaneId, ReceiverIndex, SessionId, Time};
use taut_path::Way;
use taut_tunnel::{Acknowledged, Limits, OpenError, Pair};
use taut_wire::control::{self, ControlMessage, Suite};
use taut_wire::wireguard::{DATA_HEADER, DATA_OVERHEAD};

use crate::batch::SendBatch;
use crate::drops::DropReason;
use crate::peers::LanePeer;

/// An authentic control message.
pub(crate) struct OpenedControl {
    pub(crate) session: SessionId,
    /// The message; `None` if this version does not know it.
    pub(crate) message: Option<ControlMessage>,
    /// True if it is the peer's first message on a session that we answered for.
    pub(crate) confirms: bool,
    /// True if it came on another path than packets go, and the peer does not roam or has no path yet.
    pub(crate) elsewhere: bool,
}

impl LanePeer {
    /// Opens a sealed control message in place, or returns the reason to drop it. An authentic one proves that its sender has the session (protocol.md 1.8).
    /// It does not change the peer's path: only data or the agent does.
    pub(crate) fn open_control(
        &mut self,
        source: Way,
        sealed: &mut [u8],
        index: ReceiverIndex,
        counter: u64,
        limits: &Limits,
        now: Time,
    ) -> Result<OpenedControl, DropReason> {
        if self.control.is_muted(now) {
            return Err(DropReason::ControlRate);
        }
        let Some(lane) = self.lane(index.lane()) else { return Err(DropReason::UnknownIndex) };
        let Some((session, pair)) = lane.keyring.control(index, limits, now) else {
            return Err(DropReason::UnknownIndex);
        };
        let size = DATA_HEADER + sealed.len();
        let message = match pair.open(counter, sealed) {
            Ok(plain) => ControlMessage::parse(plain).ok(),
            Err(OpenError::Replayed) => return Err(self.reason_for_repeat(index.lane(), source, now)),
            Err(OpenError::NotAuthentic | OpenError::CounterAtLimit) => return Err(DropReason::NotAuthentic),
        };
        let confirms = lane.keyring.received_control(session, limits, now);
        let way = lane.way;
        self.traffic.add_outer_received(size);
        self.control.count_authentic(now);
        let elsewhere = way != Some(source) && (way.is_none() || !self.path.roams());
        Ok(OpenedControl { session, message, confirms, elsewhere })
    }

    /// Notes that the peer acknowledged our data up to this counter, and its number of long messages.
    pub(crate) fn acknowledge(
        &mut self,
        session: SessionId,
        lane: LaneId,
        suite: Suite,
        counter: u64,
        longest: u16,
        now: Time,
    ) -> Acknowledged {
        let known = self.lane(lane).and_then(|lane| lane.keyring.session(session));
        let said = known.map_or(Acknowledged::Impossible, |known| known.acknowledge(suite, counter, longest));
        if said != Acknowledged::Impossible && lane == LaneId::FIRST {
            self.path.acknowledged(session, suite, counter, now);
        }
        if said == Acknowledged::LongLost && !self.pieces.takes() { Acknowledged::Arrived } else { said }
    }

    /// Seals a message on the session's control pair. Without `way` it takes the path of data, and while that path is in doubt a copy takes the second path.
    /// Nothing happens if the session or a path is missing.
    pub(crate) fn send_control(
        &mut self,
        session: SessionId,
        lane: LaneId,
        way: Option<Way>,
        message: ControlMessage,
        out: &mut SendBatch,
    ) {
        // A probe tests one path, or follows the packets that were sent on one.
        let may_copy = way.is_none() && lane == LaneId::FIRST && !matches!(message, ControlMessage::Probe { .. });
        let copy = self.first.way.filter(|_| may_copy).and_then(|way| self.path.copy_way(way));
        let Some(lane) = self.lane(lane) else { return };
        let Some(way) = way.or(lane.way) else { return };
        let Some(pair) = lane.keyring.session(session).and_then(|session| session.control_pair()) else { return };
        let (size, copied) = append_twice(pair, way, copy, message, out);
        self.traffic.add_overhead(size);
        self.traffic.add_copied(copied);
    }

    /// Seals a probe that is padded to the length of a packet of `size` bytes. Zeros follow the probe, and its receiver ignores them.
    pub(crate) fn send_sized_probe(
        &mut self,
        session: SessionId,
        way: Way,
        probe: u64,
        size: u16,
        out: &mut SendBatch,
    ) {
        let Some(lane) = self.lane(LaneId::FIRST) else { return };
        let Some(pair) = lane.keyring.session(session).and_then(|session| session.control_pair()) else { return };
        out.end_run();
        let size = append_padded(pair, way, ControlMessage::Probe { id: probe }, size.into(), out);
        if size > 0 {
            out.end_run();
            out.note_sized_probe();
        }
        self.traffic.add_overhead(size);
    }

    /// Answers a probe that came from `source`.
    pub(crate) fn answer_probe(
        &mut self,
        session: SessionId,
        lane: LaneId,
        source: Way,
        probe: u64,
        out: &mut SendBatch,
    ) {
        // Behind a relay the source address is the relay's, and tells the peer nothing.
        let seen = source.direct().unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        self.send_control(session, lane, Some(source), ControlMessage::Answer { id: probe, seen }, out);
    }

    /// Acknowledges the data that came, on each lane. Receipts take the path of our own data, which the peer takes for alive as long as it hears us on it,
    /// and both paths while that path is in doubt. The path on which the data came is no better: it may work in that direction only.
    pub(crate) fn send_receipts(&mut self, out: &mut SendBatch) {
        let copy = self.first.way.and_then(|way| self.path.copy_way(way));
        let (mut size, mut copied) = (0, 0);
        for lane in self.lanes() {
            let Some(way) = lane.way else { continue };
            if let Some((receipt, pair)) = lane.keyring.receipt() {
                let copy = copy.filter(|_| lane.lane == LaneId::FIRST);
                let (once, again) = append_twice(pair, way, copy, receipt, out);
                (size, copied) = (size + once, copied + again);
            }
        }
        self.traffic.add_overhead(size);
        self.traffic.add_copied(copied);
    }
}

/// Appends one sealed message, and a copy of it on a second path; returns the size of each.
fn append_twice(
    pair: &mut Pair,
    way: Way,
    copy: Option<Way>,
    message: ControlMessage,
    out: &mut SendBatch,
) -> (usize, usize) {
    let start = out.position();
    let size = append_padded(pair, way, message, 0, out);
    (size, copy.map_or(0, |copy| out.repeat(start, way, copy.into(), || true)))
}

/// Appends one sealed message, padded with zeros to `least` bytes, and returns its size. The size is 0 if there was no room or the key is used up; the
/// message is repeated later in these cases.
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

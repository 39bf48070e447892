//! Joins pieces to packets ([`taut_wire::pieces`]). Pieces are authenticated before they come here, so a peer can fill only its own share.
//!
//! ```text
//! first piece ──▶ incomplete ──▶ all pieces ──▶ the packet
//!                     └── 1 s, or no room for a newer one of the peer: dropped
//! ```
//! A lane that is full drops the oldest packet of the peer with the most, so however many peers send incomplete packets, one with less finds room.
//! Nothing is allocated before the first piece. The copy is an exception to law 8.

use std::time::Duration;

use taut_base::{PeerId, ReceiverIndex, Time};
use taut_wire::ecn::Ecn;
use taut_wire::pieces::{MAX_PIECES, Piece, Plan};

use crate::numbers::NumberMap;

/// Incomplete packets of one peer at most, 4. The pieces of a packet leave together, so more than two are incomplete only after losses.
const PACKETS: usize = 4;

/// Bytes of one peer's incomplete packets at most, 128 KiB: two packets of the largest size.
pub(crate) const PER_PEER: usize = 128 * 1024;

/// Bytes of the incomplete packets of all peers of a lane at most, 1 MiB.
pub(crate) const PER_LANE: usize = 1024 * 1024;

/// Bytes that a packet costs beside its own, 128: its entry and the allocator's header.
const ENTRY: usize = 128;

/// Time after its first piece in which a packet has to be complete, 1 s: far more than the reordering of any path.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Interval at which expired packets are looked for, 250 ms: a flood of first pieces cannot make the lane look for them all the time.
const SWEEP_INTERVAL: Duration = Duration::from_millis(250);

/// A packet whose pieces have all arrived.
pub(crate) struct JoinedPacket {
    /// The packet, as the peer sealed it.
    pub(crate) bytes: Vec<u8>,
    /// Congestion marks of its datagrams: "congestion experienced" if any of them has that mark (RFC 3168, section 5.3).
    pub(crate) congestion: Ecn,
}

/// A packet some of whose pieces have arrived.
struct Incomplete {
    /// The pair that its pieces were sealed with, and its number there.
    key: (ReceiverIndex, u32),
    plan: Plan,
    bytes: Vec<u8>,
    /// One bit for each piece that has arrived.
    arrived: [u64; MAX_PIECES.div_ceil(64)],
    missing: usize,
    congestion: Ecn,
    deadline: Time,
}

/// A piece that contradicts an earlier one of its packet, or that arrived before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadPiece;

/// The incomplete packets of one lane, by peer, oldest first.
#[derive(Default)]
pub(crate) struct Reassembly {
    peers: NumberMap<PeerId, Vec<Incomplete>>,
    /// Cost of all packets.
    cost: usize,
    /// Packets that were dropped since [`Self::take_dropped`].
    dropped: u64,
    /// When expired packets are looked for, if there are packets.
    sweep: Option<Time>,
}

impl Reassembly {
    /// Takes a piece that a peer sealed with the pair `index` and whose datagram came with the marks `congestion`. Returns its packet if it is complete now.
    pub(crate) fn push(
        &mut self,
        id: PeerId,
        index: ReceiverIndex,
        piece: &Piece<'_>,
        congestion: Ecn,
        now: Time,
    ) -> Result<Option<JoinedPacket>, BadPiece> {
        self.expire(id, now);
        let key = (index, piece.id);
        let Some(place) = self.find(id, key).or_else(|| self.begin(id, key, piece.plan, now)) else { return Ok(None) };
        let Some(packet) = self.peers.get_mut(&id).and_then(|packets| packets.get_mut(place)) else { return Ok(None) };
        packet.take(piece, congestion)?;
        if packet.missing > 0 {
            return Ok(None);
        }
        let whole = self.remove(id, place);
        Ok(whole.map(|packet| JoinedPacket { bytes: packet.bytes, congestion: packet.congestion }))
    }

    /// Drops what a peer has sent so far.
    pub(crate) fn clear(&mut self, id: PeerId) {
        while self.remove(id, 0).is_some() {
            self.dropped += 1;
        }
    }

    /// Returns the number of packets that were dropped since the last call.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Returns when [`Self::handle_timeout`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.sweep
    }

    /// Drops packets that were not complete in time.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.sweep.is_none_or(|due| now < due) {
            return;
        }
        let peers: Vec<PeerId> = self.peers.keys().copied().collect();
        peers.into_iter().for_each(|id| self.expire(id, now));
        let next = self.peers.values().flatten().map(|packet| packet.deadline).min();
        self.sweep = next.map(|next| next.max(now + SWEEP_INTERVAL));
    }

    /// Drops the packets of a peer that were not complete in time.
    fn expire(&mut self, id: PeerId, now: Time) {
        while self.peers.get(&id).and_then(|packets| packets.first()).is_some_and(|oldest| now >= oldest.deadline) {
            self.dropped += u64::from(self.remove(id, 0).is_some());
        }
    }

    fn find(&self, id: PeerId, key: (ReceiverIndex, u32)) -> Option<usize> {
        self.peers.get(&id)?.iter().position(|packet| packet.key == key)
    }

    /// Makes room for a packet, at the cost of the peer's older ones, and begins it. Returns its place; `None` if there is no room.
    fn begin(&mut self, id: PeerId, key: (ReceiverIndex, u32), plan: Plan, now: Time) -> Option<usize> {
        let cost = ENTRY + plan.length();
        loop {
            let packets = self.peers.get(&id).map_or(&[][..], Vec::as_slice);
            let used: usize = packets.iter().map(Incomplete::cost).sum();
            let has_room = packets.len() < PACKETS && used + cost <= PER_PEER;
            if has_room && self.cost + cost <= PER_LANE {
                break;
            }
            self.dropped += 1;
            let drops = if has_room {
                self.largest().filter(|(_, most)| *most > used + cost).map_or(id, |(id, _)| id)
            } else {
                id
            };
            // Without a packet to drop, the new one is dropped.
            self.remove(drops, 0)?;
        }
        self.cost += cost;
        self.sweep.get_or_insert(now + TIMEOUT);
        let packets = self.peers.entry(id).or_default();
        packets.push(Incomplete {
            key,
            plan,
            bytes: vec![0; plan.length()],
            arrived: [0; MAX_PIECES.div_ceil(64)],
            missing: plan.count(),
            congestion: Ecn::NotEct,
            deadline: now + TIMEOUT,
        });
        Some(packets.len() - 1)
    }

    /// Returns the peer whose packets cost the most, and how much.
    #[cold]
    fn largest(&self) -> Option<(PeerId, usize)> {
        let costs = self.peers.iter().map(|(id, packets)| (*id, packets.iter().map(Incomplete::cost).sum()));
        costs.max_by_key(|(_, cost)| *cost)
    }

    fn remove(&mut self, id: PeerId, place: usize) -> Option<Incomplete> {
        let packets = self.peers.get_mut(&id)?;
        if place >= packets.len() {
            return None;
        }
        let packet = packets.remove(place);
        if packets.is_empty() {
            self.peers.remove(&id);
        }
        self.cost -= packet.cost();
        Some(packet)
    }
}

impl Incomplete {
    fn cost(&self) -> usize {
        ENTRY + self.plan.length()
    }

    /// Takes a piece of this packet.
    fn take(&mut self, piece: &Piece<'_>, congestion: Ecn) -> Result<(), BadPiece> {
        let (word, bit) = (piece.index / 64, 1 << (piece.index % 64));
        let arrived = self.arrived.get_mut(word).ok_or(BadPiece)?;
        let room = self.bytes.get_mut(piece.plan.range(piece.index)).ok_or(BadPiece)?;
        if self.plan != piece.plan || *arrived & bit != 0 || room.len() != piece.part.len() {
            return Err(BadPiece);
        }
        room.copy_from_slice(piece.part);
        *arrived |= bit;
        self.missing -= 1;
        if self.congestion != Ecn::Ce {
            self.congestion = congestion;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

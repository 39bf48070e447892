//! Messages that are a piece of a packet: they wait for the other pieces, and the packet then goes on like any other.

use std::ops::Range;

use taut_base::{PeerId, ReceiverIndex, Time};
use taut_path::Way;
use taut_wire::partial_checksum;
use taut_wire::pieces::{Piece, is_piece};

use super::LaneCore;
use super::inbound::{filtered, parse_inner, refusal, write};
use crate::drops::DropReason;
use crate::inbound_io::InboundIo;
use crate::reassembly::JoinedPacket;

impl LaneCore {
    /// Takes an authentic message that is not an IP packet. A piece is kept until its packet is complete; anything else is dropped. `data` is the run of
    /// datagrams that is being received, of which packets before this message may wait in the merger.
    #[cold]
    #[expect(
        clippy::too_many_arguments,
        reason = "one message with its position in the run and its outputs, no state in between"
    )]
    pub(super) fn piece(
        &mut self,
        source: &Way,
        data: &mut [u8],
        message: Range<usize>,
        index: ReceiverIndex,
        id: PeerId,
        io: &mut impl InboundIo,
        now: Time,
    ) {
        match self.join(&data[message], index, id, now) {
            Ok(None) => {}
            Ok(Some(packet)) => {
                // Packets that came before the last piece leave before the joined packet.
                let drops = &*self.drops;
                self.merger.flush(data, |run| write(io, drops, run));
                self.joined(source, packet, index, id, io, now);
            }
            Err(reason) => self.drops.add(reason, 1),
        }
        self.drops.add(DropReason::Incomplete, self.reassembly.take_dropped());
    }

    fn join(
        &mut self,
        message: &[u8],
        index: ReceiverIndex,
        id: PeerId,
        now: Time,
    ) -> Result<Option<JoinedPacket>, DropReason> {
        // A native peer sends no pieces (law 1).
        if !is_piece(message) || !self.is_taut_session(index, id, now) {
            return Err(DropReason::BadOuter);
        }
        let piece = Piece::parse(message).ok_or(DropReason::BadOuter)?;
        self.reassembly.push(id, index, &piece, self.congestion, now).map_err(|_| DropReason::BadOuter)
    }

    /// Returns true if the pair belongs to a session between Taut nodes.
    fn is_taut_session(&mut self, index: ReceiverIndex, id: PeerId, now: Time) -> bool {
        let Some(lane) = self.peers.get_mut(id).and_then(|peer| peer.lane(index.lane())) else { return false };
        let Some((session, _)) = lane.keyring.receiving(index, &self.limits, now) else { return false };
        lane.keyring.session(session).is_some_and(|session| session.has_receipts())
    }

    /// Checks a packet that came in pieces like one that came whole, and writes it to the TUN.
    fn joined(
        &mut self,
        source: &Way,
        joined: JoinedPacket,
        index: ReceiverIndex,
        id: PeerId,
        io: &mut impl InboundIo,
        now: Time,
    ) {
        let JoinedPacket { mut bytes, congestion } = joined;
        let Some(peer) = self.peers.get_mut(id) else { return };
        let pair = peer.lane(index.lane()).and_then(|lane| lane.keyring.receiving(index, &self.limits, now));
        let allows_partial = pair.is_some_and(|(_, pair)| pair.allows_partial_checksums());
        let partial = allows_partial && partial_checksum::clear_flag(&mut bytes);
        let Some(inner) = parse_inner(&bytes, partial) else { return self.drops.add(DropReason::BadOuter, 1) };
        let refused = refusal(&self.routes, id, &inner, peer.allowed_ends)
            .or_else(|| filtered(&self.routes, &mut peer.gate, id, &bytes, now));
        if let Some(reason) = refused {
            return self.refused_packet(reason, id, &bytes, now);
        }
        peer.allowed_ends = Some(inner.ends);
        peer.traffic.add_received(inner.bytes, source.is_relayed());
        let of_run = std::mem::replace(&mut self.congestion, congestion);
        let whole = 0..bytes.len();
        self.deliver(&mut bytes, whole, &inner, index, io);
        self.congestion = of_run;
        let drops = &*self.drops;
        self.merger.flush(&mut bytes, |run| write(io, drops, run));
    }
}

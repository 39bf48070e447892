//! The way in: UDP → session by index → open in place → (join pieces) → source check → merge → TUN.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use taut_base::{LaneId, PeerId, ReceiverIndex, SessionId, Time};
use taut_filter::Classified;
use taut_node::{FromLane, Routes};
use taut_path::Way;
use taut_tun::flow;
use taut_tunnel::{Acknowledged, OpenError};
use taut_udp::Local;
use taut_wire::control::ControlMessage;
use taut_wire::ecn::{self, Ecn};
use taut_wire::icmp::ErrorAbout;
use taut_wire::ip;
use taut_wire::merge::Run;
use taut_wire::mss;
use taut_wire::partial_checksum::{self, PartialChecksum};
use taut_wire::relay;
use taut_wire::wireguard::{DATA_HEADER, Message, classify};

use super::LaneCore;
use crate::batch::SendBatch;
use crate::drops::{DropCounts, DropReason};
use crate::inbound_io::InboundIo;
use crate::ingress::HandshakeVerdict;
use crate::peer_gate::PeerGate;

impl LaneCore {
    /// Sets the address of ours to which the datagrams that [`Self::inbound`] gets next came, and their congestion marks.
    pub fn arrived_at(&mut self, local: Option<Local>, congestion: Ecn) {
        self.locals.set_arrival(local);
        self.congestion = congestion;
    }

    /// Takes a run of datagrams from one sender, each of `segment_size` bytes and the last perhaps shorter. Packets in them are written to the TUN through
    /// `io`; answers are appended to `out`. Returns the peer of the last authentic datagram, if any was authentic.
    pub fn inbound(
        &mut self,
        source: SocketAddr,
        data: &mut [u8],
        segment_size: usize,
        io: &mut impl InboundIo,
        out: &mut SendBatch,
        now: Time,
    ) -> Option<PeerId> {
        if data.is_empty() {
            self.drops.add(DropReason::NotWireGuard, 1);
        }
        let is_relay = self.relays.has(source);
        let mut way = Way::Direct(source);
        let mut last: Option<(PeerId, Way)> = None;
        let mut heard = None;
        for start in (0..data.len()).step_by(segment_size.max(1)) {
            let mut datagram = start..data.len().min(start + segment_size);
            // Did it come directly, or behind a relay's header?
            match relay::id(&data[datagram.clone()]).filter(|_| is_relay) {
                None if way.is_relayed() => way = Way::Direct(source),
                None => {}
                Some(id) => {
                    way = Way::Relayed { relay: source, id };
                    datagram.start += relay::HEADER;
                }
            }
            let peer = match classify(&data[datagram.clone()]) {
                Ok(Message::Data(message)) => {
                    let (index, counter) = (ReceiverIndex(message.receiver), message.counter);
                    self.data(&way, data, datagram, index, counter, io, out, now)
                }
                Ok(handshake) => {
                    // Handshakes belong to no lane.
                    self.handshake(way.to_lane(LaneId::FIRST), &handshake, &data[datagram], out, now);
                    None
                }
                Err(_) if !way.is_relayed() => {
                    self.relay_frame(source, &data[datagram], now);
                    None
                }
                Err(_) => self.drop_inbound(DropReason::NotWireGuard),
            };
            // Timers and source addresses are updated once per peer and run, not per packet.
            if peer != last.map(|(id, _)| id) {
                if let Some((id, way)) = last {
                    self.heard(id, way, now);
                    heard = Some(id);
                }
                last = peer.map(|id| (id, way));
            }
        }
        let drops = &*self.drops;
        self.merger.flush(data, |run| write(io, drops, run));
        if let Some((id, way)) = last {
            self.heard(id, way, now);
            heard = Some(id);
        }
        heard
    }

    /// Updates what a peer's authentic packets change, once per peer and run: the source address for its endpoint, and its timers.
    fn heard(&mut self, id: PeerId, way: Way, now: Time) {
        if let Some(endpoint) = way.direct().filter(|endpoint| self.locals.learns_from(*endpoint, now)) {
            self.note_local(id, way, endpoint);
        }
        self.schedule(id);
    }

    fn note_local(&mut self, id: PeerId, way: Way, endpoint: SocketAddr) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let Some(lane) = peer.lanes().find(|lane| lane.way == Some(way)) else {
            // Packets do not go there, but an answer to its probe does, for instance.
            return self.locals.remember_asker(endpoint);
        };
        if self.locals.note(&mut lane.noted, endpoint) && self.locals.is_crowded(self.peers.len()) {
            let endpoints: HashSet<SocketAddr> = self.peers.endpoints().collect();
            self.locals.keep_only(&endpoints);
        }
    }

    /// Opens a data message in place and passes its packet on to the TUN. Returns the peer that sent it, if it was authentic.
    #[expect(
        clippy::too_many_arguments,
        reason = "one packet with its position in the run and its outputs, no state in between"
    )]
    fn data(
        &mut self,
        source: &Way,
        data: &mut [u8],
        datagram: Range<usize>,
        index: ReceiverIndex,
        counter: u64,
        io: &mut impl InboundIo,
        out: &mut SendBatch,
        now: Time,
    ) -> Option<PeerId> {
        // Which peer's session is it? A response and the first data may overtake the agent's command.
        let id = match self.peers.by_index(index) {
            Some(id) => id,
            None => {
                let own = index.lane().served_by(self.placement.lanes());
                // A relay's header is handed off, too: the other lane takes it off.
                let header = if source.is_relayed() { relay::HEADER } else { 0 };
                let (from, frame) = (source.first_hop(), datagram.start - header..datagram.end);
                if own != self.own && io.hand_off(own, from, &data[frame.clone()]) {
                    return None;
                }
                while let Some(command) = io.next_command() {
                    self.command(command, out, now);
                }
                match self.peers.by_index(index) {
                    Some(id) => id,
                    None => {
                        // The first lane has the sessions from before this lane was started.
                        let may_know = own == self.own && own != LaneId::FIRST && !self.by_peer;
                        if may_know && io.hand_off(LaneId::FIRST, from, &data[frame]) {
                            return None;
                        }
                        return self.drop_inbound(DropReason::UnknownIndex);
                    }
                }
            }
        };
        let Some(peer) = self.peers.get_mut(id) else { return self.drop_inbound(DropReason::UnknownIndex) };
        let sealed = datagram.start + DATA_HEADER..datagram.end;
        let on = if self.by_peer { LaneId::FIRST } else { index.lane() };
        let Some(lane) = peer.lane(on) else { return self.drop_inbound(DropReason::UnknownIndex) };
        let Some((session, pair)) = lane.keyring.receiving(index, &self.limits, now) else {
            return self.control(*source, id, &mut data[sealed], index, counter, out, now);
        };

        // Is it authentic, and new?
        let length = match pair.open(counter, &mut data[sealed.clone()]) {
            Ok(plain) => plain.len(),
            Err(OpenError::Replayed) => {
                let reason = peer.reason_for_repeat(on, *source, now);
                return self.drop_inbound(reason);
            }
            Err(OpenError::NotAuthentic | OpenError::CounterAtLimit) => {
                return self.drop_inbound(DropReason::NotAuthentic);
            }
        };
        let packet = sealed.start..sealed.start + length;
        // The mark of a partial checksum is removed first: with it, the packet is not a valid IP packet.
        let partial = pair.allows_partial_checksums() && partial_checksum::clear_flag(&mut data[packet.clone()]);

        // Which timers does it move, and did it come on the path that packets go?
        let confirms = lane.keyring.received(session, length > 0, &self.limits, now);
        let needs_handshake = lane.keyring.needs_handshake_to_receive(&self.limits, now);
        let elsewhere = lane.way.as_ref() != Some(source);
        peer.traffic.add_outer_received(datagram.len());
        let mut active = false;
        if length > 0 {
            if on == LaneId::FIRST {
                peer.path.heard(now);
            }
            active = peer.path.reports_active(now);
        }

        // May the peer send from that address, and to this one? Then the packet goes to the TUN, together with its neighbours.
        if length > 0 {
            match parse_inner(&data[packet.clone()], partial) {
                None => self.piece(source, data, packet, index, id, io, now),
                Some(inner) => match refusal(&self.routes, id, &inner, peer.allowed_ends)
                    .or_else(|| filtered(&self.routes, &mut peer.gate, id, &data[packet.clone()], now))
                {
                    Some(reason) => self.refused_packet(reason, id, &data[packet], now),
                    None => {
                        peer.allowed_ends = Some(inner.ends);
                        peer.traffic.add_received(inner.bytes, source.is_relayed());
                        if self.load.wants_flow() {
                            self.load.sampled(id, flow(&data[packet.clone()]));
                        }
                        if self.socket_queue.is_long() {
                            self.mark_inbound(id, &mut data[packet.start..packet.start + inner.bytes]);
                        }
                        self.deliver(data, packet, &inner, index, io);
                    }
                },
            }
        }

        if elsewhere {
            self.heard_elsewhere(id, on, *source, now);
        }
        if confirms {
            self.confirmed(id, session, out, now);
        }
        if needs_handshake {
            self.outbox.push(FromLane::WantsHandshake(id));
        }
        if active {
            self.outbox.push(FromLane::Active { peer: id });
        }
        Some(id)
    }

    /// Counts a packet that the source check or the filter refused, and reports a sample of those that the filter refused.
    #[cold]
    pub(super) fn refused_packet(&mut self, reason: DropReason, id: PeerId, packet: &[u8], now: Time) {
        self.drops.add(reason, 1);
        let by_filter = matches!(reason, DropReason::Policy | DropReason::PolicyFragment | DropReason::PolicyError);
        let Some(peer) = self.peers.get_mut(id).filter(|_| by_filter) else { return };
        if let Ok(packet) = ip::Packet::parse(packet)
            && peer.gate.may_report(now)
        {
            let port = Classified::of(&packet).ok().and_then(|packet| packet.port());
            let (protocol, destination) = (packet.protocol(), packet.destination());
            self.outbox.push(FromLane::Filtered { peer: id, destination, protocol, port });
        }
    }

    /// Passes a packet to the TUN, perhaps together with its neighbours. Padding may follow the packet.
    pub(super) fn deliver(
        &mut self,
        data: &mut [u8],
        packet: Range<usize>,
        parsed: &InnerPacket,
        index: ReceiverIndex,
        io: &mut impl InboundIo,
    ) {
        let mut partial = parsed.partial;
        let inner = &mut data[packet.start..packet.start + parsed.bytes];
        if ecn::decapsulate(inner, self.congestion).is_err() {
            return self.drops.add(DropReason::CongestionMet, 1);
        }
        if parsed.opens_connection {
            mss::lower(inner, self.mtu, partial.is_some());
        }
        if !self.vnet_header
            && let Some(partial) = partial.take()
        {
            // Without a virtio header the kernel cannot be told that the checksum is partial.
            partial.complete(inner);
        }
        let drops = &*self.drops;
        // The packet was parsed a moment ago, so this cannot fail.
        let _ = self.merger.push(data, packet, index.0, partial, |run| write(io, drops, run));
    }

    /// Follows a packet that came on another path than packets go: a peer that roams is there now, and the agent learns of it.
    #[cold]
    fn heard_elsewhere(&mut self, id: PeerId, on: LaneId, way: Way, now: Time) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let (roams, chosen) = (peer.path.roams(), peer.path.chosen());
        let Some(lane) = peer.lane(on) else { return };
        let former = lane.way;
        // A closed lane keeps the way of a former path of the peer. Its receipts have to follow the peer to the present one, and go nowhere else: a hostile peer forges
        // the source of its packets.
        let leads_there = |lane: Way| chosen.is_some_and(|chosen| chosen.is_beside(&lane));
        let left = on != LaneId::FIRST && leads_there(way) && !former.is_some_and(leads_there);
        let follows = roams || left || on == LaneId::FIRST && former.is_none();
        if follows {
            lane.way = Some(way);
        }
        // The path of the first lane is the peer's.
        if on != LaneId::FIRST {
            return;
        }
        if follows {
            self.ingress.peer_moved(id, former, Some(way));
        } else {
            peer.path.heard_elsewhere(now);
        }
        if roams {
            self.outbox.push(FromLane::Moved { peer: id, way });
        } else if peer.path.reports_arrival(way, now) {
            self.outbox.push(FromLane::Arrived { peer: id, way });
        }
    }

    /// Uses a session that we answered for, because the peer used it: packets that waited may leave.
    fn confirmed(&mut self, id: PeerId, session: SessionId, out: &mut SendBatch, now: Time) {
        self.outbox.push(FromLane::Confirmed { peer: id, id: session });
        self.report_retired(id);
        self.send_staged(id, out, now);
    }

    /// Opens a message under an index that belongs to no data pair, and acts on it: probes are answered and receipts noted here, other messages go to the
    /// agent. Returns the peer that sent it, if it was authentic.
    #[expect(clippy::too_many_arguments, reason = "one message with its source and the fields of its header")]
    fn control(
        &mut self,
        source: Way,
        id: PeerId,
        sealed: &mut [u8],
        index: ReceiverIndex,
        counter: u64,
        out: &mut SendBatch,
        now: Time,
    ) -> Option<PeerId> {
        let Some(peer) = self.peers.get_mut(id) else { return self.drop_inbound(DropReason::UnknownIndex) };
        let opened = match peer.open_control(source, sealed, index, counter, &self.limits, now) {
            Ok(opened) => opened,
            Err(reason) => return self.drop_inbound(reason),
        };
        let (session, lane) = (opened.session, index.lane());
        if opened.elsewhere {
            self.heard_elsewhere(id, lane, source, now);
        }
        if opened.confirms {
            self.confirmed(id, session, out, now);
        }

        let peer = self.peers.get_mut(id)?;
        let done = match opened.message {
            Some(ControlMessage::Probe { id: probe }) => {
                let may = peer.control.may_answer(now);
                if may {
                    peer.answer_probe(session, lane, source, probe, out);
                }
                may.then_some(()).ok_or(DropReason::ControlRate)
            }
            Some(ControlMessage::Receipt { suite, counter, longest }) => {
                match peer.acknowledge(session, lane, suite, counter, longest, now) {
                    Acknowledged::Impossible => Err(DropReason::BadControl),
                    Acknowledged::LongLost if peer.path.reports_long_lost(now) => {
                        self.outbox.push(FromLane::LongLost { peer: id });
                        Ok(())
                    }
                    Acknowledged::Arrived | Acknowledged::LongLost => Ok(()),
                }
            }
            Some(message) => {
                if let ControlMessage::Answer { id: probe, .. } = message {
                    peer.base_round_trip.answered(probe, now);
                }
                let may = peer.control.may_reach_agent(now);
                if may {
                    self.outbox.push(FromLane::Control { peer: id, session, lane, source, message });
                }
                may.then_some(()).ok_or(DropReason::ControlRate)
            }
            None => Err(DropReason::BadControl),
        };
        if let Err(reason) = done {
            self.drops.add(reason, 1);
        }
        Some(id)
    }

    /// Passes a handshake message to the agent, if its sender may take that much of the agent's time (protocol.md 2.4).
    fn handshake(&mut self, source: Way, message: &Message<'_>, bytes: &[u8], out: &mut SendBatch, now: Time) {
        let peers = &self.peers;
        let has_session = |index| peers.by_index(ReceiverIndex(index)).is_some();
        match self.ingress.judge(source, message, bytes, has_session, now) {
            HandshakeVerdict::Passed => self.will_answer(source),
            HandshakeVerdict::Dropped(reason) => self.drops.add(reason, 1),
            HandshakeVerdict::Cookie(reply) => {
                self.will_answer(source);
                // Replies to a flood never take the room of data.
                let write = |room: &mut [u8]| {
                    room.copy_from_slice(&reply);
                    Ok::<(), std::convert::Infallible>(())
                };
                let sent = out.has_room() && out.append(source, reply.len(), write).is_some();
                self.drops.add(if sent { DropReason::CookieAsked } else { DropReason::HandshakeRate }, 1);
            }
        }
    }

    fn will_answer(&mut self, source: Way) {
        if let Some(endpoint) = source.direct() {
            self.locals.remember_asker(endpoint);
        }
    }

    /// Passes a frame of a relay or a STUN answer to the agent; drops any other datagram that is no WireGuard message.
    fn relay_frame(&mut self, source: SocketAddr, bytes: &[u8], now: Time) {
        match self.relays.receive(source, bytes, now) {
            Ok(bytes) => self.outbox.push(FromLane::Datagram { source, bytes }),
            Err(reason) => self.drops.add(reason, 1),
        }
    }

    /// Counts a received datagram that is dropped.
    fn drop_inbound(&self, reason: DropReason) -> Option<PeerId> {
        self.drops.add(reason, 1);
        None
    }
}

/// What the way to the TUN needs to know of a packet that a peer sealed.
pub(super) struct InnerPacket {
    /// Source and destination.
    pub(super) ends: (IpAddr, IpAddr),
    pub(super) bytes: usize,
    /// The position of its checksum, if that is partial.
    partial: Option<PartialChecksum>,
    /// True if it is a SYN of TCP.
    opens_connection: bool,
    source_routed: bool,
    /// The destination of the quoted packet, if it is an ICMP error.
    error: ErrorAbout,
}

/// Reads the packet that a peer sealed. Returns `None` if it is no IP packet, or if its checksum is said to be partial and cannot be.
pub(super) fn parse_inner(bytes: &[u8], partial: bool) -> Option<InnerPacket> {
    let inner = ip::Packet::parse(bytes).ok()?;
    let partial = if partial { Some(PartialChecksum::of(&inner)?) } else { None };
    let ends = (inner.source(), inner.destination());
    Some(InnerPacket {
        ends,
        bytes: inner.bytes().len(),
        partial,
        opens_connection: mss::opens_connection(&inner),
        source_routed: inner.is_source_routed(),
        error: ErrorAbout::of(&inner),
    })
}

/// Returns the reason to drop a packet of the peer: it may not send from that source, or the destination is not ours. `allowed` are the ends of the last
/// packet that was not dropped.
#[inline]
pub(super) fn refusal(
    routes: &Routes,
    id: PeerId,
    inner: &InnerPacket,
    allowed: Option<(IpAddr, IpAddr)>,
) -> Option<DropReason> {
    if inner.error != ErrorAbout::Nothing && !concerns(routes, id, inner.error) {
        return Some(DropReason::ForeignError);
    }
    if allowed == Some(inner.ends) && !inner.source_routed {
        return None;
    }
    let (source, destination) = inner.ends;
    if !routes.may_send(id, source) {
        return Some(DropReason::SourceNotAllowed);
    }
    (!routes.delivers_to(destination, inner.source_routed)).then_some(DropReason::DestinationNotOurs)
}

/// Returns the reason of the packet filter to drop a packet of the peer, if this node has a filter.
#[inline]
pub(super) fn filtered(
    routes: &Routes,
    peer: &mut PeerGate,
    id: PeerId,
    packet: &[u8],
    now: Time,
) -> Option<DropReason> {
    let gate = routes.gate()?;
    peer.refusal(gate, id, &ip::Packet::parse(packet).ok()?, now)
}

/// Returns true if an ICMP error is about a packet to this peer. The kernel believes an error without asking who sent it: a peer could otherwise cut the packets to all
/// other hosts down to 552 bytes, or end connections to them (fault I3).
#[cold]
fn concerns(routes: &Routes, id: PeerId, error: ErrorAbout) -> bool {
    matches!(error, ErrorAbout::PacketTo(address) if routes.may_send(id, address))
}

pub(super) fn write(io: &mut impl InboundIo, drops: &DropCounts, run: Run<'_>) {
    let packets = run.packets() as u64;
    if !io.write(run) {
        drops.add(DropReason::TunWrite, packets);
    }
}

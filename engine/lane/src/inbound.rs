//! The way in: UDP → session by index → open in place → source check → merge → TUN.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use taut_base::{LaneId, PeerId, ReceiverIndex, SessionId, Time};
use taut_node::{FromLane, Routes};
use taut_path::Way;
use taut_tunnel::OpenError;
use taut_wire::ecn;
use taut_wire::ip;
use taut_wire::merge::Run;
use taut_wire::partial_checksum::{self, PartialChecksum};
use taut_wire::relay;
use taut_wire::wireguard::{DATA_HEADER, Message, classify};

use crate::batch::SendBatch;
use crate::drops::{Drop, DropCounts};
use crate::ingress::Verdict;
use crate::lane_core::LaneCore;
use crate::ports::InboundPorts;

impl LaneCore {
    /// A run of datagrams from one sender, each `segment_size` bytes and the last perhaps shorter, becomes writes to the TUN through `ports`.
    /// What has to be answered is appended to `out`. Returns whose the last authentic one was, if any was.
    pub fn inbound(
        &mut self,
        source: SocketAddr,
        data: &mut [u8],
        segment_size: usize,
        ports: &mut impl InboundPorts,
        out: &mut SendBatch,
        now: Time,
    ) -> Option<PeerId> {
        if data.is_empty() {
            self.drops.add(Drop::NotWireGuard, 1);
        }
        let is_relay = self.relays.has(source);
        let mut way = Way::Direct(source);
        let mut last: Option<(PeerId, Way)> = None;
        let mut heard = None;
        for start in (0..data.len()).step_by(segment_size.max(1)) {
            let mut datagram = start..data.len().min(start + segment_size);
            // Is it what it is, or behind a relay's header?
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
                    self.data(&way, data, datagram, index, counter, ports, out, now)
                }
                Ok(handshake) => {
                    self.handshake(way, &handshake, &data[datagram], out, now);
                    None
                }
                Err(_) if !way.is_relayed() => {
                    self.foreign(source, &data[datagram], now);
                    None
                }
                Err(_) => {
                    self.drops.add(Drop::NotWireGuard, 1);
                    None
                }
            };
            // Timers are looked at once per peer and run, not per packet.
            if peer != last.map(|(id, _)| id) {
                if let Some((id, way)) = last {
                    self.heard(id, way, now);
                    heard = Some(id);
                }
                last = peer.map(|id| (id, way));
            }
        }
        let drops = &*self.drops;
        self.merger.flush(data, |run| write(ports, drops, run));
        if let Some((id, way)) = last {
            self.heard(id, way, now);
            heard = Some(id);
        }
        heard
    }

    /// What is done once per peer and run.
    fn heard(&mut self, id: PeerId, way: Way, now: Time) {
        self.note_local(id, way, now);
        self.schedule(id);
    }

    /// A data message: opened in place, then on to the TUN. Returns whose it was, if it was authentic.
    #[expect(
        clippy::too_many_arguments,
        reason = "one packet with where it lies, one place to go, no state in between"
    )]
    fn data(
        &mut self,
        source: &Way,
        data: &mut [u8],
        datagram: Range<usize>,
        index: ReceiverIndex,
        counter: u64,
        ports: &mut impl InboundPorts,
        out: &mut SendBatch,
        now: Time,
    ) -> Option<PeerId> {
        // Whose session is it? A response and the first data may overtake the agent's command.
        let id = match self.by_index.get(&index) {
            Some(id) => *id,
            None => {
                let own = index.lane().served_by(self.lanes);
                // By a relay, only the first lane is reached.
                let from = source.direct().filter(|_| own != self.own);
                if from.is_some_and(|from| ports.hand_over(own, from, &data[datagram.clone()])) {
                    return None;
                }
                while let Some(command) = ports.next_command() {
                    self.command(command, out, now);
                }
                match self.by_index.get(&index) {
                    Some(id) => *id,
                    None => return self.refuse(Drop::UnknownIndex),
                }
            }
        };
        let Some(peer) = self.peers.get_mut(&id) else { return self.refuse(Drop::UnknownIndex) };
        let sealed = datagram.start + DATA_HEADER..datagram.end;
        let Some(side) = peer.side(index.lane()) else { return self.refuse(Drop::UnknownIndex) };
        let Some((session, pair)) = side.keyring.receiving(index, &self.limits, now) else {
            return self.control(*source, id, &mut data[sealed], index, counter, out, now);
        };

        // Is it authentic, and new?
        let length = match pair.open(counter, &mut data[sealed.clone()]) {
            Ok(plain) => plain.len(),
            Err(OpenError::Replayed) => return self.refuse_again(id, index.lane(), *source, now),
            Err(OpenError::NotAuthentic | OpenError::CounterAtLimit) => return self.refuse(Drop::NotAuthentic),
        };
        let packet = sealed.start..sealed.start + length;
        // Without the mark being taken off, a marked packet is none.
        let marked = pair.allows_partial_checksums() && partial_checksum::clear_flag(&mut data[packet.clone()]);

        // The session's timers, and where the peer is now.
        let confirmed = side.keyring.received(session, length > 0, &self.limits, now);
        let wishes_handshake = side.keyring.needs_handshake_to_receive(&self.limits, now);
        let elsewhere = side.way.as_ref() != Some(source);
        peer.traffic.add_outer_received(datagram.len());
        let mut active = false;
        if length > 0 {
            if index.lane() == LaneId::FIRST {
                peer.path.heard(now);
            }
            active = peer.path.is_news(now);
        }

        // May the peer send from that address, and to this one? Then to the TUN, together with its neighbours.
        if length > 0 {
            match look(&data[packet.clone()], marked) {
                None => self.drops.add(Drop::BadOuter, 1),
                Some(inner) => match refusal(&self.routes, id, &inner, peer.last_ends) {
                    Some(reason) => self.drops.add(reason, 1),
                    None => {
                        peer.last_ends = Some(inner.ends);
                        peer.traffic.add_received(inner.bytes, source.is_relayed());
                        self.deliver(data, packet, inner.bytes, index, inner.vouched, ports);
                    }
                },
            }
        }

        if elsewhere {
            self.hears_elsewhere(id, index.lane(), *source, now);
        }
        if confirmed {
            self.confirmed(id, session, out, now);
        }
        if wishes_handshake {
            self.say(FromLane::WantsHandshake(id));
        }
        if active {
            self.say(FromLane::Active { peer: id });
        }
        Some(id)
    }

    /// A packet of `bytes` bytes that may go to the TUN, perhaps together with its neighbours; padding may stand behind it.
    fn deliver(
        &mut self,
        data: &mut [u8],
        packet: Range<usize>,
        bytes: usize,
        index: ReceiverIndex,
        mut vouched: Option<PartialChecksum>,
        ports: &mut impl InboundPorts,
    ) {
        let inner = &mut data[packet.start..packet.start + bytes];
        if ecn::decapsulate(inner, self.congestion).is_err() {
            return self.drops.add(Drop::CongestionMet, 1);
        }
        if !self.vnet_header
            && let Some(vouched) = vouched.take()
        {
            // Nobody can be told that the checksum is partial.
            vouched.complete(inner);
        }
        let drops = &*self.drops;
        // Parsed a moment ago, so it is an IP packet.
        let _ = self.merger.push(data, packet, index.0, vouched, |run| write(ports, drops, run));
    }

    /// The peer used a session that we had answered for: what waited may go.
    pub(crate) fn confirmed(&mut self, id: PeerId, session: SessionId, out: &mut SendBatch, now: Time) {
        self.say(FromLane::Confirmed { peer: id, id: session });
        self.collect_retired(id);
        self.send_staged(id, out, now);
    }

    /// A handshake message goes to the agent, if its sender may ask so much (protocol.md 2.4).
    fn handshake(&mut self, source: Way, message: &Message<'_>, bytes: &[u8], out: &mut SendBatch, now: Time) {
        let by_index = &self.by_index;
        let has_session = |index| by_index.contains_key(&ReceiverIndex(index));
        match self.ingress.judge(source, message, bytes, has_session, now) {
            Verdict::Taken => self.note_asked(source),
            Verdict::Dropped(reason) => self.drops.add(reason, 1),
            Verdict::Cookie(reply) => {
                self.note_asked(source);
                // What a flood asks for never takes the room of data.
                let write = |room: &mut [u8]| {
                    room.copy_from_slice(&reply);
                    Ok::<(), std::convert::Infallible>(())
                };
                let told = out.has_room() && out.append(source, reply.len(), write).is_some();
                self.drops.add(if told { Drop::CookieAsked } else { Drop::HandshakeRate }, 1);
            }
        }
    }

    /// What came a second time on a lane of a peer's session: a copy, where the peer sends some.
    pub(crate) fn refuse_again(&mut self, id: PeerId, lane: LaneId, source: Way, now: Time) -> Option<PeerId> {
        let peer = self.peers.get(&id).filter(|_| lane == LaneId::FIRST);
        let copy = peer.is_some_and(|peer| peer.path.is_copy(source, peer.first.way, now));
        self.refuse(if copy { Drop::Duplicate } else { Drop::Replayed })
    }

    pub(crate) fn refuse(&self, reason: Drop) -> Option<PeerId> {
        self.drops.add(reason, 1);
        None
    }
}

/// What the way to the TUN needs to know of a packet that a peer sealed.
struct Inner {
    /// Source and destination.
    ends: (IpAddr, IpAddr),
    bytes: usize,
    /// Where its checksum stands if the peer vouches for it.
    vouched: Option<PartialChecksum>,
    source_routed: bool,
}

/// Reads the packet that a peer sealed. `None` if it is no IP packet, or none that a mark could stand on.
fn look(bytes: &[u8], marked: bool) -> Option<Inner> {
    let inner = ip::Packet::parse(bytes).ok()?;
    let vouched = if marked { Some(PartialChecksum::of(&inner)?) } else { None };
    let ends = (inner.source(), inner.destination());
    Some(Inner { ends, bytes: inner.bytes().len(), vouched, source_routed: inner.is_source_routed() })
}

/// Why a packet of the peer goes no further: it may not send from that source, or the destination is not ours. `allowed` are the ends of
/// the last packet that passed.
#[inline]
fn refusal(routes: &Routes, id: PeerId, inner: &Inner, allowed: Option<(IpAddr, IpAddr)>) -> Option<Drop> {
    if allowed == Some(inner.ends) && !inner.source_routed {
        return None;
    }
    let (source, destination) = inner.ends;
    if routes.lookup(source) != Some(id) {
        return Some(Drop::SourceNotAllowed);
    }
    (!routes.delivers_to(destination, inner.source_routed)).then_some(Drop::DestinationNotOurs)
}

fn write(ports: &mut impl InboundPorts, drops: &DropCounts, run: Run<'_>) {
    let packets = run.packets() as u64;
    if !ports.write(run) {
        drops.add(Drop::TunWrite, packets);
    }
}

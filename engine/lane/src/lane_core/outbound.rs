//! The way out: TUN → route → lane → segment → seal → send batch.

use taut_base::{LaneId, PeerId, Time};
use taut_node::FromLane;
use taut_tun::flow;
use taut_tunnel::{Limits, Session};
use taut_wire::control::ControlMessage;
use taut_wire::ecn::Ecn;
use taut_wire::ip;
use taut_wire::relay;
use taut_wire::split::Split;
use taut_wire::vnet::VnetHeader;
use taut_wire::wireguard::DATA_HEADER;

use super::LaneCore;
use crate::batch::{Destination, SEALED_SUPERPACKET_MAX, SendBatch};
use crate::drops::{DropCounts, DropReason};
use crate::held::HeldEntry;
use crate::peers::{LanePeer, SessionLane};
use crate::selector::{Decision, Mark};

/// What the caller hands off to the first lane, in this order. It is empty on a node with one lane, and on the first lane itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandOff {
    /// True if the first lane seals the packet that the caller passed in.
    pub packet: bool,
    /// A mark behind all packets that were handed off so far.
    pub mark: Option<Mark>,
}

/// What [`LaneCore::release`] leaves to the caller: to hand these off to the first lane, in this order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// A packet that was held and that the first lane seals.
    pub packet: Option<Box<[u8]>>,
    /// A mark behind all packets that were handed off so far.
    pub mark: Option<Mark>,
}

/// Where a packet comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PacketOrigin {
    /// This lane read it from the TUN just now.
    Read,
    /// Another lane read it and handed it off to this lane, the first.
    HandedOff,
    /// It was held (see `held`).
    Held { handed_off: bool },
    /// It waited for a session. Other packets queue up behind such packets, which keeps their order.
    Staged,
}

/// What becomes of a packet.
enum SendOutcome {
    /// It was sealed, waits for a session, or was dropped.
    Done,
    /// The first lane seals it.
    FirstLane,
    /// It has to wait, with all later packets of this peer.
    Hold(PeerId),
}

impl LaneCore {
    /// Seals one packet or superpacket, as read from the TUN, into `out`, which [has room](SendBatch::has_room). Returns what the caller hands off to the
    /// first lane.
    pub fn outbound(&mut self, read: &[u8], out: &mut SendBatch, now: Time) -> HandOff {
        let mut mark = None;
        let packet = match self.send_out(read, PacketOrigin::Read, &mut mark, out, now) {
            SendOutcome::Done => false,
            SendOutcome::FirstLane => true,
            SendOutcome::Hold(id) => {
                self.hold(id, read, false, now);
                false
            }
        };
        HandOff { packet, mark: mark.and_then(|mark| self.mark_or_hand_off(mark, out)) }
    }

    /// Seals a packet that another lane read and handed off to this lane, the first.
    pub fn outbound_handed_off(&mut self, read: &[u8], out: &mut SendBatch, now: Time) {
        if let SendOutcome::Hold(id) = self.send_out(read, PacketOrigin::HandedOff, &mut None, out, now) {
            self.hold(id, read, true, now);
        }
    }

    /// Returns true if [`Self::release`] has something to do.
    pub fn has_released(&self) -> bool {
        self.held.ready().is_some()
    }

    /// Tries to send one packet that was held and whose wait may be over; `out` has room for it. Returns `None` if there is no such packet, else what the
    /// caller hands off to the first lane.
    pub fn release(&mut self, out: &mut SendBatch, now: Time) -> Option<Released> {
        let id = self.held.ready()?;
        let (bytes, handed_off) = match self.held.pop(id) {
            Some(HeldEntry::Packet { bytes, handed_off }) => (bytes, handed_off),
            Some(HeldEntry::Mark(barrier)) => {
                self.send_mark(Mark { peer: id, barrier }, out);
                return Some(Released::default());
            }
            None => {
                self.held.wait(id);
                return Some(Released::default());
            }
        };
        let mut mark = None;
        let packet = match self.send_out(&bytes, PacketOrigin::Held { handed_off }, &mut mark, out, now) {
            SendOutcome::Done => None,
            SendOutcome::FirstLane => Some(bytes),
            SendOutcome::Hold(still) if still == id => {
                self.held.put_back(id, HeldEntry::Packet { bytes, handed_off });
                self.held.wait(id);
                if self.held.is_suspended() {
                    self.give_up_changes(id, now);
                }
                self.schedule(id);
                None
            }
            // The routes changed, and its destination belongs to another peer now.
            SendOutcome::Hold(other) => {
                self.hold(other, &bytes, handed_off, now);
                None
            }
        };
        Some(Released { packet, mark: mark.and_then(|mark| self.mark_or_hand_off(mark, out)) })
    }

    /// Holds a packet that has to wait. If there is no room for it, the changes of its peer are given up.
    #[cold]
    fn hold(&mut self, id: PeerId, read: &[u8], handed_off: bool, now: Time) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let has_room = self.held.has_room(id, read.len());
        peer.traffic.add_held(read.len());
        self.held.push(id, HeldEntry::Packet { bytes: read.into(), handed_off });
        if !has_room {
            self.give_up_changes(id, now);
        }
        self.schedule(id);
    }

    /// Gives up the changes of a peer's path and lanes: its held packets leave on the path and lane that are in use.
    pub(super) fn give_up_changes(&mut self, id: PeerId, now: Time) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let lanes = peer.selector.give_up();
        let path = peer.path.give_up(&mut peer.first.way, now);
        if lanes || path {
            peer.traffic.add_given_up();
        }
        self.held.retry(id);
    }

    fn send_out(
        &mut self,
        read: &[u8],
        origin: PacketOrigin,
        mark: &mut Option<Mark>,
        out: &mut SendBatch,
        now: Time,
    ) -> SendOutcome {
        // What did the host send, and to which peer?
        let Some((vnet, packet)) = self.take_header(read) else { return self.drop_outbound(DropReason::BadInner) };
        let Ok(inner) = ip::Packet::parse(packet) else { return self.drop_outbound(DropReason::BadInner) };
        let Some(id) = self.routes.lookup(inner.destination()) else { return self.drop_outbound(DropReason::NoRoute) };
        let Ok(split) = Split::new(vnet, packet) else { return self.drop_outbound(DropReason::BadInner) };
        let Some(peer) = self.peers.get_mut(id) else { return self.drop_outbound(DropReason::NoRoute) };
        if matches!(origin, PacketOrigin::Read | PacketOrigin::HandedOff) && self.held.has(id) {
            return SendOutcome::Hold(id);
        }
        let in_order = origin == PacketOrigin::Staged || !self.staging.has(id);

        // On which lane? Mostly on the first, because the peer has no other: its selector is closed.
        let may_choose = matches!(origin, PacketOrigin::Read | PacketOrigin::Held { handed_off: false });
        let on = if !may_choose || peer.selector.are_closed() {
            LaneId::FIRST
        } else {
            let mark_behind = |barrier| *mark = Some(Mark { peer: id, barrier });
            match choose_lane(peer, packet, &self.limits, self.lanes, in_order, now, mark_behind) {
                Decision::Lane(lane) => lane,
                Decision::First => LaneId::FIRST,
                Decision::Hold => return SendOutcome::Hold(id),
            }
        };
        if on == LaneId::FIRST && peer.path.is_changing() {
            let waits = peer.path.try_change(&mut peer.first.way, out, now);
            if waits && origin != PacketOrigin::Staged && in_order {
                return SendOutcome::Hold(id);
            }
        }
        let Some(lane) = peer.lane(on) else { return SendOutcome::FirstLane };

        // Is there a session to seal with, and will it last?
        let needs_handshake = lane.keyring.needs_handshake_to_send(&self.limits, now);
        let way = lane.way;
        let mut active = false;
        match (lane.keyring.sending(&self.limits, now), way) {
            (Ok(session), Some(way)) if in_order => {
                // Each segment is written into the batch and sealed there.
                let destination = Destination { way, ecn: Ecn::of(inner.traffic_class()) };
                let start = out.position();
                let Sealed { bytes, outer, size } =
                    seal_segments(split, session, destination, self.mtu, out, &self.drops);
                let sealed = (session.id, session.newest().filter(|_| session.has_receipts()));
                lane.keyring.sent(true, &self.limits, now);
                peer.traffic.add_sent(bytes, outer, way.is_relayed());
                if on == LaneId::FIRST {
                    peer.path.sent(sealed.0, sealed.1, now);
                    // While the path is in doubt, a copy takes a second one.
                    if let Some(second) = peer.path.copy_way(way) {
                        let to = Destination { way: second, ..destination };
                        let copied = out.repeat(start, size, way, to, || peer.path.may_copy(now));
                        peer.traffic.add_copied(copied);
                    }
                }
                active = peer.path.reports_active(now);
            }
            _ => {
                let dropped = self.staging.push(id, read);
                self.drops.add(DropReason::StagedOverflow, dropped);
            }
        }

        if needs_handshake {
            self.outbox.push(FromLane::WantsHandshake(id));
        }
        if active {
            self.outbox.push(FromLane::Active { peer: id });
        }
        self.schedule(id);
        SendOutcome::Done
    }

    fn drop_outbound(&self, reason: DropReason) -> SendOutcome {
        self.drops.add(reason, 1);
        SendOutcome::Done
    }

    /// Sends the packets that waited for a session of the peer. Returns false if none waited. Packets that do not fit into the batch are sent by
    /// [`Self::send_backlog`].
    pub(super) fn send_staged(&mut self, id: PeerId, out: &mut SendBatch, now: Time) -> bool {
        let mut any = false;
        while let Some(peer) = self.peers.get_mut(id) {
            if !out.has_room() && self.staging.has(id) {
                self.staging.postpone(id);
                return true;
            }
            if peer.first.way.is_none() || peer.first.keyring.sending(&self.limits, now).is_err() {
                break;
            }
            let Some(packet) = self.staging.pop(id) else { break };
            self.send_out(&packet, PacketOrigin::Staged, &mut None, out, now);
            any = true;
        }
        any
    }

    /// Goes on with packets that waited for a session and did not fit into the batch, after `out` was sent. Returns false if there were none.
    pub fn send_backlog(&mut self, out: &mut SendBatch, now: Time) -> bool {
        let waiting = self.staging.take_backlog();
        for id in &waiting {
            self.send_staged(*id, out, now);
        }
        !waiting.is_empty()
    }

    /// Sends an empty packet, if there is a session and a path; otherwise asks for a handshake.
    pub(super) fn send_keepalive(&mut self, id: PeerId, out: &mut SendBatch, now: Time) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        if seal_empty(peer, &self.limits, out, now) {
            peer.first.keyring.sent(false, &self.limits, now);
        }
        // Anything that is sent renews an old session (WireGuard paper, section 6.2).
        if peer.first.keyring.needs_handshake_to_send(&self.limits, now) {
            self.outbox.push(FromLane::WantsHandshake(id));
        }
    }

    /// Follows a mark on the first lane. On other lanes it returns the mark, which the caller hands off.
    fn mark_or_hand_off(&mut self, mark: Mark, out: &mut SendBatch) -> Option<Mark> {
        if self.own != LaneId::FIRST {
            return Some(mark);
        }
        self.send_mark(mark, out);
        None
    }

    /// Follows a mark that another lane handed off to this lane, the first. It waits behind the packets of its peer that came before it and are held.
    pub fn mark_handed_off(&mut self, mark: Mark, out: &mut SendBatch) {
        if self.held.has(mark.peer) {
            self.held.push(mark.peer, HeldEntry::Mark(mark.barrier));
        } else {
            self.send_mark(mark, out);
        }
    }

    /// Sends a mark's probe, behind all packets of the peer that were sent before and on the same path. While some of these wait for a session, it sends
    /// nothing, and the lane that marked asks again later.
    fn send_mark(&mut self, mark: Mark, out: &mut SendBatch) {
        let Some(peer) = self.peers.get_mut(mark.peer).filter(|_| !self.staging.has(mark.peer)) else { return };
        let Some(session) = peer.first.keyring.current().map(|session| session.id) else { return };
        peer.send_control(session, LaneId::FIRST, None, ControlMessage::Probe { id: mark.barrier }, out);
    }

    fn take_header<'a>(&self, read: &'a [u8]) -> Option<(VnetHeader, &'a [u8])> {
        if self.vnet_header { VnetHeader::parse(read) } else { Some((VnetHeader::NONE, read)) }
    }
}

/// Chooses the lane of a packet to a peer that has more than the first. If the chosen lane cannot seal, the packet goes to the first lane, and all flows
/// have to wait for a mark again. `in_order` is false while packets of the peer wait for a session.
fn choose_lane(
    peer: &mut LanePeer,
    packet: &[u8],
    limits: &Limits,
    lanes: u8,
    in_order: bool,
    now: Time,
    mark_behind: impl FnOnce(u64),
) -> Decision {
    // All flows that are read here have the same remainder (`Tun::steer`). The quotient tells them apart.
    let flow = usize::from(flow(packet)) / usize::from(lanes);
    let decision = peer.selector.choose(flow, now, mark_behind);
    let Decision::Lane(lane) = decision else { return decision };
    let ready = |lane: &mut SessionLane| lane.way.is_some() && lane.keyring.sending(limits, now).is_ok();
    if in_order && peer.lane(lane).is_some_and(ready) {
        return decision;
    }
    peer.selector.again(now);
    Decision::First
}

/// The messages that a superpacket became.
struct Sealed {
    /// Bytes of inner packets.
    bytes: usize,
    /// Bytes of the messages that carry them.
    outer: usize,
    /// Bytes of the longest message, which is the first.
    size: usize,
}

/// Writes and seals one segment after the other.
fn seal_segments(
    mut split: Split<'_>,
    session: &mut Session,
    destination: Destination,
    mtu: usize,
    out: &mut SendBatch,
    drops: &DropCounts,
) -> Sealed {
    let mut sealed = Sealed { bytes: 0, outer: 0, size: 0 };
    if split.segments() * (relay::HEADER + Session::sealed_len(split.largest(), mtu)) > SEALED_SUPERPACKET_MAX {
        drops.add(DropReason::BadInner, 1);
        return sealed;
    }
    // Checksums stay partial where the session allows that: it authenticates the packet.
    if session.sends_partial_checksums() {
        split.allow_partial_checksums();
    }
    while let Some(length) = split.next_len() {
        let size = Session::sealed_len(length, mtu);
        let appended = out.append(destination, size, |datagram| {
            split.write_next(&mut datagram[DATA_HEADER..]);
            session.seal(datagram, length)
        });
        match appended {
            Some(Ok(())) => {
                sealed.bytes += length;
                sealed.outer += size;
                sealed.size = sealed.size.max(size);
            }
            // The key is used up in the middle of a superpacket: the rest is lost, and the next packet asks for a handshake.
            Some(Err(_)) | None => {
                drops.add(DropReason::NoHandshake, split.remaining() as u64 + 1);
                break;
            }
        }
    }
    sealed
}

fn seal_empty(peer: &mut LanePeer, limits: &Limits, out: &mut SendBatch, now: Time) -> bool {
    let (Ok(session), Some(way)) = (peer.first.keyring.sending(limits, now), peer.first.way) else {
        return false;
    };
    let size = Session::sealed_len(0, 0);
    let sealed = matches!(out.append(way, size, |datagram| session.seal(datagram, 0)), Some(Ok(())));
    if sealed {
        peer.traffic.add_overhead(size);
    }
    sealed
}

//! The way out: TUN → route → lane → segment → seal → send batch. Packets that their path does not carry: `send_pieces`.

use taut_base::{LaneId, PeerId, Time};
use taut_node::FromLane;
use taut_tun::flow;
use taut_tunnel::{Limits, Session};
use taut_wire::control::ControlMessage;
use taut_wire::ecn::Ecn;
use taut_wire::ip;
use taut_wire::mss;
use taut_wire::split::Split;
use taut_wire::vnet::VnetHeader;

use super::LaneCore;
use super::loops::leads_back;
use super::seal::{Outgoing, Sealed, seal_segments};
use super::send_pieces::{Fit, fit};
use crate::batch::{Destination, SendBatch};
use crate::drops::DropReason;
use crate::held::{HeldEntry, HeldScope};
use crate::peers::{LanePeer, SessionLane};
use crate::selector::{Decision, Mark, apart, bucket};

/// What the caller hands off to the first lane, in this order. It is empty on a node with one lane, and on the first lane itself unless each peer belongs to one lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandOff {
    /// True if the first lane seals the packet that the caller passed in, or the lane `to`.
    pub packet: bool,
    /// The lane that the packet's peer belongs to, where each peer belongs to one.
    pub to: Option<LaneId>,
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
    /// It waited in [`Staging`](crate::staging) for this peer. Other packets queue up behind such packets, which keeps their order.
    Staged { peer: PeerId },
}

/// What becomes of a packet.
enum SendOutcome {
    /// It was sealed, waits for a session, or was dropped.
    Done,
    /// The first lane seals it.
    FirstLane,
    /// The lane that its peer belongs to seals it.
    OtherLane(LaneId),
    /// It has to wait, with all later packets of this peer and scope.
    Hold(PeerId, HeldScope),
    /// It was staged and still has to be, before all other packets of its peer.
    StillStaged,
}

impl LaneCore {
    /// Seals one packet or superpacket, as read from the TUN, into `out`, which [has room](SendBatch::has_room). Returns what the caller hands off to the
    /// first lane.
    pub fn outbound(&mut self, read: &[u8], out: &mut SendBatch, now: Time) -> HandOff {
        let (mut mark, mut to) = (None, None);
        let packet = match self.send_out(read, PacketOrigin::Read, &mut mark, out, now) {
            SendOutcome::Done | SendOutcome::StillStaged => false,
            SendOutcome::FirstLane => true,
            SendOutcome::OtherLane(lane) => {
                to = Some(lane);
                true
            }
            SendOutcome::Hold(id, scope) => {
                self.hold(id, read, false, scope, now);
                false
            }
        };
        HandOff { packet, to, mark: mark.and_then(|mark| self.mark_or_hand_off(mark, out)) }
    }

    /// Seals a packet that another lane read and handed off to this lane, the first.
    pub fn outbound_handed_off(&mut self, read: &[u8], out: &mut SendBatch, now: Time) {
        let mut mark = None;
        if let SendOutcome::Hold(id, scope) = self.send_out(read, PacketOrigin::HandedOff, &mut mark, out, now) {
            self.hold(id, read, true, scope, now);
        }
        if let Some(mark) = mark {
            self.send_mark(mark, out);
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
                self.follow_mark(Mark { peer: id, barrier }, out, now);
                return Some(Released::default());
            }
            None => {
                self.held.wait(id);
                return Some(Released::default());
            }
        };
        let mut mark = None;
        let packet = match self.send_out(&bytes, PacketOrigin::Held { handed_off }, &mut mark, out, now) {
            SendOutcome::Done | SendOutcome::StillStaged | SendOutcome::OtherLane(_) => None,
            SendOutcome::FirstLane => Some(bytes),
            SendOutcome::Hold(still, scope) if still == id => {
                self.held.put_back(id, HeldEntry::Packet { bytes, handed_off }, scope);
                self.held.wait(id);
                if self.held.is_suspended() {
                    self.give_up_changes(id, now);
                }
                self.schedule(id);
                None
            }
            // The routes changed, and its destination belongs to another peer now.
            SendOutcome::Hold(other, scope) => {
                self.hold(other, &bytes, handed_off, scope, now);
                None
            }
        };
        Some(Released { packet, mark: mark.and_then(|mark| self.mark_or_hand_off(mark, out)) })
    }

    /// Holds a packet that has to wait. If there is no room for it, the changes of its peer are given up.
    #[cold]
    fn hold(&mut self, id: PeerId, read: &[u8], handed_off: bool, scope: HeldScope, now: Time) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let has_room = self.held.has_room(id, read.len(), scope);
        peer.traffic.add_held(read.len());
        self.held.push(id, HeldEntry::Packet { bytes: read.into(), handed_off }, scope);
        if !has_room {
            self.give_up_changes(id, now);
        }
        self.schedule(id);
    }

    /// Gives up the changes of a peer's path and lanes: its held packets leave on the path and lane that are in use.
    pub(super) fn give_up_changes(&mut self, id: PeerId, now: Time) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let lanes = peer.selector.give_up(now);
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
        let Some(id) = self.routes.lookup(inner.destination()) else {
            self.without_peer(vnet, &inner, now);
            return SendOutcome::Done;
        };
        if self.by_peer && id.only_lane(self.placement.lanes()) != self.own {
            // A packet that waited here was for another peer, to which its destination no longer belongs.
            return match origin {
                PacketOrigin::Read => SendOutcome::OtherLane(id.only_lane(self.placement.lanes())),
                _ => self.drop_outbound(DropReason::NoRoute),
            };
        }
        let Ok(mut split) = Split::new(vnet, packet) else { return self.drop_outbound(DropReason::BadInner) };
        let Some(peer) = self.peers.get_mut(id) else { return self.drop_outbound(DropReason::NoRoute) };
        let flow = flow(packet);
        let bucket = bucket(flow);
        if matches!(origin, PacketOrigin::Read | PacketOrigin::HandedOff) && self.held.precedes(id, bucket) {
            return SendOutcome::Hold(id, HeldScope::Flows(bucket));
        }
        if peer.first.way.is_some_and(|way| leads_back(&inner, way, peer.path.roams(), &self.relays)) {
            return self.drop_outbound(DropReason::Loop);
        }
        // The gate notes the packet's flow, so that this node's filter lets the answers pass.
        if let Some(gate) = self.routes.gate() {
            peer.gate.sent(gate, id, &inner, now);
        }
        let was_staged = origin == PacketOrigin::Staged { peer: id };
        let in_order = was_staged || !self.staging.has(id);

        // On which lane? Mostly on the first, because the peer has no other: its selector is closed. If other threads serve lanes of this peer, their flows stay on
        // the first lane here, both packets that they handed off and those that the first lane still reads itself. Such a packet waits if it may overtake others.
        let is_read_here = matches!(origin, PacketOrigin::Read | PacketOrigin::Held { handed_off: false });
        let is_own_flow = || is_read_here && (self.own != LaneId::FIRST || self.placement.lane(flow) == LaneId::FIRST);
        let takes_first = peer.selector.are_closed()
            || was_staged
            || !(peer.whole || is_own_flow() || peer.selector.may_overtake_others(now));
        let on = if takes_first {
            LaneId::FIRST
        } else {
            let mark_behind = |barrier| *mark = Some(Mark { peer: id, barrier });
            match choose_lane(peer, flow, &self.limits, in_order, now, mark_behind) {
                Decision::Lane(lane) => lane,
                Decision::First => LaneId::FIRST,
                Decision::Hold => return SendOutcome::Hold(id, HeldScope::Peer),
                Decision::HoldFlow => return SendOutcome::Hold(id, HeldScope::Flows(bucket)),
            }
        };
        if on == LaneId::FIRST && peer.path.is_changing() {
            let waits = peer.path.try_change(&mut peer.first.way, out, now);
            if waits && !was_staged && in_order {
                return SendOutcome::Hold(id, HeldScope::Peer);
            }
        }

        // Does the path carry it? TCP is cut to segments that fit.
        let limit = peer.path.limit();
        let fit = fit(&mut split, limit, peer.pieces);
        if let Fit::TooLong(mtu) = fit {
            self.host_errors.too_big(&inner, mtu, &mut peer.errors, now);
            return self.drop_outbound(DropReason::TooLong);
        }
        let Some(lane) = peer.lane(on) else { return SendOutcome::FirstLane };

        // Is there a session to seal with, and will it last?
        let needs_handshake = lane.keyring.needs_handshake_to_send(&self.limits, now);
        let way = lane.way;
        let mut active = false;
        match (lane.keyring.sending(&self.limits, now), way) {
            (Ok(session), Some(way)) if in_order && fit != Fit::Unknown => {
                // Each segment is written into the batch and sealed there.
                let destination = Destination { way, ecn: Ecn::of(inner.traffic_class()) };
                let outgoing = Outgoing { destination, mtu: self.mtu, opens_connection: mss::opens_connection(&inner) };
                let start = out.position();
                self.load.sent(id, flow, split.segments());
                let Sealed { bytes, outer } = match fit {
                    Fit::Pieces(limit) => self.pieces.seal(split, limit, session, outgoing, out, &self.drops),
                    Fit::Whole | Fit::TooLong(_) | Fit::Unknown => {
                        seal_segments(split, limit, session, outgoing, out, &self.drops)
                    }
                };
                let sealed = (session.id, session.newest().filter(|_| session.has_receipts()));
                lane.keyring.sent(true, &self.limits, now);
                peer.traffic.add_sent(bytes, outer, way.is_relayed());
                if on == LaneId::FIRST {
                    peer.path.sent(sealed.0, sealed.1, now);
                    // While the path is in doubt, a copy takes a second one.
                    if let Some(second) = peer.path.copy_way(way) {
                        let to = Destination { way: second, ..destination };
                        let copied = out.repeat(start, way, to, || peer.path.may_copy(now));
                        peer.traffic.add_copied(copied);
                    }
                }
                active = peer.path.reports_active(now);
            }
            (session, way) => {
                if fit == Fit::Unknown && session.is_ok() && way.is_some() {
                    peer.pieces.wait(now);
                }
                if was_staged {
                    self.schedule(id);
                    return SendOutcome::StillStaged;
                }
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

    /// Sends the packets that waited for a session of the peer, up to one that still has to wait. Returns false if none was sent. Packets that do not fit into the batch are sent by
    /// [`Self::send_backlog`].
    pub(super) fn send_staged(&mut self, id: PeerId, out: &mut SendBatch, now: Time) -> bool {
        let origin = PacketOrigin::Staged { peer: id };
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
            if matches!(self.send_out(&packet, origin, &mut None, out, now), SendOutcome::StillStaged) {
                self.staging.put_back(id, packet);
                break;
            }
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
    pub fn mark_handed_off(&mut self, mark: Mark, out: &mut SendBatch, now: Time) {
        if self.held.has(mark.peer) {
            self.held.push(mark.peer, HeldEntry::Mark(mark.barrier), HeldScope::Peer);
        } else {
            self.follow_mark(mark, out, now);
        }
    }

    /// Sends a mark's probe, unless packets of the peer may be on their way on lanes that were closed a moment ago: the answer would prove nothing about
    /// these, so the mark is held until they have arrived.
    fn follow_mark(&mut self, mark: Mark, out: &mut SendBatch, now: Time) {
        let Mark { peer: id, barrier } = mark;
        if !self.peers.get_mut(id).is_some_and(|peer| peer.selector.is_closing(now)) {
            return self.send_mark(mark, out);
        }
        self.held.put_back(id, HeldEntry::Mark(barrier), HeldScope::Peer);
        self.held.wait(id);
        if self.held.is_suspended() {
            self.give_up_changes(id, now);
        }
        self.schedule(id);
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
    flow: u16,
    limits: &Limits,
    in_order: bool,
    now: Time,
    mark_behind: impl FnOnce(u64),
) -> Decision {
    let decision = peer.selector.choose(apart(flow), now, mark_behind);
    let Decision::Lane(lane) = decision else { return decision };
    let ready = |lane: &mut SessionLane| lane.way.is_some() && lane.keyring.sending(limits, now).is_ok();
    if in_order && peer.lane(lane).is_some_and(ready) {
        return decision;
    }
    peer.selector.again(now);
    Decision::First
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

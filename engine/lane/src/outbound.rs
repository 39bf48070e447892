//! The way out: TUN → route → segment → seal → send batch.

use taut_base::{LaneId, PeerId, Time};
use taut_node::FromLane;
use taut_tun::flow;
use taut_tunnel::{Limits, Session};
use taut_wire::ecn::Ecn;
use taut_wire::ip;
use taut_wire::relay;
use taut_wire::split::Split;
use taut_wire::vnet::VnetHeader;
use taut_wire::wireguard::DATA_HEADER;

use crate::batch::{Destination, SEALED_SUPERPACKET_MAX, SendBatch};
use crate::drops::Drop;
use crate::held::Entry;
use crate::lane_core::{LaneCore, Outcome, Released};
use crate::selector::Decision;
use crate::tables::{LanePeer, Side};

/// Where a packet comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The host sent it just now.
    Read,
    /// Another lane read it.
    Handed,
    /// It was held, see `held`.
    Held {
        /// Another lane had read it.
        handed: bool,
    },
    /// It waited for a session; the others queue up behind those that did, so that their order is kept.
    Waited,
}

/// What becomes of a packet now.
enum Verdict {
    /// It was sealed, waits for a session, or was dropped.
    Done,
    /// It is the first lane's to seal.
    First,
    /// It has to wait, and with it all packets of this peer that come after it.
    Wait(PeerId),
}

impl LaneCore {
    /// One packet or superpacket, as read from the TUN, becomes sealed datagrams in `out`, which [has room](SendBatch::has_room).
    ///
    /// Says what is to be done with it, if that was not done here: nothing, on the one lane of a node.
    pub fn outbound(&mut self, read: &[u8], out: &mut SendBatch, now: Time) -> Outcome {
        match self.send_out(read, Origin::Read, out, now) {
            Verdict::Done => Outcome::Done,
            Verdict::First => Outcome::First,
            Verdict::Wait(id) => self.hold(id, read, false, now),
        }
    }

    /// The same for a packet that another lane read, and that is the first lane's to seal. This one is the first.
    pub fn outbound_handed(&mut self, read: &[u8], out: &mut SendBatch, now: Time) {
        if let Verdict::Wait(id) = self.send_out(read, Origin::Handed, out, now) {
            self.hold(id, read, true, now);
        }
    }

    /// Whether [`Self::release`] has something to do.
    pub fn has_released(&self) -> bool {
        self.holds.ready().is_some()
    }

    /// Sends one of the packets that were held and need not wait any longer. `out` has room for it.
    pub fn release(&mut self, out: &mut SendBatch, now: Time) -> Released {
        let Some(id) = self.holds.ready() else { return Released::Nothing };
        let entry = self.peers.get_mut(&id).and_then(|peer| self.holds.pop(id, &mut peer.held));
        let (bytes, handed) = match entry {
            Some(Entry::Packet { bytes, handed }) => (bytes, handed),
            Some(Entry::Mark(barrier)) => {
                self.mark(id, barrier, out);
                return Released::One;
            }
            None => {
                self.holds.wait(id);
                return Released::One;
            }
        };
        match self.send_out(&bytes, Origin::Held { handed }, out, now) {
            Verdict::Done => return Released::One,
            Verdict::First => return Released::First(bytes),
            Verdict::Wait(still) if still == id => {
                if let Some(peer) = self.peers.get_mut(&id) {
                    self.holds.put_back(id, &mut peer.held, Entry::Packet { bytes, handed });
                }
                self.holds.wait(id);
                if self.holds_nothing {
                    self.give_up_changes(id, now);
                }
                self.schedule(id);
            }
            // Its address is another peer's by now.
            Verdict::Wait(other) => {
                self.hold(other, &bytes, handed, now);
            }
        }
        Released::One
    }

    /// Keeps a packet that has to wait. Where there is no room for it, nothing of the peer waits any longer.
    #[cold]
    fn hold(&mut self, id: PeerId, read: &[u8], handed: bool, now: Time) -> Outcome {
        let Some(peer) = self.peers.get_mut(&id) else { return Outcome::Done };
        let given_up = self.holds_nothing || !self.holds.has_room(&peer.held, read.len());
        peer.traffic.add_held(read.len());
        self.holds.push(id, &mut peer.held, Entry::Packet { bytes: read.into(), handed });
        if given_up {
            self.give_up_changes(id, now);
        }
        self.schedule(id);
        Outcome::Done
    }

    /// While `nothing` is true no packet waits for a change of its peer's path or lanes, and those that do are released.
    pub(crate) fn hold_nothing(&mut self, nothing: bool, now: Time) {
        self.holds_nothing = nothing;
        if nothing {
            self.holds.holding().to_vec().into_iter().for_each(|id| self.give_up_changes(id, now));
        }
    }

    /// The packets of a peer wait for nothing any longer: what was held leaves by the old way.
    fn give_up_changes(&mut self, id: PeerId, now: Time) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let lanes = peer.selector.give_up();
        let path = peer.path.give_up(&mut peer.first.way, now);
        if lanes || path {
            peer.traffic.add_given_up();
        }
        self.holds.try_again(id, &peer.held);
    }

    fn send_out(&mut self, read: &[u8], origin: Origin, out: &mut SendBatch, now: Time) -> Verdict {
        // What did the host send, and to whom?
        let Some((vnet, packet)) = self.take_header(read) else { return self.refuse_out(Drop::BadInner) };
        let Ok(inner) = ip::Packet::parse(packet) else { return self.refuse_out(Drop::BadInner) };
        let Some(id) = self.routes.lookup(inner.destination()) else { return self.refuse_out(Drop::NoRoute) };
        let Ok(split) = Split::new(vnet, packet) else { return self.refuse_out(Drop::BadInner) };
        let Some(peer) = self.peers.get_mut(&id) else { return self.refuse_out(Drop::NoRoute) };
        if !peer.held.is_empty() && matches!(origin, Origin::Read | Origin::Handed) {
            return Verdict::Wait(id);
        }

        // By which lane? By the first, mostly; nothing is looked at then.
        let own = matches!(origin, Origin::Read | Origin::Held { handed: false });
        let lane = if !own || peer.selector.are_closed() {
            LaneId::FIRST
        } else {
            match choose_way(peer, packet, &self.limits, self.lanes, &mut self.marks, id, now) {
                Decision::Lane(lane) => lane,
                Decision::First => LaneId::FIRST,
                Decision::Hold => return Verdict::Wait(id),
            }
        };
        if lane == LaneId::FIRST && peer.path.is_changing() {
            let waits = peer.path.change_over(&mut peer.first.way, out, now);
            if waits && origin != Origin::Waited && peer.staged.is_empty() {
                return Verdict::Wait(id);
            }
        }
        let Some(side) = peer.side(lane) else { return Verdict::First };

        // Is there a session to send with, and how long yet?
        let wishes_handshake = side.keyring.needs_handshake_to_send(&self.limits, now);
        let way = side.way;
        let mut active = false;
        let in_order = origin == Origin::Waited || peer.staged.is_empty();
        let Some(side) = peer.side(lane) else { return Verdict::First };
        match (side.keyring.sending(&self.limits, now), way) {
            (Ok(session), Some(way)) if in_order => {
                // Each segment is written into the batch and sealed there.
                let destination = Destination { way, ecn: Ecn::of(inner.traffic_class()) };
                let start = out.position();
                let Sealed { bytes, outer, size } =
                    seal_segments(split, session, destination, self.mtu, out, &self.drops);
                let sealed = (session.id, session.newest().filter(|_| session.has_receipts()));
                side.keyring.sent(true, &self.limits, now);
                peer.traffic.add_sent(bytes, outer, way.is_relayed());
                if lane == LaneId::FIRST {
                    peer.path.sent(sealed.0, sealed.1, now);
                    // In doubt, by two ways.
                    if let Some(second) = peer.path.copies(way) {
                        let to = Destination { way: second, ..destination };
                        let copied = out.repeat(start, size, way, to, || peer.path.may_copy(now));
                        peer.traffic.add_copied(copied);
                    }
                }
                active = peer.path.is_news(now);
            }
            _ => {
                let pushed_out = self.stage.push(&mut peer.staged, read);
                self.drops.add(Drop::StagedOverflow, pushed_out);
            }
        }

        if wishes_handshake {
            self.say(FromLane::WantsHandshake(id));
        }
        if active {
            self.say(FromLane::Active { peer: id });
        }
        self.schedule(id);
        Verdict::Done
    }

    fn refuse_out(&self, reason: Drop) -> Verdict {
        self.drops.add(reason, 1);
        Verdict::Done
    }

    /// Sends what waited for a session; false when nothing did. What does not fit in the batch goes on in [`Self::send_backlog`].
    pub(crate) fn send_staged(&mut self, id: PeerId, out: &mut SendBatch, now: Time) -> bool {
        let mut any = false;
        while let Some(peer) = self.peers.get_mut(&id) {
            if !out.has_room() && !peer.staged.is_empty() {
                self.backlog.push(id);
                return true;
            }
            if peer.first.way.is_none() || peer.first.keyring.sending(&self.limits, now).is_err() {
                break;
            }
            let Some(packet) = self.stage.pop(&mut peer.staged) else { break };
            self.send_out(&packet, Origin::Waited, out, now);
            any = true;
        }
        any
    }

    /// Goes on with what waited and did not fit, after `out` was sent. False when nothing was left.
    pub fn send_backlog(&mut self, out: &mut SendBatch, now: Time) -> bool {
        let waiting = std::mem::take(&mut self.backlog);
        for id in &waiting {
            self.send_staged(*id, out, now);
        }
        !waiting.is_empty()
    }

    /// Sends an empty packet, if there is a session and a path; otherwise asks for a handshake.
    pub(crate) fn send_keepalive(&mut self, id: PeerId, out: &mut SendBatch, now: Time) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if seal_empty(peer, &self.limits, out, now) {
            peer.first.keyring.sent(false, &self.limits, now);
        }
        // Without a session there is nothing to send with; an old one is renewed by whatever is sent (paper, section 6.2).
        if peer.first.keyring.needs_handshake_to_send(&self.limits, now) {
            self.say(FromLane::WantsHandshake(id));
        }
    }

    fn take_header<'a>(&self, read: &'a [u8]) -> Option<(VnetHeader, &'a [u8])> {
        if self.vnet_header { VnetHeader::parse(read) } else { Some((VnetHeader::NONE, read)) }
    }
}

/// By which lane a packet goes to a peer that has more than the first. A lane that cannot seal leaves it to the first, and has to find its way again
/// then, as everybody does who sent by another.
fn choose_way(
    peer: &mut LanePeer,
    packet: &[u8],
    limits: &Limits,
    lanes: u8,
    marks: &mut Vec<(PeerId, u64)>,
    id: PeerId,
    now: Time,
) -> Decision {
    // All flows that are read here have the same remainder (`Tun::steer`); what is above tells them apart.
    let flow = usize::from(flow(packet)) / usize::from(lanes);
    let way = peer.selector.choose(flow, now, |barrier| marks.push((id, barrier)));
    let Decision::Lane(lane) = way else { return way };
    let ready = |side: &mut Side| side.way.is_some() && side.keyring.sending(limits, now).is_ok();
    if peer.staged.is_empty() && peer.side(lane).is_some_and(ready) {
        return way;
    }
    peer.selector.again(now);
    Decision::First
}

/// What a superpacket became.
struct Sealed {
    /// Bytes of inner packets.
    bytes: usize,
    /// Bytes of the messages made of them.
    outer: usize,
    /// Bytes of the first of these; none is longer.
    size: usize,
}

/// Writes and seals one segment after the other.
fn seal_segments(
    mut split: Split<'_>,
    session: &mut Session,
    destination: Destination,
    mtu: usize,
    out: &mut SendBatch,
    drops: &crate::drops::DropCounts,
) -> Sealed {
    let mut sealed = Sealed { bytes: 0, outer: 0, size: 0 };
    if split.segments() * (relay::HEADER + Session::sealed_len(split.largest(), mtu)) > SEALED_SUPERPACKET_MAX {
        drops.add(Drop::BadInner, 1);
        return sealed;
    }
    // The session authenticates what our own kernel vouches for.
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
                drops.add(Drop::NoHandshake, split.remaining() as u64 + 1);
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

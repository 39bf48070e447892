//! What a lane's thread does with packets that another lane seals, and with packets that other lanes hand off to it.
//!
//! Order is kept as follows. Handed-off packets take one ring per pair of lanes, first in, first out. An item that finds its ring full waits in
//! `waiting_for_ring`, and the lane reads no more behind it. A packet that has to wait for a change of its peer's path or lanes is held by the lane core,
//! behind the held packets of that peer. The first lane seals or holds at once whatever it takes, so the rings to it always drain, and no circle of lanes
//! can wait for each other.

use taut_base::{LaneId, Time};
use taut_node::Reading;
use taut_tun::flow;
use taut_wire::vnet;

use super::LaneThread;
use super::io::ThreadIo;
use crate::batch::Flush;
use crate::drops::DropReason;
use crate::ring::{PacketBuffer, RingItem};
use crate::selector::Mark;

/// Items that are taken from one other lane per turn, 64: more than its ring holds, so everything is taken that waited when the turn began.
const TAKE_BUDGET: usize = 64;

impl LaneThread {
    /// Returns true if no packet waits that the next packet would overtake.
    pub(super) fn may_overtake_nothing(&self) -> bool {
        self.waiting_for_ring.is_empty() && !self.core.has_released()
    }

    /// Returns true if this lane may hand off again what it was handed off.
    fn hands_on(&self) -> bool {
        self.own != LaneId::FIRST && !self.by_peer
    }

    /// Sends a packet of `length` bytes that was just read, or hands it off to the lane that it belongs to.
    pub(super) fn route(&mut self, length: usize, now: Time) {
        if let Some(drain) = &mut self.drain {
            drain.packet_read();
        }
        if self.reading == Reading::Spread {
            let header = if self.tun.offload().vnet_header { vnet::LEN } else { 0 };
            let lane = self.placement.lane(flow(self.read.get(header..length).unwrap_or_default()));
            if lane != self.own {
                let buffer = self.take_read(lane);
                return self.hand_off(lane, RingItem::Packet { buffer, length, steered: true });
            }
        }
        let hand_off = self.core.outbound(&self.read[..length], &mut self.out, now);
        if hand_off.packet {
            let to = hand_off.to.unwrap_or(LaneId::FIRST);
            let buffer = self.take_read(to);
            self.hand_off(to, RingItem::Packet { buffer, length, steered: hand_off.to.is_some() });
        }
        self.hand_off_mark(hand_off.mark);
        self.release(now);
    }

    /// Sends held packets whose wait is over, as far as there is room.
    pub(super) fn release(&mut self, now: Time) {
        while self.core.has_released() {
            if !self.out.has_room() || self.out.is_worth_sending() {
                self.send(Flush::Full);
            }
            if self.blocked || !self.out.has_room() || (self.hands_on() && !self.waiting_for_ring.is_empty()) {
                return;
            }
            let Some(released) = self.core.release(&mut self.out, now) else { return };
            if let Some(bytes) = released.packet {
                let (mut buffer, length) = (self.rings.empty_buffer(LaneId::FIRST), bytes.len());
                buffer[..length].copy_from_slice(&bytes);
                self.hand_off(LaneId::FIRST, RingItem::Packet { buffer, length, steered: false });
            }
            self.hand_off_mark(released.mark);
        }
    }

    /// Returns the buffer that was read into. The next packet is read into a buffer that came back from `to`.
    fn take_read(&mut self, to: LaneId) -> PacketBuffer {
        std::mem::replace(&mut self.read, self.rings.empty_buffer(to))
    }

    fn hand_off(&mut self, to: LaneId, item: RingItem) {
        if matches!(item, RingItem::Packet { .. }) {
            self.shared.add_handed_off();
        }
        let refused = if self.waiting_for_ring.is_empty() { self.rings.hand_off(to, item) } else { Err(item) };
        if let Err(item) = refused {
            self.waiting_for_ring.push_back((to, item));
        }
    }

    fn hand_off_mark(&mut self, mark: Option<Mark>) {
        if let Some(mark) = mark {
            self.hand_off(LaneId::FIRST, RingItem::Mark(mark));
        }
    }

    /// Takes what other lanes handed off, after handing off what waited here.
    pub(super) fn take_handed_off(&mut self, now: Time) {
        while let Some((to, item)) = self.waiting_for_ring.pop_front() {
            if let Err(item) = self.rings.hand_off(to, item) {
                self.waiting_for_ring.push_front((to, item));
                break;
            }
        }
        self.release(now);
        let mut all = true;
        for from in 0..self.rings.lanes() {
            self.take_strays(from, now);
            all &= self.take_items(from, now);
            self.rings.wake_starved(from);
        }
        if let Some(drain) = self.drain.as_mut().filter(|_| all) {
            drain.rings_taken();
        }
        self.rings_first &= !all;
    }

    /// Takes the items that lane `from` handed off. Returns true if none is left of those that waited when the turn began.
    fn take_items(&mut self, from: usize, now: Time) -> bool {
        for _ in 0..TAKE_BUDGET {
            if !self.out.has_room() || self.out.is_worth_sending() {
                self.send(Flush::Full);
            }
            // On the first lane, only a full socket stops an item.
            if self.blocked || !self.out.has_room() || (self.hands_on() && !self.may_overtake_nothing()) {
                return false;
            }
            match self.rings.take(from) {
                None => return true,
                Some(RingItem::Mark(mark)) => self.core.mark_handed_off(mark, &mut self.out, now),
                Some(RingItem::Packet { buffer, length, steered: true }) => {
                    self.take_steered(buffer, length, from, now);
                }
                Some(RingItem::Packet { buffer, length, steered: false }) => {
                    self.core.outbound_handed_off(&buffer[..length], &mut self.out, now);
                    self.rings.give_back(from, buffer);
                }
            }
            self.release(now);
        }
        // More items came meanwhile. They are taken in the next turn, which begins at once.
        self.waker.wake();
        true
    }

    /// Sends a packet that lane `from` handed off, as if it had been read here just now.
    fn take_steered(&mut self, buffer: PacketBuffer, length: usize, from: usize, now: Time) {
        let hand_off = self.core.outbound(&buffer[..length], &mut self.out, now);
        if hand_off.to.is_some() {
            // The routes changed while it was on its way. It is handed off once, so nothing goes in circles.
            self.shared.drops.add(DropReason::NoRoute, 1);
            self.rings.give_back(from, buffer);
        } else if hand_off.packet {
            // Another buffer goes back, so that as many go back as came.
            self.rings.give_back(from, self.rings.empty_buffer(LaneId::FIRST));
            self.hand_off(LaneId::FIRST, RingItem::Packet { buffer, length, steered: false });
        } else {
            self.rings.give_back(from, buffer);
        }
        self.hand_off_mark(hand_off.mark);
    }

    /// Receives the strays that lane `from` handed off.
    fn take_strays(&mut self, from: usize, now: Time) {
        for _ in 0..TAKE_BUDGET {
            let Some(stray) = self.rings.take_stray(from) else { return };
            let (mut datagram, source) = (stray.datagram, stray.source);
            let length = datagram.len();
            let mut io = ThreadIo::new(&self.tun, &self.queues, &mut self.rings, &self.shared);
            io.handed_off = true;
            self.core.arrived_at(stray.meta.local, stray.meta.congestion);
            self.core.inbound(source, &mut datagram, length, &mut io, &mut self.out, now);
            for command in io.later {
                self.command(command, now);
            }
            if !self.out.has_room() {
                self.send(Flush::Full);
            }
        }
        self.waker.wake();
    }

    /// Ends a drain, once everything that waited when the agent asked is read and has left.
    pub(super) fn finish_drain(&mut self) {
        let Some(drain) = &self.drain else { return };
        if drain.is_done(self.reading != Reading::Nothing) && self.may_overtake_nothing() {
            self.drain = None;
            self.core.end_drain();
        }
    }
}

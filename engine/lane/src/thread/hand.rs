//! What a lane's thread does with packets that are another's to seal, and with those that others hand it.
//!
//! Where order is kept: what is handed over goes by one ring per pair of lanes, first in, first out; what finds no room waits in the outbox, and nothing
//! is read behind it. A packet that has to wait for its peer's path or lanes is held by the lane core, behind what was held for that peer before. The first
//! lane seals or holds whatever it takes at once, so rings to it always empty, and no circle of lanes can wait for each other.

use std::sync::atomic::Ordering;

use taut_base::{LaneId, Time};
use taut_node::{FromLane, Reading};
use taut_tun::flow;
use taut_wire::vnet;

use super::{Ports, Worker};
use crate::batch::Flush;
use crate::lane_core::{Outcome, Released};
use crate::ring::{Buffer, Handed};

/// What is taken of one other lane per turn: more than its ring holds, so that all that waited when the turn began is taken.
const TAKE_BUDGET: usize = 64;

/// More packets than a TUN queue holds (`TUN_READQ_SIZE`, drivers/net/tun.c: 500): what waited when a drain began was read after so many.
const QUEUE: usize = 1_000;

/// How far everything is read that waited when the agent asked.
#[derive(Default)]
pub(super) struct Drain {
    /// Packets read since.
    read: usize,
    /// The queue was empty once since.
    empty: bool,
    /// What waited in the rings was taken.
    taken: bool,
}

impl Worker {
    /// Whether nothing waits that the next packet would overtake.
    pub(super) fn is_free(&self) -> bool {
        self.outbox.is_empty() && !self.core.has_released()
    }

    /// A packet of so many bytes was read: to the lane that it belongs to.
    pub(super) fn route(&mut self, length: usize, now: Time) {
        if let Some(drain) = &mut self.drain {
            drain.read += 1;
        }
        if self.reading == Reading::Spread {
            let header = if self.tun.offload().vnet_header { vnet::LEN } else { 0 };
            let lane = LaneId((flow(self.read.get(header..length).unwrap_or_default()) % u16::from(self.lanes)) as u8);
            if lane != self.own {
                let buffer = self.take_read(lane);
                return self.hand(lane, Handed::Packet { buffer, length, steered: true });
            }
        }
        match self.core.outbound(&self.read[..length], &mut self.out, now) {
            Outcome::Done => {}
            Outcome::First => {
                let buffer = self.take_read(LaneId::FIRST);
                self.hand(LaneId::FIRST, Handed::Packet { buffer, length, steered: false });
            }
        }
        self.mark();
        self.release(now);
    }

    /// Sends what was held and need not wait any longer, as far as there is room.
    pub(super) fn release(&mut self, now: Time) {
        while self.core.has_released() {
            if !self.out.has_room() || self.out.is_worth_sending() {
                self.send(Flush::Full);
            }
            if self.blocked || !self.out.has_room() || (self.own != LaneId::FIRST && !self.outbox.is_empty()) {
                return;
            }
            if let Released::First(bytes) = self.core.release(&mut self.out, now) {
                let (mut buffer, length) = (self.rings.empty_buffer(LaneId::FIRST), bytes.len());
                buffer[..length].copy_from_slice(&bytes);
                self.hand(LaneId::FIRST, Handed::Packet { buffer, length, steered: false });
            }
            self.mark();
        }
    }

    /// The buffer that was read into; the next one is read into one that came back from `to`.
    fn take_read(&mut self, to: LaneId) -> Buffer {
        std::mem::replace(&mut self.read, self.rings.empty_buffer(to))
    }

    fn hand(&mut self, to: LaneId, handed: Handed) {
        if matches!(handed, Handed::Packet { .. }) {
            self.shared.handed_over.fetch_add(1, Ordering::Relaxed);
        }
        let refused = if self.outbox.is_empty() { self.rings.hand(to, handed) } else { Err(handed) };
        if let Err(handed) = refused {
            self.outbox.push_back((to, handed));
        }
    }

    /// Sends marks behind what was handed over. On the first lane itself what was sealed is before it already.
    fn mark(&mut self) {
        while let Some((peer, barrier)) = self.core.poll_mark() {
            if self.own == LaneId::FIRST {
                self.core.mark(peer, barrier, &mut self.out);
            } else {
                self.hand(LaneId::FIRST, Handed::Mark { peer, barrier });
            }
        }
    }

    /// Takes what other lanes handed over, after what waits here.
    pub(super) fn take(&mut self, now: Time) {
        while let Some((to, handed)) = self.outbox.pop_front() {
            if let Err(handed) = self.rings.hand(to, handed) {
                self.outbox.push_front((to, handed));
                break;
            }
        }
        self.release(now);
        let mut all = true;
        for from in 0..self.rings.lanes() {
            self.take_strays(from, now);
            all &= self.take_from(from, now);
            self.rings.feed(from);
        }
        if let Some(drain) = self.drain.as_mut().filter(|_| all) {
            drain.taken = true;
        }
        self.rings_first &= !all;
    }

    /// Takes what one lane handed over. True when that was all that had waited.
    fn take_from(&mut self, from: usize, now: Time) -> bool {
        for _ in 0..TAKE_BUDGET {
            if !self.out.has_room() || self.out.is_worth_sending() {
                self.send(Flush::Full);
            }
            // What is for the first lane always has a place to go but the socket.
            if self.blocked || !self.out.has_room() || (self.own != LaneId::FIRST && !self.is_free()) {
                return false;
            }
            match self.rings.take(from) {
                None => return true,
                Some(Handed::Mark { peer, barrier }) => self.core.mark_handed(peer, barrier, &mut self.out),
                Some(Handed::Packet { buffer, length, steered }) => self.pass(buffer, length, from, !steered, now),
            }
            self.release(now);
        }
        // More came meanwhile: it has the next turn, and that at once.
        self.waker.wake();
        true
    }

    /// A packet that lane `from` handed over: as if it was read here just now, or for this lane as the first.
    fn pass(&mut self, buffer: Buffer, length: usize, from: usize, first: bool, now: Time) {
        let outcome = if first {
            self.core.outbound_handed(&buffer[..length], &mut self.out, now);
            Outcome::Done
        } else {
            self.core.outbound(&buffer[..length], &mut self.out, now)
        };
        match outcome {
            Outcome::Done => self.rings.give_back(from, buffer),
            Outcome::First => {
                // As many buffers go back as come.
                self.rings.give_back(from, self.rings.empty_buffer(LaneId::FIRST));
                self.hand(LaneId::FIRST, Handed::Packet { buffer, length, steered: false });
            }
        }
        self.mark();
    }

    fn take_strays(&mut self, from: usize, now: Time) {
        for _ in 0..TAKE_BUDGET {
            let Some(stray) = self.rings.take_stray(from) else { return };
            let (mut datagram, source) = (stray.datagram, stray.source);
            let length = datagram.len();
            let mut ports = Ports::of(&self.tun, &self.queues, &mut self.rings, &self.shared);
            self.core.arrived_at(stray.arrival.local, stray.arrival.congestion);
            self.core.inbound(source, &mut datagram, length, &mut ports, &mut self.out, now);
            for command in ports.later {
                self.command(command, now);
            }
            if !self.out.has_room() {
                self.send(Flush::Full);
            }
        }
        self.waker.wake();
    }

    /// The TUN queue is empty.
    pub(super) fn found_empty(&mut self) {
        if let Some(drain) = &mut self.drain {
            drain.empty = true;
        }
    }

    /// Says so when everything is read that waited when the agent asked.
    pub(super) fn drained(&mut self, now: Time) {
        let Some(drain) = &self.drain else { return };
        let read = self.reading == Reading::Nothing || drain.empty || drain.read >= QUEUE;
        if read && drain.taken && self.is_free() {
            self.drain = None;
            self.core.hold_nothing(false, now);
            self.core.say(FromLane::Drained);
        }
    }
}

//! One port of ours: its mapping, and when to ask for it again.

use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

use taut_base::{Entropy, Time};

use super::{LossReason, Machine, PACE, PortmapEvent, Stage};
use crate::LEASE;
use crate::endpoint::usable;
use crate::mapping::Mapping;
use crate::pcp::Nonce;
use crate::status::{Defect, Protocol, ProtocolStatus};

/// The shortest lease that is of use (RFC 6887 section 15 has servers give at least this much): a shorter one would be asked for all the time.
const SHORTEST_LEASE: Duration = Duration::from_secs(120);

/// How long a port is not asked for after a refusal while others are mapped.
const REFUSED_WAIT: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) outside: SocketAddrV4,
    pub(super) protocol: Protocol,
    pub(super) until: Time,
}

#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) port: u16,
    /// PCP's name for the mapping.
    pub(super) nonce: Nonce,
    /// The outer port that is asked for.
    pub(super) wish: u16,
    pub(super) held: Option<Held>,
    /// Tries since the last answer.
    pub(super) tries: u32,
    /// When to try next.
    pub(super) next: Time,
    /// The last answer, or the first try.
    last: Option<Time>,
}

impl Slot {
    pub(super) fn new(port: u16, entropy: &mut impl Entropy, now: Time) -> Self {
        let mut nonce = Nonce::default();
        entropy.fill(&mut nonce);
        Self { port, nonce, wish: port, held: None, tries: 0, next: now, last: None }
    }

    pub(super) fn mapping(&self) -> Option<Mapping> {
        let Held { outside, protocol, until } = self.held?;
        Some(Mapping { port: self.port, outside: outside.into(), protocol, until })
    }

    /// Has it asked for now, if that was not done a moment ago.
    pub(super) fn hurry(&mut self, now: Time) {
        if self.tries == 0 && self.last.is_none_or(|last| now.since(last) >= PACE) {
            self.next = now;
        }
    }
}

impl<E: Entropy> Machine<E> {
    /// The gateway says that the port of this slot is mapped, for `lease` seconds. False when that is of no use.
    pub(super) fn accept(&mut self, number: usize, mapped: (Protocol, SocketAddr), lease: u32, now: Time) -> bool {
        let (protocol, outside) = mapped;
        let Some(usable) = usable(outside, &self.overlay) else {
            self.set_status(protocol, ProtocolStatus::Unusable(Defect::OuterEndpoint(outside)));
            return false;
        };
        let lease = Duration::from_secs(lease.into()).min(LEASE);
        if lease < SHORTEST_LEASE {
            self.set_status(protocol, ProtocolStatus::Unusable(Defect::ShortLease(lease.as_secs())));
            return false;
        }
        let slot = &mut self.slots[number];
        slot.held = Some(Held { outside: usable, protocol, until: now + lease });
        // Where possible the same outer endpoint again, also from a gateway that was restarted.
        slot.wish = usable.port();
        (slot.tries, slot.next, slot.last) = (0, now + lease / 2, Some(now));
        self.events.extend(slot.mapping().map(PortmapEvent::Mapped));
        self.set_status(protocol, ProtocolStatus::Serves);
        if self.stage != Stage::Serving(protocol) {
            self.stage = Stage::Serving(protocol);
            self.slots
                .iter_mut()
                .filter(|slot| slot.held.is_none())
                .for_each(|slot| (slot.tries, slot.next) = (0, now));
        }
        true
    }

    /// What was mapped is of no use: the gateway is told so.
    pub(super) fn give_up(&mut self, number: usize, now: Time) {
        let slot = self.slots[number].clone();
        self.slots[number].held = None;
        self.give_back(&slot, LossReason::Unusable, now);
    }

    /// The gateway did not map the port of this slot. Where nothing is mapped, the next protocol is asked.
    pub(super) fn refuse(&mut self, number: usize, protocol: Protocol, now: Time) {
        let slot = &mut self.slots[number];
        slot.last = Some(now);
        slot.put_off(now, REFUSED_WAIT);
        if !self.holds_any() {
            self.go_on_from(protocol, now);
        }
    }

    /// The gateway lost its mappings: all are asked for anew.
    pub(super) fn renew_all(&mut self, now: Time) {
        self.slots.iter_mut().for_each(|slot| slot.hurry(now));
    }
}

impl Slot {
    /// Nothing or nothing good came: it is asked for again, halfway to its end while it is mapped (RFC 6887 section 11.2.1).
    pub(super) fn put_off(&mut self, now: Time, wait: Duration) {
        let wait = self.held.map_or(wait, |held| held.until.since(now) / 2);
        (self.tries, self.next) = (0, now + wait.max(PACE));
    }

    /// A try was made.
    pub(super) fn tried(&mut self, now: Time, wait: Duration) {
        if self.tries == 0 {
            self.last = Some(now);
        }
        self.tries += 1;
        self.next = now + wait;
    }
}

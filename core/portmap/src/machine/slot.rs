//! One local port: its mapping, and when it is requested again.

use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

use taut_base::{Entropy, Time};

use super::{LossReason, MIN_INTERVAL, PortMapper, PortmapEvent, Stage};
use crate::LEASE;
use crate::endpoint::usable;
use crate::mapping::Mapping;
use crate::pcp::Nonce;
use crate::status::{Defect, Protocol, ProtocolStatus};

/// Shortest useful lease, 2 minutes (RFC 6887 section 15 has servers give at least this much): a shorter one would need requests all the time.
const MIN_LEASE: Duration = Duration::from_secs(120);

/// Pause after a refusal while other ports are mapped, 10 minutes.
const REFUSED_WAIT: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) outside: SocketAddrV4,
    pub(super) protocol: Protocol,
    pub(super) until: Time,
}

#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) port: u16,
    /// The nonce of the mapping in PCP.
    pub(super) nonce: Nonce,
    /// The outer port to suggest.
    pub(super) outer_port: u16,
    pub(super) lease: Option<Lease>,
    /// Tries since the last answer.
    pub(super) tries: u32,
    /// When the next try is due.
    pub(super) next: Time,
    /// When the last answer came, or the first try was made.
    last: Option<Time>,
}

impl Slot {
    pub(super) fn new(port: u16, entropy: &mut impl Entropy, now: Time) -> Self {
        let mut nonce = Nonce::default();
        entropy.fill(&mut nonce);
        Self { port, nonce, outer_port: port, lease: None, tries: 0, next: now, last: None }
    }

    pub(super) fn mapping(&self) -> Option<Mapping> {
        let Lease { outside, protocol, until } = self.lease?;
        Some(Mapping { port: self.port, outside: outside.into(), protocol, until })
    }

    /// Makes the next request due now, unless one was made within [`MIN_INTERVAL`].
    pub(super) fn renew_soon(&mut self, now: Time) {
        if self.tries == 0 && self.last.is_none_or(|last| now.since(last) >= MIN_INTERVAL) {
            self.next = now;
        }
    }
}

impl<E: Entropy> PortMapper<E> {
    /// Takes a mapping of this slot's port for `lease` seconds. Returns false if it is useless.
    pub(super) fn accept(&mut self, number: usize, mapped: (Protocol, SocketAddr), lease: u32, now: Time) -> bool {
        let (protocol, outside) = mapped;
        let Some(usable) = usable(outside, &self.overlay) else {
            self.set_status(protocol, ProtocolStatus::Unusable(Defect::OuterEndpoint(outside)));
            return false;
        };
        let lease = Duration::from_secs(lease.into()).min(LEASE);
        if lease < MIN_LEASE {
            self.set_status(protocol, ProtocolStatus::Unusable(Defect::ShortLease(lease.as_secs())));
            return false;
        }
        let slot = &mut self.slots[number];
        slot.lease = Some(Lease { outside: usable, protocol, until: now + lease });
        // The same outer endpoint is suggested again where possible, also to a gateway that was restarted.
        slot.outer_port = usable.port();
        (slot.tries, slot.next, slot.last) = (0, now + lease / 2, Some(now));
        self.events.extend(slot.mapping().map(PortmapEvent::Mapped));
        self.set_status(protocol, ProtocolStatus::Serves);
        if self.stage != Stage::Serving(protocol) {
            self.stage = Stage::Serving(protocol);
            self.slots
                .iter_mut()
                .filter(|slot| slot.lease.is_none())
                .for_each(|slot| (slot.tries, slot.next) = (0, now));
        }
        true
    }

    /// Gives back a useless mapping.
    pub(super) fn release_slot(&mut self, number: usize, now: Time) {
        let slot = self.slots[number].clone();
        self.slots[number].lease = None;
        self.give_back(&slot, LossReason::Unusable, now);
    }

    /// The gateway did not map the port of this slot. If nothing is mapped, the next protocol is tried.
    pub(super) fn refuse(&mut self, number: usize, protocol: Protocol, now: Time) {
        let slot = &mut self.slots[number];
        slot.last = Some(now);
        slot.put_off(now, REFUSED_WAIT);
        if !self.holds_any() {
            self.try_after(protocol, now);
        }
    }

    /// Requests all mappings again: the gateway lost them.
    pub(super) fn renew_all(&mut self, now: Time) {
        self.slots.iter_mut().for_each(|slot| slot.renew_soon(now));
    }
}

impl Slot {
    /// Delays the next request after a failure; while the port is mapped, until half of the remaining lease (RFC 6887 section 11.2.1).
    pub(super) fn put_off(&mut self, now: Time, wait: Duration) {
        let wait = self.lease.map_or(wait, |lease| lease.until.since(now) / 2);
        (self.tries, self.next) = (0, now + wait.max(MIN_INTERVAL));
    }

    /// Counts a try.
    pub(super) fn tried(&mut self, now: Time, wait: Duration) {
        if self.tries == 0 {
            self.last = Some(now);
        }
        self.tries += 1;
        self.next = now + wait;
    }
}

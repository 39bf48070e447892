//! Mappings that are to end: the gateway is told a few times, then they are left to their leases.

use std::net::{Ipv4Addr, SocketAddrV4};

use taut_base::{Entropy, Time};

use super::knock::FIRST_PAUSE;
use super::slot::Slot;
use super::{LossReason, Machine, PortmapEvent, Stage};
use crate::pcp::Nonce;
use crate::status::Protocol;
use crate::{MAX_PORTS, nat_pmp, pcp};

/// Times that a gateway is told: over after 1.75 s.
const TRIES: u32 = 3;

/// Mappings that wait to be given back: those of two sets of ports. Older ones are left to their leases.
const MAX_LEAVING: usize = 2 * MAX_PORTS;

#[derive(Clone, Debug)]
pub(super) struct Leaving {
    pub(super) protocol: Protocol,
    pub(super) port: u16,
    pub(super) nonce: Nonce,
    /// The outer port, by which UPnP knows the mapping.
    pub(super) outside: u16,
    tries: u32,
    next: Time,
}

impl<E: Entropy> Machine<E> {
    /// The mapping of this slot is to end, also one that was asked for and not yet answered.
    pub(super) fn give_back(&mut self, slot: &Slot, reason: LossReason, now: Time) {
        let protocol = match (slot.held, self.stage) {
            (Some(held), _) => held.protocol,
            (None, Stage::Knocking) => Protocol::Pcp,
            (None, Stage::Serving(protocol)) if protocol != Protocol::Upnp => protocol,
            (None, _) => return,
        };
        if slot.held.is_some() {
            self.events.push_back(PortmapEvent::Lost { port: slot.port, reason });
        }
        let (port, nonce, outside) = (slot.port, slot.nonce, slot.wish);
        self.give_back_as(Leaving { protocol, port, nonce, outside, tries: 0, next: now });
    }

    /// UPnP mapped our port to this outer one, which is of no use, or too late.
    pub(super) fn give_back_upnp(&mut self, port: u16, outside: u16, now: Time) {
        let protocol = Protocol::Upnp;
        self.give_back_as(Leaving { protocol, port, nonce: Nonce::default(), outside, tries: 0, next: now });
    }

    fn give_back_as(&mut self, leaving: Leaving) {
        if self.leaving.len() >= MAX_LEAVING {
            self.leaving.remove(0);
        }
        self.leaving.push(leaving);
    }

    /// A port that is wanted again is not given back, and goes on under the same nonce: the gateway would refuse another one (RFC 6887
    /// section 11.3).
    pub(super) fn stay(&mut self, port: u16) -> Option<Nonce> {
        let by_pcp = |leaving: &&Leaving| leaving.port == port && leaving.protocol == Protocol::Pcp;
        let nonce = self.leaving.iter().find(by_pcp).map(|leaving| leaving.nonce);
        self.left(|leaving| leaving.port == port);
        nonce
    }

    /// These are gone.
    pub(super) fn left(&mut self, gone: impl Fn(&Leaving) -> bool) {
        self.leaving.retain(|leaving| !gone(leaving));
    }

    /// Tells the gateway what is due, by PCP and NAT-PMP.
    pub(super) fn leave(&mut self, now: Time) {
        let Some(gateway) = self.gateway else { return self.leaving.clear() };
        self.left(|leaving| leaving.tries >= TRIES && leaving.next <= now);
        let mut requests = Vec::new();
        for leaving in
            self.leaving.iter_mut().filter(|leaving| leaving.protocol != Protocol::Upnp && leaving.next <= now)
        {
            leaving.next = now + FIRST_PAUSE * 2_u32.pow(leaving.tries);
            leaving.tries += 1;
            requests.push(if leaving.protocol == Protocol::Pcp {
                let wish = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
                let (nonce, port) = (leaving.nonce, leaving.port);
                pcp::Request { lifetime: 0, client: gateway.own, nonce, port, wish }.write().to_vec()
            } else {
                nat_pmp::map_request(leaving.port, 0, 0).to_vec()
            });
        }
        requests.into_iter().for_each(|request| self.send(request));
    }

    /// When the gateway is to be told next.
    pub(super) fn leave_timeout(&self) -> Option<Time> {
        self.leaving.iter().filter(|leaving| leaving.protocol != Protocol::Upnp).map(|leaving| leaving.next).min()
    }
}

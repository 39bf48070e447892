//! Mappings that are given back: the gateway is told a few times; after that the lease ends them.

use std::net::{Ipv4Addr, SocketAddrV4};

use taut_base::{Entropy, Time};

use super::attempt::FIRST_PAUSE;
use super::slot::Slot;
use super::{LossReason, PortMapper, PortmapEvent, Stage};
use crate::pcp::Nonce;
use crate::status::Protocol;
use crate::{MAX_PORTS, nat_pmp, pcp};

/// Times that a gateway is told, over after 1.75 s.
const MAX_TRIES: u32 = 3;

/// Limit on mappings that are being given back: those of two sets of ports. Older ones end with their leases.
const MAX_RELEASES: usize = 2 * MAX_PORTS;

#[derive(Clone, Debug)]
pub(super) struct Release {
    pub(super) protocol: Protocol,
    pub(super) port: u16,
    pub(super) nonce: Nonce,
    /// The outer port, which identifies the mapping in UPnP.
    pub(super) outside: u16,
    tries: u32,
    next: Time,
}

impl<E: Entropy> PortMapper<E> {
    /// Gives back the mapping of this slot, also one that was requested and not yet answered.
    pub(super) fn give_back(&mut self, slot: &Slot, reason: LossReason, now: Time) {
        let protocol = match (slot.lease, self.stage) {
            (Some(lease), _) => lease.protocol,
            (None, Stage::TryingPcp) => Protocol::Pcp,
            (None, Stage::Serving(protocol)) if protocol != Protocol::Upnp => protocol,
            (None, _) => return,
        };
        if slot.lease.is_some() {
            self.events.push_back(PortmapEvent::Lost { port: slot.port, reason });
        }
        let (port, nonce, outside) = (slot.port, slot.nonce, slot.outer_port);
        self.give_back_as(Release { protocol, port, nonce, outside, tries: 0, next: now });
    }

    /// Gives back an outer port that UPnP mapped too late, or to a useless endpoint.
    pub(super) fn give_back_upnp(&mut self, port: u16, outside: u16, now: Time) {
        let protocol = Protocol::Upnp;
        self.give_back_as(Release { protocol, port, nonce: Nonce::default(), outside, tries: 0, next: now });
    }

    fn give_back_as(&mut self, releases: Release) {
        if self.releases.len() >= MAX_RELEASES {
            self.releases.remove(0);
        }
        self.releases.push(releases);
    }

    /// Keeps the mapping of a port that is needed again, and returns its nonce: the gateway would refuse another one (RFC 6887 section 11.3).
    pub(super) fn keep(&mut self, port: u16) -> Option<Nonce> {
        let by_pcp = |releases: &&Release| releases.port == port && releases.protocol == Protocol::Pcp;
        let nonce = self.releases.iter().find(by_pcp).map(|releases| releases.nonce);
        self.forget_releases(|releases| releases.port == port);
        nonce
    }

    /// Forgets the releases that are done.
    pub(super) fn forget_releases(&mut self, gone: impl Fn(&Release) -> bool) {
        self.releases.retain(|releases| !gone(releases));
    }

    /// Sends the releases that are due by PCP and NAT-PMP.
    pub(super) fn release_due(&mut self, now: Time) {
        let Some(gateway) = self.gateway else { return self.releases.clear() };
        self.forget_releases(|releases| releases.tries >= MAX_TRIES && releases.next <= now);
        let mut requests = Vec::new();
        for releases in
            self.releases.iter_mut().filter(|releases| releases.protocol != Protocol::Upnp && releases.next <= now)
        {
            releases.next = now + FIRST_PAUSE * 2_u32.pow(releases.tries);
            releases.tries += 1;
            requests.push(if releases.protocol == Protocol::Pcp {
                let suggested = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
                let (nonce, port) = (releases.nonce, releases.port);
                pcp::Request { lifetime: 0, client: gateway.own, nonce, port, suggested }.write().to_vec()
            } else {
                nat_pmp::map_request(releases.port, 0, 0).to_vec()
            });
        }
        requests.into_iter().for_each(|request| self.send(request));
    }

    /// Returns when the next release is due.
    pub(super) fn release_timeout(&self) -> Option<Time> {
        self.releases.iter().filter(|releases| releases.protocol != Protocol::Upnp).map(|releases| releases.next).min()
    }
}

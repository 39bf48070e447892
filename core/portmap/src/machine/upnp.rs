//! UPnP: a search, and the descriptions of the devices that reply. One request at a time.
//!
//! The search for a service that maps ports ends after half a minute, however many devices reply and however slowly.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use taut_base::{Entropy, Time};

use super::{GatewaySocket, PortMapper, PortmapOutput, Stage};
use crate::description::{Service, ServiceKind, services};
use crate::http::{self, Answer};
use crate::soap::{self, Call, MappingRequest};
use crate::status::{Defect, FetchError, Protocol, ProtocolStatus};
use crate::url::Url;
use crate::{LEASE, ssdp};

/// Searches before UPnP counts as silent. A device replies within a second (`MX: 1`), and a datagram may be lost.
const SEARCHES: u32 = 2;

/// Time that replies to each search are waited for, 1.5 s.
const SEARCH_PAUSE: Duration = Duration::from_millis(1_500);

/// Limit on the descriptions that are fetched: those of the first devices that the gateway names.
pub(super) const MAX_PAGES: usize = 3;

/// Limit on the search for a service that maps ports, 30 s (fault D15).
const SEARCH_TIME: Duration = Duration::from_secs(30);

/// Time after which an answer counts as too slow, 10 s. Callers that fetch give up before; this is for one that does not.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Time that the outer address is believed, 1 minute: a renewal asks for it again.
const ADDRESS_VALID: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Upnp {
    searches: u32,
    next: Time,
    /// Descriptions that are not yet fetched, and those that were.
    pages: VecDeque<Url>,
    fetched: Vec<Url>,
    /// Services that were not yet tried.
    services: VecDeque<Service>,
    pub(super) service: Option<Service>,
    pub(super) address: Option<(Ipv4Addr, Time)>,
    pub(super) pending: Option<Pending>,
    /// True if mappings never expire on this gateway.
    pub(super) permanent: bool,
    /// True if the call of version 2 failed.
    pub(super) add_any_failed: bool,
    /// The number of requests made.
    requests: u32,
}

#[derive(Debug)]
pub(super) struct Pending {
    pub(super) id: u32,
    pub(super) job: Job,
    until: Time,
}

#[derive(Clone, Debug)]
pub(super) enum Job {
    Describe(Url),
    Call(Call),
}

impl Upnp {
    /// Returns a fresh state in which answers to requests of the former one are not accepted.
    pub(super) fn after(former: &Self) -> Self {
        Self { requests: former.requests, ..Self::default() }
    }

    pub(super) fn search(&mut self, now: Time) {
        self.next = now;
    }

    pub(super) fn pending_until(&self) -> Option<Time> {
        self.pending.as_ref().map(|pending| pending.until)
    }

    fn mapping_call(&self, own: Ipv4Addr, port: u16, outside: u16) -> Call {
        let lease = if self.permanent { 0 } else { u32::try_from(LEASE.as_secs()).unwrap_or(u32::MAX) };
        let mapping_call = MappingRequest { outside, own, port, lease };
        let any = !self.add_any_failed && self.service.as_ref().is_some_and(|service| service.kind == ServiceKind::Ip2);
        if any { Call::AddAny(mapping_call) } else { Call::Add(mapping_call) }
    }
}

impl<E: Entropy> PortMapper<E> {
    /// A device replied to a search.
    pub(super) fn handle_search_response(&mut self, from: SocketAddr, bytes: &[u8], now: Time) {
        let Some(handle_search_response) =
            ssdp::parse(bytes).filter(|_| matches!(self.stage, Stage::SearchingUpnp { .. }))
        else {
            return;
        };
        let protocol = self.report.protocol_mut(Protocol::Upnp);
        (protocol.from, protocol.name) = (Some(from), handle_search_response.server);
        let is_gateways =
            self.gateway.is_some_and(|gateway| gateway.address == *handle_search_response.location.place.ip());
        if !is_gateways {
            let place = handle_search_response.location.place;
            self.set_status(Protocol::Upnp, ProtocolStatus::Unusable(Defect::OtherHost(place)));
        } else if self.upnp.fetched.len() < MAX_PAGES && !self.upnp.fetched.contains(&handle_search_response.location) {
            self.upnp.fetched.push(handle_search_response.location.clone());
            self.upnp.pages.push_back(handle_search_response.location);
        }
        self.handle_timeout(now);
    }

    /// Makes the next request, unless one is under way.
    pub(super) fn upnp(&mut self, now: Time) {
        if let Some(pending) = &self.upnp.pending {
            let (id, late) = (pending.id, pending.until <= now);
            if late {
                self.handle_fetched(id, Err(FetchError::TooSlow), now);
            }
            return;
        }
        if let Stage::SearchingUpnp { since } = self.stage
            && now.since(since) >= SEARCH_TIME
        {
            return self.try_after(Protocol::Upnp, now);
        }
        if self.upnp.service.is_none() {
            self.forget_releases(|releases| releases.protocol == Protocol::Upnp);
            return self.search(now);
        }
        if let Some(releases) = self.releases.iter().find(|releases| releases.protocol == Protocol::Upnp) {
            let call = Call::Delete(releases.outside);
            return self.call(call, now);
        }
        let asking = matches!(self.stage, Stage::SearchingUpnp { .. } | Stage::Serving(Protocol::Upnp));
        let (true, Some(gateway)) = (asking, self.gateway) else { return };
        let Some(slot) = self.slots.iter().find(|slot| slot.next <= now) else { return };
        let call = match self.upnp.address {
            Some((_, at)) if now.since(at) < ADDRESS_VALID => {
                self.upnp.mapping_call(gateway.own, slot.port, slot.outer_port)
            }
            _ => Call::Address,
        };
        self.call(call, now);
    }

    pub(super) fn upnp_timeout(&self) -> Option<Time> {
        if self.upnp.pending.is_some() {
            return None;
        }
        match self.stage {
            Stage::SearchingUpnp { .. } if self.upnp.service.is_none() => Some(self.upnp.next),
            _ => self.slots.iter().map(|slot| slot.next).min(),
        }
    }

    /// Fetches the next description, or searches again.
    fn search(&mut self, now: Time) {
        if !matches!(self.stage, Stage::SearchingUpnp { .. }) {
            return;
        }
        if let Some(page) = self.upnp.pages.pop_front() {
            let request = http::get(page.place, &page.path);
            return self.fetch(page.place, request, Job::Describe(page), now);
        }
        if self.upnp.next > now {
            return;
        }
        if self.upnp.searches == SEARCHES {
            if matches!(self.report.protocol(Protocol::Upnp).status, ProtocolStatus::NotAsked | ProtocolStatus::Asked) {
                self.set_status(Protocol::Upnp, ProtocolStatus::Silent);
            }
            return self.try_after(Protocol::Upnp, now);
        }
        if self.upnp.searches == 0 {
            self.set_status(Protocol::Upnp, ProtocolStatus::Asked);
        }
        self.upnp.searches += 1;
        self.upnp.next = now + SEARCH_PAUSE;
        let Some(gateway) = self.gateway else { return };
        // The gateway is also searched directly: some firewalls let replies in only from an address that was sent to.
        for to in [ssdp::GROUP, SocketAddrV4::new(gateway.address, ssdp::PORT)] {
            for target in ssdp::TARGETS {
                let bytes = ssdp::search(target).into_bytes();
                self.actions.push_back(PortmapOutput::Send { socket: GatewaySocket::Ssdp, to, bytes });
            }
        }
    }

    pub(super) fn fetch(&mut self, place: SocketAddrV4, request: Vec<u8>, job: Job, now: Time) {
        self.upnp.requests = self.upnp.requests.wrapping_add(1);
        let id = self.upnp.requests;
        self.upnp.pending = Some(Pending { id, job, until: now + FETCH_TIMEOUT });
        self.actions.push_back(PortmapOutput::Fetch { id, place, request });
    }

    pub(super) fn handle_description(&mut self, page: &Url, answer: &Answer, now: Time) {
        let handle_search_response = if answer.status == 200 { services(page, &answer.body) } else { Vec::new() };
        let defect = match answer.status {
            200 => Defect::NoService,
            300..=399 => Defect::Description(soap::CallRefusal::Redirect),
            status => Defect::Description(soap::CallRefusal::Status(status)),
        };
        self.upnp.services = handle_search_response.into();
        self.next_service(ProtocolStatus::Unusable(defect), now);
    }

    /// Tries the next service; this service or description was useless.
    pub(super) fn next_service(&mut self, status: ProtocolStatus, now: Time) {
        self.upnp.service = self.upnp.services.pop_front();
        (self.upnp.address, self.upnp.permanent, self.upnp.add_any_failed) = (None, false, false);
        if self.upnp.service.is_none() {
            self.set_status(Protocol::Upnp, status);
        }
        for slot in &mut self.slots {
            (slot.tries, slot.next) = (0, now);
        }
    }
}

//! UPnP: a search, and the description of whoever answers. One request at a time.
//!
//! Looking for a service that maps ends after half a minute at most, however many devices answer and however slowly.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use taut_base::{Entropy, Time};

use super::{Door, Machine, PortmapOutput, Stage};
use crate::description::{Kind, Service, services};
use crate::http::{self, Answer};
use crate::soap::{self, Call, Wanted};
use crate::status::{Defect, Failure, Protocol, ProtocolStatus};
use crate::url::Url;
use crate::{LEASE, ssdp};

/// Searches before nobody is there. A device answers within a second (`MX: 1`), and a datagram may be lost.
const SEARCHES: u32 = 2;

/// How long each search is waited for.
const SEARCH_PAUSE: Duration = Duration::from_millis(1_500);

/// Descriptions that are fetched at most: those of the first devices that the gateway names.
pub(super) const MAX_PAGES: usize = 3;

/// How long looking for a service that maps may take (fault D15).
const MAX_SEEKING: Duration = Duration::from_secs(30);

/// How long an answer may take. Whoever fetches gives up before; this is for one who does not.
const MAX_BUSY: Duration = Duration::from_secs(10);

/// How long the outer address is believed: a renewal asks anew.
const ADDRESS_AGE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Upnp {
    searches: u32,
    next: Time,
    /// Descriptions not yet fetched, and those that were.
    pages: VecDeque<Url>,
    seen: Vec<Url>,
    /// Services not yet tried.
    services: VecDeque<Service>,
    pub(super) service: Option<Service>,
    pub(super) address: Option<(Ipv4Addr, Time)>,
    pub(super) busy: Option<Busy>,
    /// Mappings are for ever or not at all there.
    pub(super) permanent: bool,
    /// The call of version 2 did not work.
    pub(super) no_any: bool,
    /// How many requests were made.
    requests: u32,
}

#[derive(Debug)]
pub(super) struct Busy {
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
    /// A new one; answers to requests of the former are not taken for its own.
    pub(super) fn after(former: &Self) -> Self {
        Self { requests: former.requests, ..Self::default() }
    }

    pub(super) fn seek(&mut self, now: Time) {
        self.next = now;
    }

    pub(super) fn busy_until(&self) -> Option<Time> {
        self.busy.as_ref().map(|busy| busy.until)
    }

    fn wanted(&self, own: Ipv4Addr, port: u16, outside: u16) -> Call {
        let lease = if self.permanent { 0 } else { u32::try_from(LEASE.as_secs()).unwrap_or(u32::MAX) };
        let wanted = Wanted { outside, own, port, lease };
        let any = !self.no_any && self.service.as_ref().is_some_and(|service| service.kind == Kind::Ip2);
        if any { Call::AddAny(wanted) } else { Call::Add(wanted) }
    }
}

impl<E: Entropy> Machine<E> {
    /// A device answered a search.
    pub(super) fn found(&mut self, from: SocketAddr, bytes: &[u8], now: Time) {
        let Some(found) = ssdp::parse(bytes).filter(|_| matches!(self.stage, Stage::Seeking { .. })) else { return };
        let protocol = self.report.protocol_mut(Protocol::Upnp);
        (protocol.from, protocol.name) = (Some(from), found.server);
        let is_gateways = self.gateway.is_some_and(|gateway| gateway.address == *found.location.place.ip());
        if !is_gateways {
            let place = found.location.place;
            self.set_status(Protocol::Upnp, ProtocolStatus::Unusable(Defect::OtherHost(place)));
        } else if self.upnp.seen.len() < MAX_PAGES && !self.upnp.seen.contains(&found.location) {
            self.upnp.seen.push(found.location.clone());
            self.upnp.pages.push_back(found.location);
        }
        self.handle_timeout(now);
    }

    /// The next step, unless a request is under way.
    pub(super) fn upnp(&mut self, now: Time) {
        if let Some(busy) = &self.upnp.busy {
            let (id, late) = (busy.id, busy.until <= now);
            if late {
                self.answered(id, Err(Failure::TooSlow), now);
            }
            return;
        }
        if let Stage::Seeking { since } = self.stage
            && now.since(since) >= MAX_SEEKING
        {
            return self.go_on_from(Protocol::Upnp, now);
        }
        if self.upnp.service.is_none() {
            self.left(|leaving| leaving.protocol == Protocol::Upnp);
            return self.seek(now);
        }
        if let Some(leaving) = self.leaving.iter().find(|leaving| leaving.protocol == Protocol::Upnp) {
            let call = Call::Delete(leaving.outside);
            return self.call(call, now);
        }
        let asking = matches!(self.stage, Stage::Seeking { .. } | Stage::Serving(Protocol::Upnp));
        let (true, Some(gateway)) = (asking, self.gateway) else { return };
        let Some(slot) = self.slots.iter().find(|slot| slot.next <= now) else { return };
        let call = match self.upnp.address {
            Some((_, at)) if now.since(at) < ADDRESS_AGE => self.upnp.wanted(gateway.own, slot.port, slot.wish),
            _ => Call::Address,
        };
        self.call(call, now);
    }

    pub(super) fn upnp_timeout(&self) -> Option<Time> {
        if self.upnp.busy.is_some() {
            return None;
        }
        match self.stage {
            Stage::Seeking { .. } if self.upnp.service.is_none() => Some(self.upnp.next),
            _ => self.slots.iter().map(|slot| slot.next).min(),
        }
    }

    /// The next description, or the next search.
    fn seek(&mut self, now: Time) {
        if !matches!(self.stage, Stage::Seeking { .. }) {
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
            return self.go_on_from(Protocol::Upnp, now);
        }
        if self.upnp.searches == 0 {
            self.set_status(Protocol::Upnp, ProtocolStatus::Asked);
        }
        self.upnp.searches += 1;
        self.upnp.next = now + SEARCH_PAUSE;
        let Some(gateway) = self.gateway else { return };
        // To the gateway itself, too: some firewalls let answers in only from where something was sent to.
        for to in [ssdp::GROUP, SocketAddrV4::new(gateway.address, ssdp::PORT)] {
            for target in ssdp::TARGETS {
                let bytes = ssdp::search(target).into_bytes();
                self.actions.push_back(PortmapOutput::Send { door: Door::Ssdp, to, bytes });
            }
        }
    }

    pub(super) fn fetch(&mut self, place: SocketAddrV4, request: Vec<u8>, job: Job, now: Time) {
        self.upnp.requests = self.upnp.requests.wrapping_add(1);
        let id = self.upnp.requests;
        self.upnp.busy = Some(Busy { id, job, until: now + MAX_BUSY });
        self.actions.push_back(PortmapOutput::Fetch { id, place, request });
    }

    pub(super) fn described(&mut self, page: &Url, answer: &Answer, now: Time) {
        let found = if answer.status == 200 { services(page, &answer.body) } else { Vec::new() };
        let defect = match answer.status {
            200 => Defect::NoService,
            300..=399 => Defect::Description(soap::Refusal::Redirect),
            status => Defect::Description(soap::Refusal::Status(status)),
        };
        self.upnp.services = found.into();
        self.next_service(ProtocolStatus::Unusable(defect), now);
    }

    /// This service or description was of no use: the next one, if there is one.
    pub(super) fn next_service(&mut self, status: ProtocolStatus, now: Time) {
        self.upnp.service = self.upnp.services.pop_front();
        (self.upnp.address, self.upnp.permanent, self.upnp.no_any) = (None, false, false);
        if self.upnp.service.is_none() {
            self.set_status(Protocol::Upnp, status);
        }
        for slot in &mut self.slots {
            (slot.tries, slot.next) = (0, now);
        }
    }
}

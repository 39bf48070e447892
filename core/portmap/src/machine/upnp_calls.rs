//! Calls of the UPnP service that was found, and their answers.

use std::net::{Ipv4Addr, SocketAddr};

use taut_base::{Entropy, Time};

use super::upnp::Job;
use super::{LossReason, PortMapper, Stage};
use crate::LEASE;
use crate::endpoint::usable;
use crate::http::Answer;
use crate::soap::{self, Call, Done, MappingRequest};
use crate::status::{Defect, FetchError, Protocol, ProtocolStatus, Refusal};

/// Outer ports that are tried when another host has the suggested one.
const MAX_CONFLICTS: u32 = 4;

impl<E: Entropy> PortMapper<E> {
    pub(super) fn call(&mut self, call: Call, now: Time) {
        let Some(service) = &self.upnp.service else { return };
        let (place, request) = (service.control.place, call.request(service));
        self.fetch(place, request, Job::Call(call), now);
    }

    /// Takes the result of a request. [`Self::upnp`] makes the request that follows.
    pub(super) fn handle_fetched(&mut self, id: u32, answer: Result<Answer, FetchError>, now: Time) {
        let Some(pending) = self.upnp.pending.take_if(|pending| pending.id == id) else { return };
        match (pending.job, answer) {
            (Job::Describe(page), Ok(answer)) => self.handle_description(&page, &answer, now),
            (Job::Describe(_), Err(failure)) => self.next_service(ProtocolStatus::Unusable(Defect::Http(failure)), now),
            (Job::Call(Call::Delete(outside)), _) => {
                self.forget_releases(|releases| releases.protocol == Protocol::Upnp && releases.outside == outside);
            }
            (Job::Call(call), Ok(answer)) => match call.answer(&answer) {
                Ok(done) => self.done(call, done, now),
                Err(refusal) => self.refused(call, refusal, now),
            },
            (Job::Call(_), Err(failure)) => self.reject_service(ProtocolStatus::Unusable(Defect::Http(failure)), now),
        }
    }

    /// A call did not map the port that was due: while nothing is mapped the next service is tried, later the port waits.
    fn reject_service(&mut self, status: ProtocolStatus, now: Time) {
        if matches!(self.stage, Stage::SearchingUpnp { .. }) {
            return self.next_service(status, now);
        }
        self.set_status(Protocol::Upnp, status);
        if let Some(number) = self.slots.iter().position(|slot| slot.next <= now) {
            self.refuse(number, Protocol::Upnp, now);
        }
    }

    fn done(&mut self, call: Call, done: Done, now: Time) {
        match (call, done) {
            (_, Done::Address(address)) => self.handle_outer_address(address, now),
            (Call::Add(mapping) | Call::AddAny(mapping), Done::Mapped(outside)) => self.mapped(mapping, outside, now),
            _ => {}
        }
    }

    fn handle_outer_address(&mut self, address: Ipv4Addr, now: Time) {
        // The port is arbitrary: only the address is checked.
        if usable(SocketAddr::from((address, 1)), &self.overlay).is_some() {
            self.upnp.address = Some((address, now));
        } else {
            self.reject_service(ProtocolStatus::Unusable(Defect::OuterAddress(address)), now);
        }
    }

    fn mapped(&mut self, mapping: MappingRequest, outside: u16, now: Time) {
        let number = self.slots.iter().position(|slot| slot.port == mapping.port);
        let (Some(number), Some((address, _))) = (number, self.upnp.address) else {
            return self.give_back_upnp(mapping.port, outside, now);
        };
        let lease = u32::try_from(LEASE.as_secs()).unwrap_or(u32::MAX);
        if !self.accept(number, (Protocol::Upnp, SocketAddr::from((address, outside))), lease, now) {
            let status = self.report.protocol(Protocol::Upnp).status;
            self.drop_lease(number, LossReason::Unusable);
            self.reject_service(status, now);
        }
    }

    fn refused(&mut self, call: Call, refusal: soap::CallRefusal, now: Time) {
        let (Call::Add(mapping) | Call::AddAny(mapping)) = call else {
            return self.reject_service(ProtocolStatus::Refused(Refusal::Upnp(refusal)), now);
        };
        let port = 1_024 + u16::try_from(self.entropy.below(64_512)).unwrap_or(0);
        let slot = self.slots.iter_mut().find(|slot| slot.port == mapping.port);
        match (refusal, slot) {
            (soap::CallRefusal::CONFLICT, Some(slot)) if slot.tries < MAX_CONFLICTS => {
                (slot.tries, slot.outer_port) = (slot.tries + 1, port);
            }
            (soap::CallRefusal::ONLY_PERMANENT, Some(_)) if !self.upnp.permanent => self.upnp.permanent = true,
            (_, Some(_)) if matches!(call, Call::AddAny(_)) && !self.upnp.add_any_failed => {
                self.upnp.add_any_failed = true;
            }
            _ => self.reject_service(ProtocolStatus::Refused(Refusal::Upnp(refusal)), now),
        }
    }
}

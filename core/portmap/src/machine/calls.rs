//! UPnP's calls: what the service that was found is asked for, and what it answers.

use std::net::{Ipv4Addr, SocketAddr};

use taut_base::{Entropy, Time};

use super::upnp::Job;
use super::{LossReason, Machine, Stage};
use crate::LEASE;
use crate::endpoint::usable;
use crate::http::Answer;
use crate::soap::{self, Call, Done, Wanted};
use crate::status::{Defect, Failure, Protocol, ProtocolStatus, Refusal};

/// Outer ports that are tried where others have theirs.
const MAX_CONFLICTS: u32 = 4;

impl<E: Entropy> Machine<E> {
    pub(super) fn call(&mut self, call: Call, now: Time) {
        let Some(service) = &self.upnp.service else { return };
        let (place, request) = (service.control.place, call.request(service));
        self.fetch(place, request, Job::Call(call), now);
    }

    /// What became of a request. What it leads to is done by [`Self::upnp`].
    pub(super) fn answered(&mut self, id: u32, answer: Result<Answer, Failure>, now: Time) {
        let Some(busy) = self.upnp.busy.take_if(|busy| busy.id == id) else { return };
        match (busy.job, answer) {
            (Job::Describe(page), Ok(answer)) => self.described(&page, &answer, now),
            (Job::Describe(_), Err(failure)) => self.next_service(ProtocolStatus::Unusable(Defect::Http(failure)), now),
            (Job::Call(Call::Delete(outside)), _) => {
                self.left(|leaving| leaving.protocol == Protocol::Upnp && leaving.outside == outside);
            }
            (Job::Call(call), Ok(answer)) => match call.answer(&answer) {
                Ok(done) => self.done(call, done, now),
                Err(refusal) => self.refused(call, refusal, now),
            },
            (Job::Call(_), Err(failure)) => self.no_use(ProtocolStatus::Unusable(Defect::Http(failure)), now),
        }
    }

    /// A call did not map what was due: while nothing is mapped yet the next service has its turn, later the port waits.
    fn no_use(&mut self, status: ProtocolStatus, now: Time) {
        if matches!(self.stage, Stage::Seeking { .. }) {
            return self.next_service(status, now);
        }
        self.set_status(Protocol::Upnp, status);
        if let Some(number) = self.slots.iter().position(|slot| slot.next <= now) {
            self.refuse(number, Protocol::Upnp, now);
        }
    }

    fn done(&mut self, call: Call, done: Done, now: Time) {
        match (call, done) {
            (_, Done::Address(address)) => self.hear_outer_address(address, now),
            (Call::Add(wanted) | Call::AddAny(wanted), Done::Mapped(outside)) => self.mapped(wanted, outside, now),
            _ => {}
        }
    }

    fn hear_outer_address(&mut self, address: Ipv4Addr, now: Time) {
        // Any port will do: the address is judged.
        if usable(SocketAddr::from((address, 1)), &self.overlay).is_some() {
            self.upnp.address = Some((address, now));
        } else {
            self.no_use(ProtocolStatus::Unusable(Defect::OuterAddress(address)), now);
        }
    }

    fn mapped(&mut self, wanted: Wanted, outside: u16, now: Time) {
        let number = self.slots.iter().position(|slot| slot.port == wanted.port);
        let (Some(number), Some((address, _))) = (number, self.upnp.address) else {
            return self.give_back_upnp(wanted.port, outside, now);
        };
        let lease = u32::try_from(LEASE.as_secs()).unwrap_or(u32::MAX);
        if !self.accept(number, (Protocol::Upnp, SocketAddr::from((address, outside))), lease, now) {
            let status = self.report.protocol(Protocol::Upnp).status;
            self.lose(number, LossReason::Unusable);
            self.no_use(status, now);
        }
    }

    fn refused(&mut self, call: Call, refusal: soap::Refusal, now: Time) {
        let (Call::Add(wanted) | Call::AddAny(wanted)) = call else {
            return self.no_use(ProtocolStatus::Refused(Refusal::Upnp(refusal)), now);
        };
        let port = 1_024 + u16::try_from(self.entropy.below(64_512)).unwrap_or(0);
        let slot = self.slots.iter_mut().find(|slot| slot.port == wanted.port);
        match (refusal, slot) {
            (soap::Refusal::CONFLICT, Some(slot)) if slot.tries < MAX_CONFLICTS => {
                (slot.tries, slot.wish) = (slot.tries + 1, port);
            }
            (soap::Refusal::ONLY_PERMANENT, Some(_)) if !self.upnp.permanent => self.upnp.permanent = true,
            (_, Some(_)) if matches!(call, Call::AddAny(_)) && !self.upnp.no_any => self.upnp.no_any = true,
            _ => self.no_use(ProtocolStatus::Refused(Refusal::Upnp(refusal)), now),
        }
    }
}

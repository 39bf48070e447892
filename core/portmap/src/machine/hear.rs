//! What comes back by PCP and NAT-PMP.
//!
//! An answer that nobody waits for is not heard, so that a gateway cannot make events without end.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use taut_base::{Entropy, Time};

use super::{Machine, Stage};
use crate::endpoint::usable;
use crate::status::{Defect, Protocol, ProtocolStatus, Refusal};
use crate::{nat_pmp, pcp};

/// The least time between two restarts of the gateway that are believed (fault D15).
const RESTARTS: Duration = Duration::from_secs(60);

/// How far a gateway's count of seconds may fall behind: an eighth, and two seconds (RFC 6886 section 3.6).
const SLACK: u64 = 2;

impl<E: Entropy> Machine<E> {
    /// The gateway's port is closed.
    pub(super) fn closed(&mut self, now: Time) {
        if self.stage == Stage::Knocking {
            for protocol in [Protocol::Pcp, Protocol::NatPmp] {
                self.set_status(protocol, ProtocolStatus::Closed);
            }
            (self.knock.no_pcp, self.knock.no_nat_pmp) = (true, true);
        }
        self.handle_timeout(now);
    }

    /// Something came from the gateway.
    pub(super) fn hear(&mut self, from: SocketAddr, bytes: &[u8], now: Time) {
        if let Some(response) = pcp::Response::parse(bytes) {
            self.hear_pcp(from, &response, now);
        } else if let Some(response) = nat_pmp::Response::parse(bytes) {
            self.hear_nat_pmp(from, &response, now);
        }
        self.handle_timeout(now);
    }

    fn hear_pcp(&mut self, from: SocketAddr, response: &pcp::Response, now: Time) {
        let number = match response.map {
            Some(map) => self.slots.iter().position(|slot| slot.nonce == map.nonce && slot.port == map.port),
            // An error in short form names nothing; only the first port is asked for then.
            None => (self.stage == Stage::Knocking).then_some(0),
        };
        if let (Some(map), true) = (response.map, response.result.is_success() && response.lifetime == 0) {
            return self.left(|leaving| leaving.nonce == map.nonce);
        }
        let expected = |number: &usize| match self.stage {
            Stage::Knocking => !self.knock.no_pcp,
            Stage::Serving(Protocol::Pcp) => self.slots[*number].tries > 0,
            _ => false,
        };
        let Some(number) = number.filter(expected) else { return };
        self.report.protocol_mut(Protocol::Pcp).from = Some(from);
        if let (Some(map), true) = (response.map, response.result.is_success()) {
            self.hear_epoch(Protocol::Pcp, response.epoch, now);
            if self.accept(number, (Protocol::Pcp, map.outside), response.lifetime, now) {
                return;
            }
            self.give_up(number, now);
        } else {
            self.set_status(Protocol::Pcp, ProtocolStatus::Refused(Refusal::Pcp(response.result)));
        }
        if self.stage == Stage::Knocking {
            self.knock.no_pcp = true;
        } else {
            self.refuse(number, Protocol::Pcp, now);
        }
    }

    fn hear_nat_pmp(&mut self, from: SocketAddr, response: &nat_pmp::Response, now: Time) {
        let unsupported = response.result == nat_pmp::Result::UNSUPPORTED_VERSION;
        if self.stage == Stage::Knocking && unsupported && !matches!(response.body, nat_pmp::Body::Address(_)) {
            self.knock.no_pcp = true;
            self.report.protocol_mut(Protocol::Pcp).from = Some(from);
            return self.set_status(Protocol::Pcp, ProtocolStatus::Refused(Refusal::NatPmp(response.result)));
        }
        if !matches!(self.stage, Stage::Knocking | Stage::Serving(Protocol::NatPmp)) {
            return self.hear_nat_pmp_end(response);
        }
        self.report.protocol_mut(Protocol::NatPmp).from = Some(from);
        if response.result.is_success() {
            self.hear_epoch(Protocol::NatPmp, response.epoch, now);
        }
        match response.body {
            nat_pmp::Body::Address(address) => self.hear_address(response.result, address),
            nat_pmp::Body::Map { lifetime: 0, .. } if response.result.is_success() => self.hear_nat_pmp_end(response),
            nat_pmp::Body::Map { port, outside, lifetime } => {
                self.hear_map(response.result, (port, outside), lifetime, now);
            }
            nat_pmp::Body::Other => {}
        }
    }

    /// A mapping that we gave back is gone.
    fn hear_nat_pmp_end(&mut self, response: &nat_pmp::Response) {
        if let nat_pmp::Body::Map { port, .. } = response.body {
            self.left(|leaving| leaving.protocol == Protocol::NatPmp && leaving.port == port);
        }
    }

    fn hear_address(&mut self, result: nat_pmp::Result, address: Ipv4Addr) {
        // Any port will do: the address is judged.
        let outside = SocketAddr::new(IpAddr::V4(address), 1);
        let status = if !result.is_success() {
            ProtocolStatus::Refused(Refusal::NatPmp(result))
        } else if usable(outside, &self.overlay).is_none() {
            ProtocolStatus::Unusable(Defect::OuterAddress(address))
        } else {
            self.knock.address = Some(address);
            return;
        };
        self.set_status(Protocol::NatPmp, status);
        (self.knock.address, self.knock.no_nat_pmp) = (None, true);
    }

    fn hear_map(&mut self, result: nat_pmp::Result, mapped: (u16, u16), lifetime: u32, now: Time) {
        let (port, outside) = mapped;
        let number = self.slots.iter().position(|slot| slot.port == port && slot.tries > 0);
        let (Some(number), Stage::Serving(_)) = (number, self.stage) else { return };
        // The address may be on its way, or may have become one of no use: then the mapping waits for the next try.
        let Some(address) = self.knock.address else { return };
        if !result.is_success() {
            self.set_status(Protocol::NatPmp, ProtocolStatus::Refused(Refusal::NatPmp(result)));
            self.refuse(number, Protocol::NatPmp, now);
        } else if !self.accept(number, (Protocol::NatPmp, SocketAddr::from((address, outside))), lifetime, now) {
            self.give_up(number, now);
            self.refuse(number, Protocol::NatPmp, now);
        }
    }

    /// The gateway counts the seconds since it lost its mappings. Where it counts less than has passed, it lost them again.
    fn hear_epoch(&mut self, protocol: Protocol, epoch: u32, now: Time) {
        let known = self.knock.epoch.replace((protocol, epoch, now));
        let Some((_, former, at)) = known.filter(|(known, ..)| *known == protocol) else { return };
        let passed = now.since(at).as_secs();
        let restarted = u64::from(epoch) + SLACK < u64::from(former) + passed / 8 * 7;
        if restarted && self.knock.restarted.is_none_or(|last| now.since(last) >= RESTARTS) {
            self.knock.restarted = Some(now);
            self.renew_all(now);
        }
    }
}

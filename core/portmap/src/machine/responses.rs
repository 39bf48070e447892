//! Responses of PCP and NAT-PMP.
//!
//! A response that is not waited for is ignored, so that a gateway cannot cause events without end.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use taut_base::{Entropy, Time};

use super::{PortMapper, Stage};
use crate::endpoint::usable;
use crate::status::{Defect, Protocol, ProtocolStatus, Refusal};
use crate::{nat_pmp, pcp};

/// Least time between two restarts of the gateway that are believed, 1 minute (fault D15).
const RESTART_INTERVAL: Duration = Duration::from_secs(60);

/// How far the gateway's count of seconds may fall behind: an eighth of the time that passed, and 2 seconds (RFC 6886 section 3.6).
const EPOCH_SLACK: u64 = 2;

impl<E: Entropy> PortMapper<E> {
    /// The gateway's port is closed.
    pub(super) fn handle_port_closed(&mut self, now: Time) {
        if self.stage == Stage::TryingPcp {
            for protocol in [Protocol::Pcp, Protocol::NatPmp] {
                self.set_status(protocol, ProtocolStatus::Closed);
            }
            (self.attempt.pcp_failed, self.attempt.nat_pmp_failed) = (true, true);
        }
        self.handle_timeout(now);
    }

    /// Takes a message from the gateway's port.
    pub(super) fn handle_response(&mut self, from: SocketAddr, bytes: &[u8], now: Time) {
        if let Some(response) = pcp::Response::parse(bytes) {
            self.handle_pcp(from, &response, now);
        } else if let Some(response) = nat_pmp::Response::parse(bytes) {
            self.handle_nat_pmp(from, &response, now);
        }
        self.handle_timeout(now);
    }

    fn handle_pcp(&mut self, from: SocketAddr, response: &pcp::Response, now: Time) {
        let number = match response.map {
            Some(map) => self.slots.iter().position(|slot| slot.nonce == map.nonce && slot.port == map.port),
            // An error in short form names no mapping; in this stage only the first port is requested.
            None => (self.stage == Stage::TryingPcp).then_some(0),
        };
        if let (Some(map), true) = (response.map, response.result.is_success() && response.lifetime == 0) {
            return self.forget_releases(|releases| releases.nonce == map.nonce);
        }
        let expected = |number: &usize| match self.stage {
            Stage::TryingPcp => !self.attempt.pcp_failed,
            Stage::Serving(Protocol::Pcp) => self.slots[*number].tries > 0,
            _ => false,
        };
        let Some(number) = number.filter(expected) else { return };
        self.report.protocol_mut(Protocol::Pcp).from = Some(from);
        if let (Some(map), true) = (response.map, response.result.is_success()) {
            self.handle_epoch(Protocol::Pcp, response.epoch, now);
            if self.accept(number, (Protocol::Pcp, map.outside), response.lifetime, now) {
                return;
            }
            self.release_slot(number, now);
        } else {
            self.set_status(Protocol::Pcp, ProtocolStatus::Refused(Refusal::Pcp(response.result)));
        }
        if self.stage == Stage::TryingPcp {
            self.attempt.pcp_failed = true;
        } else {
            self.refuse(number, Protocol::Pcp, now);
        }
    }

    fn handle_nat_pmp(&mut self, from: SocketAddr, response: &nat_pmp::Response, now: Time) {
        let unsupported = response.result == nat_pmp::ResultCode::UNSUPPORTED_VERSION;
        if self.stage == Stage::TryingPcp && unsupported && !matches!(response.body, nat_pmp::Body::Address(_)) {
            self.attempt.pcp_failed = true;
            self.report.protocol_mut(Protocol::Pcp).from = Some(from);
            return self.set_status(Protocol::Pcp, ProtocolStatus::Refused(Refusal::NatPmp(response.result)));
        }
        if !matches!(self.stage, Stage::TryingPcp | Stage::Serving(Protocol::NatPmp)) {
            return self.handle_nat_pmp_release(response);
        }
        self.report.protocol_mut(Protocol::NatPmp).from = Some(from);
        if response.result.is_success() {
            self.handle_epoch(Protocol::NatPmp, response.epoch, now);
        }
        match response.body {
            nat_pmp::Body::Address(address) => self.handle_address(response.result, address),
            nat_pmp::Body::Map { lifetime: 0, .. } if response.result.is_success() => {
                self.handle_nat_pmp_release(response);
            }
            nat_pmp::Body::Map { port, outside, lifetime } => {
                self.handle_map(response.result, (port, outside), lifetime, now);
            }
            nat_pmp::Body::Other => {}
        }
    }

    /// The gateway confirms that a mapping was given back.
    fn handle_nat_pmp_release(&mut self, response: &nat_pmp::Response) {
        if let nat_pmp::Body::Map { port, .. } = response.body {
            self.forget_releases(|releases| releases.protocol == Protocol::NatPmp && releases.port == port);
        }
    }

    fn handle_address(&mut self, result: nat_pmp::ResultCode, address: Ipv4Addr) {
        // The port is arbitrary: only the address is checked.
        let outside = SocketAddr::new(IpAddr::V4(address), 1);
        let status = if !result.is_success() {
            ProtocolStatus::Refused(Refusal::NatPmp(result))
        } else if usable(outside, &self.overlay).is_none() {
            ProtocolStatus::Unusable(Defect::OuterAddress(address))
        } else {
            self.attempt.address = Some(address);
            return;
        };
        self.set_status(Protocol::NatPmp, status);
        (self.attempt.address, self.attempt.nat_pmp_failed) = (None, true);
    }

    fn handle_map(&mut self, result: nat_pmp::ResultCode, mapped: (u16, u16), lifetime: u32, now: Time) {
        let (port, outside) = mapped;
        let number = self.slots.iter().position(|slot| slot.port == port && slot.tries > 0);
        let (Some(number), Stage::Serving(_)) = (number, self.stage) else { return };
        // The address may be under way, or may have become useless: the mapping waits for the next try.
        let Some(address) = self.attempt.address else { return };
        if !result.is_success() {
            self.set_status(Protocol::NatPmp, ProtocolStatus::Refused(Refusal::NatPmp(result)));
            self.refuse(number, Protocol::NatPmp, now);
        } else if !self.accept(number, (Protocol::NatPmp, SocketAddr::from((address, outside))), lifetime, now) {
            self.release_slot(number, now);
            self.refuse(number, Protocol::NatPmp, now);
        }
    }

    /// Takes the gateway's seconds since it lost its mappings. If fewer were counted than have passed, it lost them again.
    fn handle_epoch(&mut self, protocol: Protocol, epoch: u32, now: Time) {
        let known = self.attempt.epoch.replace((protocol, epoch, now));
        let Some((_, former, at)) = known.filter(|(known, ..)| *known == protocol) else { return };
        let passed = now.since(at).as_secs();
        let restarted = u64::from(epoch) + EPOCH_SLACK < u64::from(former) + passed / 8 * 7;
        if restarted && self.attempt.restarted.is_none_or(|last| now.since(last) >= RESTART_INTERVAL) {
            self.attempt.restarted = Some(now);
            self.renew_all(now);
        }
    }
}

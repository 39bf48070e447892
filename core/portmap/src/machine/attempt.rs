//! Requests by PCP and NAT-PMP: by both at first, then by the one that serves.
//!
//! While neither serves, PCP is asked to map the first port and NAT-PMP only for the outer address, so that there are never two mappings for one
//! port. PCP is preferred: the answer of NAT-PMP counts once PCP has failed, or did not answer twice.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use taut_base::{Entropy, Time};

use super::{GatewaySocket, PortMapper, PortmapOutput, Stage};
use crate::status::{Protocol, ProtocolStatus};
use crate::{LEASE, nat_pmp, pcp};

/// The first pause between two tries, 250 ms (RFC 6886 section 3.1); doubled after each.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Tries while neither protocol serves, over after 1.75 s: a gateway is a millisecond away, and UPnP waits.
const MAX_TRIES: u32 = 3;

/// Tries of PCP after which the answer of NAT-PMP counts.
const PCP_TRIES: u32 = 2;

/// Tries of one renewal, over after 3.75 s.
const MAX_RENEWALS: u32 = 4;

#[derive(Clone, Debug, Default)]
pub(super) struct Attempt {
    tries: u32,
    pub(super) next: Time,
    /// True if PCP failed.
    pub(super) pcp_failed: bool,
    /// True if NAT-PMP failed.
    pub(super) nat_pmp_failed: bool,
    /// The outer address by NAT-PMP.
    pub(super) address: Option<Ipv4Addr>,
    /// The gateway's count of seconds, and when it arrived.
    pub(super) epoch: Option<(Protocol, u32, Time)>,
    /// When the gateway was last found to have restarted.
    pub(super) restarted: Option<Time>,
}

impl Attempt {
    pub(super) fn at(now: Time) -> Self {
        Self { next: now, ..Self::default() }
    }
}

fn seconds() -> u32 {
    u32::try_from(LEASE.as_secs()).unwrap_or(u32::MAX)
}

impl<E: Entropy> PortMapper<E> {
    /// Decides which protocol serves, or sends the next requests when they are due.
    pub(super) fn attempt(&mut self, now: Time) {
        let attempt = &self.attempt;
        let is_due = attempt.next <= now;
        if attempt.address.is_some() && (attempt.pcp_failed || attempt.tries >= PCP_TRIES && is_due) {
            if !attempt.pcp_failed {
                self.set_status(Protocol::Pcp, ProtocolStatus::Silent);
            }
            self.stage = Stage::Serving(Protocol::NatPmp);
            self.slots.iter_mut().for_each(|slot| (slot.tries, slot.next) = (0, now));
            return self.renew(Protocol::NatPmp, now);
        }
        let refused = attempt.pcp_failed && attempt.nat_pmp_failed;
        if refused || is_due && attempt.tries >= MAX_TRIES {
            for (protocol, no) in [(Protocol::Pcp, attempt.pcp_failed), (Protocol::NatPmp, attempt.nat_pmp_failed)] {
                if !no {
                    self.set_status(protocol, ProtocolStatus::Silent);
                }
            }
            return self.try_after(Protocol::NatPmp, now);
        }
        if is_due {
            self.ask_both(now);
        }
    }

    fn ask_both(&mut self, now: Time) {
        let (pcp_failed, nat_pmp_failed) =
            (self.attempt.pcp_failed, self.attempt.nat_pmp_failed || self.attempt.address.is_some());
        if self.attempt.tries == 0 {
            self.set_status(Protocol::Pcp, ProtocolStatus::Asked);
            self.set_status(Protocol::NatPmp, ProtocolStatus::Asked);
        }
        if !pcp_failed {
            self.ask_pcp(0);
        }
        if !nat_pmp_failed {
            self.send(nat_pmp::ADDRESS_REQUEST.to_vec());
        }
        self.attempt.next = now + FIRST_PAUSE * 2_u32.pow(self.attempt.tries);
        self.attempt.tries += 1;
    }

    fn ask_pcp(&mut self, number: usize) {
        let Some(gateway) = self.gateway else { return };
        let slot = &self.slots[number];
        let suggested =
            slot.lease.map_or(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, slot.outer_port), |lease| lease.outside);
        let (nonce, port) = (slot.nonce, slot.port);
        let request = pcp::Request { lifetime: seconds(), client: gateway.own, nonce, port, suggested };
        self.send(request.write().to_vec());
    }

    pub(super) fn send(&mut self, bytes: Vec<u8>) {
        if let Some(gateway) = self.gateway {
            let to = SocketAddrV4::new(gateway.address, pcp::PORT);
            self.actions.push_back(PortmapOutput::Send { socket: GatewaySocket::Pcp, to, bytes });
        }
    }

    /// Sends the requests that are due, in the protocol that serves.
    pub(super) fn renew(&mut self, protocol: Protocol, now: Time) {
        let mut address_asked = false;
        for number in 0..self.slots.len() {
            let slot = &mut self.slots[number];
            if slot.next > now {
                continue;
            }
            if slot.tries >= MAX_RENEWALS {
                self.set_status(protocol, ProtocolStatus::Silent);
                self.refuse(number, protocol, now);
                if self.stage != Stage::Serving(protocol) {
                    return;
                }
                continue;
            }
            let (port, outer_port) = (slot.port, slot.outer_port);
            slot.tried(now, FIRST_PAUSE * 2_u32.pow(slot.tries));
            if protocol == Protocol::Pcp {
                self.ask_pcp(number);
                continue;
            }
            if !std::mem::replace(&mut address_asked, true) {
                self.send(nat_pmp::ADDRESS_REQUEST.to_vec());
            }
            self.send(nat_pmp::map_request(port, outer_port, seconds()).to_vec());
        }
    }
}

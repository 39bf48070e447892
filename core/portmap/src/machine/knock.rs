//! PCP and NAT-PMP: at first both at once, then the one that serves.
//!
//! Knocking asks PCP for the first port, and NAT-PMP for the outer address only, so that there are never two mappings for one port. PCP is
//! preferred: NAT-PMP's good answer counts once PCP has said no, or nothing twice.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use taut_base::{Entropy, Time};

use super::{Door, Machine, PortmapOutput, Stage};
use crate::status::{Protocol, ProtocolStatus};
use crate::{LEASE, nat_pmp, pcp};

/// The first pause between two tries (RFC 6886 section 3.1); each further one is twice as long.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Tries while nobody serves: over after 1.75 s. A gateway is a millisecond away, and UPnP waits.
const KNOCKS: u32 = 3;

/// Tries of PCP after which NAT-PMP's answer counts.
const PREFERENCE: u32 = 2;

/// Tries for one renewal: over after 3.75 s.
const RENEWALS: u32 = 4;

#[derive(Clone, Debug, Default)]
pub(super) struct Knock {
    tries: u32,
    pub(super) next: Time,
    /// PCP has said no.
    pub(super) no_pcp: bool,
    /// NAT-PMP has said no.
    pub(super) no_nat_pmp: bool,
    /// The outer address by NAT-PMP.
    pub(super) address: Option<Ipv4Addr>,
    /// The gateway's count of seconds, and when it said so.
    pub(super) epoch: Option<(Protocol, u32, Time)>,
    /// When it was last found to have been restarted.
    pub(super) restarted: Option<Time>,
}

impl Knock {
    pub(super) fn at(now: Time) -> Self {
        Self { next: now, ..Self::default() }
    }
}

fn seconds() -> u32 {
    u32::try_from(LEASE.as_secs()).unwrap_or(u32::MAX)
}

impl<E: Entropy> Machine<E> {
    /// Decides, or asks once more when it is time.
    pub(super) fn knock(&mut self, now: Time) {
        let knock = &self.knock;
        let is_due = knock.next <= now;
        if knock.address.is_some() && (knock.no_pcp || knock.tries >= PREFERENCE && is_due) {
            if !knock.no_pcp {
                self.set_status(Protocol::Pcp, ProtocolStatus::Silent);
            }
            self.stage = Stage::Serving(Protocol::NatPmp);
            self.slots.iter_mut().for_each(|slot| (slot.tries, slot.next) = (0, now));
            return self.renew(Protocol::NatPmp, now);
        }
        let refused = knock.no_pcp && knock.no_nat_pmp;
        if refused || is_due && knock.tries >= KNOCKS {
            for (protocol, no) in [(Protocol::Pcp, knock.no_pcp), (Protocol::NatPmp, knock.no_nat_pmp)] {
                if !no {
                    self.set_status(protocol, ProtocolStatus::Silent);
                }
            }
            return self.go_on_from(Protocol::NatPmp, now);
        }
        if is_due {
            self.ask_both(now);
        }
    }

    fn ask_both(&mut self, now: Time) {
        let (no_pcp, no_nat_pmp) = (self.knock.no_pcp, self.knock.no_nat_pmp || self.knock.address.is_some());
        if self.knock.tries == 0 {
            self.set_status(Protocol::Pcp, ProtocolStatus::Asked);
            self.set_status(Protocol::NatPmp, ProtocolStatus::Asked);
        }
        if !no_pcp {
            self.ask_pcp(0);
        }
        if !no_nat_pmp {
            self.send(nat_pmp::ADDRESS_REQUEST.to_vec());
        }
        self.knock.next = now + FIRST_PAUSE * 2_u32.pow(self.knock.tries);
        self.knock.tries += 1;
    }

    fn ask_pcp(&mut self, number: usize) {
        let Some(gateway) = self.gateway else { return };
        let slot = &self.slots[number];
        let wish = slot.held.map_or(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, slot.wish), |held| held.outside);
        let (nonce, port) = (slot.nonce, slot.port);
        let request = pcp::Request { lifetime: seconds(), client: gateway.own, nonce, port, wish };
        self.send(request.write().to_vec());
    }

    pub(super) fn send(&mut self, bytes: Vec<u8>) {
        if let Some(gateway) = self.gateway {
            let to = SocketAddrV4::new(gateway.address, pcp::PORT);
            self.actions.push_back(PortmapOutput::Send { door: Door::Pcp, to, bytes });
        }
    }

    /// Asks again for what is due, in the protocol that serves.
    pub(super) fn renew(&mut self, protocol: Protocol, now: Time) {
        let mut address_asked = false;
        for number in 0..self.slots.len() {
            let slot = &mut self.slots[number];
            if slot.next > now {
                continue;
            }
            if slot.tries >= RENEWALS {
                self.set_status(protocol, ProtocolStatus::Silent);
                self.refuse(number, protocol, now);
                if self.stage != Stage::Serving(protocol) {
                    return;
                }
                continue;
            }
            let (port, wish) = (slot.port, slot.wish);
            slot.tried(now, FIRST_PAUSE * 2_u32.pow(slot.tries));
            if protocol == Protocol::Pcp {
                self.ask_pcp(number);
                continue;
            }
            if !std::mem::replace(&mut address_asked, true) {
                self.send(nat_pmp::ADDRESS_REQUEST.to_vec());
            }
            self.send(nat_pmp::map_request(port, wish, seconds()).to_vec());
        }
    }
}

//! The kind of NAT that follows from the endpoints that relays see.

use core::net::SocketAddr;
use std::vec::Vec;

use taut_base::SortedSet;

use super::{NatReport, Observation};
use crate::nat::{Nat, PortPrediction};

/// Limit on the reported endpoints: behind a NAT that gives each destination another one, more of them are useless.
const MAX_REFLEXIVE: usize = 3;

/// Largest gap between successive ports of a NAT that counts up: flows of other hosts come between two requests.
const SEQUENTIAL_GAP: u16 = 16;

/// The mapping of a NAT (RFC 4787, section 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NatMapping {
    /// Not enough answers.
    #[default]
    Unknown,
    /// No NAT.
    None,
    /// One outer port for all destinations.
    EndpointIndependent,
    /// Another outer port for each address.
    AddressDependent,
    /// Another outer port for each address and port.
    AddressAndPortDependent,
}

/// The filtering of a NAT (RFC 4787, section 5), as far as a relay with one address can find out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NatFiltering {
    /// Not enough answers.
    #[default]
    Unknown,
    /// Every port of an address that was sent to passes, and perhaps every address.
    AtMostAddressDependent,
    /// Only the port that was sent to passes.
    AddressAndPortDependent,
}

/// Returns the greatest common divisor.
fn common(one: u16, other: u16) -> u16 {
    if other == 0 { one } else { common(other, one % other) }
}

impl NatReport {
    /// Returns the endpoints that relays see and no interface has, in the order of the requests.
    pub(super) fn reflexive(&self) -> Vec<SocketAddr> {
        let mut list: Vec<SocketAddr> = Vec::new();
        for seen in self.in_order(|_| true) {
            if list.len() < MAX_REFLEXIVE && !list.contains(&seen.mapped) && !self.hosts.contains(&seen.mapped) {
                list.push(seen.mapped);
            }
        }
        list
    }

    fn in_order(&self, fits: impl Fn(&Observation) -> bool) -> Vec<Observation> {
        let mut seen: Vec<Observation> = self.valid().seen.iter().copied().filter(fits).collect();
        seen.sort_by_key(|seen| (seen.order, seen.by));
        seen
    }

    /// Returns the kind of NAT for IPv4; for IPv6 if there are no answers by IPv4.
    pub(super) fn judge(&self) -> Nat {
        match self.mapping() {
            NatMapping::Unknown if self.blocked => Nat::Blocked,
            NatMapping::Unknown => Nat::Unknown,
            NatMapping::None => Nat::Open,
            NatMapping::EndpointIndependent => Nat::Cone,
            NatMapping::AddressDependent | NatMapping::AddressAndPortDependent => {
                let ports = self.ports();
                let close = |pair: &[u16]| pair[1] - pair[0] <= SEQUENTIAL_GAP;
                if ports.len() >= 2 && ports.windows(2).all(close) { Nat::Sequential } else { Nat::Symmetric }
            }
        }
    }

    /// Returns the ports that relays saw, ascending: requests of one moment reach the NAT in any order. Two random ports are this close once in two
    /// thousand times; a port search then begins in the wrong place.
    fn ports(&self) -> Vec<u16> {
        let ports: SortedSet<u16> = self.judged().iter().map(|seen| seen.mapped.port()).collect();
        ports.into_iter().collect()
    }

    /// Returns the endpoint that another destination may see, if each sees another one.
    pub fn prediction(&self) -> Option<PortPrediction> {
        let nat = self.nat;
        if !nat.is_hard() {
            return None;
        }
        let latest = self
            .judged()
            .into_iter()
            .filter(|seen| seen.by.is_ipv4())
            .max_by_key(|seen| (seen.order, seen.mapped.port()))?;
        if nat == Nat::Symmetric {
            return Some(PortPrediction { latest: latest.mapped, step: 0 });
        }
        let ports = self.ports();
        let gaps = || ports.windows(2).map(|pair| pair[1] - pair[0]);
        // One gap may contain flows of other hosts; the common divisor of several is the NAT's step.
        let step = if gaps().count() > 1 { gaps().fold(0, common) } else { 1 };
        let port = ports.last().copied().unwrap_or(latest.mapped.port());
        Some(PortPrediction {
            latest: SocketAddr::new(latest.mapped.ip(), port),
            step: u8::try_from(step).unwrap_or(1),
        })
    }

    /// Returns the answers of one family, which the verdict is based on.
    fn judged(&self) -> Vec<Observation> {
        let four = self.in_order(|seen| seen.by.is_ipv4());
        if four.is_empty() { self.in_order(|seen| seen.by.is_ipv6()) } else { four }
    }

    pub(super) fn mapping(&self) -> NatMapping {
        let seen = self.judged();
        if seen.is_empty() {
            return NatMapping::Unknown;
        }
        if seen.iter().all(|seen| self.hosts.contains(&seen.mapped)) {
            return NatMapping::None;
        }
        let differ = |same_address: bool| {
            let differs = |one: &Observation, other: &Observation| {
                (one.by.ip() == other.by.ip()) == same_address && one.mapped != other.mapped
            };
            seen.iter().any(|one| seen.iter().any(|other| differs(one, other)))
        };
        match (differ(true), differ(false)) {
            (true, _) => NatMapping::AddressAndPortDependent,
            (false, true) => NatMapping::AddressDependent,
            // One destination says nothing about others.
            (false, false) if seen.len() < 2 => NatMapping::Unknown,
            (false, false) => NatMapping::EndpointIndependent,
        }
    }

    pub(super) fn filtering(&self) -> NatFiltering {
        // While the round lasts an answer may still come.
        let known = if self.round.is_some() { &self.previous } else { &self.current };
        match (known.passed_filter, known.reached_test_socket) {
            (true, _) => NatFiltering::AtMostAddressDependent,
            (false, true) => NatFiltering::AddressAndPortDependent,
            (false, false) => NatFiltering::Unknown,
        }
    }
}

//! What follows from where relays see us.

use core::net::SocketAddr;
use std::collections::BTreeSet;
use std::vec::Vec;

use super::{NatReport, Seen};
use crate::nat::Nat;

/// Reflexive endpoints that are told: of a NAT that gives each destination another one, no more are worth anything.
const TOLD: usize = 3;

/// Ports of one NAT for destinations that were asked one after the other lie so close when it counts them up: other hosts' flows come between.
const IN_A_ROW: u16 = 16;

/// How a NAT maps (RFC 4787, section 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mapping {
    /// Too little was seen.
    #[default]
    Unknown,
    /// There is none.
    None,
    /// One outer port for all destinations.
    EndpointIndependent,
    /// Another one for each address.
    AddressDependent,
    /// Another one for each address and port.
    AddressAndPortDependent,
}

/// Whom it lets in (RFC 4787, section 5), as far as a relay with one address can find out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filtering {
    /// Too little was seen.
    #[default]
    Unknown,
    /// Anybody at an address that was spoken to, and perhaps anybody at all.
    AtMostAddressDependent,
    /// Only the very port that was spoken to.
    AddressAndPortDependent,
}

/// Where a destination that is new may see us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foretold {
    /// The NAT's address, and the latest port that is known of it.
    pub latest: SocketAddr,
    /// How the NAT counts its ports up; 0 when it draws them.
    pub step: u8,
}

/// The greatest number that divides both.
fn common(one: u16, other: u16) -> u16 {
    if other == 0 { one } else { common(other, one % other) }
}

impl NatReport {
    /// Where we are seen, beside our own addresses: what was asked first comes first.
    pub(super) fn reflexive(&self) -> Vec<SocketAddr> {
        let mut list: Vec<SocketAddr> = Vec::new();
        for seen in self.in_order(|_| true) {
            if list.len() < TOLD && !list.contains(&seen.mapped) && !self.hosts.contains(&seen.mapped) {
                list.push(seen.mapped);
            }
        }
        list
    }

    fn in_order(&self, fits: impl Fn(&Seen) -> bool) -> Vec<Seen> {
        let mut seen: Vec<Seen> = self.known().seen.iter().copied().filter(fits).collect();
        seen.sort_by_key(|seen| (seen.order, seen.by));
        seen
    }

    /// What we are behind, by IPv4, where NATs are; by IPv6 where there is nothing else.
    pub(super) fn judge(&self) -> Nat {
        match self.mapping() {
            Mapping::Unknown if self.blocked => Nat::Blocked,
            Mapping::Unknown => Nat::Unknown,
            Mapping::None => Nat::Open,
            Mapping::EndpointIndependent => Nat::Cone,
            Mapping::AddressDependent | Mapping::AddressAndPortDependent => {
                let ports = self.ports();
                let close = |pair: &[u16]| pair[1] - pair[0] <= IN_A_ROW;
                if ports.len() >= 2 && ports.windows(2).all(close) { Nat::Sequential } else { Nat::Symmetric }
            }
        }
    }

    /// The ports that relays saw, ascending: what was asked at one moment reaches the NAT in any order. By chance two drawn ones are close once in two
    /// thousand times, and then are only looked for in the wrong place at first.
    fn ports(&self) -> Vec<u16> {
        let ports: BTreeSet<u16> = self.judged().iter().map(|seen| seen.mapped.port()).collect();
        ports.into_iter().collect()
    }

    /// Where another destination may see us, if each sees us elsewhere.
    pub fn foretold(&self) -> Option<Foretold> {
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
            return Some(Foretold { latest: latest.mapped, step: 0 });
        }
        let ports = self.ports();
        let gaps = || ports.windows(2).map(|pair| pair[1] - pair[0]);
        // One gap may hold other hosts' flows; what several have in common is how the NAT counts.
        let step = if gaps().count() > 1 { gaps().fold(0, common) } else { 1 };
        let port = ports.last().copied().unwrap_or(latest.mapped.port());
        Some(Foretold { latest: SocketAddr::new(latest.mapped.ip(), port), step: u8::try_from(step).unwrap_or(1) })
    }

    /// What is judged by: the answers of one family.
    fn judged(&self) -> Vec<Seen> {
        let four = self.in_order(|seen| seen.by.is_ipv4());
        if four.is_empty() { self.in_order(|seen| seen.by.is_ipv6()) } else { four }
    }

    pub(super) fn mapping(&self) -> Mapping {
        let seen = self.judged();
        if seen.is_empty() {
            return Mapping::Unknown;
        }
        if seen.iter().all(|seen| self.hosts.contains(&seen.mapped)) {
            return Mapping::None;
        }
        let differ = |same_address: bool| {
            let differs =
                |one: &Seen, other: &Seen| (one.by.ip() == other.by.ip()) == same_address && one.mapped != other.mapped;
            seen.iter().any(|one| seen.iter().any(|other| differs(one, other)))
        };
        match (differ(true), differ(false)) {
            (true, _) => Mapping::AddressAndPortDependent,
            (false, true) => Mapping::AddressDependent,
            // One destination says nothing of others.
            (false, false) if seen.len() < 2 => Mapping::Unknown,
            (false, false) => Mapping::EndpointIndependent,
        }
    }

    pub(super) fn filtering(&self) -> Filtering {
        // While the round lasts an answer may still come.
        let known = if self.round.is_some() { &self.former } else { &self.found };
        match (known.passed_filter, known.reached_apart) {
            (true, _) => Filtering::AtMostAddressDependent,
            (false, true) => Filtering::AddressAndPortDependent,
            (false, false) => Filtering::Unknown,
        }
    }
}

//! One NAT: mappings, permissions, external ports.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::RangeInclusive;

use taut_base::Time;

use crate::nat::kind::{Filtering, Ports, Traits};
use taut_testkit::Seeded;

/// Mappings at most; when it is full, those that ran out go, and if that gives no room, nothing new goes out.
const MAX_MAPPINGS: usize = 16_384;

/// Permissions at most: a socket that sends to a thousand ports of a peer to find the open one needs as many.
const MAX_PERMITTED: usize = 65_536;

/// External ports, as a NAT with one external address has them: all that are not reserved.
const PORTS: RangeInclusive<u16> = 1024..=u16::MAX;

/// Why a router did not let a datagram pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// UDP does not pass here.
    Blocked,
    /// Nobody inside has this external port.
    NoMapping,
    /// The sender may not send in.
    Filtered,
    /// The table is full.
    Full,
}

/// Whose a mapping is: a host's socket, and where mappings depend on it, the destination.
type Owner = (SocketAddrV4, Option<SocketAddrV4>);

/// A NAT's tables. Addresses are translated, and filters judged, by its [`Traits`]; expiry is looked at when it matters, so there is no timer.
#[derive(Clone, Debug)]
pub struct Router {
    traits: Traits,
    external: Ipv4Addr,
    chance: Seeded,
    next_port: u16,
    mappings: BTreeMap<Owner, Mapped>,
    owners: BTreeMap<SocketAddrV4, Owner>,
    /// Until when who may send in: external endpoint, sender.
    permitted: BTreeMap<(SocketAddrV4, SocketAddrV4), Time>,
}

#[derive(Clone, Copy, Debug)]
struct Mapped {
    outer: SocketAddrV4,
    /// When it ends; `None` while it is only remembered ([`Router::forget`]).
    until: Option<Time>,
}

impl Router {
    /// A router that has just been switched on.
    pub fn new(traits: Traits, external: Ipv4Addr, seed: u64) -> Self {
        let mut chance = Seeded::new(seed);
        let next_port = draw(&mut chance);
        Self {
            traits,
            external,
            chance,
            next_port,
            mappings: BTreeMap::new(),
            owners: BTreeMap::new(),
            permitted: BTreeMap::new(),
        }
    }

    /// What it does.
    pub fn traits(&self) -> &Traits {
        &self.traits
    }

    /// Its address outside; of no meaning where nothing is translated.
    pub fn external(&self) -> Ipv4Addr {
        self.external
    }

    /// A datagram goes out: the source that everybody outside sees.
    pub fn outbound(
        &mut self,
        source: SocketAddrV4,
        destination: SocketAddrV4,
        now: Time,
    ) -> Result<SocketAddrV4, Refusal> {
        if !self.traits.udp {
            return Err(Refusal::Blocked);
        }
        if self.permitted.len() >= MAX_PERMITTED {
            self.purge(now);
        }
        if self.permitted.len() >= MAX_PERMITTED {
            return Err(Refusal::Full);
        }
        let owner = (source, self.traits.is_hard().then_some(destination));
        let outer = match self.mappings.get(&owner) {
            Some(mapped) if mapped.until.is_none_or(|until| now < until) => mapped.outer,
            _ => self.allocate(owner, now)?,
        };
        let until = now + self.traits.timeout;
        self.mappings.insert(owner, Mapped { outer, until: Some(until) });
        self.owners.insert(outer, owner);
        self.permitted.insert((outer, destination), until);
        Ok(outer)
    }

    /// A datagram from outside for `destination`: the host's socket inside that gets it.
    pub fn inbound(&self, source: SocketAddrV4, destination: SocketAddrV4, now: Time) -> Result<SocketAddrV4, Refusal> {
        if !self.traits.udp {
            return Err(Refusal::Blocked);
        }
        let open = self.traits.filtering == Filtering::None;
        let inside = if self.traits.translates() { self.behind(destination, now) } else { Some(destination) };
        let inside = inside.ok_or(Refusal::NoMapping)?;
        if open || self.permits(destination, source, now) { Ok(inside) } else { Err(Refusal::Filtered) }
    }

    /// A datagram from inside for one of its own external ports: the source that the other host sees, and that host's socket. Nobody is filtered here.
    pub fn hairpin(
        &mut self,
        source: SocketAddrV4,
        destination: SocketAddrV4,
        now: Time,
    ) -> Result<(SocketAddrV4, SocketAddrV4), Refusal> {
        let inside = self.behind(destination, now).filter(|_| self.traits.hairpin).ok_or(Refusal::NoMapping)?;
        Ok((self.outbound(source, destination, now)?, inside))
    }

    /// Flows and permissions are gone, as after a restart that keeps its table of ports; where each flow has a port of its own, there is no such table.
    pub fn forget(&mut self) {
        if self.traits.is_hard() {
            return self.rebind();
        }
        self.permitted.clear();
        self.owners.clear();
        self.mappings.values_mut().for_each(|mapped| mapped.until = None);
    }

    /// Everything is gone: whoever sends next gets another external port.
    pub fn rebind(&mut self) {
        self.mappings.clear();
        self.owners.clear();
        self.permitted.clear();
        self.next_port = draw(&mut self.chance);
    }

    /// The provider gives it another external address.
    pub fn change_address(&mut self, external: Ipv4Addr) {
        self.external = external;
        self.rebind();
    }

    /// From now on it does this, with the tables that it has.
    pub fn set_traits(&mut self, traits: Traits) {
        self.traits = traits;
    }

    /// Mappings in its table, those that ran out included.
    pub fn mappings(&self) -> usize {
        self.mappings.len()
    }

    fn behind(&self, outer: SocketAddrV4, now: Time) -> Option<SocketAddrV4> {
        let owner = self.owners.get(&outer)?;
        let mapped = self.mappings.get(owner)?;
        mapped.until.is_some_and(|until| now < until).then_some(owner.0)
    }

    fn permits(&self, outer: SocketAddrV4, source: SocketAddrV4, now: Time) -> bool {
        let ports = match self.traits.filtering {
            Filtering::None | Filtering::EndpointIndependent => return true,
            Filtering::AddressDependent => 0..=u16::MAX,
            Filtering::AddressAndPortDependent => source.port()..=source.port(),
        };
        let [first, last] = [ports.start(), ports.end()].map(|port| (outer, SocketAddrV4::new(*source.ip(), *port)));
        self.permitted.range(first..=last).any(|(_, until)| now < *until)
    }

    fn allocate(&mut self, owner: Owner, now: Time) -> Result<SocketAddrV4, Refusal> {
        if let Some(old) = self.mappings.remove(&owner) {
            self.owners.remove(&old.outer);
        }
        if self.mappings.len() >= MAX_MAPPINGS {
            self.purge(now);
        }
        if self.mappings.len() >= MAX_MAPPINGS {
            return Err(Refusal::Full);
        }
        if !self.traits.translates() {
            return Ok(owner.0);
        }
        // The table has room for a quarter of the ports, so a free one is found soon.
        loop {
            let port = match self.traits.ports {
                Ports::Random => draw(&mut self.chance),
                Ports::Sequential => self.count(),
            };
            let outer = SocketAddrV4::new(self.external, port);
            if !self.owners.contains_key(&outer) {
                return Ok(outer);
            }
        }
    }

    fn count(&mut self) -> u16 {
        let port = self.next_port;
        self.next_port = port.checked_add(1).unwrap_or(*PORTS.start());
        port
    }

    fn purge(&mut self, now: Time) {
        self.mappings.retain(|_, mapped| mapped.until.is_none_or(|until| now < until));
        self.permitted.retain(|_, until| now < *until);
        let kept = &self.mappings;
        self.owners.retain(|_, owner| kept.contains_key(owner));
    }
}

/// A port by chance.
fn draw(chance: &mut Seeded) -> u16 {
    let many = u64::from(PORTS.end() - PORTS.start()) + 1;
    // The remainder is below 65,536 - 1,024 by construction.
    PORTS.start() + u16::try_from(chance.next_u64() % many).unwrap_or(0)
}

#[cfg(test)]
mod tests;

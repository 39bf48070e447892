//! One NAT: mappings, permissions, external ports.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::RangeInclusive;

use taut_base::Time;

use crate::nat::kind::{Filtering, Ports, Traits};
use taut_testkit::Seeded;

/// Maximum number of mappings. A full table drops expired mappings; if all are valid, new flows are refused.
const MAX_MAPPINGS: usize = 16_384;

/// Maximum number of permissions. A socket that sends to a thousand ports of a peer to find the open one needs a thousand of them.
const MAX_PERMITTED: usize = 65_536;

/// External ports of a NAT with one external address: all that are not reserved.
const PORTS: RangeInclusive<u16> = 1024..=u16::MAX;

/// The reason why a router dropped a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The router drops all UDP.
    Blocked,
    /// No mapping has this external port.
    NoMapping,
    /// The filter does not let this sender in.
    Filtered,
    /// The table of mappings is full.
    Full,
}

/// The owner of a mapping: a host's socket, and the destination if the mapping depends on it.
type Owner = (SocketAddrV4, Option<SocketAddrV4>);

/// A NAT's tables. [`Traits`] determine translation and filtering. Expiry is checked on use, so there is no timer.
#[derive(Clone, Debug)]
pub struct Router {
    traits: Traits,
    external: Ipv4Addr,
    chance: Seeded,
    next_port: u16,
    mappings: BTreeMap<Owner, Mapped>,
    owners: BTreeMap<SocketAddrV4, Owner>,
    /// End of the permission to send in, by external endpoint and sender.
    permitted: BTreeMap<(SocketAddrV4, SocketAddrV4), Time>,
}

#[derive(Clone, Copy, Debug)]
struct Mapped {
    outer: SocketAddrV4,
    /// Expiry of the mapping; `None` while the table only keeps its port ([`Router::forget`]).
    until: Option<Time>,
}

impl Router {
    /// Creates a router with empty tables.
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

    /// Returns the router's traits.
    pub fn traits(&self) -> &Traits {
        &self.traits
    }

    /// Returns the external address. It has no meaning without translation.
    pub fn external(&self) -> Ipv4Addr {
        self.external
    }

    /// Passes a datagram out. Returns the source that hosts outside see.
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

    /// Passes a datagram in. Returns the socket of the host that receives it.
    pub fn inbound(&self, source: SocketAddrV4, destination: SocketAddrV4, now: Time) -> Result<SocketAddrV4, Refusal> {
        if !self.traits.udp {
            return Err(Refusal::Blocked);
        }
        let open = self.traits.filtering == Filtering::None;
        let inside = if self.traits.translates() { self.behind(destination, now) } else { Some(destination) };
        let inside = inside.ok_or(Refusal::NoMapping)?;
        if open || self.permits(destination, source, now) { Ok(inside) } else { Err(Refusal::Filtered) }
    }

    /// Passes a datagram from inside to one of the router's own external ports. Returns the source that the receiver sees, and the receiver's socket. The
    /// filter does not apply.
    pub fn hairpin(
        &mut self,
        source: SocketAddrV4,
        destination: SocketAddrV4,
        now: Time,
    ) -> Result<(SocketAddrV4, SocketAddrV4), Refusal> {
        let inside = self.behind(destination, now).filter(|_| self.traits.hairpin).ok_or(Refusal::NoMapping)?;
        Ok((self.outbound(source, destination, now)?, inside))
    }

    /// Removes flows and permissions but keeps ports, as a restart does with a stored port table. A NAT with a port per flow has no such table.
    pub fn forget(&mut self) {
        if self.traits.is_hard() {
            return self.rebind();
        }
        self.permitted.clear();
        self.owners.clear();
        self.mappings.values_mut().for_each(|mapped| mapped.until = None);
    }

    /// Clears all tables, so the next datagram of each flow gets another external port.
    pub fn rebind(&mut self) {
        self.mappings.clear();
        self.owners.clear();
        self.permitted.clear();
        self.next_port = draw(&mut self.chance);
    }

    /// Changes the external address, as a provider does.
    pub fn change_address(&mut self, external: Ipv4Addr) {
        self.external = external;
        self.rebind();
    }

    /// Changes the traits. The tables stay.
    pub fn set_traits(&mut self, traits: Traits) {
        self.traits = traits;
    }

    /// Returns the number of mappings in the table, including expired ones.
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
        // The table has room for a quarter of the ports, so a few draws find a free one.
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

/// Returns a random port.
fn draw(chance: &mut Seeded) -> u16 {
    let many = u64::from(PORTS.end() - PORTS.start()) + 1;
    // The remainder is below 65,536 - 1,024 by construction.
    PORTS.start() + u16::try_from(chance.next_u64() % many).unwrap_or(0)
}

#[cfg(test)]
mod tests;

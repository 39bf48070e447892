//! Zones, the routers between them, the hosts in them, and the path of a datagram.

use std::net::{Ipv4Addr, SocketAddrV4};

use taut_base::Time;

use crate::nat::kind::{Kind, Place, Traits};
use crate::nat::router::{Refusal, Router};

/// Maximum number of routers that a datagram passes. More mean a loop.
const MAX_HOPS: u32 = 8;

/// A host of an [`Internet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostId(usize);

/// A router of an [`Internet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouterId(usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ZoneId(usize);

/// The zone of all servers.
const PUBLIC: ZoneId = ZoneId(0);

/// A datagram between its way up and its way down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transit {
    zone: ZoneId,
    source: SocketAddrV4,
    destination: SocketAddrV4,
    /// Whether a server sent the datagram.
    server: bool,
}

/// A delivered datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The receiving host.
    pub to: HostId,
    /// The source that the receiver sees.
    pub source: SocketAddrV4,
    /// The receiver's own address and port.
    pub destination: SocketAddrV4,
}

/// The reason why a datagram was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// No host or router has the destination address.
    NoRoute,
    /// A router dropped the datagram.
    Refused(Refusal),
    /// The datagram was lost in a [`Hole`].
    Hole,
}

/// The directions in which a router loses datagrams. Datagrams from and to servers pass, except if the link is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hole {
    /// No losses.
    #[default]
    None,
    /// Incoming datagrams are lost.
    In,
    /// Outgoing datagrams are lost.
    Out,
    /// Both directions are lost.
    Both,
    /// The link is down: servers' datagrams are lost too.
    Cut,
}

/// A small internet. The same calls in the same order have the same results.
#[derive(Clone, Debug)]
pub struct Internet {
    /// The router to the outside of each zone; `None` for the public zone.
    uplinks: Vec<Option<RouterId>>,
    routers: Vec<Between>,
    hosts: Vec<Located>,
    seed: u64,
    next_public: u32,
}

#[derive(Clone, Debug)]
struct Between {
    router: Router,
    kind: Kind,
    outer: ZoneId,
    /// The carrier's router behind this router, if this router belongs to a carrier's customer.
    carrier: Option<RouterId>,
    hole: Hole,
}

#[derive(Clone, Copy, Debug)]
struct Located {
    zone: ZoneId,
    address: Ipv4Addr,
    server: bool,
}

impl Internet {
    /// Creates an internet without hosts. All routers' randomness comes from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { uplinks: vec![None], routers: Vec::new(), hosts: Vec::new(), seed, next_public: 0 }
    }

    /// Adds a host that is reachable from everywhere: 192.0.2.n.
    pub fn server(&mut self) -> HostId {
        let number = self.hosts.iter().filter(|host| host.server).count() as u32 + 2;
        self.add(Located { zone: PUBLIC, address: address([192, 0, 2, 0], number), server: true })
    }

    /// Returns true if the host is reachable from everywhere.
    pub fn is_server(&self, host: HostId) -> bool {
        self.hosts[host.0].server
    }

    /// Adds a host behind its own NAT of this kind. Every home has the network 192.168.1.0/24, as real homes often do.
    pub fn behind(&mut self, kind: Kind) -> HostId {
        let carrier = kind.traits().carrier.then(|| self.route(kind, PUBLIC, None).0);
        self.home(kind, carrier)
    }

    /// Adds a host on the network of `host`.
    pub fn beside(&mut self, host: HostId) -> HostId {
        let Located { zone, address, .. } = self.hosts[host.0];
        let number = self.hosts.iter().filter(|other| other.zone == zone).count() as u32;
        let address = Ipv4Addr::from_bits(address.to_bits() + number);
        self.add(Located { zone, address, server: false })
    }

    /// Adds a host behind the NAT of `host`, on a network that the NAT separates: 192.168.2.0/24.
    pub fn guest(&mut self, host: HostId) -> HostId {
        let uplink = self.uplinks[self.hosts[host.0].zone.0];
        self.uplinks.push(uplink);
        let zone = ZoneId(self.uplinks.len() - 1);
        self.add(Located { zone, address: Ipv4Addr::new(192, 168, 2, 2), server: false })
    }

    /// Adds a host behind its own NAT and the same carrier's NAT as `host`.
    pub fn neighbour(&mut self, host: HostId) -> HostId {
        let nat = self.nat(host).map(|id| &self.routers[id.0]);
        let (kind, carrier) = nat.map_or((Kind::Open, None), |between| (between.kind, between.carrier));
        self.home(kind, carrier)
    }

    /// Adds two hosts of these kinds in this place. Only [`Place::Apart`] has two kinds; in all other places both hosts are of the first kind.
    pub fn pair(&mut self, a: Kind, b: Kind, place: Place) -> (HostId, HostId) {
        let one = self.behind(a);
        let two = match place {
            Place::Apart => self.behind(b),
            Place::SameLan => self.beside(one),
            Place::Isolated => self.guest(one),
            Place::SameCarrier => self.neighbour(one),
        };
        (one, two)
    }

    /// Returns a host's own address.
    pub fn address(&self, host: HostId) -> Ipv4Addr {
        self.hosts[host.0].address
    }

    /// Returns the router next to `host`; `None` for servers.
    pub fn nat(&self, host: HostId) -> Option<RouterId> {
        self.uplinks[self.hosts[host.0].zone.0]
    }

    /// Returns the carrier's router behind that of `host`.
    pub fn carrier(&self, host: HostId) -> Option<RouterId> {
        self.nat(host).and_then(|nat| self.routers[nat.0].carrier)
    }

    /// Returns a router.
    pub fn router(&mut self, id: RouterId) -> &mut Router {
        &mut self.routers[id.0].router
    }

    /// Sets the directions that a router loses. [`Hole::None`] ends all losses.
    pub fn set_hole(&mut self, id: RouterId, hole: Hole) {
        self.routers[id.0].hole = hole;
    }

    /// Gives a router another external address, as a provider does, and returns it.
    pub fn change_address(&mut self, id: RouterId) -> Ipv4Addr {
        let external = self.next_external(self.routers[id.0].outer);
        self.routers[id.0].router.change_address(external);
        external
    }

    /// Moves `host` into the network of `to`, with a new address.
    pub fn move_host(&mut self, host: HostId, to: HostId) {
        let moved = self.beside(to);
        self.hosts[host.0] = self.hosts[moved.0];
        // The place made for the new host stays empty: no host has the address 0.0.0.0.
        self.hosts[moved.0].address = Ipv4Addr::UNSPECIFIED;
    }

    /// Sends a datagram from a port of `from`, without delay. Returns the delivery or the reason for the loss.
    pub fn carry(&mut self, from: HostId, port: u16, destination: SocketAddrV4, now: Time) -> Result<Delivery, Lost> {
        let transit = self.depart(from, port, destination, now)?;
        self.arrive(transit, now)
    }

    /// Passes a datagram through the routers on its way up, as far as necessary. This is the first half of [`Self::carry`].
    pub fn depart(&mut self, from: HostId, port: u16, destination: SocketAddrV4, now: Time) -> Result<Transit, Lost> {
        let Located { zone, address, server } = self.hosts[from.0];
        let mut transit = Transit { zone, source: SocketAddrV4::new(address, port), destination, server };
        for _ in 0..MAX_HOPS {
            if self.is_near(&transit) {
                return Ok(transit);
            }
            let id = self.uplinks[transit.zone.0].ok_or(Lost::NoRoute)?;
            transit.source = self.leave(id, transit.source, destination, now)?;
            transit.zone = self.routers[id.0].outer;
        }
        Err(Lost::NoRoute)
    }

    /// Passes a datagram through the routers on its way down, in their state at `now`. This is the second half of [`Self::carry`].
    pub fn arrive(&mut self, transit: Transit, now: Time) -> Result<Delivery, Lost> {
        let Transit { mut zone, mut source, mut destination, server } = transit;
        for _ in 0..MAX_HOPS {
            if let Some(to) = self.in_zone(zone, *destination.ip()) {
                return Ok(Delivery { to, source, destination });
            }
            let id = if let Some(id) = self.entrance(zone, *destination.ip()) {
                destination = self.enter(id, source, destination, server, now)?;
                id
            } else {
                let id = self.uplinks[zone.0].ok_or(Lost::NoRoute)?;
                (source, destination) =
                    self.routers[id.0].router.hairpin(source, destination, now).map_err(Lost::Refused)?;
                id
            };
            zone = self.zone_inside(id, *destination.ip()).ok_or(Lost::NoRoute)?;
        }
        Err(Lost::NoRoute)
    }

    /// Returns true if a datagram need not go further up: its destination is a host in its zone, or the zone's own router.
    fn is_near(&self, transit: &Transit) -> bool {
        let address = *transit.destination.ip();
        let uplink = self.uplinks[transit.zone.0].map(|id| &self.routers[id.0].router);
        let turns = uplink.is_some_and(|router| router.traits().translates() && router.external() == address);
        turns || self.in_zone(transit.zone, address).is_some() || self.entrance(transit.zone, address).is_some()
    }

    fn leave(&mut self, id: RouterId, source: SocketAddrV4, to: SocketAddrV4, now: Time) -> Result<SocketAddrV4, Lost> {
        let for_server = self.hosts.iter().any(|host| host.server && host.address == *to.ip());
        let between = &mut self.routers[id.0];
        // A hole is behind the tables: a datagram is translated before it is lost.
        let outer = between.router.outbound(source, to, now).map_err(Lost::Refused)?;
        match between.hole {
            Hole::Cut => Err(Lost::Hole),
            Hole::Out | Hole::Both if !for_server => Err(Lost::Hole),
            _ => Ok(outer),
        }
    }

    fn enter(
        &mut self,
        id: RouterId,
        source: SocketAddrV4,
        destination: SocketAddrV4,
        from_server: bool,
        now: Time,
    ) -> Result<SocketAddrV4, Lost> {
        let between = &self.routers[id.0];
        let swallowed = match between.hole {
            Hole::Cut => true,
            Hole::In | Hole::Both => !from_server,
            Hole::None | Hole::Out => false,
        };
        if swallowed || (between.router.traits().one_way && !from_server) {
            return Err(Lost::Hole);
        }
        between.router.inbound(source, destination, now).map_err(Lost::Refused)
    }

    fn in_zone(&self, zone: ZoneId, address: Ipv4Addr) -> Option<HostId> {
        self.hosts.iter().position(|host| host.zone == zone && host.address == address).map(HostId)
    }

    /// Returns the router that receives datagrams to `address` in `zone`.
    fn entrance(&self, zone: ZoneId, address: Ipv4Addr) -> Option<RouterId> {
        let takes = |id: RouterId, between: &Between| {
            if between.router.traits().translates() {
                between.router.external() == address
            } else {
                self.zone_inside(id, address).is_some()
            }
        };
        let mut outside = self.routers.iter().enumerate().filter(|(_, between)| between.outer == zone);
        outside.find(|(number, between)| takes(RouterId(*number), between)).map(|(number, _)| RouterId(number))
    }

    /// Returns the zone inside a router in which `address` is, as the address of a host or as the external address of a router.
    fn zone_inside(&self, id: RouterId, address: Ipv4Addr) -> Option<ZoneId> {
        let inside = |zone: ZoneId| self.uplinks[zone.0] == Some(id);
        let hosts = self.hosts.iter().filter(|host| host.address == address).map(|host| host.zone);
        let routers = self.routers.iter().filter(|between| between.router.external() == address);
        hosts.chain(routers.map(|between| between.outer)).find(|zone| inside(*zone))
    }

    fn home(&mut self, kind: Kind, carrier: Option<RouterId>) -> HostId {
        let outer = carrier.and_then(|id| self.uplinks.iter().position(|uplink| *uplink == Some(id)));
        let (id, zone) = self.route(kind, outer.map_or(PUBLIC, ZoneId), carrier);
        let public = address([203, 0, 113, 0], 8 * id.0 as u32 + 2);
        let address = if kind.traits().translates() { Ipv4Addr::new(192, 168, 1, 2) } else { public };
        self.add(Located { zone, address, server: false })
    }

    /// Adds a router between a new zone and `outer`.
    fn route(&mut self, kind: Kind, outer: ZoneId, carrier: Option<RouterId>) -> (RouterId, ZoneId) {
        let external = self.next_external(outer);
        let id = RouterId(self.routers.len());
        let seed = self.seed.wrapping_add(self.routers.len() as u64);
        let router = Router::new(kind.traits(), external, seed);
        self.routers.push(Between { router, kind, outer, carrier, hole: Hole::None });
        self.uplinks.push(Some(id));
        (id, ZoneId(self.uplinks.len() - 1))
    }

    /// Returns an unused external address: 198.51.100.n, or 100.64.0.n behind a carrier.
    fn next_external(&mut self, outer: ZoneId) -> Ipv4Addr {
        self.next_public += 1;
        address(if outer == PUBLIC { [198, 51, 100, 0] } else { [100, 64, 0, 0] }, self.next_public + 1)
    }

    fn add(&mut self, place: Located) -> HostId {
        self.hosts.push(place);
        HostId(self.hosts.len() - 1)
    }

    /// Changes the traits of a router.
    pub fn set_traits(&mut self, id: RouterId, traits: Traits) {
        self.routers[id.0].router.set_traits(traits);
    }
}

fn address(network: [u8; 4], number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::from(network).to_bits() + number)
}

#[cfg(test)]
mod tests;

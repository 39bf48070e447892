//! What we change on the host, and what we read of it: the TUN's addresses and routes, the host's own addresses.
//!
//! - this file: the device's configuration, and what is put back of it when another program takes it away (fault J11);
//! - `device`: what of the device is looked at;
//! - `schedule`: when that is looked at, and how often it is put back;
//! - `surroundings`: the host's other interfaces, which of their addresses are offered to peers, and what other overlays there are;
//! - `conflicts`: overlay addresses that this host uses for something else.

mod conflicts;
mod device;
mod schedule;
mod surroundings;

pub(crate) use conflicts::{first_join, warnings};
pub(crate) use surroundings::Surroundings;

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use taut_base::{Prefix, Time};
use taut_netlink::{MAIN_TABLE, Netlink, NetlinkError, Route};

use crate::api::Failure;
use crate::error::failure;
use device::{Ipv6, Missing, no_link_local, some_of};
use schedule::{IDLE, Schedule, Step};

/// Time between two looks while IPv6 is switched off on the device, 10 s: the kernel need not tell when it is switched on.
const IDLE_WITHOUT_IPV6: Duration = Duration::from_secs(10);

/// Events that wait to be polled, 64: a turn makes a few.
const MAX_EVENTS: usize = 64;

/// A state change of the host's configuration, for the event log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostEvent {
    /// Routes to peers were added: how many, and the first.
    RoutesAdded(usize, IpAddr),
    /// Routes to peers were removed: how many, and the first.
    RoutesRemoved(usize, IpAddr),
    /// The system refused to add or remove routes.
    RouteRefused(String),
    /// Another program has the route to this address.
    RouteTaken(IpAddr),
    /// The other program's route to this address is gone.
    RouteFreed(IpAddr),
    /// What another program took from the device was restored.
    Restored(String),
    /// Another program keeps changing the device, or the system refuses to restore it.
    Contested(String),
    /// The device is left alone again.
    Calm,
    /// IPv6 was switched on (`true`) or off.
    Ipv6(bool),
}

/// The host's network configuration, as far as the overlay is concerned.
pub(crate) struct Host {
    netlink: Netlink,
    index: u32,
    /// The device's present name: users may change it.
    name: String,
    /// Our overlay addresses, which the device should have.
    addresses: Vec<IpAddr>,
    /// The peers' overlay addresses, each of which should have a route to the device.
    wanted: BTreeSet<IpAddr>,
    /// Those that have one, as far as we know.
    routed: BTreeSet<IpAddr>,
    /// Those that another program has a route for, with the interface that it leads to, where it has one.
    taken: Vec<(IpAddr, Option<u32>)>,
    ipv6: Ipv6,
    schedule: Schedule,
    /// What was missing when the device was last looked at.
    missing: Missing,
    /// Why the last restoration did not work, if it did not.
    error: Option<String>,
    is_gone: bool,
    events: VecDeque<HostEvent>,
}

impl Host {
    /// Brings the TUN device `name` up with this MTU and these addresses. Where IPv6 is switched off, those of IPv4 alone (fault J12).
    pub(crate) fn configure(
        mut netlink: Netlink,
        name: &str,
        mtu: u16,
        addresses: &[IpAddr],
        now: Time,
    ) -> Result<Self, NetlinkError> {
        no_link_local(name);
        let index = netlink.link(name)?.map_or(0, |link| link.index);
        netlink.set_mtu(index, u32::from(mtu))?;
        let mut host = Self {
            netlink,
            index,
            name: String::from(name),
            addresses: addresses.to_vec(),
            wanted: BTreeSet::new(),
            routed: BTreeSet::new(),
            taken: Vec::new(),
            ipv6: Ipv6::of(name),
            schedule: Schedule::new(now),
            missing: Missing::default(),
            error: None,
            is_gone: false,
            events: VecDeque::new(),
        };
        host.netlink.set_link_up(index, true)?;
        let (v4, v6): (Vec<IpAddr>, Vec<IpAddr>) = addresses.iter().partition(|address| address.is_ipv4());
        host.add_addresses(&v4)?;
        // IPv6 that does not work is no reason to be without IPv4: it is tried again as what is missing.
        if host.add_addresses(&v6).is_err() {
            host.schedule.changed(now);
        }
        Ok(host)
    }

    /// Routes exactly `wanted` into the overlay, one host route each: an address that nobody has stays unreachable, as it should be. What fails
    /// now is looked at as what is missing, and tried again.
    pub(crate) fn set_routes(&mut self, wanted: BTreeSet<IpAddr>, now: Time) {
        self.taken.retain(|(address, _)| wanted.contains(address));
        self.wanted = wanted;
        let changed = self.remove_unwanted().and_then(|()| self.add_routes());
        if let Err(error) = changed {
            self.note(HostEvent::RouteRefused(error.to_string()));
            self.schedule.changed(now);
        }
    }

    /// There is news of the kernel about the device, its addresses or its routes.
    pub(crate) fn handle_news(&mut self, now: Time) {
        self.schedule.changed(now);
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Time {
        self.schedule.due()
    }

    /// Looks at the device if that is due, and puts back what is missing.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if now < self.schedule.due() {
            return;
        }
        // An error is not an empty answer (law 6).
        let Ok(missing) = self.look() else { return self.schedule.postpone(now) };
        let idle = if self.has_ipv6() { IDLE } else { IDLE_WITHOUT_IPV6 };
        let was_contested = self.schedule.is_contested();
        if self.schedule.look(missing.is_empty(), idle, now) == Step::Restore {
            // What is done makes news, which is looked at in turn.
            self.error = self.restore(&missing).err().map(|error| error.to_string());
            if self.error.is_none() && !self.schedule.is_contested() {
                self.note(HostEvent::Restored(missing.to_string()));
            }
        }
        match (was_contested, self.schedule.is_contested()) {
            (false, true) => self.note(HostEvent::Contested(missing.to_string())),
            (true, false) => self.note(HostEvent::Calm),
            _ => {}
        }
        if !missing.is_empty() {
            self.missing = missing;
        }
    }

    /// Returns the next event for the log.
    pub(crate) fn poll_event(&mut self) -> Option<HostEvent> {
        self.events.pop_front()
    }

    fn note(&mut self, event: HostEvent) {
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event);
        }
    }

    /// The device's present name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if the device is not here any more: deleted, or moved to another network namespace.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Whether the device takes IPv6 addresses.
    pub(crate) fn has_ipv6(&self) -> bool {
        self.ipv6 == Ipv6::On
    }

    /// What a user should know that keeps packets from flowing.
    pub(crate) fn problem(&self) -> Option<Failure> {
        if !self.schedule.is_contested() {
            return None;
        }
        let (name, missing) = (&self.name, &self.missing);
        Some(match &self.error {
            Some(error) => failure(
                format!("{name} is not as the overlay needs it ({missing}), and taut cannot restore it: {error}"),
                "taut tries again once a minute",
            ),
            None => failure(
                format!(
                    "another program keeps undoing what taut sets on {name}, more than 5 times within a minute: {missing}"
                ),
                "see which program it is (`ip monitor` shows what it does), and tell it to leave that device alone; taut tries again once a minute",
            ),
        })
    }

    /// What a user should know though the overlay works.
    pub(crate) fn warnings(&self) -> Vec<Failure> {
        let name = &self.name;
        let mut warnings = match self.ipv6 {
            _ if self.addresses.iter().all(IpAddr::is_ipv4) => Vec::new(),
            Ipv6::On => Vec::new(),
            Ipv6::Off => vec![failure(
                format!("IPv6 is switched off on this host for {name}: the overlay carries IPv4 alone here"),
                &format!(
                    "for IPv6 in the overlay run `sysctl -w net.ipv6.conf.{name}.disable_ipv6=0`; taut notices it within 10 s"
                ),
            )],
            Ipv6::Absent => vec![failure(
                format!("this host has no IPv6 for {name}: the overlay carries IPv4 alone here"),
                "IPv6 needs a kernel that has it, and an MTU of 1,280 bytes or more (--mtu)",
            )],
        };
        if !self.taken.is_empty() {
            let taken: Vec<IpAddr> = self.taken.iter().map(|(address, _)| *address).collect();
            warnings.push(failure(
                format!(
                    "another program has routes to members of the network: packets to {} do not go through the overlay",
                    some_of(&taken)
                ),
                "see which program it is with `ip route show`; taut adds its own routes when those are gone",
            ));
        }
        warnings
    }

    /// The device's number.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Reads the host's other interfaces; see [`Surroundings::read`].
    pub(crate) fn surroundings(&mut self, known: Option<&Surroundings>) -> Result<Surroundings, NetlinkError> {
        Surroundings::read(&mut self.netlink, Some(self.index), known)
    }

    /// How many packets the kernel dropped because they waited at the TUN and the lane did not read in time; 0 where it does not say.
    pub(crate) fn dropped_before_tun(&mut self) -> u64 {
        self.netlink.tx_dropped(self.index).ok().flatten().unwrap_or(0)
    }

    /// To ask the kernel something else.
    pub(crate) fn netlink(&mut self) -> &mut Netlink {
        &mut self.netlink
    }

    /// Reads what the device lacks of what it should have. Its MTU is left to the user.
    fn look(&mut self) -> Result<Missing, NetlinkError> {
        let Some(link) = self.netlink.link_at(self.index)? else {
            self.is_gone = true;
            return Ok(Missing::default());
        };
        self.name = link.name;
        let before = std::mem::replace(&mut self.ipv6, Ipv6::of(&self.name));
        if before != self.ipv6 {
            self.note(HostEvent::Ipv6(self.has_ipv6()));
        }
        let present = self.netlink.addresses()?.into_iter().filter(|address| address.index == self.index);
        let present: BTreeSet<IpAddr> = present.map(|address| address.ip).collect();
        let routes = self.netlink.routes_by(self.index)?;
        let ours = routes.iter().filter(|route| route.is_ours() && route.table == MAIN_TABLE);
        self.routed = ours.map(|route| route.destination).collect();
        self.remove_unwanted()?;
        self.look_at_taken()?;
        let lacks = |address: &&IpAddr| self.carries(**address) && !present.contains(*address);
        let addresses = self.addresses.iter().filter(lacks).copied().collect();
        Ok(Missing { down: !link.up, addresses, routes: self.unrouted() })
    }

    /// Removes our routes to addresses that are no member's: those whose removal failed, or that somebody put back.
    fn remove_unwanted(&mut self) -> Result<(), NetlinkError> {
        let unwanted: Vec<IpAddr> = self.routed.difference(&self.wanted).copied().collect();
        for address in &unwanted {
            self.netlink.remove_route(&self.route(*address))?;
            self.routed.remove(address);
        }
        if let Some(first) = unwanted.first() {
            self.note(HostEvent::RoutesRemoved(unwanted.len(), *first));
        }
        Ok(())
    }

    /// Keeps those routes of other programs that still are in the place of ours.
    fn look_at_taken(&mut self) -> Result<(), NetlinkError> {
        for (address, by) in std::mem::take(&mut self.taken) {
            if !self.routed.contains(&address) && self.netlink.interface_to(address)? == by {
                self.taken.push((address, by));
            } else {
                self.note(HostEvent::RouteFreed(address));
            }
        }
        Ok(())
    }

    /// Overlay addresses of peers that should have a route to the device, and have none.
    fn unrouted(&self) -> Vec<IpAddr> {
        let lacks = |address: &&IpAddr| {
            let is_taken = || self.taken.iter().any(|(taken, _)| taken == *address);
            self.carries(**address) && !self.routed.contains(*address) && !is_taken()
        };
        self.wanted.iter().filter(lacks).copied().collect()
    }

    /// Puts back what is missing, as far as the kernel lets us; the first reason where it does not.
    fn restore(&mut self, missing: &Missing) -> Result<(), NetlinkError> {
        // It may be another device to IPv6 than before: below an MTU of 1,280 it is taken away from it, with its settings.
        no_link_local(&self.name);
        if missing.down {
            self.netlink.set_link_up(self.index, true)?;
        }
        self.add_addresses(&missing.addresses)?;
        self.add_routes()
    }

    fn add_addresses(&mut self, addresses: &[IpAddr]) -> Result<(), NetlinkError> {
        for address in addresses {
            if !self.carries(*address) {
                continue;
            }
            self.netlink.add_address(self.index, *address, Prefix::host(*address).length())?;
        }
        Ok(())
    }

    /// Adds all routes that are missing. One that fails keeps no other from being added; the first reason is returned.
    fn add_routes(&mut self) -> Result<(), NetlinkError> {
        let (mut result, mut added) = (Ok(()), Vec::new());
        for address in self.unrouted() {
            match self.netlink.claim_route(&self.route(address)) {
                Ok(true) => {
                    self.routed.insert(address);
                    added.push(address);
                }
                Ok(false) => {
                    let by = self.netlink.interface_to(address).ok().flatten();
                    self.taken.push((address, by));
                    self.note(HostEvent::RouteTaken(address));
                }
                Err(error) => result = result.and(Err(error)),
            }
        }
        if let Some(first) = added.first() {
            self.note(HostEvent::RoutesAdded(added.len(), *first));
        }
        result
    }

    /// Returns true if the device can have routes and addresses of this family.
    fn carries(&self, address: IpAddr) -> bool {
        address.is_ipv4() || self.has_ipv6()
    }

    fn route(&self, address: IpAddr) -> Route {
        Route::new(address, Prefix::host(address).length(), self.index)
    }
}

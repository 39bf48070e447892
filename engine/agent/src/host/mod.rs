//! The host's network configuration: the addresses and routes of the TUN device, and the host's other interfaces.
//!
//! - this file: the device's configuration, which is restored when another program removes it (fault J11);
//! - `device`: the missing parts of the device's configuration;
//! - `exit`: routes and rules while an exit node is in use, and the kill switch;
//! - `forwarding`: packets between the overlay and the networks behind this node;
//! - `guard`: rules that keep overlay addresses off the other networks;
//! - `limits`: the MTUs that follow from the packet limits of the peers;
//! - `mtu`: how the device and the routes get them;
//! - `packet_filter`: whether the host has nftables;
//! - `record`: what is noted for the next start after a crash;
//! - `schedule`: the times of checks and restorations;
//! - `surroundings`: the host's other interfaces, the endpoints that peers are told of, and other overlays;
//! - `conflicts`: overlay addresses that this host uses for something else.

mod conflicts;
mod device;
mod exit;
mod forwarding;
mod guard;
mod limits;
mod mtu;
mod packet_filter;
mod record;
mod schedule;
mod services;
mod surroundings;

pub(crate) use conflicts::{first_join, warnings};
pub(crate) use device::shown;
pub(crate) use exit::{
    ExitDevice, ExitRoutes, ExitRouting, KillSwitch, KillSwitchPlan, Nearby, Slot, load, look, pause, remove,
    remove_routing, restore_source_check,
};
pub(crate) use forwarding::{Forwarding, restore_switches};
pub(crate) use guard::{Guard, GuardPlan, inner_bridges};
pub(crate) use limits::PacketLimits;
pub(crate) use packet_filter::probe_nftables;
pub(crate) use services::service_ports;
pub(crate) use surroundings::Surroundings;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use taut_base::{Prefix, SOCKET_MARK, SortedMap, SortedSet, Time};
use taut_netlink::{MAIN_TABLE, Netlink, NetlinkError, Route};

use crate::api::Failure;
use device::{Ipv6, Missing, no_link_local, some_of};
use mtu::DeviceMtu;
use schedule::{CheckOutcome, IDLE, Schedule};

/// Interval of checks while IPv6 is disabled on the device, 10 s: the kernel may not report that it was enabled.
const IDLE_WITHOUT_IPV6: Duration = Duration::from_secs(10);

/// Rank of a subnet's route among routes to the same network, 2,000: those of the host and of other programs win (fault J6).
const SUBNET_METRIC: u32 = 2_000;

/// Events that wait to be polled, 64: a turn makes a few.
const MAX_EVENTS: usize = 64;

/// A state change of the host's configuration, for the event log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostEvent {
    /// Routes to peers were added: how many, and the first.
    RoutesAdded(usize, Prefix),
    /// Routes to peers were removed: how many, and the first.
    RoutesRemoved(usize, Prefix),
    /// The system refused to add or remove routes.
    RouteRefused(String),
    /// Another program has the route to this address.
    RouteTaken(Prefix),
    /// The other program's route to this address is gone.
    RouteFreed(Prefix),
    /// What another program took from the device was restored.
    Restored(String),
    /// Another program keeps changing the device, or the system refuses to restore it.
    Contested(String),
    /// The device is left alone again.
    Calm,
    /// The rules for forwarded packets, which another program had removed, were restored.
    RulesRestored,
    /// These chains of other programs may drop what this node forwards.
    ForwardingDropped(String),
    /// The rules that keep overlay addresses off the other networks could not be made, for this reason.
    GuardFailed(String),
    /// IPv6 was switched on (`true`) or off.
    Ipv6(bool),
    /// The device's MTU changed, from the first to the second.
    Mtu(u16, u16),
    /// Another program changed the device's MTU, from the first to the second.
    MtuTaken(u16, u16),
    /// The system refused to change the device's MTU.
    MtuRefused(String),
}

/// The overlay's part of the host's network configuration.
pub(crate) struct Host {
    netlink: Netlink,
    /// False without a device of the kernel: nothing of the host is configured then, and every route counts as there.
    attached: bool,
    index: u32,
    /// The device's present name, which users may change.
    name: String,
    /// The node's overlay addresses, which the device should have.
    addresses: Vec<IpAddr>,
    /// The overlay addresses of the peers and of the stub, and the subnets behind peers, each of which should have a route to the device.
    wanted: SortedSet<Prefix>,
    /// The subnets among them, also those that are not wanted any more and may still have a route.
    subnets: SortedSet<Prefix>,
    /// Those of the stub. Another network on this host may have the route to one of them: both have the same prefix then, and the stub has an address of the other family.
    stub: Vec<IpAddr>,
    /// Those with such a route, as far as is known, each with the `mtu` of the route.
    routed: SortedMap<Prefix, Option<u16>>,
    /// The `mtu` that routes should have; other routes should have none.
    mtus: SortedMap<Prefix, u16>,
    device_mtu: DeviceMtu,
    /// True if routes have TCP ask for explicit congestion notification.
    ecn: bool,
    /// Those that another program has a route for, with the interface of that route, if it has one.
    taken: Vec<(Prefix, Option<u32>)>,
    ipv6: Ipv6,
    schedule: Schedule,
    /// Missing parts at the last check.
    missing: Missing,
    /// The reason why the last restoration failed, if it failed.
    error: Option<String>,
    is_gone: bool,
    events: VecDeque<HostEvent>,
}

impl Host {
    /// Brings the TUN device `name` up with this MTU and these addresses; `ecn` says whether its routes have TCP ask for explicit congestion notification. Where IPv6 is disabled, only IPv4 addresses are set (fault J12).
    pub(crate) fn configure(
        mut netlink: Netlink,
        name: &str,
        mtu: u16,
        addresses: &[IpAddr],
        ecn: bool,
        now: Time,
    ) -> Result<Self, NetlinkError> {
        no_link_local(name);
        let index = netlink.link(name)?.map_or(0, |link| link.index);
        netlink.set_mtu(index, u32::from(mtu))?;
        let ipv6 = Ipv6::of(name);
        let mut host = Self {
            index,
            addresses: addresses.to_vec(),
            ecn,
            ipv6,
            attached: true,
            ..Self::detached(netlink, name, mtu, now)
        };
        host.netlink.set_link_up(index, true)?;
        let (v4, v6): (Vec<IpAddr>, Vec<IpAddr>) = addresses.iter().partition(|address| address.is_ipv4());
        host.add_addresses(&v4)?;
        // If IPv6 does not work, IPv4 is used alone, and the IPv6 addresses are restored later as missing ones.
        if host.add_addresses(&v6).is_err() {
            host.schedule.changed(now);
        }
        Ok(host)
    }

    /// Returns the host of a network without a device: its interfaces are read, and nothing is changed.
    pub(crate) fn detached(netlink: Netlink, name: &str, mtu: u16, now: Time) -> Self {
        Self {
            netlink,
            attached: false,
            index: 0,
            name: String::from(name),
            addresses: Vec::new(),
            wanted: SortedSet::new(),
            subnets: SortedSet::new(),
            stub: Vec::new(),
            routed: SortedMap::new(),
            mtus: SortedMap::new(),
            device_mtu: DeviceMtu::new(mtu),
            ecn: false,
            taken: Vec::new(),
            ipv6: Ipv6::On,
            schedule: Schedule::new(now),
            missing: Missing::default(),
            error: None,
            is_gone: false,
            events: VecDeque::new(),
        }
    }

    /// Routes exactly these addresses of peers, these subnets and the addresses of the stub into the overlay. Each member has a host route: an address without a member stays
    /// unreachable. Routes that cannot be added now are restored later as missing ones.
    pub(crate) fn set_routes(
        &mut self,
        peers: impl Iterator<Item = IpAddr>,
        subnets: &[Prefix],
        stub: &[IpAddr],
        now: Time,
    ) {
        let hosts = peers.chain(stub.iter().copied()).map(Prefix::host);
        self.wanted = hosts.chain(subnets.iter().copied()).collect();
        self.subnets.extend(subnets.iter().copied());
        self.stub = stub.to_vec();
        if !self.attached {
            self.routed = self.wanted.iter().map(|prefix| (*prefix, None)).collect();
            return;
        }
        let wanted = &self.wanted;
        self.taken.retain(|(prefix, _)| wanted.contains(prefix));
        let changed = self.remove_unwanted().and_then(|()| self.add_routes());
        if let Err(error) = changed {
            self.note(HostEvent::RouteRefused(error.to_string()));
            self.schedule.changed(now);
        }
    }

    /// Notes that the device, its addresses or its routes changed.
    pub(crate) fn handle_news(&mut self, now: Time) {
        if self.attached {
            self.schedule.changed(now);
        }
    }

    /// Returns the time at which [`Self::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.attached.then(|| self.schedule.due())
    }

    /// Checks the device if that is due, and restores missing parts.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if !self.attached || now < self.schedule.due() {
            return;
        }
        // An error is not an empty answer (law 6).
        let Ok(missing) = self.check() else { return self.schedule.postpone(now) };
        let idle = if self.has_ipv6() { IDLE } else { IDLE_WITHOUT_IPV6 };
        let was_contested = self.schedule.is_contested();
        if self.schedule.handle_check(missing.is_empty(), idle, now) == CheckOutcome::Restore {
            // The restoration causes news, and the news causes the next check.
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

    pub(crate) fn note(&mut self, event: HostEvent) {
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event);
        }
    }

    /// Returns the device's present name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if the device was deleted or moved to another network namespace.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Returns true if the device accepts IPv6 addresses.
    pub(crate) fn has_ipv6(&self) -> bool {
        self.ipv6 == Ipv6::On
    }

    /// Returns the problem that keeps packets from flowing, if there is one.
    pub(crate) fn problem(&self) -> Option<Failure> {
        if !self.schedule.is_contested() {
            return None;
        }
        let (name, missing) = (&self.name, &self.missing);
        Some(match &self.error {
            Some(error) => Failure::new(
                format!(
                    "{name} is not configured as the overlay needs it ({missing}), and taut cannot restore it: {error}"
                ),
                "taut tries again once a minute",
            ),
            None => Failure::new(
                format!(
                    "another program keeps undoing what taut sets on {name}, more than 5 times within a minute: {missing}"
                ),
                "find that program (`ip monitor` shows its changes), and exclude the device from its configuration; taut tries again once a minute",
            ),
        })
    }

    /// Returns warnings; the overlay works nevertheless.
    pub(crate) fn warnings(&self) -> Vec<Failure> {
        let name = &self.name;
        let mut warnings = match self.ipv6 {
            _ if self.addresses.iter().all(IpAddr::is_ipv4) => Vec::new(),
            Ipv6::On => Vec::new(),
            Ipv6::Off => vec![Failure::new(
                format!("IPv6 is switched off on this host for {name}: the overlay carries IPv4 alone here"),
                format!(
                    "for IPv6 in the overlay run `sysctl -w net.ipv6.conf.{name}.disable_ipv6=0`; taut notices it within 10 s"
                ),
            )],
            Ipv6::Absent => vec![Failure::new(
                format!("this host has no IPv6 for {name}: the overlay carries IPv4 alone here"),
                "IPv6 needs a kernel that has it, and an MTU of 1,280 bytes or more (--mtu)",
            )],
        };
        let taken = self.taken.iter().map(|(prefix, _)| *prefix);
        let taken: Vec<Prefix> = taken.filter(|prefix| !self.is_stub(*prefix)).collect();
        if !taken.is_empty() {
            warnings.push(Failure::new(
                format!(
                    "another program has routes to members of the network: packets to {} do not go through the overlay",
                    some_of(&taken.into_iter().map(shown).collect::<Vec<_>>())
                ),
                "see which program it is with `ip route show`; taut adds its own routes when those are gone",
            ));
        }
        warnings
    }

    /// Returns the addresses of the stub that have a route to the device, IPv4 first.
    pub(crate) fn routed_stub(&self) -> impl Iterator<Item = IpAddr> {
        self.stub.iter().copied().filter(|address| self.routed.contains_key(&Prefix::host(*address)))
    }

    fn is_stub(&self, prefix: Prefix) -> bool {
        self.stub.iter().any(|address| Prefix::host(*address) == prefix)
    }

    /// Returns the device's interface index.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Reads the host's other interfaces; see [`Surroundings::read`].
    pub(crate) fn surroundings(&mut self, known: Option<&Surroundings>) -> Result<Surroundings, NetlinkError> {
        Surroundings::read(&mut self.netlink, self.attached.then_some(self.index), known)
    }

    /// Returns the number of packets that the kernel dropped because the lane did not read them from the TUN in time; 0 if the kernel does not tell.
    pub(crate) fn dropped_before_tun(&mut self) -> u64 {
        if !self.attached {
            return 0;
        }
        self.netlink.tx_dropped(self.index).ok().flatten().unwrap_or(0)
    }

    /// Returns the netlink socket for other requests.
    pub(crate) fn netlink(&mut self) -> &mut Netlink {
        &mut self.netlink
    }

    /// Returns the missing parts of the device's configuration. Another MTU does not count as a missing part, because users may change the MTU.
    fn check(&mut self) -> Result<Missing, NetlinkError> {
        let Some(link) = self.netlink.link_at(self.index)? else {
            self.is_gone = true;
            return Ok(Missing::default());
        };
        self.name = link.name;
        self.note_mtu(link.mtu);
        let before = std::mem::replace(&mut self.ipv6, Ipv6::of(&self.name));
        if before != self.ipv6 {
            self.note(HostEvent::Ipv6(self.has_ipv6()));
        }
        let present = self.netlink.addresses()?.into_iter().filter(|address| address.index == self.index);
        let present: SortedSet<IpAddr> = present.map(|address| address.ip).collect();
        let routes = self.netlink.routes_by(self.index)?;
        let ours = routes.iter().filter(|route| route.is_ours() && route.table == MAIN_TABLE);
        let mtu_of = |route: &Route| route.mtu.and_then(|mtu| u16::try_from(mtu).ok());
        let prefix = |route: &Route| Prefix::new(route.destination, route.prefix_len).ok();
        self.routed = ours.filter_map(|route| Some((prefix(route)?, mtu_of(route)))).collect();
        self.remove_unwanted()?;
        self.adjust_routes();
        self.check_taken()?;
        let lacks = |address: &&IpAddr| self.carries(**address) && !present.contains(*address);
        let addresses = self.addresses.iter().filter(lacks).copied().collect();
        Ok(Missing { down: !link.up, addresses, routes: self.unrouted() })
    }

    /// Removes our routes to addresses of no member: those whose removal failed before, or that were added again.
    fn remove_unwanted(&mut self) -> Result<(), NetlinkError> {
        let unwanted: Vec<Prefix> =
            self.routed.keys().filter(|prefix| !self.wanted.contains(*prefix)).copied().collect();
        // From the end, so that few others move.
        for prefix in unwanted.iter().rev() {
            self.netlink.remove_route(&self.route(*prefix))?;
            self.routed.remove(prefix);
        }
        if let Some(first) = unwanted.first() {
            self.note(HostEvent::RoutesRemoved(unwanted.len(), *first));
        }
        Ok(())
    }

    /// Forgets routes of other programs that no longer replace ours.
    fn check_taken(&mut self) -> Result<(), NetlinkError> {
        for (prefix, by) in std::mem::take(&mut self.taken) {
            if !self.routed.contains_key(&prefix) && self.netlink.interface_to(prefix.address(), SOCKET_MARK)? == by {
                self.taken.push((prefix, by));
            } else {
                self.note(HostEvent::RouteFreed(prefix));
            }
        }
        Ok(())
    }

    /// Returns the addresses of peers, and the subnets, that lack a route to the device.
    fn unrouted(&self) -> Vec<Prefix> {
        let lacks = |prefix: &&Prefix| {
            let is_taken = || self.taken.iter().any(|(taken, _)| taken == *prefix);
            self.carries(prefix.address()) && !self.routed.contains_key(*prefix) && !is_taken()
        };
        self.wanted.iter().filter(lacks).copied().collect()
    }

    /// Restores missing parts, as far as the kernel permits. Returns the first error.
    fn restore(&mut self, missing: &Missing) -> Result<(), NetlinkError> {
        // The IPv6 settings of the device may be lost: the kernel removes IPv6 from a device with an MTU below 1,280.
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

    /// Adds all missing routes, even if some fail. Returns the first error.
    fn add_routes(&mut self) -> Result<(), NetlinkError> {
        let (mut result, mut added) = (Ok(()), Vec::new());
        for prefix in self.unrouted() {
            match self.netlink.claim_route(&self.route(prefix)) {
                Ok(true) => {
                    self.routed.insert(prefix, self.mtus.get(&prefix).copied());
                    added.push(prefix);
                }
                Ok(false) => {
                    let by = self.netlink.interface_to(prefix.address(), SOCKET_MARK).ok().flatten();
                    self.taken.push((prefix, by));
                    self.note(HostEvent::RouteTaken(prefix));
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

    fn route(&self, prefix: Prefix) -> Route {
        let mtu = self.mtus.get(&prefix).copied().map(u32::from);
        let metric = if self.subnets.contains(&prefix) { SUBNET_METRIC } else { 0 };
        Route { mtu, ecn: self.ecn, metric, ..Route::new(prefix.address(), prefix.length(), self.index) }
    }
}

//! Routes.

use crate::abi;
use crate::address::octets;
use crate::error::NetlinkError;
use crate::message::NetlinkRequest;
use crate::parse::{self, Malformed, Message};
use crate::request::Netlink;
use std::fmt;
use std::net::IpAddr;

/// `struct rtmsg` (rtnetlink.h): family, destination and source prefix lengths, tos, table, protocol, scope, type,
/// flags.
const FIXED_LEN: usize = 12;

/// Routing protocol number of this program's routes (the field that `ip route` shows as `proto`): ASCII `t`. Neither rtnetlink.h (`RTPROT_*`),
/// iproute2's rt_protos nor FRR assigns 116, and above 4 (`RTPROT_STATIC`) the kernel gives the number no meaning.
pub const ROUTE_PROTOCOL: u8 = 116;

/// The table that all traffic asks unless rules say otherwise (rtnetlink.h, `RT_TABLE_MAIN`).
pub const MAIN_TABLE: u32 = 254;

/// A unicast route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The network it leads to; host bits are zero.
    pub destination: IpAddr,
    /// Prefix length of `destination`; 0 is the default route.
    pub prefix_len: u8,
    /// The outgoing interface. `None` for a route with several next hops.
    pub interface: Option<u32>,
    /// The router; `None` if the network is directly behind the interface.
    pub gateway: Option<IpAddr>,
    /// The path's MTU in bytes, where it is known to be less than the interface's.
    pub mtu: Option<u32>,
    /// True if TCP connections of this host that use the route ask for explicit congestion notification (`features ecn` of `ip route`).
    pub ecn: bool,
    /// Its rank among routes to the same network: the lowest wins. 0 lets the kernel choose (IPv4: 0; IPv6: 1024).
    pub metric: u32,
    /// The routing table.
    pub table: u32,
    /// The routing protocol number: [`ROUTE_PROTOCOL`] for routes of this program.
    pub protocol: u8,
}

impl Route {
    /// Returns a route with [`ROUTE_PROTOCOL`] in the main table, through `interface`.
    pub fn new(destination: IpAddr, prefix_len: u8, interface: u32) -> Self {
        Self {
            destination,
            prefix_len,
            interface: Some(interface),
            gateway: None,
            mtu: None,
            ecn: false,
            metric: 0,
            table: MAIN_TABLE,
            protocol: ROUTE_PROTOCOL,
        }
    }

    /// Returns true if it carries [`ROUTE_PROTOCOL`].
    pub fn is_ours(&self) -> bool {
        self.protocol == ROUTE_PROTOCOL
    }

    fn family(&self) -> u8 {
        if self.destination.is_ipv4() { abi::AF_INET } else { abi::AF_INET6 }
    }

    /// Returns true if the kernel treats both as the same entry.
    fn same_entry(&self, other: &Self) -> bool {
        let key = |route: &Self| (route.destination, route.prefix_len, route.table, route.effective_metric());
        key(self) == key(other)
    }

    fn effective_metric(&self) -> u32 {
        // IP6_RT_PRIO_USER of include/net/ip6_fib.h.
        if self.metric == 0 && self.destination.is_ipv6() { 1_024 } else { self.metric }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.destination, self.prefix_len)?;
        if let Some(gateway) = self.gateway {
            write!(f, " via {gateway}")?;
        }
        if let Some(interface) = self.interface {
            write!(f, " on interface {interface}")?;
        }
        if self.table == MAIN_TABLE { Ok(()) } else { write!(f, " in table {}", self.table) }
    }
}

impl Netlink {
    /// The unicast routes of the main table, IPv4 and IPv6. On a router with a full Internet table that is a million of
    /// them.
    pub fn routes(&mut self) -> Result<Vec<Route>, NetlinkError> {
        self.routes_where(|route| route.table == MAIN_TABLE)
    }

    /// The routes of all tables that carry [`ROUTE_PROTOCOL`]: ours, also those that a crash left behind. Those of other tunnels of this kind on the
    /// host are among them; [`Route::interface`] tells which.
    pub fn own_routes(&mut self) -> Result<Vec<Route>, NetlinkError> {
        let filter = Filter { protocol: ROUTE_PROTOCOL, interface: None };
        self.filtered(filter, |route| route.protocol == ROUTE_PROTOCOL)
    }

    /// The routes of all tables that leave by this interface, those of the kernel and of other programs among them. The kernel picks them (Linux
    /// 4.20), so that a host with a full Internet table does not copy it for the few of one device.
    pub fn routes_by(&mut self, interface: u32) -> Result<Vec<Route>, NetlinkError> {
        let filter = Filter { protocol: abi::RTPROT_UNSPEC, interface: Some(interface) };
        match self.filtered(filter, |route| route.interface == Some(interface)) {
            // The interface is gone, and its routes with it.
            Err(error) if error.code() == Some(libc::ENODEV) => Ok(Vec::new()),
            answer => answer,
        }
    }

    /// Adds a route, or replaces one of the same protocol, network, metric and interface. A route of another protocol or interface belongs to
    /// another program: it stays, and the call fails with [`NetlinkError::RouteTaken`].
    pub fn add_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        if self.claim_route(route)? {
            return Ok(());
        }
        // The same protocol through another interface is another tunnel of ours on this host.
        let is_foreign = |other: &Route| other.protocol != route.protocol || other.interface != route.interface;
        let rivals = self.routes_where(|other| other.same_entry(route) && is_foreign(other))?;
        if let Some(rival) = rivals.first() {
            let (object, protocol, interface) = (route.to_string(), rival.protocol, rival.interface);
            return Err(NetlinkError::RouteTaken { object, protocol, interface });
        }
        let replace = request(abi::RTM_NEWROUTE, abi::NLM_F_CREATE | abi::NLM_F_REPLACE, route);
        self.change("replace the route", || route.to_string(), replace)
    }

    /// Adds a route if there is none to the same network with the same metric. Returns false if there is one, of any program; it stays.
    pub fn claim_route(&mut self, route: &Route) -> Result<bool, NetlinkError> {
        let exclusive = request(abi::RTM_NEWROUTE, abi::NLM_F_CREATE | abi::NLM_F_EXCL, route);
        match self.change("add the route", || route.to_string(), exclusive) {
            Err(error) if error.code() == Some(libc::EEXIST) => Ok(false),
            answer => answer.map(|()| true),
        }
    }

    /// Changes the MTU of a route of this program that exists: one step for the kernel, in which no packet finds no route.
    ///
    /// # Errors
    /// If there is no route to the same network with the same metric.
    pub fn replace_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        let replace = request(abi::RTM_NEWROUTE, abi::NLM_F_REPLACE, route);
        self.change("change the route", || route.to_string(), replace)
    }

    /// Removes a route of the same network, table, protocol, and (where given) metric, interface and gateway. A route
    /// that does not exist is no error.
    pub fn remove_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        let request = request(abi::RTM_DELROUTE, 0, route);
        match self.change("remove the route", || route.to_string(), request) {
            // ENODEV: its interface is gone, and took the route along.
            Err(error) if matches!(error.code(), Some(libc::ESRCH | libc::ENODEV)) => Ok(()),
            answer => answer,
        }
    }

    fn routes_where(&mut self, wanted: impl Fn(&Route) -> bool) -> Result<Vec<Route>, NetlinkError> {
        let request = || NetlinkRequest::new(abi::RTM_GETROUTE, abi::NLM_F_DUMP, &[0; FIXED_LEN]);
        self.dump("read the routes", request, |message| Ok(read(message)?.filter(&wanted)))
    }

    /// The routes that `wanted` picks, of which the kernel has left out all that the filter does. A kernel that knows no filters sends them all.
    fn filtered(&mut self, filter: Filter, wanted: impl Fn(&Route) -> bool) -> Result<Vec<Route>, NetlinkError> {
        self.set_strict(true);
        let mut found = Ok(Vec::new());
        // By family: a dump of all families would ask others, too, which do not know these fields.
        for family in [abi::AF_INET, abi::AF_INET6] {
            let take =
                |message: Message<'_>| Ok(read(message)?.filter(|route| route.family() == family && wanted(route)));
            let routes = self.dump("read the routes", || filter.request(family), take);
            found = found.and_then(|mut found: Vec<Route>| {
                found.extend(routes?);
                Ok(found)
            });
        }
        self.set_strict(false);
        found
    }
}

/// The filter of a dump; zero and `None` select all routes.
#[derive(Clone, Copy)]
struct Filter {
    protocol: u8,
    interface: Option<u32>,
}

impl Filter {
    fn request(self, family: u8) -> NetlinkRequest {
        let mut fixed = [0; FIXED_LEN];
        (fixed[0], fixed[5]) = (family, self.protocol);
        let request = NetlinkRequest::new(abi::RTM_GETROUTE, abi::NLM_F_DUMP, &fixed);
        match self.interface {
            Some(interface) => request.number(abi::RTA_OIF, interface),
            None => request,
        }
    }
}

fn request(kind: u16, flags: u16, route: &Route) -> NetlinkRequest {
    let mut fixed = [0; FIXED_LEN];
    fixed[0] = route.family();
    fixed[1] = route.prefix_len;
    // Tables beyond 8 bits stand in the attribute alone.
    fixed[4] = u8::try_from(route.table).unwrap_or_default();
    fixed[5] = route.protocol;
    fixed[6] = scope(kind, route);
    fixed[7] = abi::RTN_UNICAST;
    let mut request = NetlinkRequest::new(kind, flags, &fixed)
        .attribute(abi::RTA_DST, &octets(route.destination))
        .number(abi::RTA_TABLE, route.table);
    if let Some(interface) = route.interface {
        request = request.number(abi::RTA_OIF, interface);
    }
    if let Some(gateway) = route.gateway {
        request = gateway_attribute(request, route, gateway);
    }
    if route.metric != 0 {
        request = request.number(abi::RTA_PRIORITY, route.metric);
    }
    let metrics = metrics(route);
    // An existing route is found by its place, not by its metrics.
    if kind == abi::RTM_NEWROUTE && !metrics.is_empty() {
        request = request.attribute(abi::RTA_METRICS, &metrics);
    }
    request
}

/// Returns the scope field. IPv4 needs the distance of the next hop, and removes a route of any scope only with "nowhere". IPv6
/// ignores the field.
fn scope(kind: u16, route: &Route) -> u8 {
    if kind == abi::RTM_DELROUTE {
        abi::RT_SCOPE_NOWHERE
    } else if route.gateway.is_none() {
        abi::RT_SCOPE_LINK
    } else {
        abi::RT_SCOPE_UNIVERSE
    }
}

fn gateway_attribute(request: NetlinkRequest, route: &Route, gateway: IpAddr) -> NetlinkRequest {
    if gateway.is_ipv4() == route.destination.is_ipv4() {
        return request.attribute(abi::RTA_GATEWAY, &octets(gateway));
    }
    // A gateway of the other family (RFC 8950) has its family in front: `struct rtvia`.
    let family = if gateway.is_ipv4() { abi::AF_INET } else { abi::AF_INET6 };
    let mut via = u16::from(family).to_ne_bytes().to_vec();
    via.extend(octets(gateway));
    request.attribute(abi::RTA_VIA, &via)
}

/// The nested attribute list of what the route tells TCP about its path; empty if that is nothing.
fn metrics(route: &Route) -> Vec<u8> {
    let features = route.ecn.then_some(abi::RTAX_FEATURE_ECN);
    let mut bytes = Vec::new();
    for (kind, value) in [(abi::RTAX_MTU, route.mtu), (abi::RTAX_FEATURES, features)] {
        if let Some(value) = value {
            bytes.extend(8_u16.to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value.to_ne_bytes());
        }
    }
    bytes
}

/// The route in a message; `None` when it is about something else.
pub(crate) fn read(message: Message<'_>) -> Result<Option<Route>, Malformed> {
    if message.kind == abi::RTM_NEWROUTE { read_any(message.payload) } else { Ok(None) }
}

/// The route in the payload of a message about a route that came or went; `None` for what is no unicast route.
pub(crate) fn read_any(payload: &[u8]) -> Result<Option<Route>, Malformed> {
    let fixed = payload.get(..FIXED_LEN).ok_or(Malformed("route"))?;
    let any = match fixed[0] {
        abi::AF_INET => IpAddr::from([0; 4]),
        abi::AF_INET6 => IpAddr::from([0; 16]),
        _ => return Ok(None),
    };
    if fixed[7] != abi::RTN_UNICAST || parse::u32_at(fixed, 8)? & abi::RTM_F_CLONED != 0 {
        return Ok(None);
    }
    let mut route = Route {
        destination: any,
        prefix_len: fixed[1],
        interface: None,
        gateway: None,
        mtu: None,
        ecn: false,
        metric: 0,
        table: u32::from(fixed[4]),
        protocol: fixed[5],
    };
    for attribute in parse::attributes(&payload[FIXED_LEN..]) {
        let (kind, value) = attribute?;
        read_attribute(&mut route, kind, value)?;
    }
    Ok(Some(route))
}

fn read_attribute(route: &mut Route, kind: u16, value: &[u8]) -> Result<(), Malformed> {
    match kind {
        abi::RTA_DST => route.destination = parse::ip(value)?,
        abi::RTA_OIF => route.interface = Some(parse::u32_at(value, 0)?),
        abi::RTA_GATEWAY => route.gateway = Some(parse::ip(value)?),
        abi::RTA_VIA => route.gateway = Some(parse::ip(value.get(2..).ok_or(Malformed("gateway"))?)?),
        abi::RTA_PRIORITY => route.metric = parse::u32_at(value, 0)?,
        abi::RTA_TABLE => route.table = parse::u32_at(value, 0)?,
        abi::RTA_METRICS => {
            for metric in parse::attributes(value) {
                match metric? {
                    (abi::RTAX_MTU, mtu) => route.mtu = Some(parse::u32_at(mtu, 0)?),
                    (abi::RTAX_FEATURES, features) => {
                        route.ecn = parse::u32_at(features, 0)? & abi::RTAX_FEATURE_ECN != 0;
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
    Ok(())
}

//! Route lookup: how the routes and rules treat one packet.

use crate::abi;
use crate::address::octets;
use crate::error::NetlinkError;
use crate::message::NetlinkRequest;
use crate::parse::{self, Malformed, Message};
use crate::request::Netlink;
use std::net::IpAddr;

/// `struct rtmsg` (rtnetlink.h), as for routes.
const FIXED_LEN: usize = 12;

/// The first hop of a route that leaves the host's own networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The router.
    pub gateway: IpAddr,
    /// The source address of packets, unless the sender chose another.
    pub own: IpAddr,
    /// The outgoing interface.
    pub interface: u32,
}

impl Netlink {
    /// Returns the router for packets with this mark to `to`; `None` if there is no route, or none through a router of the same
    /// family.
    pub fn first_hop(&mut self, to: IpAddr, mark: u32) -> Result<Option<Hop>, NetlinkError> {
        let mut hop = None;
        let answer = self.exchange(
            "ask for the route",
            || to.to_string(),
            lookup(to).number(abi::RTA_MARK, mark),
            |message| {
                hop = read_hop(message)?.or(hop);
                Ok(())
            },
        );
        found(answer, hop.filter(|hop| hop.gateway.is_ipv4() == to.is_ipv4()))
    }

    /// Returns the interface for packets with this mark from `from`, an address of this host of the same family, to `to`; `None`
    /// if there is no route.
    pub fn way(&mut self, from: IpAddr, to: IpAddr, mark: u32) -> Result<Option<u32>, NetlinkError> {
        let request = lookup(to).attribute(abi::RTA_SRC, &octets(from)).number(abi::RTA_MARK, mark);
        self.interface_of(request, || format!("{to} from {from}"))
    }

    /// Returns the interface for packets with this mark to `to`; `None` if there is no route, or only one that forbids them.
    pub fn interface_to(&mut self, to: IpAddr, mark: u32) -> Result<Option<u32>, NetlinkError> {
        self.interface_of(lookup(to).number(abi::RTA_MARK, mark), || to.to_string())
    }

    fn interface_of(
        &mut self,
        request: NetlinkRequest,
        object: impl FnOnce() -> String,
    ) -> Result<Option<u32>, NetlinkError> {
        let mut way = None;
        let answer = self.exchange("ask for the route", object, request, |message| {
            way = read(message)?.or(way);
            Ok(())
        });
        found(answer, way)
    }
}

/// Returns a request for the route to `to`.
fn lookup(to: IpAddr) -> NetlinkRequest {
    let mut fixed = [0; FIXED_LEN];
    fixed[0] = if to.is_ipv4() { abi::AF_INET } else { abi::AF_INET6 };
    let length = if to.is_ipv4() { 32 } else { 128 };
    (fixed[1], fixed[2]) = (length, length);
    NetlinkRequest::new(abi::RTM_GETROUTE, 0, &fixed).attribute(abi::RTA_DST, &octets(to))
}

/// Returns the result of a lookup; `None` if there is no route.
fn found<A, T>(answer: Result<A, NetlinkError>, found: Option<T>) -> Result<Option<T>, NetlinkError> {
    match answer {
        Ok(_) => Ok(found),
        // EINVAL: the source is no address of this host. EACCES: a rule forbids it.
        Err(error) => match error.code() {
            Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EINVAL | libc::EACCES) => Ok(None),
            _ => Err(error),
        },
    }
}

/// Returns the router, source address and interface of a route.
pub(crate) fn read_hop(message: Message<'_>) -> Result<Option<Hop>, Malformed> {
    let Some(interface) = read(message)? else { return Ok(None) };
    let (mut gateway, mut own) = (None, None);
    for attribute in parse::attributes(message.payload.get(FIXED_LEN..).ok_or(Malformed("route"))?) {
        match attribute? {
            (abi::RTA_GATEWAY, value) => gateway = Some(parse::ip(value)?),
            (abi::RTA_PREFSRC, value) => own = Some(parse::ip(value)?),
            _ => {}
        }
    }
    Ok(gateway.zip(own).map(|(gateway, own)| Hop { gateway, own, interface }))
}

/// Returns the interface of a route that carries packets.
pub(crate) fn read(message: Message<'_>) -> Result<Option<u32>, Malformed> {
    if message.kind != abi::RTM_NEWROUTE {
        return Ok(None);
    }
    let fixed = message.payload.get(..FIXED_LEN).ok_or(Malformed("route"))?;
    if !matches!(fixed[7], abi::RTN_UNICAST | abi::RTN_LOCAL) {
        return Ok(None);
    }
    for attribute in parse::attributes(&message.payload[FIXED_LEN..]) {
        if let (abi::RTA_OIF, value) = attribute? {
            return parse::u32_at(value, 0).map(Some);
        }
    }
    Ok(None)
}

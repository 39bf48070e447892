//! Addresses of interfaces.

use crate::abi;
use crate::error::NetlinkError;
use crate::link::interface;
use crate::message::NetlinkRequest;
use crate::parse::{self, Malformed, Message};
use crate::request::Netlink;
use std::net::IpAddr;

/// `struct ifaddrmsg` (if_addr.h): family, prefix length, flags, scope, index.
const FIXED_LEN: usize = 8;

/// The scope of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everywhere.
    Global,
    /// In this site (outdated), or a number of the operator's own.
    Site,
    /// On this link.
    InterfaceLink,
    /// In this host.
    Host,
}

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The interface it belongs to.
    pub index: u32,
    /// The host's own address; also on point-to-point links, not the other end's.
    pub ip: IpAddr,
    /// Prefix length of its network.
    pub prefix_len: u8,
    /// The scope in which it is valid.
    pub scope: Scope,
    /// True if it works but should not be used for new connections (RFC 4862 section 5.5.4).
    pub deprecated: bool,
    /// True during duplicate address detection: it must not be used yet (RFC 4862 section 5.4).
    pub tentative: bool,
    /// True if another host has it.
    pub duplicate: bool,
    /// True for a temporary address, which changes about daily for privacy (RFC 8981). For IPv4 the kernel's bit means "not the first of its
    /// network"; here it is false.
    pub temporary: bool,
}

impl Netlink {
    /// Returns all addresses of all interfaces, IPv4 and IPv6.
    pub fn addresses(&mut self) -> Result<Vec<Address>, NetlinkError> {
        let request = || NetlinkRequest::new(abi::RTM_GETADDR, abi::NLM_F_DUMP, &[0; FIXED_LEN]);
        self.dump("read the addresses", request, read)
    }

    /// Adds an address to an interface. An address that it already has is no error. IPv6 addresses are usable at once, without
    /// duplicate address detection, which an overlay cannot answer.
    ///
    /// The kernel adds a route for the address's network, in the same table and of its own protocol.
    pub fn add_address(&mut self, index: u32, ip: IpAddr, prefix_len: u8) -> Result<(), NetlinkError> {
        let flags = abi::NLM_F_CREATE | abi::NLM_F_REPLACE;
        let request = request(abi::RTM_NEWADDR, flags, index, ip, prefix_len);
        self.change("add the address", || describe(index, ip, prefix_len), request)
    }

    /// Removes an address from an interface. An address that it does not have is no error.
    pub fn remove_address(&mut self, index: u32, ip: IpAddr, prefix_len: u8) -> Result<(), NetlinkError> {
        let request = request(abi::RTM_DELADDR, 0, index, ip, prefix_len);
        match self.change("remove the address", || describe(index, ip, prefix_len), request) {
            Err(error) if error.code() == Some(libc::EADDRNOTAVAIL) => Ok(()),
            answer => answer,
        }
    }
}

fn request(kind: u16, flags: u16, index: u32, ip: IpAddr, prefix_len: u8) -> NetlinkRequest {
    let (family, address_flags) = match ip {
        IpAddr::V4(_) => (abi::AF_INET, 0),
        IpAddr::V6(_) => (abi::AF_INET6, abi::IFA_F_NODAD as u8),
    };
    let [a, b, c, d] = index.to_ne_bytes();
    let fixed = [family, prefix_len, address_flags, abi::RT_SCOPE_UNIVERSE, a, b, c, d];
    let octets = octets(ip);
    NetlinkRequest::new(kind, flags, &fixed).attribute(abi::IFA_LOCAL, &octets).attribute(abi::IFA_ADDRESS, &octets)
}

/// An address in network order.
pub(crate) fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn describe(index: u32, ip: IpAddr, prefix_len: u8) -> String {
    format!("{ip}/{prefix_len} on {}", interface(index))
}

/// Parses the address in a message; `None` if it is about something else.
pub(crate) fn read(message: Message<'_>) -> Result<Option<Address>, Malformed> {
    if message.kind != abi::RTM_NEWADDR {
        return Ok(None);
    }
    let fixed = message.payload;
    let (mut local, mut other, mut flags) = (None, None, u32::from(parse::u8_at(fixed, 2)?));
    for attribute in parse::attributes(fixed.get(FIXED_LEN..).ok_or(Malformed("address"))?) {
        match attribute? {
            (abi::IFA_LOCAL, ip) => local = Some(parse::ip(ip)?),
            (abi::IFA_ADDRESS, ip) => other = Some(parse::ip(ip)?),
            // The field above holds eight bits only.
            (abi::IFA_FLAGS, bits) => flags = parse::u32_at(bits, 0)?,
            _ => {}
        }
    }
    // On a point-to-point link IFA_ADDRESS is the other end; without IFA_LOCAL (most of IPv6) it is ours.
    let Some(ip) = local.or(other) else { return Ok(None) };
    Ok(Some(Address {
        index: parse::u32_at(fixed, 4)?,
        ip,
        prefix_len: parse::u8_at(fixed, 1)?,
        scope: scope(parse::u8_at(fixed, 3)?),
        deprecated: flags & abi::IFA_F_DEPRECATED != 0,
        tentative: flags & abi::IFA_F_TENTATIVE != 0,
        duplicate: flags & abi::IFA_F_DADFAILED != 0,
        temporary: ip.is_ipv6() && flags & abi::IFA_F_TEMPORARY != 0,
    }))
}

fn scope(number: u8) -> Scope {
    match number {
        abi::RT_SCOPE_UNIVERSE => Scope::Global,
        abi::RT_SCOPE_LINK => Scope::InterfaceLink,
        abi::RT_SCOPE_HOST | abi::RT_SCOPE_NOWHERE => Scope::Host,
        _ => Scope::Site,
    }
}

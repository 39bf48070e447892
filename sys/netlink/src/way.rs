//! What the routes and rules say of one packet.

use crate::abi;
use crate::address::octets;
use crate::error::NetlinkError;
use crate::message::Request;
use crate::parse::{self, Malformed, Message};
use crate::request::Netlink;
use std::net::IpAddr;

/// `struct rtmsg` (rtnetlink.h), as for routes.
const FIXED_LEN: usize = 12;

impl Netlink {
    /// By which interface packets with this mark leave from `from`, an address of this host of the same family, to `to`;
    /// `None` where no route leads there.
    pub fn way(&mut self, from: IpAddr, to: IpAddr, mark: u32) -> Result<Option<u32>, NetlinkError> {
        let mut fixed = [0; FIXED_LEN];
        fixed[0] = if to.is_ipv4() { abi::AF_INET } else { abi::AF_INET6 };
        let length = if to.is_ipv4() { 32 } else { 128 };
        (fixed[1], fixed[2]) = (length, length);
        let request = Request::new(abi::RTM_GETROUTE, 0, &fixed)
            .attribute(abi::RTA_DST, &octets(to))
            .attribute(abi::RTA_SRC, &octets(from))
            .number(abi::RTA_MARK, mark);
        let mut way = None;
        let answer = self.exchange(
            "ask for the route",
            || format!("{to} from {from}"),
            request,
            |message| {
                way = read(message)?.or(way);
                Ok(())
            },
        );
        match answer {
            Ok(_) => Ok(way),
            // EINVAL: `from` is not ours. EACCES: a rule forbids it.
            Err(error) => match error.code() {
                Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EINVAL | libc::EACCES) => Ok(None),
                _ => Err(error),
            },
        }
    }
}

/// The interface of a route that carries packets.
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

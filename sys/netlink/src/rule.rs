//! Rules of policy routing: which table a packet asks (man 8 ip-rule).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use taut_base::Prefix;

use crate::abi;
use crate::address::octets;
use crate::error::NetlinkError;
use crate::message::NetlinkRequest;
use crate::parse::{self, Malformed, Message};
use crate::request::Netlink;
use crate::route::ROUTE_PROTOCOL;

/// `struct fib_rule_hdr` (fib_rules.h): family, destination and source prefix lengths, tos, table, two reserved bytes, action, flags.
pub(crate) const FIXED_LEN: usize = 12;

/// The packets that a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selector {
    /// Those whose mark has this value under this mask.
    Marked {
        /// The value.
        mark: u32,
        /// The bits that are compared.
        mask: u32,
    },
    /// All others than those of [`Self::Marked`].
    NotMarked {
        /// The value.
        mark: u32,
        /// The bits that are compared.
        mask: u32,
    },
    /// Those to this prefix, which has the rule's family.
    To(Prefix),
    /// UDP datagrams between these two ports (Linux 4.17).
    Udp {
        /// The sender's port.
        from: u16,
        /// The receiver's port.
        to: u16,
    },
}

/// A rule that has packets ask a table. Every rule that this crate adds carries [`ROUTE_PROTOCOL`], so that leftovers can be found (Linux 4.17; before that a rule is found by its priority).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoutingRule {
    /// True for IPv4, false for IPv6.
    pub ipv4: bool,
    /// Its place among all rules: the lowest number is asked first.
    pub priority: u32,
    /// Its packets.
    pub selector: Selector,
    /// The table that they ask; if it has no route, the next rule follows.
    pub table: u32,
}

impl fmt::Display for RoutingRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = if self.ipv4 { "IPv4" } else { "IPv6" };
        write!(f, "{family} rule {} ", self.priority)?;
        match self.selector {
            Selector::Marked { mark, mask } => write!(f, "fwmark {mark:#x}/{mask:#x}")?,
            Selector::NotMarked { mark, mask } => write!(f, "not fwmark {mark:#x}/{mask:#x}")?,
            Selector::To(prefix) => write!(f, "to {prefix}")?,
            Selector::Udp { from, to } => write!(f, "ipproto udp sport {from} dport {to}")?,
        }
        write!(f, " lookup {}", self.table)
    }
}

impl Netlink {
    /// Returns the rules of these priorities that carry [`ROUTE_PROTOCOL`], with duplicates. Rules whose conditions this crate cannot make are left out.
    pub fn own_rules(&mut self, priorities: &[u32]) -> Result<Vec<RoutingRule>, NetlinkError> {
        let mut found = Vec::new();
        for family in [abi::AF_INET, abi::AF_INET6] {
            let request = || {
                let mut fixed = [0; FIXED_LEN];
                fixed[0] = family;
                NetlinkRequest::new(abi::RTM_GETRULE, abi::NLM_F_DUMP, &fixed)
            };
            let take = |message: Message<'_>| Ok(read(message)?.filter(|rule| priorities.contains(&rule.priority)));
            match self.dump("read the routing rules", request, take) {
                // A kernel without rules or without IPv6 has none.
                Err(error) if matches!(error.code(), Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP)) => {}
                rules => found.extend(rules?),
            }
        }
        Ok(found)
    }

    /// Adds a rule. One that is there already stays, and is not added a second time.
    pub fn add_rule(&mut self, rule: &RoutingRule) -> Result<(), NetlinkError> {
        let request = request(abi::RTM_NEWRULE, abi::NLM_F_CREATE | abi::NLM_F_EXCL, rule);
        match self.change("add the routing rule", || rule.to_string(), request) {
            Err(error) if error.code() == Some(libc::EEXIST) => Ok(()),
            answer => answer,
        }
    }

    /// Removes one rule. One that does not exist is no error.
    pub fn remove_rule(&mut self, rule: &RoutingRule) -> Result<(), NetlinkError> {
        match self.change("remove the routing rule", || rule.to_string(), request(abi::RTM_DELRULE, 0, rule)) {
            Err(error) if matches!(error.code(), Some(libc::ENOENT | libc::EAFNOSUPPORT)) => Ok(()),
            answer => answer,
        }
    }
}

fn request(kind: u16, flags: u16, rule: &RoutingRule) -> NetlinkRequest {
    let mut fixed = [0; FIXED_LEN];
    fixed[0] = if rule.ipv4 { abi::AF_INET } else { abi::AF_INET6 };
    // Tables beyond 8 bits stand in the attribute alone.
    fixed[4] = u8::try_from(rule.table).unwrap_or_default();
    fixed[7] = abi::FR_ACT_TO_TBL;
    if let Selector::To(prefix) = rule.selector {
        fixed[1] = prefix.length();
    }
    if matches!(rule.selector, Selector::NotMarked { .. }) {
        fixed[8..12].copy_from_slice(&abi::FIB_RULE_INVERT.to_ne_bytes());
    }
    let request = NetlinkRequest::new(kind, flags, &fixed)
        .number(abi::FRA_PRIORITY, rule.priority)
        .attribute(abi::FRA_PROTOCOL, &[ROUTE_PROTOCOL])
        .number(abi::FRA_TABLE, rule.table);
    match rule.selector {
        Selector::Marked { mark, mask } | Selector::NotMarked { mark, mask } => {
            request.number(abi::FRA_FWMARK, mark).number(abi::FRA_FWMASK, mask)
        }
        Selector::To(prefix) => request.attribute(abi::FRA_DST, &octets(prefix.address())),
        Selector::Udp { from, to } => {
            let range = |port: u16| [port.to_ne_bytes(), port.to_ne_bytes()].concat();
            let udp = u8::try_from(libc::IPPROTO_UDP).unwrap_or_default();
            request
                .attribute(abi::FRA_IP_PROTO, &[udp])
                .attribute(abi::FRA_SPORT_RANGE, &range(from))
                .attribute(abi::FRA_DPORT_RANGE, &range(to))
        }
    }
}

/// The attributes of a rule that are understood.
#[derive(Default)]
struct Attributes {
    priority: u32,
    table: u32,
    protocol: u8,
    destination: Option<IpAddr>,
    mark: Option<u32>,
    mask: Option<u32>,
    is_udp: bool,
    ports: (Option<u16>, Option<u16>),
}

/// Returns the fixed part of a message about a rule, and whether the rule is for IPv4; `None` for other messages and other families.
pub(crate) fn header<'a>(message: &Message<'a>) -> Result<Option<(&'a [u8], bool)>, Malformed> {
    if message.kind != abi::RTM_NEWRULE {
        return Ok(None);
    }
    let fixed = message.payload.get(..FIXED_LEN).ok_or(Malformed("rule"))?;
    let ipv4 = match fixed[0] {
        abi::AF_INET => true,
        abi::AF_INET6 => false,
        _ => return Ok(None),
    };
    Ok(Some((fixed, ipv4)))
}

/// The rule in a message, if it carries [`ROUTE_PROTOCOL`] and is of a kind that this crate makes.
pub(crate) fn read(message: Message<'_>) -> Result<Option<RoutingRule>, Malformed> {
    let Some((fixed, ipv4)) = header(&message)? else { return Ok(None) };
    let mut found = Attributes { table: u32::from(fixed[4]), ..Attributes::default() };
    for attribute in parse::attributes(&message.payload[FIXED_LEN..]) {
        let (kind, value) = attribute?;
        found.take(kind, value)?;
    }
    let is_inverted = parse::u32_at(fixed, 8)? & abi::FIB_RULE_INVERT != 0;
    let Some(selector) = found.selector(is_inverted, ipv4, fixed[1]) else { return Ok(None) };
    let is_ours = found.protocol == ROUTE_PROTOCOL && fixed[7] == abi::FR_ACT_TO_TBL;
    Ok(is_ours.then_some(RoutingRule { ipv4, priority: found.priority, selector, table: found.table }))
}

impl Attributes {
    fn take(&mut self, kind: u16, value: &[u8]) -> Result<(), Malformed> {
        match kind {
            abi::FRA_PRIORITY => self.priority = parse::u32_at(value, 0)?,
            abi::FRA_TABLE => self.table = parse::u32_at(value, 0)?,
            abi::FRA_PROTOCOL => self.protocol = parse::u8_at(value, 0)?,
            abi::FRA_DST => self.destination = Some(parse::ip(value)?),
            abi::FRA_FWMARK => self.mark = Some(parse::u32_at(value, 0)?),
            abi::FRA_FWMASK => self.mask = Some(parse::u32_at(value, 0)?),
            abi::FRA_IP_PROTO => self.is_udp = i32::from(parse::u8_at(value, 0)?) == libc::IPPROTO_UDP,
            abi::FRA_SPORT_RANGE => self.ports.0 = Some(parse::u16_at(value, 0)?),
            abi::FRA_DPORT_RANGE => self.ports.1 = Some(parse::u16_at(value, 0)?),
            _ => {}
        }
        Ok(())
    }

    fn selector(&self, is_inverted: bool, ipv4: bool, length: u8) -> Option<Selector> {
        if let (true, (Some(from), Some(to))) = (self.is_udp, self.ports) {
            return Some(Selector::Udp { from, to });
        }
        if let Some(mark) = self.mark {
            let mask = self.mask.unwrap_or(u32::MAX);
            return Some(if is_inverted {
                Selector::NotMarked { mark, mask }
            } else {
                Selector::Marked { mark, mask }
            });
        }
        let any = if ipv4 { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
        Prefix::new(self.destination.unwrap_or(any), length).ok().map(Selector::To)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::messages;

    #[test]
    fn a_rule_that_is_built_can_be_read() {
        for (ipv4, selector) in [
            (true, Selector::Marked { mark: 0x7400_0000, mask: 0xfe00_0000 }),
            (false, Selector::NotMarked { mark: 0x7400_0000, mask: 0xfe00_0000 }),
            (true, Selector::To("192.168.1.0/24".parse().unwrap())),
            (false, Selector::To("fd00:1::/64".parse().unwrap())),
            (true, Selector::Udp { from: 68, to: 67 }),
        ] {
            let rule = RoutingRule { ipv4, priority: 5_300, selector, table: 29_696 };
            let bytes = request(abi::RTM_NEWRULE, 0, &rule).finish(1);
            let message = messages(&bytes).next().unwrap().unwrap();
            assert_eq!(read(message), Ok(Some(rule)), "{rule}");
        }
    }
}

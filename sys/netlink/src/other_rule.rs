//! Routing rules of other programs, as far as a rule of nftables can name the same packets.

use taut_base::Prefix;

use crate::abi;
use crate::error::NetlinkError;
use crate::message::NetlinkRequest;
use crate::parse::{self, Malformed, Message};
use crate::request::Netlink;
use crate::route::ROUTE_PROTOCOL;
use crate::rule::{FIXED_LEN, header};

/// A routing rule of another program that has some packets ask a table: those that fulfil all of its conditions. It has at least one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OtherRule {
    /// True for IPv4, false for IPv6.
    pub ipv4: bool,
    /// The mark's value, and the bits that are compared.
    pub mark: Option<(u32, u32)>,
    /// The prefix that the packets come from.
    pub source: Option<Prefix>,
    /// The prefix that they go to.
    pub destination: Option<Prefix>,
    /// The interface that they came by.
    pub from: Option<String>,
    /// The interface that their program is bound to.
    pub to: Option<String>,
}

impl Netlink {
    /// Returns the rules of other programs before this priority. Rules with further conditions (users, ports, protocols, VRF), inverted ones and those for all packets are left out.
    ///
    /// # Errors
    /// If the rules cannot be read.
    pub fn other_rules_before(&mut self, priority: u32) -> Result<Vec<OtherRule>, NetlinkError> {
        let mut found = Vec::new();
        for family in [abi::AF_INET, abi::AF_INET6] {
            let request = || {
                let mut fixed = [0; FIXED_LEN];
                fixed[0] = family;
                NetlinkRequest::new(abi::RTM_GETRULE, abi::NLM_F_DUMP, &fixed)
            };
            let take =
                |message: Message<'_>| Ok(read(message)?.filter(|(place, _)| *place < priority).map(|(_, rule)| rule));
            match self.dump("read the routing rules", request, take) {
                // A kernel without rules or without IPv6 has none.
                Err(error) if matches!(error.code(), Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP)) => {}
                rules => found.extend(rules?),
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}

/// Returns the rule in a message with its priority, if it is another program's and of the described kind.
pub(crate) fn read(message: Message<'_>) -> Result<Option<(u32, OtherRule)>, Malformed> {
    let Some((fixed, ipv4)) = header(&message)? else { return Ok(None) };
    // The type of service is a condition, too.
    let is_plain =
        fixed[3] == 0 && fixed[7] == abi::FR_ACT_TO_TBL && parse::u32_at(fixed, 8)? & abi::FIB_RULE_INVERT == 0;
    let (mut rule, mut priority, mut mask) = (OtherRule { ipv4, ..OtherRule::default() }, 0, u32::MAX);
    for attribute in parse::attributes(&message.payload[FIXED_LEN..]) {
        let (kind, value) = attribute?;
        match kind {
            abi::FRA_PRIORITY => priority = parse::u32_at(value, 0)?,
            abi::FRA_FWMARK => rule.mark = Some((parse::u32_at(value, 0)?, u32::MAX)),
            abi::FRA_FWMASK => mask = parse::u32_at(value, 0)?,
            abi::FRA_SRC => rule.source = Some(prefix(value, fixed[2])?),
            abi::FRA_DST => rule.destination = Some(prefix(value, fixed[1])?),
            abi::FRA_IIFNAME => rule.from = Some(parse::text(value)),
            abi::FRA_OIFNAME => rule.to = Some(parse::text(value)),
            abi::FRA_PROTOCOL if value == [ROUTE_PROTOCOL] => return Ok(None),
            abi::FRA_PROTOCOL | abi::FRA_TABLE | abi::FRA_FLOW | abi::FRA_PAD => {}
            // All bits set is none. A rule with one leads only some of its packets, which no condition of nftables tells.
            abi::FRA_SUPPRESS_IFGROUP | abi::FRA_SUPPRESS_PREFIXLEN if parse::u32_at(value, 0)? == u32::MAX => {}
            _ => return Ok(None),
        }
    }
    rule.mark = rule.mark.map(|(mark, _)| (mark, mask));
    let has_condition = rule != OtherRule { ipv4, ..OtherRule::default() };
    Ok((is_plain && has_condition).then_some((priority, rule)))
}

fn prefix(value: &[u8], length: u8) -> Result<Prefix, Malformed> {
    Prefix::new(parse::ip(value)?, length).map_err(|_| Malformed("rule"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::messages;

    fn built(fixed: [u8; FIXED_LEN], build: impl FnOnce(NetlinkRequest) -> NetlinkRequest) -> Option<(u32, OtherRule)> {
        let bytes = build(NetlinkRequest::new(abi::RTM_NEWRULE, 0, &fixed)).finish(1);
        read(messages(&bytes).next().unwrap().unwrap()).unwrap()
    }

    fn plain(source_len: u8) -> [u8; FIXED_LEN] {
        let mut fixed = [0; FIXED_LEN];
        (fixed[0], fixed[2], fixed[7]) = (abi::AF_INET, source_len, abi::FR_ACT_TO_TBL);
        fixed
    }

    #[test]
    fn a_rule_is_read_if_all_of_its_conditions_are_known() {
        let from =
            |request: NetlinkRequest| request.number(abi::FRA_PRIORITY, 7).attribute(abi::FRA_SRC, &[192, 0, 2, 0]);
        let expected = OtherRule { ipv4: true, source: "192.0.2.0/24".parse().ok(), ..OtherRule::default() };
        assert_eq!(built(plain(24), from), Some((7, expected.clone())));
        let marked = |request| from(request).number(abi::FRA_FWMARK, 0x8_0000).number(abi::FRA_FWMASK, 0xff_0000);
        let mark = Some((0x8_0000, 0xff_0000));
        assert_eq!(built(plain(24), marked), Some((7, OtherRule { mark, ..expected })));
        // Another condition, our own rule, one for all packets, an inverted one, one that ends the search.
        let udp = |request| from(request).attribute(abi::FRA_IP_PROTO, &[17]);
        assert_eq!(built(plain(24), udp), None);
        assert_eq!(built(plain(24), |request| from(request).attribute(abi::FRA_PROTOCOL, &[ROUTE_PROTOCOL])), None);
        assert_eq!(built(plain(0), |request| request.number(abi::FRA_PRIORITY, 7)), None);
        let suppressed = |to: u32| move |request| from(request).number(abi::FRA_SUPPRESS_PREFIXLEN, to);
        assert_eq!((built(plain(24), suppressed(0)), built(plain(24), suppressed(u32::MAX)).is_some()), (None, true));
        let mut inverted = plain(24);
        inverted[8..].copy_from_slice(&abi::FIB_RULE_INVERT.to_ne_bytes());
        let mut ends = plain(24);
        ends[7] = 7;
        assert_eq!((built(inverted, from), built(ends, from)), (None, None));
    }
}

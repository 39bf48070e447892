//! The filter as the coordinator sends it: the policy, compiled for one receiver.
//!
//! A filter is data without names: prefixes, protocol numbers and port ranges. It is part of the network map (JSON), so a reader ignores fields that it does
//! not know, and calls [`Filter::check`] before it keeps a filter that came from outside.
//!
//! **Meaning.** A packet that opens a flow may pass if a rule names its source, its protocol, its destination and its port ([`Filter::allows`]). A filter
//! without rules allows nothing. Two sentences of the language apply to every filter, so no rule repeats them:
//! - a rule without protocols means [`DEFAULT_PROTOCOLS`];
//! - ICMP passes between two addresses if any rule allows anything between them.

use std::error::Error;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use serde::Serialize;
use taut_base::Prefix;

use crate::protocol::{DEFAULT_PROTOCOLS, has_ports, is_icmp_of};

/// Limit on the rules of a filter, 10,000: five times the rules of the largest policy that is measured.
pub const MAX_FILTER_RULES: usize = 10_000;

/// Limit on all prefixes and port ranges of a filter together, 200,000. A prefix takes 18 bytes, so a filter takes at most about 4 MB.
pub const MAX_FILTER_PARTS: usize = 200_000;

/// All ports, as a range.
pub const ALL_PORTS: (u16, u16) = (0, u16::MAX);

/// The rules that one node enforces on packets that it receives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, taut_json::Deserialize)]
pub struct Filter {
    /// The rules. Each one only allows, so their order has no meaning.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

/// A rule: each of these sources may reach each of these targets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, taut_json::Deserialize)]
pub struct Rule {
    /// The sources.
    pub src: Vec<Prefix>,
    /// IP protocol numbers. Empty, and absent in JSON: [`DEFAULT_PROTOCOLS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proto: Vec<u8>,
    /// The destinations.
    pub dst: Vec<Target>,
}

/// A destination: these ports of all addresses of a prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, taut_json::Deserialize)]
pub struct Target {
    /// Addresses of the node itself, or behind it.
    pub prefix: Prefix,
    /// Port ranges, first and last included. A protocol without ports needs [`ALL_PORTS`]. Without ranges the target allows nothing.
    pub ports: Vec<(u16, u16)>,
}

/// The fields of a packet that a filter examines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// The source address.
    pub src: IpAddr,
    /// The destination address.
    pub dst: IpAddr,
    /// The IP protocol number.
    pub proto: u8,
    /// The destination port; ignored if the protocol has no ports.
    pub port: u16,
}

impl Filter {
    /// Returns true if the packet may open a flow.
    pub fn allows(&self, packet: &Packet) -> bool {
        self.rules.iter().any(|rule| rule.allows(packet))
    }

    /// Checks the bounds of a filter that came from outside.
    ///
    /// # Errors
    /// If the filter has more than [`MAX_FILTER_RULES`] rules or [`MAX_FILTER_PARTS`] parts, or a port range that ends before it starts.
    pub fn check(&self) -> Result<(), BadFilter> {
        if self.rules.len() > MAX_FILTER_RULES {
            return Err(BadFilter::Rules(self.rules.len()));
        }
        let parts = self.parts();
        if parts > MAX_FILTER_PARTS {
            return Err(BadFilter::Parts(parts));
        }
        let ports = self.rules.iter().flat_map(|rule| &rule.dst).flat_map(|target| &target.ports);
        match ports.copied().find(|(first, last)| first > last) {
            Some((first, last)) => Err(BadFilter::Ports(first, last)),
            None => Ok(()),
        }
    }

    /// Returns a hash of the rules, by which a program notices that it has another filter than before. It may differ between versions of a program, so it is not for storage.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.rules.hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the number of prefixes and port ranges of all rules.
    pub fn parts(&self) -> usize {
        let of_target = |target: &Target| 1 + target.ports.len();
        self.rules.iter().map(|rule| rule.src.len() + rule.dst.iter().map(of_target).sum::<usize>()).sum()
    }
}

impl Rule {
    /// Returns true if this rule lets the packet open a flow.
    fn allows(&self, packet: &Packet) -> bool {
        let icmp = is_icmp_of(packet.proto, packet.dst);
        let proto = if self.proto.is_empty() { &DEFAULT_PROTOCOLS } else { self.proto.as_slice() };
        (icmp || proto.contains(&packet.proto))
            && self.dst.iter().any(|target| {
                // A target without ports allows nothing, so ICMP does not pass to it either.
                target.prefix.contains(packet.dst)
                    && (icmp && !target.ports.is_empty() || allows_port(&target.ports, packet.proto, packet.port))
            })
            && self.src.iter().any(|prefix| prefix.contains(packet.src))
    }
}

/// Returns true if one of the ranges has the port, or all ports if the protocol has none.
pub fn allows_port(ports: &[(u16, u16)], proto: u8, port: u16) -> bool {
    if has_ports(proto) {
        return ports.iter().any(|(first, last)| (*first..=*last).contains(&port));
    }
    ports.contains(&ALL_PORTS)
}

/// The reason for which a filter from outside is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadFilter {
    /// The filter has too many rules: this number.
    Rules(usize),
    /// The filter has too many prefixes and port ranges: this number.
    Parts(usize),
    /// This port range ends before it starts.
    Ports(u16, u16),
}

impl fmt::Display for BadFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rules(rules) => write!(f, "the filter has {rules} rules; the limit is {MAX_FILTER_RULES}"),
            Self::Parts(parts) => {
                write!(f, "the filter has {parts} prefixes and port ranges; the limit is {MAX_FILTER_PARTS}")
            }
            Self::Ports(first, last) => write!(f, "the filter has the port range {first}-{last}"),
        }
    }
}

impl Error for BadFilter {}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter() -> Filter {
        serde_json::from_str(
            r#"{"rules":[
                {"src":["100.64.0.1/32","fd00::/64"],"dst":[{"prefix":"100.64.0.2/32","ports":[[22,22],[80,443]]},{"prefix":"fd00::2/128","ports":[[0,65535]]}]},
                {"src":["100.64.0.3/32"],"proto":[47,6],"dst":[{"prefix":"100.64.0.2/32","ports":[[0,65535]]}],"later":1}
            ],"later":true}"#,
        )
        .unwrap()
    }

    fn passes(src: &str, dst: &str, proto: u8, port: u16) -> bool {
        filter().allows(&Packet { src: src.parse().unwrap(), dst: dst.parse().unwrap(), proto, port })
    }

    #[test]
    fn a_rule_names_source_protocol_destination_and_port() {
        for port in [22, 80, 443] {
            assert!(passes("100.64.0.1", "100.64.0.2", 6, port) && passes("100.64.0.1", "100.64.0.2", 17, port));
        }
        assert!(!passes("100.64.0.1", "100.64.0.2", 6, 79) && !passes("100.64.0.1", "100.64.0.2", 6, 444));
        assert!(!passes("100.64.0.2", "100.64.0.2", 6, 22), "a source without a rule");
        assert!(!passes("100.64.0.1", "100.64.0.3", 6, 22), "a destination without a rule");
        assert!(!passes("100.64.0.3", "100.64.0.2", 17, 22), "a protocol that the rule does not name");
    }

    #[test]
    fn default_protocols_do_not_include_others() {
        assert!(!passes("100.64.0.1", "100.64.0.2", 132, 22) && !passes("fd00::1", "fd00::2", 47, 0));
        assert!(passes("fd00::1", "fd00::2", 17, 9));
    }

    #[test]
    fn icmp_passes_where_anything_does() {
        assert!(passes("100.64.0.1", "100.64.0.2", 1, 0), "although only some ports are open");
        assert!(passes("100.64.0.3", "100.64.0.2", 1, 0), "although the rule names other protocols");
        assert!(passes("fd00::1", "fd00::2", 58, 0));
        assert!(!passes("100.64.0.4", "100.64.0.2", 1, 0));
        assert!(!passes("100.64.0.1", "100.64.0.2", 58, 0), "ICMPv6 over IPv4 is no ICMP and needs all ports");
        assert!(passes("fd00::1", "fd00::2", 1, 0), "a default protocol, and all ports are open");
        let mut closed = filter();
        closed.rules[0].dst[0].ports.clear();
        let echo = Packet { src: "100.64.0.1".parse().unwrap(), dst: "100.64.0.2".parse().unwrap(), proto: 1, port: 0 };
        assert!(!closed.allows(&echo), "a target without ports allows nothing");
    }

    #[test]
    fn a_protocol_without_ports_needs_all_ports() {
        assert!(passes("100.64.0.3", "100.64.0.2", 47, 9));
        let mut narrow = filter();
        narrow.rules[1].dst[0].ports = vec![(1, 65535)];
        let packet =
            Packet { src: "100.64.0.3".parse().unwrap(), dst: "100.64.0.2".parse().unwrap(), proto: 47, port: 9 };
        assert!(!narrow.allows(&packet));
        assert!(narrow.allows(&Packet { proto: 6, ..packet }));
    }

    #[test]
    fn no_rule_allows_nothing_and_json_omits_default_protocols() {
        let packet =
            Packet { src: "100.64.0.1".parse().unwrap(), dst: "100.64.0.2".parse().unwrap(), proto: 6, port: 22 };
        assert!(!Filter::default().allows(&packet));
        let text = serde_json::to_string(&filter()).unwrap();
        assert_eq!(text.matches("proto").count(), 1);
        assert_eq!(serde_json::from_str::<Filter>(&text).unwrap(), filter());
        assert_eq!(serde_json::from_str::<Filter>("{}").unwrap(), Filter::default());
    }

    #[test]
    fn sizes_are_bounded() {
        assert_eq!(filter().check(), Ok(()));
        assert_eq!(filter().parts(), 2 + 3 + 2 + 1 + 2);
        let prefix: Prefix = "100.64.0.1/32".parse().unwrap();
        let rule = |sources: usize| Rule { src: vec![prefix; sources], proto: Vec::new(), dst: Vec::new() };
        let many = |rules: usize| Filter { rules: vec![rule(1); rules] };
        assert_eq!(many(MAX_FILTER_RULES).check(), Ok(()));
        assert_eq!(many(MAX_FILTER_RULES + 1).check(), Err(BadFilter::Rules(MAX_FILTER_RULES + 1)));
        assert_eq!(Filter { rules: vec![rule(MAX_FILTER_PARTS)] }.check(), Ok(()));
        let large = Filter { rules: vec![rule(MAX_FILTER_PARTS + 1)] };
        assert_eq!(large.check(), Err(BadFilter::Parts(MAX_FILTER_PARTS + 1)));
        let target = Target { prefix, ports: vec![(5, 5), (9, 8)] };
        let inverted = Filter { rules: vec![Rule { src: Vec::new(), proto: Vec::new(), dst: vec![target] }] };
        assert_eq!(inverted.check(), Err(BadFilter::Ports(9, 8)));
    }
}

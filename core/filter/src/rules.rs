//! The filter, prepared for look-ups.

use std::net::IpAddr;

use taut_base::Prefix;
use taut_wire::ip::{ICMP, ICMPV6, TCP, UDP};

use crate::filter::{Filter, Rule};

/// Protocol number of SCTP (IANA), which has ports at the same place as TCP and UDP.
pub(crate) const SCTP: u8 = 132;

/// All ports.
const ALL_PORTS: (u16, u16) = (0, u16::MAX);

/// The protocols that a rule means if it names none.
const DEFAULT: [u8; 4] = [TCP, UDP, ICMP, ICMPV6];

/// A filter whose rules find a source quickly.
#[derive(Debug, Default)]
pub struct PacketFilter {
    rules: Box<[Prepared]>,
}

#[derive(Debug)]
struct Prepared {
    /// Single addresses, sorted.
    hosts: Box<[IpAddr]>,
    /// Longer ranges.
    prefixes: Box<[Prefix]>,
    allows: Box<[Allow]>,
}

/// One permission: some protocols and ports of some destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Allow {
    destination: Prefix,
    protocols: Protocols,
    ports: (u16, u16),
}

/// A set of protocol numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Protocols([u64; 4]);

impl Protocols {
    fn new(numbers: &[u8]) -> Self {
        let mut set = [0; 4];
        for number in if numbers.is_empty() { &DEFAULT } else { numbers } {
            set[usize::from(number >> 6)] |= 1 << (number & 63);
        }
        Self(set)
    }

    fn has(&self, number: u8) -> bool {
        self.0[usize::from(number >> 6)] >> (number & 63) & 1 == 1
    }
}

impl PacketFilter {
    /// Prepares a filter. It must have passed [`Filter::check`].
    pub fn new(filter: &Filter) -> Self {
        Self { rules: filter.rules.iter().map(prepare).collect() }
    }

    /// Returns what the filter allows packets from `source`.
    pub fn for_source(&self, source: IpAddr) -> SourceRules {
        let mut allows: Vec<Allow> = Vec::new();
        for rule in self.rules.iter().filter(|rule| rule.is_from(source)) {
            allows.extend(&*rule.allows);
        }
        SourceRules { allows: allows.into() }
    }
}

impl Prepared {
    fn is_from(&self, source: IpAddr) -> bool {
        self.hosts.binary_search(&source).is_ok() || self.prefixes.iter().any(|prefix| prefix.contains(source))
    }
}

fn prepare(rule: &Rule) -> Prepared {
    let is_host = |prefix: &&Prefix| **prefix == Prefix::host(prefix.address());
    let mut hosts: Vec<IpAddr> = rule.src.iter().filter(is_host).map(|prefix| prefix.address()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let prefixes = rule.src.iter().filter(|prefix| !is_host(prefix)).copied().collect();
    let protocols = Protocols::new(&rule.proto);
    let targets = rule.dst.iter().flat_map(|target| target.ports.iter().map(move |ports| (target.prefix, *ports)));
    let allows = targets.map(|(destination, ports)| Allow { destination, protocols, ports }).collect();
    Prepared { hosts: hosts.into(), prefixes, allows }
}

/// What a filter allows packets from one source address.
#[derive(Clone, Debug, Default)]
pub struct SourceRules {
    allows: Box<[Allow]>,
}

impl SourceRules {
    /// Returns true if a packet may pass. `port` is the destination port; `None` for protocols without ports.
    pub fn allow(&self, destination: IpAddr, protocol: u8, port: Option<u16>) -> bool {
        self.allows.iter().any(|allow| {
            allow.protocols.has(protocol)
                && allow.destination.contains(destination)
                && match (port, protocol) {
                    (Some(port), _) => allow.ports.0 <= port && port <= allow.ports.1,
                    (None, ICMP | ICMPV6) => true,
                    (None, _) => allow.ports == ALL_PORTS,
                }
        })
    }

    /// Returns true if everything of the usual protocols may pass to this destination, so that answers need no table.
    pub fn is_open_to(&self, destination: IpAddr) -> bool {
        self.allows.iter().any(|allow| {
            allow.ports == ALL_PORTS
                && DEFAULT.iter().all(|protocol| allow.protocols.has(*protocol))
                && allow.destination.contains(destination)
        })
    }
}

/// Returns true for the protocols that [`SourceRules::is_open_to`] speaks of.
pub fn is_usual(protocol: u8) -> bool {
    DEFAULT.contains(&protocol)
}

/// Returns true if packets of this protocol have ports.
pub(crate) fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | SCTP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Target;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn rule(src: &[&str], proto: &[u8], dst: &[(&str, &[(u16, u16)])]) -> Rule {
        let prefix = |text: &&str| text.parse().unwrap();
        let target = |(to, ports): &(&str, &[(u16, u16)])| Target { prefix: prefix(to), ports: ports.to_vec() };
        Rule { src: src.iter().map(prefix).collect(), proto: proto.to_vec(), dst: dst.iter().map(target).collect() }
    }

    fn filter(rules: Vec<Rule>) -> PacketFilter {
        PacketFilter::new(&Filter { rules })
    }

    #[test]
    fn a_rule_allows_its_sources_destinations_and_ports_alone() {
        let filter = filter(vec![
            rule(&["100.64.0.2/32", "100.64.0.9/32"], &[], &[("100.64.0.1/32", &[(22, 22), (80, 90)])]),
            rule(&["100.64.0.0/16"], &[UDP], &[("100.64.0.1/32", &[(53, 53)])]),
        ]);
        let (me, other) = (address("100.64.0.1"), address("100.64.0.7"));
        let two = filter.for_source(address("100.64.0.2"));
        for (protocol, port, expected) in [
            (TCP, 22, true),
            (UDP, 22, true),
            (TCP, 85, true),
            (TCP, 91, false),
            (UDP, 53, true),
            (TCP, 53, false),
            (SCTP, 22, false),
        ] {
            assert_eq!(two.allow(me, protocol, Some(port)), expected, "{protocol} {port}");
            assert!(!two.allow(other, protocol, Some(port)));
        }
        assert!(two.allow(me, ICMP, None), "a rule for some ports of a host lets ping through");
        assert!(!two.allow(me, 47, None));
        let three = filter.for_source(address("100.64.0.3"));
        assert!(three.allow(me, UDP, Some(53)) && !three.allow(me, TCP, Some(22)) && !three.allow(me, ICMP, None));
        assert!(filter.for_source(address("100.65.0.3")).allows.is_empty());
    }

    #[test]
    fn another_protocol_needs_all_ports() {
        let filter =
            filter(vec![rule(&["0.0.0.0/0"], &[47, SCTP], &[("0.0.0.0/0", &[ALL_PORTS]), ("10.0.0.1/32", &[(1, 2)])])]);
        let rules = filter.for_source(address("100.64.0.2"));
        assert!(rules.allow(address("10.0.0.2"), 47, None) && rules.allow(address("10.0.0.2"), SCTP, Some(7)));
        assert!(
            !rules.allow(address("10.0.0.2"), TCP, Some(7)),
            "the default protocols are meant only where none is named"
        );
        assert!(!rules.is_open_to(address("10.0.0.2")));
    }

    #[test]
    fn open_means_every_port_of_the_usual_protocols() {
        let filter = filter(vec![
            rule(&["100.64.0.2/32"], &[], &[("100.64.0.1/32", &[ALL_PORTS])]),
            rule(&["100.64.0.3/32"], &[TCP], &[("100.64.0.1/32", &[ALL_PORTS])]),
            rule(&["100.64.0.4/32"], &[], &[("100.64.0.1/32", &[(1, 65_535)])]),
        ]);
        let open = |source| filter.for_source(address(source)).is_open_to(address("100.64.0.1"));
        assert!(open("100.64.0.2") && !open("100.64.0.3") && !open("100.64.0.4") && !open("100.64.0.5"));
        assert!(!filter.for_source(address("100.64.0.2")).is_open_to(address("100.64.0.9")));
    }
}

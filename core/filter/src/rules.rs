//! The filter, prepared for look-ups.

use std::net::IpAddr;

use taut_base::Prefix;

use crate::filter::{ALL_PORTS, Filter, Rule, allows_port};
use crate::protocol::{DEFAULT_PROTOCOLS, is_icmp_of};

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
        let numbers = if numbers.is_empty() { &DEFAULT_PROTOCOLS } else { numbers };
        for number in numbers {
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

    /// Returns the part of the filter that applies to packets from `source`.
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

/// The part of a filter that applies to packets from one source address.
#[derive(Clone, Debug, Default)]
pub struct SourceRules {
    allows: Box<[Allow]>,
}

impl SourceRules {
    /// Returns true if a packet may pass, as [`Filter::allows`] says it. `port` is the destination port; without meaning if the protocol has no ports.
    pub fn allow(&self, destination: IpAddr, protocol: u8, port: u16) -> bool {
        // Where anything may pass between two addresses, ICMP may.
        let icmp = is_icmp_of(protocol, destination);
        self.allows.iter().any(|allow| {
            allow.destination.contains(destination)
                && (icmp || allow.protocols.has(protocol) && allows_port(&[allow.ports], protocol, port))
        })
    }

    /// Returns true if everything of the usual protocols may pass to this destination, so that answers need no table.
    pub fn is_open_to(&self, destination: IpAddr) -> bool {
        self.allows.iter().any(|allow| {
            allow.ports == ALL_PORTS
                && DEFAULT_PROTOCOLS.iter().all(|protocol| allow.protocols.has(*protocol))
                && allow.destination.contains(destination)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use taut_wire::ip::{ICMP, ICMPV6, TCP, UDP};

    use super::*;
    use crate::filter::{Packet, Target};
    use crate::protocol::SCTP;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn rule(src: &[&str], proto: &[u8], dst: &[(&str, &[(u16, u16)])]) -> Rule {
        let prefix = |text: &&str| text.parse().unwrap();
        let target = |(to, ports): &(&str, &[(u16, u16)])| Target { prefix: prefix(to), ports: ports.to_vec() };
        Rule { src: src.iter().map(prefix).collect(), proto: proto.to_vec(), dst: dst.iter().map(target).collect() }
    }

    #[test]
    fn open_means_every_port_of_the_default_protocols() {
        let filter = PacketFilter::new(&Filter {
            rules: vec![
                rule(&["100.64.0.2/32"], &[], &[("100.64.0.1/32", &[ALL_PORTS])]),
                rule(&["100.64.0.3/32"], &[TCP], &[("100.64.0.1/32", &[ALL_PORTS])]),
                rule(&["100.64.0.4/32"], &[], &[("100.64.0.1/32", &[(1, 65_535)])]),
            ],
        });
        let open = |source| filter.for_source(address(source)).is_open_to(address("100.64.0.1"));
        assert!(open("100.64.0.2") && !open("100.64.0.3") && !open("100.64.0.4") && !open("100.64.0.5"));
        assert!(!filter.for_source(address("100.64.0.2")).is_open_to(address("100.64.0.9")));
    }

    fn addresses() -> impl Strategy<Value = IpAddr> {
        let texts = ["100.64.0.1", "100.64.0.2", "100.64.1.2", "10.0.0.1", "fd00::1", "fd00::2"];
        prop::sample::select(texts.map(address).to_vec())
    }

    fn rules() -> impl Strategy<Value = Rule> {
        let prefixes = || {
            (addresses(), 0..=128_u8).prop_map(|(address, length)| {
                let most = if address.is_ipv4() { 32 } else { 128 };
                Prefix::new(address, length.min(most)).unwrap()
            })
        };
        let ports = prop::sample::select(vec![ALL_PORTS, (22, 22), (0, 100), (80, 65_535)]);
        let target =
            (prefixes(), prop::collection::vec(ports, 0..3)).prop_map(|(prefix, ports)| Target { prefix, ports });
        let protocols = prop::sample::select(vec![ICMP, TCP, UDP, 47, ICMPV6, SCTP, 255]);
        let parts = (
            prop::collection::vec(prefixes(), 0..4),
            prop::collection::vec(protocols, 0..3),
            prop::collection::vec(target, 0..3),
        );
        parts.prop_map(|(src, proto, dst)| Rule { src, proto, dst })
    }

    proptest! {
        #[test]
        fn fault_g13_the_prepared_rules_agree_with_the_plain_ones(
            rules in prop::collection::vec(rules(), 0..6),
            (src, dst) in (addresses(), addresses()),
            proto in prop::sample::select(vec![0, ICMP, TCP, UDP, 47, ICMPV6, SCTP, 255]),
            port in prop::sample::select(vec![0, 22, 80, 443, u16::MAX]),
        ) {
            let filter = Filter { rules };
            let prepared = PacketFilter::new(&filter).for_source(src);
            let expected = filter.allows(&Packet { src, dst, proto, port });
            prop_assert_eq!(prepared.allow(dst, proto, port), expected);
            let is_open = prepared.is_open_to(dst);
            prop_assert!(!is_open || DEFAULT_PROTOCOLS.iter().all(|proto| prepared.allow(dst, *proto, port)));
        }
    }
}

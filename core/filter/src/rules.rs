//! The filter, prepared for look-ups.

use std::cell::Cell;
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use taut_base::Prefix;

use crate::filter::{ALL_PORTS, Filter, Rule, allows_port};
use crate::protocol::{DEFAULT_PROTOCOLS, is_icmp_of};

/// Steps that [`PacketFilter::covers`] takes, 1,000,000: some milliseconds of work. Larger changes count as narrower.
const COVER_STEPS: u32 = 1_000_000;

/// A filter whose rules find a source quickly.
#[derive(Debug, Default)]
pub struct PacketFilter {
    rules: Box<[Prepared]>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Prepared {
    /// Single addresses, sorted.
    hosts: Box<[IpAddr]>,
    /// Longer ranges.
    prefixes: Box<[Prefix]>,
    protocols: Protocols,
    /// Each port range of each destination.
    open: Box<[Open]>,
}

/// Some ports of some destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Open {
    destination: Prefix,
    ports: (u16, u16),
}

/// A set of protocol numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

    /// Returns true if all protocols of the other set are in this one.
    fn has_all(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).all(|(own, other)| other & !own == 0)
    }
}

impl PacketFilter {
    /// Prepares a filter. It must have passed [`Filter::check`].
    pub fn new(filter: &Filter) -> Self {
        Self { rules: filter.rules.iter().map(prepare).collect() }
    }

    /// Returns the part of the filter that applies to packets from `source`.
    pub fn for_source(self: &Arc<Self>, source: IpAddr) -> SourceRules {
        // `Filter::check` allows 10,000 rules, so their numbers fit.
        let numbers = (0..=u16::MAX).zip(&self.rules).filter(|(_, rule)| rule.is_from(source));
        SourceRules { filter: Arc::clone(self), numbers: numbers.map(|(number, _)| number).collect() }
    }

    /// Returns true if this filter certainly allows everything that the other one allows. A false result says nothing: the work is bounded, and a rule of the other filter counts as
    /// allowed only if, for each of its sources, one rule of this filter allows all of it.
    pub fn covers(&self, other: &Self) -> bool {
        let same: HashSet<&Prepared> = self.rules.iter().collect();
        let steps = Cell::new(COVER_STEPS);
        other.rules.iter().filter(|rule| !same.contains(rule)).all(|rule| self.covers_rule(rule, &steps))
    }

    fn covers_rule(&self, other: &Prepared, steps: &Cell<u32>) -> bool {
        // Returns false when no steps are left.
        let step = |cost: usize| {
            let left = steps.get().saturating_sub(u32::try_from(cost).unwrap_or(u32::MAX));
            steps.set(left);
            left > 0
        };
        let opens = |rule: &Prepared, wanted: &Open| rule.open.iter().any(|open| step(1) && open.has_all(wanted));
        let covers = |rule: &&Prepared| {
            step(1) && rule.protocols.has_all(&other.protocols) && other.open.iter().all(|wanted| opens(rule, wanted))
        };
        let rules: Vec<&Prepared> = self.rules.iter().filter(covers).collect();
        let from = |source: Prefix| rules.iter().any(|rule| step(1 + rule.prefixes.len()) && rule.is_from_all(source));
        let hosts = other.hosts.iter().map(|address| Prefix::host(*address));
        hosts.chain(other.prefixes.iter().copied()).all(from)
    }
}

impl Prepared {
    fn is_from(&self, source: IpAddr) -> bool {
        self.hosts.binary_search(&source).is_ok() || self.prefixes.iter().any(|prefix| prefix.contains(source))
    }

    /// Returns true if a source prefix of this rule contains all addresses of this one.
    fn is_from_all(&self, source: Prefix) -> bool {
        let is_host = source == Prefix::host(source.address());
        is_host && self.hosts.binary_search(&source.address()).is_ok()
            || self.prefixes.iter().any(|prefix| contains_all(*prefix, source))
    }

    fn allows(&self, destination: IpAddr, protocol: u8, port: u16) -> bool {
        // Where anything may pass between two addresses, ICMP may.
        let icmp = is_icmp_of(protocol, destination);
        (icmp || self.protocols.has(protocol))
            && self.open.iter().any(|open| {
                // Most ranges have another port, and ports are compared sooner than prefixes.
                (icmp || allows_port(&[open.ports], protocol, port)) && open.destination.contains(destination)
            })
    }
}

impl Open {
    /// Returns true if the other one's destinations and ports are among these.
    fn has_all(&self, other: &Self) -> bool {
        let ((first, last), (other_first, other_last)) = (self.ports, other.ports);
        first <= other_first && other_last <= last && contains_all(self.destination, other.destination)
    }
}

/// Returns true if the first prefix contains all addresses of the second.
fn contains_all(prefix: Prefix, other: Prefix) -> bool {
    prefix.length() <= other.length() && prefix.contains(other.address())
}

fn prepare(rule: &Rule) -> Prepared {
    let is_host = |prefix: &&Prefix| **prefix == Prefix::host(prefix.address());
    let mut hosts: Vec<IpAddr> = rule.src.iter().filter(is_host).map(|prefix| prefix.address()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let prefixes = rule.src.iter().filter(|prefix| !is_host(prefix)).copied().collect();
    let ranges = rule.dst.iter().flat_map(|target| target.ports.iter().map(move |ports| (target.prefix, *ports)));
    let open = ranges.map(|(destination, ports)| Open { destination, ports }).collect();
    Prepared { hosts: hosts.into(), prefixes, protocols: Protocols::new(&rule.proto), open }
}

/// The part of a filter that applies to packets from one source address. It has only the numbers of the rules, so it takes two bytes for each.
#[derive(Clone, Debug)]
pub struct SourceRules {
    filter: Arc<PacketFilter>,
    numbers: Box<[u16]>,
}

impl SourceRules {
    /// Returns true if a packet may pass, as [`Filter::allows`] says it. `port` is the destination port; without meaning if the protocol has no ports.
    pub fn allow(&self, destination: IpAddr, protocol: u8, port: u16) -> bool {
        self.rules().any(|rule| rule.allows(destination, protocol, port))
    }

    /// Returns true if everything of the usual protocols may pass to this destination, so that answers need no table.
    pub fn is_open_to(&self, destination: IpAddr) -> bool {
        let usual = Protocols::new(&DEFAULT_PROTOCOLS);
        let is_open = |open: &Open| open.ports == ALL_PORTS && open.destination.contains(destination);
        self.rules().any(|rule| rule.protocols.has_all(&usual) && rule.open.iter().any(is_open))
    }

    fn rules(&self) -> impl Iterator<Item = &Prepared> {
        self.numbers.iter().filter_map(|number| self.filter.rules.get(usize::from(*number)))
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
        let filter = Arc::new(PacketFilter::new(&Filter {
            rules: vec![
                rule(&["100.64.0.2/32"], &[], &[("100.64.0.1/32", &[ALL_PORTS])]),
                rule(&["100.64.0.3/32"], &[TCP], &[("100.64.0.1/32", &[ALL_PORTS])]),
                rule(&["100.64.0.4/32"], &[], &[("100.64.0.1/32", &[(1, 65_535)])]),
            ],
        }));
        let open = |source| filter.for_source(address(source)).is_open_to(address("100.64.0.1"));
        assert!(open("100.64.0.2") && !open("100.64.0.3") && !open("100.64.0.4") && !open("100.64.0.5"));
        assert!(!filter.for_source(address("100.64.0.2")).is_open_to(address("100.64.0.9")));
    }

    const ADDRESSES: [&str; 6] = ["100.64.0.1", "100.64.0.2", "100.64.1.2", "10.0.0.1", "fd00::1", "fd00::2"];

    fn addresses() -> impl Strategy<Value = IpAddr> {
        prop::sample::select(ADDRESSES.map(address).to_vec())
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

    /// Returns every packet between some addresses, with ports around the ends of ranges.
    fn packets() -> Vec<Packet> {
        let mut packets = Vec::new();
        for (src, dst) in ADDRESSES.iter().flat_map(|src| ADDRESSES.map(|dst| (address(src), address(dst)))) {
            for proto in [0, ICMP, TCP, UDP, 47, ICMPV6, SCTP, 255] {
                packets.extend([0, 1, 22, 80, 81, 99, 100, 101, u16::MAX].map(|port| Packet { src, dst, proto, port }));
            }
        }
        packets
    }

    /// Returns a rule that differs from another one in one part.
    fn changed(mut rule: Rule, part: u8) -> Rule {
        let resized = |prefix: Prefix, by: i8| {
            let length = prefix.length().saturating_add_signed(by);
            Prefix::new(prefix.address(), length).unwrap_or(prefix)
        };
        let (source, target) = (rule.src.first_mut(), rule.dst.first_mut());
        match part {
            0 => source.into_iter().for_each(|source| *source = resized(*source, -1)),
            1 => source.into_iter().for_each(|source| *source = resized(*source, 1)),
            2 => target.into_iter().for_each(|target| target.prefix = resized(target.prefix, -1)),
            3 => target.into_iter().for_each(|target| target.prefix = resized(target.prefix, 1)),
            4 => target
                .into_iter()
                .flat_map(|target| &mut target.ports)
                .for_each(|ports| ports.1 = ports.1.saturating_add(1)),
            5 => target.into_iter().flat_map(|target| &mut target.ports).for_each(|ports| ports.1 -= 1),
            6 => target
                .into_iter()
                .flat_map(|target| &mut target.ports)
                .for_each(|ports| ports.0 = ports.1.min(ports.0 + 1)),
            7 => rule.proto.clear(),
            8 => drop(rule.proto.pop()),
            9 => drop(rule.src.pop()),
            10 => drop(rule.dst.pop()),
            11 => rule.proto.push(TCP),
            _ => {}
        }
        rule
    }

    #[test]
    fn covering_is_decided_by_sources_protocols_destinations_and_ports() {
        let filter = |rules: &[Rule]| PacketFilter::new(&Filter { rules: rules.to_vec() });
        let (src, dst) = (["100.64.0.2/32"], "100.64.0.1/32");
        let old = filter(&[rule(&src, &[TCP], &[(dst, &[(80, 90)])])]);
        for (covers, new) in [
            (true, rule(&src, &[TCP], &[(dst, &[(80, 90)])])),
            (true, rule(&["100.64.0.0/24"], &[TCP, UDP], &[("100.64.0.0/10", &[(1, 2), (79, 91)])])),
            (true, rule(&["100.64.0.9/32", "100.64.0.2/32"], &[], &[(dst, &[ALL_PORTS])])),
            (false, rule(&["100.64.0.3/32"], &[TCP], &[(dst, &[ALL_PORTS])])),
            (false, rule(&src, &[UDP], &[(dst, &[ALL_PORTS])])),
            (false, rule(&src, &[TCP], &[("100.64.0.3/32", &[ALL_PORTS])])),
            (false, rule(&src, &[TCP], &[(dst, &[(81, 90)])])),
            (false, rule(&src, &[TCP], &[(dst, &[(80, 89)])])),
        ] {
            assert_eq!(filter(std::slice::from_ref(&new)).covers(&old), covers, "{new:?}");
        }
        assert!(old.covers(&filter(&[])) && !filter(&[]).covers(&old));
        let split = [rule(&src, &[TCP], &[(dst, &[(1, 90)])]), rule(&["100.64.0.3/32"], &[TCP], &[(dst, &[(80, 99)])])];
        let both = filter(&[rule(&["100.64.0.2/32", "100.64.0.3/32"], &[TCP], &[(dst, &[(80, 90)])])]);
        assert!(filter(&split).covers(&both), "each source is covered by another rule");
        // GRE needs all ports, so parts of them do not cover it.
        let gre = filter(&[rule(&src, &[47], &[(dst, &[ALL_PORTS])])]);
        assert!(!filter(&[rule(&src, &[47], &[(dst, &[(0, 9), (10, 65_535)])])]).covers(&gre));
    }

    #[test]
    fn large_filters_are_compared_with_bounded_work() {
        let of = |first_port: u16| {
            let one = |number: u16| {
                let source = format!("10.{}.{}.1/32", number >> 8, number & 255);
                rule(&[&source], &[TCP], &[("100.64.0.1/32", &[(first_port, first_port + 9)])])
            };
            PacketFilter::new(&Filter { rules: (0..10_000).map(one).collect() })
        };
        assert!(of(80).covers(&of(80)), "rules that stay cost nothing");
        // Comparing each rule with each would take minutes.
        assert!(!of(80).covers(&of(81)));
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
            let prepared = Arc::new(PacketFilter::new(&filter)).for_source(src);
            let expected = filter.allows(&Packet { src, dst, proto, port });
            prop_assert_eq!(prepared.allow(dst, proto, port), expected);
            let is_open = prepared.is_open_to(dst);
            prop_assert!(!is_open || DEFAULT_PROTOCOLS.iter().all(|proto| prepared.allow(dst, *proto, port)));
        }

        #[test]
        fn a_filter_that_covers_another_allows_all_that_the_other_allows(
            old in prop::collection::vec(rules(), 1..4),
            more in prop::collection::vec(rules(), 0..3),
            (place, part) in (0..4_usize, 0..13_u8),
        ) {
            let mut new = old.clone();
            let place = place % old.len();
            new[place] = changed(new[place].clone(), part);
            new.extend(more.iter().cloned());
            let all = Filter { rules: old.iter().cloned().chain(more).collect() };
            let (old, new) = (Filter { rules: old }, Filter { rules: new });
            if PacketFilter::new(&new).covers(&PacketFilter::new(&old)) {
                for packet in packets().iter().filter(|packet| old.allows(packet)) {
                    prop_assert!(new.allows(packet), "{packet:?}");
                }
            }
            prop_assert!(PacketFilter::new(&all).covers(&PacketFilter::new(&old)), "more rules");
        }
    }
}

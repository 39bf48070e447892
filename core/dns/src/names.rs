//! The snapshot of a network's names, as one node sees them.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use taut_base::Prefix;

use crate::extra::{Domains, Found, Records};
use crate::name::{Name, WireName};
use crate::query::Query;
use crate::reverse::{ReverseName, ReverseZones};
use crate::split::{Way, Zones};

/// Interface identifier of the stub's IPv6 address, `0:53:0:53`. Coordinators number nodes with 32 bits, so no node has it; 53 is the port of DNS.
const STUB_IDENTIFIER: u128 = 0x0053_0000_0053;

/// Longest IPv6 prefix that has room for [`STUB_IDENTIFIER`], a /64.
const LONGEST_V6: u8 = 64;

/// The names of a network and its stub's addresses: an immutable snapshot that the agent builds and lanes read.
#[derive(Clone, Debug)]
pub struct Names {
    zone: Name,
    serial: u32,
    /// The stub's addresses, at most one of each family.
    stub: Vec<IpAddr>,
    /// The node's own addresses: the only ones that are answered.
    own: Box<[IpAddr]>,
    reverse: [ReverseZones; 2],
    /// By label, which is in lower case.
    hosts: Box<[Host]>,
    /// By address: the place of its owner in `hosts`.
    owners: Box<[(IpAddr, usize)]>,
    records: Records,
    domains: Domains,
    /// The names that the exit node is not asked for, if it is asked for all others.
    kept: Option<Zones>,
}

/// A node with its name.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    label: Box<[u8]>,
    addresses: Box<[IpAddr]>,
}

/// The facts about a network and a node that [`Names`] are built from.
#[derive(Clone, Copy, Debug)]
pub struct Network<'a> {
    /// The domain of the names, such as `home.taut.internal`.
    pub zone: &'a str,
    /// The serial number of the zone: the version of the map.
    pub serial: u32,
    /// The prefixes of the network: IPv4, IPv6.
    pub prefixes: [Prefix; 2],
    /// The node's own addresses.
    pub own: &'a [IpAddr],
}

impl Names {
    /// Builds the snapshot from nodes with their names and addresses. Of two nodes with one name or address the earlier one has it. Returns `None` if the zone is no domain name.
    pub fn new<'a>(network: Network<'_>, nodes: impl IntoIterator<Item = (&'a str, &'a [IpAddr])>) -> Option<Self> {
        let zone = Name::from_text(network.zone)?;
        let host = |(name, addresses): (&str, &[IpAddr])| Host {
            label: name.to_ascii_lowercase().into_bytes().into(),
            addresses: addresses.into(),
        };
        let mut hosts: Vec<(usize, Host)> = nodes.into_iter().map(host).enumerate().collect();
        // Both sorts are by the number of the node last, so the earlier of two stays.
        hosts.sort_unstable_by(|(number, one), (other, two)| one.label.cmp(&two.label).then(number.cmp(other)));
        hosts.dedup_by(|(_, later), (_, earlier)| later.label == earlier.label);
        let places = hosts.iter().enumerate();
        let addresses = places
            .flat_map(|(place, (number, host))| host.addresses.iter().map(move |address| (*address, *number, place)));
        let mut owners: Vec<(IpAddr, usize, usize)> = addresses.collect();
        owners.sort_unstable();
        owners.dedup_by_key(|(address, ..)| *address);
        let owners: Vec<(IpAddr, usize)> = owners.into_iter().map(|(address, _, place)| (address, place)).collect();
        let hosts: Vec<Host> = hosts.into_iter().map(|(_, host)| host).collect();
        let is_free = |address: &IpAddr| owners.binary_search_by_key(address, |(owned, _)| *owned).is_err();
        let stub = network.prefixes.into_iter().filter_map(stub_address).filter(is_free).collect();
        let reverse = network.prefixes.map(ReverseZones::new);
        let (hosts, owners, own) = (hosts.into(), owners.into(), network.own.into());
        let (records, domains) = (Records::default(), Domains::default());
        Some(Self { zone, serial: network.serial, stub, own, reverse, hosts, owners, records, domains, kept: None })
    }

    /// Adds the operator's records, which have whole names. `*.` in front stands for all names below the rest.
    #[must_use]
    pub fn with_records<'a>(self, records: impl IntoIterator<Item = (&'a str, &'a [IpAddr])>) -> Self {
        Self { records: Records::new(records), ..self }
    }

    /// Adds domains whose questions go to other servers.
    #[must_use]
    pub fn with_domains<'a>(self, domains: impl IntoIterator<Item = (&'a str, &'a [IpAddr])>) -> Self {
        Self { domains: Domains::new(domains), ..self }
    }

    /// Passes on questions for all names that are not the network's or its operator's: those of the internet, which the exit node is asked for ([`crate::Question::servers`] is empty then).
    /// `kept` are domains whose names are not the internet's: the answer is REFUSED.
    #[must_use]
    pub fn with_all_others<'a>(self, kept: impl IntoIterator<Item = &'a str>) -> Self {
        Self { kept: Some(Zones::new(kept)), ..self }
    }

    /// Returns the servers that a question goes to, none for the exit node; `None` if the stub answers it itself. The network's own names and the operator's records come before split
    /// domains.
    pub(crate) fn servers(&self, query: &Query<'_>) -> Option<Arc<[IpAddr]>> {
        if !query.is_usual() || query.name.offset_of(&self.zone).is_some() {
            return None;
        }
        match (self.record(query.name), self.domains.servers(query.name)) {
            (Found::Addresses(..), _) => None,
            (_, Some(servers)) => Some(Arc::clone(servers)),
            (Found::Empty | Found::Below(_), None) => None,
            (Found::Above | Found::Nothing, None) => self.is_of_the_internet(query).then(Arc::default),
        }
    }

    fn is_of_the_internet(&self, query: &Query<'_>) -> bool {
        let reverse = ReverseName::parse(query.name);
        let is_own = reverse.is_some_and(|name| self.reverse.iter().any(|zones| zones.contain(&name)));
        !is_own && self.kept.as_ref().is_some_and(|kept| kept.way_of(query.name) == Way::Elsewhere)
    }

    /// Returns what the operator's records say about a name outside of the network's zone.
    pub(crate) fn record(&self, name: WireName<'_>) -> Found<'_> {
        self.records.find(name, usize::MAX, |_| false)
    }

    /// Returns what the operator's records say about a name in the network's zone, which begins at `zone` in the name. A node's name stops a record that stands for all names.
    pub(crate) fn record_in_zone(&self, name: WireName<'_>, zone: usize) -> Found<'_> {
        let labels: Vec<(usize, &[u8])> = name.labels().take_while(|(at, _)| *at < zone).collect();
        let is_node = |at: usize| labels.last().is_some_and(|(of, label)| *of == at && self.addresses(label).is_some());
        self.records.find(name, zone, is_node)
    }

    /// Returns the stub's addresses, at most one of each family, IPv4 first.
    pub fn stub(&self) -> &[IpAddr] {
        &self.stub
    }

    /// Returns true if the stub has this address.
    pub fn is_stub(&self, address: IpAddr) -> bool {
        self.stub.contains(&address)
    }

    /// Returns true if the stub answers this source: an address of this node. It is no open resolver (fault H8).
    pub fn may_ask(&self, source: IpAddr) -> bool {
        self.own.contains(&source)
    }

    pub(crate) fn zone(&self) -> &Name {
        &self.zone
    }

    pub(crate) fn serial(&self) -> u32 {
        self.serial
    }

    pub(crate) fn reverse(&self) -> &[ReverseZones] {
        &self.reverse
    }

    /// Returns the addresses of the node with this label, in any case.
    pub(crate) fn addresses(&self, label: &[u8]) -> Option<&[IpAddr]> {
        let label = label.to_ascii_lowercase();
        let place = self.hosts.binary_search_by(|host| host.label.as_ref().cmp(&label)).ok()?;
        self.hosts.get(place).map(|host| host.addresses.as_ref())
    }

    /// Returns the name at an address: a node's, or the zone's at the stub's own.
    pub(crate) fn name_at(&self, address: IpAddr) -> Option<Name> {
        if self.is_stub(address) {
            return Some(self.zone.clone());
        }
        let place = self.owners.binary_search_by_key(&address, |(owned, _)| *owned).ok()?;
        let host = self.owners.get(place).and_then(|(_, host)| self.hosts.get(*host))?;
        self.zone.child(&host.label)
    }

    /// Returns true if an address in the prefix has a name.
    pub(crate) fn has_name_in(&self, prefix: Prefix) -> bool {
        let first = self.owners.partition_point(|(address, _)| *address < prefix.address());
        let is_owned = self.owners.get(first).is_some_and(|(address, _)| prefix.contains(*address));
        is_owned || self.stub.iter().any(|address| prefix.contains(*address))
    }
}

/// Returns the stub's address in a prefix, which no coordinator gives to a node: the first one of IPv4, and the one with [`STUB_IDENTIFIER`] of IPv6.
fn stub_address(prefix: Prefix) -> Option<IpAddr> {
    match prefix.address() {
        IpAddr::V4(first) => (prefix.length() < 32).then_some(IpAddr::V4(first)),
        IpAddr::V6(first) => {
            (prefix.length() <= LONGEST_V6).then(|| IpAddr::V6(Ipv6Addr::from_bits(first.to_bits() | STUB_IDENTIFIER)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn names(prefixes: [&str; 2], nodes: &[(&str, &[IpAddr])]) -> Names {
        let prefixes = prefixes.map(|prefix| prefix.parse().unwrap());
        let network = Network { zone: "home.taut.internal", serial: 1, prefixes, own: &[address("100.64.0.1")] };
        Names::new(network, nodes.iter().copied()).unwrap()
    }

    #[test]
    fn the_stub_has_an_address_of_each_family_that_no_node_has() {
        let usual = ["100.64.0.0/10", "fd12:3456:789a::/64"];
        let none: [IpAddr; 0] = [];
        assert_eq!(names(usual, &[]).stub(), [address("100.64.0.0"), address("fd12:3456:789a::53:0:53")]);
        assert_eq!(names(["10.0.0.4/30", "fd12::/48"], &[]).stub(), [address("10.0.0.4"), address("fd12::53:0:53")]);
        assert_eq!(names(["10.0.0.4/32", "fd12::/65"], &[]).stub(), none);
        let squatter = [address("100.64.0.0")];
        assert_eq!(names(usual, &[("a", &squatter)]).stub(), [address("fd12:3456:789a::53:0:53")]);
    }

    #[test]
    fn the_earlier_of_two_nodes_keeps_name_and_address() {
        let [one, two] = [[address("100.64.0.1")], [address("100.64.0.2")]];
        let names = names(["100.64.0.0/10", "fd12::/64"], &[("Web", &one), ("web", &two), ("a", &one)]);
        assert_eq!(names.addresses(b"WEB"), Some(&one[..]));
        assert_eq!(names.addresses(b"we"), None);
        assert_eq!(names.name_at(two[0]), None);
        assert_eq!(
            names.name_at(one[0]),
            Name::from_text("web.home.taut.internal"),
            "although `a` comes first in order"
        );
        assert!(names.has_name_in("100.64.0.0/31".parse().unwrap()));
        assert!(!names.has_name_in("100.64.0.2/31".parse().unwrap()));
        assert!(names.may_ask(one[0]) && !names.may_ask(two[0]));
    }
}

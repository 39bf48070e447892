//! The table from inner addresses to peers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use taut_base::{PeerId, Prefix, is_internet};
use taut_dns::Names;
use taut_filter::Gate;

/// An immutable table that the agent builds and lanes read. The longest prefix wins, as in WireGuard's cryptokey routing (paper, section 2). The
/// table serves both directions: the peer to send to, and the peer that may send from an address.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// One map per prefix length in use, longest first. A network without subnet routes has one map for each address family.
    by_length: Vec<(u8, HashMap<IpAddr, PeerId>)>,
    /// Peers that may send from a prefix which another peer has in the table: several routers of one subnet.
    shared: Box<[(Prefix, PeerId)]>,
    /// The only inner addresses that packets of peers are delivered to; `None` for all addresses.
    own: Option<Box<[IpAddr]>>,
    /// Prefixes behind this node, to which packets of peers are delivered, too.
    forwarded: Box<[Prefix]>,
    /// True if this node is an exit node, which delivers packets of peers to the public internet.
    is_exit: bool,
    /// The way to the public internet.
    exit: ExitRoute,
    /// Prefixes of the overlay, which no exit node is the way to.
    overlay: Arc<[Prefix]>,
    /// The filter that this node enforces; `None` if it accepts every packet of its peers.
    gate: Option<Arc<Gate>>,
    /// The names that the stub answers for.
    names: Option<Arc<Names>>,
}

/// The way of packets to the public internet, as far as no prefix of the table contains their destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExitRoute {
    /// No exit node was chosen: such packets are not the overlay's.
    #[default]
    Off,
    /// An exit node was chosen, and none can be used now.
    Closed,
    /// Through this peer.
    Through(PeerId),
}

impl Routes {
    /// Builds a table. Of two equal prefixes the later one wins, as in WireGuard.
    pub fn new(entries: impl IntoIterator<Item = (Prefix, PeerId)>) -> Self {
        let mut routes = Self::default();
        for (prefix, peer) in entries {
            let length = prefix.length();
            let place = match routes.by_length.binary_search_by(|(other, _)| length.cmp(other)) {
                Ok(place) => place,
                Err(place) => {
                    routes.by_length.insert(place, (length, HashMap::new()));
                    place
                }
            };
            routes.by_length[place].1.insert(prefix.address(), peer);
        }
        routes
    }

    /// Restricts delivery to the node's own addresses (fault G15): on a host that forwards packets, other destinations would give every member access
    /// to the networks behind the host.
    #[must_use]
    pub fn only_to(self, own: &[IpAddr]) -> Self {
        Self { own: Some(own.into()), ..self }
    }

    /// Lets packets of peers through to these prefixes behind this node, which is their router.
    #[must_use]
    pub fn forwarding(self, forwarded: &[Prefix]) -> Self {
        Self { forwarded: forwarded.into(), ..self }
    }

    /// Sets the way to the public internet, and whether this node is one. `overlay` are prefixes that are never a part of it.
    #[must_use]
    pub fn with_exit(self, exit: ExitRoute, is_exit: bool, overlay: Arc<[Prefix]>) -> Self {
        Self { is_exit, exit, overlay, ..self }
    }

    /// Returns true if a packet to this address was meant for an exit node, and none can be used.
    pub fn lacks_exit(&self, destination: IpAddr) -> bool {
        self.exit == ExitRoute::Closed && self.is_outside(destination)
    }

    /// Returns true for an address of the public internet. An operator may have chosen public addresses for the overlay.
    fn is_outside(&self, address: IpAddr) -> bool {
        is_internet(address) && !self.overlay.iter().any(|overlay| overlay.contains(address))
    }

    /// Lets further peers send from a prefix of the table: the routers of a subnet that do not carry it now.
    #[must_use]
    pub fn shared_by(self, shared: impl IntoIterator<Item = (Prefix, PeerId)>) -> Self {
        Self { shared: shared.into_iter().collect(), ..self }
    }

    /// Enforces a filter.
    #[must_use]
    pub fn guarded_by(self, gate: Option<Arc<Gate>>) -> Self {
        Self { gate, ..self }
    }

    /// Has the stub answer for these names. It gets the packets whose destination is an address of the stub and of no peer.
    #[must_use]
    pub fn with_names(self, names: Option<Arc<Names>>) -> Self {
        Self { names, ..self }
    }

    /// Returns the names that the stub at this address answers for; `None` if the address is not the stub's.
    pub fn names_at(&self, stub: IpAddr) -> Option<&Names> {
        self.names.as_deref().filter(|names| names.is_stub(stub))
    }

    /// Returns the names that the stub answers for.
    pub fn names(&self) -> Option<&Names> {
        self.names.as_deref()
    }

    /// Returns the filter to enforce.
    #[inline]
    pub fn gate(&self) -> Option<&Gate> {
        self.gate.as_deref()
    }

    /// Returns true if a packet of a peer may be delivered to this inner destination. A `source_routed` packet names another destination, which a
    /// forwarding host may send it to. A node that restricts delivery to its own addresses therefore delivers no such packet.
    #[inline]
    pub fn delivers_to(&self, destination: IpAddr, source_routed: bool) -> bool {
        self.own.as_ref().is_none_or(|own| {
            let is_behind = || self.forwarded.iter().any(|own| own.contains(destination));
            !source_routed
                && (own.contains(&destination) || is_behind() || self.is_exit && self.is_outside(destination))
        })
    }

    /// Returns the peer that packets to this address go to.
    pub fn lookup(&self, address: IpAddr) -> Option<PeerId> {
        match (self.find(address), self.exit) {
            (Some((_, peer)), _) => Some(peer),
            (None, ExitRoute::Through(exit)) if self.is_outside(address) => Some(exit),
            (None, _) => None,
        }
    }

    /// Returns true if the peer may send from this address. An address in a prefix of the table belongs to the peers of the longest such prefix: its owner and further routers.
    /// A public address in no prefix of the table may be the source of packets from the exit node that the user chose, and from no other peer (fault E17).
    #[inline]
    pub fn may_send(&self, peer: PeerId, source: IpAddr) -> bool {
        match self.find(source) {
            Some((prefix, owner)) => owner == peer || !self.shared.is_empty() && self.shared.contains(&(prefix, peer)),
            None => self.exit == ExitRoute::Through(peer) && self.is_outside(source),
        }
    }

    /// Returns the longest prefix that contains this address, and its peer.
    fn find(&self, address: IpAddr) -> Option<(Prefix, PeerId)> {
        self.by_length.iter().find_map(|(length, table)| {
            let prefix = Prefix::new(address, *length).ok().filter(|prefix| prefix.length() == *length)?;
            Some((prefix, *table.get(&prefix.address())?))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn route(text: &str, peer: u32) -> (Prefix, PeerId) {
        (text.parse().unwrap(), PeerId(peer))
    }

    #[test]
    fn fault_g2_the_longest_prefix_wins() {
        let routes = Routes::new([
            route("10.0.0.0/8", 1),
            route("10.1.0.0/16", 2),
            route("10.1.2.3/32", 3),
            route("fd00::/64", 4),
        ]);
        let whose = |text: &str| routes.lookup(text.parse().unwrap()).map(|peer| peer.0);
        assert_eq!(whose("10.9.0.1"), Some(1));
        assert_eq!(whose("10.1.9.1"), Some(2));
        assert_eq!(whose("10.1.2.3"), Some(3));
        assert_eq!(whose("11.0.0.1"), None);
        assert_eq!(whose("fd00::9"), Some(4));
        assert_eq!(whose("fd00:0:0:1::9"), None);
    }

    #[test]
    fn fault_g15_a_table_with_own_addresses_delivers_to_these_alone() {
        let [ours, lan]: [IpAddr; 2] = ["100.64.0.1", "192.168.1.7"].map(|text| text.parse().unwrap());
        let any = Routes::new([route("100.64.0.2/32", 1)]);
        let peer = "100.64.0.2".parse().unwrap();
        for destination in [ours, lan, peer] {
            assert!(any.delivers_to(destination, false) && any.delivers_to(destination, true));
        }
        let own = any.only_to(&[ours]);
        assert!(own.delivers_to(ours, false) && !own.delivers_to(ours, true));
        assert!(!own.delivers_to(lan, false) && !own.delivers_to(peer, false));
        assert!(own.lookup(peer).is_some(), "the senders that are allowed stay as they were");
    }

    #[test]
    fn fault_g10_a_router_delivers_to_its_routes_alone() {
        let [ours, lan, other]: [IpAddr; 3] =
            ["100.64.0.1", "192.168.10.7", "192.168.11.7"].map(|text| text.parse().unwrap());
        let router = Routes::default().only_to(&[ours]).forwarding(&["192.168.10.0/24".parse().unwrap()]);
        assert!(router.delivers_to(ours, false) && router.delivers_to(lan, false));
        assert!(!router.delivers_to(lan, true), "a source route may name another destination");
        assert!(!router.delivers_to(other, false));
    }

    #[test]
    fn fault_g2_all_routers_of_a_prefix_may_send_from_it_and_from_nothing_longer() {
        let routes = Routes::new([route("10.0.0.0/8", 1), route("10.1.0.0/16", 2), route("100.64.0.3/32", 3)])
            .shared_by([("10.0.0.0/8".parse().unwrap(), PeerId(3))]);
        let may = |peer: u32, source: &str| routes.may_send(PeerId(peer), source.parse().unwrap());
        assert!(may(1, "10.9.0.1") && may(3, "10.9.0.1") && may(3, "100.64.0.3"));
        assert!(!may(2, "10.9.0.1") && !may(1, "10.1.0.1") && !may(3, "10.1.0.1") && may(2, "10.1.0.1"));
        assert!(!may(3, "11.0.0.1"));
        assert_eq!(routes.lookup("10.9.0.1".parse().unwrap()), Some(PeerId(1)), "one of them carries");
    }

    #[test]
    fn fault_e17_only_the_chosen_exit_node_carries_the_internet() {
        let overlay: Arc<[Prefix]> = ["100.64.0.0/10", "203.0.113.0/24"].map(|text| text.parse().unwrap()).into();
        let table = || Routes::new([route("100.64.0.2/32", 1), route("100.64.0.3/32", 2), route("198.51.100.0/24", 2)]);
        let [public, six, shared, private, inside, taken] =
            ["1.1.1.1", "2606:4700::1", "100.64.9.9", "10.9.9.9", "203.0.113.9", "198.51.100.7"]
                .map(|text| text.parse().unwrap());
        let off = table();
        assert!(off.lookup(public).is_none() && !off.may_send(PeerId(1), public) && !off.lacks_exit(public));
        let closed = table().with_exit(ExitRoute::Closed, false, Arc::clone(&overlay));
        assert!(closed.lookup(public).is_none() && !closed.may_send(PeerId(1), public));
        assert!(
            closed.lacks_exit(public)
                && closed.lacks_exit(six)
                && !closed.lacks_exit(private)
                && !closed.lacks_exit(inside)
        );
        let open = table().with_exit(ExitRoute::Through(PeerId(1)), false, Arc::clone(&overlay));
        for address in [public, six] {
            assert_eq!(open.lookup(address), Some(PeerId(1)));
            assert!(open.may_send(PeerId(1), address) && !open.may_send(PeerId(2), address));
        }
        for address in [shared, private, inside] {
            assert!(open.lookup(address).is_none() && !open.may_send(PeerId(1), address), "{address}");
        }
        assert_eq!(open.lookup(taken), Some(PeerId(2)), "what is more specific wins");
        assert!(open.may_send(PeerId(2), taken) && !open.may_send(PeerId(1), taken));
    }

    #[test]
    fn fault_g10_an_exit_node_delivers_to_the_internet_and_to_no_other_network() {
        let overlay: Arc<[Prefix]> = ["100.64.0.0/10"].map(|text| text.parse().unwrap()).into();
        let own = ["100.64.0.1".parse().unwrap()];
        let node = Routes::default().only_to(&own);
        let exit = Routes::default().only_to(&own).with_exit(ExitRoute::Off, true, overlay);
        let public = "1.1.1.1".parse().unwrap();
        assert!(!node.delivers_to(public, false) && exit.delivers_to(public, false) && !exit.delivers_to(public, true));
        for other in ["10.0.0.1", "192.168.1.1", "127.0.0.1", "100.64.0.2", "169.254.169.254", "fd00::1", "fe80::1"] {
            assert!(!exit.delivers_to(other.parse().unwrap(), false), "{other}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_plain_search(
            entries in proptest::collection::vec((any::<u32>(), 0..=32_u8), 0..20),
            wanted in any::<u32>(),
            near in any::<prop::sample::Index>(),
        ) {
            let entries: Vec<_> = entries
                .into_iter()
                .zip(0..)
                .map(|((bits, length), peer)| (Prefix::new(IpAddr::V4(bits.into()), length).unwrap(), PeerId(peer)))
                .collect();
            let addresses = [Some(IpAddr::V4(wanted.into())), (!entries.is_empty()).then(|| near.get(&entries).0.address())];
            let routes = Routes::new(entries.clone());
            for address in addresses.into_iter().flatten() {
                let best = entries.iter().filter(|(prefix, _)| prefix.contains(address)).max_by_key(|(prefix, peer)| (prefix.length(), peer.0));
                prop_assert_eq!(routes.lookup(address), best.map(|(_, peer)| *peer));
            }
        }
    }
}

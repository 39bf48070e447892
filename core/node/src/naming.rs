//! The names of the node's map, as the lanes' stubs answer for them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use taut_dns::{Names, Network};
use taut_netmap::{NetworkMap, UsableNames};

/// Domains whose names an exit node is not asked for: they mean something else on each host or in each network (RFC 6761, RFC 6762, RFC 7686, RFC 8375). Names of public addresses (`in-addr.arpa`) are the
/// internet's.
const NOT_OF_THE_INTERNET: [&str; 8] =
    ["alt", "home.arpa", "internal", "invalid", "local", "localhost", "onion", "taut.internal"];

/// Makes the snapshot for the lanes, and keeps it while a new map has the same names: most changes of a map are changes of endpoints.
#[derive(Default)]
pub(crate) struct Naming {
    /// Hash of what the snapshot was made from.
    known: Option<u64>,
    accepted: Vec<String>,
    /// True if an exit node is asked for names of the internet.
    asks_exit: bool,
    names: Option<Arc<Names>>,
}

impl Naming {
    /// Takes the names of a new map.
    pub(crate) fn set(&mut self, map: &NetworkMap) {
        let (usable, _) = map.network.naming.usable(&map.network.name, &self.accepted);
        let hash = hash(map, &usable, self.asks_exit);
        if self.known != Some(hash) {
            (self.known, self.names) = (Some(hash), names(map, &usable, self.asks_exit).map(Arc::new));
        }
    }

    /// Sets the domains that the user accepts although they need consent (fault E17). They count from the next map on.
    pub(crate) fn set_accepted(&mut self, accepted: &[String]) {
        self.accepted = accepted.to_vec();
    }

    /// Sets whether an exit node is asked for names of the internet, from the next map on.
    pub(crate) fn set_asks_exit(&mut self, asks_exit: bool) {
        self.asks_exit = asks_exit;
    }

    /// Returns the snapshot; `None` without a map.
    pub(crate) fn names(&self) -> Option<&Arc<Names>> {
        self.names.as_ref()
    }
}

/// Returns the names of a map: the node's own, and those of the peers that it may see. The node's own name comes first, so a peer with the same name does not take it.
fn names(map: &NetworkMap, usable: &UsableNames, asks_exit: bool) -> Option<Names> {
    let network = Network {
        zone: &usable.zone,
        // A serial number of a zone may wrap around (RFC 1982).
        serial: map.version as u32,
        prefixes: [map.network.ipv4, map.network.ipv6],
        own: &map.me.addresses,
    };
    let me = (map.me.name.as_str(), map.me.addresses.as_slice());
    let peers = map.peers.values().map(|peer| (peer.name.as_str(), peer.addresses.as_slice()));
    let names = Names::new(network, std::iter::once(me).chain(peers))?;
    let records = usable.records.iter().map(|record| (record.name.as_str(), record.addresses.as_slice()));
    let domains = usable.domains.iter().map(|split| (split.domain.as_str(), split.servers.as_slice()));
    let names = names.with_records(records).with_domains(domains);
    Some(if asks_exit { names.with_all_others(NOT_OF_THE_INTERNET) } else { names })
}

/// Returns a hash of everything in a map that [`names`] uses, except for its version.
fn hash(map: &NetworkMap, usable: &UsableNames, asks_exit: bool) -> u64 {
    let mut hasher = DefaultHasher::new();
    (asks_exit, usable, map.network.ipv4, map.network.ipv6, &map.me.name, &map.me.addresses).hash(&mut hasher);
    for peer in map.peers.values() {
        (&peer.name, &peer.addresses).hash(&mut hasher);
    }
    hasher.finish()
}

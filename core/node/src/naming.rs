//! The names of the node's map, as the lanes' stubs answer for them.

use std::sync::Arc;

use taut_dns::{Names, Network};
use taut_netmap::NetworkMap;

/// Returns the snapshot of a map: the node itself and the peers that it may see. The node's own name comes first, so a peer with the same name does not take it.
pub(crate) fn names(map: &NetworkMap) -> Option<Arc<Names>> {
    let zone = map.network.zone();
    let network = Network {
        zone: &zone,
        // A serial number of a zone may wrap around (RFC 1982).
        serial: map.version as u32,
        prefixes: [map.network.ipv4, map.network.ipv6],
        own: &map.me.addresses,
    };
    let me = (map.me.name.as_str(), map.me.addresses.as_slice());
    let peers = map.peers.values().map(|peer| (peer.name.as_str(), peer.addresses.as_slice()));
    Names::new(network, std::iter::once(me).chain(peers)).map(Arc::new)
}

//! Datagrams of the tunnel itself that a route leads back into it (fault I8): sealed again and again they would keep a core busy.

use std::net::SocketAddr;

use taut_path::Way;
use taut_wire::ip;

use crate::relays::RelayLinks;

/// Protocol number of UDP.
const UDP: u8 = 17;

/// Returns true if this packet for a peer is a UDP datagram to an endpoint that only the tunnel's socket sends to: the peer's own, or, while the peer is reached through a
/// relay, that of any relay. Datagrams to the endpoint of one peer may go through the tunnel to another one, and so may those to a relay while that one is reached
/// directly. Only peers that roam have endpoints that may be in a prefix of the tunnel. A later fragment has no port; sealed, it is a datagram of its own, and the loop ends
/// with that one.
pub(super) fn leads_back(inner: &ip::Packet<'_>, way: Way, roams: bool, relays: &RelayLinks) -> bool {
    if inner.protocol() != UDP {
        return false;
    }
    let Some(&[high, low]) = inner.payload().get(2..4).and_then(|port| port.first_chunk()) else { return false };
    let to = SocketAddr::new(inner.destination(), u16::from_be_bytes([high, low]));
    let is_hop = (to.ip(), to.port()) == (way.first_hop().ip().to_canonical(), way.first_hop().port());
    match way {
        Way::Direct(_) => roams && is_hop,
        Way::Relayed { .. } => is_hop || relays.has(to),
    }
}

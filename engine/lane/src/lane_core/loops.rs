//! Datagrams of the tunnel itself that a route leads back into it (fault I8): sealed again and again they would keep a core busy.

use std::net::SocketAddr;

use taut_wire::ip;

/// Protocol number of UDP.
const UDP: u8 = 17;

/// Returns true if this packet for a peer is a UDP datagram to the peer's own endpoint: only the tunnel's socket sends there. Datagrams to the endpoint of one peer may go through the
/// tunnel to another one. A later fragment has no port; sealed, it is a datagram of its own, and the loop ends with that one.
pub(super) fn leads_back(inner: &ip::Packet<'_>, endpoint: SocketAddr) -> bool {
    let to_port = || inner.payload().get(2..4) == Some(&endpoint.port().to_be_bytes()[..]);
    inner.destination() == endpoint.ip().to_canonical() && inner.protocol() == UDP && to_port()
}

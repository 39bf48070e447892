//! Checks of outer endpoints.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

use taut_base::Prefix;

/// Returns the endpoint if packets may be sent there at all (fault D15).
pub(crate) fn usable(outside: SocketAddr, overlay: &[Prefix]) -> Option<SocketAddrV4> {
    match outside {
        SocketAddr::V4(v4) if taut_path::acceptable(outside, overlay) => Some(v4),
        _ => None,
    }
}

/// Returns true if the Internet does not route an outer address (RFC 1918, RFC 6598): another NAT is in front of the gateway.
pub(crate) fn is_nested(outside: SocketAddr) -> bool {
    let shared = |v4: Ipv4Addr| v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64;
    matches!(outside.ip(), IpAddr::V4(v4) if v4.is_private() || shared(v4))
}

//! The candidate endpoints of one native peer.

use std::net::{IpAddr, SocketAddr, SocketAddrV4};

use taut_base::{MAX_CANDIDATES, Prefix};

/// Returns true if packets may be sent to `endpoint` at all, whichever source lists it (protocol.md 5.6, fault D11): never to loopback, multicast,
/// broadcast, link-local (cloud metadata services), unspecified or overlay addresses, nor to port 0.
pub fn acceptable(endpoint: SocketAddr, overlay: &[Prefix]) -> bool {
    let address = endpoint.ip().to_canonical();
    let special = match address {
        IpAddr::V4(v4) => {
            v4.is_loopback()
                || v4.is_multicast()
                || v4.is_broadcast()
                || v4.is_link_local()
                || v4.octets()[0] == 0
                || v4.octets()[0] >= 240
        }
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_multicast()
                || v6.is_unspecified()
                || v6.is_unicast_link_local()
                || embeds_v4(v6.segments())
        }
    };
    !special && endpoint.port() != 0 && !overlay.iter().any(|prefix| prefix.contains(address))
}

/// IPv4-compatible, NAT64 and 6to4 addresses contain an IPv4 address that the checks above do not see.
fn embeds_v4(segments: [u16; 8]) -> bool {
    matches!(segments, [0, 0, 0, 0, 0, 0, _, _] | [0x64, 0xff9b, ..] | [0x2002, ..])
}

/// Endpoints of one peer, best first. At most [`MAX_CANDIDATES`] and the proven one.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// The endpoint that was last proven.
    proven: Option<SocketAddr>,
    /// The endpoints that the network map lists, in its order.
    listed: Vec<SocketAddr>,
}

impl Candidates {
    /// Replaces the listed endpoints, without those that are not acceptable. Returns true if anything changed.
    pub fn set_listed(&mut self, endpoints: &[SocketAddr], overlay: &[Prefix]) -> bool {
        let mut listed: Vec<SocketAddr> = Vec::with_capacity(endpoints.len().min(MAX_CANDIDATES));
        for endpoint in endpoints.iter().map(|endpoint| canonical(*endpoint)) {
            if listed.len() < MAX_CANDIDATES && acceptable(endpoint, overlay) && !listed.contains(&endpoint) {
                listed.push(endpoint);
            }
        }
        let changed = listed != self.listed;
        self.listed = listed;
        changed
    }

    /// An authenticated packet of the peer came from `endpoint`.
    pub fn set_proven(&mut self, endpoint: SocketAddr) {
        self.proven = Some(canonical(endpoint));
    }

    /// Returns the endpoint that was last proven.
    pub fn proven(&self) -> Option<SocketAddr> {
        self.proven
    }

    /// Returns the endpoints that the map lists.
    pub fn listed(&self) -> &[SocketAddr] {
        &self.listed
    }

    /// Returns the destinations of one handshake message: the proven endpoint first, then the listed ones, [`MAX_CANDIDATES`] at most.
    pub fn for_handshake(&self) -> impl Iterator<Item = SocketAddr> {
        let others = self.listed.iter().copied().filter(|endpoint| Some(*endpoint) != self.proven);
        self.proven.into_iter().chain(others).take(MAX_CANDIDATES)
    }
}

/// Returns the endpoint with an IPv4-mapped address written as IPv4, so that equal endpoints compare equal.
pub(crate) fn canonical(endpoint: SocketAddr) -> SocketAddr {
    match endpoint.ip().to_canonical() {
        IpAddr::V4(v4) => SocketAddr::V4(SocketAddrV4::new(v4, endpoint.port())),
        // The scope is kept: a link-local address is ambiguous without it.
        IpAddr::V6(_) => endpoint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn fault_d11_some_addresses_are_never_sent_to() {
        let overlay = ["100.64.0.0/10".parse().unwrap(), "fd00:1::/64".parse().unwrap()];
        for text in [
            "127.0.0.1:1",
            "0.0.0.0:1",
            "0.1.2.3:1",
            "224.0.0.1:1",
            "255.255.255.255:1",
            "240.0.0.1:1",
            "169.254.169.254:80",
            "100.64.0.7:1",
            "10.0.0.1:0",
            "[::1]:1",
            "[::]:1",
            "[ff02::1]:1",
            "[fe80::1]:1",
            "[fd00:1::5]:1",
            "[::ffff:127.0.0.1]:1",
            "[64:ff9b::7f00:1]:1",
            "[2002:7f00:1::]:1",
            "[::7f00:1]:1",
        ] {
            assert!(!acceptable(endpoint(text), &overlay), "{text}");
        }
        for text in ["10.0.0.1:8288", "192.0.2.1:1", "[2001:db8::1]:1", "[fd00:2::1]:1", "[::ffff:10.0.0.1]:1"] {
            assert!(acceptable(endpoint(text), &overlay), "{text}");
        }
    }

    #[test]
    fn the_proven_endpoint_comes_first_and_once() {
        let mut candidates = Candidates::default();
        assert!(candidates.set_listed(&[endpoint("10.0.0.1:1"), endpoint("10.0.0.2:1"), endpoint("10.0.0.1:1")], &[]));
        assert!(!candidates.set_listed(&[endpoint("10.0.0.1:1"), endpoint("[::ffff:10.0.0.2]:1")], &[]));
        candidates.set_proven(endpoint("10.0.0.2:1"));
        let tried: Vec<_> = candidates.for_handshake().collect();
        assert_eq!(tried, [endpoint("10.0.0.2:1"), endpoint("10.0.0.1:1")]);
    }

    #[test]
    fn fault_d10_never_more_than_the_limit() {
        let many: Vec<_> = (1..=200).map(|number| SocketAddr::from(([10, 0, 0, number], 1))).collect();
        let mut candidates = Candidates::default();
        candidates.set_listed(&many, &[]);
        candidates.set_proven(endpoint("10.1.0.1:1"));
        assert_eq!(candidates.for_handshake().count(), MAX_CANDIDATES);
    }
}

//! Selection of the endpoints that a node reports, for its peers. Pure.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::store::NetworkRow;

/// Endpoints stored per node, 16. A peer tries at most 8 of them for one handshake, and accepts a map with at most 32.
pub(crate) const MAX_ENDPOINTS: usize = 16;

/// Limit on endpoints with the address that the coordinator sees, 8, so that many ports leave room for other addresses.
const MAX_SEEN: usize = 8;

/// Limit on endpoints that relays and gateways observed, 6: two address families, a port mapping each, and the changing port of a NAT.
const MAX_OBSERVED: usize = 6;

/// The endpoints that a node reports of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportedEndpoints {
    /// Addresses and ports of its interfaces, best first.
    pub(crate) listed: Vec<SocketAddr>,
    /// UDP ports of the node, for the address that the coordinator sees.
    pub(crate) ports: Vec<u16>,
    /// Endpoints that were observed from outside: mapped ports of gateways, then what relays observed.
    pub(crate) observed: Vec<SocketAddr>,
}

/// Returns the usable endpoints, each once: those of the node's interfaces, then the observed ones, then the address that the coordinator sees with each port
/// of the node. Places are reserved for the latter two, so that a host with many interfaces is still found from outside.
pub(super) fn select(network: &NetworkRow, reported: &ReportedEndpoints, seen: IpAddr) -> Vec<SocketAddr> {
    let good = |places: &[SocketAddr], most: usize| -> Vec<SocketAddr> {
        let canonical = places.iter().map(|place| SocketAddr::new(place.ip().to_canonical(), place.port()));
        let mut good: Vec<SocketAddr> = Vec::with_capacity(most);
        for place in canonical.filter(|place| may_be_tried(network, *place)) {
            if good.len() < most && !good.contains(&place) {
                good.push(place);
            }
        }
        good
    };
    let seen: Vec<SocketAddr> = reported.ports.iter().map(|port| SocketAddr::new(seen, *port)).collect();
    let seen = good(&seen, MAX_SEEN);
    let observed = good(&reported.observed, MAX_OBSERVED.min(MAX_ENDPOINTS - seen.len()));
    let listed = good(&reported.listed, MAX_ENDPOINTS - seen.len() - observed.len());
    good(&[listed, observed, seen].concat(), MAX_ENDPOINTS)
}

/// Returns true if peers may send to this endpoint. Excluded are loopback, broadcast and multicast addresses, those of cloud metadata services, and those of
/// the overlay itself (protocol.md 5.6, fault D10). A link-local address is another host on every link.
fn may_be_tried(network: &NetworkRow, endpoint: SocketAddr) -> bool {
    let ip = endpoint.ip();
    let is_foreign = !network.ipv4.contains(ip) && !network.ipv6.contains(ip);
    let is_one_host = !ip.is_loopback() && !ip.is_multicast() && !ip.is_unspecified();
    let is_routed = match ip {
        IpAddr::V4(v4) => !v4.is_link_local() && v4 != Ipv4Addr::BROADCAST && v4.octets()[0] != 0,
        IpAddr::V6(v6) => !v6.is_unicast_link_local(),
    };
    endpoint.port() != 0 && is_foreign && is_one_host && is_routed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::NetworkId;

    fn network() -> NetworkRow {
        let (ipv4, ipv6) = ("100.64.0.0/10".parse().unwrap(), "fd01::/64".parse().unwrap());
        NetworkRow {
            id: NetworkId([0; 16]),
            name: String::from("n"),
            ipv4,
            ipv6,
            version: 1,
            cursor: 0,
            created_at: 0,
            relays_version: 0,
            groups_version: 0,
            approval: false,
            key_life: None,
            naming: taut_netmap::Naming::default(),
            names_version: 0,
        }
    }

    fn all(listed: &[&str], observed: &[&str], ports: &[u16], seen: &str) -> Vec<String> {
        let read = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let reported = ReportedEndpoints { listed: read(listed), ports: ports.to_vec(), observed: read(observed) };
        select(&network(), &reported, seen.parse().unwrap()).iter().map(ToString::to_string).collect()
    }

    fn texts(listed: &[&str], ports: &[u16], seen: &str) -> Vec<String> {
        all(listed, &[], ports, seen)
    }

    #[test]
    fn the_seen_address_comes_last_and_once() {
        assert_eq!(texts(&["10.0.0.2:1"], &[1, 2], "::ffff:10.0.0.2"), ["10.0.0.2:1", "10.0.0.2:2"]);
        assert_eq!(texts(&["[::ffff:10.0.0.2]:1", "10.0.0.2:1"], &[], "1.2.3.4"), ["10.0.0.2:1"]);
    }

    #[test]
    fn observed_endpoints_have_reserved_places() {
        let many: Vec<String> = (1..40).map(|port| format!("10.0.0.1:{port}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let outside: Vec<String> = (1..20).map(|port| format!("203.0.113.7:{port}")).collect();
        let outside: Vec<&str> = outside.iter().map(String::as_str).collect();
        let fit = all(&many, &outside, &[7], "1.2.3.4");
        assert_eq!(fit.len(), MAX_ENDPOINTS);
        assert_eq!([fit[8].as_str(), &fit[9], &fit[15]], ["10.0.0.1:9", "203.0.113.7:1", "1.2.3.4:7"]);
        assert_eq!(all(&["10.0.0.2:1"], &["1.2.3.4:1", "127.0.0.1:1"], &[1], "1.2.3.4"), ["10.0.0.2:1", "1.2.3.4:1"]);
    }

    #[test]
    fn fault_d10_no_peer_is_sent_to_a_wrong_place() {
        let wrong = [
            "127.0.0.1:1",
            "[::1]:1",
            "0.0.0.0:1",
            "[::]:1",
            "224.0.0.1:1",
            "[ff02::1]:1",
            "[fe80::1]:1",
            "255.255.255.255:1",
            "169.254.169.254:80",
            "10.0.0.1:0",
            "100.64.0.9:1",
            "[fd01::9]:1",
            "[::ffff:127.0.0.1]:1",
            "0.1.2.3:1",
        ];
        assert_eq!(texts(&wrong, &[1], "127.0.0.1"), [""; 0]);
        assert_eq!(texts(&["[2001:db8::1]:1"], &[0], "10.0.0.1"), ["[2001:db8::1]:1"]);
    }

    #[test]
    fn many_are_cut_without_losing_the_seen_address() {
        let many: Vec<String> = (1..100).map(|port| format!("10.0.0.1:{port}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let fit = texts(&many, &[7, 8], "1.2.3.4");
        assert_eq!(fit.len(), MAX_ENDPOINTS);
        assert_eq!(fit[14..], ["1.2.3.4:7", "1.2.3.4:8"]);
    }
}

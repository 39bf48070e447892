//! Addresses of a network, and the order in which they are assigned. Pure.
//!
//! A node's two addresses have the same host number (`100.64.0.7` and `fd…::7`), so one check of uniqueness covers both.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use taut_base::{NodeId, Prefix, PublicKey, SortedMap};
use taut_netmap::{LocalMember, NetworkInfo, NetworkMap};

/// Longest IPv4 prefix of a network, /30: it has two addresses for nodes.
const LONGEST: u8 = 30;

/// Returns the last host number of an IPv4 prefix. The first address is the network's own, and the last one is its broadcast address.
pub(super) fn last_host(prefix: Prefix) -> u32 {
    let size = 1_u64 << (32 - u32::from(prefix.length().min(LONGEST)));
    u32::try_from(size - 2).unwrap_or(u32::MAX - 1)
}

/// Returns the host number after `host`, and 1 after the last one.
pub(super) fn next_host(prefix: Prefix, host: u32) -> u32 {
    if host >= last_host(prefix) { 1 } else { host + 1 }
}

/// Returns the host number `count` places after `host`, starting at 1 again after the last one.
pub(super) fn host_after(prefix: Prefix, host: u32, count: u32) -> u32 {
    let after = u64::from(host) + u64::from(count);
    let last = u64::from(last_host(prefix));
    u32::try_from(if after > last { after - last } else { after }).unwrap_or(1)
}

/// Returns the host number of an IPv4 address; `None` for an address that no node of the prefix may have.
pub(super) fn host_number(prefix: Prefix, address: Ipv4Addr) -> Option<u32> {
    let IpAddr::V4(first) = prefix.address() else { return None };
    let host = address.to_bits().checked_sub(first.to_bits())?;
    (1..=last_host(prefix)).contains(&host).then_some(host)
}

/// Returns the IPv4 address of a host number.
pub(super) fn ipv4(prefix: Prefix, host: u32) -> Ipv4Addr {
    match prefix.address() {
        IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits().saturating_add(host)),
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    }
}

/// Returns the IPv6 address of a host number.
pub(super) fn ipv6(prefix: Prefix, host: u32) -> Ipv6Addr {
    match prefix.address() {
        IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() | u128::from(host)),
        IpAddr::V4(_) => Ipv6Addr::UNSPECIFIED,
    }
}

/// Returns the first /64 of a unique local /48 with 40 random bits (RFC 4193 section 3.1), so that the prefixes of two overlays differ.
pub(super) fn random_ula(random: [u8; 5]) -> Prefix {
    let mut octets = [0; 16];
    octets[0] = 0xfd;
    octets[1..6].copy_from_slice(&random);
    Prefix::new(IpAddr::V6(Ipv6Addr::from(octets)), 64).unwrap_or(Prefix::host(IpAddr::V6(Ipv6Addr::from(octets))))
}

/// Returns true if an operator may choose this prefix: nodes accept it in a map, and it has room for two nodes.
pub(super) fn is_usable(prefix: Prefix) -> bool {
    if prefix.address().is_ipv6() || prefix.length() > LONGEST {
        return false;
    }
    // This is the check that nodes make, so that both sides agree.
    let info = NetworkInfo {
        name: String::from("x"),
        ipv4: prefix,
        ipv6: random_ula([0; 5]),
        naming: taut_netmap::Naming::default(),
    };
    let addresses = vec![IpAddr::V4(ipv4(prefix, 1)), IpAddr::V6(ipv6(info.ipv6, 1))];
    let me =
        LocalMember { id: NodeId(1), name: String::from("x"), key: PublicKey([1; 32]), addresses, routes: Vec::new() };
    NetworkMap { version: 1, network: info, me, peers: SortedMap::new(), relays: Vec::new(), filter: None }
        .check()
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn hosts_leave_out_the_first_and_the_last_address() {
        let small = prefix("10.0.0.0/30");
        assert_eq!([next_host(small, 0), next_host(small, 1), next_host(small, 2)], [1, 2, 1]);
        assert_eq!(ipv4(small, 2).to_string(), "10.0.0.2");
        let large = prefix("10.0.0.0/8");
        assert_eq!(ipv4(large, last_host(large)).to_string(), "10.255.255.254");
    }

    #[test]
    fn hosts_are_left_out_and_wrap_around() {
        let small = prefix("10.0.0.0/29");
        assert_eq!([host_after(small, 0, 1), host_after(small, 5, 1), host_after(small, 6, 2)], [1, 6, 2]);
    }

    #[test]
    fn both_addresses_have_one_host_number() {
        assert_eq!(ipv4(prefix("100.64.0.0/10"), 258).to_string(), "100.64.1.2");
        assert_eq!(ipv6(random_ula([1, 2, 3, 4, 5]), 258).to_string(), "fd01:203:405::102");
    }

    #[test]
    fn prefixes_of_others_are_refused() {
        for text in ["100.64.0.0/10", "10.0.0.0/8", "192.168.7.0/30", "172.16.0.0/12"] {
            assert!(is_usable(prefix(text)), "{text}");
        }
        for text in ["0.0.0.0/0", "10.0.0.0/7", "8.8.8.0/24", "192.168.0.0/31", "127.0.0.0/8", "fd00::/64"] {
            assert!(!is_usable(prefix(text)), "{text}");
        }
    }
}

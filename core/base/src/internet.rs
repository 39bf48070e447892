//! The addresses of the public internet, which are what an exit node is the way to.

use std::net::IpAddr;

/// Returns true for an address of the public internet: a destination that packets may have on the way through an exit node, and a source that answers may have.
///
/// - Public addresses of IPv6 are those in 2000::/3: all others have another use, or none yet (RFC 4291, 2.4).
/// - Addresses of IPv4 are public except "this network" (0.0.0.0/8), private (RFC 1918), loopback, link-local (RFC 3927), shared (RFC 6598), multicast and reserved ones.
/// - Prefixes for documentation count as public: hosts filter them no more than others.
///
/// The policy's `autogroup:internet` contains all public addresses, and beyond them a few special prefixes of IPv4 that no node forwards (docs/policy.md, 5).
#[inline]
pub fn is_internet(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            match first {
                0 | 10 | 127 | 224..=255 => false,
                100 => second & 0xc0 != 64,
                169 => second != 254,
                172 => second & 0xf0 != 16,
                192 => second != 168,
                _ => true,
            }
        }
        IpAddr::V6(v6) => v6.segments()[0] & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_and_special_addresses_are_not_the_internet() {
        let is_public = |text: &str| is_internet(text.parse().unwrap());
        for public in [
            "1.1.1.1",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.0",
            "192.167.1.1",
            "223.255.255.255",
            "2606:4700::1",
            "3fff::1",
        ] {
            assert!(is_public(public), "{public}");
        }
        for other in [
            "0.0.0.1",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "169.254.1.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "fd00::1",
            "fe80::1",
            "ff02::1",
            "4000::",
        ] {
            assert!(!is_public(other), "{other}");
        }
    }
}

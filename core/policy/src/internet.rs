//! The public internet, as `autogroup:internet` and default routes mean it.

use taut_base::Prefix;

use crate::addresses::AddressSet;

/// The prefixes that contain public addresses: all of IPv4, and the part of IPv6 from which addresses are assigned (RFC 4291, 2.4).
const PUBLIC: [&str; 2] = ["0.0.0.0/0", "2000::/3"];

/// Prefixes inside of them that are not the internet: private (RFC 1918), link-local (RFC 3927), shared (RFC 6598), which overlays use, and multicast (RFC 5771),
/// which an exit node would send into its own network.
const NOT_PUBLIC: [&str; 6] =
    ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10", "224.0.0.0/4"];

/// Returns the public addresses of both families.
pub(crate) fn internet() -> AddressSet {
    set(&PUBLIC).difference(&set(&NOT_PUBLIC))
}

fn set(prefixes: &[&str]) -> AddressSet {
    AddressSet::of_prefixes(prefixes.iter().filter_map(|prefix| prefix.parse::<Prefix>().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_shared_and_multicast_addresses_are_not_the_internet() {
        let internet = internet();
        for address in [
            "8.8.8.8",
            "0.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "172.32.0.0",
            "255.255.255.255",
            "223.255.255.255",
            "2606:4700::1",
        ] {
            assert!(internet.contains(address.parse().unwrap()), "{address}");
        }
        for address in [
            "10.0.0.1",
            "172.31.0.1",
            "192.168.9.9",
            "169.254.0.1",
            "100.64.0.1",
            "224.0.0.9",
            "239.255.255.255",
            "fd00::1",
            "fe80::1",
            "::1",
            "4000::",
        ] {
            assert!(!internet.contains(address.parse().unwrap()), "{address}");
        }
    }
}

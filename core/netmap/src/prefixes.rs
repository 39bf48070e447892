//! The prefixes of an overlay, and the check whether a later map changes them.

use std::fmt;

use serde::Serialize;
use taut_base::Prefix;

use crate::map::NetworkInfo;

/// The prefixes of an overlay. A node pins the first ones that were applied on its host (fault E24). A map with others would route addresses into the overlay
/// without the user's consent, such as those of the local network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct Prefixes {
    /// Its IPv4 prefix.
    pub ipv4: Prefix,
    /// Its IPv6 prefix.
    pub ipv6: Prefix,
}

impl Prefixes {
    /// Returns the prefixes of `wanted` that differ from these, IPv4 first.
    pub fn changed(&self, wanted: &Self) -> Vec<Prefix> {
        let pairs = [(self.ipv4, wanted.ipv4), (self.ipv6, wanted.ipv6)];
        pairs.into_iter().filter(|(here, there)| here != there).map(|(_, there)| there).collect()
    }
}

impl From<&NetworkInfo> for Prefixes {
    fn from(network: &NetworkInfo) -> Self {
        Self { ipv4: network.ipv4, ipv6: network.ipv6 }
    }
}

impl fmt::Display for Prefixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {}", self.ipv4, self.ipv6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_e24_the_prefixes_that_changed_are_named() {
        let prefixes = |ipv4: &str, ipv6: &str| Prefixes { ipv4: ipv4.parse().unwrap(), ipv6: ipv6.parse().unwrap() };
        let pinned = prefixes("100.64.0.0/10", "fd00::/48");
        assert_eq!(pinned.changed(&pinned), []);
        let [lan, other] = ["192.168.0.0/16", "fd01::/48"].map(|text| text.parse::<Prefix>().unwrap());
        assert_eq!(pinned.changed(&prefixes("192.168.0.0/16", "fd00::/48")), [lan]);
        assert_eq!(pinned.changed(&prefixes("192.168.0.0/16", "fd01::/48")), [lan, other]);
        // A part of a prefix counts as a change, because addresses outside of it become unreachable.
        assert_eq!(pinned.changed(&prefixes("100.64.0.0/16", "fd00::/48")).len(), 1);
    }
}

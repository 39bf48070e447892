//! The state of the overlay's device on the host: missing parts of its configuration, and whether it accepts IPv6.

use std::fmt;
use std::net::IpAddr;

use taut_base::Prefix;

/// Number of addresses that a message names; further ones are only counted.
const NAMED: usize = 3;

/// The missing parts of the device's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    /// Whether the device is down.
    pub(super) down: bool,
    /// Missing overlay addresses of this node.
    pub(super) addresses: Vec<IpAddr>,
    /// Addresses of peers, and subnets behind them, without a route.
    pub(super) routes: Vec<Prefix>,
}

impl Missing {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.down {
            parts.push(String::from("it is down"));
        }
        let addresses = self.addresses.iter().map(IpAddr::to_string).collect();
        let routes = self.routes.iter().copied().map(shown).collect();
        for (what, addresses) in [("addresses", addresses), ("routes", routes)] {
            let addresses: Vec<String> = addresses;
            if !addresses.is_empty() {
                parts.push(format!("the {what} {} are removed", some_of(&addresses)));
            }
        }
        f.write_str(&parts.join(", "))
    }
}

/// Returns an address, or a prefix of several addresses, as users write it.
pub(crate) fn shown(prefix: Prefix) -> String {
    let address = prefix.address();
    if prefix == Prefix::host(address) { address.to_string() } else { prefix.to_string() }
}

/// Returns the first few addresses and the number of the others.
pub(super) fn some_of(addresses: &[String]) -> String {
    let named = addresses[..addresses.len().min(NAMED)].join(", ");
    match addresses.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Keeps the kernel from giving the TUN a link-local address and from sending router solicitations to it. A kernel without IPv6 has no such file. If writing fails
/// otherwise, these packets are dropped and counted (`out-no-route`).
pub(super) fn no_link_local(device: &str) {
    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{device}/addr_gen_mode"), "1");
}

/// Whether the device accepts IPv6 addresses (fault J12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ipv6 {
    /// Enabled.
    On,
    /// Disabled by a setting, for this device or the whole host.
    Off,
    /// The kernel has no IPv6, or the device's MTU is below the 1,280 bytes that IPv6 needs (RFC 8200, section 5).
    Absent,
}

impl Ipv6 {
    pub(super) fn of(device: &str) -> Self {
        match std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6")) {
            Ok(setting) if setting.trim() == "0" => Self::On,
            Ok(_) => Self::Off,
            Err(_) => Self::Absent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_parts_are_named() {
        let addresses = |count: u8| (1..=count).map(|number| IpAddr::from([100, 64, 0, number])).collect::<Vec<_>>();
        let mut missing = Missing::default();
        assert!(missing.is_empty());
        missing.routes = addresses(5).into_iter().map(Prefix::host).collect();
        assert_eq!(missing.to_string(), "the routes 100.64.0.1, 100.64.0.2, 100.64.0.3 and 2 more are removed");
        (missing.down, missing.addresses) = (true, addresses(1));
        missing.routes.truncate(1);
        assert_eq!(
            missing.to_string(),
            "it is down, the addresses 100.64.0.1 are removed, the routes 100.64.0.1 are removed"
        );
    }
}

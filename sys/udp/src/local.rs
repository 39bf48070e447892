//! The host's own side of a datagram: the address that it came to, or leaves from.

use crate::control::{Arrival, SendControl};
use std::net::{IpAddr, Ipv6Addr};

/// An address of this host, as a datagram that came in names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Local {
    /// The address; IPv4 is IPv4, also on a dual-stack socket.
    pub address: IpAddr,
    /// The interface that the datagram came in by, as the kernel numbers it.
    pub interface: u32,
}

impl Local {
    pub(crate) fn new(arrival: Arrival) -> Self {
        match arrival {
            Arrival::V4(address, interface) => Self { address: IpAddr::from(address), interface },
            Arrival::V6(address, interface) => Self { address: Ipv6Addr::from(address).to_canonical(), interface },
        }
    }

    /// Has a message leave from here, by whatever interface the routes say for this address, as the kernel's WireGuard
    /// does it. A link-local address means nothing without its interface.
    pub(crate) fn write(&self, control: &mut SendControl) {
        match self.address {
            IpAddr::V4(address) => control.source4(address.octets(), 0),
            IpAddr::V6(address) => {
                let interface = if address.is_unicast_link_local() { self.interface } else { 0 };
                control.source6(address.octets(), interface);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Local;
    use crate::control::Arrival;

    #[test]
    fn mapped_addresses_become_ipv4() {
        let mapped = "::ffff:192.0.2.1".parse::<std::net::Ipv6Addr>().unwrap().octets();
        let local = Local::new(Arrival::V6(mapped, 3));
        assert_eq!((local.address.to_string().as_str(), local.interface), ("192.0.2.1", 3));
        assert_eq!(local, Local::new(Arrival::V4([192, 0, 2, 1], 3)));
    }
}

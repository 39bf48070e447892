//! The local address of a datagram: its destination if received, its source if sent.

use crate::control::{Arrival, SendControl};
use std::net::{IpAddr, Ipv6Addr};

/// A local address, as a received datagram names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Local {
    /// The address; IPv4 is IPv4, also on a dual-stack socket.
    pub address: IpAddr,
    /// The kernel's number of the interface that received the datagram.
    pub interface: u32,
}

impl Local {
    pub(crate) fn new(arrival: Arrival) -> Self {
        match arrival {
            Arrival::V4(address, interface) => Self { address: IpAddr::from(address), interface },
            Arrival::V6(address, interface) => Self { address: Ipv6Addr::from(address).to_canonical(), interface },
        }
    }

    /// Makes a message leave from this address, through the interface that the routes choose, as the kernel's WireGuard does.
    /// A link-local address is valid only with its interface.
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

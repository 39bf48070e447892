//! The address families of this host.

use core::net::SocketAddr;

use crate::way::Way;

/// The address families of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Families {
    /// True if the host has an IPv4 address.
    pub v4: bool,
    /// True if the host has an IPv6 address that is not link-local.
    pub v6: bool,
}

impl Default for Families {
    fn default() -> Self {
        Self { v4: true, v6: true }
    }
}

impl Families {
    /// Returns true if this host can send on a way. A bridge reaches its relay in a family of its own.
    pub(crate) fn has(self, way: Way) -> bool {
        match way.first_hop() {
            _ if way.is_bridged() => true,
            SocketAddr::V4(_) => self.v4,
            SocketAddr::V6(_) => self.v6,
        }
    }
}

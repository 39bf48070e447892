//! The interfaces of link-local endpoints (`fe80::1%eth0`): users write their names, the kernel uses their numbers.

use std::net::SocketAddr;

use taut_netlink::{InterfaceLink, Netlink};
use taut_node::uapi::{Errno, PeerChange};

/// The host's interfaces, read at most once per request.
pub(super) struct InterfaceNames<'a> {
    netlink: &'a mut Netlink,
    /// The interfaces, once they were read.
    all: Option<Vec<InterfaceLink>>,
}

impl<'a> InterfaceNames<'a> {
    pub(super) fn new(netlink: &'a mut Netlink) -> Self {
        Self { netlink, all: None }
    }

    /// Sets the interface's number in an endpoint that names an interface.
    pub(super) fn resolve(&mut self, change: &mut PeerChange) -> Result<(), Errno> {
        let (Some(zone), Some(SocketAddr::V6(endpoint))) = (&change.zone, &mut change.endpoint) else { return Ok(()) };
        let link = self.all().iter().find(|link| link.name == *zone).ok_or(Errno::NoDevice)?;
        endpoint.set_scope_id(link.index);
        Ok(())
    }

    /// Returns the name of a link-local endpoint's interface; `None` for other endpoints and for unknown numbers.
    pub(super) fn zone(&mut self, endpoint: SocketAddr) -> Option<String> {
        let SocketAddr::V6(endpoint) = endpoint else { return None };
        let number = Some(endpoint.scope_id()).filter(|number| *number != 0)?;
        self.all().iter().find(|link| link.index == number).map(|link| link.name.clone())
    }

    fn all(&mut self) -> &[InterfaceLink] {
        // On an error no name is known: an endpoint with a name is refused, and other endpoints are printed with the number.
        self.all.get_or_insert_with(|| self.netlink.links().unwrap_or_default())
    }
}

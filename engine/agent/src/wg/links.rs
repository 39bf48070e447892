//! The interfaces that link-local endpoints are behind (`fe80::1%eth0`): people call them by name, packets by number.

use std::net::SocketAddr;

use taut_netlink::{Link, Netlink};
use taut_node::uapi::{Errno, PeerChange};

/// The host's interfaces, as far as one request asks for them.
pub(super) struct Links<'a> {
    netlink: &'a mut Netlink,
    /// Read when the first name is wanted.
    all: Option<Vec<Link>>,
}

impl<'a> Links<'a> {
    pub(super) fn new(netlink: &'a mut Netlink) -> Self {
        Self { netlink, all: None }
    }

    /// Puts the number of the interface into the endpoint that names one.
    pub(super) fn resolve(&mut self, change: &mut PeerChange) -> Result<(), Errno> {
        let (Some(zone), Some(SocketAddr::V6(endpoint))) = (&change.zone, &mut change.endpoint) else { return Ok(()) };
        let link = self.all().iter().find(|link| link.name == *zone).ok_or(Errno::NoDevice)?;
        endpoint.set_scope_id(link.index);
        Ok(())
    }

    /// The name of the interface that an endpoint is behind; `None` where none has that number, or is in it.
    pub(super) fn zone(&mut self, endpoint: SocketAddr) -> Option<String> {
        let SocketAddr::V6(endpoint) = endpoint else { return None };
        let number = Some(endpoint.scope_id()).filter(|number| *number != 0)?;
        self.all().iter().find(|link| link.index == number).map(|link| link.name.clone())
    }

    fn all(&mut self) -> &[Link] {
        // Without an answer no name is known: an endpoint that has one is refused, and one without is shown by its number.
        self.all.get_or_insert_with(|| self.netlink.links().unwrap_or_default())
    }
}

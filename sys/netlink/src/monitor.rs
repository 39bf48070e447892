//! Notifications of changes.

use crate::abi;
use crate::error::NetlinkError;
use crate::namespace::within;
use crate::parse::{self, Malformed, Message};
use crate::route;
use crate::socket::{BUFFER_LEN, Socket};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use taut_base::Prefix;

/// Most datagrams per [`Monitor::drain`], so that a storm of changes cannot hold its thread; the rest keeps the
/// descriptor readable.
const DRAIN_BUDGET: usize = 256;

/// The kinds of changes since the last call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Interfaces were added, removed or changed.
    pub links: bool,
    /// Addresses were added, removed or changed.
    pub addresses: bool,
    /// Routes were added, removed or changed, including those of this program.
    pub routes: bool,
    /// Rules of policy routing were added or removed, including those of this program.
    pub rules: bool,
    /// A change was about an object that [`Monitor::watch`] names.
    pub watched: bool,
    /// A change was about another interface than that of [`Monitor::watch`], or nothing is watched.
    pub elsewhere: bool,
    /// Notifications were lost, so all other fields are set: read everything again.
    pub overrun: bool,
}

/// The objects whose changes matter, on a host where many other changes may happen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// Of this interface: its link, its addresses, and routes by it.
    pub interface: u32,
    /// Routes to these networks, or to parts of them, by whatever interface.
    pub destinations: Vec<Prefix>,
}

impl Watch {
    /// Whether a message is about what is watched, and whether it is about another interface.
    fn concerns(&self, message: Message<'_>) -> Result<(bool, bool), Malformed> {
        match message.kind {
            abi::RTM_NEWROUTE | abi::RTM_DELROUTE => {
                // Routes of other kinds than unicast, such as those to broadcast addresses, follow from addresses.
                let Some(route) = route::read_any(message.payload)? else { return Ok((false, true)) };
                let ours = route.interface == Some(self.interface);
                let inside = self.destinations.iter().any(|prefix| prefix.contains(route.destination));
                Ok((ours || inside, !ours))
            }
            // `index` of struct ifinfomsg and struct ifaddrmsg.
            _ => {
                let ours = parse::u32_at(message.payload, 4)? == self.interface;
                Ok((ours, !ours))
            }
        }
    }
}

impl Changes {
    /// Returns true if anything changed.
    pub fn any(&self) -> bool {
        self.links || self.addresses || self.routes || self.rules || self.overrun
    }

    const LOST: Self =
        Self { links: true, addresses: true, routes: true, rules: true, watched: true, elsewhere: true, overrun: true };

    /// Adds other changes.
    pub fn join(&mut self, other: Self) {
        self.links |= other.links;
        self.addresses |= other.addresses;
        self.routes |= other.routes;
        self.rules |= other.rules;
        self.watched |= other.watched;
        self.elsewhere |= other.elsewhere;
        self.overrun |= other.overrun;
    }

    fn note(&mut self, message: Message<'_>, watch: Option<&Watch>) {
        match message.kind {
            abi::RTM_NEWLINK | abi::RTM_DELLINK => self.links = true,
            abi::RTM_NEWADDR | abi::RTM_DELADDR => self.addresses = true,
            abi::RTM_NEWROUTE | abi::RTM_DELROUTE => self.routes = true,
            // A rule belongs to no interface.
            abi::RTM_NEWRULE | abi::RTM_DELRULE => return self.rules = true,
            abi::NLMSG_OVERRUN => return *self = Self::LOST,
            _ => return,
        }
        // A message that cannot be parsed may be about anything.
        let (watched, elsewhere) = watch.map_or((false, true), |watch| watch.concerns(message).unwrap_or((true, true)));
        self.watched |= watched;
        self.elsewhere |= elsewhere;
    }
}

/// Receives every change to links, addresses, routes and rules of the network namespace it was opened in. Needs no privileges.
pub struct Monitor {
    socket: Socket,
    buffer: Vec<u8>,
    watch: Option<Watch>,
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Monitor").finish_non_exhaustive()
    }
}

impl Monitor {
    /// Starts to listen. Open it before the first reading of the configuration, so that no change is missed.
    pub fn open() -> Result<Self, NetlinkError> {
        Self::listen(listen)
    }

    /// Starts to listen in another network namespace; needs `CAP_SYS_ADMIN`.
    pub fn open_in(namespace: BorrowedFd<'_>) -> Result<Self, NetlinkError> {
        Self::listen(|| within(namespace, listen))
    }

    fn listen(open: impl FnOnce() -> io::Result<Socket>) -> Result<Self, NetlinkError> {
        let socket =
            open().map_err(|source| NetlinkError::Socket { operation: "watch the network configuration", source })?;
        Ok(Self { socket, buffer: vec![0; BUFFER_LEN], watch: None })
    }

    /// Sets the objects for [`Changes::watched`].
    pub fn watch(&mut self, watch: Option<Watch>) {
        self.watch = watch;
    }

    /// Reads the waiting notifications, and returns the kinds of changes. Never blocks.
    pub fn drain(&mut self) -> Result<Changes, NetlinkError> {
        let mut changes = Changes::default();
        for _ in 0..DRAIN_BUDGET {
            match self.socket.receive(&mut self.buffer) {
                Ok(length) => {
                    note_all(&mut changes, self.buffer.get(..length).unwrap_or_default(), self.watch.as_ref());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The socket's buffer was full, or a message was longer than any valid one: a notification was missed.
                Err(error) if is_loss(&error) => changes = Changes::LOST,
                Err(source) => {
                    return Err(NetlinkError::Socket { operation: "watch the network configuration", source });
                }
            }
        }
        Ok(changes)
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn listen() -> io::Result<Socket> {
    let groups = abi::RTMGRP_LINK
        | abi::RTMGRP_IPV4_IFADDR
        | abi::RTMGRP_IPV6_IFADDR
        | abi::RTMGRP_IPV4_ROUTE
        | abi::RTMGRP_IPV6_ROUTE
        | abi::RTMGRP_IPV4_RULE
        | abi::RTMGRP_IPV6_RULE;
    Socket::open(libc::NETLINK_ROUTE, groups, true)
}

fn is_loss(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS) || error.kind() == io::ErrorKind::InvalidData
}

pub(crate) fn note_all(changes: &mut Changes, datagram: &[u8], watch: Option<&Watch>) {
    for message in parse::messages(datagram) {
        match message {
            Ok(message) => changes.note(message, watch),
            Err(_) => *changes = Changes::LOST,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Changes, Watch, note_all};
    use crate::abi;
    use crate::message::NetlinkRequest;

    #[test]
    fn each_kind_of_news_sets_its_flag() {
        let noted = |kind| {
            let mut changes = Changes::default();
            note_all(&mut changes, &NetlinkRequest::new(kind, 0, &[]).finish(0), None);
            (changes.links, changes.addresses, changes.routes, changes.overrun)
        };
        assert_eq!(noted(abi::RTM_NEWLINK), (true, false, false, false));
        assert_eq!(noted(abi::RTM_DELADDR), (false, true, false, false));
        assert_eq!(noted(abi::RTM_DELROUTE), (false, false, true, false));
        assert_eq!(noted(abi::NLMSG_OVERRUN), (true, true, true, true));
        assert_eq!(noted(abi::RTM_GETLINK), (false, false, false, false));
        let mut rule = Changes::default();
        note_all(&mut rule, &NetlinkRequest::new(abi::RTM_DELRULE, 0, &[]).finish(0), None);
        assert_eq!(rule, Changes { rules: true, ..Changes::default() });
    }

    #[test]
    fn what_cannot_be_understood_may_have_been_anything() {
        let mut changes = Changes::default();
        note_all(&mut changes, &[1, 2, 3], None);
        assert_eq!(changes, Changes::LOST);
        assert!(changes.any() && !Changes::default().any());
        // Cut off behind its header: a change, and perhaps of what is watched.
        let (mut changes, watch) = (Changes::default(), Watch { interface: 7, destinations: Vec::new() });
        note_all(&mut changes, &NetlinkRequest::new(abi::RTM_DELROUTE, 0, &[]).finish(0), Some(&watch));
        assert!(changes.watched && changes.routes && !changes.overrun);
    }

    #[test]
    fn fault_j11_what_is_watched_is_told_apart() {
        let watch = Watch { interface: 7, destinations: vec!["100.64.0.0/10".parse().unwrap()] };
        let noted = |request: NetlinkRequest| {
            let mut changes = Changes::default();
            note_all(&mut changes, &request.finish(0), Some(&watch));
            assert!(changes.any());
            (changes.watched, changes.elsewhere)
        };
        let link = |index: u8| {
            let fixed = [0, 0, 0, 0, index, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            noted(NetlinkRequest::new(abi::RTM_NEWLINK, 0, &fixed))
        };
        let address = |index: u8| noted(NetlinkRequest::new(abi::RTM_DELADDR, 0, &[2, 32, 0, 0, index, 0, 0, 0]));
        let (ours, others) = ((true, false), (false, true));
        assert_eq!([link(7), link(8), address(7), address(8)], [ours, others, ours, others]);
        let route = |destination: [u8; 4], by: u32| {
            let fixed = [abi::AF_INET, 32, 0, 0, 254, 4, 0, abi::RTN_UNICAST, 0, 0, 0, 0];
            let request = NetlinkRequest::new(abi::RTM_DELROUTE, 0, &fixed);
            noted(request.attribute(abi::RTA_DST, &destination).number(abi::RTA_OIF, by))
        };
        assert_eq!([route([192, 0, 2, 1], 7), route([192, 0, 2, 1], 8)], [ours, others]);
        assert_eq!(route([100, 64, 0, 2], 8), (true, true), "in the place of ours");
    }
}

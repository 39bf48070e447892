//! News of changes.

use crate::abi;
use crate::error::NetlinkError;
use crate::namespace::within;
use crate::parse;
use crate::socket::{BUFFER_LEN, Socket};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Most datagrams per [`Monitor::drain`], so that a storm of changes cannot hold its thread; the rest keeps the
/// descriptor readable.
const DRAIN_BUDGET: usize = 256;

/// What has changed since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Interfaces came, went, or changed.
    pub links: bool,
    /// Addresses came, went, or changed.
    pub addresses: bool,
    /// Routes came, went, or changed (our own included).
    pub routes: bool,
    /// News was lost, so the other three are all set: read everything again.
    pub overrun: bool,
}

impl Changes {
    /// Whether anything changed.
    pub fn any(&self) -> bool {
        self.links || self.addresses || self.routes || self.overrun
    }

    const LOST: Self = Self { links: true, addresses: true, routes: true, overrun: true };

    fn note(&mut self, kind: u16) {
        match kind {
            abi::RTM_NEWLINK | abi::RTM_DELLINK => self.links = true,
            abi::RTM_NEWADDR | abi::RTM_DELADDR => self.addresses = true,
            abi::RTM_NEWROUTE | abi::RTM_DELROUTE => self.routes = true,
            abi::NLMSG_OVERRUN => *self = Self::LOST,
            _ => {}
        }
    }
}

/// Hears of every change to links, addresses and routes of the network namespace it was opened in. Needs no rights.
pub struct Monitor {
    socket: Socket,
    buffer: Vec<u8>,
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Monitor").finish_non_exhaustive()
    }
}

impl Monitor {
    /// Starts to listen. To be opened before the first reading of the configuration, so that no change falls in
    /// between.
    pub fn open() -> Result<Self, NetlinkError> {
        Self::listen(listen)
    }

    /// The same in another network namespace; needs `CAP_SYS_ADMIN`.
    pub fn open_in(namespace: BorrowedFd<'_>) -> Result<Self, NetlinkError> {
        Self::listen(|| within(namespace, listen))
    }

    fn listen(open: impl FnOnce() -> io::Result<Socket>) -> Result<Self, NetlinkError> {
        let socket =
            open().map_err(|source| NetlinkError::Socket { operation: "watch the network configuration", source })?;
        Ok(Self { socket, buffer: vec![0; BUFFER_LEN] })
    }

    /// Takes the news there is and says what it was about. Never blocks.
    pub fn drain(&mut self) -> Result<Changes, NetlinkError> {
        let mut changes = Changes::default();
        for _ in 0..DRAIN_BUDGET {
            match self.socket.receive(&mut self.buffer) {
                Ok(length) => note_all(&mut changes, self.buffer.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The kernel ran out of room for us, or sent more than it ever should: either way something was missed.
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
        | abi::RTMGRP_IPV6_ROUTE;
    Socket::open(groups, true)
}

fn is_loss(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS) || error.kind() == io::ErrorKind::InvalidData
}

pub(crate) fn note_all(changes: &mut Changes, datagram: &[u8]) {
    for message in parse::messages(datagram) {
        match message {
            Ok(message) => changes.note(message.kind),
            Err(_) => *changes = Changes::LOST,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Changes, note_all};
    use crate::abi;
    use crate::message::Request;

    #[test]
    fn each_kind_of_news_sets_its_flag() {
        let noted = |kind| {
            let mut changes = Changes::default();
            note_all(&mut changes, &Request::new(kind, 0, &[]).finish(0));
            (changes.links, changes.addresses, changes.routes, changes.overrun)
        };
        assert_eq!(noted(abi::RTM_NEWLINK), (true, false, false, false));
        assert_eq!(noted(abi::RTM_DELADDR), (false, true, false, false));
        assert_eq!(noted(abi::RTM_DELROUTE), (false, false, true, false));
        assert_eq!(noted(abi::NLMSG_OVERRUN), (true, true, true, true));
        assert_eq!(noted(abi::RTM_GETLINK), (false, false, false, false));
    }

    #[test]
    fn what_cannot_be_understood_may_have_been_anything() {
        let mut changes = Changes::default();
        note_all(&mut changes, &[1, 2, 3]);
        assert_eq!(changes, Changes::LOST);
        assert!(changes.any() && !Changes::default().any());
    }
}

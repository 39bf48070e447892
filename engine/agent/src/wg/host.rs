//! The state of the device in the kernel, whatever its present name and network namespace are.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use taut_base::DEFAULT_MTU;
use taut_event::{Interest, Poller};
use taut_netlink::{InterfaceLink, Monitor, Netlink};
use taut_tun::Tun;

use super::{TOKEN_AWAY, WgError};

/// The state of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceState {
    pub(super) mtu: u16,
    pub(super) up: bool,
}

/// Reads the device's state: in the network namespace of this process, where the UDP socket is, or in the one that the device was moved to.
pub(super) struct DeviceObserver {
    pub(super) netlink: Netlink,
    index: u32,
    /// The namespace of this process; `None` if the kernel does not tell.
    home: Option<NamespaceId>,
    /// The other namespace, while the device is in one.
    away: Option<OtherNamespace>,
}

/// The identity of a network namespace: device and inode of its file.
type NamespaceId = (u64, u64);

struct OtherNamespace {
    id: NamespaceId,
    netlink: Netlink,
    monitor: Monitor,
}

impl DeviceObserver {
    /// Prepares a new device: sets the usual MTU of WireGuard, and disables the link-local address, like the kernel's WireGuard.
    pub(super) fn prepare(name: &str) -> Result<Self, WgError> {
        // A kernel without IPv6 has no such file. If writing fails otherwise, a link-local address does no harm.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/addr_gen_mode"), "1");
        let mut netlink = Netlink::open().map_err(WgError::Netlink)?;
        let index = netlink.link(name).map_err(WgError::Netlink)?.map_or(0, |link| link.index);
        netlink.set_mtu(index, u32::from(DEFAULT_MTU)).map_err(WgError::Netlink)?;
        let home = File::open("/proc/self/ns/net").ok().as_ref().and_then(namespace_id);
        Ok(Self { netlink, index, home, away: None })
    }

    /// Returns the present state of the device; `None` if it cannot be read.
    pub(super) fn read(&mut self, tun: &Tun, poller: &Poller) -> Option<DeviceState> {
        let name = tun.current_name().ok()?;
        let namespace = tun.namespace().ok();
        let there = namespace.as_ref().and_then(|namespace| namespace_id(&File::from(namespace.try_clone().ok()?)));
        let link = match (there, namespace) {
            (Some(there), Some(namespace)) if self.home.is_some_and(|home| home != there) => {
                self.follow(there, &namespace, poller)?.link(&name)
            }
            // The device is in our namespace, or the kernel does not tell: in the latter case another device may have its name.
            (there, _) => {
                self.away = None;
                let link = self.netlink.link(&name);
                if there.is_some() { link } else { link.map(|link| link.filter(|link| link.index == self.index)) }
            }
        };
        link.ok()?
            .map(|link: InterfaceLink| DeviceState { mtu: u16::try_from(link.mtu).unwrap_or(u16::MAX), up: link.up })
    }

    /// Reads the news of the device's other namespace. Returns true if links changed.
    pub(super) fn drain_away(&mut self) -> bool {
        self.away.as_mut().is_some_and(|away| away.monitor.drain().is_ok_and(|changes| changes.links))
    }

    /// Returns a netlink socket in the device's namespace. A monitor of an earlier namespace is closed, and with it its registration in the poller.
    fn follow(&mut self, there: NamespaceId, namespace: &OwnedFd, poller: &Poller) -> Option<&mut Netlink> {
        if self.away.as_ref().is_none_or(|away| away.id != there) {
            let monitor = Monitor::open_in(namespace.as_fd()).ok()?;
            let netlink = Netlink::open_in(namespace.as_fd()).ok()?;
            poller.add(monitor.as_fd(), TOKEN_AWAY, Interest::READ).ok()?;
            self.away = Some(OtherNamespace { id: there, netlink, monitor });
        }
        self.away.as_mut().map(|away| &mut away.netlink)
    }
}

fn namespace_id(namespace: &File) -> Option<NamespaceId> {
    namespace.metadata().ok().map(|namespace| (namespace.dev(), namespace.ino()))
}

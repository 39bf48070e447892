//! The device as the kernel has it, under whatever name and in whatever network namespace it is.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use taut_base::DEFAULT_MTU;
use taut_event::{Interest, Poller};
use taut_netlink::{Link, Monitor, Netlink};
use taut_tun::Tun;

use super::{Error, TOKEN_AWAY};

/// What of the device concerns us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) mtu: u16,
    pub(super) up: bool,
}

/// The host, asked in the network namespace that we were started in, where the UDP socket is; and where the device is.
pub(super) struct Host {
    pub(super) netlink: Netlink,
    index: u32,
    /// Our own namespace; `None` where the kernel does not say.
    home: Option<Place>,
    /// The device is in another one.
    away: Option<Away>,
}

/// Which network namespace: device and inode of its file.
type Place = (u64, u64);

struct Away {
    place: Place,
    netlink: Netlink,
    monitor: Monitor,
}

impl Host {
    /// Gives the new device the MTU that every WireGuard starts with, and no link-local address, as the kernel's WireGuard has none.
    pub(super) fn prepare(name: &str) -> Result<Self, Error> {
        // A kernel without IPv6 has no such file; elsewhere an address of its own does no harm.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/addr_gen_mode"), "1");
        let mut netlink = Netlink::open().map_err(Error::Netlink)?;
        let index = netlink.link(name).map_err(Error::Netlink)?.map_or(0, |link| link.index);
        netlink.set_mtu(index, u32::from(DEFAULT_MTU)).map_err(Error::Netlink)?;
        let home = File::open("/proc/self/ns/net").ok().as_ref().and_then(place);
        Ok(Self { netlink, index, home, away: None })
    }

    /// The device now; `None` when it cannot be told, and then it is as before.
    pub(super) fn look(&mut self, tun: &Tun, poller: &Poller) -> Option<Seen> {
        let name = tun.current_name().ok()?;
        let namespace = tun.namespace().ok();
        let there = namespace.as_ref().and_then(|namespace| place(&File::from(namespace.try_clone().ok()?)));
        let link = match (there, namespace) {
            (Some(there), Some(namespace)) if self.home.is_some_and(|home| home != there) => {
                self.follow(there, &namespace, poller)?.link(&name)
            }
            // At home, or on a kernel that does not say where: then another device may have the name.
            (there, _) => {
                self.away = None;
                let link = self.netlink.link(&name);
                if there.is_some() { link } else { link.map(|link| link.filter(|link| link.index == self.index)) }
            }
        };
        link.ok()?.map(|link: Link| Seen { mtu: u16::try_from(link.mtu).unwrap_or(u16::MAX), up: link.up })
    }

    /// The kernel has news of the place where the device is. Whether they concern it.
    pub(super) fn drain_away(&mut self) -> bool {
        self.away.as_mut().is_some_and(|away| away.monitor.drain().is_ok_and(|changes| changes.links))
    }

    /// Somebody to ask where the device is. What is closed is no more waited for.
    fn follow(&mut self, there: Place, namespace: &OwnedFd, poller: &Poller) -> Option<&mut Netlink> {
        if self.away.as_ref().is_none_or(|away| away.place != there) {
            let monitor = Monitor::open_in(namespace.as_fd()).ok()?;
            let netlink = Netlink::open_in(namespace.as_fd()).ok()?;
            poller.add(monitor.as_fd(), TOKEN_AWAY, Interest::READ).ok()?;
            self.away = Some(Away { place: there, netlink, monitor });
        }
        self.away.as_mut().map(|away| &mut away.netlink)
    }
}

fn place(namespace: &File) -> Option<Place> {
    namespace.metadata().ok().map(|namespace| (namespace.dev(), namespace.ino()))
}

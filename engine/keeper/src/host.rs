//! What we change on the host, and what we read of it: the TUN's addresses and routes, the host's own addresses.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use taut_base::Prefix;
use taut_netlink::{Netlink, NetlinkError, Route, Scope};
use taut_path::acceptable;

/// The host's network configuration, as far as the overlay is concerned.
pub(crate) struct Host {
    netlink: Netlink,
    index: u32,
    routed: BTreeSet<IpAddr>,
}

impl Host {
    /// Brings the TUN device `name` up with this MTU and these addresses.
    pub(crate) fn configure(
        mut netlink: Netlink,
        name: &str,
        mtu: u16,
        addresses: &[IpAddr],
    ) -> Result<Self, NetlinkError> {
        // Without this the kernel gives the TUN a link-local address and asks it for routers. A kernel without IPv6 has no such file, and
        // where it cannot be written the packets are dropped by name (out-no-route).
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/addr_gen_mode"), "1");
        let index = netlink.link(name)?.map_or(0, |link| link.index);
        netlink.set_mtu(index, u32::from(mtu))?;
        netlink.set_link_up(index, true)?;
        for address in addresses {
            netlink.add_address(index, *address, Prefix::host(*address).length())?;
        }
        Ok(Self { netlink, index, routed: BTreeSet::new() })
    }

    /// Routes exactly `wanted` into the overlay, one host route each: an address that nobody has stays unreachable, as it should be.
    pub(crate) fn set_routes(&mut self, wanted: BTreeSet<IpAddr>) -> Result<(), NetlinkError> {
        let gone: Vec<IpAddr> = self.routed.difference(&wanted).copied().collect();
        for address in gone {
            self.netlink.remove_route(&self.route(address))?;
            self.routed.remove(&address);
        }
        for address in wanted {
            if !self.routed.contains(&address) {
                self.netlink.add_route(&self.route(address))?;
                self.routed.insert(address);
            }
        }
        Ok(())
    }

    /// Where this host may be reached: its global addresses with `port`, those of the overlay left out.
    pub(crate) fn endpoints(&mut self, port: u16, overlay: &[Prefix]) -> Result<Vec<SocketAddr>, NetlinkError> {
        let tun = self.index;
        let mut endpoints: Vec<SocketAddr> = self
            .netlink
            .addresses()?
            .into_iter()
            .filter(|address| address.index != tun && address.scope == Scope::Global)
            .filter(|address| !address.deprecated && !address.tentative && !address.duplicate && !address.temporary)
            .map(|address| SocketAddr::new(address.ip, port))
            .filter(|endpoint| acceptable(*endpoint, overlay))
            .collect();
        // IPv4 first: where both work, its header is 20 bytes shorter.
        endpoints.sort_by_key(SocketAddr::is_ipv6);
        endpoints.dedup();
        Ok(endpoints)
    }

    /// How many packets the kernel dropped because they waited at the TUN and the lane did not read in time; 0 where it does not say.
    pub(crate) fn dropped_before_tun(&mut self) -> u64 {
        self.netlink.tx_dropped(self.index).ok().flatten().unwrap_or(0)
    }

    /// To ask the kernel something else.
    pub(crate) fn netlink(&mut self) -> &mut Netlink {
        &mut self.netlink
    }

    fn route(&self, address: IpAddr) -> Route {
        Route::new(address, Prefix::host(address).length(), self.index)
    }
}

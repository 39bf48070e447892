//! The kernel's switches for forwarding IPv4, one for each interface: `net.ipv4.conf.IF.forwarding`.
//!
//! The kernel asks the switch of the interface that a packet comes by. That of the TUN device goes with the device. Those of other interfaces that were off are noted in a file
//! beside the daemon's socket, which like the switches does not outlive the host's next boot: after a crash the next start switches them off.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use taut_netlink::{Netlink, NetlinkError};

use crate::subnets::AdvertisedRoute;

/// Switches that were off and are on now.
#[derive(Debug)]
pub(super) struct Switches {
    record: PathBuf,
    /// Names of the interfaces.
    on: BTreeSet<String>,
}

impl Switches {
    pub(super) fn new(record: PathBuf) -> Self {
        Self { record, on: BTreeSet::new() }
    }

    /// Returns the interfaces that do not forward but for the overlay.
    pub(super) fn guarded(&self, interfaces: &BTreeMap<u32, String>) -> Vec<u32> {
        let is_ours = |name: &String| self.on.contains(name) || matches!(read(name), Ok(false));
        interfaces.iter().filter(|(_, name)| is_ours(name)).map(|(index, _)| *index).collect()
    }

    /// Switches the device and these interfaces on, and those off that are not needed any more.
    pub(super) fn turn_on(&mut self, device: &str, interfaces: &BTreeMap<u32, String>) -> Result<(), String> {
        let failed = |name: &str, error: io::Error| format!("cannot switch on forwarding for {name}: {error}");
        let names: BTreeSet<&String> = interfaces.values().collect();
        let (kept, gone): (BTreeSet<String>, BTreeSet<String>) =
            std::mem::take(&mut self.on).into_iter().partition(|name| names.contains(name));
        self.on = kept;
        let new: Vec<&String> = names.into_iter().filter(|name| matches!(read(name), Ok(false))).collect();
        self.on.extend(new.iter().map(|name| String::from(name.as_str())));
        // The file has every switch before it is on, and until it is off.
        self.note(&gone);
        gone.iter().for_each(|name| {
            let _ = write(name, false);
        });
        if !gone.is_empty() {
            self.note(&BTreeSet::new());
        }
        write(device, true).map_err(|error| failed(device, error))?;
        new.into_iter().try_for_each(|name| write(name, true).map_err(|error| failed(name, error)))
    }

    /// Switches everything off that was switched on.
    pub(super) fn turn_off(&mut self) {
        for name in std::mem::take(&mut self.on) {
            // An interface that is gone has taken its switch along.
            let _ = write(&name, false);
        }
        let _ = fs::remove_file(&self.record);
    }

    /// Writes the file: what is on, and `more`.
    fn note(&self, more: &BTreeSet<String>) {
        let names: Vec<&str> = self.on.union(more).map(String::as_str).collect();
        // Without the file a crash would leave the switches on; the routes are worth that.
        let _ =
            if names.is_empty() { fs::remove_file(&self.record) } else { fs::write(&self.record, names.join("\n")) };
    }
}

/// Switches off what a daemon that crashed left on.
pub(crate) fn restore_switches(record: &Path) {
    let Ok(names) = fs::read_to_string(record) else { return };
    for name in names.lines().filter(|name| !name.is_empty() && !name.contains('/') && !name.starts_with('.')) {
        let _ = write(name, false);
    }
    let _ = fs::remove_file(record);
}

/// Returns the interfaces that lead to the networks of these IPv4 routes, by index: those with an address in them, and the one that the kernel would send to their first host by.
pub(super) fn leading_to(
    netlink: &mut Netlink,
    routes: &[AdvertisedRoute],
    device: u32,
) -> Result<BTreeMap<u32, String>, NetlinkError> {
    let links: BTreeMap<u32, String> = netlink
        .links()?
        .into_iter()
        .filter(|link| link.index != device && !link.loopback)
        .map(|link| (link.index, link.name))
        .collect();
    let addresses = netlink.addresses()?;
    let mut found = BTreeSet::new();
    for route in routes.iter().map(|route| route.real) {
        let IpAddr::V4(first) = route.address() else { continue };
        found.extend(addresses.iter().filter(|address| route.contains(address.ip)).map(|address| address.index));
        // The first address of a network is often a broadcast address.
        let host = if route.length() < 31 { first.to_bits().saturating_add(1) } else { first.to_bits() };
        found.extend(netlink.interface_to(IpAddr::V4(host.into())).ok().flatten());
    }
    Ok(links.into_iter().filter(|(index, _)| found.contains(index)).collect())
}

/// Returns true if the host forwards IPv6.
pub(super) fn forwards_ipv6() -> bool {
    fs::read_to_string("/proc/sys/net/ipv6/conf/all/forwarding").is_ok_and(|text| text.trim() != "0")
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/sys/net/ipv4/conf/{name}/forwarding"))
}

fn read(name: &str) -> io::Result<bool> {
    fs::read_to_string(path(name)).map(|text| text.trim() != "0")
}

fn write(name: &str, on: bool) -> io::Result<()> {
    fs::write(path(name), if on { "1" } else { "0" })
}

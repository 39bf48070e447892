//! The kernel's switches for forwarding IPv4, one for each interface: `net.ipv4.conf.IF.forwarding`.
//!
//! The kernel asks the switch of the interface that a packet comes by. That of the TUN device goes with the device. Those of other interfaces that were off are noted in a file
//! beside the daemon's socket, which like the switches does not outlive the host's next boot: after a crash the next start switches them off.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use taut_base::{SOCKET_MARK, SortedMap, SortedSet};
use taut_netlink::{Netlink, NetlinkError};

use crate::host::record::read_record;
use crate::host::surroundings::FAR;
use crate::subnets::AdvertisedRoute;

/// The kernel's switches, a directory for each interface.
const KERNEL: &str = "/proc/sys/net/ipv4/conf";

/// The directory of the switch for the whole host, `net.ipv4.ip_forward`. A change of it changes those of all interfaces.
const WHOLE_HOST: &str = "all";

/// Switches that were off and are on now.
#[derive(Debug)]
pub(super) struct Switches {
    /// The kernel's directory.
    kernel: PathBuf,
    record: PathBuf,
    /// Names of the interfaces.
    on: SortedSet<String>,
    /// Whether the whole host forwarded at the last look. An interface that was off nevertheless had been switched off on purpose.
    is_whole: bool,
}

impl Switches {
    pub(super) fn new(record: PathBuf) -> Self {
        Self::of(PathBuf::from(KERNEL), record)
    }

    fn of(kernel: PathBuf, record: PathBuf) -> Self {
        Self { is_whole: read(&kernel, WHOLE_HOST).unwrap_or(false), kernel, record, on: SortedSet::new() }
    }

    /// Looks at the switch of the whole host. If another program has switched it on, the interfaces forward because of that program, too: they are not guarded, and stay on.
    pub(super) fn look(&mut self) {
        let was_whole = std::mem::replace(&mut self.is_whole, read(&self.kernel, WHOLE_HOST).unwrap_or(false));
        if self.is_whole && !was_whole {
            self.on.clear();
            self.note(&SortedSet::new());
        }
    }

    /// Returns the interfaces that do not forward but for the overlay.
    pub(super) fn guarded(&self, interfaces: &SortedMap<u32, String>) -> Vec<u32> {
        let is_ours = |name: &String| self.on.contains(name) || matches!(read(&self.kernel, name), Ok(false));
        interfaces.iter().filter(|(_, name)| is_ours(name)).map(|(index, _)| *index).collect()
    }

    /// Returns true if an interface forwards because of the overlay alone.
    pub(super) fn has_guarded(&self) -> bool {
        !self.on.is_empty()
    }

    /// Switches the device and these interfaces on, and those off that are not needed any more.
    pub(super) fn turn_on(&mut self, device: &str, interfaces: &SortedMap<u32, String>) -> Result<(), String> {
        let failed = |name: &str, error: io::Error| format!("cannot switch on forwarding for {name}: {error}");
        let names: SortedSet<&String> = interfaces.values().collect();
        let (kept, gone): (SortedSet<String>, SortedSet<String>) =
            std::mem::take(&mut self.on).into_iter().partition(|name| names.contains(name));
        self.on = kept;
        let new: Vec<&String> =
            names.into_iter().filter(|name| matches!(read(&self.kernel, name), Ok(false))).collect();
        self.on.extend(new.iter().map(|name| String::from(name.as_str())));
        // The file has every switch before it is on, and until it is off.
        self.note(&gone);
        gone.iter().for_each(|name| {
            let _ = write(&self.kernel, name, false);
        });
        if !gone.is_empty() {
            self.note(&SortedSet::new());
        }
        write(&self.kernel, device, true).map_err(|error| failed(device, error))?;
        new.into_iter().try_for_each(|name| write(&self.kernel, name, true).map_err(|error| failed(name, error)))
    }

    /// Switches everything off that was switched on, unless another program needs it now.
    pub(super) fn turn_off(&mut self) {
        self.look();
        for name in std::mem::take(&mut self.on) {
            // An interface that is gone has taken its switch along.
            let _ = write(&self.kernel, &name, false);
        }
        let _ = fs::remove_file(&self.record);
    }

    /// Writes the file: what is on, and `more`.
    fn note(&self, more: &SortedSet<String>) {
        let names: SortedSet<&str> = self.on.iter().chain(more).map(String::as_str).collect();
        let names: Vec<&str> = names.into_iter().collect();
        // Without the file a crash would leave the switches on; the routes are worth that.
        let _ =
            if names.is_empty() { fs::remove_file(&self.record) } else { fs::write(&self.record, names.join("\n")) };
    }
}

/// Switches off what a daemon that crashed left on, unless the whole host forwards now.
pub(crate) fn restore_switches(record: &Path) {
    restore(Path::new(KERNEL), record);
}

fn restore(kernel: &Path, record: &Path) {
    let Some(names) = read_record(record) else { return };
    let is_whole = read(kernel, WHOLE_HOST).unwrap_or(false);
    let is_name = |name: &&str| !name.is_empty() && !name.contains('/') && !name.starts_with('.');
    for name in names.lines().filter(is_name).filter(|_| !is_whole) {
        let _ = write(kernel, name, false);
    }
    let _ = fs::remove_file(record);
}

/// Returns the interfaces that lead to the networks of these IPv4 routes, by index: those with an address in them, and the one that the kernel would send to their first host by. With
/// `to_internet` also the one towards the internet.
pub(super) fn leading_to(
    netlink: &mut Netlink,
    routes: &[AdvertisedRoute],
    to_internet: bool,
    device: u32,
) -> Result<SortedMap<u32, String>, NetlinkError> {
    let links: SortedMap<u32, String> = netlink
        .links()?
        .into_iter()
        .filter(|link| link.index != device && !link.loopback)
        .map(|link| (link.index, link.name))
        .collect();
    let addresses = netlink.addresses()?;
    let mut found = SortedSet::new();
    for route in routes.iter().map(|route| route.real) {
        let IpAddr::V4(first) = route.address() else { continue };
        found.extend(addresses.iter().filter(|address| route.contains(address.ip)).map(|address| address.index));
        // The first address of a network is often a broadcast address.
        let host = if route.length() < 31 { first.to_bits().saturating_add(1) } else { first.to_bits() };
        found.extend(netlink.interface_to(IpAddr::V4(host.into()), SOCKET_MARK).ok().flatten());
    }
    if to_internet {
        found.extend(netlink.interface_to(FAR[0], SOCKET_MARK).ok().flatten());
    }
    Ok(links.into_iter().filter(|(index, _)| found.contains(index)).collect())
}

/// Returns true if the host forwards IPv6.
pub(super) fn forwards_ipv6() -> bool {
    fs::read_to_string("/proc/sys/net/ipv6/conf/all/forwarding").is_ok_and(|text| text.trim() != "0")
}

fn path(kernel: &Path, name: &str) -> PathBuf {
    kernel.join(name).join("forwarding")
}

fn read(kernel: &Path, name: &str) -> io::Result<bool> {
    fs::read_to_string(path(kernel, name)).map(|text| text.trim() != "0")
}

fn write(kernel: &Path, name: &str, on: bool) -> io::Result<()> {
    fs::write(path(kernel, name), if on { "1" } else { "0" })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory like the kernel's, with all switches off. It is removed at the end.
    struct Kernel(PathBuf);

    impl Kernel {
        fn new(test: &str) -> Self {
            let root = std::env::temp_dir().join(format!("taut-switches-{test}-{}", std::process::id()));
            for name in ["all", "taut0", "eth1"] {
                fs::create_dir_all(root.join(name)).unwrap();
                write(&root, name, false).unwrap();
            }
            Self(root)
        }

        fn record(&self) -> PathBuf {
            self.0.join("record")
        }

        /// Another program switches the whole host on or off, which the kernel does for each interface.
        fn whole(&self, on: bool) {
            ["all", "taut0", "eth1"].iter().for_each(|name| write(&self.0, name, on).unwrap());
        }

        fn is_on(&self) -> bool {
            read(&self.0, "eth1").unwrap()
        }
    }

    impl Drop for Kernel {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn lan() -> SortedMap<u32, String> {
        SortedMap::from([(3, String::from("eth1"))])
    }

    /// Returns switches that are on, of a host that did not forward.
    fn started(kernel: &Kernel) -> Switches {
        let mut switches = Switches::of(kernel.0.clone(), kernel.record());
        switches.look();
        assert_eq!(switches.guarded(&lan()), [3]);
        switches.turn_on("taut0", &lan()).unwrap();
        assert!(kernel.is_on() && kernel.record().exists());
        switches
    }

    #[test]
    fn fault_j9_a_switch_that_was_off_is_off_at_the_end() {
        let kernel = Kernel::new("end");
        started(&kernel).turn_off();
        assert!(!kernel.is_on() && !kernel.record().exists());
        started(&kernel);
        restore(&kernel.0, &kernel.record());
        assert!(!kernel.is_on() && !kernel.record().exists());
    }

    #[test]
    fn what_another_program_needs_is_not_guarded_and_stays_on() {
        let kernel = Kernel::new("other");
        let mut switches = started(&kernel);
        kernel.whole(true);
        switches.look();
        assert!(switches.guarded(&lan()).is_empty() && !switches.has_guarded() && !kernel.record().exists());
        switches.turn_on("taut0", &lan()).unwrap();
        assert!(!kernel.record().exists());
        switches.turn_off();
        assert!(kernel.is_on());
        // It ends its forwarding: then the overlay alone needs it again.
        kernel.whole(false);
        started(&kernel).turn_off();
        assert!(!kernel.is_on());
    }

    #[test]
    fn the_end_does_not_switch_off_what_another_program_switched_on_just_before() {
        let kernel = Kernel::new("late");
        let mut switches = started(&kernel);
        kernel.whole(true);
        switches.turn_off();
        assert!(kernel.is_on());
        kernel.whole(false);
        started(&kernel);
        kernel.whole(true);
        restore(&kernel.0, &kernel.record());
        assert!(kernel.is_on() && !kernel.record().exists(), "after a crash, too");
    }

    #[test]
    fn an_interface_that_was_excepted_from_the_hosts_forwarding_is_guarded_and_off_at_the_end() {
        let kernel = Kernel::new("excepted");
        kernel.whole(true);
        write(&kernel.0, "eth1", false).unwrap();
        let mut switches = started(&kernel);
        switches.look();
        assert_eq!(switches.guarded(&lan()), [3]);
        switches.turn_off();
        assert!(!kernel.is_on());
    }
}

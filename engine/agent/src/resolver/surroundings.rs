//! What the host has: whose files they are, and which resolver its programs ask.

use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::dnsmasq::{self, DnsmasqPlace};
use super::servers::{RESOLV_CONF, is_forwarder, servers};
use super::{care, command};
use crate::api::ResolverBackEnd;

/// Returns true if the files of this host belong to another network: the daemon is in a network namespace of its own, and its `/etc` is that of process 1.
/// Programs of that host do not reach the overlay.
pub(super) fn is_foreign() -> bool {
    let inode = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let Some(ours) = inode(Path::new("/proc/self/ns/net")) else { return false };
    let is_named = || {
        let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
        names.into_iter().any(|name| inode(&name.path()) == Some(ours))
    };
    // Without the right to trace process 1 its namespaces are not known. In another user namespace than that of process 1, a process can make a device only in another
    // network namespace, too.
    let is_other =
        inode(Path::new("/proc/1/ns/net")).map_or_else(|| is_named() || is_in_user_namespace(), |first| first != ours);
    // An unknown `/etc` counts as that of process 1: the mistake costs names, and the other one would cost the host its resolver.
    let shares_files = inode(Path::new("/proc/1/root/etc")).is_none_or(|etc| Some(etc) == inode(Path::new("/etc")));
    is_other && shares_files
}

/// Returns true if this process is in another user namespace than the machine's first one (man 7 user_namespaces).
fn is_in_user_namespace() -> bool {
    fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| !is_identity(&map))
}

/// Returns true if a map of user ids leaves every id as it is.
fn is_identity(map: &str) -> bool {
    let words: Vec<&str> = map.split_whitespace().collect();
    words == ["0", "0", "4294967295"]
}

/// The facts that decide which back-end is used.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The text of `/etc/resolv.conf`.
    pub(super) resolv_conf: String,
    /// The target, if it is a symbolic link.
    pub(super) link: Option<String>,
    /// The text of `/etc/nsswitch.conf`.
    pub(super) nsswitch: String,
    /// Whether systemd-resolved runs.
    pub(super) resolved_runs: bool,
    /// The dnsmasq that programs of the host ask.
    pub(super) dnsmasq: Option<DnsmasqPlace>,
    /// Whether the host has `resolvconf`.
    pub(super) has_resolvconf: bool,
}

impl Facts {
    /// Reads the facts.
    pub(super) fn read() -> Self {
        let text = |path: &str| care::read(Path::new(path)).unwrap_or_default();
        let mut facts = Self {
            resolv_conf: text(RESOLV_CONF),
            link: fs::read_link(RESOLV_CONF).ok().map(|path| path.display().to_string()),
            nsswitch: text("/etc/nsswitch.conf"),
            resolved_runs: Path::new("/run/systemd/resolve/io.systemd.Resolve").exists(),
            dnsmasq: None,
            has_resolvconf: command::exists("resolvconf"),
        };
        if servers(&facts.resolv_conf).iter().any(|server| is_of_this_host(server.ip())) {
            facts.dnsmasq = dnsmasq::find();
        }
        facts
    }

    /// Returns the back-end that follows from them.
    pub(super) fn back_end(&self) -> ResolverBackEnd {
        let stubs = [IpAddr::from([127, 0, 0, 53]), IpAddr::from([127, 0, 0, 54])];
        let asks_resolved = servers(&self.resolv_conf).iter().any(|server| stubs.contains(&server.ip()));
        if asks_resolved || (self.resolved_runs && nsswitch_asks_resolved(&self.nsswitch)) {
            return ResolverBackEnd::SystemdResolved;
        }
        match &self.dnsmasq {
            Some(place) if place.of_network_manager => ResolverBackEnd::NetworkmanagerDnsmasq,
            Some(_) => ResolverBackEnd::Dnsmasq,
            None if self.has_resolvconf && self.is_of_resolvconf() => ResolverBackEnd::Resolvconf,
            None => ResolverBackEnd::File,
        }
    }

    /// Returns true if resolvconf or openresolv writes the file. Both say so in its first lines.
    fn is_of_resolvconf(&self) -> bool {
        let says_so = |line: &str| line.starts_with('#') && line.to_ascii_lowercase().contains("by resolvconf");
        self.link.as_deref().is_some_and(|target| target.ends_with("/run/resolvconf/resolv.conf"))
            || self.resolv_conf.lines().take(5).any(says_so)
    }
}

/// Returns true if libc asks systemd-resolved directly (man 8 nss-resolve).
fn nsswitch_asks_resolved(text: &str) -> bool {
    let hosts = text.lines().find_map(|line| line.trim_start().strip_prefix("hosts:"));
    hosts.is_some_and(|services| services.split_whitespace().any(|service| service == "resolve"))
}

/// Returns true if the address is one of this host's, other than a forwarder's of ours.
fn is_of_this_host(address: IpAddr) -> bool {
    !is_forwarder(address) && UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(resolv_conf: &str) -> Facts {
        Facts { resolv_conf: String::from(resolv_conf), ..Facts::default() }
    }

    #[test]
    fn the_back_end_is_the_resolver_that_programs_ask() {
        let plain = facts("nameserver 192.0.2.1\n");
        assert_eq!(plain.back_end(), ResolverBackEnd::File);
        assert_eq!(facts("nameserver 127.0.0.53\n").back_end(), ResolverBackEnd::SystemdResolved);
        let nss = Facts { nsswitch: String::from("hosts: files resolve dns\n"), ..plain };
        assert_eq!(nss.back_end(), ResolverBackEnd::File, "systemd-resolved does not run");
        assert_eq!(Facts { resolved_runs: true, ..nss }.back_end(), ResolverBackEnd::SystemdResolved);
        let generated = "# Generated by resolvconf\nnameserver 192.0.2.1\n";
        assert_eq!(facts(generated).back_end(), ResolverBackEnd::File, "the program is gone");
        let with =
            |link: Option<&str>, text| Facts { link: link.map(String::from), has_resolvconf: true, ..facts(text) };
        assert_eq!(with(None, generated).back_end(), ResolverBackEnd::Resolvconf);
        assert_eq!(with(Some("/run/resolvconf/resolv.conf"), "").back_end(), ResolverBackEnd::Resolvconf);
        assert_eq!(with(None, "nameserver 192.0.2.1\n").back_end(), ResolverBackEnd::File);
        let place = |of_network_manager| Some(DnsmasqPlace { of_network_manager, ..DnsmasqPlace::default() });
        let local = |of| Facts { dnsmasq: place(of), ..facts("nameserver 127.0.0.1\n") };
        assert_eq!(local(false).back_end(), ResolverBackEnd::Dnsmasq);
        assert_eq!(local(true).back_end(), ResolverBackEnd::NetworkmanagerDnsmasq);
    }

    #[test]
    fn the_first_user_namespace_is_known_by_its_map() {
        assert!(is_identity("         0          0 4294967295\n"));
        for other in ["         0          0          1\n", "0 100000 65536\n", "0 0 1000\n1000 100000 1\n", ""] {
            assert!(!is_identity(other), "{other}");
        }
    }

    #[test]
    fn an_address_of_the_host_is_told_from_others() {
        assert!(is_of_this_host([127, 0, 0, 1].into()) && !is_of_this_host([192, 0, 2, 1].into()));
        assert!(!is_of_this_host([127, 64, 0, 53].into()), "a forwarder of ours is no resolver of the host");
    }
}

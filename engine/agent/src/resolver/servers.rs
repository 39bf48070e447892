//! The text of `/etc/resolv.conf`: servers and search domains.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use taut_base::Prefix;

use crate::outside::{self, ServerFile};

/// The file in which libc finds its servers.
pub(super) const RESOLV_CONF: &str = ServerFile::ResolvConf.path();
/// The port of DNS.
pub(super) const PORT: u16 = 53;

/// The forwarder's address: of this host alone, as all of 127.0.0.0/8, and of no other program that is known.
pub(super) const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 64, 0, 53));

/// Returns true if this is the address of a forwarder of ours.
pub(super) fn is_forwarder(address: IpAddr) -> bool {
    address == ADDRESS
}

/// Returns the servers in the text of a file like `/etc/resolv.conf`, without forwarders of ours.
pub(super) fn servers(text: &str) -> Vec<SocketAddr> {
    let words = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.next().filter(|first| *first == "nameserver").and_then(|_| words.next())
    });
    words.filter_map(server).filter(|server| !is_forwarder(server.ip())).collect()
}

/// The file that the host had before `/etc/resolv.conf` named a forwarder of ours.
pub(super) const KEPT: &str = ServerFile::Kept.path();

/// Returns the servers that programs of this host ask, and the domains that libc puts behind a name.
pub(crate) fn host_servers() -> (Vec<SocketAddr>, Vec<String>) {
    let text = outside::text(ServerFile::ResolvConf);
    let own = is_forwarder_named(&text).then_some(SocketAddr::new(ADDRESS, PORT));
    (own.into_iter().chain(servers(&text)).collect(), search_domains(&text))
}

/// Returns the servers that programs of this host would ask without taut, except those in these prefixes, which are the overlay's.
pub(crate) fn former_servers(overlay: &[Prefix]) -> Vec<SocketAddr> {
    let read = |file| servers(&outside::text(file));
    let found = [ServerFile::Kept, ServerFile::OfResolved]
        .into_iter()
        .map(read)
        .find(|found| !found.is_empty())
        .unwrap_or_default();
    found.into_iter().filter(|server| !overlay.iter().any(|prefix| prefix.contains(server.ip()))).collect()
}

/// Returns the domains that libc puts behind a name: those of the last such line (man 5 resolv.conf).
pub(super) fn search_domains(text: &str) -> Vec<String> {
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let last = lines.rfind(|words| matches!(words.first(), Some(&("search" | "domain")))).unwrap_or_default();
    last.iter()
        .skip(1)
        .map(|domain| domain.trim_end_matches('.').to_owned())
        .filter(|domain| !domain.is_empty())
        .collect()
}

/// Returns true if the text names a forwarder of ours.
pub(super) fn is_forwarder_named(text: &str) -> bool {
    text.lines().any(|line| line.split_whitespace().eq(["nameserver", &ADDRESS.to_string()]))
}

/// Reads an address, which has an interface behind `%` if it is link-local.
fn server(text: &str) -> Option<SocketAddr> {
    let (address, scope) = text.split_once('%').map_or((text, None), |(address, scope)| (address, Some(scope)));
    let mut server = SocketAddr::new(address.parse().ok()?, PORT);
    if let (SocketAddr::V6(server), Some(scope)) = (&mut server, scope) {
        let index = || fs::read_to_string(format!("/sys/class/net/{scope}/ifindex")).ok()?.trim().parse().ok();
        server.set_scope_id(scope.parse().ok().or_else(index)?);
    }
    Some(server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_as_libc_reads_them() {
        let text = "# nameserver 9.9.9.9\nnameserver 192.0.2.1 # main\n  nameserver fd00::1\nnameserver fe80::1%7\nnameserver x\nnameserver 127.64.0.53\nsearch a";
        let found: Vec<String> = servers(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["192.0.2.1:53", "[fd00::1]:53", "[fe80::1%7]:53"]);
        let domains = search_domains("domain old\nsearch lan. corp.example .\noptions search\n");
        assert_eq!(domains, ["lan", "corp.example"]);
    }
}

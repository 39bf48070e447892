//! The host's resolver: how programs of this host come to ask the stub for the network's names, and how the host gets its own settings back.
//!
//! - this file: what the daemon and its helper process say to each other;
//! - `client`: the daemon's end;
//! - `launch`: how it comes to a helper, at its start and when the helper ended;
//! - `helper`: the process `taut dns-helper`, which changes the host. It outlives the daemon for a moment, so a crash leaves nothing behind (fault H3);
//! - `surroundings`: what the host has, and which back-end follows from it;
//! - `care`, `processes`: which files and processes of the host may be believed, since the helper runs as root;
//! - `check`: what may be in an order of the daemon, which has fewer rights than its helper;
//! - `servers`, `marks`: the text of `/etc/resolv.conf`, and whose a file is;
//! - `hook`: what every back-end can do;
//! - `resolved`, `dnsmasq`, `resolvconf`, `file`: the back-ends;
//! - `desktop`: chooses those of them that a router does not need, with the feature `desktop-dns`; `no_desktop` replaces it in a build without;
//! - `forward`: the forwarder for hosts whose resolver cannot send some names elsewhere;
//! - `messages`: how it asks a server, and reads and writes a connection;
//! - `asked`: what ends a loop between the forwarder and a server of the host;
//! - `command`: programs that a back-end runs.

mod asked;
mod care;
mod check;
mod client;
mod command;
#[cfg(feature = "desktop-dns")]
mod desktop;
#[cfg(not(feature = "desktop-dns"))]
#[path = "no_desktop.rs"]
mod desktop;
mod dnsmasq;
mod file;
mod forward;
mod helper;
mod hook;
mod launch;
mod marks;
mod messages;
mod processes;
#[cfg(feature = "desktop-dns")]
mod resolvconf;
#[cfg(feature = "desktop-dns")]
mod resolved;
mod servers;
mod surroundings;

use std::net::IpAddr;

use serde::Serialize;
use taut_base::Prefix;
use taut_dns::reverse_zones;
use taut_netmap::{SPECIAL, is_below};

use crate::api::{Failure, ResolverBackEnd};

pub(crate) use client::{Resolver, ResolverEvent};
pub use helper::run_helper;
pub(crate) use messages::{ask_by_tcp, ask_by_udp, read_message, write_message};
pub(crate) use servers::{former_servers, host_servers};

/// Longest message between daemon and helper, 256 KiB: 320 domains of an operator with 253 bytes, each listed twice, and 512 reverse zones with 75 bytes take 205 kB.
const MAX_MESSAGE: usize = 256 * 1024;

/// Most shadows, 256: with six search domains, as many as libc knows, those of 42 domains. systemd-resolved takes 1,024 domains for a link in all.
const MOST_SHADOWS: usize = 256;

/// The domain of all networks, unless their operators chose others. No public name is below it.
const BASE: &str = "taut.internal";

/// A network that is up, as far as the resolver has to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedNetwork {
    /// The TUN device.
    pub(crate) interface: String,
    /// The stub's addresses, IPv4 first.
    pub(crate) servers: Vec<IpAddr>,
    /// The domain of the network's names.
    pub(crate) zone: String,
    /// The network's prefixes.
    pub(crate) prefixes: Vec<Prefix>,
    /// Domains outside of the zone that the operator chose, without those inside of others.
    pub(crate) outside: Vec<String>,
    /// Those domains that the user accepted.
    pub(crate) accepted: Vec<String>,
    /// Prefixes that answers for public names must not have an address in.
    pub(crate) filtered: Vec<Prefix>,
    /// Whether the stub is asked for all names, because an exit node is.
    pub(crate) asks_exit: bool,
}

/// What the host's resolver should do while the network is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub(crate) struct Wanted {
    /// The TUN device.
    pub(crate) interface: String,
    /// The stub's addresses, IPv4 first.
    pub(crate) servers: Vec<IpAddr>,
    /// The domains whose names the stub answers, the network's own first.
    pub(crate) zones: Vec<String>,
    /// Whether names without a dot are looked for in the network's domain, too.
    pub(crate) search: bool,
    /// The network's domains with a search domain of the host behind them. libc asks for such a name after one of the network that does not exist, and no server
    /// may learn of it (fault H4). The helper finds them.
    #[serde(default)]
    pub(crate) shadows: Vec<String>,
    /// The domains among `zones` that give way to the host's own search domains (fault H1).
    #[serde(default)]
    pub(crate) yielding: Vec<String>,
    /// Prefixes that answers for public names must not have an address in (fault H6).
    #[serde(default)]
    pub(crate) filtered: Vec<Prefix>,
    /// Whether the stub is asked for all names, and no server of the host for any.
    #[serde(default)]
    pub(crate) all: bool,
    /// Domains whose names are not public ones: they may lead to these prefixes.
    #[serde(default)]
    pub(crate) trusted: Vec<String>,
}

impl Wanted {
    fn new(network: &NamedNetwork, search: bool) -> Self {
        let mut zones = vec![network.zone.clone()];
        // A name of a network that this host is not in must not leave it either: the public cannot know it (fault H4).
        if network.zone.strip_suffix(BASE).is_some_and(|front| front.ends_with('.')) {
            zones.push(String::from(BASE));
        }
        zones.extend(network.prefixes.iter().flat_map(|prefix| reverse_zones(*prefix)));
        zones.extend(network.outside.iter().cloned());
        let is_accepted = |domain: &&String| network.accepted.iter().any(|one| one == *domain || is_below(domain, one));
        Self {
            interface: network.interface.clone(),
            servers: network.servers.clone(),
            zones,
            search,
            shadows: Vec::new(),
            filtered: network.filtered.clone(),
            all: network.asks_exit,
            trusted: SPECIAL.into_iter().map(String::from).chain(network.accepted.iter().cloned()).collect(),
            yielding: network.outside.iter().filter(|domain| !is_accepted(domain)).cloned().collect(),
        }
    }

    /// Makes it fit a host with these search domains: returns the domains that give way to them, and finds the shadows.
    fn fit(&mut self, search: &[String]) -> Vec<String> {
        let given_way = self.give_way(search);
        self.find_shadows(search);
        self.trusted.extend(search.iter().cloned());
        given_way
    }

    /// Takes away the domains that give way to these search domains of the host, and returns them: those that are one of them, or above or below one.
    fn give_way(&mut self, search: &[String]) -> Vec<String> {
        // With --dns-search the network's own domain is among them.
        let lower = search.iter().map(|domain| domain.to_ascii_lowercase());
        let search: Vec<String> = lower.filter(|domain| domain != self.domain()).collect();
        let meets =
            |domain: &String| search.iter().any(|own| own == domain || is_below(own, domain) || is_below(domain, own));
        let (gone, yielding) = std::mem::take(&mut self.yielding).into_iter().partition(meets);
        self.yielding = yielding;
        self.zones.retain(|zone| !gone.contains(zone));
        gone
    }

    /// Finds the shadows with these search domains of the host.
    fn find_shadows(&mut self, search: &[String]) {
        // The shortest of the network's domains, which is behind the longer one. Those of the operator's choice are behind the reverse zones.
        let is_reverse = |zone: &&String| zone.ends_with(".in-addr.arpa") || zone.ends_with(".ip6.arpa");
        let own = self.zones.iter().take_while(|zone| !is_reverse(zone)).last();
        let others = self.zones.iter().skip_while(|zone| !is_reverse(zone)).filter(|zone| !is_reverse(zone));
        // Search domains may come from a DHCP server, and become lines of settings.
        let behind = |domain: &&String| check::is_domain(domain) && !self.zones.contains(domain);
        let with = |zone: &String| {
            let zone = zone.clone();
            search.iter().filter(behind).map(move |domain| format!("{zone}.{domain}"))
        };
        self.shadows = own.into_iter().chain(others).flat_map(with).take(MOST_SHADOWS).collect();
    }

    /// Returns the network's own domain.
    fn domain(&self) -> &str {
        self.zones.first().map_or("", String::as_str)
    }
}

/// What became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub(crate) struct Report {
    /// The resolver that asks the stub, if one does.
    pub(crate) back_end: Option<ResolverBackEnd>,
    /// The reason why none does, or why it may not stay so.
    pub(crate) problem: Option<Failure>,
    /// Domains of the operator that gave way to search domains of the host.
    #[serde(default)]
    pub(crate) given_way: Vec<String>,
}

#[cfg(test)]
impl Wanted {
    /// Returns what a resolver is told of `taut0` with a stub at 100.64.0.0 that answers for these domains.
    pub(super) fn for_zones(zones: &[&str]) -> Self {
        Self {
            interface: String::from("taut0"),
            servers: vec![IpAddr::from([100, 64, 0, 0])],
            zones: zones.iter().copied().map(String::from).collect(),
            search: false,
            shadows: Vec::new(),
            yielding: Vec::new(),
            filtered: Vec::new(),
            all: false,
            trusted: Vec::new(),
        }
    }
}

/// A message of the daemon, one line of JSON; `null` while the network is down.
type Order = Option<Wanted>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_domain_of_the_host_that_is_none_makes_no_shadow() {
        let mut wanted = Wanted::for_zones(&["home.taut.internal", "taut.internal", "64.100.in-addr.arpa"]);
        wanted.find_shadows(&["lan", "x/192.0.2.1#", "-x", "taut.internal"].map(String::from));
        assert_eq!(wanted.shadows, ["taut.internal.lan"]);
        wanted.zones.push(String::from("corp.example"));
        wanted.find_shadows(&[String::from("lan")]);
        assert_eq!(wanted.shadows, ["taut.internal.lan", "corp.example.lan"]);
    }

    #[test]
    fn fault_h1_a_domain_of_the_operator_gives_way_to_the_hosts_own() {
        let text = |list: &[&str]| list.iter().map(|one| String::from(*one)).collect::<Vec<_>>();
        let network = |accepted: &[&str]| NamedNetwork {
            interface: String::from("taut0"),
            servers: vec![[100, 64, 0, 0].into()],
            zone: String::from("home.taut.internal"),
            prefixes: vec!["100.64.0.0/16".parse().unwrap()],
            outside: text(&["corp.example", "dev.office.example", "other.example"]),
            accepted: text(accepted),
            filtered: Vec::new(),
            asks_exit: false,
        };
        let search = text(&["Corp.example", "office.example", "lan"]);
        let mut wanted = Wanted::new(&network(&[]), false);
        assert_eq!(wanted.give_way(&search), ["corp.example", "dev.office.example"]);
        assert_eq!(wanted.zones[2..], ["64.100.in-addr.arpa", "other.example"]);
        let mut wanted = Wanted::new(&network(&["example"]), false);
        assert_eq!(wanted.give_way(&search), [""; 0], "the user accepted them");
        assert_eq!(wanted.zones.len(), 6);
    }
}

//! Options of the daemon.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use taut_event::ServiceManager;
#[cfg(feature = "userspace")]
use taut_proxy::{Forward, Publish};
use taut_wire::control::Suites;

use crate::given::Given;
use crate::log::LogOptions;
use crate::subnets::RouteOptions;

/// The value of the setting `tun` that means no device, and the name of the network's device in messages.
pub(crate) const USERSPACE: &str = "userspace";

/// Default of [`DaemonConfig::search_sockets`].
pub const SEARCH_SOCKETS: u16 = taut_path::SOCKETS;

/// The addresses that answers for public names must not have (fault H6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerFilter {
    /// Any address may be in an answer.
    #[default]
    None,
    /// None of the overlay.
    Overlay,
    /// None of the overlay, and no other address that hosts of the Internet do not have.
    Private,
}

impl AnswerFilter {
    /// All, in the order of their strictness.
    pub const ALL: [Self; 3] = [Self::None, Self::Overlay, Self::Private];

    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Overlay => "overlay",
            Self::Private => "private",
        }
    }
}

/// The options of a daemon.
#[derive(Clone, Debug)]
pub struct DaemonConfig {
    /// Directory of the keys, the membership and the last good map.
    pub state_dir: PathBuf,
    /// Path of the local API's socket.
    pub socket: PathBuf,
    /// UDP port of the first lane. `None` lets the daemon choose: the port of the last run, the default one, or any free one.
    pub port: Option<u16>,
    /// Number of lanes, 1 to 16: threads that move packets, each with a UDP port and a queue of the TUN device. `None` if they are opened by load.
    pub lanes: Option<u8>,
    /// Name of the TUN device; `userspace` for none.
    pub tun_name: String,
    /// Where the SOCKS5 proxy of a userspace network listens.
    #[cfg(feature = "userspace")]
    pub socks5: Option<SocketAddr>,
    /// Where the HTTP proxy of a userspace network listens.
    #[cfg(feature = "userspace")]
    pub http_proxy: Option<SocketAddr>,
    /// Local ports that lead to ports of peers, in a userspace network.
    #[cfg(feature = "userspace")]
    pub forwards: Vec<Forward>,
    /// Ports of this node's overlay addresses that lead to programs, in a userspace network.
    #[cfg(feature = "userspace")]
    pub publish: Vec<Publish>,
    /// MTU of the TUN device, in bytes; `None` if it follows the packet limits of the paths.
    pub mtu: Option<u16>,
    /// Whether TUN offloads are used.
    pub tun_offload: bool,
    /// Whether the kernel steers flows to lanes, with an eBPF program.
    pub tun_steering: bool,
    /// Whether GSO is used on the UDP socket.
    pub udp_gso: bool,
    /// Whether GRO is used on the UDP socket.
    pub udp_gro: bool,
    /// Whether lanes busy-poll for 50 ms after each packet: lower latency, up to one core of CPU time per lane.
    pub low_latency: bool,
    /// Whether TCP in the overlay is asked for explicit congestion notification, and flows that keep a queue of a lane long get congestion marks.
    pub ecn: bool,
    /// Suites that may be used with Taut nodes, as far as the processor has them fast.
    pub suites: Suites,
    /// Subnet routes: what this node advertises, and whether it accepts those of its peers.
    pub routes: RouteOptions,
    /// Whether the router in front of this host is asked for port mappings.
    pub portmap: bool,
    /// Maximum number of sockets of a port search, which takes some seconds and finds a peer behind a symmetric NAT; 0 disables port searches.
    pub search_sockets: u16,
    /// Age of the WireGuard key at which it is rotated; `None` for never.
    pub rotate_key_every: Option<Duration>,
    /// Whether the host's resolver asks this node for the network's names.
    pub dns: bool,
    /// This program: with the verb `dns-helper` it changes the host's resolver for the daemon, and with `outside` it does what the daemon's sandbox refuses. Without it, there is
    /// neither a resolver nor a sandbox.
    pub program: Option<PathBuf>,
    /// Whether the daemon gives up the rights that it does not need after its start.
    pub sandbox: bool,
    /// Whether the host finds nodes by their bare names, too.
    pub dns_search: bool,
    /// Domains that the coordinator may have this node answer for although they need the user's consent: single labels, public suffixes, search domains of the host.
    pub accept_domains: Vec<String>,
    /// Servers that are asked through the exit node for names of the internet, instead of the exit node itself.
    pub exit_dns: Vec<IpAddr>,
    /// Which addresses answers for public names must not have.
    pub dns_filter: AnswerFilter,
    /// Address of the Prometheus metrics, if they are served.
    pub metrics: Option<SocketAddr>,
    /// Whether `taut down` ends the daemon, as for a daemon that `taut up` started.
    pub exit_when_down: bool,
    /// Called once each time the network is up, for tests of what code inside of the daemon can do.
    pub when_up: Option<fn()>,
    /// Lifetime of sessions in tests, shorter than WireGuard's.
    pub rekey_after: Option<Duration>,
    /// Which events are recorded, and where they are printed.
    pub log: LogOptions,
    /// The service manager that started the daemon, if it waits for messages.
    pub service: Option<Arc<ServiceManager>>,
    /// Version of the program, for users and the coordinator.
    pub version: String,
    /// The values of settings by where they come from. `settings::resolve` makes the fields follow them.
    pub given: Given,
}

impl DaemonConfig {
    /// Returns true if the node has no TUN device: a program with a TCP/IP stack takes its packets.
    pub fn is_userspace(&self) -> bool {
        cfg!(feature = "userspace") && self.tun_name == USERSPACE
    }
}

impl Default for DaemonConfig {
    fn default() -> Self {
        Self {
            state_dir: PathBuf::new(),
            socket: PathBuf::new(),
            port: None,
            lanes: None,
            tun_name: String::from("taut0"),
            #[cfg(feature = "userspace")]
            socks5: None,
            #[cfg(feature = "userspace")]
            http_proxy: None,
            #[cfg(feature = "userspace")]
            forwards: Vec::new(),
            #[cfg(feature = "userspace")]
            publish: Vec::new(),
            mtu: None,
            tun_offload: true,
            tun_steering: true,
            udp_gso: true,
            udp_gro: true,
            low_latency: false,
            ecn: true,
            suites: if cfg!(feature = "aes") { Suites::ALL } else { Suites::STOCK },
            routes: RouteOptions::default(),
            portmap: cfg!(feature = "portmap"),
            dns: true,
            program: None,
            sandbox: true,
            dns_search: false,
            accept_domains: Vec::new(),
            exit_dns: Vec::new(),
            dns_filter: AnswerFilter::default(),
            search_sockets: SEARCH_SOCKETS,
            rotate_key_every: None,
            metrics: None,
            exit_when_down: false,
            when_up: None,
            rekey_after: None,
            log: LogOptions::default(),
            service: None,
            version: String::new(),
            given: Given::default(),
        }
    }
}

//! The contract of the local API: one JSON object per line over the daemon's unix socket, a [`ApiRequest`] and then its [`ApiResponse`].
//!
//! [`SCHEMA`] is the version of all objects. Every user who can open the socket may read; only root and the daemon's own user may change settings (the kernel tells the
//! user id, `SO_PEERCRED`). `taut … --json` prints these objects.

mod exit;
mod leave;
mod log;
mod nat;
mod path;
mod peer;
mod reach;
mod relay;
mod request;
mod resolver;
mod response;
mod routes;
mod settings;
mod socket;
mod why;

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use taut_base::{PublicKey, SortedMap};
use taut_netmap::WaitingFor;

pub use exit::{ExitStatus, SeenAddress};
pub use leave::{LeaveState, LeaveStatus};
pub use log::LogPart;
pub use nat::{Filtering, MappingBehaviour, NatKind, NatStatus};
pub use path::{PathKind, PathStatus};
pub use peer::{Bytes, CongestionMarks, PathChanges, PeerStatus, SessionStatus, Traffic};
pub use reach::Reach;
pub use relay::{PortMapStatus, RelayState, RelayStatus, RelayVia, WebSocketStatus};
pub use request::ApiRequest;
pub use resolver::{ResolverBackEnd, ResolverStatus};
pub use response::ApiResponse;
pub use routes::{AdvertisedStatus, PeerRouteStatus, RoutesStatus};
pub use settings::{SettingChange, SettingStatus, SettingsStatus};
pub use socket::private_socket;
#[cfg(feature = "userspace")]
pub use taut_proxy::{Report as UserspaceStatus, Service as UserspaceServiceKind, ServiceReport as UserspaceService};
pub use why::{WayStatus, Why};

/// Version of these objects.
pub const SCHEMA: u32 = 1;

/// Maximum length of a request in bytes, 16 KiB: a join token has less than 3 KB.
pub const MAX_REQUEST: usize = 16 * 1024;

/// A coordinator that a node may ask to let it in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct CoordinatorPlace {
    /// The coordinator's URL, `http://…` or `https://…`.
    pub url: String,
    /// The coordinator's public key, which the node pins.
    pub key: PublicKey,
}

/// The reason for which a node takes no part in its network, and how a person can let it in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitingStatus {
    /// The reason: `approval`, `enabling` or `renewal`.
    pub reason: WaitingFor,
    /// Description of the event, and advice.
    #[serde(flatten)]
    pub problem: Failure,
    /// Code that a person types to approve this node.
    pub code: Option<String>,
    /// Page on which a person approves this node.
    pub page: Option<String>,
    /// Seconds until the code expires.
    pub expires_in_s: Option<f64>,
    /// Fingerprint of this host's machine key, as the coordinator shows it.
    pub machine: String,
}

/// A problem: what happened, why, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct Failure {
    /// What happened and why.
    pub message: String,
    /// What to do.
    pub hint: String,
}

impl Failure {
    /// Creates a problem from what happened and what to do about it.
    pub(crate) fn new(message: impl fmt::Display, hint: impl Into<String>) -> Self {
        Self { message: message.to_string(), hint: hint.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  {}", self.message, self.hint)
    }
}

/// The status of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, taut_json::Deserialize)]
pub struct Status {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The state of the daemon.
    pub state: NodeState,
    /// Version of the program.
    pub version: String,
    /// Process id of the daemon.
    pub pid: u32,
    /// Name of the network, once known.
    pub network: Option<String>,
    /// This node, once it is a member.
    #[serde(rename = "self")]
    pub me: Option<SelfStatus>,
    /// The connection to the coordinator, once a network was joined.
    pub coordinator: Option<CoordinatorStatus>,
    /// The problem that keeps packets from flowing, if there is one.
    pub problem: Option<Failure>,
    /// The reason for which this node takes no part in its network; `null` while it takes part.
    #[serde(default)]
    pub waiting: Option<WaitingStatus>,
    /// Seconds until this node's membership expires; `null` if it never does, or the coordinator has not said.
    #[serde(default)]
    pub expires_in_s: Option<f64>,
    /// Warnings; packets flow nevertheless.
    #[serde(default)]
    pub warnings: Vec<Failure>,
    /// The peers, by name.
    pub peers: Vec<PeerStatus>,
    /// Number of dropped packets by reason; reasons without drops are left out.
    pub drops: SortedMap<String, u64>,
    /// Counters of the handshakes that peers started, since the device came up.
    #[serde(default)]
    pub handshakes: Handshakes,
    /// The NAT between this node and the Internet, as relays see it, while the network is up.
    #[serde(default)]
    pub nat: Option<NatStatus>,
    /// The network's relays.
    #[serde(default)]
    pub relays: Vec<RelayStatus>,
    /// The subnet routes, once a network was joined.
    #[serde(default)]
    pub routes: Option<RoutesStatus>,
    /// The kill switch; `null` if it is off.
    #[serde(default)]
    pub kill_switch: Option<KillSwitchStatus>,
    /// Exit nodes, once a network was joined.
    #[serde(default)]
    pub exit: Option<ExitStatus>,
    /// The port mappings; `null` if port mapping is switched off or the network is down.
    #[serde(default)]
    pub port_mapping: Option<PortMapStatus>,
    /// The last `taut leave`, until the node joins a network again.
    #[serde(default)]
    pub leave: Option<LeaveStatus>,
    /// The daemon's sandbox; `null` if it is switched off.
    #[serde(default)]
    pub sandbox: Option<SandboxStatus>,
    /// The network without a TUN device and its services, while it is up; `null` if there is a TUN device.
    #[serde(default)]
    #[cfg(feature = "userspace")]
    pub userspace: Option<UserspaceStatus>,
}

/// The daemon's sandbox: which rights it gave up at its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct SandboxStatus {
    /// The parts in force: `core-dumps`, `swap`, `privileges`, `files`, `capabilities`, `system-calls`.
    pub on: Vec<String>,
    /// The parts that could not be had.
    pub missing: Vec<MissingPart>,
}

/// A part of the sandbox that could not be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct MissingPart {
    /// The part.
    pub part: String,
    /// The kernel's reason.
    pub reason: String,
}

/// The kill switch: what keeps packets of this host from leaving in the clear while an exit node is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, taut_json::Deserialize)]
pub struct KillSwitchStatus {
    /// Whether its rules are in force.
    pub in_force: bool,
    /// Whether it is chosen, and waits for the choice of an exit node.
    #[serde(default)]
    pub waits: bool,
    /// Number of packets that it dropped since its rules last changed.
    pub dropped: u64,
    /// The rest of a pause, in seconds; `null` without one.
    pub paused_s: Option<f64>,
}

/// Counters of the handshakes that peers started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct Handshakes {
    /// Initiations whose sender was decrypted, at the cost of one Diffie-Hellman each.
    pub computed: u64,
    /// Initiations that were answered by a response that makes a session, which costs three more Diffie-Hellman operations.
    pub answered: u64,
    /// Of the computed ones, copies that were answered with the same response again.
    pub repeated: u64,
    /// Initiations that the agent dropped by its limits for all senders and for one peer. Drops of lanes are in [`Status::drops`].
    pub over_limit: u64,
    /// Cookie replies sent.
    pub cookies: u64,
}

/// The state of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// The node is not a member of a network: run `taut up --join TOKEN`.
    NeedsJoin,
    /// The network is to be up, and there is no map yet.
    Connecting,
    /// The TUN device is up and packets flow.
    Running,
    /// The user has disconnected the node.
    Stopped,
}

/// This node.
#[derive(Clone, Debug, PartialEq, Serialize, taut_json::Deserialize)]
pub struct SelfStatus {
    /// Its name in the network.
    pub name: String,
    /// Its number.
    pub id: u64,
    /// Its overlay addresses, IPv4 first.
    pub addresses: Vec<IpAddr>,
    /// Its WireGuard key.
    pub node_key: PublicKey,
    /// UDP port of the first lane.
    pub port: u16,
    /// Preferred UDP ports that other programs use.
    #[serde(default)]
    pub ports_taken: Vec<u16>,
    /// The endpoints that peers are told of.
    pub endpoints: Vec<SocketAddr>,
    /// The TUN device, while it is up.
    pub tun: Option<TunStatus>,
    /// The UDP socket, while it is open.
    pub udp: Option<UdpStatus>,
    /// The lanes, while they run.
    #[serde(default)]
    pub lanes: Option<LanesStatus>,
    /// The names of the network; `None` from a daemon without them.
    #[serde(default)]
    pub names: Option<NamesStatus>,
}

/// The names of the network: `NODE.DOMAIN`.
#[derive(Clone, Debug, PartialEq, Serialize, taut_json::Deserialize)]
pub struct NamesStatus {
    /// The domain of the names.
    pub domain: String,
    /// The addresses at which this node answers its host's questions, IPv4 first; empty while the overlay is down.
    pub servers: Vec<IpAddr>,
    /// The host's resolver; `None` if it is left alone (`--no-dns`), and from a daemon that always leaves it alone.
    #[serde(default)]
    pub resolver: Option<ResolverStatus>,
    /// Number of the operator's records that this node answers.
    #[serde(default)]
    pub records: usize,
    /// Names of these records, up to 16.
    #[serde(default)]
    pub record_names: Vec<String>,
    /// The domains whose questions this node passes to other servers.
    #[serde(default)]
    pub domains: Vec<DomainStatus>,
    /// The servers that this host asks for names of the internet through its exit node; `null` if no exit node is chosen.
    #[serde(default)]
    pub internet: Option<InternetNames>,
}

/// The servers that a host asks for names of the internet through its exit node.
#[derive(Clone, Debug, PartialEq, Serialize, taut_json::Deserialize)]
pub struct InternetNames {
    /// Name of the exit node; `null` while none can be used. Then nobody is asked.
    pub through: Option<String>,
    /// The exit node itself, or the servers that are asked through it.
    pub servers: Vec<IpAddr>,
    /// Those that do not answer, with the reason.
    pub troubles: Vec<ServerTrouble>,
}

/// A domain whose questions go to other servers, through the overlay.
#[derive(Clone, Debug, PartialEq, Serialize, taut_json::Deserialize)]
pub struct DomainStatus {
    /// The domain.
    pub domain: String,
    /// Its servers, first choice first.
    pub servers: Vec<IpAddr>,
    /// Servers that do not answer, with the reason.
    pub troubles: Vec<ServerTrouble>,
    /// True if the host's resolver does not ask for it, because one of the host's own search domains has these names.
    #[serde(default)]
    pub yields: bool,
}

/// A server that does not answer.
#[derive(Clone, Debug, PartialEq, Serialize, taut_json::Deserialize)]
pub struct ServerTrouble {
    /// The server.
    pub server: IpAddr,
    /// The reason, of its last question.
    pub reason: String,
}

/// The lanes: threads that move packets.
#[derive(Clone, Debug, PartialEq, Serialize, taut_json::Deserialize)]
pub struct LanesStatus {
    /// UDP ports, one per lane that runs.
    pub ports: Vec<u16>,
    /// Whether lanes open and close by load.
    #[serde(default)]
    pub auto: bool,
    /// The most lanes that may run.
    #[serde(default)]
    pub most: u8,
    /// The reason why more lanes could not be started, if they were needed and could not.
    #[serde(default)]
    pub problem: Option<String>,
    /// The steering of the host's packets to lanes: `kernel`, or `first-lane` if the kernel does not accept the program.
    pub steering: String,
    /// Packets and superpackets of the host that one lane read and another one sealed.
    pub handed_over: u64,
    /// Datagrams that came to the port of another lane than their own.
    pub strays: u64,
}

/// The TUN device.
#[derive(Clone, Debug, PartialEq, Serialize, taut_json::Deserialize)]
pub struct TunStatus {
    /// Name of the interface.
    pub name: String,
    /// MTU in bytes.
    pub mtu: u16,
    /// Its source; `None` from a daemon of release 0.1.0, whose MTU is fixed.
    #[serde(default)]
    pub mtu_by: Option<MtuSource>,
    /// Whether the device carries IPv6; `false` if IPv6 is disabled on the host.
    #[serde(default = "yes")]
    pub ipv6: bool,
    /// Offloads that the kernel granted: `vnet-header`, `checksum`, `tso`, `uso`.
    pub offload: Vec<String>,
}

/// The source of the MTU of the TUN device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MtuSource {
    /// The limits of the paths to peers.
    Paths,
    /// The user's `--mtu`.
    Setting,
    /// Another program, which changed it.
    Program,
    /// A value of a later release.
    #[serde(other)]
    Other,
}

/// The default for a daemon of release 0.1.0, which does not run without IPv6.
fn yes() -> bool {
    true
}

/// The UDP socket.
#[derive(Clone, Debug, PartialEq, Serialize, taut_json::Deserialize)]
pub struct UdpStatus {
    /// Offloads in force: `gso`, `gro`.
    pub offload: Vec<String>,
    /// Send buffer, in bytes, as the kernel granted it.
    pub send_buffer: usize,
    /// Receive buffer, in bytes, as the kernel granted it.
    pub receive_buffer: usize,
}

/// The connection to the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, taut_json::Deserialize)]
pub struct CoordinatorStatus {
    /// The URL in use, or the first one.
    pub url: String,
    /// Whether the control channel is open. Traffic does not depend on it.
    pub connected: bool,
    /// The reason why the last attempt failed, while not connected.
    pub last_error: Option<String>,
    /// Seconds since the control channel broke; `null` while it is open, and if none was open since the daemon started.
    #[serde(default)]
    pub disconnected_s: Option<f64>,
    /// Seconds until the next attempt to connect; `null` while connected, and if no attempt follows.
    #[serde(default)]
    pub retry_in_s: Option<f64>,
    /// Version of the map in force.
    pub map_version: u64,
}

//! The local API: one JSON object per line over the daemon's unix socket, a [`Request`] and then its [`Response`].
//!
//! Everything here carries [`SCHEMA`]. Whoever may open the socket may read; only root and the daemon's own user may change
//! (the kernel says who asks, `SO_PEERCRED`). `taut … --json` prints these very objects.

mod leave;
mod log;
mod nat;
mod path;
mod peer;
mod relay;
mod socket;
mod why;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use taut_base::{Prefix, PublicKey};

pub use leave::{LeaveState, LeaveStatus};
pub use log::LogPart;
pub use nat::{Filtering, Mapping, NatKind, NatStatus};
pub use path::{PathKind, PathStatus};
pub use peer::{Bytes, Changes, PeerStatus, SessionStatus, Traffic};
pub use relay::{PortMapStatus, RelayState, RelayStatus, RelayVia, WebSocketStatus};
pub use socket::private_socket;
pub use why::{WayStatus, Why};

/// Version of these objects.
pub const SCHEMA: u32 = 1;

/// Longest line that is read, in bytes: a join token is below 3 KB.
pub const MAX_REQUEST: usize = 16 * 1024;

/// What a local user asks of the daemon.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Request {
    /// Reads everything; answered by [`Response::Status`].
    Status,
    /// Asks why packets to a peer go the way they go; answered by [`Response::Why`].
    Why {
        /// The peer's name, or one of its overlay addresses.
        peer: String,
    },
    /// Reads the figures as Prometheus does; answered by [`Response::Metrics`].
    Metrics,
    /// Connects: with a token joins the network first. Answered at once; the state in [`Status`] tells how it goes.
    Up {
        /// The join token's text.
        #[serde(default)]
        join: Option<String>,
        /// Name that the node would like; the host's own otherwise.
        #[serde(default)]
        name: Option<String>,
    },
    /// Disconnects and removes the TUN device with its routes; remembered over a restart.
    Down,
    /// Gives up the membership and removes the keys. Answered at once; [`Status::leave`] tells how it goes.
    Leave,
    /// Consents to other overlay prefixes, which the coordinator wants and [`Status::problem`] names.
    AcceptPrefixes {
        /// All prefixes that change, and no others.
        prefixes: Vec<Prefix>,
    },
    /// Reads events; answered by [`Response::Log`]. For root and the daemon's own user only. A reader that follows the log asks again and again: nothing is
    /// kept for it.
    Log {
        /// The number of the first line that is wanted, [`LogPart::next`] of the last answer; without one the oldest that is kept.
        #[serde(default)]
        from: Option<u64>,
    },
    /// Has other events recorded, until the daemon ends.
    LogLevel {
        /// As `--log-level` takes it.
        levels: String,
    },
}

impl Request {
    /// Whether it changes something, and so needs a privileged user.
    pub fn changes(&self) -> bool {
        matches!(self, Self::Up { .. } | Self::Down | Self::Leave | Self::AcceptPrefixes { .. } | Self::LogLevel { .. })
    }

    /// Returns true if it reads what is for root and the daemon's own user only: who this node talked to, when, and from where.
    pub fn is_private(&self) -> bool {
        matches!(self, Self::Log { .. })
    }
}

/// What the daemon answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Response {
    /// To [`Request::Status`].
    Status(Box<Status>),
    /// To [`Request::Why`].
    Why(Box<Why>),
    /// To [`Request::Metrics`].
    Metrics {
        /// Prometheus' text format.
        text: String,
    },
    /// To [`Request::Log`].
    Log(Box<LogPart>),
    /// It was done, or is under way.
    Done,
    /// It was not done.
    Failed(Failure),
}

/// What happened, why, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What happened and why.
    pub message: String,
    /// What to do.
    pub hint: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  {}", self.message, self.hint)
    }
}

/// Everything a user can see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Where the daemon stands.
    pub state: State,
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
    /// What stands in the way, in words for the user.
    pub problem: Option<Failure>,
    /// What the user should know though packets flow.
    #[serde(default)]
    pub warnings: Vec<Failure>,
    /// Everybody else, by name.
    pub peers: Vec<PeerStatus>,
    /// Packets that were dropped, by reason; reasons that never happened are left out.
    pub drops: BTreeMap<String, u64>,
    /// What became of the handshakes that others began, since the device came up.
    #[serde(default)]
    pub handshakes: Handshakes,
    /// What is between this node and the internet, as far as relays told; while the network is up.
    #[serde(default)]
    pub nat: Option<NatStatus>,
    /// The network's relays.
    #[serde(default)]
    pub relays: Vec<RelayStatus>,
    /// What the gateway was asked to do for us; `null` where it is switched off, or the network is down.
    #[serde(default)]
    pub port_mapping: Option<PortMapStatus>,
    /// The last `taut leave`, until the node joins a network again.
    #[serde(default)]
    pub leave: Option<LeaveStatus>,
}

/// What became of the handshakes that others began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handshakes {
    /// Initiations that were computed for: one Diffie-Hellman each.
    pub computed: u64,
    /// Of these, answered by a response that makes a session: three more.
    pub answered: u64,
    /// Of these, copies that got the same response again.
    pub repeated: u64,
    /// Dropped by the agent because they were too many, of all or of one peer. What a lane drops is in [`Status::drops`].
    pub over_limit: u64,
    /// Cookie replies sent.
    pub cookies: u64,
}

/// Where the daemon stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Never joined a network: `taut up --join TOKEN`.
    NeedsJoin,
    /// Asked to be up, no map yet.
    Connecting,
    /// The TUN device is up and packets flow.
    Running,
    /// Asked to be down.
    Stopped,
}

/// This node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelfStatus {
    /// Its name in the network.
    pub name: String,
    /// Its number.
    pub id: u64,
    /// Its overlay addresses, IPv4 first.
    pub addresses: Vec<IpAddr>,
    /// Its WireGuard key.
    pub node_key: PublicKey,
    /// UDP port of its first lane.
    pub port: u16,
    /// UDP ports that another program has, and that would have been used otherwise.
    #[serde(default)]
    pub ports_taken: Vec<u16>,
    /// Where it tells others that it may be reached.
    pub endpoints: Vec<SocketAddr>,
    /// The TUN device, while it is up.
    pub tun: Option<TunStatus>,
    /// UDP socket: what the kernel granted.
    pub udp: Option<UdpStatus>,
    /// The lanes, while they run.
    #[serde(default)]
    pub lanes: Option<LanesStatus>,
}

/// The threads that move packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LanesStatus {
    /// UDP ports, one per lane.
    pub ports: Vec<u16>,
    /// Who says which packet of the host is which lane's: `kernel`, or `first-lane` where the kernel takes no program for it.
    pub steering: String,
    /// Packets and superpackets of the host that one lane read and another sealed.
    pub handed_over: u64,
    /// Datagrams that came to another lane's port than theirs.
    pub strays: u64,
}

/// The TUN device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TunStatus {
    /// Name of the interface.
    pub name: String,
    /// MTU in bytes.
    pub mtu: u16,
    /// Whether it carries IPv6; `false` where IPv6 is switched off on the host.
    #[serde(default = "yes")]
    pub ipv6: bool,
    /// Offloads that the kernel granted: `vnet-header`, `checksum`, `tso`, `uso`.
    pub offload: Vec<String>,
}

/// A daemon of release 0.1.0 does not run without IPv6.
fn yes() -> bool {
    true
}

/// The UDP socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UdpStatus {
    /// Offloads in force: `gso`, `gro`.
    pub offload: Vec<String>,
    /// Send buffer, in bytes, as the kernel granted it.
    pub send_buffer: usize,
    /// Receive buffer, in bytes, as the kernel granted it.
    pub receive_buffer: usize,
}

/// The connection to the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoordinatorStatus {
    /// The URL in use, or the first one.
    pub url: String,
    /// Whether the control channel is open. Traffic does not depend on it.
    pub connected: bool,
    /// Why the last attempt failed, while not connected.
    pub last_error: Option<String>,
    /// Version of the map in force.
    pub map_version: u64,
}

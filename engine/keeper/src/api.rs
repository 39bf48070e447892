//! The local API: one JSON object per line over the daemon's unix socket, a [`Request`] and then its [`Response`].
//!
//! Everything here carries [`SCHEMA`]. Whoever may open the socket may read; only root and the daemon's own user may change
//! (the kernel says who asks, `SO_PEERCRED`). `taut … --json` prints these very objects.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use taut_base::PublicKey;

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
}

impl Request {
    /// Whether it changes something, and so needs a privileged user.
    pub fn changes(&self) -> bool {
        !matches!(self, Self::Status)
    }
}

/// What the daemon answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Response {
    /// To [`Request::Status`].
    Status(Box<Status>),
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
    /// Everybody else, by name.
    pub peers: Vec<PeerStatus>,
    /// Packets that were dropped, by reason; reasons that never happened are left out.
    pub drops: BTreeMap<String, u64>,
    /// What became of the handshakes that others began, since the device came up.
    #[serde(default)]
    pub handshakes: Handshakes,
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
    /// Dropped by the keeper because they were too many, of all or of one peer. What a lane drops is in [`Status::drops`].
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
    /// Offloads that the kernel granted: `vnet-header`, `checksum`, `tso`, `uso`.
    pub offload: Vec<String>,
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

/// Another node, seen from this one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: u64,
    /// Its overlay addresses, IPv4 first.
    pub addresses: Vec<IpAddr>,
    /// Its WireGuard key.
    pub node_key: PublicKey,
    /// Whether it was connected to the coordinator when last heard; `null` while the coordinator is away.
    pub online: Option<bool>,
    /// By which way packets go to it.
    pub path: PathStatus,
    /// The session in use.
    pub session: Option<SessionStatus>,
    /// Bytes of IP packets received from it.
    pub rx_bytes: u64,
    /// Bytes of IP packets sent to it.
    pub tx_bytes: u64,
    /// Seconds since the last finished handshake.
    pub last_handshake_s: Option<f64>,
    /// Milliseconds to it and back, as measured when the session began.
    #[serde(default)]
    pub round_trip_ms: Option<f64>,
    /// Where it says that it may be reached.
    pub candidates: Vec<SocketAddr>,
}

/// By which way packets go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathStatus {
    /// `direct`, or `none` before the first handshake.
    pub kind: PathKind,
    /// The peer's endpoint, on a direct path.
    pub endpoint: Option<SocketAddr>,
}

/// Kinds of path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathKind {
    /// No path is proven yet.
    None,
    /// Straight to one of the peer's endpoints.
    Direct,
}

impl fmt::Display for PathStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.endpoint) {
            (PathKind::Direct, Some(endpoint)) => write!(f, "direct via {endpoint}"),
            (PathKind::Direct, None) => f.write_str("direct"),
            (PathKind::None, _) => f.write_str("no path yet"),
        }
    }
}

/// A session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Seconds since its handshake.
    pub age_s: f64,
    /// Its AEAD: `ChaCha20Poly1305` or `AES256GCM`.
    pub suite: String,
    /// Its lanes that carry data.
    #[serde(default)]
    pub lanes_in_use: u8,
    /// Its lanes: as many as that of the two nodes has that has more.
    #[serde(default)]
    pub lanes: u8,
    /// Sessions finished with this peer since the daemon started, this one included.
    pub established: u64,
}

//! Another node, as the local API shows it.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use taut_base::PublicKey;

use super::PathStatus;

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
    /// The same by the kind of way they took.
    #[serde(default)]
    pub traffic: Traffic,
    /// Seconds since the last finished handshake.
    pub last_handshake_s: Option<f64>,
    /// Milliseconds to it and back by the path in use, as the last answered probe measured.
    #[serde(default)]
    pub round_trip_ms: Option<f64>,
    /// Where it says that it may be reached.
    pub candidates: Vec<SocketAddr>,
    /// What changes of its path and its lanes came to.
    #[serde(default)]
    pub changes: Changes,
}

/// What changes of a peer's path and lanes came to, since the daemon started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Bytes of packets to it that were held for a moment, so that none was overtaken.
    pub held_bytes: u64,
    /// Changes that were given up because more would have had to be held than may be.
    pub given_up: u64,
    /// Changes of its lanes that it asked for too soon after another, and that were ignored.
    pub ignored: u64,
}

/// Bytes of IP packets by the kind of way they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Straight to and from the peer.
    pub direct: Bytes,
    /// By a relay.
    pub relayed: Bytes,
}

/// Bytes in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// Received.
    pub received: u64,
    /// Sent.
    pub sent: u64,
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

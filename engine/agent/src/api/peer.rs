//! A peer in the local API.

use std::net::{IpAddr, SocketAddr};

use serde::Serialize;
use taut_base::PublicKey;

use super::PathStatus;

/// The status of a peer.
#[derive(Clone, Debug, PartialEq, Serialize, taut_json::Deserialize)]
pub struct PeerStatus {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: u64,
    /// Its overlay addresses, IPv4 first.
    pub addresses: Vec<IpAddr>,
    /// Its WireGuard key.
    pub node_key: PublicKey,
    /// Whether the peer is connected to the coordinator; `null` while this node is not.
    pub online: Option<bool>,
    /// The path of packets to it.
    pub path: PathStatus,
    /// The session in use.
    pub session: Option<SessionStatus>,
    /// Bytes of IP packets received from it.
    pub rx_bytes: u64,
    /// Bytes of IP packets sent to it.
    pub tx_bytes: u64,
    /// The same bytes by kind of path.
    #[serde(default)]
    pub traffic: Traffic,
    /// Seconds since the last finished handshake.
    pub last_handshake_s: Option<f64>,
    /// Round-trip time in milliseconds on the path in use, from the last answered probe.
    #[serde(default)]
    pub round_trip_ms: Option<f64>,
    /// The peer's endpoints in the map.
    pub candidates: Vec<SocketAddr>,
    /// Effects of changes of its path and its lanes.
    #[serde(default)]
    pub changes: PathChanges,
    /// Packets that got a congestion mark on this node, because their flow kept one of its queues long.
    #[serde(default)]
    pub congestion_marks: CongestionMarks,
}

/// Packets of a peer's flows that were marked on this node, since the daemon started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct CongestionMarks {
    /// Packets from the peer, which filled the receive queue of a socket.
    pub received: u64,
    /// Packets and superpackets to the peer, which filled the queue of the TUN device.
    pub sent: u64,
}

/// Effects of changes of a peer's path and lanes, since the daemon started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct PathChanges {
    /// Bytes of packets to it that were held for a moment to keep their order.
    pub held_bytes: u64,
    /// Abandoned changes, which would have exceeded the limit on held packets.
    pub given_up: u64,
    /// Changes of its lanes that came too soon after another one and were deferred.
    pub ignored: u64,
}

/// Bytes of IP packets by kind of path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct Traffic {
    /// Directly to and from the peer.
    pub direct: Bytes,
    /// Through a relay.
    pub relayed: Bytes,
}

/// Bytes in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct Bytes {
    /// Received.
    pub received: u64,
    /// Sent.
    pub sent: u64,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Serialize, taut_json::Deserialize)]
pub struct SessionStatus {
    /// Seconds since its handshake.
    pub age_s: f64,
    /// Its AEAD: `ChaCha20Poly1305`, `AES256GCM` or `AEGIS256X4`.
    pub suite: String,
    /// Its lanes that carry data.
    #[serde(default)]
    pub lanes_in_use: u8,
    /// Its lanes: as many as the node with more lanes has.
    #[serde(default)]
    pub lanes: u8,
    /// The reason why it has no more lanes: `native`, `relayed`, `ports-closed`, `opening`, `fixed`, `one-core`, `no-gain` or `not-needed`; null if all are open.
    #[serde(default)]
    pub lanes_limit: Option<String>,
    /// Sessions finished with this peer since the daemon started, this one included.
    pub established: u64,
}

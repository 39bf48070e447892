//! Explanations of paths in the local API.

use std::net::SocketAddr;

use serde::Serialize;

use super::{NatKind, NatStatus, PathStatus, SessionStatus};

/// The path to a peer, its reason, and what was tried.
#[derive(Clone, Debug, PartialEq, Serialize, taut_json::Deserialize)]
pub struct Why {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// The peer's name.
    pub peer: String,
    /// Its number.
    pub id: u64,
    /// The path of packets to it.
    pub path: PathStatus,
    /// Round-trip time in milliseconds on this path.
    pub round_trip_ms: Option<f64>,
    /// The reason why the path is not direct, as a code of docs/paths.md; `null` for a direct path.
    pub cause: Option<String>,
    /// The path and its reason, in sentences.
    pub said: Vec<String>,
    /// The fix, in sentences; empty if none is needed.
    pub mend: Vec<String>,
    /// The NAT in front of this node.
    pub ours: Option<NatStatus>,
    /// The NAT in front of the peer, as the peer reports it.
    pub theirs: NatKind,
    /// The session with the peer, with its cipher, its lanes and why they are not more; `null` if there is none.
    #[serde(default)]
    pub session: Option<SessionStatus>,
    /// The ways that were tried: relays, then endpoints of the peer.
    pub ways: Vec<WayStatus>,
}

/// The state of one way: from the first lane's socket to an endpoint of the peer, or to a relay.
#[derive(Clone, Debug, PartialEq, Serialize, taut_json::Deserialize)]
pub struct WayStatus {
    /// The peer's endpoint, or the relay's.
    pub endpoint: SocketAddr,
    /// The relay's name, for a way through a relay.
    pub relay: Option<String>,
    /// The sources of the endpoint: `map`, `peer`, `heard` (the peer's packets came from there), `relay`.
    pub known_from: Vec<String>,
    /// The state, as a code.
    pub state: String,
    /// Probes sent.
    pub sent: u64,
    /// Probes that were answered by this way.
    pub answered: u64,
    /// Probes that were answered by another way.
    pub answered_elsewhere: u64,
    /// Probes of the peer that came by this way.
    pub heard: u64,
    /// Seconds since an authentic packet of the peer came by this way.
    pub last_heard_s: Option<f64>,
    /// Probes that the probe budget of the address or of the node refused.
    pub held_back: u64,
    /// Seconds since the way is proven.
    pub proven_s: Option<f64>,
    /// The endpoint from which the peer saw this node's probes come.
    pub seen_as: Option<SocketAddr>,
    /// Round-trip time in milliseconds.
    pub round_trip_ms: Option<f64>,
    /// Share of the latest probes that were not answered, 0 to 1.
    pub loss: Option<f64>,
    /// Bytes of the longest inner packet that passes, if longer ones do not.
    #[serde(default)]
    pub fits: Option<u16>,
    /// Bytes of the longest packet that is sent this way in one datagram; `null` if the way does not lead to the peer.
    #[serde(default)]
    pub mtu: Option<u16>,
    /// The reason why no longer packets are sent, as a code: `searching`, `probes`, `unanswered`, `interface`, `mtu` or `largest`.
    #[serde(default)]
    pub mtu_cause: Option<String>,
    /// The meaning of these values, in words.
    pub meaning: String,
}

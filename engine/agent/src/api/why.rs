//! Why packets to a peer go the way they go.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{NatKind, NatStatus, PathStatus};

/// The path to a peer, its reason, and what was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// The peer's name.
    pub peer: String,
    /// Its number.
    pub id: u64,
    /// By which way packets go to it.
    pub path: PathStatus,
    /// Milliseconds to it and back by this way.
    pub round_trip_ms: Option<f64>,
    /// What keeps the path from being direct, in a word; `null` when it is. docs/paths.md lists the words.
    pub cause: Option<String>,
    /// The path and its reason, in sentences.
    pub said: Vec<String>,
    /// What would mend it, in sentences; empty where nothing is to be mended.
    pub mend: Vec<String>,
    /// What is in front of this node.
    pub ours: Option<NatStatus>,
    /// What is in front of the peer, as it says itself.
    pub theirs: NatKind,
    /// What was tried: relays, then endpoints of the peer.
    pub ways: Vec<WayStatus>,
}

/// What was tried by one way: from the first lane's socket to an endpoint of the peer, or to a relay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WayStatus {
    /// The peer's endpoint, or the relay's.
    pub endpoint: SocketAddr,
    /// The relay's name, if it is one.
    pub relay: Option<String>,
    /// Who named it: `map`, `peer`, `heard` (its packets came from there), `relay`.
    pub known_from: Vec<String>,
    /// How it stands, in a word.
    pub state: String,
    /// Probes sent.
    pub sent: u64,
    /// Of these, answered by this way.
    pub answered: u64,
    /// Of these, answered by another way.
    pub answered_elsewhere: u64,
    /// Probes of the peer that came by it.
    pub heard: u64,
    /// Seconds since an authentic packet of the peer came by it.
    pub last_heard_s: Option<f64>,
    /// Probes that were held back, because there were too many to that address or in all.
    pub held_back: u64,
    /// Seconds since it leads to the peer.
    pub proven_s: Option<f64>,
    /// Where the peer saw our probes come from.
    pub seen_as: Option<SocketAddr>,
    /// Milliseconds there and back.
    pub round_trip_ms: Option<f64>,
    /// Share of the latest probes that were not answered, 0 to 1.
    pub loss: Option<f64>,
    /// Bytes of the longest inner packet that passes, where longer ones do not.
    #[serde(default)]
    pub fits: Option<u16>,
    /// What all that means, in words.
    pub meaning: String,
}

//! The path to a peer in the local API.

use std::fmt;
use std::net::SocketAddr;

use serde::Serialize;

/// The path of packets to a peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, taut_json::Deserialize)]
pub struct PathStatus {
    /// The kind of path.
    pub kind: PathKind,
    /// The peer's endpoint, on a direct path.
    pub endpoint: Option<SocketAddr>,
    /// The relay's name, on a relayed path.
    #[serde(default)]
    pub relay: Option<String>,
    /// Seconds since packets use this path.
    #[serde(default)]
    pub since_s: Option<f64>,
    /// Share of the latest probes on this path that were not answered, 0 to 1; `null` before there were enough probes.
    #[serde(default)]
    pub loss: Option<f64>,
    /// True if nothing answers through this path, and there is no other one.
    #[serde(default)]
    pub silent: bool,
    /// Bytes of the longest packet that the path in use carries; `null` until it was found. Longer ones are sent in parts.
    #[serde(default)]
    pub mtu: Option<u16>,
}

impl PathStatus {
    /// Creates a direct path to this endpoint.
    pub fn direct(endpoint: Option<SocketAddr>) -> Self {
        Self { kind: PathKind::Direct, endpoint, ..Self::default() }
    }

    /// Creates a path through the relay with this name.
    pub fn relayed(relay: impl Into<String>) -> Self {
        Self { kind: PathKind::Relayed, relay: Some(relay.into()), ..Self::default() }
    }
}

/// Kinds of path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, taut_json::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathKind {
    /// No path is proven yet.
    #[default]
    None,
    /// Directly to one of the peer's endpoints.
    Direct,
    /// Through a relay, which cannot read the packets.
    Relayed,
}

impl PathKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::None, Self::Direct, Self::Relayed];

    /// Returns the name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Direct => "direct",
            Self::Relayed => "relayed",
        }
    }
}

impl fmt::Display for PathStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.endpoint, &self.relay) {
            (PathKind::Direct, Some(endpoint), _) => write!(f, "direct via {endpoint}"),
            (PathKind::Direct, None, _) => f.write_str("direct"),
            (PathKind::Relayed, _, Some(relay)) => write!(f, "relayed by {relay}"),
            (PathKind::Relayed, _, None) => f.write_str("relayed"),
            (PathKind::None, ..) => f.write_str("no path yet"),
        }
    }
}

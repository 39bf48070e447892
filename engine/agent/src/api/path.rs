//! By which way packets go to a peer, as the local API shows it.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// By which way packets go.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathStatus {
    /// What is between.
    pub kind: PathKind,
    /// The peer's endpoint, on a direct path.
    pub endpoint: Option<SocketAddr>,
    /// The relay's name, on a relayed one.
    #[serde(default)]
    pub relay: Option<String>,
    /// Seconds since packets go this way.
    #[serde(default)]
    pub since_s: Option<f64>,
    /// Share of the latest probes on it that were not answered, 0 to 1; `null` before there were enough to say.
    #[serde(default)]
    pub loss: Option<f64>,
}

impl PathStatus {
    /// Straight to this endpoint.
    pub fn direct(endpoint: Option<SocketAddr>) -> Self {
        Self { kind: PathKind::Direct, endpoint, ..Self::default() }
    }

    /// By the relay of this name.
    pub fn relayed(relay: impl Into<String>) -> Self {
        Self { kind: PathKind::Relayed, relay: Some(relay.into()), ..Self::default() }
    }
}

/// Kinds of path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathKind {
    /// No path is proven yet.
    #[default]
    None,
    /// Straight to one of the peer's endpoints.
    Direct,
    /// By a relay, which forwards what it cannot read.
    Relayed,
}

impl PathKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Direct, Self::Relayed];

    /// As JSON has it.
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

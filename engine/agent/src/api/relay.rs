//! Relays and port mappings, as the local API shows them.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// A relay of the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelayStatus {
    /// What the network calls it.
    pub name: String,
    /// Where it is.
    pub endpoints: Vec<SocketAddr>,
    /// How this node stands with it.
    pub state: RelayState,
    /// Whether others are told to reach this node here.
    pub home: bool,
    /// Milliseconds to it and back; `null` before it answered.
    pub latency_ms: Option<f64>,
    /// What went wrong last, if it is not well.
    pub problem: Option<String>,
    /// By what it is reached; `null` while it is not.
    #[serde(default)]
    pub via: Option<RelayVia>,
    /// The WebSocket to it, while there is one because UDP is not answered.
    #[serde(default)]
    pub websocket: Option<WebSocketStatus>,
}

/// By what frames go to a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RelayVia {
    /// UDP, as it should be.
    Udp,
    /// WebSocket: the relay does not answer by UDP.
    Websocket,
}

impl RelayVia {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Udp, Self::Websocket];

    /// As JSON has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Websocket => "websocket",
        }
    }
}

/// A WebSocket to a relay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebSocketStatus {
    /// Where to.
    pub url: String,
    /// Whether it is open.
    pub open: bool,
    /// The address of this host at which packets enter it.
    pub local: Option<SocketAddr>,
    /// Why it is not, or was not the last time.
    pub problem: Option<String>,
}

/// How a node stands with a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RelayState {
    /// Nobody is reached by it.
    Idle,
    /// Was asked to serve this node, and did not answer yet.
    Binding,
    /// Serves this node.
    Bound,
    /// Does not answer, or refused.
    Unreachable,
}

impl RelayState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Binding, Self::Bound, Self::Unreachable];

    /// As JSON has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Binding => "binding",
            Self::Bound => "bound",
            Self::Unreachable => "unreachable",
        }
    }
}

/// What the gateway does for this node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortMapStatus {
    /// `PCP`, `NAT-PMP` or `UPnP-IGD`; `null` when no gateway speaks any.
    pub protocol: Option<String>,
    /// The gateway that was asked.
    pub gateway: Option<IpAddr>,
    /// The outside endpoints that it promised.
    pub mapped: Vec<SocketAddr>,
    /// What went wrong, if nothing is mapped.
    pub problem: Option<String>,
}

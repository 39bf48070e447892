//! Relays and port mappings in the local API.

use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

/// A relay of the network.
#[derive(Clone, Debug, PartialEq, Serialize, taut_json::Deserialize)]
pub struct RelayStatus {
    /// The relay's name.
    pub name: String,
    /// The relay's endpoints.
    pub endpoints: Vec<SocketAddr>,
    /// The state of the binding.
    pub state: RelayState,
    /// Whether it is a home relay, through which peers reach this node.
    pub home: bool,
    /// Round-trip time in milliseconds; `null` before it answered.
    pub latency_ms: Option<f64>,
    /// The last problem, if the relay does not work.
    pub problem: Option<String>,
    /// The transport to it; `null` while it is not reached.
    #[serde(default)]
    pub via: Option<RelayVia>,
    /// The WebSocket to it, while there is one because UDP is not answered.
    #[serde(default)]
    pub websocket: Option<WebSocketStatus>,
}

/// Transports to a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RelayVia {
    /// UDP.
    Udp,
    /// WebSocket, because the relay does not answer by UDP.
    Websocket,
}

impl RelayVia {
    /// All values.
    pub const ALL: [Self; 2] = [Self::Udp, Self::Websocket];

    /// Returns the name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Websocket => "websocket",
        }
    }
}

/// A WebSocket to a relay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct WebSocketStatus {
    /// The URL.
    pub url: String,
    /// Whether the connection is open.
    pub open: bool,
    /// The local address of the bridge.
    pub local: Option<SocketAddr>,
    /// The reason of the last failure.
    pub problem: Option<String>,
}

/// States of the binding to a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RelayState {
    /// Not in use.
    Idle,
    /// Asked to serve this node, not answered yet.
    Binding,
    /// Serves this node.
    Bound,
    /// Does not answer, or refused.
    Unreachable,
}

impl RelayState {
    /// All values.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Binding, Self::Bound, Self::Unreachable];

    /// Returns the name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Binding => "binding",
            Self::Bound => "bound",
            Self::Unreachable => "unreachable",
        }
    }
}

/// The port mappings of the router in front of this host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct PortMapStatus {
    /// `PCP`, `NAT-PMP` or `UPnP-IGD`; `null` when no gateway speaks any.
    pub protocol: Option<String>,
    /// The gateway that was asked.
    pub gateway: Option<IpAddr>,
    /// The outside endpoints that it reported.
    pub mapped: Vec<SocketAddr>,
    /// The reason why nothing is mapped.
    pub problem: Option<String>,
}

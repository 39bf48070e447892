//! Requests and answers of `/api/v1/relays` and `/api/v1/ticket-key`.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use taut_base::{PublicKey, RelayId};
use utoipa::ToSchema;

use super::SchemaVersion;

/// A relay of a network.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Relay)]
pub(crate) struct RelayEntry {
    /// its number in network maps; 0 is the coordinator's own relay
    #[schema(value_type = u32)]
    pub(crate) id: RelayId,
    /// name of its network
    pub(crate) network: String,
    /// a DNS label
    pub(crate) name: String,
    /// its X25519 key, base64
    #[schema(value_type = String)]
    pub(crate) key: PublicKey,
    /// addresses and UDP ports; an unspecified address stands for the address at which a node reaches the coordinator
    #[schema(value_type = Vec<String>)]
    pub(crate) endpoints: Vec<SocketAddr>,
    /// second UDP port that answers STUN; 0 if there is none
    pub(crate) stun_port: u16,
    /// WebSocket URL for nodes whose UDP is blocked; null if there is none
    #[schema(required = true)]
    pub(crate) web: Option<String>,
    /// true if it runs inside the coordinator
    pub(crate) own: bool,
    /// number of nodes that report that they are bound to it
    pub(crate) bound: u64,
    /// time at which it was added, in seconds since 1970; null for the coordinator's own relay
    #[schema(required = true)]
    pub(crate) created_at: Option<i64>,
}

/// `GET /api/v1/relays`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RelayList {
    pub(crate) schema: SchemaVersion,
    pub(crate) relays: Vec<RelayEntry>,
}

/// Answer to the addition of a relay.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RelayAnswer {
    pub(crate) schema: SchemaVersion,
    pub(crate) relay: RelayEntry,
}

/// Answer to the removal of a relay.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RemovedRelay {
    pub(crate) schema: SchemaVersion,
    pub(crate) removed: RelayEntry,
}

/// `GET /api/v1/ticket-key`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct TicketKeyAnswer {
    pub(crate) schema: SchemaVersion,
    /// an Ed25519 public key, base64
    pub(crate) ticket_key: String,
}

/// `POST /api/v1/relays`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct AddRelay {
    /// name or number of a network; optional while there is only one
    pub(crate) network: Option<String>,
    /// a DNS label
    #[schema(min_length = 1, max_length = 63, pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")]
    pub(crate) name: String,
    /// its X25519 key, base64
    pub(crate) key: String,
    /// addresses and UDP ports, such as 203.0.113.7:3478
    #[serde(default)]
    pub(crate) endpoints: Vec<String>,
    /// second UDP port that answers STUN; 0, the default, if there is none
    #[schema(maximum = 65_535)]
    pub(crate) stun_port: Option<u16>,
    /// wss:// or ws:// URL for nodes whose UDP is blocked
    pub(crate) web: Option<String>,
}

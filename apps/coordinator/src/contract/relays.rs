//! Requests and answers of `/api/v1/relays`, `/api/v1/relay-token` and `/api/v1/ticket-key`.

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
    /// true while it says that it can hardly take more nodes; nodes that are not bound to it prefer others
    #[serde(default)]
    pub(crate) busy: bool,
    /// its last report on its channel to a coordinator; null for a relay without a channel and for the coordinator's own relay
    #[schema(required = true)]
    #[serde(default)]
    pub(crate) channel: Option<RelayChannel>,
}

/// The last report of a relay on its channel.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RelayChannel {
    /// version of its program
    pub(crate) version: String,
    /// time of its last report, in seconds since 1970
    pub(crate) told_at: i64,
    /// null before its first report
    #[schema(required = true)]
    pub(crate) load: Option<RelayLoadEntry>,
}

/// The load of a relay.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = RelayLoad)]
pub(crate) struct RelayLoadEntry {
    /// share of its scarcest resource in use, in thousandths: places for nodes, processor time, or traffic
    #[schema(maximum = 1_000)]
    pub(crate) thousandths: u32,
    /// nodes bound to it, of all coordinators
    pub(crate) clients: u64,
    /// most nodes that it can serve
    pub(crate) clients_max: u64,
    /// forwarded traffic, in bits per second
    pub(crate) bits_per_second: u64,
    /// traffic that it can forward, in bits per second, as its operator says; 0 if unknown
    pub(crate) capacity: u64,
    /// processor time in use, in thousandths
    pub(crate) processor: u32,
    /// datagrams that it dropped since its report before
    pub(crate) dropped: u64,
    /// seconds since its start
    pub(crate) uptime: u64,
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

/// `GET /api/v1/relay-token`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RelayTokenAnswer {
    pub(crate) schema: SchemaVersion,
    /// one line for `taut-relay serve --coordinator`; it is no secret
    pub(crate) relay_token: String,
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

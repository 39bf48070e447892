//! Requests and answers of `/api/v1/nodes`.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use taut_base::{NodeId, PublicKey, RelayId};
use utoipa::ToSchema;

use super::SchemaVersion;

/// A node. It has no field for a secret (fault E4): the coordinator knows no secret of a node.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Node)]
pub(crate) struct NodeEntry {
    /// its number
    #[schema(value_type = u64)]
    pub(crate) id: NodeId,
    /// name of its network
    pub(crate) network: String,
    /// a DNS label
    pub(crate) name: String,
    /// its addresses in the overlay: IPv4, then IPv6
    #[schema(value_type = Vec<String>)]
    pub(crate) addresses: Vec<IpAddr>,
    /// its WireGuard key, base64
    #[schema(value_type = String)]
    pub(crate) key: PublicKey,
    /// addresses and UDP ports at which it may be reached
    #[schema(value_type = Vec<String>)]
    pub(crate) endpoints: Vec<SocketAddr>,
    /// numbers of the relays that it is bound to
    #[schema(value_type = Vec<u32>)]
    pub(crate) relays: Vec<RelayId>,
    /// true if it is connected to the coordinator
    pub(crate) online: bool,
    /// true if two hosts used its keys within the last five minutes; the one that started later is connected
    pub(crate) twin: bool,
    /// version of `taut` that it reports
    pub(crate) program: String,
    /// time at which it joined, in seconds since 1970
    pub(crate) created_at: i64,
    /// time at which it was last online, to the minute, in seconds since 1970
    pub(crate) last_seen_at: i64,
}

/// `GET /api/v1/nodes`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct NodeList {
    pub(crate) schema: SchemaVersion,
    pub(crate) nodes: Vec<NodeEntry>,
}

/// Answer with one node.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct NodeAnswer {
    pub(crate) schema: SchemaVersion,
    pub(crate) node: NodeEntry,
}

/// Answer to the removal of a node.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RemovedNode {
    pub(crate) schema: SchemaVersion,
    pub(crate) removed: NodeEntry,
}

/// `PATCH /api/v1/nodes/{name}`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RenameNode {
    /// a DNS label that is not reserved, as `localhost` is, and not digits only
    #[schema(min_length = 1, max_length = 63, pattern = "^(?![0-9]+$)[a-z0-9]([a-z0-9-]*[a-z0-9])?$")]
    pub(crate) name: String,
}

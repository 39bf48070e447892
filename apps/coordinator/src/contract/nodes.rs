//! Requests and answers of `/api/v1/nodes`.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use taut_base::{NodeId, Prefix, PublicKey, RelayId};
use utoipa::ToSchema;

use super::SchemaVersion;
use super::fields::{not_null, nullable, nullable_seconds};

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
    /// prefixes behind it that it advertises
    #[serde(default)]
    #[schema(value_type = Vec<String>, required = true)]
    pub(crate) advertised_routes: Vec<Prefix>,
    /// prefixes behind it that are approved; those that it also advertises are in use
    #[serde(default)]
    #[schema(value_type = Vec<String>, required = true)]
    pub(crate) approved_routes: Vec<Prefix>,
    /// true if it is connected to the coordinator
    pub(crate) online: bool,
    /// true if two hosts used its keys within the last five minutes; the one that started later is connected
    pub(crate) twin: bool,
    #[schema(inline)]
    pub(crate) state: NodeState,
    /// the person that it belongs to; null for none
    #[schema(required = true)]
    pub(crate) owner: Option<String>,
    /// its tags, sorted
    pub(crate) tags: Vec<String>,
    /// time at which its membership expires, in seconds since 1970; null if it never does
    #[schema(required = true)]
    pub(crate) expires_at: Option<i64>,
    /// seconds of absence after which it is removed; null for never
    #[schema(required = true)]
    pub(crate) ephemeral_after: Option<i64>,
    /// fingerprint of its machine key, as `taut status` on the machine shows it
    pub(crate) machine: String,
    /// version of `taut` that it reports
    pub(crate) program: String,
    /// time at which it joined, in seconds since 1970
    pub(crate) created_at: i64,
    /// time at which it was last online, to the minute, in seconds since 1970
    pub(crate) last_seen_at: i64,
}

/// State of a node. An active node takes part in its network. Any other node does not: it waits for its approval, an operator keeps it out, or its membership has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum NodeState {
    Active,
    Unapproved,
    Disabled,
    Expired,
}

impl NodeState {
    /// Returns the state as it is spelled in answers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Unapproved => "unapproved",
            Self::Disabled => "disabled",
            Self::Expired => "expired",
        }
    }
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

/// `PATCH /api/v1/nodes/{name}`: absent fields stay as they are.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub(crate) struct ChangeNode {
    /// a DNS label that is not reserved, as `localhost` is, and not digits only
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(
        nullable = false,
        min_length = 1,
        max_length = 63,
        pattern = "^(?![0-9]+$)[a-z0-9]([a-z0-9-]*[a-z0-9])?$"
    )]
    pub(crate) name: Option<String>,
    /// all its tags, such as `tag:web`; they replace the present ones
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) tags: Option<Vec<String>>,
    /// the person that it belongs to; null for none
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) owner: Option<Option<String>>,
    /// true to keep it out of the network, false to let it in again
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) disabled: Option<bool>,
    /// true to approve it, also again after its membership expired; false is refused
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) approved: Option<bool>,
    /// true to end its membership now, so that it has to be approved again; false is refused
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) expired: Option<bool>,
    /// seconds for which its membership lasts from now on, 0 for ever; null for those of its network
    #[serde(default, deserialize_with = "nullable_seconds", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 0, maximum = 315_360_000)]
    pub(crate) key_expiry: Option<Option<i64>>,
    /// advertised prefixes to approve, such as `192.168.10.0/24`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub(crate) approve_routes: Vec<Prefix>,
    /// approved prefixes to revoke
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub(crate) revoke_routes: Vec<Prefix>,
}

/// A machine that waits until a person approves it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Request)]
pub(crate) struct RequestEntry {
    /// code that the machine shows; a person approves the machine with it
    pub(crate) code: String,
    /// name that the machine asks for
    pub(crate) name: String,
    /// address that it asks from
    pub(crate) address: String,
    /// fingerprint of its machine key, as `taut up` on the machine shows it
    pub(crate) machine: String,
    /// version of `taut` that it reports
    pub(crate) program: String,
    /// network of the member that asks to be approved again; null for a new machine
    #[schema(required = true)]
    pub(crate) network: Option<String>,
    /// name of the member that asks to be approved again; null for a new machine
    #[schema(required = true)]
    pub(crate) node: Option<String>,
    /// time at which it asked, in seconds since 1970
    pub(crate) created_at: i64,
    /// time at which the code expires, in seconds since 1970
    pub(crate) expires_at: i64,
}

/// `GET /api/v1/requests`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RequestList {
    pub(crate) schema: SchemaVersion,
    pub(crate) requests: Vec<RequestEntry>,
}

/// `GET /api/v1/requests/{code}`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RequestAnswer {
    pub(crate) schema: SchemaVersion,
    pub(crate) request: RequestEntry,
    /// names of the networks in which the caller may approve it
    pub(crate) networks: Vec<String>,
}

/// `POST /api/v1/requests/{code}/approve`.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub(crate) struct ApproveRequest {
    /// name or number of a network; optional while there is only one
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) network: Option<String>,
    /// name of the node, instead of the one that the machine asks for
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// its tags, such as `tag:web`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<String>,
    /// the person that it belongs to
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
}

/// Answer to the denial of a request.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct DeniedRequest {
    pub(crate) schema: SchemaVersion,
    /// its code
    pub(crate) denied: String,
}

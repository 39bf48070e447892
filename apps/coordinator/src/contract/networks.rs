//! Requests and answers of `/api/v1/networks`, and the query `?network=`.

use serde::{Deserialize, Serialize};
use taut_base::Prefix;
use utoipa::{IntoParams, ToSchema};

use super::SchemaVersion;

/// A network.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Network)]
pub(crate) struct NetworkEntry {
    /// 32 hex digits
    pub(crate) id: String,
    /// a DNS label
    pub(crate) name: String,
    /// IPv4 prefix
    #[schema(value_type = String)]
    pub(crate) ipv4: Prefix,
    /// IPv6 prefix
    #[schema(value_type = String)]
    pub(crate) ipv6: Prefix,
    /// number that grows with every change
    pub(crate) version: u64,
    /// number of members
    pub(crate) nodes: u64,
    /// number of members that are online
    pub(crate) online: u64,
    /// time of its creation, in seconds since 1970
    pub(crate) created_at: i64,
    /// true if new nodes wait until a person approves them, or their enrolment key does
    pub(crate) approval: bool,
    /// seconds for which a membership lasts; null if it never expires
    #[schema(required = true)]
    pub(crate) key_expiry: Option<i64>,
}

/// `GET /api/v1/networks`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct NetworkList {
    pub(crate) schema: SchemaVersion,
    pub(crate) networks: Vec<NetworkEntry>,
}

/// Answer with one network.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct NetworkAnswer {
    pub(crate) schema: SchemaVersion,
    pub(crate) network: NetworkEntry,
}

/// Answer to the removal of a network.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RemovedNetwork {
    pub(crate) schema: SchemaVersion,
    pub(crate) removed: NetworkEntry,
}

/// `POST /api/v1/networks`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct CreateNetwork {
    /// a DNS label that is not reserved, as `localhost` is
    #[schema(min_length = 1, max_length = 63, pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")]
    pub(crate) name: String,
    /// IPv4 prefix; 100.64.0.0/10 by default
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ipv4_prefix: Option<String>,
}

/// `PATCH /api/v1/networks/{name}`: absent fields stay as they are.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub(crate) struct ChangeNetwork {
    /// true if new nodes wait until a person approves them
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) approval: Option<bool>,
    /// seconds for which memberships last that begin from now on, or are renewed; null for ever
    #[serde(default, deserialize_with = "super::keys::present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 3_600, maximum = 315_360_000)]
    pub(crate) key_expiry: Option<Option<i64>>,
}

/// Query that selects a network.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct NetworkQuery {
    /// name or number of a network; optional in lists, and where only one network has an object of the given name
    #[param(nullable = false)]
    pub(crate) network: Option<String>,
}

/// Query of the removal of a network.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct RemoveNetworkQuery {
    /// true to remove its members as well; each of them is told
    #[serde(default)]
    #[param(required = false)]
    pub(crate) force: bool,
}

//! Requests and answers of `/api/v1/names`.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::SchemaVersion;
use super::fields::nullable;

/// A name with addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = NameRecord)]
pub(crate) struct RecordEntry {
    /// one label of the network's domain, or a whole name; `*` may be the first label
    #[schema(min_length = 1, max_length = 253)]
    pub(crate) name: String,
    /// up to 8 IPv4 and IPv6 addresses
    #[schema(value_type = Vec<String>, min_items = 1, max_items = 8)]
    pub(crate) addresses: Vec<IpAddr>,
}

/// A domain whose questions go to other servers, through the overlay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = SplitDomain)]
pub(crate) struct DomainEntry {
    /// the domain
    #[schema(min_length = 1, max_length = 253)]
    pub(crate) domain: String,
    /// up to 3 addresses of members, or behind subnet routers
    #[schema(value_type = Vec<String>, min_items = 1, max_items = 3)]
    pub(crate) servers: Vec<IpAddr>,
}

/// A domain that a node uses only if its user accepts it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ConsentNeeded)]
pub(crate) struct ConsentEntry {
    pub(crate) domain: String,
    pub(crate) reason: String,
}

/// The names that an operator chose for a network.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct NamesAnswer {
    pub(crate) schema: SchemaVersion,
    /// name of the network
    pub(crate) network: String,
    /// domain of the nodes' names
    pub(crate) domain: String,
    /// the domain below which the network has its names; null for the default
    #[schema(required = true)]
    pub(crate) base_domain: Option<String>,
    pub(crate) records: Vec<RecordEntry>,
    pub(crate) domains: Vec<DomainEntry>,
    /// the records and domains that a node uses only after its user has run `taut set --accept-domains` for them, each with the reason
    pub(crate) need_consent: Vec<ConsentEntry>,
}

/// `PATCH /api/v1/names`: absent fields stay as they are. All of it happens, or nothing.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub(crate) struct ChangeNames {
    /// the domain below which the network has its names; null for the default
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) base_domain: Option<Option<String>>,
    /// records to add or to replace
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 256)]
    pub(crate) set_records: Vec<RecordEntry>,
    /// names of records to remove
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 256)]
    pub(crate) remove_records: Vec<String>,
    /// domains to add or to replace
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 64)]
    pub(crate) set_domains: Vec<DomainEntry>,
    /// domains to remove
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 64)]
    pub(crate) remove_domains: Vec<String>,
}

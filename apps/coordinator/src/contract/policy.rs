//! Requests and answers of `/api/v1/policy`.

use serde::{Deserialize, Serialize};
use taut_policy::Inventory;
use utoipa::{IntoParams, ToSchema};

use super::SchemaVersion;
use super::fields::not_null;

/// A version of a policy, without its text.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = PolicyVersion)]
pub(crate) struct PolicyEntry {
    /// number of the version, from 1 on; the largest is in force
    pub(crate) version: i64,
    /// user or token that applied the version
    pub(crate) author: String,
    /// comment of the author, such as the reason for the change
    pub(crate) comment: String,
    /// time at which the version was applied, in seconds since 1970
    pub(crate) created_at: i64,
}

/// A policy, and the nodes and people that it is applied to.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct PolicyAnswer {
    pub(crate) schema: SchemaVersion,
    /// name of the network
    pub(crate) network: String,
    pub(crate) policy: PolicyEntry,
    /// the policy, as its author wrote it
    pub(crate) text: String,
    /// names of nodes that are too old to enforce it: they accept everything that their peers send
    pub(crate) too_old: Vec<String>,
    /// the nodes and people that it is applied to, as the file of `--nodes` has them
    #[schema(value_type = PolicyInventory)]
    pub(crate) inventory: Inventory,
}

/// The nodes and people that a policy is applied to: the JSON form of an [`Inventory`].
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) struct PolicyInventory {
    nodes: Vec<PolicyNode>,
    /// those whom an identity provider gives groups
    users: Vec<PolicyUser>,
    /// true, because there may be people who are not listed
    more_users: bool,
    /// the network's prefixes, which `*` stands for as a source
    prefixes: Vec<String>,
}

/// A node, with the properties that a policy can refer to.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) struct PolicyNode {
    name: String,
    addresses: Vec<String>,
    /// its owner; null for a node without one
    #[schema(required = true)]
    user: Option<String>,
    /// its tags, each with `tag:`
    tags: Vec<String>,
    /// its approved routes
    routes: Vec<String>,
}

/// A person, with the properties that a policy can refer to.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) struct PolicyUser {
    name: String,
    role: String,
    /// groups of the identity provider
    groups: Vec<String>,
}

/// `GET /api/v1/policy/versions`: up to 100, newest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct PolicyList {
    pub(crate) schema: SchemaVersion,
    pub(crate) versions: Vec<PolicyEntry>,
}

/// `POST /api/v1/policy`.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub(crate) struct ApplyPolicy {
    /// the policy (docs/policy.md), up to 512 KiB
    pub(crate) text: String,
    /// comment, such as the reason for the change, up to 500 characters
    #[serde(default)]
    #[schema(max_length = 500)]
    pub(crate) comment: String,
    /// number of the version that the author edited: the request fails if another one is in force; without this field it replaces any version
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) based_on: Option<i64>,
    /// true to apply it although some nodes are too old to enforce it
    #[serde(default)]
    pub(crate) force: bool,
}

/// Query of the list of versions.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PolicyVersionsQuery {
    /// name or number of a network; optional if there is only one
    #[param(nullable = false)]
    pub(crate) network: Option<String>,
    /// only versions before this one
    #[param(nullable = false)]
    pub(crate) before: Option<i64>,
}

//! Requests and answers of `/api/v1/keys`: enrolment keys.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Number;
use utoipa::ToSchema;

use super::SchemaVersion;

/// Smallest whole number from which on a floating-point number may be rounded, 2^53.
const LARGEST_WHOLE: f64 = 9_007_199_254_740_992.0;

/// An enrolment key, without its secret.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Key)]
pub(crate) struct KeyEntry {
    /// its number
    pub(crate) id: i64,
    /// name of its network
    pub(crate) network: String,
    /// true if only one node can join with it
    pub(crate) one_off: bool,
    /// number of nodes that may join with it; null for any number
    #[schema(required = true)]
    pub(crate) most_uses: Option<i64>,
    /// nodes that join with it are removed after this number of seconds of absence; null for never
    #[schema(required = true)]
    pub(crate) ephemeral_after: Option<i64>,
    /// tags of nodes that join with it
    pub(crate) tags: Vec<String>,
    /// owner of nodes that join with it; null for none
    #[schema(required = true)]
    pub(crate) owner: Option<String>,
    /// true if nodes that join with it need no further approval
    pub(crate) pre_approved: bool,
    /// number of nodes that joined with it
    pub(crate) used: u64,
    #[schema(inline)]
    pub(crate) state: KeyState,
    /// time of its expiry, in seconds since 1970; null if it never expires
    #[schema(required = true)]
    pub(crate) expires_at: Option<i64>,
    /// time of its creation, in seconds since 1970
    pub(crate) created_at: i64,
}

/// State of an enrolment key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum KeyState {
    Valid,
    Used,
    Expired,
    Revoked,
}

impl KeyState {
    /// Returns the state as it is spelled in answers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Used => "used",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

/// `GET /api/v1/keys`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct KeyList {
    pub(crate) schema: SchemaVersion,
    pub(crate) keys: Vec<KeyEntry>,
}

/// Answer to the creation of a key.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct CreatedKey {
    pub(crate) schema: SchemaVersion,
    pub(crate) key: KeyEntry,
    /// join token for `taut up --join`; no other answer contains it
    pub(crate) join_token: String,
}

/// Answer to the revocation of a key.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RevokedKey {
    pub(crate) schema: SchemaVersion,
    /// its number
    pub(crate) revoked: i64,
}

/// `POST /api/v1/keys`.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub(crate) struct CreateKey {
    /// name or number of a network; optional while there is only one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) network: Option<String>,
    /// true if only one node can join with it; false by default
    #[serde(default)]
    pub(crate) one_off: bool,
    /// number of nodes that may join with it, up to 65,536; any number by default
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 65_536)]
    pub(crate) most_uses: Option<i64>,
    /// seconds of absence after which nodes that join with it are removed, 300 to 2,592,000; never by default
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 300, maximum = 2_592_000)]
    pub(crate) ephemeral_after: Option<i64>,
    /// tags of nodes that join with it, such as `tag:web`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<String>,
    /// owner of nodes that join with it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    /// true if nodes that join with it need no further approval; false by default
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub(crate) pre_approved: bool,
    /// seconds until it expires; 90 days by default, null for never
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 315_360_000)]
    pub(crate) expires_in: Option<Option<i64>>,
}

/// Reads a field that may be absent, null or a whole number. `3600.0` is a whole number, as in JSON Schema: some programs print 3600 in that form.
pub(super) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<i64>>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(deserializer)? else { return Ok(Some(None)) };
    let whole = || number.as_f64().filter(|seconds| seconds.fract() == 0.0 && seconds.abs() < LARGEST_WHOLE);
    let seconds = number.as_i64().or_else(|| whole().map(|seconds| seconds as i64));
    seconds
        .map(|seconds| Some(Some(seconds)))
        .ok_or_else(|| D::Error::custom("a time is not a whole number of seconds"))
}

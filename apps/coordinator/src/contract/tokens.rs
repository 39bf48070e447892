//! Answers of `/api/v1/operator-tokens`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::SchemaVersion;

/// An operator token, without its secret.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = OperatorToken)]
pub(crate) struct OperatorTokenEntry {
    /// its number
    pub(crate) id: i64,
    #[schema(inline)]
    pub(crate) state: OperatorTokenState,
    /// true if it is the token of this request
    pub(crate) current: bool,
    /// time of its creation, in seconds since 1970
    pub(crate) created_at: i64,
    /// time of its revocation, in seconds since 1970; null if it is valid
    #[schema(required = true)]
    pub(crate) revoked_at: Option<i64>,
}

/// State of an operator token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OperatorTokenState {
    Valid,
    Revoked,
}

impl OperatorTokenState {
    /// Returns the state as it is spelled in answers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Revoked => "revoked",
        }
    }
}

/// `GET /api/v1/operator-tokens`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct OperatorTokenList {
    pub(crate) schema: SchemaVersion,
    pub(crate) operator_tokens: Vec<OperatorTokenEntry>,
}

/// Answer to the revocation of an operator token.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RevokedOperatorToken {
    pub(crate) schema: SchemaVersion,
    /// its number
    pub(crate) revoked: i64,
    /// true if it was the token of this request
    pub(crate) current: bool,
}

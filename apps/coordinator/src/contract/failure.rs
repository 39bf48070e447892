//! Answers to requests that failed.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::SchemaVersion;

/// Kinds of failures, for programs. Each kind has one HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorCode {
    BadRequest,
    BadName,
    BadPrefix,
    BadExpiry,
    BadTag,
    BadRelay,
    BadPolicy,
    WhichNetwork,
    Unauthorized,
    NoSuchPath,
    NoSuchNetwork,
    NoSuchNode,
    NoSuchKey,
    NoSuchToken,
    NoSuchRelay,
    NoSuchRequest,
    NoSuchPolicy,
    NoSuchMethod,
    Slow,
    NetworkExists,
    NetworkNotEmpty,
    NameTaken,
    RelayExists,
    OwnRelay,
    PolicyRefused,
    Full,
    LastToken,
    TooLarge,
    Internal,
    Unavailable,
}

impl ErrorCode {
    /// All codes.
    pub(crate) const ALL: [Self; 30] = [
        Self::BadRequest,
        Self::BadName,
        Self::BadPrefix,
        Self::BadExpiry,
        Self::BadTag,
        Self::BadRelay,
        Self::BadPolicy,
        Self::WhichNetwork,
        Self::Unauthorized,
        Self::NoSuchPath,
        Self::NoSuchNetwork,
        Self::NoSuchNode,
        Self::NoSuchKey,
        Self::NoSuchToken,
        Self::NoSuchRelay,
        Self::NoSuchRequest,
        Self::NoSuchPolicy,
        Self::NoSuchMethod,
        Self::Slow,
        Self::NetworkExists,
        Self::NetworkNotEmpty,
        Self::NameTaken,
        Self::RelayExists,
        Self::OwnRelay,
        Self::PolicyRefused,
        Self::Full,
        Self::LastToken,
        Self::TooLarge,
        Self::Internal,
        Self::Unavailable,
    ];

    /// Returns the HTTP status of an answer with this code.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::BadRequest | Self::BadName | Self::BadPrefix | Self::BadExpiry | Self::BadTag | Self::BadRelay | Self::BadPolicy => 400,
            Self::Unauthorized => 401,
            Self::NoSuchPath
            | Self::NoSuchNetwork
            | Self::NoSuchNode
            | Self::NoSuchKey
            | Self::NoSuchToken
            | Self::NoSuchRelay
            | Self::NoSuchRequest
            | Self::NoSuchPolicy => 404,
            Self::NoSuchMethod => 405,
            Self::Slow => 408,
            // The request is valid, but the present state does not allow it.
            Self::WhichNetwork
            | Self::NetworkExists
            | Self::NetworkNotEmpty
            | Self::NameTaken
            | Self::RelayExists
            | Self::OwnRelay
            | Self::PolicyRefused
            | Self::Full
            | Self::LastToken => 409,
            Self::TooLarge => 413,
            Self::Internal => 500,
            Self::Unavailable => 503,
        }
    }

    /// Returns the code as it is spelled in answers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::BadRequest => "bad-request",
            Self::BadName => "bad-name",
            Self::BadPrefix => "bad-prefix",
            Self::BadExpiry => "bad-expiry",
            Self::BadTag => "bad-tag",
            Self::BadRelay => "bad-relay",
            Self::BadPolicy => "bad-policy",
            Self::WhichNetwork => "which-network",
            Self::Unauthorized => "unauthorized",
            Self::NoSuchPath => "no-such-path",
            Self::NoSuchNetwork => "no-such-network",
            Self::NoSuchNode => "no-such-node",
            Self::NoSuchKey => "no-such-key",
            Self::NoSuchToken => "no-such-token",
            Self::NoSuchRelay => "no-such-relay",
            Self::NoSuchRequest => "no-such-request",
            Self::NoSuchPolicy => "no-such-policy",
            Self::NoSuchMethod => "no-such-method",
            Self::Slow => "slow",
            Self::NetworkExists => "network-exists",
            Self::NetworkNotEmpty => "network-not-empty",
            Self::NameTaken => "name-taken",
            Self::RelayExists => "relay-exists",
            Self::OwnRelay => "own-relay",
            Self::PolicyRefused => "policy-refused",
            Self::Full => "full",
            Self::LastToken => "last-token",
            Self::TooLarge => "too-large",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Answer to a request that failed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ErrorAnswer {
    pub(crate) schema: SchemaVersion,
    pub(crate) error: ErrorBody,
}

/// A failure: what happened, why, and what to do.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ErrorBody {
    /// kind of the failure, for programs
    pub(crate) code: String,
    /// message: the event and its cause
    pub(crate) message: String,
    /// advice: the next step for the operator
    pub(crate) hint: String,
    /// id of the request, as in the header X-Request-Id of the answer and in the coordinator's log
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) request_id: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_codes_are_listed_once() {
        // The codes are numbered in the order of their declaration, and `Unavailable` is the last.
        let places: Vec<usize> = ErrorCode::ALL.iter().map(|code| *code as usize).collect();
        assert_eq!(places, (0..=ErrorCode::Unavailable as usize).collect::<Vec<_>>());
    }
}

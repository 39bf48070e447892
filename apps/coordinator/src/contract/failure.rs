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
    BadWebhook,
    BadDomain,
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
    NoSuchWebhook,
    NoSuchRoute,
    NoSuchName,
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
    Forbidden,
    WrongSite,
    SignInFailed,
    TooManyAttempts,
    BadLink,
    BadCode,
    BadPassword,
    BadRole,
    BadScope,
    NoSuchUser,
    NoSuchSession,
    UserExists,
    LastOwner,
    Codes,
    NotLocal,
    Changed,
    RepeatedKey,
    KeyRevoked,
    Busy,
    Internal,
    Unavailable,
}

impl ErrorCode {
    /// All codes.
    pub(crate) const ALL: [Self; 54] = [
        Self::BadRequest,
        Self::BadName,
        Self::BadPrefix,
        Self::BadExpiry,
        Self::BadTag,
        Self::BadRelay,
        Self::BadPolicy,
        Self::BadWebhook,
        Self::BadDomain,
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
        Self::NoSuchWebhook,
        Self::NoSuchRoute,
        Self::NoSuchName,
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
        Self::Forbidden,
        Self::WrongSite,
        Self::SignInFailed,
        Self::TooManyAttempts,
        Self::BadLink,
        Self::BadCode,
        Self::BadPassword,
        Self::BadRole,
        Self::BadScope,
        Self::NoSuchUser,
        Self::NoSuchSession,
        Self::UserExists,
        Self::LastOwner,
        Self::Codes,
        Self::NotLocal,
        Self::Changed,
        Self::RepeatedKey,
        Self::KeyRevoked,
        Self::Busy,
        Self::Internal,
        Self::Unavailable,
    ];

    /// Returns the HTTP status of an answer with this code.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::BadRequest
            | Self::BadName
            | Self::BadPrefix
            | Self::BadExpiry
            | Self::BadTag
            | Self::BadRelay
            | Self::BadPolicy
            | Self::BadWebhook
            | Self::BadDomain
            | Self::BadLink
            | Self::BadCode
            | Self::BadPassword
            | Self::BadRole
            | Self::BadScope => 400,
            Self::Unauthorized | Self::SignInFailed => 401,
            Self::Forbidden | Self::WrongSite => 403,
            Self::NoSuchPath
            | Self::NoSuchNetwork
            | Self::NoSuchNode
            | Self::NoSuchKey
            | Self::NoSuchToken
            | Self::NoSuchRelay
            | Self::NoSuchRequest
            | Self::NoSuchPolicy
            | Self::NoSuchWebhook
            | Self::NoSuchRoute
            | Self::NoSuchName
            | Self::NoSuchUser
            | Self::NoSuchSession => 404,
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
            | Self::LastToken
            | Self::UserExists
            | Self::LastOwner
            | Self::Codes
            | Self::NotLocal
            | Self::RepeatedKey
            | Self::KeyRevoked => 409,
            Self::Changed => 412,
            Self::TooManyAttempts | Self::Busy => 429,
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
            Self::BadWebhook => "bad-webhook",
            Self::BadDomain => "bad-domain",
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
            Self::NoSuchWebhook => "no-such-webhook",
            Self::NoSuchRoute => "no-such-route",
            Self::NoSuchName => "no-such-name",
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
            Self::Forbidden => "forbidden",
            Self::WrongSite => "wrong-site",
            Self::SignInFailed => "sign-in-failed",
            Self::TooManyAttempts => "too-many-attempts",
            Self::BadLink => "bad-link",
            Self::BadCode => "bad-code",
            Self::BadPassword => "bad-password",
            Self::BadRole => "bad-role",
            Self::BadScope => "bad-scope",
            Self::NoSuchUser => "no-such-user",
            Self::NoSuchSession => "no-such-session",
            Self::UserExists => "user-exists",
            Self::LastOwner => "last-owner",
            Self::Codes => "codes",
            Self::NotLocal => "not-local",
            Self::Changed => "changed",
            Self::RepeatedKey => "repeated-key",
            Self::KeyRevoked => "key-revoked",
            Self::Busy => "busy",
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

//! Failures as the operator's programs get them.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::api::{MAX_BODY, SCHEMA};
use crate::log;
use crate::state::StateError;

/// What programs know a failure by. Each has one status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::api) enum Code {
    BadRequest,
    BadName,
    BadPrefix,
    BadExpiry,
    BadRelay,
    WhichNetwork,
    Unauthorized,
    NoSuchPath,
    NoSuchNetwork,
    NoSuchNode,
    NoSuchKey,
    NoSuchToken,
    NoSuchRelay,
    NoSuchMethod,
    Slow,
    NetworkExists,
    NetworkNotEmpty,
    NameTaken,
    RelayExists,
    OwnRelay,
    Full,
    LastToken,
    TooLarge,
    Internal,
    Unavailable,
}

impl Code {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::BadRequest | Self::BadName | Self::BadPrefix | Self::BadExpiry | Self::BadRelay => {
                StatusCode::BAD_REQUEST
            }
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::NoSuchPath
            | Self::NoSuchNetwork
            | Self::NoSuchNode
            | Self::NoSuchKey
            | Self::NoSuchToken
            | Self::NoSuchRelay => StatusCode::NOT_FOUND,
            Self::NoSuchMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            // The request is good, and what there is does not let it pass.
            Self::WhichNetwork
            | Self::NetworkExists
            | Self::NetworkNotEmpty
            | Self::NameTaken
            | Self::RelayExists
            | Self::OwnRelay
            | Self::Full
            | Self::LastToken => StatusCode::CONFLICT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::BadRequest => "bad-request",
            Self::BadName => "bad-name",
            Self::BadPrefix => "bad-prefix",
            Self::BadExpiry => "bad-expiry",
            Self::BadRelay => "bad-relay",
            Self::WhichNetwork => "which-network",
            Self::Unauthorized => "unauthorized",
            Self::NoSuchPath => "no-such-path",
            Self::NoSuchNetwork => "no-such-network",
            Self::NoSuchNode => "no-such-node",
            Self::NoSuchKey => "no-such-key",
            Self::NoSuchToken => "no-such-token",
            Self::NoSuchRelay => "no-such-relay",
            Self::NoSuchMethod => "no-such-method",
            Self::Slow => "slow",
            Self::NetworkExists => "network-exists",
            Self::NetworkNotEmpty => "network-not-empty",
            Self::NameTaken => "name-taken",
            Self::RelayExists => "relay-exists",
            Self::OwnRelay => "own-relay",
            Self::Full => "full",
            Self::LastToken => "last-token",
            Self::TooLarge => "too-large",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
        }
    }
}

/// An answer that says what happened, why, and what to do.
#[derive(Clone)]
pub(in crate::api) struct Failure {
    code: Code,
    message: String,
    hint: String,
}

impl Failure {
    fn new(code: Code, message: &str, hint: &str) -> Self {
        Self { code, message: String::from(message), hint: String::from(hint) }
    }

    pub(in crate::api) fn bad_request(message: &str, hint: &str) -> Self {
        Self::new(Code::BadRequest, message, hint)
    }

    pub(in crate::api) fn no_such_path() -> Self {
        Self::new(Code::NoSuchPath, "there is nothing at this path", "the API is below /api/v1")
    }

    pub(in crate::api) fn no_such_method() -> Self {
        let message = "this path exists, but not for this method";
        Self::new(Code::NoSuchMethod, message, "GET /api/v1/openapi.json says which methods there are")
    }

    pub(super) fn unauthorized() -> Self {
        let message = "the request has no operator token that this coordinator knows";
        let hint = "send `Authorization: Bearer tautop-…`; whoever lost theirs makes one with `taut-coordinator operator-token create`";
        Self::new(Code::Unauthorized, message, hint)
    }

    /// A refusal of the framework's own.
    pub(super) fn of_framework(status: StatusCode) -> Self {
        if status == StatusCode::PAYLOAD_TOO_LARGE {
            let message = format!("the body is larger than {MAX_BODY} bytes");
            return Self::new(Code::TooLarge, &message, "send less; no honest request is that large");
        }
        let message = format!("the request cannot be read: {status}");
        let code = if status.is_server_error() { Code::Internal } else { Code::BadRequest };
        Self::new(code, &message, "check the path, the query and the headers")
    }

    pub(in crate::api) fn crowded() -> Self {
        let message = "this client has too many connections that are not a member's";
        Self::new(Code::Unavailable, message, "end those that are not needed, and try again")
    }

    pub(super) fn slow() -> Self {
        Self::new(Code::Slow, "the request took too long", "try again")
    }
}

impl From<StateError> for Failure {
    fn from(error: StateError) -> Self {
        let code = match &error {
            StateError::Store(_) => Code::Unavailable,
            StateError::NoNetwork(_) | StateError::NoNetworks => Code::NoSuchNetwork,
            StateError::HasMembers { .. } => Code::NetworkNotEmpty,
            StateError::NoNode(_) => Code::NoSuchNode,
            StateError::NoKey(_) => Code::NoSuchKey,
            StateError::NoRelay(_) => Code::NoSuchRelay,
            StateError::RelayExists(_) => Code::RelayExists,
            StateError::OwnRelay => Code::OwnRelay,
            StateError::BadRelay(_) | StateError::NoPlace => Code::BadRelay,
            StateError::NoOperator(_) => Code::NoSuchToken,
            StateError::LastOperator => Code::LastToken,
            StateError::NetworkExists(_) => Code::NetworkExists,
            StateError::NameTaken(_) => Code::NameTaken,
            StateError::Full => Code::Full,
            StateError::WhichNetwork | StateError::Several { .. } => Code::WhichNetwork,
            StateError::BadPrefix(_) => Code::BadPrefix,
            StateError::BadName(..) => Code::BadName,
            StateError::BadExpiry => Code::BadExpiry,
            StateError::Enrolment(_)
            | StateError::NotAMember
            | StateError::KeyConflict
            | StateError::KeyChanges
            | StateError::Crowd
            | StateError::Turnover
            | StateError::BadKey
            | StateError::Unsound(_)
            | StateError::BadMap(_) => Code::Internal,
        };
        if code.status().is_server_error() {
            log::event("request-failed", &[("code", &code.name()), ("error", &error)]);
        }
        Self { code, message: error.to_string(), hint: String::from(error.hint()) }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let error = json!({ "code": self.code.name(), "message": self.message, "hint": self.hint });
        (self.code.status(), Json(json!({ "schema": SCHEMA, "error": error }))).into_response()
    }
}

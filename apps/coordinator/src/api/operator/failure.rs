//! Failures as the operator's programs get them.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::api::{MAX_BODY, SCHEMA};
use crate::log;
use crate::state::StateError;

/// An answer that says what happened, why, and what to do.
pub(in crate::api) struct Failure {
    status: StatusCode,
    code: &'static str,
    message: String,
    hint: String,
}

impl Failure {
    fn new(status: StatusCode, code: &'static str, message: &str, hint: &str) -> Self {
        Self { status, code, message: String::from(message), hint: String::from(hint) }
    }

    pub(in crate::api) fn bad_request(message: &str, hint: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", message, hint)
    }

    pub(in crate::api) fn no_such_path() -> Self {
        Self::new(StatusCode::NOT_FOUND, "no-such-path", "there is nothing at this path", "the API is below /api/v1")
    }

    pub(super) fn no_such_method() -> Self {
        let message = "this path exists, but not for this method";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "no-such-method", message, "look up the method in the documentation")
    }

    pub(super) fn unauthorized() -> Self {
        let message = "the request has no operator token that this coordinator knows";
        let hint = "send `Authorization: Bearer tautop-…`; whoever lost theirs makes one with `taut-coordinator operator-token create`";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message, hint)
    }

    pub(super) fn of_framework(status: StatusCode) -> Self {
        if status == StatusCode::PAYLOAD_TOO_LARGE {
            let message = format!("the body is larger than {MAX_BODY} bytes");
            return Self::new(status, "too-large", &message, "send less; no honest request is that large");
        }
        let message = format!("the request cannot be read: {status}");
        Self::new(status, "bad-request", &message, "check the path, the query and the headers")
    }

    pub(super) fn slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "slow", "the request took too long", "try again")
    }
}

impl From<StateError> for Failure {
    fn from(error: StateError) -> Self {
        let (status, code) = match &error {
            StateError::Store(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            StateError::NoNetwork(_) => (StatusCode::NOT_FOUND, "no-such-network"),
            StateError::NoNode(_) => (StatusCode::NOT_FOUND, "no-such-node"),
            StateError::NoKey(_) => (StatusCode::NOT_FOUND, "no-such-key"),
            StateError::NetworkExists(_) => (StatusCode::CONFLICT, "network-exists"),
            StateError::NameTaken(_) => (StatusCode::CONFLICT, "name-taken"),
            StateError::Full => (StatusCode::CONFLICT, "full"),
            StateError::WhichNetwork => (StatusCode::BAD_REQUEST, "which-network"),
            StateError::BadPrefix(_) => (StatusCode::BAD_REQUEST, "bad-prefix"),
            StateError::BadName(_) => (StatusCode::BAD_REQUEST, "bad-name"),
            StateError::BadExpiry => (StatusCode::BAD_REQUEST, "bad-expiry"),
            StateError::Enrolment(_)
            | StateError::NotAMember
            | StateError::KeyConflict
            | StateError::BadKey
            | StateError::Unsound(_)
            | StateError::BadMap(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        if status.is_server_error() {
            log::event("request-failed", &[("code", &code), ("error", &error)]);
        }
        Self { status, code, message: error.to_string(), hint: String::from(error.hint()) }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let error = json!({ "code": self.code, "message": self.message, "hint": self.hint });
        (self.status, Json(json!({ "schema": SCHEMA, "error": error }))).into_response()
    }
}

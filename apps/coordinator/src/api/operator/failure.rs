//! Failures, and their answers.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::REQUEST;
use crate::api::request_id::RequestId;
use crate::contract::{ErrorAnswer, ErrorBody, ErrorCode, SchemaVersion};
use crate::log;
use crate::state::{PeopleError, StateError};

/// A failure of a request: what happened, why, and what to do.
#[derive(Clone)]
pub(in crate::api) struct Failure {
    code: ErrorCode,
    message: String,
    hint: String,
}

impl Failure {
    fn new(code: ErrorCode, message: &str, hint: &str) -> Self {
        Self { code, message: String::from(message), hint: String::from(hint) }
    }

    pub(in crate::api) fn bad_request(message: &str, hint: &str) -> Self {
        Self::new(ErrorCode::BadRequest, message, hint)
    }

    pub(super) fn busy(message: &str, hint: &str) -> Self {
        Self::new(ErrorCode::Busy, message, hint)
    }

    pub(in crate::api) fn no_such_path() -> Self {
        Self::new(ErrorCode::NoSuchPath, "there is nothing at this path", "the API is below /api/v1")
    }

    /// Returns the failure for `/metrics` at the port for nodes and operators, which anyone may reach.
    pub(in crate::api) fn no_metrics() -> Self {
        let hint = "`taut-coordinator serve --metrics ADDRESS:PORT` serves them at an address of their own";
        Self::new(ErrorCode::NoSuchPath, "the figures for Prometheus are not served at this port", hint)
    }

    pub(in crate::api) fn no_such_method() -> Self {
        let message = "this path exists, but not for this method";
        Self::new(ErrorCode::NoSuchMethod, message, "GET /api/v1/openapi.json says which methods there are")
    }

    pub(super) fn unauthorized() -> Self {
        let message = "the request has no operator token, API token or session that this coordinator knows";
        let hint = "send `Authorization: Bearer tautop-…`, or sign in; `taut-coordinator operator-token create` creates a token on the coordinator's host";
        Self::new(ErrorCode::Unauthorized, message, hint)
    }

    /// Returns the failure of a request of a browser that does not come from this coordinator's own pages.
    pub(super) fn wrong_site(message: &str) -> Self {
        let hint = "open the coordinator by a name of `serve --url`, or use a token instead of a session";
        Self::new(ErrorCode::WrongSite, message, hint)
    }

    pub(super) fn repeated_key(message: &str, hint: &str) -> Self {
        Self::new(ErrorCode::RepeatedKey, message, hint)
    }

    /// Returns the failure for a refusal of axum itself.
    pub(super) fn of_framework(status: StatusCode) -> Self {
        if status == StatusCode::PAYLOAD_TOO_LARGE {
            let message = "the body is larger than this kind of request may be";
            return Self::new(ErrorCode::TooLarge, message, "send a smaller body; no valid request is that large");
        }
        let message = format!("the request cannot be read: {status}");
        let code = if status.is_server_error() { ErrorCode::Internal } else { ErrorCode::BadRequest };
        Self::new(code, &message, "check the path, the query and the headers")
    }

    pub(in crate::api) fn crowded() -> Self {
        let message = "this client has too many connections that are not a member's";
        let hint = "end those that are not needed; if it is a reverse proxy, name it with `serve --trusted-proxy`, so that each of its clients is counted";
        Self::new(ErrorCode::Unavailable, message, hint)
    }

    /// Returns the failure of a coordinator whose database is not open yet.
    pub(in crate::api) fn starting() -> Self {
        let message = "this coordinator starts: its database is not open yet";
        let hint = "it answers as soon as the database is open, and nodes come back on their own; if that takes minutes, its log and the server of its database show why";
        Self::new(ErrorCode::Unavailable, message, hint)
    }

    /// Returns the failure of a coordinator that is about to end.
    pub(super) fn stopping() -> Self {
        let hint = "ask another coordinator of this database; nodes do so on their own, and come back here after the next start";
        Self::new(ErrorCode::Unavailable, "this coordinator stops", hint)
    }

    /// Returns the failure of a coordinator that cannot answer nodes any more, for anyone who asks.
    pub(super) fn not_ready(message: &str) -> Self {
        let hint = "this coordinator's log has the error (`health-check-failed`); send nodes to another coordinator until it is removed";
        Self::new(ErrorCode::Unavailable, message, hint)
    }

    /// Returns status, message and hint, for a page.
    pub(super) fn words(&self) -> (StatusCode, &str, &str) {
        let status = StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, &self.message, &self.hint)
    }

    pub(super) fn slow() -> Self {
        let message = format!("the request took more than {} s", REQUEST.as_secs());
        let hint = "a change may have been made all the same: look before you repeat it; the database is slow or busy, which its server or disk, and `taut_coordinator_database_seconds` of `--metrics`, show";
        Self::new(ErrorCode::Slow, &message, hint)
    }
}

impl From<StateError> for Failure {
    fn from(error: StateError) -> Self {
        let code = match &error {
            StateError::Store(_) => ErrorCode::Unavailable,
            StateError::NoNetwork(_) | StateError::NoNetworks => ErrorCode::NoSuchNetwork,
            StateError::HasMembers { .. } => ErrorCode::NetworkNotEmpty,
            StateError::NoNode(_) => ErrorCode::NoSuchNode,
            StateError::NoKey(_) => ErrorCode::NoSuchKey,
            StateError::NoRelay(_) | StateError::UnknownRelay(_) => ErrorCode::NoSuchRelay,
            StateError::RelayExists(_) => ErrorCode::RelayExists,
            StateError::OwnRelay => ErrorCode::OwnRelay,
            StateError::BadRelay(_) | StateError::NoPlace => ErrorCode::BadRelay,
            StateError::NoOperator(_) => ErrorCode::NoSuchToken,
            StateError::LastOperator => ErrorCode::LastToken,
            StateError::NetworkExists(_) => ErrorCode::NetworkExists,
            StateError::NameTaken(_) => ErrorCode::NameTaken,
            StateError::Full => ErrorCode::Full,
            StateError::WhichNetwork | StateError::Several { .. } => ErrorCode::WhichNetwork,
            StateError::BadPrefix(_) => ErrorCode::BadPrefix,
            StateError::BadName(..) => ErrorCode::BadName,
            StateError::People(error) => code_of(error),
            StateError::BadExpiry | StateError::BadLife => ErrorCode::BadExpiry,
            StateError::NotTagOwner(_) => ErrorCode::Forbidden,
            StateError::ManyDevices | StateError::ManyRoutes { .. } => ErrorCode::Full,
            StateError::BadUses | StateError::BadAbsence | StateError::BadOwner => ErrorCode::BadRequest,
            StateError::NotAdvertised { .. } | StateError::NotApproved { .. } => ErrorCode::NoSuchRoute,
            StateError::BadDomain { .. } => ErrorCode::BadDomain,
            StateError::NoName(_) => ErrorCode::NoSuchName,
            StateError::ManyNames => ErrorCode::Full,
            StateError::BadTag(_) => ErrorCode::BadTag,
            StateError::NoRequest(_) => ErrorCode::NoSuchRequest,
            StateError::KeyRevoked => ErrorCode::KeyRevoked,
            StateError::BadPolicy(_) | StateError::LongPolicy | StateError::LargeFilter(..) => ErrorCode::BadPolicy,
            StateError::PolicyTests(_) | StateError::TooOld(_) | StateError::PolicyChanged(_) => {
                ErrorCode::PolicyRefused
            }
            StateError::BadWebhook(_) | StateError::BadEvents => ErrorCode::BadWebhook,
            StateError::ManyWebhooks => ErrorCode::Full,
            StateError::NoWebhook(_) => ErrorCode::NoSuchWebhook,
            StateError::PolicyBusy => ErrorCode::Busy,
            StateError::NoPolicy(_) => ErrorCode::NoSuchPolicy,
            StateError::NoPart
            | StateError::Denied
            | StateError::Requests
            | StateError::Enrolment(_)
            | StateError::NotAMember
            | StateError::KeyConflict
            | StateError::KeyChanges
            | StateError::Crowd
            | StateError::Turnover
            | StateError::BadKey
            | StateError::Unsound(_)
            | StateError::Panicked
            | StateError::StoredPolicy(_)
            | StateError::BadMap(_) => ErrorCode::Internal,
        };
        // Why a provider does not answer has been logged, with a limit, because strangers can have it asked.
        if code.status() >= 500 && !matches!(error, StateError::People(PeopleError::ProviderAway)) {
            tracing::error!(target: log::API, event = "request-failed", code = code.name(), reason = %error);
        }
        Self { code, message: error.to_string(), hint: String::from(error.hint()) }
    }
}

fn code_of(error: &PeopleError) -> ErrorCode {
    match error {
        PeopleError::SignIn => ErrorCode::SignInFailed,
        PeopleError::TooManyAttempts => ErrorCode::TooManyAttempts,
        PeopleError::Busy => ErrorCode::Unavailable,
        PeopleError::Forbidden | PeopleError::NeedsSession => ErrorCode::Forbidden,
        PeopleError::BadLink => ErrorCode::BadLink,
        PeopleError::BadCode => ErrorCode::BadCode,
        PeopleError::BadPassword(_) => ErrorCode::BadPassword,
        PeopleError::BadName(_) | PeopleError::BadTokenName => ErrorCode::BadName,
        PeopleError::BadEmail => ErrorCode::BadRequest,
        PeopleError::BadRole(_) => ErrorCode::BadRole,
        PeopleError::BadScope(_) => ErrorCode::BadScope,
        PeopleError::LongTerminalLife => ErrorCode::BadExpiry,
        PeopleError::NoPerson(_) => ErrorCode::NoSuchUser,
        PeopleError::PersonExists(_) => ErrorCode::UserExists,
        PeopleError::TooManyPeople | PeopleError::TooManyTokens => ErrorCode::Full,
        PeopleError::NoToken(_) => ErrorCode::NoSuchToken,
        PeopleError::NoSession(_) => ErrorCode::NoSuchSession,
        PeopleError::LastOwner => ErrorCode::LastOwner,
        PeopleError::Changed => ErrorCode::Changed,
        PeopleError::NotLocal => ErrorCode::NotLocal,
        PeopleError::CodesOn | PeopleError::CodesOff => ErrorCode::Codes,
        PeopleError::NoProvider | PeopleError::NoDeviceGrant => ErrorCode::NoSuchPath,
        PeopleError::ProviderAway => ErrorCode::Unavailable,
        PeopleError::SignInAtProvider => ErrorCode::SignInFailed,
        PeopleError::NotLetIn => ErrorCode::Forbidden,
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let request_id = RequestId::current().map(|id| id.to_string());
        let code = String::from(self.code.name());
        let error = ErrorBody { code, message: self.message, hint: self.hint, request_id };
        let mut response = (status, Json(ErrorAnswer { schema: SchemaVersion, error })).into_response();
        response.extensions_mut().insert(self.code);
        response
    }
}

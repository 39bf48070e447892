//! `/api/v1/session`, `/api/v1/sign-in`, `/api/v1/account`, `/api/v1/users`, `/api/v1/tokens`, `/api/v1/audit`, and the requests with links.

mod account;
mod audit;
mod routes;
mod session;
mod terminal;
mod tokens;
mod users;

use axum::http::{HeaderValue, header};
use axum::response::Response;

pub(in crate::api) use audit::entry as audit_entry;
pub(super) use routes::routes;

use super::Failure;
use crate::contract::{ActorEntry, RoleEntry, UserEntry};
use crate::state::{Actor, UserView};

/// Objects of a page, by default.
const PAGE: u32 = 100;

fn user_entry(view: &UserView) -> UserEntry {
    let row = &view.row;
    let role = |role: &crate::state::RoleView| RoleEntry {
        network: role.network.clone(),
        role: String::from(role.role.name()),
    };
    UserEntry {
        id: row.id,
        issuer: row.issuer.clone(),
        name: row.subject.clone(),
        display_name: row.name.clone(),
        email: row.email.clone(),
        disabled: row.disabled_at.is_some(),
        lapsed: row.lapsed_at.is_some(),
        groups: row.member_of.clone(),
        can_sign_in: view.can_sign_in,
        codes: view.has_codes,
        roles: view.roles.iter().map(role).collect(),
        created_at: row.created_at,
        seen_at: row.seen_at,
        checked_at: row.checked_at,
        version: row.version,
    }
}

pub(super) fn actor_entry(actor: &Actor) -> ActorEntry {
    ActorEntry { kind: String::from(actor.kind()), id: actor.id(), name: String::from(actor.name()) }
}

/// Adds the version of an object, with which the next change can say what it was made from (RFC 9110 section 13.1.1).
pub(super) fn with_etag(mut response: Response, version: u64) -> Response {
    if let Ok(value) = HeaderValue::from_str(&format!("\"{version}\"")) {
        response.headers_mut().insert(header::ETAG, value);
    }
    response
}

/// Returns the version that the header If-Match names; `None` without the header or with `*`.
pub(super) fn if_match(headers: &axum::http::HeaderMap) -> Result<Option<u64>, Failure> {
    let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let version = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).and_then(|text| text.parse().ok());
    let wrong =
        || Failure::bad_request("the header If-Match is not an ETag of this API", "copy the header ETag of the answer");
    version.map(Some).ok_or_else(wrong)
}

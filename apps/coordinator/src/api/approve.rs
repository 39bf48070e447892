//! Routes for machines and people that have no token: the coordinator's public key, and the page of a request.

use axum::Json;
use axum::extract::{Path, State as Shared};
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use serde_json::json;

use super::Context;
use super::operator::Failure;
use crate::state::is_code;

/// The page may load its own script and style sheet, and talk to this coordinator; it is in no frame (fault E9).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'; \
                      base-uri 'none'; form-action 'none'";

const PAGE: &str = include_str!("approve/approve.html");
const SCRIPT: &str = include_str!("approve/approve.js");
const STYLE: &str = include_str!("pages.css");

/// `GET /key`: returns the public key that nodes pin. A node trusts the key only if it came over https with a valid certificate, or if a person compared it.
pub(super) async fn key(Shared(context): Shared<Context>) -> Response {
    Json(json!({ "schema": 1, "key": context.state.public_key(), "urls": context.state.urls() })).into_response()
}

/// `GET /approve/{code}`: returns the page that `taut up` names. A person signs in there, sees which machine asks, and approves it. Without signing in, it tells
/// nothing about the request, because anybody may open it.
pub(super) async fn page(Shared(context): Shared<Context>, Path(code): Path<String>) -> Response {
    if !is_code(&code) {
        return Failure::no_such_path().into_response();
    }
    // A code has only letters and a hyphen.
    let code: String = code.chars().filter(|letter| letter.is_ascii_alphabetic() || *letter == '-').collect();
    let provider = match context.state.has_provider() {
        true => format!(
            "<p><a href=\"/oidc/begin?return=/approve/{code}\">Sign in at the provider of your organisation</a>, or here:</p>"
        ),
        false => String::new(),
    };
    let page = PAGE.replace("{code}", &code).replace("{provider}", &provider);
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, Html(page)).into_response()
}

/// `GET /approve.js`: returns the script of the page.
pub(super) async fn script() -> Response {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], SCRIPT).into_response()
}

/// `GET /pages.css`: returns the style of all pages.
pub(super) async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE).into_response()
}

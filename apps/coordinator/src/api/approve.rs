//! Routes for machines and people that have no token: the coordinator's public key, and the page of a request.

use axum::Json;
use axum::extract::{Path, State as Shared};
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use serde_json::json;

use super::Context;
use super::operator::Failure;
use crate::state::is_code;

/// Headers of the page: it runs no script, and is in no frame (fault E9).
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'";

/// `GET /key`: returns the public key that nodes pin. A node trusts the key only if it came over https with a valid certificate, or if a person compared it.
pub(super) async fn key(Shared(context): Shared<Context>) -> Response {
    Json(json!({ "schema": 1, "key": context.state.public_key(), "urls": context.state.urls() })).into_response()
}

/// `GET /approve/{code}`: returns the page that `taut up` names. It tells nothing about the request, because anybody may open it.
pub(super) async fn page(Path(code): Path<String>) -> Response {
    if !is_code(&code) {
        return Failure::no_such_path().into_response();
    }
    // A code has only letters and a hyphen.
    let code: String = code.chars().filter(|letter| letter.is_ascii_alphabetic() || *letter == '-').collect();
    let page = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>Taut: a machine asks to join</title>\
         <style>body{{font:16px/1.5 sans-serif;max-width:40em;margin:3em auto;padding:0 1em}}code{{background:#eee;padding:.2em .4em}}</style>\
         <h1>A machine asks to join</h1><p>Its code is <b>{code}</b>. Approve it only if you started <code>taut up</code> on that machine yourself, \
         and the code is the one that it shows.</p><p>On a host with an operator token:</p>\
         <p><code>taut-coordinator devices requests</code> shows which machine asks, and from where.<br>\
         <code>taut-coordinator devices approve {code}</code> lets it in.<br><code>taut-coordinator devices deny {code}</code> refuses it.</p></html>\n"
    );
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, Html(page)).into_response()
}

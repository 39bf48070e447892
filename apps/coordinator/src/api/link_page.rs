//! The page behind links that work once: the first owner chooses a name and a password, a user a new password. The secret is in the fragment of the URL, which the
//! browser keeps to itself; a script sends it in the body of a request.

use axum::http::header;
use axum::response::{IntoResponse, Response};

/// The page may load its own script and style sheet, and talk to this coordinator.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'; \
                      base-uri 'none'; form-action 'none'";

const PAGE: &str = include_str!("link_page/link.html");
const SCRIPT: &str = include_str!("link_page/link.js");

/// `GET /link`: returns the page.
pub(super) async fn page() -> Response {
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, POLICY)];
    (headers, PAGE).into_response()
}

/// `GET /link.js`: returns the script of the page.
pub(super) async fn script() -> Response {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], SCRIPT).into_response()
}

//! Headers that keep browsers from doing harm with an answer (fault E9).

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;

/// Headers of every answer: a browser must not run, frame, sniff or store any part of it. A page that needs fewer restrictions sets its own headers.
const ALWAYS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Header of answers over TLS: for 30 days from its last visit a browser opens only https URLs of this host (RFC 6797), of all its ports. A browser that stays away
/// for longer is as safe as at its first visit, and an operator who gives up https waits no longer than that.
const ONLY_HTTPS: HeaderValue = HeaderValue::from_static("max-age=2592000");

/// Adds the headers that an answer does not have.
pub(super) async fn add(mut response: Response) -> Response {
    for (name, value) in ALWAYS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Adds the header that keeps browsers from plain HTTP.
pub(super) async fn only_https(mut response: Response) -> Response {
    response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, ONLY_HTTPS);
    response
}

//! The header Idempotency-Key: a repeated creation gets the first answer again, and creates nothing.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Failure;
use crate::api::{Context, MAX_BODY};
use crate::log;
use crate::state::{Earlier, Repeatable};

/// The header.
const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Longest key, in characters: a UUID has 36.
const LONGEST: usize = 128;

/// Returns the key of a request; an error if it cannot be one.
pub(super) fn key(request: &Request) -> Result<Option<String>, Failure> {
    let Some(value) = request.headers().get(KEY) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    if text.is_empty() || text.len() > LONGEST || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let hint = "send 1 to 128 printable characters without spaces, such as a UUID, and a new one for each creation";
        return Err(Failure::bad_request("the header Idempotency-Key is not valid", hint));
    }
    Ok(Some(String::from(text)))
}

/// Carries a request out, or returns its earlier answer.
pub(super) async fn answer_once(
    context: Context,
    credential: &[u8],
    key: &str,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        return Failure::of_framework(StatusCode::PAYLOAD_TOO_LARGE).into_response();
    };
    let path = parts.uri.path_and_query().map(|path| path.as_str()).unwrap_or_default();
    let content = [parts.method.as_str().as_bytes(), path.as_bytes(), &body];
    let repeatable = Repeatable::new(credential, key, &content);
    match context.state.begin_repeatable(&repeatable).await {
        Ok(Earlier::New) => {}
        Ok(Earlier::Answered(status, body)) => return repeated(status, body),
        Ok(Earlier::Other) => {
            let hint = "send a new key with each creation";
            return Failure::repeated_key("another request was made with this Idempotency-Key", hint).into_response();
        }
        Ok(Earlier::Unknown) => {
            let hint = "look whether the object exists; repeat the request with a new key if it does not";
            return Failure::repeated_key(
                "a request with this Idempotency-Key is being carried out, or was interrupted",
                hint,
            )
            .into_response();
        }
        Ok(Earlier::Full) => {
            let hint = "send requests without a key, or wait until earlier keys are forgotten, a day after their use";
            return Failure::repeated_key("this credential has used too many Idempotency-Keys today", hint)
                .into_response();
        }
        Err(error) => return Failure::from(error).into_response(),
    }
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let answer = parts.status.is_success().then_some((parts.status.as_u16(), &body[..]));
    if let Err(error) = context.state.end_repeatable(&repeatable, answer).await {
        tracing::error!(target: log::API, event = "answer-not-kept", reason = %error);
    }
    Response::from_parts(parts, Body::from(body))
}

fn repeated(status: u16, body: Vec<u8>) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let kind = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, kind)], body).into_response()
}

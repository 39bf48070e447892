//! The header Idempotency-Key: a repeated creation gets the first answer again, and creates nothing.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use zeroize::Zeroizing;

use super::Failure;
use crate::api::Context;
use crate::log;
use crate::state::{Earlier, Repeatable};

/// The header.
const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Longest key, in characters: a UUID has 36.
const LONGEST: usize = 128;

/// Largest answer that is kept, 64 KiB: answers to creations are short, except for a policy's, which contains its text and the members. A credential has up to 1,000 of them.
const LARGEST_ANSWER: usize = 64 * 1024;

/// The key of a repeatable request, and the credential that its answer is sealed with: an extension of the request.
#[derive(Clone)]
pub(super) struct RepeatKey {
    pub(super) key: String,
    pub(super) credential: Arc<Zeroizing<Vec<u8>>>,
}

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

/// Carries a request out, or returns its earlier answer. `max_body` is the limit on the body of such a request, in bytes.
pub(super) async fn answer_once(
    context: &Context,
    RepeatKey { key, credential }: &RepeatKey,
    max_body: usize,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, max_body).await else {
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
                "a request with this Idempotency-Key is being carried out, was interrupted, or had an answer too large to keep",
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
    if answer.is_some() && body.len() > LARGEST_ANSWER {
        // The key stays in use without an answer, so that a repeated request creates nothing.
        return Response::from_parts(parts, Body::from(body));
    }
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

//! The operator's HTTP API, below `/api/v1`. Every path below `/api` needs a credential, also an unknown one: a new path is closed unless its route says
//! that it is open, and only an owner may use it unless its route says who else (fault E2). Requests and answers: [`crate::contract`]. Unknown fields are ignored (faults E3, L5).

mod credentials;
mod document;
mod failure;
mod health;
mod keys;
mod names;
mod networks;
mod nodes;
mod oidc;
mod people;
mod policy;
mod relays;
mod repeat;
mod requests;
mod route;
mod routes;
mod site;
mod tokens;
mod webhooks;

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State as Shared};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use taut_relay_server::Source;
use taut_relay_server::log::UNAUTHENTICATED;
use tokio::time::timeout;
use tracing::Instrument;

use super::Context;
use super::pending_connection::PendingConnection;
use super::request_id::RequestId;
use crate::log;
use crate::state::{Actor, Caller, Grants, Need, PeopleError, StateError};
use credentials::Refusal;
pub(super) use failure::Failure;
pub(super) use health::{Checked, alive};
pub(crate) use networks::DEFAULT_IPV4;
pub(super) use oidc::pages as oidc_pages;
pub(super) use people::audit_entry;
use repeat::RepeatKey;
pub(super) use route::Route;
pub(super) use routes::routes;
pub(super) use webhooks::post as post_to_webhook;

/// Timeout of a request, its body included, 30 s.
const REQUEST: Duration = Duration::from_secs(30);

/// The number of the operator token that a request was made with, or `None` for another credential: an extension of the request and of its answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Operator(Option<i64>);

/// Returns the OpenAPI document as JSON.
pub(crate) fn document() -> Value {
    serde_json::to_value(document::document(&routes())).unwrap_or_default()
}

/// Returns the router of the requests that need a token, below `/api`.
pub(super) fn router(context: Context) -> Router<Context> {
    let closed = routes().into_iter().filter(|route| !route.open);
    closed
        .fold(Router::new(), |router, route| {
            let path = route.path.strip_prefix("/api").expect("what wants a token is below /api");
            let rules = (context.clone(), route.need, route.max_body);
            router.route(path, route.handler.route_layer(from_fn_with_state(rules, authorize)))
        })
        .fallback(async || Failure::no_such_path())
        .method_not_allowed_fallback(async || Failure::no_such_method())
        // `layer`, not `route_layer`, because it applies to the fallbacks as well.
        .layer(from_fn_with_state(context, guard))
}

async fn guard(Shared(context): Shared<Context>, mut request: Request, next: Next) -> Response {
    let party = match credentials::party(&context, request.method(), request.headers()).await {
        Ok(party) => party,
        Err(Refusal::Unknown(reason)) => {
            let address = request.extensions().get::<Source>().map(ToString::to_string);
            tracing::warn!(target: log::API, limited = UNAUTHENTICATED, event = "operator-refused", address, reason);
            return Failure::unauthorized().into_response();
        }
        Err(Refusal::Failed(failure)) => return failure.into_response(),
    };
    match repeat::key(&request) {
        Ok(Some(key)) if *request.method() == Method::POST => {
            let credential = Arc::new(party.credential);
            request.extensions_mut().insert(RepeatKey { key, credential });
        }
        Ok(_) => {}
        Err(failure) => return failure.into_response(),
    }
    let operator = party.operator;
    request.extensions_mut().insert(operator);
    let caller = caller(&request, party.actor, party.grants);
    request.extensions_mut().insert(caller);
    if let Some(session) = party.session {
        request.extensions_mut().insert(session);
    }
    let _busy = request.extensions().get::<Arc<PendingConnection>>().map(|guest| Arc::clone(guest).busy());
    let mut answer = run_to_end(next.run(request)).await;
    answer.extensions_mut().insert(operator);
    answer
}

/// Returns the caller of a request. The needs of the request are not known yet, so until `authorize` sets them the request needs the rights of an owner.
fn caller(request: &Request, actor: Actor, grants: Grants) -> Caller {
    let source = request.extensions().get::<Source>().map(|source| source.address.to_canonical().to_string());
    let id = RequestId::current().map(|id| id.to_string());
    Caller { actor, grants, need: Need::OWNER, source: source.unwrap_or_default(), request: id.unwrap_or_default() }
}

/// Carries out a request if its caller may make such a request in some network. The rules then check the network. A request that was repeated is not carried out again.
async fn authorize(
    Shared((context, need, max_body)): Shared<(Context, Need, usize)>,
    mut request: Request,
    next: Next,
) -> Response {
    // Without a caller the request has not passed `guard`.
    let Some(caller) = request.extensions_mut().remove::<Caller>() else {
        return Failure::unauthorized().into_response();
    };
    if need.by_session && !matches!(caller.actor, Actor::Person { .. }) {
        return Failure::from(StateError::from(PeopleError::NeedsSession)).into_response();
    }
    if !caller.grants.allow_somewhere(need) {
        return Failure::from(StateError::from(PeopleError::Forbidden)).into_response();
    }
    let repeat_key = request.extensions_mut().remove::<RepeatKey>();
    let answer = async {
        match repeat_key {
            Some(key) => repeat::answer_once(&context, &key, max_body, request, next).await,
            None => next.run(request).await,
        }
    };
    Caller { need, ..caller }.scope(answer).await
}

/// Carries out a request with which a person gets a first credential.
pub(super) async fn front(request: Request, next: Next) -> Response {
    run_to_end(async move {
        let caller = Caller { grants: Grants::none(), ..caller(&request, Actor::Nobody, Grants::none()) };
        caller.scope(next.run(request)).await
    })
    .await
}

/// Answers a request in a task of its own, so that it is carried out also if its client does not wait: between the commit of a change and the moment when nodes and
/// relays are told, nothing may be left out.
async fn run_to_end(answer: impl Future<Output = Response> + Send + 'static) -> Response {
    let answer = async {
        let answer = timeout(REQUEST, answer).await;
        answer.map_or_else(|_| Failure::slow().into_response(), in_our_words)
    };
    let id = RequestId::current();
    let task = async move {
        match id {
            Some(id) => id.scope(answer).await,
            None => answer.await,
        }
    };
    let ended = tokio::spawn(task.in_current_span()).await;
    ended.unwrap_or_else(|_| Failure::of_framework(StatusCode::INTERNAL_SERVER_ERROR).into_response())
}

/// Turns a refusal of axum itself (body too large, malformed query) into an error answer of the API. Answers of handlers, JSON and pages, stay.
fn in_our_words(response: Response) -> Response {
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_ours = kind.is_some_and(|kind| kind == "application/json" || kind == oidc::HTML);
    if is_ours { response } else { Failure::of_framework(status).into_response() }
}

/// Returns an answer with status 200.
pub(super) fn answer(body: impl Serialize) -> Response {
    (StatusCode::OK, axum::Json(body)).into_response()
}

/// Returns an answer with status 201: the request created something.
fn created(body: impl Serialize) -> Response {
    (StatusCode::CREATED, axum::Json(body)).into_response()
}

/// Parses a body.
fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, Failure> {
    let wrong = |why: &dyn Display| {
        Failure::bad_request(&format!("the body is not what was expected: {why}"), "send a JSON object")
    };
    // Serde also accepts a list of the values in place of an object with the fields, so lists are refused here.
    if body.trim_ascii_start().first().is_some_and(|first| *first == b'[') {
        return Err(wrong(&"it is a list"));
    }
    serde_json::from_slice(body).map_err(|error| wrong(&error))
}

/// Returns the number of entries of a page: what was asked for, or `default`.
fn page(limit: Option<u32>, default: u32) -> Result<u32, Failure> {
    match limit {
        Some(limit @ 1..=500) => Ok(limit),
        Some(_) => {
            Err(Failure::bad_request("a page has from 1 to 500 entries", "give such a `limit`, or leave it out"))
        }
        None => Ok(default),
    }
}

//! Signing in and out, and the requests with links. They are open to everyone; `front` keeps other sites out.

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use taut_relay_server::Source;

use super::super::credentials::{SessionView, set_cookie};
use super::super::site::{self, Site};
use super::super::{Failure, answer, created, parse};
use super::{actor_entry, user_entry};
use crate::api::Context;
use crate::contract::{EndedSessions, ResetPassword, SchemaVersion, SessionAnswer, SetUp, SignInBody};
use crate::state::{Attempt, Caller, Opened, Password, csrf_token};

/// `POST /sign-in`: signs a user in.
pub(super) async fn sign_in(
    Shared(context): Shared<Context>,
    Extension(source): Extension<Source>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    let site = front(&context, &headers)?;
    let SignInBody { name, password, code } = parse_secret(&body)?;
    let attempt = Attempt { name, password: Password::new(password), code, source: source.address };
    let opened = context.state.sign_in(attempt).await?;
    opened_answer(&context, site, opened).await
}

/// `POST /set-up`: makes the first owner, and signs it in.
pub(super) async fn set_up(
    Shared(context): Shared<Context>,
    Extension(source): Extension<Source>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    let site = front(&context, &headers)?;
    let SetUp { secret, name, display_name, password } = parse_secret(&body)?;
    let (password, display_name) = (Password::new(password), display_name.as_deref());
    let opened = context.state.set_up(&secret, &name, display_name, password, source.address).await?;
    opened_answer(&context, site, opened).await
}

/// `POST /password`: sets a password with a link.
pub(super) async fn reset_password(
    Shared(context): Shared<Context>,
    Extension(source): Extension<Source>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    front(&context, &headers)?;
    let ResetPassword { secret, password } = parse_secret(&body)?;
    let ended = context.state.reset_password(&secret, Password::new(password), source.address).await?;
    Ok(created(EndedSessions { schema: SchemaVersion, ended }))
}

/// `GET /session`: returns the party of the request.
pub(super) async fn show(
    Shared(context): Shared<Context>,
    session: Option<Extension<SessionView>>,
) -> Result<Response, Failure> {
    let caller = Caller::current();
    let user = context.state.own_account().await?;
    let session = session.map(|Extension(session)| session);
    Ok(answer(SessionAnswer {
        schema: SchemaVersion,
        actor: actor_entry(&caller.actor),
        user: user.as_ref().map(user_entry),
        scopes: caller.grants.scopes.to_string(),
        csrf_token: session.as_ref().map(|session| session.csrf_token.clone()),
        expires_at: session.map(|session| session.expires_at),
    }))
}

/// `DELETE /session`: ends the session of the request.
pub(super) async fn sign_out(
    Shared(context): Shared<Context>,
    session: Option<Extension<SessionView>>,
) -> Result<Response, Failure> {
    context.state.sign_out().await?;
    Ok(without_cookie(answer(EndedSessions { schema: SchemaVersion, ended: 1 }), session))
}

/// Deletes the cookie of a session that has ended.
pub(super) fn without_cookie(mut response: Response, session: Option<Extension<SessionView>>) -> Response {
    if let Some(cookie) = session.and_then(|Extension(session)| set_cookie(session.site, None)) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Checks that a request without a credential comes from this coordinator's own pages or from a program. The type of the body keeps forms of other sites out: a
/// browser asks before it sends JSON to another site.
pub(super) fn front(context: &Context, headers: &HeaderMap) -> Result<Site, Failure> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        return Err(Failure::bad_request("the body is not JSON", "send `Content-Type: application/json`"));
    }
    site::check(headers, context.state.urls(), context.front.tls.is_some(), true)
}

/// Parses a body with a secret. The failure does not repeat it.
pub(super) fn parse_secret<T: serde::de::DeserializeOwned>(body: &Bytes) -> Result<T, Failure> {
    parse(body).map_err(|_: Failure| {
        Failure::bad_request("the body is not what was expected", "send a JSON object as the OpenAPI document says")
    })
}

/// Returns the answer to a request that opened a session.
async fn opened_answer(context: &Context, site: Site, opened: Opened) -> Result<Response, Failure> {
    let Opened { secret, known } = opened;
    let caller = Caller { actor: known.actor(), grants: known.grants, ..Caller::clone(&Caller::current()) };
    let (actor, scopes) = (actor_entry(&caller.actor), caller.grants.scopes.to_string());
    let user = Box::pin(caller.scope(context.state.own_account())).await?;
    let mut response = created(SessionAnswer {
        schema: SchemaVersion,
        actor,
        user: user.as_ref().map(user_entry),
        scopes,
        csrf_token: Some(csrf_token(&secret)),
        expires_at: Some(known.session.expires_at),
    });
    if let Some(cookie) = set_cookie(site, Some(&secret)) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

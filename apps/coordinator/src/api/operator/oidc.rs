//! `/oidc/begin` and `/oidc/callback`: a browser signs in at the OpenID provider and comes back. They answer with pages, because a person sees them.

use axum::extract::{Query, State as Shared};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use serde::Deserialize;
use taut_relay_server::Source;
use zeroize::Zeroizing;

use super::credentials::{cookie_of, set_cookie};
use super::site::{self, Site};
use super::{Failure, front};
use crate::api::Context;
use crate::state::{OidcReturn, PeopleError, SIGN_IN_LIFE, StateError};

/// Path at which a sign-in begins.
const BEGIN: &str = "/oidc/begin";

/// Path to which the provider sends the browser back. It is registered at the provider.
const CALLBACK: &str = "/oidc/callback";

/// Names of the cookie of a sign-in over http and over https.
const COOKIES: [&str; 2] = ["taut-oidc", "__Host-taut-oidc"];

/// Type of the pages.
pub(super) const HTML: &str = "text/html; charset=utf-8";

/// Longest path to return to, 512 bytes.
const LONGEST_PATH: usize = 512;

/// Returns the router of both pages.
pub(in crate::api) fn pages() -> Router<Context> {
    Router::new()
        .route(BEGIN, get(begin).route_layer(from_fn(front)))
        .route(CALLBACK, get(callback).route_layer(from_fn(front)))
}

#[derive(Deserialize)]
struct BeginQuery {
    /// Path on this coordinator to go to afterwards.
    #[serde(rename = "return")]
    back: Option<String>,
}

#[derive(Deserialize)]
struct CallbackQuery {
    code: Option<String>,
    state: String,
    iss: Option<String>,
}

/// `GET /oidc/begin?return=PATH`: sends the browser to the provider.
async fn begin(
    Shared(context): Shared<Context>,
    Extension(source): Extension<Source>,
    headers: HeaderMap,
    query: Result<Query<BeginQuery>, axum::extract::rejection::QueryRejection>,
) -> Response {
    page_of(begin_or_fail(&context, source, &headers, query.ok().map(|Query(query)| query)).await)
}

async fn begin_or_fail(
    context: &Context,
    source: Source,
    headers: &HeaderMap,
    query: Option<BeginQuery>,
) -> Result<Response, Failure> {
    expect_provider(context)?;
    let site = site::check(headers, context.state.urls(), context.front.tls.is_some(), false)?;
    // The provider sends the browser back to a registered URL: under another name it would have no cookie there.
    let own = site::own_url(headers, context.state.urls());
    let own = own.ok_or_else(|| Failure::wrong_site("people sign in under a name of `serve --url` only"))?;
    let redirect = format!("{}{CALLBACK}", own.trim_end_matches('/'));
    let back = query.map(|query| query.back.unwrap_or_else(|| String::from("/")));
    let back = back.filter(|back| is_local(back)).ok_or_else(|| {
        Failure::bad_request("`return` is not a path on this coordinator", "write a path such as /, or leave it out")
    })?;
    let begun = context.state.begin_oidc(source.address, redirect, back).await?;
    let mut response = page(StatusCode::SEE_OTHER, "Sign in", "Your browser goes on to the provider.", None);
    let location = HeaderValue::from_str(&begun.url).map_err(|_| StateError::from(PeopleError::ProviderAway))?;
    response.headers_mut().insert(header::LOCATION, location);
    Ok(with_cookie(response, site, &begun.cookie, SIGN_IN_LIFE))
}

/// `GET /oidc/callback`: finishes a sign-in.
async fn callback(
    Shared(context): Shared<Context>,
    Extension(source): Extension<Source>,
    headers: HeaderMap,
    query: Result<Query<CallbackQuery>, axum::extract::rejection::QueryRejection>,
) -> Response {
    page_of(finish(&context, source, &headers, query.ok().map(|Query(query)| query)).await)
}

async fn finish(
    context: &Context,
    source: Source,
    headers: &HeaderMap,
    query: Option<CallbackQuery>,
) -> Result<Response, Failure> {
    expect_provider(context)?;
    let site = site::check(headers, context.state.urls(), context.front.tls.is_some(), false)?;
    let CallbackQuery { code, state, iss } = query.ok_or(StateError::from(PeopleError::SignInAtProvider))?;
    let cookie = cookie_of(headers, COOKIES[usize::from(site.is_https)]).unwrap_or_default();
    let code = code.map(Zeroizing::new);
    let back = OidcReturn { code, state, issuer: iss, cookie };
    let (opened, path) = context.state.finish_oidc(source.address, back).await?;
    // Not a redirect: the session's cookie is for this site alone, and a browser does not send it while it follows redirects from another one.
    let response = page(StatusCode::OK, "You are signed in", "This page goes on by itself.", Some(&path));
    let mut response = with_cookie(response, site, "", 0);
    if let Some(cookie) = set_cookie(site, Some(&opened.secret)) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

fn expect_provider(context: &Context) -> Result<(), Failure> {
    let is_there = context.state.has_provider();
    if is_there { Ok(()) } else { Err(StateError::from(PeopleError::NoProvider).into()) }
}

/// Returns true for a path on this coordinator that is no address of another site in any browser (fault E14).
fn is_local(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_.-~?=&%".contains(&byte);
    path.len() <= LONGEST_PATH && path.starts_with('/') && !path.starts_with("//") && path.bytes().all(is_plain)
}

/// Sets the cookie of a sign-in. `Lax`, because the provider's page, which is another site, sends the browser back.
fn with_cookie(mut response: Response, site: Site, value: &str, life: i64) -> Response {
    let (name, secure) = (COOKIES[usize::from(site.is_https)], if site.is_https { "; Secure" } else { "" });
    let text = format!("{name}={value}; Path=/; Max-Age={life}; HttpOnly; SameSite=Lax{secure}");
    if let Ok(mut header) = HeaderValue::from_str(&Zeroizing::new(text)) {
        header.set_sensitive(true);
        response.headers_mut().append(header::SET_COOKIE, header);
    }
    response
}

fn page_of(result: Result<Response, Failure>) -> Response {
    result.unwrap_or_else(|failure| {
        let (status, message, hint) = failure.words();
        page(status, "The sign-in did not succeed", &format!("{message}; {hint}"), None)
    })
}

/// Returns a page. `next` is a checked path.
fn page(status: StatusCode, title: &str, text: &str, next: Option<&str>) -> Response {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let next = next.map(escaped);
    let refresh = next.as_ref().map(|next| format!("<meta http-equiv=\"refresh\" content=\"1;url={next}\">\n"));
    let link = next.as_ref().map(|next| format!("<p><a href=\"{next}\">Go on</a></p>\n"));
    let body = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         {}<title>Taut</title>\n<h1>{}</h1>\n<p role=\"status\">{}</p>\n{}</html>\n",
        refresh.unwrap_or_default(),
        escaped(title),
        escaped(text),
        link.unwrap_or_default(),
    );
    (status, [(header::CONTENT_TYPE, HTML)], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_e14_only_paths_of_this_coordinator_are_returned_to() {
        for good in ["/", "/nodes", "/nodes/7?tab=keys&x=%20", "/a//b", "/.well-known"] {
            assert!(is_local(good), "{good}");
        }
        let long = format!("/{}", "a".repeat(512));
        for wrong in [
            "",
            "nodes",
            "//evil.example",
            "///evil.example",
            "/\\evil.example",
            "\\/evil.example",
            "https://evil.example",
            "javascript:alert(1)",
            "/\tevil",
            "/\n/evil.example",
            "/a b",
            "/\"onload=",
            "/<script>",
            "/@evil:x",
            &long,
        ] {
            assert!(!is_local(wrong), "{wrong:?}");
        }
    }
}

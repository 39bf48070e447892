//! Credentials of requests: an operator token or API token in the header Authorization, or a session in a cookie.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use subtle::ConstantTimeEq;
use taut_base::encode_base64url;
use zeroize::Zeroizing;

use super::super::Context;
use super::site::{self, Site};
use super::{Failure, Operator};
use crate::state::{ABSOLUTE_LIFE, API_PREFIX, Actor, Grants, Known, Secret, State, StateError, csrf_token};

/// Header that requests of a session carry if they change something.
pub(super) const CSRF: HeaderName = HeaderName::from_static("x-csrf-token");

/// Names of the session cookie over http and over https. Browsers accept a cookie with the second name over TLS only, and not from a sibling host.
const COOKIES: [&str; 2] = ["taut-session", "__Host-taut-session"];

/// A party whose credential was checked.
pub(super) struct Party {
    pub(super) actor: Actor,
    pub(super) grants: Grants,
    pub(super) operator: Operator,
    /// The credential itself: answers to repeatable requests are sealed with a key derived from it.
    pub(super) credential: Zeroizing<Vec<u8>>,
    /// The session of the request, which some answers describe.
    pub(super) session: Option<SessionView>,
}

/// The session of a request: an extension of the request.
#[derive(Clone, Debug)]
pub(super) struct SessionView {
    pub(super) csrf_token: String,
    pub(super) expires_at: i64,
    pub(super) site: Site,
}

/// The reason for which a request has no party.
pub(super) enum Refusal {
    /// The request has no valid credential.
    Unknown(&'static str),
    /// The request was refused for another reason.
    Failed(Failure),
}

impl From<StateError> for Refusal {
    fn from(error: StateError) -> Self {
        Self::Failed(error.into())
    }
}

/// Returns the party of a request. A header comes before a cookie.
pub(super) async fn party(context: &Context, method: &Method, headers: &HeaderMap) -> Result<Party, Refusal> {
    let state = &*context.state;
    if let Some(token) = token(headers) {
        return of_token(state, token).await;
    }
    if headers.contains_key(header::AUTHORIZATION) {
        return Err(Refusal::Unknown("unknown token"));
    }
    let is_tls = context.front.tls.is_some();
    let is_https = is_tls || site::is_https(headers, state.urls());
    let Some(secret) = cookie(headers, is_https).and_then(|text| Secret::from_base64url(&text)) else {
        return Err(Refusal::Unknown("no token"));
    };
    let is_change = !matches!(*method, Method::GET | Method::HEAD);
    let site = site::check(headers, state.urls(), is_tls, is_change).map_err(Refusal::Failed)?;
    let Some(known) = state.session(&secret).await? else { return Err(Refusal::Unknown("unknown session")) };
    let csrf_token = csrf_token(&secret);
    if is_change {
        let sent = headers.get(CSRF).map(HeaderValue::as_bytes).unwrap_or_default();
        if !bool::from(sent.ct_eq(csrf_token.as_bytes())) {
            let why = "the request has no X-CSRF-Token of its session";
            return Err(Refusal::Failed(Failure::wrong_site(why)));
        }
    }
    let Known { ref session, .. } = known;
    let session = Some(SessionView { csrf_token, expires_at: session.expires_at, site });
    let credential = Zeroizing::new(secret.expose().to_vec());
    Ok(Party { actor: known.actor(), grants: known.grants, operator: Operator(None), credential, session })
}

async fn of_token(state: &State, token: &str) -> Result<Party, Refusal> {
    let credential = Zeroizing::new(token.as_bytes().to_vec());
    if token.starts_with(API_PREFIX) {
        let Some((actor, grants)) = state.api_token(token).await? else {
            return Err(Refusal::Unknown("unknown token"));
        };
        return Ok(Party { actor, grants, operator: Operator(None), credential, session: None });
    }
    let Some(id) = state.operator(token).await? else { return Err(Refusal::Unknown("unknown token")) };
    let (actor, grants) = (Actor::OperatorToken(id), Grants::all());
    Ok(Party { actor, grants, operator: Operator(Some(id)), credential, session: None })
}

fn token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Returns the session secret of the cookies. Over https only the cookie with the prefix `__Host-` counts. Another host of the same domain can set every other
/// cookie, and would sign the user in to the attacker's account that way (fault E9).
fn cookie(headers: &HeaderMap, is_https: bool) -> Option<Zeroizing<String>> {
    cookie_of(headers, COOKIES[usize::from(is_https)])
}

/// Returns the value of the first cookie with this name.
pub(super) fn cookie_of(headers: &HeaderMap, wanted: &str) -> Option<Zeroizing<String>> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(name, _)| *name == wanted)?;
    Some(Zeroizing::new(String::from(value)))
}

/// Returns the header that sets the cookie of a session, or deletes it.
pub(super) fn set_cookie(site: Site, secret: Option<&Secret>) -> Option<HeaderValue> {
    let name = COOKIES[usize::from(site.is_https)];
    let secure = if site.is_https { "; Secure" } else { "" };
    let value = secret.map(|secret| encode_base64url(secret.expose())).unwrap_or_default();
    let life = if secret.is_some() { ABSOLUTE_LIFE } else { 0 };
    let text = Zeroizing::new(format!("{name}={value}; Path=/; Max-Age={life}; HttpOnly; SameSite=Strict{secure}"));
    let mut header = HeaderValue::from_str(&text).ok()?;
    header.set_sensitive(true);
    Some(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_e9_the_cookie_is_of_no_use_to_scripts_and_other_sites() {
        let secret = Secret::new();
        let text = |is_https| set_cookie(Site { is_https }, Some(&secret)).unwrap().to_str().unwrap().to_owned();
        for (is_https, name) in [(false, "taut-session="), (true, "__Host-taut-session=")] {
            let cookie = text(is_https);
            assert!(cookie.starts_with(name) && cookie.contains("; Path=/"), "{cookie}");
            assert!(cookie.contains("; HttpOnly") && cookie.contains("; SameSite=Strict"), "{cookie}");
            assert_eq!(cookie.contains("; Secure"), is_https, "{cookie}");
            assert!(!cookie.contains("Domain"), "{cookie}");
        }
        let mut headers = HeaderMap::new();
        let line = text(true).split(';').next().unwrap().to_owned();
        headers.insert(header::COOKIE, format!("a=b; {line}; c=d").parse().unwrap());
        let read = Secret::from_base64url(&cookie(&headers, true).unwrap()).unwrap();
        assert_eq!(read.hash(), secret.hash());
        assert!(cookie(&headers, false).is_none());
        headers.insert(header::COOKIE, text(false).parse().unwrap());
        assert!(cookie(&headers, false).is_some());
        assert!(cookie(&headers, true).is_none(), "a sibling host can set a cookie without the prefix");
    }
}

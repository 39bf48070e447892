//! Signing in at an OpenID provider, in a browser: authorization code with PKCE. docs/internals/people.md shows the steps.
//!
//! Until a sign-in is finished, nothing of it is stored: its secrets are in a sealed cookie of the browser that began, so that strangers fill no table, and every
//! coordinator on the same database can finish it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use taut_base::{decode_base64url, encode_base64url, network};
use taut_relay_server::log::UNAUTHENTICATED;
use zeroize::Zeroizing;

use super::super::{Secret, State, StateError};
use super::groups::{Regrouped, regroup};
use super::sealed::SealingKey;
use super::sign_in::{Opened, insert as insert_session};
use super::users::{MOST as MOST_PEOPLE, check_display_name, check_email};
use super::{Actor, Caller, Change, PeopleError, record};
use crate::clock::unix_now;
use crate::log;
use crate::oidc::{Granted, Identity, Provider, ProviderError};
use crate::store::{LOCAL, NewPerson, Party, PersonRow, Writing};

/// Time that a person has to sign in at the provider, 10 minutes in seconds.
pub(crate) const SIGN_IN_LIFE: i64 = 600;

/// Time without an answer of the provider after which its people have no access any more, 3 days in seconds: longer than a weekend is away from repair, and
/// shorter than an API token lives.
const UNCONFIRMED_LIFE: i64 = 3 * 24 * 3600;

/// The reason for which a sign-in that was finished before is refused.
pub(super) const FINISHED: &str = "the code was used before";

/// Largest cookie and largest code or state that are looked at, 4 KiB.
const LARGEST: usize = 4_096;

/// A sign-in that has begun.
pub(crate) struct OidcBegun {
    /// The provider's page.
    pub(crate) url: String,
    /// Value of the cookie that only this browser has.
    pub(crate) cookie: Zeroizing<String>,
}

/// The parameters and the cookie of a browser that returns from the provider.
pub(crate) struct OidcReturn {
    pub(crate) code: Option<Zeroizing<String>>,
    pub(crate) state: String,
    /// The issuer, if the provider names it (RFC 9207).
    pub(crate) issuer: Option<String>,
    /// Value of the cookie.
    pub(crate) cookie: Zeroizing<String>,
}

/// The contents of the cookie.
#[derive(Serialize, Deserialize)]
struct Pending {
    state: String,
    nonce: String,
    verifier: String,
    redirect: String,
    /// Path on this coordinator to go to afterwards.
    back: String,
    expires_at: i64,
}

impl State {
    /// Returns true if people can sign in at a provider.
    pub(crate) fn has_provider(&self) -> bool {
        self.people.provider.is_some()
    }

    /// Begins a sign-in that returns to the URL `redirect`, and then goes on to the path `back`.
    pub(crate) async fn begin_oidc(
        &self,
        source: IpAddr,
        redirect: String,
        back: String,
    ) -> Result<OidcBegun, StateError> {
        let provider = self.provider()?;
        if !self.people.limits.take_source(network(source), Instant::now()) {
            return Err(PeopleError::TooManyAttempts.into());
        }
        let state = encode_base64url(Secret::new().expose());
        let begun = provider.authorization(redirect.clone(), state.clone()).await;
        let begun = begun.map_err(|error| self.refused(source, &error))?;
        let (nonce, verifier) = (begun.nonce, begun.verifier.to_string());
        let pending = Pending { state, nonce, verifier, redirect, back, expires_at: unix_now() + SIGN_IN_LIFE };
        let text = Zeroizing::new(serde_json::to_vec(&pending).map_err(|_| PeopleError::SignInAtProvider)?);
        let sealed = self.cookie_key().seal(&[], &text).ok_or(PeopleError::SignInAtProvider)?;
        Ok(OidcBegun { url: begun.url, cookie: Zeroizing::new(encode_base64url(&sealed)) })
    }

    /// Finishes a sign-in. Returns the session, and the path to go to. All failures but those that the person can do something about have one answer (fault E14).
    pub(crate) async fn finish_oidc(&self, source: IpAddr, back: OidcReturn) -> Result<(Opened, String), StateError> {
        let provider = self.provider()?;
        if !self.people.limits.take_source(network(source), Instant::now()) {
            self.people.failures.note(source, None);
            return Err(PeopleError::TooManyAttempts.into());
        }
        let pending =
            self.pending(&back).map_err(|why| self.refused(source, &ProviderError::Invalid(String::from(why))))?;
        let issuer = &provider.options().issuer;
        if back.issuer.as_ref().is_some_and(|named| named != issuer) {
            let why = String::from("the answer comes from another issuer");
            return Err(self.refused(source, &ProviderError::Invalid(why)).into());
        }
        let Some(code) = back.code else {
            let why = String::from("it sent no code; the person may have refused");
            return Err(self.refused(source, &ProviderError::Refused(why)).into());
        };
        let granted = provider.exchange(pending.redirect, code, Zeroizing::new(pending.verifier), pending.nonce).await;
        let granted = granted.map_err(|error| self.refused(source, &error))?;
        let once = (taut_noise::hash(&[b"taut oidc state", pending.state.as_bytes()]), pending.expires_at);
        let mut tx = self.store.write(Party::Unauthenticated).await?;
        let (person, regrouped) = self.admit_by_provider(&mut tx, &provider, &granted, once, source).await?;
        let opened = insert_session(&mut tx, person, source).await?;
        tx.commit().await?;
        self.announce_groups(regrouped);
        Ok((opened, pending.back))
    }

    /// Returns the sign-in that this browser began; otherwise why it did not.
    fn pending(&self, back: &OidcReturn) -> Result<Pending, &'static str> {
        let code = back.code.as_ref().map_or(0, |code| code.len());
        if back.cookie.len() > LARGEST || back.state.len() > LARGEST || code > LARGEST {
            return Err("the parameters are too long");
        }
        let sealed = decode_base64url(&back.cookie).map_err(|_| "this browser has not begun to sign in")?;
        let text = self.cookie_key().open(&[], &sealed).ok_or("this browser has not begun to sign in")?;
        let pending: Pending = serde_json::from_slice(&text).map_err(|_| "this browser has not begun to sign in")?;
        if !bool::from(pending.state.as_bytes().ct_eq(back.state.as_bytes())) {
            return Err("another browser began this sign-in, or an earlier one");
        }
        if unix_now() >= pending.expires_at {
            return Err("the sign-in has taken too long");
        }
        Ok(pending)
    }

    /// Uses a sign-in up, and stores what the provider says about its person. Returns the person, and the networks that must be told after the commit.
    pub(super) async fn admit_by_provider(
        &self,
        tx: &mut Writing,
        provider: &Provider,
        granted: &Granted,
        (hash, expires_at): ([u8; 32], i64),
        source: IpAddr,
    ) -> Result<(PersonRow, Regrouped), StateError> {
        if !tx.finish_sign_in(&hash, expires_at).await? {
            return Err(self.refused(source, &ProviderError::Invalid(String::from(FINISHED))).into());
        }
        let person = person(tx, &provider.options().issuer, &granted.identity, source).await?;
        if person.disabled_at.is_some() {
            // The number is not secret, but strangers are not told who is disabled.
            self.people.failures.note(source, Some(person.id));
            return Err(PeopleError::SignInAtProvider.into());
        }
        let (person, regrouped) = update(tx, person, &granted.identity, source).await?;
        let token = granted
            .refresh_token
            .as_ref()
            .and_then(|token| refresh_key(provider).seal(&person.id.to_be_bytes(), token.as_bytes()));
        tx.set_refresh_token(person.id, token.as_deref(), unix_now()).await?;
        Ok((person, regrouped))
    }

    /// Returns true if a person may act: it is not disabled, and its provider, if it has one, is the present one and has confirmed it lately.
    pub(in crate::state) fn may_act(&self, person: &PersonRow) -> bool {
        let is_confirmed = || {
            let provider = self.people.provider.as_ref();
            let is_of_provider = provider.is_some_and(|provider| provider.options().issuer == person.issuer);
            let age = unix_now() - person.checked_at.unwrap_or_default();
            is_of_provider && person.lapsed_at.is_none() && age < UNCONFIRMED_LIFE
        };
        person.disabled_at.is_none() && (person.issuer == LOCAL || is_confirmed())
    }

    /// Logs why a sign-in failed, counts it, and returns what the browser or the terminal is told.
    pub(super) fn refused(&self, source: IpAddr, error: &ProviderError) -> PeopleError {
        let (address, reason) = (source.to_canonical().to_string(), error.to_string());
        tracing::warn!(target: log::API, limited = UNAUTHENTICATED, event = "oidc-sign-in-failed", address, reason);
        match error {
            ProviderError::Unavailable(_) => return PeopleError::ProviderAway,
            ProviderError::NoDeviceGrant(_) => return PeopleError::NoDeviceGrant,
            _ => {}
        }
        self.people.failures.note(source, None);
        match error {
            ProviderError::NotAllowed(_) => PeopleError::NotLetIn,
            _ => PeopleError::SignInAtProvider,
        }
    }

    /// Returns the cookie of a sign-in as it is when its time is over.
    #[cfg(test)]
    pub(crate) fn expired_sign_in(&self, cookie: &str) -> String {
        let text = self.cookie_key().open(&[], &decode_base64url(cookie).unwrap()).unwrap();
        let pending = Pending { expires_at: unix_now(), ..serde_json::from_slice(&text).unwrap() };
        encode_base64url(&self.cookie_key().seal(&[], &serde_json::to_vec(&pending).unwrap()).unwrap())
    }

    pub(super) fn provider(&self) -> Result<Arc<Provider>, PeopleError> {
        self.people.provider.clone().ok_or(PeopleError::NoProvider)
    }

    /// Returns the key of the cookie: the same for all coordinators on one database.
    fn cookie_key(&self) -> SealingKey {
        SealingKey::new(b"taut oidc cookie", self.key.expose())
    }
}

/// Returns the key for refresh tokens. It is not in the database, so that a copy of that is no access to the provider.
pub(super) fn refresh_key(provider: &Provider) -> SealingKey {
    SealingKey::new(b"taut oidc refresh token", provider.options().client_secret.as_bytes())
}

/// Returns the person of an issuer and a subject; creates it, without a role, at its first sign-in. The email address decides nothing.
async fn person(tx: &mut Writing, issuer: &str, identity: &Identity, source: IpAddr) -> Result<PersonRow, StateError> {
    if let Some(known) = tx.person_of(issuer, &identity.subject).await? {
        return Ok(known);
    }
    if tx.count_people().await? >= MOST_PEOPLE {
        return Err(PeopleError::TooManyPeople.into());
    }
    let new = NewPerson { issuer, subject: &identity.subject, name: &identity.subject, email: None };
    let row = tx.insert_person(&new, unix_now()).await?;
    let after = Some(serde_json::json!({ "issuer": issuer, "name": identity.subject }));
    let caller = Caller { source: source.to_canonical().to_string(), ..Caller::local(Actor::Nobody) };
    let change =
        Change { network: None, action: "user-created", object: format!("user {}", row.id), before: None, after };
    Box::pin(caller.scope(record(tx, change))).await?;
    Ok(row)
}

/// Stores what the provider says about a person, and records what it changed. Returns the networks that must be told after the commit.
pub(super) async fn update(
    tx: &mut Writing,
    before: PersonRow,
    identity: &Identity,
    source: IpAddr,
) -> Result<(PersonRow, Regrouped), StateError> {
    let mut row = before.clone();
    row.name = shown_name(identity);
    row.email = identity.email.clone().filter(|email| check_email(Some(email)).is_ok());
    row.login = row
        .email
        .as_ref()
        .filter(|email| identity.is_email_confirmed && email.is_ascii())
        .map(|email| email.to_ascii_lowercase());
    row.member_of.clone_from(&identity.groups);
    let after = tx.confirm_person(&row, unix_now()).await?;
    let regrouped = regroup(tx, &before, Some(&after)).await?;
    if after.version != before.version {
        let value = |row: &PersonRow| {
            let lapsed = row.lapsed_at.is_some();
            Some(
                serde_json::json!({ "display_name": row.name, "email": row.email, "groups": row.member_of, "lapsed": lapsed }),
            )
        };
        let source = if source.is_unspecified() { String::new() } else { source.to_canonical().to_string() };
        let caller = Caller { source, ..Caller::local(Actor::Coordinator) };
        let change = Change {
            network: None,
            action: "user-confirmed",
            object: format!("user {}", after.id),
            before: value(&before),
            after: value(&after),
        };
        Box::pin(caller.scope(record(tx, change))).await?;
    }
    Ok((after, regrouped))
}

/// Returns the name to show: the first valid one of what the provider says.
fn shown_name(identity: &Identity) -> String {
    let names = [identity.name.as_ref(), identity.email.as_ref(), Some(&identity.subject)];
    let valid = names.into_iter().flatten().find(|name| check_display_name(name).is_ok());
    valid.cloned().unwrap_or_else(|| String::from("unnamed"))
}

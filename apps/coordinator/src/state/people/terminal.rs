//! Signing in at an OpenID provider in a terminal (RFC 8628). docs/internals/people.md shows the steps.
//!
//! As in a browser, nothing of a sign-in is stored until it is finished. Its secrets are in a sealed text that only the terminal that began has: strangers fill no
//! table, every coordinator on the same database can finish it, and the code that a person enters, which others may see, gives nothing.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use taut_base::{decode_base64url, encode_base64url, network};
use zeroize::Zeroizing;

use super::super::{Secret, State, StateError};
use super::api_tokens::{self, create as create_token};
use super::oidc::{FINISHED, SIGN_IN_LIFE};
use super::sealed::SealingKey;
use super::{ABSOLUTE_LIFE, Actor, Caller, Change, IDLE_LIFE, PeopleError, TokenView, record};
use crate::clock::unix_now;
use crate::oidc::{DeviceAuthorization, DevicePoll, ProviderError};
use crate::store::{Party, PersonRow, Writing};

/// Longest life of a terminal's token, 7 days in seconds, as that of a session: it comes from a link that a person may have been talked into opening.
pub(crate) const LONGEST_TERMINAL_LIFE: i64 = ABSOLUTE_LIFE;

/// Largest sealed text that is looked at, 8 KiB: more than the longest that the limits on its parts allow.
const LARGEST: usize = 8_192;

/// The API token that a terminal asks for: its name, its scopes and its life.
#[derive(Serialize, Deserialize)]
pub(crate) struct NewTerminal {
    /// Name of the token; `terminal` by default.
    pub(crate) name: Option<String>,
    /// Scopes of the token; all by default.
    pub(crate) scopes: Option<String>,
    /// Life of the token in seconds; by default that of a session that is not used.
    pub(crate) life: Option<i64>,
}

/// A sign-in that has begun.
pub(crate) struct TerminalBegun {
    /// The sealed sign-in, which only this terminal has.
    pub(crate) secret: Zeroizing<String>,
    /// Code for the person.
    pub(crate) code: String,
    /// The provider's page for the code.
    pub(crate) link: String,
    /// The same page with the code already entered, if there is one.
    pub(crate) link_with_code: Option<String>,
    /// Time that the person has, in seconds.
    pub(crate) life: i64,
    /// Least time between two questions.
    pub(crate) interval: Duration,
}

/// The answer to a terminal that asks whether its person has signed in.
pub(crate) enum TerminalAnswer {
    Pending,
    /// The person has not signed in yet, and the question came too soon.
    SlowDown,
    /// The token of the person, with its text, which is not stored.
    Done(TokenView, String),
}

/// The contents of the sealed text.
#[derive(Serialize, Deserialize)]
struct Pending {
    /// Random.
    id: String,
    begun: DeviceAuthorization,
    wanted: NewTerminal,
    expires_at: i64,
}

impl NewTerminal {
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("terminal")
    }

    fn scopes(&self) -> &str {
        self.scopes.as_deref().unwrap_or("all")
    }

    fn life(&self) -> i64 {
        self.life.unwrap_or(IDLE_LIFE)
    }
}

impl State {
    /// Begins a sign-in in a terminal.
    pub(crate) async fn begin_terminal(
        &self,
        source: IpAddr,
        wanted: NewTerminal,
    ) -> Result<TerminalBegun, StateError> {
        let provider = self.provider()?;
        // Before a person is sent to the provider for nothing. A text of scopes may say the same many times.
        let scopes = api_tokens::check(wanted.name(), wanted.scopes())?.to_string();
        let wanted = NewTerminal { scopes: Some(scopes), ..wanted };
        if !(1..=LONGEST_TERMINAL_LIFE).contains(&wanted.life()) {
            return Err(PeopleError::LongTerminalLife.into());
        }
        if !self.people.limits.take_source(network(source), Instant::now()) {
            return Err(PeopleError::TooManyAttempts.into());
        }
        let begun = provider.device_authorization().await.map_err(|error| self.refused(source, &error))?;
        let life = i64::try_from(begun.life().as_secs()).unwrap_or(SIGN_IN_LIFE).min(SIGN_IN_LIFE);
        let (code, link) = (String::from(begun.code()), String::from(begun.link()));
        let (link_with_code, interval) = (begun.link_with_code().map(String::from), begun.interval());
        let id = encode_base64url(Secret::new().expose());
        let pending = Pending { id, begun, wanted, expires_at: unix_now() + life };
        let secret = self.sealed(&pending).filter(|secret| secret.len() <= LARGEST);
        let secret = secret.ok_or(PeopleError::SignInAtProvider)?;
        Ok(TerminalBegun { secret, code, link, link_with_code, life, interval })
    }

    /// Asks the provider whether the person has signed in, and creates its token if so. All failures but those that the person can do something about have one answer
    /// (fault E14).
    pub(crate) async fn finish_terminal(&self, source: IpAddr, secret: &str) -> Result<TerminalAnswer, StateError> {
        let provider = self.provider()?;
        let now = Instant::now();
        let limits = &self.people.limits;
        let pending = match self.opened(secret) {
            Ok(pending) => pending,
            Err(_) if !limits.take_guessing_source(network(source), now) => return Ok(TerminalAnswer::SlowDown),
            Err(why) => return Err(self.refused(source, &ProviderError::Invalid(String::from(why))).into()),
        };
        if !limits.take_polling_source(network(source), now) {
            return Ok(TerminalAnswer::SlowDown);
        }
        let Some(_asked) = limits.take_polled_sign_in(&pending.id, now) else { return Ok(TerminalAnswer::SlowDown) };
        let once = (taut_noise::hash(&[b"taut oidc finished terminal", pending.id.as_bytes()]), pending.expires_at);
        // A provider may take a second use of a device code for theft and withdraw everything. A terminal that lost the last answer asks again.
        if self.store.read(Party::Unauthenticated).await?.is_sign_in_finished(&once.0).await? {
            return Err(self.refused(source, &ProviderError::Invalid(String::from(FINISHED))).into());
        }
        let granted = match provider.poll_device(pending.begun).await.map_err(|error| self.refused(source, &error))? {
            DevicePoll::Pending => return Ok(TerminalAnswer::Pending),
            DevicePoll::SlowDown => return Ok(TerminalAnswer::SlowDown),
            DevicePoll::Granted(granted) => granted,
        };
        let mut tx = self.store.write(Party::Unauthenticated).await?;
        let (person, regrouped) = self.admit_by_provider(&mut tx, &provider, &granted, once, source).await?;
        let actor = Actor::Person { id: person.id, name: person.subject.clone(), session: 0 };
        let caller = Caller { actor, source: source.to_canonical().to_string(), ..Caller::clone(&Caller::current()) };
        let done = Box::pin(caller.scope(give_token(&mut tx, person, &pending.wanted))).await?;
        tx.commit().await?;
        self.announce_groups(regrouped);
        Ok(done)
    }

    fn sealed(&self, pending: &Pending) -> Option<Zeroizing<String>> {
        let text = Zeroizing::new(serde_json::to_vec(pending).ok()?);
        Some(Zeroizing::new(encode_base64url(&self.terminal_key().seal(&self.terminal_context(), &text)?)))
    }

    /// Returns the sign-in that this terminal began; otherwise why it did not.
    fn opened(&self, secret: &str) -> Result<Pending, &'static str> {
        let sealed = decode_base64url(secret).ok().filter(|_| secret.len() <= LARGEST);
        let text = sealed.and_then(|sealed| self.terminal_key().open(&self.terminal_context(), &sealed));
        let pending = text.and_then(|text| serde_json::from_slice::<Pending>(&text).ok());
        let pending = pending.ok_or("no terminal has begun this sign-in")?;
        let now = unix_now();
        if now >= pending.expires_at {
            return Err("the sign-in has taken too long");
        }
        if pending.expires_at > now + SIGN_IN_LIFE {
            return Err("the sign-in began while this host's clock was ahead");
        }
        Ok(pending)
    }

    /// Returns a sign-in as it is when its time is over.
    #[cfg(test)]
    pub(crate) fn expired_terminal(&self, secret: &str) -> String {
        let pending = Pending { expires_at: unix_now(), ..self.opened(secret).unwrap() };
        self.sealed(&pending).unwrap().to_string()
    }

    /// Returns what a sign-in is bound to: a device code goes to no other provider, and as no other client, than those that gave it.
    fn terminal_context(&self) -> Vec<u8> {
        let options = self.people.provider.as_ref().map(|provider| provider.options());
        options
            .map(|options| [options.issuer.as_bytes(), b"\n", options.client_id.as_bytes()].concat())
            .unwrap_or_default()
    }

    /// Returns the key of sign-ins: the same for all coordinators on one database.
    fn terminal_key(&self) -> SealingKey {
        SealingKey::new(b"taut oidc terminal", self.key.expose())
    }
}

/// Creates the token of a person whom the provider has confirmed, and records that the person, who is the caller, signed in.
async fn give_token(tx: &mut Writing, person: PersonRow, wanted: &NewTerminal) -> Result<TerminalAnswer, StateError> {
    let life = Some(wanted.life());
    let (row, text) = create_token(tx, Some(person.id), wanted.name(), wanted.scopes(), life).await?;
    tx.set_person_seen(person.id, unix_now()).await?;
    let after = Some(serde_json::json!({ "token": row.id, "expires_at": row.expires_at }));
    let object = format!("user {}", person.id);
    record(tx, Change { network: None, action: "signed-in", object, before: None, after }).await?;
    Ok(TerminalAnswer::Done(TokenView { row, user: Some(person.subject) }, text))
}

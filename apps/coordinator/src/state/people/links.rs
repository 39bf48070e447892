//! Links that work once: the first owner sets the coordinator up, and a person sets a new password.
//!
//! The secret is in the fragment of the URL, which browsers do not send: it is in no log of a proxy.

use std::net::IpAddr;
use std::time::Instant;

use taut_base::{encode_base64url, network};

use super::super::{Secret, State, StateError};
use super::groups::regroup_role;
use super::sign_in::{Opened, insert as insert_session};
use super::users::{check_display_name, check_sign_in_name};
use super::{Actor, Caller, Change, Password, PeopleError, Role, record};
use crate::clock::unix_now;
use crate::store::{LOCAL, NewPerson, Party, StoreError, Writing};

/// Purpose of the link with which the first owner sets the coordinator up.
pub(in crate::state) const SET_UP: &str = "set-up";

/// Purpose of a link for a new password.
const PASSWORD: &str = "password";

/// Life of a link, 3 days in seconds: over a weekend.
const LIFE: i64 = 3 * 24 * 3600;

/// Inserts a link for a purpose. Returns its secret in base64url.
pub(in crate::state) async fn insert(
    tx: &mut Writing,
    purpose: &str,
    person: Option<i64>,
    now: i64,
) -> Result<String, StoreError> {
    let secret = Secret::new();
    tx.insert_link(&secret.hash(), purpose, person, now + LIFE, now).await?;
    Ok(encode_base64url(secret.expose()))
}

/// Returns the URL of a link.
pub(in crate::state) fn url(urls: &[String], purpose: &str, secret: &str) -> String {
    let base = urls.first().map_or("", String::as_str).trim_end_matches('/');
    format!("{base}/link#{purpose}.{secret}")
}

impl State {
    /// Makes a link with which a person sets a new password. Earlier ones end.
    pub(crate) async fn create_password_link(&self, who: &str) -> Result<String, StateError> {
        let mut tx = self.store.write(Party::Operators).await?;
        let person = super::users::find(&mut tx, who).await?;
        if person.issuer != LOCAL {
            return Err(PeopleError::NotLocal.into());
        }
        let secret = insert(&mut tx, PASSWORD, Some(person.id), unix_now()).await?;
        let object = format!("user {}", person.id);
        record(&mut tx, Change { network: None, action: "password-link-created", object, before: None, after: None })
            .await?;
        tx.commit().await?;
        Ok(url(&self.urls, PASSWORD, &secret))
    }

    /// Returns the URL of a password link.
    pub(super) fn password_url(&self, secret: &str) -> String {
        url(&self.urls, PASSWORD, secret)
    }

    /// Inserts a password link for a new person.
    pub(super) async fn first_password_link(tx: &mut Writing, person: i64) -> Result<String, StoreError> {
        insert(tx, PASSWORD, Some(person), unix_now()).await
    }

    /// Uses the set-up link: makes a local person the owner of the coordinator, and signs it in.
    pub(crate) async fn set_up(
        &self,
        secret: &str,
        name: &str,
        display_name: Option<&str>,
        password: Password,
        source: IpAddr,
    ) -> Result<Opened, StateError> {
        check_sign_in_name(name)?;
        check_display_name(display_name.unwrap_or(name))?;
        self.expect_free(source)?;
        let secret = Secret::from_base64url(secret).ok_or(PeopleError::BadLink)?;
        self.expect_link(&secret, SET_UP).await?;
        let hash = self.people.passwords.hash(password, network(source)).await?;
        let now = unix_now();
        let mut tx = self.store.write(Party::Unauthenticated).await?;
        let link = tx.take_link(&secret.hash(), SET_UP).await?.filter(|link| now < link.expires_at);
        link.ok_or(PeopleError::BadLink)?;
        if tx.person_of(LOCAL, name).await?.is_some() {
            return Err(PeopleError::PersonExists(String::from(name)).into());
        }
        let new = NewPerson { issuer: LOCAL, subject: name, name: display_name.unwrap_or(name), email: None };
        let person = tx.insert_person(&new, now).await?;
        tx.set_password_hash(person.id, &hash, now).await?;
        tx.set_role(person.id, None, Some(Role::Owner.name())).await?;
        let caller = Caller { source: source.to_canonical().to_string(), ..Caller::local(Actor::Nobody) };
        let after = Some(serde_json::json!({ "name": name, "role": Role::Owner.name() }));
        let object = format!("user {}", person.id);
        let change = Change { network: None, action: "set-up", object, before: None, after };
        Box::pin(caller.scope(record(&mut tx, change))).await?;
        let regrouped = regroup_role(&mut tx, &person, None).await?;
        let opened = insert_session(&mut tx, person, source).await?;
        tx.commit().await?;
        self.announce_groups(regrouped);
        Ok(opened)
    }

    /// Uses a password link: sets the password of its person, and ends all its sessions. Returns their number.
    pub(crate) async fn reset_password(
        &self,
        secret: &str,
        password: Password,
        source: IpAddr,
    ) -> Result<u64, StateError> {
        self.expect_free(source)?;
        let secret = Secret::from_base64url(secret).ok_or(PeopleError::BadLink)?;
        self.expect_link(&secret, PASSWORD).await?;
        let hash = self.people.passwords.hash(password, network(source)).await?;
        let now = unix_now();
        let mut tx = self.store.write(Party::Unauthenticated).await?;
        let link = tx.take_link(&secret.hash(), PASSWORD).await?.filter(|link| now < link.expires_at);
        let id = link.and_then(|link| link.person).ok_or(PeopleError::BadLink)?;
        let person = tx.person(id).await?.filter(|person| person.disabled_at.is_none()).ok_or(PeopleError::BadLink)?;
        tx.set_password_hash(id, &hash, now).await?;
        let ended = tx.delete_sessions(id, None).await?;
        let actor = Actor::Person { id, name: person.subject, session: 0 };
        let caller = Caller { source: source.to_canonical().to_string(), ..Caller::local(actor) };
        let change = Change {
            network: None,
            action: "password-set-by-link",
            object: format!("user {id}"),
            before: None,
            after: None,
        };
        Box::pin(caller.scope(record(&mut tx, change))).await?;
        tx.commit().await?;
        Ok(ended)
    }

    /// Counts an attempt with a link for its source, as an attempt to sign in.
    fn expect_free(&self, source: IpAddr) -> Result<(), PeopleError> {
        // No account is named, so only the limit of the source counts: a link has 256 bits to guess.
        let is_free = self.people.limits.take(&source.to_string(), network(source), Instant::now());
        if is_free { Ok(()) } else { Err(PeopleError::TooManyAttempts) }
    }

    /// Returns an error if there is no such link, before a password is hashed for it.
    async fn expect_link(&self, secret: &Secret, purpose: &str) -> Result<(), StateError> {
        let mut tx = self.store.read(Party::Unauthenticated).await?;
        let link = tx.link(&secret.hash(), purpose).await?.filter(|link| unix_now() < link.expires_at);
        link.map(|_| ()).ok_or_else(|| PeopleError::BadLink.into())
    }
}

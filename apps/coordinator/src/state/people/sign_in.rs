//! Signing in with a password, and a code if the person has turned codes on.

use std::net::IpAddr;
use std::time::Instant;

use taut_base::network;

use super::super::{Secret, State, StateError};
use super::sessions::{self, session_value};
use super::{ABSOLUTE_LIFE, Actor, Caller, Change, Known, Password, PeopleError, Scopes, record, totp};
use crate::clock::unix_now;
use crate::store::{LOCAL, NewSession, Party, PersonRow, StoreError, TotpRow, Writing};

/// An attempt to sign in.
pub(crate) struct Attempt {
    pub(crate) name: String,
    pub(crate) password: Password,
    /// A one-time code or a recovery code.
    pub(crate) code: Option<String>,
    /// Address of the client.
    pub(crate) source: IpAddr,
}

/// A session that was opened.
pub(crate) struct Opened {
    /// Secret of the session, which is not stored.
    pub(crate) secret: Secret,
    pub(crate) known: Known,
}

/// Stored data of the account that an attempt names.
struct Account {
    person: Option<PersonRow>,
    hash: Option<String>,
    totp: Option<TotpRow>,
}

impl State {
    /// Signs a local person in. All failures of the credentials have the same answer and take the same time (fault E13).
    pub(crate) async fn sign_in(&self, attempt: Attempt) -> Result<Opened, StateError> {
        let Attempt { name, password, code, source } = attempt;
        let prefix = network(source);
        if !self.people.limits.take(&name, prefix, Instant::now()) {
            self.people.failures.note(source, None);
            return Err(PeopleError::TooManyAttempts.into());
        }
        let account = self.account(&name).await?;
        let is_right = self.people.passwords.verify(password, account.hash.clone(), prefix).await?;
        let number = account.person.as_ref().map(|person| person.id);
        let opened = match account.person.clone().filter(|_| is_right) {
            Some(person) => self.open_session(person, &account, code.as_deref(), source).await?,
            None => None,
        };
        let Some(opened) = opened else {
            self.people.failures.note(source, number);
            return Err(PeopleError::SignIn.into());
        };
        self.people.limits.succeeded(&name, prefix);
        Ok(opened)
    }

    /// Returns the account of a name. An unknown name causes the same database reads, so that it takes the same time.
    async fn account(&self, name: &str) -> Result<Account, StoreError> {
        let mut tx = self.store.read(Party::Unauthenticated).await?;
        let person = tx.person_of(LOCAL, name).await?.filter(|person| person.disabled_at.is_none());
        let id = person.as_ref().map_or(0, |person| person.id);
        let (hash, totp) = (tx.password_hash(id).await?, tx.totp(id).await?);
        Ok(Account { person, hash, totp: totp.filter(|totp| totp.confirmed_at.is_some()) })
    }

    /// Opens a session after the password was right. Returns `None` if the code is wrong, or if the person was changed meanwhile.
    async fn open_session(
        &self,
        person: PersonRow,
        account: &Account,
        code: Option<&str>,
        source: IpAddr,
    ) -> Result<Option<Opened>, StateError> {
        let mut tx = self.store.write(Party::Unauthenticated).await?;
        let is_same = tx.password_hash(person.id).await? == account.hash;
        let is_enabled = tx.person(person.id).await?.is_some_and(|person| person.disabled_at.is_none());
        if !is_same || !is_enabled {
            return Ok(None);
        }
        // The codes are read again, because another session may have turned codes on, or used this code.
        let codes = tx.totp(person.id).await?.filter(|totp| totp.confirmed_at.is_some());
        if let Some(codes) = codes.or_else(|| account.totp.as_ref().map(copied))
            && !use_code(&mut tx, person.id, &codes, code.unwrap_or_default()).await?
        {
            return Ok(None);
        }
        let opened = insert(&mut tx, person, source).await?;
        tx.commit().await?;
        Ok(Some(opened))
    }
}

fn copied(totp: &TotpRow) -> TotpRow {
    TotpRow { secret: totp.secret, confirmed_at: totp.confirmed_at, step: totp.step }
}

/// Uses a one-time code or a recovery code up. Returns false if it is wrong or was used.
pub(super) async fn use_code(tx: &mut Writing, person: i64, codes: &TotpRow, typed: &str) -> Result<bool, StoreError> {
    if let Some(step) = totp::check(&codes.secret, typed, codes.step, unix_now()) {
        return tx.use_totp(person, step).await;
    }
    match totp::recovery_hash(typed) {
        Some(hash) => tx.use_recovery_code(person, &hash).await,
        None => Ok(false),
    }
}

/// Inserts a session for a person whose credentials were checked, and records it.
pub(super) async fn insert(tx: &mut Writing, person: PersonRow, source: IpAddr) -> Result<Opened, StoreError> {
    let (now, secret) = (unix_now(), Secret::new());
    let source = source.to_canonical().to_string();
    let own = tx.sessions(person.id).await?;
    for oldest in own.iter().take((own.len() + 1).saturating_sub(sessions::MOST)) {
        tx.delete_session(oldest.id).await?;
    }
    let new = NewSession { hash: &secret.hash(), person: person.id, expires_at: now + ABSOLUTE_LIFE, source: &source };
    let session = tx.insert_session(&new, now).await?;
    tx.set_person_seen(person.id, now).await?;
    let grants = sessions::grants(tx, person.id, Scopes::All).await?;
    let actor = Actor::Person { id: person.id, name: person.subject.clone(), session: session.id };
    let caller = Caller { actor, source, ..Caller::clone(&Caller::current()) };
    let after = Some(session_value(&session));
    let change =
        Change { network: None, action: "signed-in", object: format!("user {}", person.id), before: None, after };
    Box::pin(caller.scope(record(tx, change))).await?;
    Ok(Opened { secret, known: Known { person, session, grants } })
}

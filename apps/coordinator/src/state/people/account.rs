//! Changes that a person makes to its own account: password, one-time codes.

use std::net::IpAddr;
use std::time::Instant;

use taut_base::network;

use super::super::{State, StateError, random};
use super::sessions::own_session;
use super::users::{UserView, view};
use super::{Caller, Change, Password, PeopleError, record, totp};
use crate::clock::unix_now;
use crate::store::{LOCAL, Party, PersonRow};

/// A new secret of one-time codes, which works after a first code was entered.
pub(crate) struct NewCodes {
    /// Base32, as authenticators take it.
    pub(crate) secret: String,
    /// The secret as an `otpauth:` URI, for a QR code.
    pub(crate) uri: String,
}

impl State {
    /// Returns the caller's own account; `None` for a token of the operator.
    pub(crate) async fn own_account(&self) -> Result<Option<UserView>, StateError> {
        let Some(id) = Caller::current().actor.person() else { return Ok(None) };
        let mut tx = self.store.read(Party::Operators).await?;
        let row = tx.person(id).await?.ok_or_else(|| PeopleError::NoPerson(id.to_string()))?;
        let all = tx.networks().await?;
        Ok(Some(view(&mut tx, &all, row).await?))
    }

    /// Changes the caller's password. All its other sessions end. Returns their number.
    pub(crate) async fn change_password(
        &self,
        old: Password,
        new: Password,
        source: IpAddr,
    ) -> Result<u64, StateError> {
        let (id, session) = own_session()?;
        let person = self.confirmed(old, source).await?;
        let hash = self.people.passwords.hash(new, network(source)).await?;
        let mut tx = self.store.write(Party::Operators).await?;
        tx.set_password_hash(person.id, &hash, unix_now()).await?;
        let ended = tx.delete_sessions(id, Some(session)).await?;
        record(&mut tx, change("password-changed", id)).await?;
        tx.commit().await?;
        Ok(ended)
    }

    /// Begins to turn one-time codes on. Earlier secrets that were not confirmed are replaced.
    pub(crate) async fn begin_codes(&self, password: Password, source: IpAddr) -> Result<NewCodes, StateError> {
        let person = self.confirmed(password, source).await?;
        let secret: [u8; 20] = random();
        let mut tx = self.store.write(Party::Operators).await?;
        if tx.totp(person.id).await?.is_some_and(|totp| totp.confirmed_at.is_some()) {
            return Err(PeopleError::CodesOn.into());
        }
        tx.set_totp(person.id, &secret).await?;
        tx.commit().await?;
        Ok(NewCodes { secret: totp::base32(&secret), uri: totp::uri(&secret, &person.subject) })
    }

    /// Turns one-time codes on, with a first code. Returns the recovery codes, which are not stored.
    pub(crate) async fn confirm_codes(&self, code: &str, source: IpAddr) -> Result<Vec<String>, StateError> {
        let (id, _) = own_session()?;
        if !self.people.limits.take(&format!("code of {id}"), network(source), Instant::now()) {
            return Err(PeopleError::TooManyAttempts.into());
        }
        let now = unix_now();
        let mut tx = self.store.write(Party::Operators).await?;
        let begun = tx.totp(id).await?.filter(|totp| totp.confirmed_at.is_none()).ok_or(PeopleError::CodesOff)?;
        let step = totp::check(&begun.secret, code, begun.step, now).ok_or(PeopleError::BadCode)?;
        tx.use_totp(id, step).await?;
        tx.confirm_totp(id, now).await?;
        let codes: Vec<String> = (0..totp::RECOVERY_CODES).map(|_| totp::recovery_code(random())).collect();
        let hashes: Vec<[u8; 32]> = codes.iter().filter_map(|code| totp::recovery_hash(code)).collect();
        tx.set_recovery_codes(id, &hashes).await?;
        record(&mut tx, change("codes-turned-on", id)).await?;
        tx.commit().await?;
        Ok(codes)
    }

    /// Turns the caller's one-time codes off.
    pub(crate) async fn end_codes(&self, password: Password, source: IpAddr) -> Result<(), StateError> {
        let person = self.confirmed(password, source).await?;
        let mut tx = self.store.write(Party::Operators).await?;
        if tx.totp(person.id).await?.is_none() {
            return Err(PeopleError::CodesOff.into());
        }
        tx.delete_totp(person.id).await?;
        record(&mut tx, change("codes-turned-off", person.id)).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Returns the caller's person after its password was checked again: a stolen session alone cannot take the account over.
    async fn confirmed(&self, password: Password, source: IpAddr) -> Result<PersonRow, StateError> {
        let (id, _) = own_session()?;
        let mut tx = self.store.read(Party::Operators).await?;
        let person = tx.person(id).await?.ok_or(PeopleError::SignIn)?;
        if person.issuer != LOCAL {
            return Err(PeopleError::NotLocal.into());
        }
        let hash = tx.password_hash(id).await?;
        drop(tx);
        if !self.people.limits.take(&person.subject, network(source), Instant::now()) {
            return Err(PeopleError::TooManyAttempts.into());
        }
        if self.people.passwords.verify(password, hash, network(source)).await? {
            return Ok(person);
        }
        self.people.failures.note(source, Some(id));
        Err(PeopleError::SignIn.into())
    }
}

fn change(action: &'static str, id: i64) -> Change {
    Change { network: None, action, object: format!("user {id}"), before: None, after: None }
}

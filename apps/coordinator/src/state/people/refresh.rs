//! Asking the provider whether it still knows its people. A person whom it removed loses access at the next refresh; while it does not answer, nothing is known and
//! nothing changes (an error is not an empty answer), for three days at most.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use zeroize::Zeroizing;

use super::super::{State, StateError};
use super::groups::{Regrouped, regroup};
use super::oidc::{refresh_key, update};
use super::{Actor, Caller, Change, record};
use crate::clock::unix_now;
use crate::log;
use crate::oidc::{Granted, Provider, ProviderError};
use crate::store::{LOCAL, Party, PersonRow, Writing};

/// Time between two looks for people to confirm, 10 s.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// People of one look, 64.
const PIECE: u32 = 64;

/// Pause after an attempt that failed, 60 s.
const RETRY_AFTER: i64 = 60;

/// The result of asking for a person.
enum Refreshed {
    /// The provider has answered, or there was nothing to ask.
    Done,
    /// The provider does not answer; the others need not be tried now.
    Unavailable,
}

impl State {
    /// Asks the provider about its people whenever it is time, until `stop` is true. Runs beside the server; without a provider it only takes access from the people of a former one.
    pub(crate) async fn run_refreshes(&self, mut stop: watch::Receiver<bool>) {
        while let Err(error) = self.lapse_former_people().await {
            tracing::error!(target: log::DATABASE, event = "oidc-refresh-failed", reason = %error);
            let _ = tokio::time::timeout(LOOK_EVERY, stop.wait_for(|stop| *stop)).await;
            if *stop.borrow() {
                return;
            }
        }
        let Ok(provider) = self.provider() else { return };
        while !*stop.borrow() {
            if let Err(error) = self.refresh_people(&provider, &stop).await {
                tracing::error!(target: log::DATABASE, event = "oidc-refresh-failed", reason = %error);
            }
            let _ = tokio::time::timeout(LOOK_EVERY, stop.wait_for(|stop| *stop)).await;
        }
    }

    /// Asks about all people who are due, for tests.
    #[cfg(test)]
    pub(crate) async fn refresh_now(&self) -> Result<(), StateError> {
        let (_never, stop) = watch::channel(false);
        self.refresh_people(&self.provider()?, &stop).await
    }

    /// Asks about all people who were not confirmed within the interval. Ends early if the provider does not answer.
    async fn refresh_people(&self, provider: &Arc<Provider>, stop: &watch::Receiver<bool>) -> Result<(), StateError> {
        let every = i64::try_from(provider.options().refresh_every.as_secs()).unwrap_or(i64::MAX);
        loop {
            let now = unix_now();
            let mut tx = self.store.read(Party::Coordinator).await?;
            let due = tx.unconfirmed(&provider.options().issuer, now - every, now - RETRY_AFTER, PIECE).await?;
            drop(tx);
            let is_last = due.len() < PIECE as usize;
            for person in due {
                if *stop.borrow() {
                    return Ok(());
                }
                if let Refreshed::Unavailable = self.refresh_person(provider, person).await? {
                    return Ok(());
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Takes access from people of providers that are not configured any more: their groups must not count in policies either.
    pub(crate) async fn lapse_former_people(&self) -> Result<(), StateError> {
        let provider = self.provider().ok();
        let issuer = provider.as_ref().map_or(LOCAL, |provider| &provider.options().issuer);
        loop {
            let former = self.store.read(Party::Coordinator).await?.of_other_providers(issuer, PIECE).await?;
            if former.is_empty() {
                return Ok(());
            }
            let mut tx = self.store.write(Party::Coordinator).await?;
            let mut regrouped = Vec::new();
            for person in &former {
                regrouped.push(lapse_in(&mut tx, person, "its provider is not configured any more").await?);
            }
            tx.commit().await?;
            regrouped.into_iter().for_each(|regrouped| self.announce_groups(regrouped));
        }
    }

    async fn refresh_person(&self, provider: &Arc<Provider>, person: PersonRow) -> Result<Refreshed, StateError> {
        let mut tx = self.store.write(Party::Coordinator).await?;
        let Some(kept) = tx.refresh_token(person.id).await? else {
            // Without a token the provider cannot be asked; the person signs in again.
            drop(tx);
            return self.lapse(person, None, "the provider gave no refresh token").await;
        };
        if !tx.claim_refresh(person.id, kept.tried_at, unix_now().max(kept.tried_at + 1)).await? {
            return Ok(Refreshed::Done);
        }
        tx.commit().await?;
        let opened = refresh_key(provider).open(&person.id.to_be_bytes(), &kept.token);
        let token = opened.and_then(|token| Some(Zeroizing::new(String::from(str::from_utf8(&token).ok()?))));
        let Some(token) = token else {
            return self.lapse(person, Some(&kept.token), "the client secret is another one").await;
        };
        match provider.refresh(token, person.subject.clone()).await {
            Ok(granted) => self.keep(provider, person, &kept.token, granted).await,
            Err(error @ (ProviderError::Refused(_) | ProviderError::NotAllowed(_))) => {
                self.lapse(person, Some(&kept.token), &error.to_string()).await
            }
            Err(error @ ProviderError::Invalid(_)) => {
                tracing::warn!(target: log::API, event = "oidc-refresh-invalid", user = person.id, reason = %error);
                Ok(Refreshed::Done)
            }
            Err(error @ (ProviderError::Unavailable(_) | ProviderError::NoDeviceGrant(_))) => {
                tracing::warn!(target: log::API, event = "oidc-provider-unavailable", reason = %error);
                Ok(Refreshed::Unavailable)
            }
        }
    }

    /// Stores what the provider said, and its next refresh token.
    async fn keep(
        &self,
        provider: &Provider,
        person: PersonRow,
        used: &[u8],
        granted: Granted,
    ) -> Result<Refreshed, StateError> {
        let mut tx = self.store.write(Party::Coordinator).await?;
        // The person signed in again or was removed meanwhile: what was learnt since is newer.
        let is_same = tx.refresh_token(person.id).await?.is_some_and(|kept| kept.token == used);
        let (true, Some(now)) = (is_same, tx.person(person.id).await?) else { return Ok(Refreshed::Done) };
        let unknown = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let (person, regrouped) = update(&mut tx, now, &granted.identity, unknown).await?;
        if let Some(token) = granted.refresh_token {
            let sealed = refresh_key(provider).seal(&person.id.to_be_bytes(), token.as_bytes());
            tx.set_refresh_token(person.id, sealed.as_deref(), unix_now()).await?;
        }
        tx.commit().await?;
        self.announce_groups(regrouped);
        Ok(Refreshed::Done)
    }

    /// Takes access from a person, unless it has signed in again meanwhile: then its token is not the one that was used.
    async fn lapse(&self, person: PersonRow, used: Option<&[u8]>, why: &str) -> Result<Refreshed, StateError> {
        let mut tx = self.store.write(Party::Coordinator).await?;
        let Some(now) = tx.person(person.id).await? else { return Ok(Refreshed::Done) };
        let is_same = tx.refresh_token(person.id).await?.map(|kept| kept.token).as_deref() == used;
        if !is_same || now.checked_at != person.checked_at {
            return Ok(Refreshed::Done);
        }
        let regrouped = lapse_in(&mut tx, &now, why).await?;
        tx.commit().await?;
        self.announce_groups(regrouped);
        Ok(Refreshed::Done)
    }
}

/// Takes access from a person, and records it.
async fn lapse_in(tx: &mut Writing, person: &PersonRow, why: &str) -> Result<Regrouped, StateError> {
    let now = unix_now();
    tx.lapse_person(person.id, now).await?;
    let regrouped = regroup(tx, person, Some(&PersonRow { lapsed_at: Some(now), ..person.clone() })).await?;
    let change = Change {
        network: None,
        action: "user-lapsed",
        object: format!("user {}", person.id),
        before: None,
        after: Some(serde_json::json!({ "reason": why })),
    };
    Box::pin(Caller::local(Actor::Coordinator).scope(record(tx, change))).await?;
    tracing::info!(target: log::API, event = "oidc-user-lapsed", user = person.id, reason = why);
    Ok(regrouped)
}

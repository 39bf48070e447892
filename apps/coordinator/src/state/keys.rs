//! Enrolment keys, and the join tokens that carry them.

use taut_base::PublicKey;
use taut_netmap::JoinToken;

use serde_json::json;

use super::absence::ABSENCE;
use super::party::{Caller, Change, record};
use super::{Secret, State, StateError, device_rules, networks};
use crate::clock::unix_now;
use crate::log;
use crate::store::{Grants, KeyRow, NetworkId, NewKey, Party, Writing};

/// Default lifetime of a key, 90 days in seconds: long enough to set up a fleet, short enough that a token forgotten in a script expires.
pub(crate) const DEFAULT_EXPIRY: i64 = 90 * 24 * 3600;

/// Longest lifetime of a key, ten years in seconds. A longer one is a typing error, or means never.
pub(crate) const LONGEST_EXPIRY: i64 = 10 * 365 * 24 * 3600;

/// Most nodes that a key may be limited to, 65,536: as many as the largest network has.
pub(crate) const MOST_USES: i64 = 65_536;

/// The expiry of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// In 90 days.
    Default,
    /// After this number of seconds.
    Seconds(i64),
    /// Never: the key is valid until it is revoked.
    Never,
}

impl State {
    /// Creates a key without grants: no tags, no owner, no approval, no limits.
    #[cfg(test)]
    pub(crate) async fn create_key(
        &self,
        network: Option<&str>,
        reusable: bool,
        expiry: Expiry,
    ) -> Result<(String, KeyRow, String), StateError> {
        self.create_key_with(network, reusable, expiry, Grants::default()).await
    }

    /// Creates a key. Returns the name of its network, the key, and the join token with its secret, which is not stored.
    pub(crate) async fn create_key_with(
        &self,
        network: Option<&str>,
        reusable: bool,
        expiry: Expiry,
        grants: Grants,
    ) -> Result<(String, KeyRow, String), StateError> {
        let grants = checked(grants)?;
        let mut tx = self.store.write(Party::Operators).await?;
        let network = networks::named(&mut tx, network).await?;
        let (row, secret) = insert(&mut tx, network.id, reusable, expiry, grants, unix_now()).await?;
        let after = Some(json!({ "one_off": !reusable, "expires_at": row.expires_at }));
        let (of, object) = (Some(network.id), format!("key {}", row.id));
        record(&mut tx, Change { network: of, action: "key-created", object, before: None, after }).await?;
        tx.commit().await?;
        tracing::info!(target: log::MEMBERS, event = "key-created", key = row.id, network = network.name, reusable);
        let token = join_token(network.id, self.public, &self.urls, &secret);
        Ok((network.name, row, token))
    }

    /// Returns the keys of one network or of all, each with its network's name.
    pub(crate) async fn keys(&self, network: Option<&str>) -> Result<Vec<(String, KeyRow)>, StateError> {
        let mut tx = self.store.read(Party::Operators).await?;
        let networks = networks::listed(&mut tx, network).await?;
        let with_name = |row: KeyRow| {
            let network = networks.iter().find(|network| network.id == row.network)?;
            Some((network.name.clone(), row))
        };
        Ok(tx.keys().await?.into_iter().filter_map(with_name).collect())
    }

    /// Revokes a key. Nodes that joined with it remain members.
    pub(crate) async fn revoke_key(&self, id: i64) -> Result<(), StateError> {
        let mut tx = self.store.write(Party::Operators).await?;
        // `keys` omits a key whose row is damaged. Such a key counts as one of no network, and can still be revoked (fault O9).
        let row = tx.keys().await?.into_iter().find(|row| row.id == id);
        let caller = Caller::current();
        let is_allowed = match &row {
            Some(row) => caller.is_allowed_in(row.network),
            None => caller.grants.allow(caller.need, None),
        };
        if !is_allowed || !tx.revoke_key(id, unix_now()).await? {
            return Err(StateError::NoKey(id));
        }
        let before =
            row.as_ref().map(|row| json!({ "one_off": !row.reusable, "used": row.used, "expires_at": row.expires_at }));
        let (network, object) = (row.map(|row| row.network), format!("key {id}"));
        record(&mut tx, Change { network, action: "key-revoked", object, before, after: None }).await?;
        tx.commit().await?;
        tracing::info!(target: log::MEMBERS, event = "key-revoked", key = id);
        Ok(())
    }
}

pub(super) async fn create(
    tx: &mut Writing,
    network: NetworkId,
    reusable: bool,
    expiry: Expiry,
    now: i64,
) -> Result<(KeyRow, Secret), StateError> {
    insert(tx, network, reusable, expiry, Grants::default(), now).await
}

/// Returns the grants of a key; an error if they are not permitted.
fn checked(grants: Grants) -> Result<Grants, StateError> {
    if grants.most_uses.is_some_and(|most| !(1..=MOST_USES).contains(&most)) {
        return Err(StateError::BadUses);
    }
    if grants.ephemeral.is_some_and(|limit| !ABSENCE.contains(&limit)) {
        return Err(StateError::BadAbsence);
    }
    let (tags, owner) = (device_rules::checked_tags(grants.tags)?, device_rules::checked_owner(grants.owner)?);
    Ok(Grants { tags, owner, ..grants })
}

async fn insert(
    tx: &mut Writing,
    network: NetworkId,
    reusable: bool,
    expiry: Expiry,
    grants: Grants,
    now: i64,
) -> Result<(KeyRow, Secret), StateError> {
    let expires_at = match expiry {
        Expiry::Default => Some(now + DEFAULT_EXPIRY),
        Expiry::Seconds(seconds) if (1..=LONGEST_EXPIRY).contains(&seconds) => Some(now + seconds),
        Expiry::Seconds(_) => return Err(StateError::BadExpiry),
        Expiry::Never => None,
    };
    let secret = Secret::new();
    let row = tx.insert_key(&NewKey { network, hash: secret.hash(), reusable, expires_at, grants }, now).await?;
    Ok((row, secret))
}

pub(super) fn join_token(network: NetworkId, coordinator: PublicKey, urls: &[String], secret: &Secret) -> String {
    JoinToken { network: network.0, coordinator, urls: urls.to_vec(), secret: *secret.expose() }.encode()
}

//! API tokens: with a name, scopes and an expiry, for programs.

use serde_json::json;
use taut_base::{encode_base64url, is_printable};

use super::super::{Secret, State, StateError};
use super::sessions::{grants, own_session};
use super::{Actor, Caller, Change, Grants, LARGEST_PAGE, PeopleError, Scopes, record};
use crate::clock::unix_now;
use crate::store::{NewToken, Party, Reading, TokenRow, Writing};

/// Start of an API token. Operator tokens begin with `tautop-`.
pub(crate) const API_PREFIX: &str = "tautapi-";

/// Default life of a token, 90 days in seconds.
const DEFAULT_TOKEN_LIFE: i64 = 90 * 24 * 3600;

/// Longest life of a token, ten years in seconds.
pub(crate) const LONGEST_TOKEN_LIFE: i64 = 10 * 365 * 24 * 3600;

/// Valid tokens of one person, or of the operator, 100.
const MOST: i64 = 100;

/// Time for which a token is listed after it expired or was revoked, 30 days in seconds.
pub(super) const LISTED: i64 = 30 * 24 * 3600;

/// Longest name, in characters.
const LONGEST_NAME: usize = 64;

/// An API token, with the name of its person.
pub(crate) struct TokenView {
    pub(crate) row: TokenRow,
    /// The name with which its person signs in; `None` for the operator's.
    pub(crate) user: Option<String>,
}

impl State {
    /// Returns the party of an API token and what it may do; `None` if it is unknown, expired or revoked, or its person is disabled.
    pub(crate) async fn api_token(&self, text: &str) -> Result<Option<(Actor, Grants)>, StateError> {
        let Some(secret) = text.strip_prefix(API_PREFIX).and_then(Secret::from_base64url) else { return Ok(None) };
        let mut tx = self.store.read(Party::Unauthenticated).await?;
        let Some(row) = tx.api_token(&secret.hash()).await?.filter(|row| is_valid(row, unix_now())) else {
            return Ok(None);
        };
        let Ok(scopes) = row.scopes.parse::<Scopes>() else { return Ok(None) };
        let (grants, name) = match row.person {
            None => (Grants { scopes, ..Grants::all() }, row.name),
            Some(id) => match tx.person(id).await?.filter(|person| self.may_act(person)) {
                // Two people may give their tokens the same name.
                Some(person) => {
                    (grants(&mut tx, person.id, scopes).await?, format!("{} of {}", row.name, person.subject))
                }
                None => return Ok(None),
            },
        };
        Ok(Some((Actor::Token { id: row.id, name, person: row.person }, grants)))
    }

    /// Creates a token of the caller, who must be a person with a session. Returns it with its text, which is not stored.
    pub(crate) async fn create_api_token(
        &self,
        name: &str,
        scopes: &str,
        life: Option<i64>,
    ) -> Result<(TokenView, String), StateError> {
        let (person, _) = own_session()?;
        let mut tx = self.store.write(Party::Operators).await?;
        let (row, text) = create(&mut tx, Some(person), name, scopes, life).await?;
        tx.commit().await?;
        let user = Some(String::from(Caller::current().actor.name()));
        Ok((TokenView { row, user }, text))
    }

    /// Returns tokens with numbers above `after`, sorted by number, and the number after which the next page begins: all of them for a caller who may see all,
    /// otherwise those of the caller's person.
    pub(crate) async fn api_tokens(&self, after: i64, most: u32) -> Result<(Vec<TokenView>, Option<i64>), StateError> {
        let most = most.clamp(1, LARGEST_PAGE);
        let caller = Caller::current();
        let mut tx = self.store.read(Party::Operators).await?;
        let rows = match caller.actor.person() {
            _ if sees_all(&caller) => tx.api_tokens(after, most).await?,
            Some(person) => tx.api_tokens_of(person).await?,
            None => Vec::new(),
        };
        let mut rows: Vec<TokenRow> = rows.into_iter().filter(|row| row.id > after).collect();
        rows.truncate(most as usize);
        let next = rows.last().map(|row| row.id).filter(|_| rows.len() >= most as usize);
        let mut views = Vec::with_capacity(rows.len());
        for row in rows {
            views.push(view(&mut tx, row).await?);
        }
        Ok((views, next))
    }

    /// Revokes a token. A person may revoke its own tokens, a token only itself, and a caller who may revoke all any token.
    pub(crate) async fn revoke_api_token(&self, id: i64) -> Result<(), StateError> {
        let caller = Caller::current();
        let mut tx = self.store.write(Party::Operators).await?;
        let row = tx.api_token_by_id(id).await?;
        let is_own = |row: &TokenRow| match caller.actor {
            Actor::Person { id, .. } => row.person == Some(id),
            Actor::Token { id, .. } => row.id == id,
            _ => false,
        };
        let row = row.filter(|row| is_own(row) || may_revoke_all(&caller)).ok_or(PeopleError::NoToken(id))?;
        tx.revoke_api_token(id, unix_now()).await?;
        let before = Some(json!({ "name": row.name, "scopes": row.scopes, "user": row.person }));
        let object = format!("token {id}");
        record(&mut tx, Change { network: None, action: "token-revoked", object, before, after: None }).await?;
        tx.commit().await?;
        Ok(())
    }
}

/// Creates a token of a person, or of the operator.
pub(in crate::state) async fn create(
    tx: &mut Writing,
    person: Option<i64>,
    name: &str,
    scopes: &str,
    life: Option<i64>,
) -> Result<(TokenRow, String), StateError> {
    let life = life.unwrap_or(DEFAULT_TOKEN_LIFE);
    if !(1..=LONGEST_TOKEN_LIFE).contains(&life) {
        return Err(StateError::BadExpiry);
    }
    let scopes = check(name, scopes)?;
    let now = unix_now();
    if tx.count_api_tokens(person, now).await? >= MOST {
        return Err(PeopleError::TooManyTokens.into());
    }
    let (secret, scopes) = (Secret::new(), scopes.to_string());
    let expires_at = Some(now + life);
    let row =
        tx.insert_api_token(&NewToken { hash: &secret.hash(), person, name, scopes: &scopes, expires_at }, now).await?;
    let after = Some(json!({ "name": name, "scopes": scopes, "expires_at": expires_at, "user": person }));
    let object = format!("token {}", row.id);
    record(tx, Change { network: None, action: "token-created", object, before: None, after }).await?;
    Ok((row, format!("{API_PREFIX}{}", encode_base64url(secret.expose()))))
}

/// Checks the name of a new token, and returns its scopes.
pub(super) fn check(name: &str, scopes: &str) -> Result<Scopes, PeopleError> {
    let length = name.chars().count();
    if !(1..=LONGEST_NAME).contains(&length) || !name.chars().all(is_printable) {
        return Err(PeopleError::BadTokenName);
    }
    scopes.parse().map_err(PeopleError::BadScope)
}

fn is_valid(row: &TokenRow, now: i64) -> bool {
    row.revoked_at.is_none() && row.expires_at.is_none_or(|end| now < end)
}

fn need(access: super::Access) -> super::Need {
    super::Need { area: super::Area::Tokens, access, ..super::Need::OWNER }
}

fn sees_all(caller: &Caller) -> bool {
    caller.grants.allow(need(super::Access::Read), None)
}

fn may_revoke_all(caller: &Caller) -> bool {
    caller.grants.allow(need(super::Access::Write), None)
}

async fn view(tx: &mut Reading, row: TokenRow) -> Result<TokenView, StateError> {
    let user = match row.person {
        Some(id) => tx.person(id).await?.map(|person| person.subject),
        None => None,
    };
    Ok(TokenView { row, user })
}

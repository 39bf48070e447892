//! Sessions, and the party that a session or token stands for.

use std::collections::BTreeMap;

use serde_json::json;
use taut_base::encode_base64url;

use super::super::{Secret, State, StateError};
use super::{Actor, Caller, Change, Grants, PeopleError, Role, Scopes, record};
use crate::clock::unix_now;
use crate::store::{Party, PersonRow, Reading, SessionRow, StoreError};

/// Longest life of a session, 7 days in seconds.
pub(crate) const ABSOLUTE_LIFE: i64 = 7 * 24 * 3600;

/// Time after which a session that is not used ends, 12 h in seconds: a working day.
pub(crate) const IDLE_LIFE: i64 = 12 * 3600;

/// Time after which the use of a session is stored again, 60 s: not every request is a write.
const USED_EVERY: i64 = 60;

/// Time by which a session may begin in the future, 300 s: clocks of replicas differ a little. A session from further ahead was made by a wrong clock.
const AHEAD: i64 = 300;

/// Most sessions of a person, 32. Another one ends the oldest.
pub(super) const MOST: usize = 32;

/// A session that is valid, and its person.
pub(crate) struct Known {
    pub(crate) person: PersonRow,
    pub(crate) session: SessionRow,
    pub(crate) grants: Grants,
}

impl Known {
    /// Returns the party of requests with this session.
    pub(crate) fn actor(&self) -> Actor {
        Actor::Person { id: self.person.id, name: self.person.subject.clone(), session: self.session.id }
    }
}

impl State {
    /// Returns the session of a secret; `None` if it is unknown, expired, or its person is disabled.
    pub(crate) async fn session(&self, secret: &Secret) -> Result<Option<Known>, StateError> {
        let now = unix_now();
        let mut tx = self.store.read(Party::Unauthenticated).await?;
        let Some(session) = tx.session(&secret.hash()).await?.filter(|session| is_alive(session, now)) else {
            return Ok(None);
        };
        let Some(person) = tx.person(session.person).await?.filter(|person| self.may_act(person)) else {
            return Ok(None);
        };
        let grants = grants(&mut tx, person.id, Scopes::All).await?;
        drop(tx);
        if now - session.used_at >= USED_EVERY {
            let mut tx = self.store.write(Party::Operators).await?;
            tx.set_session_used(session.id, now).await?;
            tx.commit().await?;
        }
        Ok(Some(Known { person, session, grants }))
    }

    /// Ends the caller's session.
    pub(crate) async fn sign_out(&self) -> Result<(), StateError> {
        let (_, session) = own_session()?;
        let mut tx = self.store.write(Party::Operators).await?;
        tx.delete_session(session).await?;
        record(&mut tx, change("signed-out", format!("session {session}"))).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Ends all sessions of the caller, the present one included. Returns their number.
    pub(crate) async fn sign_out_everywhere(&self) -> Result<u64, StateError> {
        let (person, _) = own_session()?;
        let mut tx = self.store.write(Party::Operators).await?;
        let ended = tx.delete_sessions(person, None).await?;
        record(&mut tx, change("signed-out-everywhere", format!("user {person}"))).await?;
        tx.commit().await?;
        Ok(ended)
    }

    /// Ends one session of the caller.
    pub(crate) async fn end_own_session(&self, id: i64) -> Result<(), StateError> {
        let (person, _) = own_session()?;
        let mut tx = self.store.write(Party::Operators).await?;
        let is_own = tx.sessions(person).await?.iter().any(|session| session.id == id);
        if !is_own {
            return Err(PeopleError::NoSession(id).into());
        }
        tx.delete_session(id).await?;
        record(&mut tx, change("session-ended", format!("session {id}"))).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Returns the sessions of the caller.
    pub(crate) async fn own_sessions(&self) -> Result<Vec<SessionRow>, StateError> {
        let (person, _) = own_session()?;
        let now = unix_now();
        let mut sessions = self.store.read(Party::Operators).await?.sessions(person).await?;
        sessions.retain(|session| is_alive(session, now));
        Ok(sessions)
    }
}

fn change(action: &'static str, object: String) -> Change {
    Change { network: None, action, object, before: None, after: None }
}

/// Returns the numbers of the caller's person and session; an error for a token, which cannot do what only a person may.
pub(super) fn own_session() -> Result<(i64, i64), PeopleError> {
    match Caller::current().actor {
        Actor::Person { id, session, .. } => Ok((id, session)),
        _ => Err(PeopleError::NeedsSession),
    }
}

/// Returns the token that state-changing requests of a session carry in a header (fault E9). A page of another site cannot read it, and it does not reveal the secret.
pub(crate) fn csrf_token(secret: &Secret) -> String {
    encode_base64url(&taut_noise::hash(&[b"taut csrf token", secret.expose()]))
}

/// Returns the rights of a person.
pub(super) async fn grants(tx: &mut Reading, person: i64, scopes: Scopes) -> Result<Grants, StoreError> {
    let login = tx.sole_login(person).await?;
    let mut grants = Grants { everywhere: None, networks: BTreeMap::new(), scopes, login };
    for row in tx.roles(person).await? {
        let Ok(role) = row.role.parse::<Role>() else { continue };
        match row.network {
            Some(network) => _ = grants.networks.insert(network, role),
            None => grants.everywhere = Some(role),
        }
    }
    Ok(grants)
}

/// Returns true if a session has not expired.
fn is_alive(session: &SessionRow, now: i64) -> bool {
    let is_from_future = session.created_at > now + AHEAD || session.used_at > now + AHEAD;
    !is_from_future && now < session.expires_at && now - session.used_at < IDLE_LIFE
}

/// Returns a session as a value of the audit log.
pub(super) fn session_value(session: &SessionRow) -> serde_json::Value {
    json!({ "session": session.id, "expires_at": session.expires_at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_after_its_life_and_when_it_is_not_used() {
        let session = |created_at, used_at| SessionRow {
            id: 1,
            person: 1,
            created_at,
            used_at,
            expires_at: created_at + ABSOLUTE_LIFE,
            source: String::new(),
        };
        let now = 1_800_000_000;
        assert!(is_alive(&session(now, now), now));
        assert!(is_alive(&session(now - ABSOLUTE_LIFE + 1, now), now));
        assert!(!is_alive(&session(now - ABSOLUTE_LIFE, now), now), "used until the end");
        assert!(is_alive(&session(now - IDLE_LIFE, now - IDLE_LIFE + 1), now));
        assert!(!is_alive(&session(now - IDLE_LIFE, now - IDLE_LIFE), now));
        assert!(!is_alive(&session(now + 3_600, now + 3_600), now), "made by a clock that was ahead");
    }
}

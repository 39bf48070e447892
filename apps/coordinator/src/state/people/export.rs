//! Everything that is stored about a person, for that person. Its erasure is [`State::remove_user`].

use serde_json::{Value, json};

use super::super::{State, StateError};
use super::users::find;
use crate::store::Party;

/// Most entries of the audit log in an export, 10,000, the latest ones.
const MOST_ENTRIES: u32 = 10_000;

impl State {
    /// Returns what is stored about a person as JSON, without hashes and secrets.
    pub(crate) async fn export_user(&self, who: &str) -> Result<Value, StateError> {
        let mut tx = self.store.read(Party::Operators).await?;
        let person = find(&mut tx, who).await?;
        let all = tx.networks().await?;
        let roles: Vec<Value> = tx
            .roles(person.id)
            .await?
            .into_iter()
            .map(|role| {
                let network = all.iter().find(|network| Some(network.id) == role.network);
                json!({ "network": network.map(|network| network.name.as_str()), "role": role.role })
            })
            .collect();
        let sessions: Vec<Value> = tx
            .sessions(person.id)
            .await?
            .into_iter()
            .map(|session| {
                json!({ "id": session.id, "created_at": session.created_at, "used_at": session.used_at, "source": session.source })
            })
            .collect();
        let tokens: Vec<Value> = tx
            .api_tokens_of(person.id)
            .await?
            .into_iter()
            .map(|token| {
                json!({ "id": token.id, "name": token.name, "scopes": token.scopes, "created_at": token.created_at, "expires_at": token.expires_at })
            })
            .collect();
        let audit: Vec<Value> = tx
            .audit_of(person.id, MOST_ENTRIES)
            .await?
            .into_iter()
            .map(|row| json!({ "at": row.at, "source": row.source, "action": row.action, "object": row.object }))
            .collect();
        let has_codes = tx.totp(person.id).await?.is_some_and(|totp| totp.confirmed_at.is_some());
        Ok(json!({
            "id": person.id,
            "issuer": person.issuer,
            "subject": person.subject,
            "display_name": person.name,
            "email": person.email,
            "disabled_at": person.disabled_at,
            "created_at": person.created_at,
            "seen_at": person.seen_at,
            "checked_at": person.checked_at,
            "groups": person.member_of,
            "login": person.login,
            "lapsed_at": person.lapsed_at,
            "has_refresh_token": tx.refresh_token(person.id).await?.is_some(),
            "has_password": tx.password_hash(person.id).await?.is_some(),
            "has_codes": has_codes,
            "recovery_codes_left": tx.count_recovery_codes(person.id).await?,
            "roles": roles,
            "sessions": sessions,
            "tokens": tokens,
            "audit": audit,
        }))
    }
}

//! Entries of the audit log: every change, in the transaction that makes it.

use serde_json::Value;

use super::Caller;
use crate::clock::unix_now;
use crate::store::{NetworkId, NewAudit, StoreError, Writing};

/// A change for the audit log. Values never contain a secret.
pub(crate) struct Change {
    /// The network to which the changed object belongs.
    pub(crate) network: Option<NetworkId>,
    /// The kind of change, such as `node-renamed`.
    pub(crate) action: &'static str,
    /// The object, such as `node 7`.
    pub(crate) object: String,
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
}

/// Records a change in its own transaction: either both are stored or neither is.
pub(crate) async fn record(tx: &mut Writing, change: Change) -> Result<(), StoreError> {
    let caller = Caller::current();
    let text = |value: Option<Value>| value.map(|value| value.to_string());
    let (before, after) = (text(change.before), text(change.after));
    let new = NewAudit {
        actor: caller.actor.kind(),
        actor_id: caller.actor.id(),
        actor_name: caller.actor.name(),
        source: &caller.source,
        request: &caller.request,
        network: change.network,
        action: change.action,
        object: &change.object,
        before: before.as_deref(),
        after: after.as_deref(),
    };
    tx.insert_audit(&new, unix_now()).await
}

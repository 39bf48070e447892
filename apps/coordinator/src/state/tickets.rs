//! Tickets: leave to use the network's relays, which they check without asking anybody (protocol.md 6.2).
//!
//! One Ed25519 key signs those of all networks; a ticket names its network, and relays let members of one network meet each other only.
//! Nothing of a ticket is stored: every channel gets a fresh one. A node that was removed gets none any more. The coordinator's own relay refuses the tickets
//! that it has ([`State::watch_relay`]); at other relays the last one ends after two days.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use taut_base::{NodeId, PublicKey, encode_base64url};
use taut_relay::{NetworkTag, SigningKey, Terms, Ticket, VerifyingKey};
use taut_relay_server::Removals;

use super::members::member;
use super::{State, StateError};
use crate::clock::unix_now;
use crate::store::{MARKED, NetworkId, Party};

/// Seconds for which a ticket is valid: two days, so that a node that was away from the coordinator over a night and a day still finds its
/// peers, and somebody who was removed is gone from all relays on the third day (protocol.md 6.2 allows 24 to 72 hours).
pub(crate) const LIFE: u32 = 48 * 3600;

/// Time added to a removal of an earlier run, 5 s: tickets of the member that were signed up to then are refused. A ticket may have been signed while the
/// removal was being written to disk.
const WRITTEN: i64 = 5;

/// A signed ticket.
pub(crate) struct Signed {
    /// As relays read it, base64url, in version 1: every relay takes it.
    pub(crate) text: String,
    /// The same in version 2, which also names the node.
    pub(crate) numbered: String,
    /// When it ends: seconds since 1970.
    pub(crate) expires: u64,
}

/// Members and keys that this coordinator's own relay serves no more.
#[derive(Default)]
pub(super) struct Removed {
    relay: OnceLock<Removals>,
    /// Keys that were cut off, and when: tickets signed up to then are refused. Seconds since 1970.
    keys: Mutex<BTreeMap<(NetworkId, PublicKey), i64>>,
}

impl Removed {
    /// Returns the earliest time from which the relay takes tickets for this key, if they are signed at `now`.
    fn not_before(&self, network: NetworkId, key: PublicKey, now: i64) -> i64 {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.get(&(network, key)).map_or(now, |at| now.max(at + 1))
    }
}

impl State {
    /// A fresh ticket for a member that binds with `bind`.
    pub(crate) async fn ticket(&self, network: NetworkId, node: NodeId, bind: PublicKey) -> Result<Signed, StateError> {
        // Read before the row: a member that is removed meanwhile has no ticket from a later time.
        let now = unix_now();
        let mut tx = self.store.read(self.party(network)).await?;
        let (network, row) = member(&mut tx, node).await?;
        let now = self.removed.not_before(network.id, row.node_key, now);
        let not_before = u64::try_from(now).unwrap_or(0);
        let expires = not_before + u64::from(self.ticket_life);
        let plain =
            Terms { network: NetworkTag(network.id.0), id: None, node: row.node_key, bind, not_before, expires };
        let sign = |terms: &Terms| encode_base64url(Ticket::sign(terms, &self.signer).as_bytes());
        let numbered = Terms { id: Some(row.id), ..plain };
        Ok(Signed { text: sign(&plain), numbered: sign(&numbered), expires })
    }

    /// How long the tickets given out now are valid, in seconds.
    pub(crate) fn ticket_life(&self) -> u32 {
        self.ticket_life
    }

    /// What relays verify tickets by: `taut-relay serve --trust`.
    pub(crate) fn ticket_key(&self) -> VerifyingKey {
        self.signer.verifying()
    }

    /// Tells the coordinator's own relay of every later removal, and of earlier ones within the life of a ticket.
    pub(crate) async fn watch_relay(&self, relay: Removals) -> Result<(), StateError> {
        // Before the rows are read, so that a removal in between is told to it, too.
        let _ = self.removed.relay.set(relay);
        let removed = self.store.read(Party::House).await?.nodes_removed_since(unix_now() - MARKED).await?;
        for (row, at) in removed {
            self.cut_off_at(row.network, Some(row.id), row.node_key, at + WRITTEN);
        }
        Ok(())
    }

    /// Tells the coordinator's own relay to end the binding of a member that was removed, and to refuse the tickets that it has. Without a number only the key
    /// is refused, because the member has another one now. Call it after the change was committed.
    pub(super) fn cut_off(&self, network: NetworkId, id: Option<NodeId>, key: PublicKey) {
        self.cut_off_at(network, id, key, unix_now());
    }

    fn cut_off_at(&self, network: NetworkId, id: Option<NodeId>, key: PublicKey, at: i64) {
        let Some(relay) = self.removed.relay.get() else { return };
        let mut keys = self.removed.keys.lock().unwrap_or_else(PoisonError::into_inner);
        // Of keys that were cut off earlier all tickets have ended.
        keys.retain(|_, earlier| *earlier >= at - MARKED);
        let latest = keys.entry((network, key)).or_insert(at);
        *latest = at.max(*latest);
        drop(keys);
        let at = Duration::from_secs(u64::try_from(at).unwrap_or(0));
        relay.cut_off(&self.ticket_key(), NetworkTag(network.0), id, key, at);
    }
}

/// The key of these bytes of the database.
pub(super) fn signer(seed: [u8; 32]) -> Option<SigningKey> {
    SigningKey::from_seed(seed)
}

//! Tickets: leave to use the network's relays, which they check without asking anybody (protocol.md 6.2).
//!
//! One Ed25519 key signs those of all networks; a ticket names its network, and relays let members of one network meet each other only.
//! Nothing of a ticket is stored: every channel gets a fresh one. Whoever is removed gets none any more, and the last one ends by itself.

use taut_base::{NodeId, PublicKey, encode_base64url};
use taut_relay::{NetworkTag, SigningKey, Terms, Ticket, VerifyingKey};

use super::members::member;
use super::{State, StateError};
use crate::clock::unix_now;
use crate::store::NetworkId;

/// Seconds for which a ticket is valid: two days, so that a node that was away from the coordinator over a night and a day still finds its
/// peers, and somebody who was removed is gone from all relays on the third day (protocol.md 6.2 allows 24 to 72 hours).
pub(crate) const LIFE: u32 = 48 * 3600;

/// A signed ticket.
pub(crate) struct Signed {
    /// As relays read it, base64url, in version 1: every relay takes it.
    pub(crate) text: String,
    /// The same in version 2, which also names the node.
    pub(crate) numbered: String,
    /// When it ends: seconds since 1970.
    pub(crate) expires: u64,
}

impl State {
    /// A fresh ticket for a member that binds with `bind`.
    pub(crate) async fn ticket(&self, network: NetworkId, node: NodeId, bind: PublicKey) -> Result<Signed, StateError> {
        let mut tx = self.store.read(self.party(network)).await?;
        let (network, row) = member(&mut tx, node).await?;
        let not_before = u64::try_from(unix_now()).unwrap_or(0);
        let expires = not_before + u64::from(self.ticket_life);
        let plain = Terms { network: NetworkTag(network.id.0), id: None, node: row.node_key, bind, not_before, expires };
        let sign = |terms: &Terms| encode_base64url(Ticket::sign(terms, &self.signer).as_bytes());
        let numbered = Terms { id: Some(row.id), ..plain };
        Ok(Signed { text: sign(&plain), numbered: sign(&numbered), expires })
    }

    /// How long the tickets given out now are valid, in seconds.
    pub(crate) fn ticket_life(&self) -> u32 {
        self.ticket_life
    }

    /// What relays verify tickets by: `taut-relay --trust`.
    pub(crate) fn ticket_key(&self) -> VerifyingKey {
        self.signer.verifying()
    }
}

/// The key of these bytes of the database.
pub(super) fn signer(seed: [u8; 32]) -> Option<SigningKey> {
    SigningKey::from_seed(seed)
}

//! Relay tickets: permission to use a network's relays, which relays verify without asking the coordinator (protocol.md 6.2).
//!
//! One Ed25519 key signs the tickets of all networks. A ticket names its network, and relays connect members of the same network only. Tickets are not stored;
//! every channel gets a new one. A removed node gets no more tickets. Relays refuse the tickets that the
//! node has (`revocations`); at a relay without a channel to the coordinator the last one expires after two days.

use taut_base::{NodeId, PublicKey, encode_base64url};
use taut_relay::{NetworkTag, SigningKey, Terms, Ticket, VerifyingKey};

use super::members::member;
use super::revocations::WRITTEN;
use super::{State, StateError};
use crate::clock::unix_now;
use crate::store::{NetworkId, Part};

/// Lifetime of a ticket, two days in seconds: a node that does not reach the coordinator for a day and a night still reaches its peers, and a removed node is
/// gone from all relays on the third day (protocol.md 6.2 allows 24 to 72 hours).
pub(crate) const TICKET_LIFE: u32 = 48 * 3600;

/// Time by which a revocation may be ahead of the clock, 300 s, as at the relay: it counts as made now if it is later.
const AHEAD: i64 = 300;

/// Time from a revocation to the first ticket that relays accept, 2 s: relays compare whole seconds.
const LATER: i64 = 2;

/// A signed ticket.
pub(crate) struct SignedTicket {
    /// The ticket in version 1, base64url; every relay accepts it.
    pub(crate) text: String,
    /// The ticket in version 2, which also names the node.
    pub(crate) numbered: String,
    /// Time of its expiry, in seconds since 1970.
    pub(crate) expires: u64,
}

impl State {
    /// Returns a new ticket for a member that binds with the key `bind`.
    pub(crate) async fn ticket(
        &self,
        network: NetworkId,
        node: NodeId,
        bind: PublicKey,
    ) -> Result<SignedTicket, StateError> {
        // Read before the row, so that a member that is removed meanwhile gets no ticket with a later time.
        let now = unix_now();
        let mut tx = self.store.read(self.party(network)).await?;
        let (network, row) = member(&mut tx, node).await?;
        if row.device.part() != Part::Takes {
            return Err(StateError::NoPart);
        }
        let not_before = u64::try_from(now).unwrap_or(0);
        // The machine may have joined again within the seconds in which it was removed.
        let revoked_at = tx.revoked_at(network.id, row.node_key).await?.map(|at| at.min(now + AHEAD) + WRITTEN + LATER);
        let other_relays = revoked_at.and_then(|from| u64::try_from(from).ok());
        let own_relay = self
            .relay
            .get()
            .and_then(|relay| relay.taken_from(&self.ticket_key(), NetworkTag(network.id.0), row.node_key));
        let not_before = not_before.max(own_relay.unwrap_or(0)).max(other_relays.unwrap_or(0));
        let expires = not_before + u64::from(self.ticket_life);
        let plain =
            Terms { network: NetworkTag(network.id.0), id: None, node: row.node_key, bind, not_before, expires };
        let sign = |terms: &Terms| encode_base64url(Ticket::sign(terms, &self.signer).as_bytes());
        let numbered = Terms { id: Some(row.id), ..plain };
        Ok(SignedTicket { text: sign(&plain), numbered: sign(&numbered), expires })
    }

    /// Returns the lifetime of tickets, in seconds.
    pub(crate) fn ticket_life(&self) -> u32 {
        self.ticket_life
    }

    /// Returns the key with which relays verify tickets (`taut-relay serve --trust`).
    pub(crate) fn ticket_key(&self) -> VerifyingKey {
        self.signer.verifying()
    }
}

/// Returns the signing key of a stored seed.
pub(super) fn signer(seed: [u8; 32]) -> Option<SigningKey> {
    SigningKey::from_seed(seed)
}

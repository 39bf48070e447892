//! Relay tickets: permission to use a network's relays, which relays verify without asking the coordinator (protocol.md 6.2).
//!
//! One Ed25519 key signs the tickets of all networks. A ticket names its network, and relays connect members of the same network only. Tickets are not stored;
//! every channel gets a new one. A removed node gets no more tickets. The coordinator's own relay refuses the tickets that the node has
//! ([`State::watch_relay`]); at other relays the last one expires after two days.

use std::time::Duration;

use taut_base::{NodeId, PublicKey, encode_base64url};
use taut_relay::{NetworkTag, Removal, SigningKey, Terms, Ticket, VerifyingKey};
use taut_relay_server::Removals;

use super::members::member;
use super::{State, StateError};
use crate::clock::unix_now;
use crate::store::{NetworkId, NodeRow, Party};

/// Lifetime of a ticket, two days in seconds: a node that does not reach the coordinator for a day and a night still reaches its peers, and a removed node is
/// gone from all relays on the third day (protocol.md 6.2 allows 24 to 72 hours).
pub(crate) const TICKET_LIFE: u32 = 48 * 3600;

/// Time added to a removal of an earlier run, 5 s: tickets of the member that were signed up to then are refused. A ticket may have been signed while the
/// removal was being written to disk.
const WRITTEN: i64 = 5;

/// Marks of removed nodes that are read at once at the start, 1,024: that takes some milliseconds and 100 KB.
const PAGE: u32 = 1_024;

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
        let not_before = u64::try_from(now).unwrap_or(0);
        // The machine may have joined again within the second in which it was removed.
        let taken_from = self
            .relay
            .get()
            .and_then(|relay| relay.taken_from(&self.ticket_key(), NetworkTag(network.id.0), row.node_key));
        let not_before = not_before.max(taken_from.unwrap_or(0));
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

    /// Tells the coordinator's own relay of all marks of removed nodes, and of every later removal. Marks of any age are included, because the clock may be
    /// wrong; an expired ticket is refused in any case.
    pub(crate) async fn watch_relay(&self, relay: Removals) -> Result<(), StateError> {
        // Set before the rows are read, so that the relay also learns of a removal in between.
        let relay = self.relay.get_or_init(|| relay);
        let mut last = NodeId(0);
        loop {
            let (page, read) = self.store.read(Party::Coordinator).await?.removed_nodes(last, PAGE).await?;
            let Some(read) = read else { return Ok(()) };
            last = read;
            let removals = page.iter().map(|mark| {
                removal(mark.network, Some(mark.id), mark.node_key, mark.removed_at.saturating_add(WRITTEN))
            });
            relay.cut_off(&self.ticket_key(), &removals.collect::<Vec<_>>());
        }
    }

    /// Tells the coordinator's own relay to end the binding of a former key of a member, and to refuse the tickets for it. Call it after the change was
    /// committed.
    pub(super) fn cut_key_off(&self, network: NetworkId, key: PublicKey) {
        self.cut_off(&[removal(network, None, key, unix_now())]);
    }

    /// Tells the coordinator's own relay to end the bindings of members that were removed, and to refuse the tickets that they have. Call it after the change
    /// was committed.
    pub(super) fn cut_members_off(&self, network: NetworkId, members: &[NodeRow]) {
        let now = unix_now();
        let removals: Vec<_> = members.iter().map(|row| removal(network, Some(row.id), row.node_key, now)).collect();
        self.cut_off(&removals);
    }

    fn cut_off(&self, removals: &[Removal]) {
        if let Some(relay) = self.relay.get() {
            relay.cut_off(&self.ticket_key(), removals);
        }
    }
}

fn removal(network: NetworkId, id: Option<NodeId>, key: PublicKey, at: i64) -> Removal {
    let at = Duration::from_secs(u64::try_from(at).unwrap_or(0));
    Removal { network: NetworkTag(network.0), id, key, at }
}

/// Returns the signing key of a stored seed.
pub(super) fn signer(seed: [u8; 32]) -> Option<SigningKey> {
    SigningKey::from_seed(seed)
}

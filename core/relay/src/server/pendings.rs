//! Pending binds: answered, and waiting for their first control frame. Here are their limits and the rules of eviction (fault F15).
//!
//! A member has at most [`MOST`] of them, one per address: a client asks at one address of each family and by WebSocket at the same time. The first confirmed
//! bind ends the others. An attacker that recorded binds of a member can replay them from any address. Therefore a bind with a later stamp evicts an earlier
//! one: recorded binds are earlier than the member's present one. Of several copies of one bind the first ones stay. Binds of release 0.1.0 have no stamp:
//! the last one counts, one per IP address, and any stamped bind evicts it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use taut_base::Time;

use super::occupancy::Occupancy;
use super::{Claim, Owner, Scope};
use crate::change::ClientAddress;
use crate::control::ControlLink;
use crate::frame::BOUND_LEN;

/// Time that a bind waits for its first control frame, 10 s: several retransmissions of a client on a slow path.
const WAIT: Duration = Duration::from_secs(10);
/// Maximum number of pending binds of one member, 4 (protocol.md 6.6): one for each address family, one by WebSocket, and one for a client whose NAT has just
/// changed its port.
const MOST: usize = 4;

/// A bind that was answered. The first control frame under its keys confirms it.
pub(super) struct PendingBind {
    pub(super) claim: Claim,
    /// Source address of the `bind`. The answer went only to it, so a frame under its keys proves that the client receives at this address.
    pub(super) address: ClientAddress,
    /// Whether the sender proved, by a cookie or a connection, that it receives at this address.
    pub(super) is_proven: bool,
    pub(super) link: ControlLink,
    /// The client's ephemeral key, by which a repeated `bind` is recognised.
    pub(super) ephemeral: [u8; 32],
    /// The answer, for a repeated `bind`.
    pub(super) bound: [u8; BOUND_LEN],
}

impl PendingBind {
    /// Returns the rank among the binds of a member: the stamp first, then whether the address was proven.
    fn rank(&self) -> (u64, bool) {
        (self.claim.stamp, self.is_proven)
    }
}

/// A bind that needs an entry in the table.
#[derive(Clone, Copy)]
pub(super) struct BindRequest {
    pub(super) claim: Claim,
    /// Source address of the bind.
    pub(super) address: ClientAddress,
    /// Whether the sender proved, by a cookie or a connection, that it receives at this address.
    pub(super) is_proven: bool,
    pub(super) ephemeral: [u8; 32],
}

impl BindRequest {
    /// Returns true if this bind is later than another one of its member. Of two binds without stamps the one that arrives later counts as later.
    fn is_later_than(&self, other: &PendingBind) -> bool {
        self.claim.stamp > other.claim.stamp || self.is_unstamped_like(other)
    }

    /// Returns true if this bind evicts another one of its member from the same IP address. It does only if neither has a stamp, so that recorded binds from one
    /// address take one entry in all.
    fn replaces_at_address(&self, other: &PendingBind) -> bool {
        let own = ip_of(self.address);
        own.is_some() && own == ip_of(other.address) && self.is_unstamped_like(other)
    }

    /// Returns true if this bind evicts another one of its member when the member has no free entry.
    fn evicts(&self, other: &PendingBind) -> bool {
        let own = (self.claim.stamp, self.is_proven);
        own > other.rank() || (self.is_unstamped_like(other) && self.is_proven == other.is_proven)
    }

    /// Returns true if this is another bind, and neither of the two has a stamp.
    fn is_unstamped_like(&self, other: &PendingBind) -> bool {
        (self.claim.stamp, other.claim.stamp) == (0, 0) && self.ephemeral != other.ephemeral
    }
}

/// Why there is no room for a bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// A later bind of the same member waits at this address.
    Stale,
    /// The member has no free entry, and this bind evicts none of its binds.
    Member,
    /// The table is full, and no network has more entries than this one.
    Network,
}

struct Entry {
    pending: PendingBind,
    ends: Time,
}

/// The table of pending binds, by the relay's index.
pub(super) struct PendingBinds {
    entries: BTreeMap<u32, Entry>,
    by_bind: BTreeMap<([u8; 32], ClientAddress), u32>,
    by_owner: BTreeMap<Owner, Vec<u32>>,
    /// Oldest first within each network.
    by_scope: BTreeSet<(Scope, Time, u32)>,
    by_end: BTreeSet<(Time, u32)>,
    shares: Occupancy,
    most: usize,
}

impl PendingBinds {
    /// Returns an empty table with room for `most` binds.
    pub(super) fn new(most: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            by_bind: BTreeMap::new(),
            by_owner: BTreeMap::new(),
            by_scope: BTreeSet::new(),
            by_end: BTreeSet::new(),
            shares: Occupancy::default(),
            most,
        }
    }

    /// Returns true if a bind waits under this index.
    pub(super) fn contains(&self, index: u32) -> bool {
        self.entries.contains_key(&index)
    }

    /// Returns the bind that waits under this index.
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut PendingBind> {
        self.entries.get_mut(&index).map(|entry| &mut entry.pending)
    }

    /// Returns the answer to an identical bind from this address, if it is still pending.
    pub(super) fn repeated(&self, ephemeral: [u8; 32], address: ClientAddress) -> Option<&[u8; BOUND_LEN]> {
        let index = self.by_bind.get(&(ephemeral, address))?;
        self.entries.get(index).map(|entry| &entry.pending.bound)
    }

    /// Returns the index of the bind to evict for this one, `None` if there is room without that, or why there is no room.
    pub(super) fn room(&self, request: &BindRequest) -> Result<Option<u32>, NoRoom> {
        let own = self.by_owner.get(&request.claim.owner()).map_or(&[][..], Vec::as_slice);
        let own: Vec<(u32, &Entry)> = own.iter().filter_map(|index| Some((*index, self.entries.get(index)?))).collect();
        // At one address the later bind counts.
        if let Some((index, other)) = own.iter().find(|(_, other)| other.pending.address == request.address) {
            return if request.is_later_than(&other.pending) { Ok(Some(*index)) } else { Err(NoRoom::Stale) };
        }
        if let Some((index, _)) = own.iter().find(|(_, other)| request.replaces_at_address(&other.pending)) {
            return Ok(Some(*index));
        }
        if own.len() >= MOST {
            let lowest = own.iter().min_by_key(|(index, other)| (other.pending.rank(), other.ends, *index));
            let (index, other) = lowest.ok_or(NoRoom::Member)?;
            return if request.evicts(&other.pending) { Ok(Some(*index)) } else { Err(NoRoom::Member) };
        }
        if self.entries.len() < self.most {
            return Ok(None);
        }
        let greedy = self.shares.evicts_for(request.claim.member.scope).ok_or(NoRoom::Network)?;
        Ok(self.by_scope.range((greedy, Time::ZERO, 0)..).next().map(|(_, _, index)| *index))
    }

    /// Adds a bind, for which [`Self::room`] has been made.
    pub(super) fn insert(&mut self, index: u32, pending: PendingBind, now: Time) {
        let ends = now + WAIT;
        let scope = pending.claim.member.scope;
        self.by_bind.insert((pending.ephemeral, pending.address), index);
        self.by_owner.entry(pending.claim.owner()).or_default().push(index);
        self.by_scope.insert((scope, ends, index));
        self.by_end.insert((ends, index));
        self.shares.add(scope);
        self.entries.insert(index, Entry { pending, ends });
    }

    /// Removes a bind from the table.
    pub(super) fn remove(&mut self, index: u32) -> Option<PendingBind> {
        let Entry { pending, ends } = self.entries.remove(&index)?;
        let (scope, owner) = (pending.claim.member.scope, pending.claim.owner());
        self.by_bind.remove(&(pending.ephemeral, pending.address));
        if let Some(own) = self.by_owner.get_mut(&owner) {
            own.retain(|other| *other != index);
            if own.is_empty() {
                self.by_owner.remove(&owner);
            }
        }
        self.by_scope.remove(&(scope, ends, index));
        self.by_end.remove(&(ends, index));
        self.shares.remove(scope, 1);
        Some(pending)
    }

    /// Removes all binds of a member from the table.
    pub(super) fn remove_all(&mut self, owner: &Owner) {
        for index in self.by_owner.get(owner).cloned().unwrap_or_default() {
            self.remove(index);
        }
    }

    /// Removes binds that waited for [`WAIT`].
    pub(super) fn handle_timeout(&mut self, now: Time) {
        while let Some((_, index)) = self.by_end.first().copied().filter(|(ends, _)| *ends <= now) {
            self.remove(index);
        }
    }

    /// Returns the time at which [`Self::handle_timeout`] has work to do.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.by_end.first().map(|(ends, _)| *ends)
    }
}

/// Returns the IP address of a client that is reached by UDP.
fn ip_of(address: ClientAddress) -> Option<IpAddr> {
    match address {
        ClientAddress::Udp(source) => Some(source.ip().to_canonical()),
        ClientAddress::Stream(_) => None,
    }
}

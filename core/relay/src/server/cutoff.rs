//! Members that a coordinator has removed are cut off at once, instead of when their tickets end (fault F17).
//!
//! Only the coordinator's own relay does this, because the coordinator can tell no other one. A ticket is refused if it names a node that was removed, or if it
//! was signed before its key was cut off. A key that comes with a later ticket is served: its machine has joined again.
//!
//! Entries expire by the relay's own clock, which nothing sets. The wall clock only says in which order a ticket and a removal happened, and it may have been
//! wrong at either moment: a removal is never taken as later than the moment at which the relay was told of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use taut_base::{NodeId, PublicKey, Time};

use super::{Claim, Member, Owner, Server, ServerClocks};
use crate::control::{ControlMessage, LeaveReason};
use crate::ticket::{MAX_LIFETIME, NetworkTag, VerifyingKey};

/// Tolerance for a removal that is ahead of the moment at which the relay was told of it, 300 s. It covers a clock that a time server has set back since, and
/// a removal whose time was rounded up. It is half of what relays tolerate in a ticket that is not valid yet, so that a ticket signed after the removal is
/// taken.
const AHEAD: u64 = 300;

/// A member that its coordinator has removed, or a former key of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The network in which it was a member.
    pub network: NetworkTag,
    /// The node's number; `None` if the node remains a member and only its former key is cut off.
    pub id: Option<NodeId>,
    /// The node's key.
    pub key: PublicKey,
    /// When it was removed, since 1970: tickets that were signed up to then are refused.
    pub at: Duration,
}

#[derive(Clone, Copy)]
struct Cut {
    /// When it was removed, by the coordinator's clock: seconds since 1970.
    at: u64,
    /// When the relay was told of it.
    told: Time,
}

/// The table of members and keys that are cut off.
#[derive(Default)]
pub(super) struct CutOffs {
    cuts: BTreeMap<Owner, Cut>,
    /// In the order in which the relay was told, so that each entry is looked at once when it expires.
    by_age: BTreeSet<(Time, Owner)>,
    /// Entries that were looked at to find those that expired.
    #[cfg(test)]
    examined: usize,
}

impl CutOffs {
    /// Adds an entry, which lasts as long as any ticket, and forgets those that have expired.
    fn insert(&mut self, owner: Owner, at: u64, now: Time) {
        self.expire(now);
        let former = self.cuts.insert(owner, Cut { at, told: now });
        if let Some(former) = former {
            self.by_age.remove(&(former.told, owner));
            self.cuts.insert(owner, Cut { at: at.max(former.at), told: now });
        }
        self.by_age.insert((now, owner));
    }

    fn expire(&mut self, now: Time) {
        while let Some((told, owner)) = self.by_age.first().copied() {
            #[cfg(test)]
            {
                self.examined += 1;
            }
            if now.since(told).as_secs() < MAX_LIFETIME {
                return;
            }
            self.by_age.remove(&(told, owner));
            self.cuts.remove(&owner);
        }
    }

    /// Returns the time up to which tickets of this owner are refused, by the wall clock as it is now. A removal that is ahead of the moment at which the
    /// relay was told of it was made while the clock was wrong, and counts as made at that moment.
    fn get(&self, owner: &Owner, clocks: ServerClocks) -> Option<u64> {
        let Cut { at, told } = *self.cuts.get(owner)?;
        let told = clocks.wall.saturating_sub(clocks.now.since(told)).as_secs();
        Some(if at > told.saturating_add(AHEAD) { told } else { at })
    }
}

impl Server {
    /// Ends the binding of a member that was removed, and refuses the tickets that it has. Afterwards drain
    /// [`Self::poll_output`].
    pub fn cut_off(&mut self, signer: &VerifyingKey, removal: &Removal, now: Time) {
        let Removal { network, id, key, at } = *removal;
        let member = Member::new(signer, network, key);
        for owner in [Some(Owner::new(&member, None)), id.map(|id| Owner::new(&member, Some(id)))].into_iter().flatten()
        {
            self.cut_off.insert(owner, at.as_secs(), now);
            self.pendings.remove_all(&owner);
        }
        let by_node = id.and_then(|id| self.by_node.get(&(member.scope, id)).copied());
        for slot in [self.by_member.get(&member).copied(), by_node].into_iter().flatten() {
            self.say(slot, &ControlMessage::Leave(LeaveReason::Expired));
            self.end(slot);
        }
    }

    /// Returns the earliest time of signing with which a ticket for this key is taken (seconds since 1970), if the key is cut off. A ticket for a machine that
    /// has joined again must not be signed earlier.
    pub fn taken_from(
        &self,
        signer: &VerifyingKey,
        network: NetworkTag,
        key: PublicKey,
        clocks: ServerClocks,
    ) -> Option<u64> {
        let at = self.cut_off.get(&Owner::new(&Member::new(signer, network, key), None), clocks)?;
        // One second after it, and one because the two clocks are read at another moment when the ticket is shown.
        Some(at.saturating_add(2))
    }

    /// Returns true if the coordinator has removed the member since it signed this ticket.
    pub(super) fn is_cut_off(&self, claim: &Claim, clocks: ServerClocks) -> bool {
        let by_key = self.cut_off.get(&Owner::new(&claim.member, None), clocks);
        // Numbers of nodes are never given again.
        let by_node = claim.id.and_then(|id| self.cut_off.get(&Owner::new(&claim.member, Some(id)), clocks));
        by_node.is_some() || by_key.is_some_and(|at| claim.signed <= at)
    }

    /// Returns the number of members and keys that are cut off.
    #[cfg(test)]
    pub(crate) fn cut_off_count(&self) -> usize {
        self.cut_off.cuts.len()
    }

    /// Returns the number of entries that were looked at to find those that expired.
    #[cfg(test)]
    pub(crate) fn cut_offs_examined(&self) -> usize {
        self.cut_off.examined
    }
}

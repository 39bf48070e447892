//! Cut-off of removed members: it takes effect at once, not when their tickets expire (fault F17).
//!
//! The coordinator's own relay is told of removals, and so is each relay with a channel to the coordinator. A ticket is refused if it names a removed node, or if
//! it was signed before its key was cut off. A key with a later ticket is served: its machine has joined again.
//!
//! Entries expire by the monotonic clock. The wall clock only orders tickets and removals, and it may have been wrong at either moment. Therefore a removal
//! never counts as later than the moment at which the relay was told of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use taut_base::{NodeId, PublicKey, Time};

use super::{Claim, Member, Owner, Server, ServerClocks, Signer};
use crate::control::{ControlMessage, LeaveReason};
use crate::ticket::{MAX_LIFETIME, NetworkTag, VerifyingKey};

/// Tolerance for a removal whose time is later than the moment at which the relay was told of it, 300 s. It covers a clock that a time server has set back
/// since, and rounding. It is half of the tolerance for tickets that are not valid yet, so that a ticket signed after the removal is accepted.
const AHEAD: u64 = 300;

/// Entries of one coordinator, 262,144: two for each removed node, so 131,072 nodes that were removed within three days. They take about 40 MB.
const MOST: usize = 262_144;

/// A member that its coordinator has removed, or a former key of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The network in which it was a member.
    pub network: NetworkTag,
    /// The node's number; `None` if the node remains a member and only its former key is cut off.
    pub id: Option<NodeId>,
    /// The node's key.
    pub key: PublicKey,
    /// Time of the removal, since 1970. Tickets signed up to this time are refused.
    pub at: Duration,
}

#[derive(Clone, Copy)]
struct Cut {
    /// Time of the removal by the coordinator's clock, in seconds since 1970.
    at: u64,
    /// Time at which the relay was told of it.
    told: Time,
}

/// The table of members and keys that are cut off.
#[derive(Default)]
pub(super) struct CutOffs {
    cuts: BTreeMap<Owner, Cut>,
    /// Entries of each coordinator in the order in which the relay was told, so that expiry examines only expired entries.
    by_age: BTreeMap<Signer, BTreeSet<(Time, Owner)>>,
    /// Number of entries that expiry has examined.
    #[cfg(test)]
    examined: usize,
}

impl CutOffs {
    /// Adds an entry and removes the expired ones. An entry lasts as long as the longest ticket. A known entry changes nothing, because coordinators repeat their
    /// messages. Beyond [`MOST`] entries of one coordinator, its oldest entry is removed.
    fn insert(&mut self, owner: Owner, at: u64, now: Time) {
        self.expire(now);
        let former = self.cuts.get(&owner).copied();
        if former.is_some_and(|former| at <= former.at) {
            return;
        }
        let of_signer = self.by_age.entry(owner.scope().signer).or_default();
        if let Some(former) = former {
            of_signer.remove(&(former.told, owner));
        } else if of_signer.len() >= MOST
            && let Some((_, oldest)) = of_signer.pop_first()
        {
            self.cuts.remove(&oldest);
        }
        of_signer.insert((now, owner));
        self.cuts.insert(owner, Cut { at, told: now });
    }

    fn expire(&mut self, now: Time) {
        for of_signer in self.by_age.values_mut() {
            while let Some((told, owner)) = of_signer.first().copied() {
                #[cfg(test)]
                {
                    self.examined += 1;
                }
                if now.since(told).as_secs() < MAX_LIFETIME {
                    break;
                }
                of_signer.remove(&(told, owner));
                self.cuts.remove(&owner);
            }
        }
    }

    /// Returns the time up to which tickets of this owner are refused, by the present wall clock. A removal that is dated later than the moment at which the relay
    /// was told of it was made while a clock was wrong, and counts as made at that moment.
    fn get(&self, owner: &Owner, clocks: ServerClocks) -> Option<u64> {
        let Cut { at, told } = *self.cuts.get(owner)?;
        let told = clocks.wall.saturating_sub(clocks.now.since(told)).as_secs();
        Some(if at > told.saturating_add(AHEAD) { told } else { at })
    }
}

impl Server {
    /// Ends the binding of a removed member, and refuses the tickets that were signed for it. A binding with a later ticket stays: the machine has joined again.
    /// Afterwards drain [`Self::poll_output`].
    pub fn cut_off(&mut self, signer: &VerifyingKey, removal: &Removal, clocks: ServerClocks) {
        let Removal { network, id, key, at } = *removal;
        let member = Member::new(signer, network, key);
        for owner in [Some(Owner::new(&member, None)), id.map(|id| Owner::new(&member, Some(id)))].into_iter().flatten()
        {
            self.cut_off.insert(owner, at.as_secs(), clocks.now);
            self.pendings.remove_all(&owner);
        }
        let by_node = id.and_then(|id| self.by_node.get(&(member.scope, id)).copied());
        let until = self.cut_off.get(&Owner::new(&member, None), clocks).unwrap_or(u64::MAX);
        let is_refused = |slot: &u32| {
            let binding = self.slots.get(*slot as usize).and_then(Option::as_ref);
            binding.is_some_and(|binding| binding.is_signed_until(until))
        };
        let by_key = self.by_member.get(&member).copied().filter(is_refused);
        for slot in [by_key, by_node].into_iter().flatten() {
            self.say(slot, &ControlMessage::Leave(LeaveReason::Expired));
            self.end(slot);
        }
    }

    /// Returns the earliest signing time, in seconds since 1970, at which a ticket for this key is accepted, if the key is cut off. A ticket for a machine that has
    /// joined again must not be signed earlier.
    pub fn taken_from(
        &self,
        signer: &VerifyingKey,
        network: NetworkTag,
        key: PublicKey,
        clocks: ServerClocks,
    ) -> Option<u64> {
        let at = self.cut_off.get(&Owner::new(&Member::new(signer, network, key), None), clocks)?;
        // One second more than the removal, and another one because the clocks are read again when the ticket is shown.
        Some(at.saturating_add(2))
    }

    /// Returns true if the coordinator has removed the member since it signed this ticket.
    pub(super) fn is_cut_off(&self, claim: &Claim, clocks: ServerClocks) -> bool {
        let by_key = self.cut_off.get(&Owner::new(&claim.member, None), clocks);
        // Node numbers are never reused.
        let by_node = claim.id.and_then(|id| self.cut_off.get(&Owner::new(&claim.member, Some(id)), clocks));
        by_node.is_some() || by_key.is_some_and(|at| claim.signed <= at)
    }

    /// Returns the number of members and keys that are cut off.
    #[cfg(test)]
    pub(crate) fn cut_off_count(&self) -> usize {
        self.cut_off.cuts.len()
    }

    /// Returns the number of entries that expiry has examined.
    #[cfg(test)]
    pub(crate) fn cut_offs_examined(&self) -> usize {
        self.cut_off.examined
    }
}

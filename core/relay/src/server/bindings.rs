//! Bindings: how one begins, replaces another one, and ends.

use std::collections::BTreeMap;

use taut_base::{Entropy, NodeId, PublicKey, Time};
use taut_tunnel::Bucket;

use super::channels::ChannelEnd;
use super::lanes::LaneAddress;
use super::moves::Challenge;
use super::pendings::PendingBind;
use super::{Claim, Holder, Member, Owner, Server};
use crate::change::{Change, ClientAddress};
use crate::control::{ControlLink, ControlMessage, LeaveReason};

/// The binding of a client.
pub(super) struct Binding {
    pub(super) member: Member,
    /// The node's number in its network, if the client's ticket has it.
    id: Option<NodeId>,
    pub(super) link: ControlLink,
    /// The relay's index for the client.
    index: u32,
    /// The address that the client has proven; `None` after another client proved to be at it.
    pub(super) address: Option<ClientAddress>,
    pub(super) challenge: Option<Challenge>,
    /// Lanes beyond the first, by number.
    pub(super) lanes: BTreeMap<u8, LaneAddress>,
    /// Challenges of lanes that have no answer yet, one per lane.
    pub(super) lane_challenges: BTreeMap<u8, Challenge>,
    /// Challenges that the client may still cause.
    pub(super) challenges: Bucket,
    /// The stamp of the bind that began the binding; 0 if the bind had none.
    stamp: u64,
    /// Time at which its ticket was signed, in seconds since 1970.
    signed: u64,
    /// Time at which its ticket expires.
    expires: Time,
    pub(super) heard: Time,
    /// Time of the next check.
    deadline: Time,
    /// Number of this binding, counted from the start.
    serial: u64,
    /// Its channels, by peer.
    pub(super) channels: BTreeMap<PublicKey, ChannelEnd>,
    pub(super) ids: BTreeMap<u32, PublicKey>,
}

impl Binding {
    /// Returns true if its ticket was signed at this time or earlier, in seconds since 1970.
    pub(super) fn is_signed_until(&self, time: u64) -> bool {
        self.signed <= time
    }

    /// Returns the identity that owns the binding.
    pub(super) fn owner(&self) -> Owner {
        Owner::new(&self.member, self.id)
    }
}

impl Server {
    /// Returns the bindings that a bind would replace: the one of its key, and the one of its node, which may have had another key.
    pub(super) fn bound_to(&self, claim: &Claim) -> [Option<u32>; 2] {
        let by_node = claim.id.and_then(|id| self.by_node.get(&(claim.member.scope, id)));
        [self.by_member.get(&claim.member).copied(), by_node.copied()]
    }

    /// Returns true if the bind is older than this binding. Either its stamp is not later, so it was recorded; or it shows another key of the same node, with a
    /// ticket that was signed earlier.
    pub(super) fn is_older(&self, slot: u32, claim: &Claim) -> bool {
        let Some(binding) = self.slots.get(slot as usize).and_then(Option::as_ref) else { return false };
        let is_recorded = claim.stamp != 0 && claim.stamp <= binding.stamp && claim.member == binding.member;
        let is_former_key = claim.member != binding.member && claim.signed < binding.signed;
        is_recorded || is_former_key
    }

    /// Returns true if there is room for a bind's member: it is bound already, the table is not full, or a client of another network can be evicted.
    pub(super) fn has_room_for_client(&self, claim: &Claim) -> bool {
        self.bound_to(claim).iter().any(Option::is_some)
            || self.by_member.len() < self.limits.clients
            || self.clients.evicts_for(claim.member.scope).is_some()
    }

    /// Turns a confirmed bind into a binding, and returns its slot. `None` if there is no room for it.
    pub(super) fn make_binding(
        &mut self,
        index: u32,
        pending: PendingBind,
        now: Time,
        entropy: &mut impl Entropy,
    ) -> Option<u32> {
        let Claim { member, id, .. } = pending.claim;
        let [by_key, by_node] = self.bound_to(&pending.claim);
        // The node has another key now. Peers that had opened the former key are told that it is absent.
        if let Some(former) = by_node.filter(|former| by_key != Some(*former)) {
            self.say(former, &ControlMessage::Leave(LeaveReason::Replaced));
            self.tally.replaced += 1;
            self.end(former);
        }
        let slot = match by_key {
            Some(slot) => {
                self.replace(slot, index, pending, now);
                slot
            }
            None => self.begin(index, pending, now, entropy)?,
        };
        self.by_index.insert(index, slot);
        if let Some(id) = id {
            self.set_node_id(slot, member, id);
        }
        Some(slot)
    }

    /// Sets the number of a client's node.
    fn set_node_id(&mut self, slot: u32, member: Member, id: NodeId) {
        let former = self.binding(slot).and_then(|binding| binding.id.replace(id));
        if let Some(former) = former.filter(|former| *former != id) {
            self.by_node.remove(&(member.scope, former));
        }
        self.by_node.insert((member.scope, id), slot);
    }

    /// Replaces the binding of a member that is bound already. The new one takes over the channels and numbers; the former client is told.
    fn replace(&mut self, slot: u32, index: u32, pending: PendingBind, now: Time) {
        self.say(slot, &ControlMessage::Leave(LeaveReason::Replaced));
        self.tally.replaced += 1;
        let Some(binding) = self.binding(slot) else { return };
        let former = std::mem::replace(&mut binding.index, index);
        let PendingBind { claim, address, link, .. } = pending;
        binding.link = link;
        binding.challenge = None;
        (binding.stamp, binding.signed) = (claim.stamp, claim.signed);
        binding.expires = claim.expires;
        binding.heard = now;
        let arrived: Vec<_> =
            binding.channels.iter().filter(|(_, side)| side.live).map(|(key, side)| (*key, side.id)).collect();
        self.by_index.remove(&former);
        self.doubt_lanes(slot, now);
        self.schedule(slot);
        self.put(slot, address);
        // The program may have been restarted and have lost the numbers.
        for (node, id) in arrived {
            self.say(slot, &ControlMessage::Arrived { id, node });
        }
    }

    fn begin(&mut self, index: u32, pending: PendingBind, now: Time, entropy: &mut impl Entropy) -> Option<u32> {
        let PendingBind { claim, address, link, .. } = pending;
        let Claim { member, stamp, signed, expires, .. } = claim;
        if self.by_member.len() >= self.limits.clients {
            self.make_room_for_client(member)?;
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                u32::try_from(self.slots.len() - 1).ok()?
            }
        };
        self.serial += 1;
        let serial = self.serial;
        *self.slots.get_mut(slot as usize)? = Some(Binding {
            member,
            id: None,
            link,
            index,
            address: None,
            challenge: None,
            lanes: BTreeMap::new(),
            lane_challenges: BTreeMap::new(),
            challenges: Bucket::default(),
            stamp,
            signed,
            expires,
            heard: now,
            deadline: Time::ZERO,
            serial,
            channels: BTreeMap::new(),
            ids: BTreeMap::new(),
        });
        self.by_member.insert(member, slot);
        self.by_age.insert((member.scope, serial, slot));
        self.clients.add(member.scope);
        self.schedule(slot);
        self.put(slot, address);
        self.tally.clients += 1;
        self.join_waiting(slot, &member, entropy);
        Some(slot)
    }

    /// Evicts the latest binding of the largest network, for a member of another network. `None` if no network has more than its fair share.
    fn make_room_for_client(&mut self, member: Member) -> Option<()> {
        let greedy = self.clients.evicts_for(member.scope)?;
        let latest = self.by_age.range((greedy, 0, 0)..=(greedy, u64::MAX, u32::MAX)).next_back();
        let slot = latest.map(|(_, _, slot)| *slot)?;
        self.say(slot, &ControlMessage::Leave(LeaveReason::Away));
        self.end(slot);
        self.tally.evicted += 1;
        Some(())
    }

    /// Sets the time of a binding's next check: when it or one of its lanes will have been silent for too long, or when its ticket expires.
    pub(super) fn schedule(&mut self, slot: u32) {
        let patience = self.limits.patience;
        let Some(binding) = self.binding(slot) else { return };
        let lanes = binding.lanes.values().map(|bound| bound.until).min();
        let due = lanes.into_iter().fold(binding.expires.min(binding.heard + patience), Time::min);
        let former = std::mem::replace(&mut binding.deadline, due);
        self.deadlines.remove(&(former, slot));
        self.deadlines.insert((due, slot));
    }

    /// Ends a binding whose deadline has come, or sets its next deadline.
    pub(super) fn check_deadline(&mut self, slot: u32, now: Time) {
        let patience = self.limits.patience;
        self.expire_lanes(slot, now);
        let Some(binding) = self.binding(slot) else { return };
        let (expires, silent) = (binding.expires, binding.heard + patience);
        if expires <= now {
            self.say(slot, &ControlMessage::Leave(LeaveReason::Expired));
        }
        if expires.min(silent) <= now {
            self.end(slot);
        } else {
            self.schedule(slot);
        }
    }

    /// Ends a binding. Clients with channels to it are told.
    pub(super) fn end(&mut self, slot: u32) {
        let Some(binding) = self.slots.get_mut(slot as usize).and_then(Option::take) else { return };
        let scope = binding.member.scope;
        self.by_member.remove(&binding.member);
        if let Some(id) = binding.id {
            self.by_node.remove(&(scope, id));
        }
        self.by_index.remove(&binding.index);
        self.by_age.remove(&(scope, binding.serial, slot));
        self.clients.remove(scope, 1);
        self.vacate(binding.address, Holder { slot, lane: 0 });
        self.forget_lanes(scope, slot, &binding.lanes);
        self.deadlines.remove(&(binding.deadline, slot));
        self.forget_ends(scope, binding.channels.len(), slot);
        for (node, side) in &binding.channels {
            self.close_end(&binding.member, *node, side, slot);
        }
        self.changes.push_back(Change::Gone { slot });
        self.free.push(slot);
        self.tally.clients -= 1;
        self.tally.ended += 1;
    }
}

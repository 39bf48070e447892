//! The lanes of clients beyond the first: each has an address of its own, at which the relay sends and receives data for the member's one binding.
//!
//! ```text
//! lane 3, under the binding's keys, from the lane's socket
//!   └─▶ prove, to that address, as long as the frame ── proof with its nonce, from that address ──▶ the lane is bound: Change::Lane
//!       lane 3 again, every 20 to 25 s ── lane bound ──▶ it stays bound;   90 s without it, `lane end`, or the binding's end ──▶ it ends
//! ```
//! A lane's frame proves which client made it and nothing about its source address, so the rule is that of moves ([`super::moves`]): only an address that returned a fresh
//! nonce gets anything but the challenge. Keys, numbers and the share of bytes are the binding's. An address belongs to one lane of one client.

use std::time::Duration;

use taut_base::{Entropy, Time};

use super::moves::{CHALLENGES, Challenge, RESPONSE};
use super::{Holder, Reply, Server};
use crate::change::{Change, ClientAddress};
use crate::control::{ControlMessage, NONCE_LEN};

/// Time for which the lanes of a replaced binding stay bound, 10 s. The same program, which renewed its ticket, names them again within a round trip. A program
/// that was restarted has other sockets, and its lanes at the former ones lead nowhere.
const AFTER_REPLACED: Duration = Duration::from_secs(10);

/// The proven address of a lane.
pub(super) struct LaneAddress {
    pub(super) address: ClientAddress,
    /// Time at which the lane ends unless the client names it again.
    pub(super) until: Time,
}

impl Server {
    /// Handles a client's message about a lane, which came from `address`. Other messages do nothing.
    pub(super) fn handle_lane_message(
        &mut self,
        slot: u32,
        address: ClientAddress,
        message: &ControlMessage,
        now: Time,
        entropy: &mut impl Entropy,
    ) {
        match *message {
            ControlMessage::Lane { lane } => self.handle_lane(slot, lane, address, now, entropy),
            ControlMessage::Proof { lane, nonce } => self.handle_proof(slot, lane, address, &nonce, now),
            ControlMessage::LaneEnd { lane } => self.end_lane(slot, lane),
            _ => {}
        }
    }

    /// Takes a lane's frame from `address`: prolongs the lane that is bound there, or challenges the address.
    fn handle_lane(&mut self, slot: u32, lane: u8, address: ClientAddress, now: Time, entropy: &mut impl Entropy) {
        let (until, has_lanes) = (now + self.limits.patience, self.has_lanes());
        let Some(binding) = self.binding(slot).filter(|_| has_lanes) else { return };
        if let Some(bound) = binding.lanes.get_mut(&lane).filter(|bound| bound.address == address) {
            bound.until = until;
            return self.say_lane_bound(slot, lane);
        }
        // A connection carries frames in order, so a second one would only add delay. Clients do not ask for it.
        let is_datagram = matches!(address, ClientAddress::Udp(_));
        if !is_datagram || self.by_address.get(&address).is_some_and(|holder| holder.slot == slot) {
            return;
        }
        let Some(binding) = self.binding(slot) else { return };
        if !binding.challenges.take(&CHALLENGES, now) {
            self.tally.move_rate += 1;
            return;
        }
        let waiting = binding.lane_challenges.get(&lane).filter(|challenge| challenge.is_for(address, now));
        let nonce = match waiting {
            // The first challenge may still be in flight, and its proof must be accepted.
            Some(challenge) => challenge.nonce,
            None => {
                let mut nonce = [0; NONCE_LEN];
                entropy.fill(&mut nonce);
                binding.lane_challenges.insert(lane, Challenge { address, nonce, until: now + RESPONSE });
                nonce
            }
        };
        let frame = binding.link.seal(&ControlMessage::Prove { lane, nonce });
        self.tally.challenged += 1;
        self.out.push_back(Reply::new(address, &frame));
    }

    /// Takes a nonce that a client returned from a lane's socket. If it matches the challenge and came from the challenged address, the lane is bound there.
    fn handle_proof(&mut self, slot: u32, lane: u8, address: ClientAddress, nonce: &[u8; NONCE_LEN], now: Time) {
        let Some(binding) = self.binding(slot) else { return };
        let challenge = binding.lane_challenges.get(&lane);
        if !challenge.is_some_and(|challenge| challenge.is_for(address, now) && challenge.nonce == *nonce) {
            return;
        }
        binding.lane_challenges.remove(&lane);
        // Meanwhile the client may have moved there, which only a hostile one does.
        if self.by_address.get(&address).is_some_and(|holder| holder.slot == slot)
            || !self.make_room_for_lane(slot, lane)
        {
            return;
        }
        self.end_lane(slot, lane);
        self.displace(address);
        let until = now + self.limits.patience;
        let Some(binding) = self.binding(slot) else { return };
        let scope = binding.member.scope;
        binding.lanes.insert(lane, LaneAddress { address, until });
        self.by_address.insert(address, Holder { slot, lane });
        self.lanes.add(scope);
        self.by_lane.insert((scope, slot, lane));
        self.tally.lanes += 1;
        self.schedule(slot);
        self.changes.push_back(Change::Lane { slot, lane, address: Some(address) });
        self.say_lane_bound(slot, lane);
    }

    /// Makes room for another lane. In a full table, the network with the most lanes loses one. Returns false if no network has more than its fair share.
    fn make_room_for_lane(&mut self, slot: u32, lane: u8) -> bool {
        let Some(binding) = self.binding(slot) else { return false };
        let (scope, is_known) = (binding.member.scope, binding.lanes.contains_key(&lane));
        if is_known || self.lanes.total() < self.limits.lanes {
            return true;
        }
        let Some(greedy) = self.lanes.evicts_for(scope) else { return false };
        let latest = self.by_lane.range((greedy, 0, 0)..=(greedy, u32::MAX, u8::MAX)).next_back();
        let Some((_, other, lane)) = latest.copied() else { return false };
        self.end_lane(other, lane);
        true
    }

    /// Ends a lane, if it is bound.
    pub(super) fn end_lane(&mut self, slot: u32, lane: u8) {
        let Some(binding) = self.binding(slot) else { return };
        binding.lane_challenges.remove(&lane);
        let scope = binding.member.scope;
        let Some(former) = binding.lanes.remove(&lane) else { return };
        self.forget_lane(scope, slot, lane, former.address);
        self.changes.push_back(Change::Lane { slot, lane, address: None });
    }

    /// Ends all lanes of a binding that ended. Its end is the change that concerns the forwarding tables.
    pub(super) fn forget_lanes(
        &mut self,
        scope: super::Scope,
        slot: u32,
        lanes: &std::collections::BTreeMap<u8, LaneAddress>,
    ) {
        for (lane, bound) in lanes {
            self.forget_lane(scope, slot, *lane, bound.address);
        }
    }

    fn forget_lane(&mut self, scope: super::Scope, slot: u32, lane: u8, address: ClientAddress) {
        self.vacate(Some(address), Holder { slot, lane });
        self.lanes.remove(scope, 1);
        self.by_lane.remove(&(scope, slot, lane));
        self.tally.lanes -= 1;
    }

    /// Ends the lanes that their client has not named for too long.
    pub(super) fn expire_lanes(&mut self, slot: u32, now: Time) {
        let Some(binding) = self.binding(slot) else { return };
        let over = binding.lanes.iter().filter(|(_, bound)| bound.until <= now).map(|(lane, _)| *lane);
        for lane in over.collect::<Vec<_>>() {
            self.end_lane(slot, lane);
        }
    }

    /// Has the lanes of a binding that was replaced end soon, unless the new client names them. Challenges of the former keys are void.
    pub(super) fn doubt_lanes(&mut self, slot: u32, now: Time) {
        let Some(binding) = self.binding(slot) else { return };
        binding.lane_challenges.clear();
        for bound in binding.lanes.values_mut() {
            bound.until = bound.until.min(now + AFTER_REPLACED);
        }
    }

    fn say_lane_bound(&mut self, slot: u32, lane: u8) {
        let Some(binding) = self.binding(slot) else { return };
        let Some(address) = binding.lanes.get(&lane).map(|bound| bound.address) else { return };
        let frame = binding.link.seal(&ControlMessage::LaneBound { lane });
        self.out.push_back(Reply::new(address, &frame));
    }

    /// Returns true if clients may have lanes beyond the first.
    pub(super) fn has_lanes(&self) -> bool {
        #[cfg(test)]
        if self.is_release_0_1_0 {
            return false;
        }
        self.limits.lanes > 0
    }
}

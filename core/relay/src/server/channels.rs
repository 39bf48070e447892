//! Channels between clients.

use taut_base::{Entropy, PublicKey};

use super::{Member, Scope, Server, seen};
use crate::change::Change;
use crate::control::ControlMessage;
use crate::frame::ID_BITS;

/// One client's end of a channel.
pub(super) struct ChannelEnd {
    /// The client's number for the peer.
    pub(super) id: u32,
    /// Whether this client wants the channel; otherwise only its peer does.
    wanted: bool,
    /// Whether the peer is bound and has its end.
    pub(super) live: bool,
}

impl Server {
    /// Handles a message of a client.
    pub(super) fn handle_message(&mut self, slot: u32, message: &ControlMessage, entropy: &mut impl Entropy) {
        match *message {
            ControlMessage::Ping { nonce } => {
                let seen = seen(self.binding(slot).and_then(|binding| binding.address));
                self.say(slot, &ControlMessage::Pong { nonce, seen });
            }
            ControlMessage::Open { id, node } => {
                let answer = self.open(slot, node, id, entropy);
                self.say(slot, &answer);
            }
            ControlMessage::Close { node } => self.close(slot, &node),
            ControlMessage::Leave(_) => self.end(slot),
            // A response and the messages of lanes were handled before (moves.rs, lanes.rs). The other messages are sent by relays only.
            ControlMessage::Response { .. }
            | ControlMessage::Lane { .. }
            | ControlMessage::Proof { .. }
            | ControlMessage::LaneEnd { .. }
            | ControlMessage::Prove { .. }
            | ControlMessage::LaneBound { .. }
            | ControlMessage::Challenge { .. }
            | ControlMessage::Pong { .. }
            | ControlMessage::Opened { .. }
            | ControlMessage::Absent { .. }
            | ControlMessage::Arrived { .. }
            | ControlMessage::Refused { .. } => {}
        }
    }

    /// Opens a channel from the client to `node` with the number `id`, and returns the answer.
    fn open(&mut self, slot: u32, node: PublicKey, id: u32, entropy: &mut impl Entropy) -> ControlMessage {
        let refused = ControlMessage::Refused { node };
        let Some(member) = self.binding(slot).map(|binding| binding.member) else { return refused };
        if member.node == node || !self.ensure_end(slot, node, Some(id), true, entropy) {
            return refused;
        }
        let other = Member { node, ..member };
        self.wanted.entry(other).or_default().insert(slot);
        let Some(other_slot) = self.by_member.get(&other).copied() else {
            return ControlMessage::Absent { id: self.id_of(slot, &node), node };
        };
        if self.join(slot, other_slot, entropy) {
            return ControlMessage::Opened { id: self.id_of(slot, &node), node };
        }
        self.close(slot, &node);
        refused
    }

    /// Ends the client's interest in a channel. The channel lasts while the peer wants it.
    fn close(&mut self, slot: u32, node: &PublicKey) {
        let Some(binding) = self.binding(slot) else { return };
        let other = Member { node: *node, ..binding.member };
        let own = binding.member.node;
        let Some(side) = binding.channels.get_mut(node) else { return };
        side.wanted = false;
        self.unwant(slot, &other);
        let other_slot = self.by_member.get(&other).copied();
        let is_wanted = other_slot
            .and_then(|other_slot| self.binding(other_slot))
            .and_then(|binding| binding.channels.get(&own))
            .is_some_and(|side| side.wanted);
        if !is_wanted {
            // Neither client wants the channel: both ends are removed.
            self.remove_end(slot, node);
            if let Some(other_slot) = other_slot {
                self.remove_end(other_slot, &own);
            }
        }
    }

    /// Opens the channels of all clients that wait for a member that has just been bound, and tells both ends.
    pub(super) fn join_waiting(&mut self, slot: u32, member: &Member, entropy: &mut impl Entropy) {
        let waiting: Vec<u32> =
            self.wanted.get(member).map(|slots| slots.iter().copied().collect()).unwrap_or_default();
        for other in waiting {
            if self.join(other, slot, entropy) {
                let id = self.id_of(other, &member.node);
                self.say(other, &ControlMessage::Arrived { id, node: member.node });
            }
        }
    }

    /// Handles the end of a client that had this end of a channel to `node`.
    pub(super) fn close_end(&mut self, gone: &Member, node: PublicKey, side: &ChannelEnd, slot: u32) {
        let other = Member { node, ..*gone };
        self.unwant(slot, &other);
        if side.live {
            self.tally.channels -= 1;
        }
        let Some(other_slot) = self.by_member.get(&other).copied() else { return };
        let Some(theirs) = self.binding(other_slot).and_then(|binding| binding.channels.get_mut(&gone.node)) else {
            return;
        };
        let (id, wanted, was_live) = (theirs.id, theirs.wanted, std::mem::take(&mut theirs.live));
        if was_live {
            self.tally.channels -= 1;
            self.changes.push_back(Change::Close { slot: other_slot, id });
        }
        if wanted {
            self.say(other_slot, &ControlMessage::Absent { id, node: gone.node });
        } else {
            self.remove_end(other_slot, &gone.node);
        }
    }

    /// Opens a channel between a client that wants it and a bound one. The latter is told if the channel is new to it. Returns false if it has too many channels.
    fn join(&mut self, slot: u32, other: u32, entropy: &mut impl Entropy) -> bool {
        let Some(own) = self.binding(slot).map(|binding| binding.member.node) else { return false };
        let Some(node) = self.binding(other).map(|binding| binding.member.node) else { return false };
        let known = self.binding(other).is_some_and(|binding| binding.channels.get(&own).is_some_and(|side| side.live));
        if !self.ensure_end(other, own, None, false, entropy) {
            return false;
        }
        let (id, other_id) = (self.id_of(slot, &node), self.id_of(other, &own));
        for (slot, node, id, to, to_id) in [(slot, node, id, other, other_id), (other, own, other_id, slot, id)] {
            if let Some(side) = self.binding(slot).and_then(|binding| binding.channels.get_mut(&node)) {
                let was_live = std::mem::replace(&mut side.live, true);
                self.tally.channels += u64::from(!was_live);
            }
            self.changes.push_back(Change::Open { slot, id, to, to_id });
        }
        if !known {
            self.say(other, &ControlMessage::Arrived { id: other_id, node: own });
        }
        true
    }

    /// Gives a client a number for `node`: the requested one if it is free, otherwise the present one, otherwise a random one. Returns false if the client has too
    /// many channels.
    fn ensure_end(
        &mut self,
        slot: u32,
        node: PublicKey,
        asked: Option<u32>,
        wanted: bool,
        entropy: &mut impl Entropy,
    ) -> bool {
        let most = self.limits.channels;
        let Some(binding) = self.binding(slot) else { return false };
        let has = binding.channels.get(&node).map(|side| side.id);
        let (count, scope) = (binding.channels.len(), binding.member.scope);
        if has.is_none() {
            if count >= most || !self.make_room_for_end(scope) {
                return false;
            }
            self.count_end(scope, count, slot);
        }
        let Some(binding) = self.binding(slot) else { return false };
        let is_free = |id: u32| id != 0 && id & !ID_BITS == 0 && !binding.ids.contains_key(&id);
        let id = match (asked.filter(|id| is_free(*id)), has) {
            (Some(id), _) | (None, Some(id)) => id,
            (None, None) => loop {
                let id = entropy.next_u32() & ID_BITS;
                if is_free(id) {
                    break id;
                }
            },
        };
        let side = binding.channels.entry(node).or_insert(ChannelEnd { id, wanted, live: false });
        side.wanted |= wanted;
        side.id = id;
        let was_live = side.live;
        binding.ids.insert(id, node);
        if let Some(former) = has.filter(|former| *former != id) {
            binding.ids.remove(&former);
            if was_live {
                self.changes.push_back(Change::Close { slot, id: former });
            }
        }
        true
    }

    /// Makes room for another number of this network. In a full table a channel of another network is evicted: from the network with the most numbers, and in it
    /// from the client with the most. That client opens the channel again later if it still wants it. Returns false if no network has more than its fair share.
    fn make_room_for_end(&mut self, scope: Scope) -> bool {
        if self.sides.total() < self.limits.all_channels {
            return true;
        }
        let Some(greedy) = self.sides.evicts_for(scope) else { return false };
        let busiest = self.busiest.range((greedy, 0, 0)..=(greedy, usize::MAX, u32::MAX)).next_back();
        let Some((_, _, slot)) = busiest.copied() else { return false };
        let Some(binding) = self.binding(slot) else { return false };
        let own = binding.member;
        let Some(node) = binding.channels.last_key_value().map(|(node, _)| *node) else { return false };
        let other = Member { node, ..own };
        self.unwant(slot, &other);
        self.remove_end(slot, &node);
        if let Some(other_slot) = self.by_member.get(&other).copied() {
            self.unwant(other_slot, &own);
            self.remove_end(other_slot, &own.node);
        }
        self.tally.channels_evicted += 1;
        true
    }

    /// Counts another number of a client that had `count`.
    fn count_end(&mut self, scope: Scope, count: usize, slot: u32) {
        self.busiest.remove(&(scope, count, slot));
        self.busiest.insert((scope, count + 1, slot));
        self.sides.add(scope);
    }

    /// Removes all `count` numbers of a client from the counts.
    pub(super) fn forget_ends(&mut self, scope: Scope, count: usize, slot: u32) {
        self.busiest.remove(&(scope, count, slot));
        self.sides.remove(scope, count);
    }

    /// Removes a client's end of a channel, and tells the client.
    fn remove_end(&mut self, slot: u32, node: &PublicKey) {
        let Some(binding) = self.binding(slot) else { return };
        let Some(side) = binding.channels.remove(node) else { return };
        binding.ids.remove(&side.id);
        let (scope, left) = (binding.member.scope, binding.channels.len());
        self.busiest.remove(&(scope, left + 1, slot));
        if left > 0 {
            self.busiest.insert((scope, left, slot));
        }
        self.sides.remove(scope, 1);
        self.say(slot, &ControlMessage::Absent { id: side.id, node: *node });
        if side.live {
            self.tally.channels -= 1;
            self.changes.push_back(Change::Close { slot, id: side.id });
        }
    }

    fn unwant(&mut self, slot: u32, other: &Member) {
        if let Some(slots) = self.wanted.get_mut(other) {
            slots.remove(&slot);
            if slots.is_empty() {
                self.wanted.remove(other);
            }
        }
    }

    fn id_of(&mut self, slot: u32, node: &PublicKey) -> u32 {
        self.binding(slot).and_then(|binding| binding.channels.get(node)).map_or(0, |side| side.id)
    }
}

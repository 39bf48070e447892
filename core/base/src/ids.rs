//! Numeric identifiers.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Entropy;

/// A node's number in its network, assigned by the coordinator and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A relay's number in its network, assigned by the coordinator and never reused. 0 is the coordinator's own relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RelayId(pub u32);

impl fmt::Display for RelayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A peer's number in a running daemon, shared by lanes and agent. Never reused while the daemon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

impl PeerId {
    /// Returns the lane, of `lanes`, that a peer belongs to where each peer has one lane: peers take turns.
    pub fn only_lane(self, lanes: u8) -> LaneId {
        LaneId(u8::try_from(self.0 % u32::from(lanes.max(1))).unwrap_or(0))
    }
}

/// A session's number in a running daemon. Never reused, so that no session is added twice (protocol.md 1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// A lane, `0..MAX_LANES`. A node's lane is one core's share of its data plane; a session's lane is a set of key pairs with its own counters. A session has as
/// many lanes as the node with more of them (protocol.md 1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u8);

impl LaneId {
    /// The lane that every session has, and the only one with a native peer.
    pub const FIRST: Self = Self(0);

    /// Returns the lane of a node with `own` lanes that serves this lane of a session.
    pub fn served_by(self, own: u8) -> Self {
        Self(self.0 % own.max(1))
    }

    /// Returns the lanes of a session with `lanes` lanes that this lane of a node with `own` lanes serves.
    pub fn serves(self, own: u8, lanes: u8) -> impl Iterator<Item = Self> {
        (self.0..lanes).step_by(usize::from(own.max(1))).map(Self)
    }
}

/// The 32-bit number in a packet by which its receiver finds the session (WireGuard paper, section 5.4): the lane in the low 4 bits, 28 random bits above
/// (protocol.md 1.5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReceiverIndex(pub u32);

impl ReceiverIndex {
    const LANE_BITS: u32 = 4;
    const LANE_MASK: u32 = (1 << Self::LANE_BITS) - 1;

    /// Returns a random index with lane 0. The caller draws again if the index is in use (fault A13).
    pub fn draw(entropy: &mut impl Entropy) -> Self {
        Self(entropy.next_u32() & !Self::LANE_MASK)
    }

    /// Returns the index of the same session on another lane.
    pub fn on_lane(self, lane: LaneId) -> Self {
        Self((self.0 & !Self::LANE_MASK) | (u32::from(lane.0) & Self::LANE_MASK))
    }

    /// Returns the lane of this index.
    pub fn lane(self) -> LaneId {
        LaneId(u8::try_from(self.0 & Self::LANE_MASK).unwrap_or(0))
    }
}

impl fmt::Debug for ReceiverIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_of_a_session_has_one_owner_on_each_side() {
        for own in 1..=16 {
            for lanes in 1..=16 {
                let served: Vec<_> = (0..own).flat_map(|lane| LaneId(lane).serves(own, lanes)).collect();
                assert_eq!(served.len(), usize::from(lanes));
                for lane in 0..own {
                    assert!(LaneId(lane).serves(own, lanes).all(|served| served.served_by(own) == LaneId(lane)));
                }
            }
        }
    }

    #[test]
    fn the_lane_is_in_the_low_four_bits() {
        let mut ones = |bytes: &mut [u8]| bytes.fill(0xff);
        let index = ReceiverIndex::draw(&mut ones);
        assert_eq!(index.0, 0xffff_fff0);
        assert_eq!(index.lane(), LaneId::FIRST);
        assert_eq!(index.on_lane(LaneId(7)).0, 0xffff_fff7);
        assert_eq!(index.on_lane(LaneId(7)).lane(), LaneId(7));
        assert_eq!(index.on_lane(LaneId(7)).on_lane(LaneId(0)), index);
    }
}

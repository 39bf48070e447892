//! The rule that decides which peers a member's map contains. Maps and deltas both use it, and no other code decides that.
//!
//! Members that see the same peers have the same audience, and share the deltas that are made for it. If every member may reach every other, all members that take part are
//! one audience; under any other policy each member is an audience of its own. A node that does not take part (it waits for its approval, is disabled or has expired) sees no
//! peers, and no peer sees it. A peer that changes while it is hidden is removed from the map.

use taut_base::NodeId;

use super::enforced::Enforced;
use crate::store::{NodeRow, Part};

/// A group of members that see the same peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Audience {
    /// All nodes that take part in a network in which every node may reach every other.
    Members,
    /// One node that takes part in a network with a narrower policy.
    Alone(NodeId),
    /// Nodes that do not take part.
    Outside,
}

impl Audience {
    /// Returns the audience of a member.
    pub(super) fn of(member: &NodeRow, enforced: &Enforced) -> Self {
        match member.device.part() {
            Part::Takes if enforced.is_open() => Self::Members,
            Part::Takes => Self::Alone(member.id),
            _ => Self::Outside,
        }
    }

    /// Returns true if this audience sees the peer.
    pub(super) fn sees(self, peer: &NodeRow, enforced: &Enforced) -> bool {
        let takes_part = peer.device.part() == Part::Takes;
        match self {
            Self::Members => takes_part,
            Self::Alone(node) => takes_part && enforced.shows(node, peer.id),
            Self::Outside => false,
        }
    }

    /// Returns true if this audience is told that the peer is an exit node: the policy lets it use that.
    pub(super) fn may_use_exit(self, peer: &NodeRow, enforced: &Enforced) -> bool {
        matches!(self, Self::Alone(node) if enforced.may_use_exit(node, peer.id))
    }
}

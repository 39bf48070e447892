//! The rule that decides which peers a member's map contains. Maps and deltas both use it, and no other code decides that.
//!
//! Members that see the same peers have the same audience, and share the deltas that are made for it. All members that take part in a network see each other. A
//! node that does not take part (it waits for its approval, is disabled or has expired) sees nobody, and nobody sees it. A rule that shows less returns more
//! audiences and hides peers from some of them; a peer that changes while it is hidden is removed from the map.

use crate::store::{NodeRow, Part};

/// A group of members that see the same peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Audience {
    /// Nodes that take part.
    Members,
    /// Nodes that do not.
    Outside,
}

impl Audience {
    /// Returns the audience of a member.
    pub(super) fn of(member: &NodeRow) -> Self {
        if member.device.part() == Part::Takes { Self::Members } else { Self::Outside }
    }

    /// Returns true if this audience sees the peer.
    pub(super) fn sees(self, peer: &NodeRow) -> bool {
        self == Self::Members && peer.device.part() == Part::Takes
    }
}

//! The rule that decides which peers a member's map contains. Maps and deltas both use it, and no other code decides that.
//!
//! Members that see the same peers have the same audience, and share the deltas that are made for it. All members of a network see each other, so a network has one
//! audience. A rule that shows less returns more audiences and hides peers from some of them; a peer that changes while it is hidden is removed from the map.

use crate::store::NodeRow;

/// A group of members that see the same peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Audience;

impl Audience {
    /// Returns the audience of a member.
    pub(super) fn of(_member: &NodeRow) -> Self {
        Self
    }

    /// Returns true if this audience sees the peer.
    pub(super) fn sees(self, _peer: &NodeRow) -> bool {
        true
    }
}

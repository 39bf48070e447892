//! Members that a coordinator has removed are cut off at once, instead of when their tickets end (fault F17).
//!
//! Only the coordinator's own relay does this, because the coordinator can tell no other one. A ticket is refused if it names a node that was removed, or if it
//! was signed before its key was cut off. A key that comes with a later ticket is served: its machine has joined again.

use std::time::Duration;

use taut_base::{NodeId, PublicKey};

use super::{Claim, Member, Owner, Server};
use crate::control::{Message, Why};
use crate::ticket::{MAX_LIFETIME, NetworkTag, VerifyingKey};

impl Server {
    /// Ends the binding of a member that was removed at `at` (since 1970), and refuses the tickets that it has. `id` is the node's number; `None` if the node
    /// remains a member and only its former key is cut off. Afterwards carry out [`Self::poll_change`] and send [`Self::poll_reply`].
    pub fn cut_off(
        &mut self,
        signer: &VerifyingKey,
        network: NetworkTag,
        id: Option<NodeId>,
        key: PublicKey,
        at: Duration,
    ) {
        let member = Member::new(signer, network, key);
        let (at, oldest) = (at.as_secs(), at.as_secs().saturating_sub(MAX_LIFETIME));
        // Of members that were removed earlier all tickets have ended.
        self.cut_off.retain(|_, at| *at >= oldest);
        for owner in [Some(Owner::new(&member, None)), id.map(|id| Owner::new(&member, Some(id)))].into_iter().flatten()
        {
            self.cut_off.insert(owner, at);
            self.pendings.remove_all(&owner);
        }
        let by_node = id.and_then(|id| self.by_node.get(&(member.scope, id)).copied());
        for slot in [self.by_member.get(&member).copied(), by_node].into_iter().flatten() {
            self.say(slot, &Message::Leave(Why::Expired));
            self.end(slot);
        }
    }

    /// Returns true if the coordinator has removed the member since it signed this ticket.
    pub(super) fn is_cut_off(&self, claim: &Claim) -> bool {
        let by_key = self.cut_off.get(&Owner::new(&claim.member, None));
        // Numbers of nodes are never given again.
        let by_node = claim.id.is_some_and(|id| self.cut_off.contains_key(&Owner::new(&claim.member, Some(id))));
        by_node || by_key.is_some_and(|at| claim.signed <= *at)
    }

    /// Returns the number of members and keys that are cut off.
    #[cfg(test)]
    pub(crate) fn cut_off_count(&self) -> usize {
        self.cut_off.len()
    }
}

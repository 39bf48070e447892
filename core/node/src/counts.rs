//! What became of the initiations that reached the node.

/// Counts since the node began. What a lane drops before is counted there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandshakeCounts {
    /// Initiations that were computed for: one Diffie-Hellman each, which tells who they are from.
    pub computed: u64,
    /// Of these, answered by a response that makes a session: three more.
    pub answered: u64,
    /// Of these, copies that got the same response again.
    pub repeated: u64,
    /// Initiations dropped because a limit was reached, of all (not computed for) or of their peer (computed for).
    pub over_limit: u64,
}
